use k8s_openapi::{
    api::apps::v1::{DeploymentSpec, ReplicaSetSpec, ReplicaSetStatus},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn deployment(replicas: i32) -> Deployment {
    Deployment {
        metadata: ObjectMeta { name: Some("d".to_owned()), generation: Some(1), ..ObjectMeta::default() },
        spec: Some(DeploymentSpec {
            replicas: Some(replicas),
            progress_deadline_seconds: Some(600),
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

fn sets(available: i32) -> ReplicaSets {
    let new = ReplicaSet {
        metadata: ObjectMeta { name: Some("d-x".to_owned()), ..ObjectMeta::default() },
        spec: Some(ReplicaSetSpec { replicas: Some(8), ..ReplicaSetSpec::default() }),
        status: Some(ReplicaSetStatus {
            replicas: 8,
            ready_replicas: Some(available),
            available_replicas: Some(available),
            ..ReplicaSetStatus::default()
        }),
    };
    ReplicaSets { new: Some(new), old: Vec::new() }
}

fn condition<'s>(status: &'s DeploymentStatus, type_: &str) -> &'s DeploymentCondition {
    find(status.conditions.as_deref().unwrap(), type_).unwrap()
}

#[test]
fn rollout_progresses_from_created_to_available() {
    let mut d = deployment(8);
    let created = compute(&d, &sets(0), Some(&Progress::Created("d-x".to_owned())), at(0));
    assert_eq!(condition(&created, "Available").status, "False");
    d.status = Some(created);

    let under_way = compute(&d, &sets(3), None, at(5));
    assert_eq!(condition(&under_way, "Progressing").reason.as_deref(), Some("ReplicaSetUpdated"));
    assert_eq!(under_way.unavailable_replicas, Some(5));
    d.status = Some(under_way);

    let done = compute(&d, &sets(8), None, at(9));
    let progressing = condition(&done, "Progressing");
    assert_eq!(progressing.reason.as_deref(), Some("NewReplicaSetAvailable"));
    assert_eq!(progressing.message.as_deref(), Some("ReplicaSet \"d-x\" has successfully progressed."));
    assert_eq!(progressing.last_transition_time, Some(Time(at(0))), "it was True all the time");
    assert_eq!(condition(&done, "Available").status, "True");
    assert!(is_complete(&d, &done));
    d.status = Some(done.clone());
    assert_eq!(compute(&d, &sets(8), None, at(99)), done, "nothing changes when nothing happens");
}

#[test]
fn stalled_rollout_exceeds_its_deadline() {
    let mut d = deployment(8);
    d.status = Some(compute(&d, &sets(0), Some(&Progress::Created("d-x".to_owned())), at(0)));
    d.status = Some(compute(&d, &sets(3), None, at(10)));
    assert_eq!(deadline(&d, d.status.as_ref().unwrap()), Some(at(610)));
    assert_eq!(condition(&compute(&d, &sets(3), None, at(609)), "Progressing").status, "True");
    let late = compute(&d, &sets(3), None, at(610));
    assert_eq!(condition(&late, "Progressing").reason.as_deref(), Some("ProgressDeadlineExceeded"));
    assert_eq!(deadline(&d, &late), None);
}

#[test]
fn a_paused_rollout_has_no_deadline() {
    let mut d = deployment(8);
    d.status = Some(compute(&d, &sets(3), Some(&Progress::Paused), at(0)));
    assert_eq!(progressing_reason(&d), Some("DeploymentPaused"));
    assert_eq!(deadline(&d, d.status.as_ref().unwrap()), None);
}
