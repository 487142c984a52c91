use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use parking_lot::Mutex;
use serde_json::json;

use super::{policy::Version, *};
use crate::{
    encoded::{Encoded, Style},
    storage::Revision,
};

const STANDARD: Standard = Standard { level: Level::Baseline, version: Version::Latest };

fn pod(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": spec})
}

fn summary(pods: &[Value]) -> Summary {
    let mut summary = Summary { total: pods.len(), ..Summary::default() };
    for pod in pods {
        summary.add(pod, |pod| violations(pod, STANDARD, 36));
    }
    summary
}

#[test]
fn pods_with_the_same_reasons_share_a_warning() {
    let host = || json!({"hostNetwork": true});
    let volume = || json!({"hostNetwork": true, "volumes": [{"name": "v", "hostPath": {}}]});
    let pods = [pod("z", host()), pod("fine", json!({})), pod("c", host()), pod("a", volume()), pod("m", host())];
    let expected = [
        "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
        "a: host namespaces, hostPath volumes",
        "c (and 2 other pods): host namespaces",
    ];
    assert_eq!(summary(&pods).warnings("n", STANDARD), expected);
    let expected = "c (and 1 other pod): host namespaces";
    assert_eq!(summary(&pods[..3]).warnings("n", STANDARD)[1], expected);
    assert!(summary(&pods[1..2]).warnings("n", STANDARD).is_empty());
}

#[test]
fn unchecked_pods_are_counted_in_a_warning() {
    let summary = Summary { total: 5, ..summary(&[pod("a", json!({}))]) };
    let expected = ["new PodSecurity enforce level only checked against the first 1 of 5 existing pods"];
    assert_eq!(summary.warnings("n", STANDARD), expected);
}

#[test]
fn update_is_significant_if_it_adds_containers_or_changes_images() {
    let old = pod(
        "a",
        json!({
            "containers": [{"name": "c", "image": "i"}],
            "ephemeralContainers": [{"name": "e", "image": "i"}],
        }),
    );
    let changed = |change: fn(&mut Value)| {
        let mut new = old.clone();
        change(&mut new["spec"]);
        is_significant(&new, &old)
    };
    assert!(!changed(|spec| spec["tolerations"] = json!([{"operator": "Exists"}])));
    assert!(!changed(|spec| spec["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}})));
    assert!(changed(|spec| spec["containers"][0]["image"] = "j".into()));
    assert!(changed(|spec| spec["initContainers"] = json!([{"name": "i"}])));
    assert!(changed(|spec| spec["ephemeralContainers"][0]["image"] = "j".into()));
    assert!(changed(|spec| spec["ephemeralContainers"] = json!([{"name": "f", "image": "i"}])));
    assert!(!changed(|spec| spec["ephemeralContainers"] = json!([])));
}

fn encode(pod: &Value) -> Item {
    Item { encoded: Encoded::new(pod, Style::BuiltIn), revision: Revision(1) }
}

#[tokio::test]
async fn pods_of_one_controller_are_checked_last() {
    let owned = |name: String, owner: &str| {
        let mut pod = pod(&name, json!({"hostNetwork": true}));
        pod["metadata"]["ownerReferences"] = json!([{"uid": owner, "controller": true}]);
        pod
    };
    let mut pods: Vec<Item> = (0..MAX_PODS).map(|number| encode(&owned(format!("r{number}"), "set"))).collect();
    pods.push(encode(&pod("single", json!({"hostPID": true}))));
    pods.push(encode(&pod("exempt", json!({"runtimeClassName": "x", "hostPID": true}))));
    let runtime_classes = HashSet::from(["x".to_owned()]);
    let plugin =
        PodSecurity { exemptions: Exemptions { runtime_classes, ..Exemptions::default() }, ..PodSecurity::default() };
    let checked = Mutex::new(Vec::new());
    let summary = plugin
        .summarize(pods, |pod| {
            checked.lock().push(pod.metadata.text(&["name"]).to_owned());
            violations(pod, STANDARD, 36)
        })
        .await;
    let checked = checked.into_inner();
    assert_eq!(checked[..3], ["r0", "single", "r1"]);
    assert_eq!((checked.len(), summary.total), (MAX_PODS, MAX_PODS + 1));
}

#[tokio::test]
async fn exempt_pods_and_replicas_let_other_tasks_run() {
    let exempt = pod("exempt", json!({"runtimeClassName": "x"}));
    let mut replica = pod("replica", json!({}));
    replica["metadata"]["ownerReferences"] = json!([{"uid": "set", "controller": true}]);
    let runtime_classes = HashSet::from(["x".to_owned()]);
    let plugin =
        PodSecurity { exemptions: Exemptions { runtime_classes, ..Exemptions::default() }, ..PodSecurity::default() };
    for (pod, expected) in [(exempt, vec![]), (replica, vec![false, true])] {
        let has_run = Arc::new(AtomicBool::new(false));
        let other = Arc::clone(&has_run);
        tokio::spawn(async move { other.store(true, SeqCst) });
        let checks = Mutex::new(Vec::new());
        let pods = vec![encode(&pod); PODS_PER_TURN + 1];
        let summary = plugin.summarize(pods, |_| {
            checks.lock().push(has_run.load(SeqCst));
            Vec::new()
        });
        summary.await;
        // The first replica is checked at once, the second one after all pods were read.
        assert!(checks.into_inner().starts_with(&expected));
        assert!(has_run.load(SeqCst));
    }
}

#[tokio::test(start_paused = true)]
async fn check_of_pods_ends_after_a_second() {
    let pods = vec![encode(&pod("a", json!({}))); 3 * PODS_PER_TURN];
    let plugin = PodSecurity::default();
    let (summary, ()) = tokio::join!(plugin.summarize(pods, |_| Vec::new()), tokio::time::advance(MAX_TIME));
    assert!(summary.checked < PODS_PER_TURN, "{}", summary.checked);
    assert_eq!(summary.total, 3 * PODS_PER_TURN);
}
