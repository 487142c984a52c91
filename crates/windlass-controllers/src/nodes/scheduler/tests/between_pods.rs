use super::*;

fn zones() -> Cluster {
    Cluster::of([
        node("a1", &json!({"zone": "a", "host": "a1"})),
        node("a2", &json!({"zone": "a", "host": "a2"})),
        node("b1", &json!({"zone": "b", "host": "b1"})),
        node("none", &json!({"host": "none"})),
    ])
}

fn term(key: &str, app: &str) -> Value {
    json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}})
}

fn required(kind: &str, terms: &[Value]) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

/// Returns a pod with the label `app: web`.
fn web(name: &str, spec: Value) -> Value {
    let mut pod = pod(name, "100m", spec);
    pod["metadata"]["labels"]["app"] = json!("web");
    pod
}

fn spread(key: &str, more: &Value) -> Value {
    let mut constraint = json!({"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}});
    constraint.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"topologySpreadConstraints": [constraint]})
}

#[test]
fn affinity_needs_a_matching_pod_in_the_domain() {
    let mut cluster = zones();
    let near = pod("p", "1", required("podAffinity", &[term("zone", "db")]));
    assert_eq!(cluster.reasons(&near), "4 node(s) didn't match pod affinity rules");
    cluster.place(&pod("db", "1", json!({})), "b1");
    assert_eq!(cluster.outcome(&near), "b1");
    cluster.core.snapshot.remove(&ObjectKey::new("db").within("n"));
    assert_eq!(cluster.reasons(&near), "4 node(s) didn't match pod affinity rules");
}

#[test]
fn first_pod_of_a_group_satisfies_its_own_affinity() {
    let mut cluster = zones();
    let own = |name: &str| web(name, required("podAffinity", &[term("zone", "web")]));
    assert_eq!(cluster.schedule(&own("1")), "a1");
    assert_eq!(cluster.schedule(&own("2")), "a2", "the second one joins the zone of the first");
    let far = web(
        "3",
        json!({"nodeSelector": {"zone": "b"},
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term("zone", "web")]}}}),
    );
    assert_eq!(
        cluster.reasons(&far),
        "1 node(s) didn't match pod affinity rules, 3 node(s) didn't match Pod's node affinity/selector"
    );
}

#[test]
fn pods_match_all_affinity_terms_together() {
    let mut cluster = zones();
    let two = pod("p", "100m", required("podAffinity", &[term("zone", "db"), term("host", "web")]));
    cluster.place(&pod("db", "1", json!({})), "a1");
    cluster.place(&web("w", json!({})), "a1");
    assert_eq!(cluster.reasons(&two), "4 node(s) didn't match pod affinity rules");
}

#[test]
fn anti_affinity_holds_in_both_directions() {
    let mut cluster = zones();
    let apart = |name: &str| web(name, required("podAntiAffinity", &[term("zone", "web")]));
    assert_eq!(cluster.schedule(&apart("1")), "a1");
    assert_eq!(cluster.schedule(&apart("2")), "b1");
    assert_eq!(cluster.schedule(&apart("3")), "none", "a node without the label is in no domain");
    let plain = web("4", json!({"nodeSelector": {"zone": "a"}}));
    assert_eq!(
        cluster.reasons(&plain),
        "2 node(s) didn't match Pod's node affinity/selector, \
         2 node(s) didn't satisfy existing pods anti-affinity rules"
    );
    let other = pod("other", "1", required("podAntiAffinity", &[term("host", "web")]));
    assert_eq!(cluster.schedule(&other), "a2");
    cluster.place(&web("5", json!({})), "a2");
    let again = pod("again", "0", required("podAntiAffinity", &[term("host", "web")]));
    assert_eq!(cluster.reasons(&again), "4 node(s) didn't match pod anti-affinity rules");
}

#[test]
fn namespaces_of_a_term_are_named_or_selected() {
    let mut cluster = zones();
    let mut foreign = pod("db", "1", json!({}));
    foreign["metadata"]["namespace"] = json!("other");
    cluster.place(&foreign, "b1");
    let near = |more: Value| {
        let mut term = term("zone", "db");
        term.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        pod("p", "1", required("podAffinity", &[term]))
    };
    let mismatch = "4 node(s) didn't match pod affinity rules";
    assert_eq!(cluster.reasons(&near(json!({}))), mismatch);
    assert_eq!(cluster.outcome(&near(json!({"namespaces": ["other"]}))), "b1");
    assert_eq!(cluster.outcome(&near(json!({"namespaceSelector": {}}))), "b1");
    let selecting = near(json!({"namespaceSelector": {"matchLabels": {"team": "x"}}}));
    cluster.core.snapshot.set_namespace("other", Some(vec![("team".into(), "y".into())]));
    assert_eq!(cluster.reasons(&selecting), mismatch);
    cluster.core.snapshot.set_namespace("other", Some(vec![("team".into(), "x".into())]));
    assert_eq!(cluster.outcome(&selecting), "b1");
}

#[test]
fn spread_limits_the_difference_between_domains() {
    let mut cluster = zones();
    let constraint = spread("zone", &json!({}));
    let placed: Vec<_> = ["1", "2", "3"].map(|name| cluster.schedule(&web(name, constraint.clone()))).into();
    assert_eq!(placed, ["a1", "b1", "a2"]);
    let mut only_a = constraint;
    only_a["tolerations"] = json!([]);
    cluster.core.snapshot.remove_node("b1");
    cluster.core.snapshot.set_node(
        &serde_json::from_value({
            let mut full = node("b1", &json!({"zone": "b", "host": "b1"}));
            full["spec"] = json!({"taints": [{"key": "k", "effect": "NoSchedule"}]});
            full
        })
        .unwrap(),
    );
    assert_eq!(
        cluster.reasons(&web("4", only_a)),
        "1 node(s) didn't match pod topology spread constraints (missing required label), \
         1 node(s) had untolerated taint(s), 2 node(s) didn't match pod topology spread constraints"
    );
    // A node with a taint does not count if the constraint says so.
    assert_eq!(cluster.outcome(&web("4", spread("zone", &json!({"nodeTaintsPolicy": "Honor"})))), "a1");
}

#[test]
fn spread_counts_selected_nodes_unless_told_to_ignore_the_selector() {
    let mut cluster = zones();
    cluster.place(&web("1", json!({})), "a1");
    let mut selecting = spread("zone", &json!({}));
    selecting["nodeSelector"] = json!({"zone": "a"});
    assert_eq!(cluster.outcome(&web("2", selecting)), "a2");
    let mut ignoring = spread("zone", &json!({"nodeAffinityPolicy": "Ignore"}));
    ignoring["nodeSelector"] = json!({"zone": "a"});
    assert_eq!(
        cluster.reasons(&web("2", ignoring)),
        "2 node(s) didn't match Pod's node affinity/selector, 2 node(s) didn't match pod topology spread constraints"
    );
}

#[test]
fn too_few_domains_count_as_an_empty_one() {
    let mut cluster = zones();
    cluster.place(&web("1", json!({})), "a1");
    cluster.place(&web("2", json!({})), "b1");
    assert_eq!(cluster.outcome(&web("3", spread("zone", &json!({"minDomains": 2})))), "a2");
    assert_eq!(
        cluster.reasons(&web("3", spread("zone", &json!({"minDomains": 3})))),
        "1 node(s) didn't match pod topology spread constraints (missing required label), \
         3 node(s) didn't match pod topology spread constraints"
    );
}

#[test]
fn match_label_keys_restrict_the_counted_pods() {
    let mut cluster = zones();
    let revision = |name: &str, revision: &str| {
        let mut pod = web(name, spread("zone", &json!({"matchLabelKeys": ["revision"]})));
        pod["metadata"]["labels"]["revision"] = json!(revision);
        pod["spec"]["nodeSelector"] = json!({"host": "a1"});
        pod["spec"]["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = json!("Ignore");
        pod
    };
    assert_eq!(cluster.schedule(&revision("1", "x")), "a1");
    assert_eq!(cluster.outcome(&revision("2", "y")), "a1", "the pods of another revision do not count");
    assert!(cluster.reasons(&revision("2", "x")).contains("1 node(s) didn't match pod topology spread constraints"));
}

#[test]
fn terminating_pods_count_for_affinity_but_not_for_spread() {
    let mut cluster = zones();
    let mut leaving = web("1", json!({}));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    cluster.place(&leaving, "a1");
    let mut selecting = spread("zone", &json!({"nodeAffinityPolicy": "Ignore"}));
    selecting["nodeSelector"] = json!({"host": "a1"});
    assert_eq!(cluster.outcome(&web("2", selecting)), "a1");
    let near = pod("p", "1", required("podAffinity", &[term("host", "web")]));
    assert_eq!(cluster.outcome(&near), "a1");
}
