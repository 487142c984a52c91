use serde_json::{Value, json};

use super::*;

fn set(rolling: Value) -> DaemonSet {
    serde_json::from_value(json!({
        "metadata": {"name": "agent", "uid": "1"},
        "spec": {"selector": {}, "template": {}, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}},
    }))
    .unwrap()
}

fn pod(node: &str, name: &str, hash: &str, ready: bool) -> Arc<Pod> {
    let ready = if ready { "True" } else { "False" };
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"controller-revision-hash": hash}},
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap(),
    )
}

fn observed<'l>(set: &'l DaemonSet, eligibility_by_node: &[(&str, Eligibility)], pods: &[Arc<Pod>]) -> Observed<'l> {
    let eligibility_by_node =
        eligibility_by_node.iter().map(|(node, eligibility)| ((*node).to_owned(), *eligibility)).collect();
    Observed::new(set, "new", eligibility_by_node, pods, Timestamp::UNIX_EPOCH)
}

fn names(plan: &Plan) -> (Vec<&str>, Vec<&str>) {
    (plan.create.iter().map(String::as_str).collect(), plan.delete.iter().map(|pod| pod.name()).collect())
}

fn is_empty(plan: &Plan) -> bool {
    names(plan) == (vec![], vec![])
}

const ALL: [(&str, Eligibility); 3] = [("a", Eligibility::Run), ("b", Eligibility::Run), ("c", Eligibility::Run)];

#[test]
fn each_eligible_node_gets_one_pod() {
    let set = set(json!({"maxUnavailable": 1}));
    let eligibility_by_node = [
        ("a", Eligibility::Run),
        ("b", Eligibility::Run),
        ("c", Eligibility::Stay),
        ("d", Eligibility::Leave),
        ("e", Eligibility::Stay),
    ];
    let pods = [
        pod("b", "b-1", "new", true),
        pod("b", "b-2", "new", true),
        pod("c", "c-1", "new", true),
        pod("d", "d-1", "new", true),
    ];
    assert_eq!(names(&observed(&set, &eligibility_by_node, &pods).keep()), (vec!["a"], vec!["b-2", "d-1"]));
}

#[test]
fn ended_daemon_pod_is_listed_separately() {
    let set = set(json!({"maxUnavailable": 1}));
    let mut ended = pod("a", "a-1", "new", false);
    Arc::make_mut(&mut ended).status.get_or_insert_default().phase = Some("Failed".to_owned());
    let plan = observed(&set, &ALL[..1], &[ended]).keep();
    assert_eq!(names(&plan), (vec![], vec![]));
    assert_eq!(plan.ended.len(), 1);
}

#[test]
fn rolling_update_respects_max_unavailable() {
    let set = set(json!({"maxUnavailable": 1}));
    let all = [pod("a", "a-1", "old", true), pod("b", "b-1", "old", true), pod("c", "c-1", "old", true)];
    assert_eq!(names(&observed(&set, &ALL, &all).roll()), (vec![], vec!["a-1"]));
    let half = [pod("a", "a-2", "new", false), all[1].clone(), all[2].clone()];
    assert!(is_empty(&observed(&set, &ALL, &half).roll()));
    let broken = [pod("a", "a-2", "new", true), pod("b", "b-1", "old", false), all[2].clone()];
    assert_eq!(names(&observed(&set, &ALL, &broken).roll()), (vec![], vec!["b-1"]));
    assert_eq!(names(&observed(&set, &ALL, &all[..2]).roll()), (vec![], vec![]), "c is missing already");
}

#[test]
fn new_pods_come_before_old_ones_go() {
    let set = set(json!({"maxSurge": 1, "maxUnavailable": 0}));
    let all = [pod("a", "a-1", "old", true), pod("b", "b-1", "old", true), pod("c", "c-1", "old", true)];
    assert_eq!(names(&observed(&set, &ALL, &all).roll()), (vec!["a"], vec![]));
    let surging = [all.to_vec(), vec![pod("a", "a-2", "new", false)]].concat();
    let observed_surge = observed(&set, &ALL, &surging);
    assert!(is_empty(&observed_surge.roll()) && is_empty(&observed_surge.keep()));
    let over = [all.to_vec(), vec![pod("a", "a-2", "new", true)]].concat();
    assert_eq!(names(&observed(&set, &ALL, &over).keep()), (vec![], vec!["a-1"]));
    let unready = [pod("a", "a-1", "old", false), all[1].clone(), all[2].clone()];
    assert_eq!(names(&observed(&set, &ALL, &unready).roll()), (vec!["a", "b"], vec![]));
}
