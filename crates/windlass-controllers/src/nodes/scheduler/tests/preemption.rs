use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::*;

fn important(name: &str, cpu: &str, priority: i32) -> Value {
    pod(name, cpu, json!({"priority": priority}))
}

/// Returns the node and the names of the victims, or the message.
fn preempts(cluster: &mut Cluster, pod: &Value) -> std::result::Result<(String, Vec<String>), String> {
    let failure = cluster.decide(pod).unwrap_err();
    match failure.nomination {
        Nomination::Preempt(victims) => {
            let node = cluster.core.snapshot.node(victims.slot).name.to_string();
            Ok((node, victims.pods.iter().map(|key| key.name.to_string()).collect()))
        }
        Nomination::Keep | Nomination::Clear => Err(failure.message),
    }
}

fn found(node: &str, victims: &[&str]) -> (String, Vec<String>) {
    (node.to_owned(), victims.iter().map(|name| (*name).to_owned()).collect())
}

fn started(mut pod: Value, time: &str) -> Value {
    pod["status"] = json!({"startTime": time});
    pod
}

fn budget(cluster: &mut Cluster, app: &str, allowed: i32) {
    let budget: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"name": app, "namespace": "n"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
    }))
    .unwrap();
    cluster.core.budgets.set(&ObjectKey::new(app).within("n"), Some(&budget));
}

#[test]
fn only_as_many_pods_as_necessary_are_deleted() {
    let mut cluster = Cluster::of([node("a", &json!({}))]);
    cluster.place(&important("low", "1", 1), "a");
    cluster.place(&important("lower", "500m", 0), "a");
    cluster.place(&important("lowest", "500m", -1), "a");
    assert_eq!(preempts(&mut cluster, &important("p", "500m", 5)), Ok(found("a", &["lowest"])));
    assert_eq!(preempts(&mut cluster, &important("p", "1", 5)), Ok(found("a", &["lower", "lowest"])));
    // The decision changes nothing.
    assert_eq!(preempts(&mut cluster, &important("p", "2", 5)), Ok(found("a", &["low", "lower", "lowest"])));
    // The message has no part about a preemption that helps.
    let message = cluster.outcome(&important("p", "2", 5));
    assert_eq!(message, "0/1 nodes are available: 1 Insufficient cpu.");
}

#[test]
fn pods_of_the_same_priority_are_not_preempted() {
    let mut cluster = Cluster::of([node("a", &json!({})), node("b", &json!({}))]);
    cluster.place(&important("x", "2", 5), "a");
    cluster.place(&important("y", "1", 5), "b");
    cluster.place(&important("z", "100m", 1), "b");
    assert_eq!(
        preempts(&mut cluster, &important("p", "2", 5)).unwrap_err(),
        "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: \
         1 Insufficient cpu, 1 No preemption victims found for incoming pod."
    );
}

#[test]
fn policy_never_prevents_preemption() {
    let mut cluster = Cluster::of([node("a", &json!({}))]);
    cluster.place(&important("x", "2", 0), "a");
    let never = pod("p", "1", json!({"priority": 5, "preemptionPolicy": "Never"}));
    assert_eq!(
        preempts(&mut cluster, &never).unwrap_err(),
        "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
    );
}

#[test]
fn node_is_chosen_by_budgets_priorities_number_and_start() {
    let early = "2026-01-01T00:00:00Z";
    let late = "2026-01-02T00:00:00Z";
    let cluster = |a: &[Value], b: &[Value]| {
        let mut cluster = Cluster::of([node("a", &json!({})), node("b", &json!({}))]);
        for pod in a {
            cluster.place(pod, "a");
        }
        for pod in b {
            cluster.place(pod, "b");
        }
        cluster
    };
    let wanting = important("p", "2", 9);
    let mut by_budget = cluster(&[important("x", "2", 0)], &[important("y", "2", 5)]);
    budget(&mut by_budget, "x", 0);
    assert_eq!(preempts(&mut by_budget, &wanting), Ok(found("b", &["y"])));
    budget(&mut by_budget, "x", 1);
    assert_eq!(preempts(&mut by_budget, &wanting), Ok(found("a", &["x"])), "then by the highest priority");
    let mut by_sum = cluster(
        &[important("x1", "1", 5), important("x2", "1", 4)],
        &[important("y1", "1", 5), important("y2", "1", 3)],
    );
    assert_eq!(preempts(&mut by_sum, &wanting), Ok(found("b", &["y1", "y2"])));
    let mut by_number = cluster(&[important("x1", "1", 5), important("x2", "1", 5)], &[important("y", "2", 5)]);
    assert_eq!(preempts(&mut by_number, &wanting), Ok(found("b", &["y"])));
    let mut by_start = cluster(&[started(important("x", "2", 5), early)], &[started(important("y", "2", 5), late)]);
    assert_eq!(preempts(&mut by_start, &wanting), Ok(found("b", &["y"])));
}

#[test]
fn pods_with_a_budget_are_kept_if_others_suffice() {
    let mut cluster = Cluster::of([node("a", &json!({}))]);
    cluster.place(&important("guarded", "1", 0), "a");
    cluster.place(&important("free", "1", 3), "a");
    budget(&mut cluster, "guarded", 0);
    assert_eq!(preempts(&mut cluster, &important("p", "1", 5)), Ok(found("a", &["free"])));
}

#[test]
fn unresolvable_nodes_are_not_considered() {
    let mut cluster = Cluster::of([node("a", &json!({"zone": "x"})), node("b", &json!({}))]);
    cluster.place(&important("x", "2", 3), "a");
    cluster.place(&important("y", "2", 0), "b");
    let selecting = pod("p", "1", json!({"priority": 5, "nodeSelector": {"zone": "x"}}));
    assert_eq!(preempts(&mut cluster, &selecting), Ok(found("a", &["x"])));
    assert!(
        preempts(&mut cluster, &important("p", "3", 5))
            .unwrap_err()
            .ends_with("preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")
    );
}

#[test]
fn victims_of_anti_affinity_and_spread_are_found() {
    let labels = |name: &str| json!({"host": name});
    let mut cluster = Cluster::of([node("a", &labels("a")), node("b", &labels("b"))]);
    let term = json!([{"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "web"}}}]);
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}});
    cluster.place(&important("web", "100m", 7), "a");
    let mut lower = important("web", "100m", 1);
    lower["metadata"]["name"] = json!("web-2");
    cluster.place(&lower, "b");
    let wanting = pod("p", "100m", json!({"priority": 5, "affinity": apart}));
    assert_eq!(preempts(&mut cluster, &wanting), Ok(found("b", &["web-2"])));
    let mut spread = pod(
        "web",
        "100m",
        json!({"priority": 5, "nodeSelector": {"host": "b"},
        "topologySpreadConstraints": [{"topologyKey": "host", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
            "nodeAffinityPolicy": "Ignore", "labelSelector": {"matchLabels": {"app": "web"}}}]}),
    );
    spread["metadata"]["name"] = json!("web-3");
    cluster.core.snapshot.remove(&ObjectKey::new("web").within("n"));
    assert_eq!(preempts(&mut cluster, &spread), Ok(found("b", &["web-2"])));
}

#[test]
fn room_of_a_nominated_pod_is_kept_for_it() {
    let mut cluster = Cluster::of([node("a", &json!({}))]);
    let (key, decoded) = decoded(&important("p", "2", 5));
    let profile = cluster.profiles.of(&decoded);
    cluster.core.nominations.set(&key, "a", &profile);
    assert_eq!(cluster.reasons(&important("equal", "1", 5)), "1 Insufficient cpu");
    assert_eq!(cluster.outcome(&important("higher", "1", 6)), "a");
    assert_eq!(cluster.outcome(&important("p", "2", 5)), "a", "it does not compete with itself");
    assert_eq!(cluster.core.nominations.below("a", 6), std::slice::from_ref(&key));
    cluster.core.nominations.remove(&key);
    assert_eq!(cluster.outcome(&important("equal", "1", 5)), "a");
}

#[test]
fn pod_waits_for_its_terminating_victims() {
    let mut cluster = Cluster::of([node("a", &json!({}))]);
    let victim = important("victim", "1", 0);
    cluster.place(&victim, "a");
    cluster.place(&important("other", "1", 1), "a");
    let wanting = important("p", "1", 5);
    let (key, preemptor) = decoded(&wanting);
    let profile = cluster.profiles.of(&preemptor);
    cluster.core.nominations.set(&key, "a", &profile);
    assert_eq!(preempts(&mut cluster, &wanting), Ok(found("a", &["victim"])));
    let (victim, _) = decoded(&victim);
    let mut leaving = cluster.core.snapshot.pod(&victim).unwrap().clone();
    (leaving.terminating, leaving.preempted) = (true, true);
    cluster.core.snapshot.place(&victim, "a", leaving);
    assert_eq!(
        preempts(&mut cluster, &wanting).unwrap_err(),
        "0/1 nodes are available: 1 Insufficient cpu. \
         preemption: not eligible due to a terminating pod on the nominated node."
    );
}
