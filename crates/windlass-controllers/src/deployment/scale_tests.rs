use k8s_openapi::{
    api::apps::v1::{DeploymentSpec, DeploymentStrategy, ReplicaSetSpec, ReplicaSetStatus, RollingUpdateDeployment},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::*;

fn deployment(replicas: i32, surge: &str, unavailable: &str) -> Deployment {
    let parse = |text: &str| match text.parse() {
        Ok(number) => IntOrString::Int(number),
        Err(_) => IntOrString::String(text.to_owned()),
    };
    let rolling = RollingUpdateDeployment { max_surge: Some(parse(surge)), max_unavailable: Some(parse(unavailable)) };
    Deployment {
        spec: Some(DeploymentSpec {
            replicas: Some(replicas),
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(rolling),
            }),
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

fn set(name: &str, replicas: i32, available: i32, max: Option<i32>) -> ReplicaSet {
    let annotations = max.map(|max| [(annotation::MAX_REPLICAS.to_owned(), max.to_string())].into());
    ReplicaSet {
        metadata: ObjectMeta { name: Some(name.to_owned()), annotations, ..ObjectMeta::default() },
        spec: Some(ReplicaSetSpec { replicas: Some(replicas), ..ReplicaSetSpec::default() }),
        status: Some(ReplicaSetStatus { available_replicas: Some(available), ..ReplicaSetStatus::default() }),
    }
}

fn sets(new: Option<ReplicaSet>, old: Vec<ReplicaSet>) -> ReplicaSets {
    ReplicaSets { new, old }
}

#[test]
fn surge_rounds_up_and_unavailable_down() {
    assert_eq!(Slack::of(&deployment(10, "25%", "25%")), Slack { surge: 3, unavailable: 2 });
    assert_eq!(Slack::of(&deployment(1, "0%", "25%")), Slack { surge: 0, unavailable: 1 });
    assert_eq!(Slack::of(&deployment(2, "1", "5")), Slack { surge: 1, unavailable: 2 });
}

#[test]
fn rollout_surges_and_scales_down_available_pods() {
    let rollout = deployment(8, "25%", "25%");
    let start = sets(Some(set("new", 0, 0, None)), vec![set("old", 8, 8, None)]);
    assert_eq!(new_replicas(&rollout, &start), 2);
    assert_eq!(old_replicas(&rollout, &start), [("old".to_owned(), 6)]);

    // No new pod is available yet: the old ones stay at the minimum.
    let waiting = sets(Some(set("new", 4, 0, None)), vec![set("old", 6, 6, None)]);
    assert_eq!(new_replicas(&rollout, &waiting), 4);
    assert_eq!(old_replicas(&rollout, &waiting), []);

    let moving = sets(Some(set("new", 4, 4, None)), vec![set("old", 6, 6, None)]);
    assert_eq!(old_replicas(&rollout, &moving), [("old".to_owned(), 2)]);
}

#[test]
fn old_pods_that_do_not_work_go_first() {
    let rollout = deployment(4, "1", "1");
    let stuck = sets(Some(set("new", 1, 1, None)), vec![set("older", 2, 0, None), set("old", 2, 2, None)]);
    assert_eq!(old_replicas(&rollout, &stuck), [("older".to_owned(), 0)]);
}

#[test]
fn scale_down_during_rollout_also_shrinks_new_set() {
    assert_eq!(new_replicas(&deployment(2, "1", "0"), &sets(Some(set("new", 5, 5, None)), vec![])), 2);
}

#[test]
fn a_change_of_size_during_a_rollout_is_shared_in_proportion() {
    // 10 desired, surge 3: 13 in all; now 20 desired, surge 5: 25 in all.
    let rollout = deployment(20, "25%", "25%");
    let middle = sets(Some(set("new", 5, 5, Some(13))), vec![set("old", 8, 8, Some(13))]);
    let mut scaled = proportional(&rollout, &middle);
    scaled.sort();
    assert_eq!(scaled.iter().map(|(_, replicas)| replicas).sum::<i32>(), 25);
    assert_eq!(scaled, [("new".to_owned(), 10), ("old".to_owned(), 15)]);
}

#[test]
fn proportional_scale_down_stops_at_zero() {
    let rollout = deployment(0, "25%", "25%");
    let middle = sets(Some(set("new", 5, 5, Some(13))), vec![set("old", 8, 8, Some(13))]);
    let mut scaled = proportional(&rollout, &middle);
    scaled.sort();
    assert_eq!(scaled, [("new".to_owned(), 0), ("old".to_owned(), 0)]);
}
