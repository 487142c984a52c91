//! Small requests that were expensive to answer.
//!
//! Other tests count the work where it is done (`DuplicateCheck`, `Causes`, YAML aliases, the coverage of rules, the document of
//! a JSON patch). These tests answer whole requests, so large that a comparison of all pairs of items would take hours.

use std::{sync::mpsc, thread};

use super::*;

/// The number of items in a list.
const MANY: usize = 60_000;
/// The time limit for a response. Every request here takes less than a tenth of it.
const DEADLINE: Duration = Duration::from_mins(5);

/// Runs a request in a separate thread, which is abandoned if it does not finish.
fn answer<T: Send + 'static>(name: &str, ask: impl AsyncFnOnce(Fixture) -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let answer = runtime.block_on(async { ask(Fixture::new().await).await });
        drop(sender.send(answer));
    });
    receiver.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("no response to {name}"))
}

/// Creates an object and returns the error status.
fn create(plural: &'static str, object: Value) -> Result<(), Status> {
    answer(plural, async move |f: Fixture| f.create(plural, object).await.map(drop))
}

/// Creates an object that is too large to be stored, as a dry run.
fn propose(plural: &'static str, object: Value) -> Result<(), Status> {
    answer(plural, async move |f: Fixture| {
        let dry = WriteParams { dry_run: DryRun::All, ..WriteParams::default() };
        f.registry.create(&f.collection(plural), Body::Value(object), dry).await.map(drop)
    })
}

fn list(item: impl Fn(usize) -> Value) -> Value {
    (0..MANY).map(item).collect()
}

/// Asserts that an object is rejected with a bounded number of errors.
fn assert_invalid(plural: &'static str, object: Value) {
    let status = propose(plural, object).unwrap_err();
    let causes = status.details.map_or(0, |details| details.causes.len());
    assert_eq!(status.code, 422, "{plural}: {}", &status.message[..200.min(status.message.len())]);
    assert!((1..=10_001).contains(&causes), "{plural}: {causes}");
    assert!(status.message.len() < 4 << 20, "{plural}: {}", status.message.len());
}

#[test]
fn service_with_many_ports_is_created_in_time() {
    let ports = list(|index| json!({"name": format!("p{index}"), "port": 1 + index, "protocol": "TCP"}));
    propose("services", json!({"metadata": {"name": "s"}, "spec": {"ports": ports}})).unwrap();
    let ports = list(|index| json!({"name": format!("p{}", index / 2), "port": 1 + index / 2, "nodePort": 1 + index}));
    assert_invalid("services", json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": ports}}));
}

#[test]
fn lists_with_many_keys_are_checked_in_time() {
    let taints = list(|index| json!({"key": format!("k{index}"), "effect": "NoSchedule"}));
    propose("nodes", json!({"metadata": {"name": "n"}, "spec": {"taints": taints}})).unwrap();
    let drivers = list(|index| json!({"name": format!("d{index}"), "nodeID": "n"}));
    propose("csinodes", json!({"metadata": {"name": "n"}, "spec": {"drivers": drivers}})).unwrap();
    let requests = list(|index| json!({"audience": format!("a{index}"), "expirationSeconds": 600}));
    propose("csidrivers", json!({"metadata": {"name": "d"}, "spec": {"tokenRequests": requests}})).unwrap();
    let tolerations = list(|index| json!({"key": format!("k{index}"), "operator": "Exists"}));
    let class = json!({"metadata": {"name": "r"}, "handler": "h", "scheduling": {"tolerations": tolerations}});
    propose("runtimeclasses", class).unwrap();
    let limits = list(|index| json!({"type": format!("example.com/t{index}")}));
    propose("limitranges", json!({"metadata": {"name": "l"}, "spec": {"limits": limits}})).unwrap();
    let owners =
        list(|index| json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": format!("u{}", index / 2)}));
    propose("configmaps", json!({"metadata": {"name": "c", "ownerReferences": owners}})).unwrap();
}

#[test]
fn many_invalid_items_have_a_limited_response_in_time() {
    let ports = list(|index| json!({"name": format!("P{index}"), "port": 1}));
    let slice = json!({"metadata": {"name": "e"}, "addressType": "IPv4", "endpoints": [], "ports": ports});
    assert_invalid("endpointslices", slice);
    let expressions = list(|index| json!({"key": "a", "operator": format!("Odd{index}")}));
    let mut object = deployment("d");
    object["spec"]["selector"] = json!({"matchExpressions": expressions});
    assert_invalid("deployments", object);
    // Each error shows the whole list.
    let scopes = list(|index| json!(format!("Odd{index}")));
    assert_invalid("resourcequotas", json!({"metadata": {"name": "q"}, "spec": {"scopes": scopes}}));
}

#[test]
fn strategic_patches_of_long_lists_finish_in_time() {
    answer("patch", async |f: Fixture| {
        const COUNT: usize = 10_000;
        let owners = |range: &mut dyn Iterator<Item = usize>| -> Value {
            let owner = |index| json!({"uid": format!("u{index}"), "apiVersion": "v1", "kind": "Pod", "name": "p"});
            range.map(owner).collect()
        };
        let held = ["example.com/f0"];
        let metadata = json!({"name": "c", "finalizers": held, "ownerReferences": owners(&mut (0..COUNT))});
        f.create("configmaps", json!({"metadata": metadata})).await.unwrap();
        let order: Value = (0..COUNT).rev().map(|index| json!({"uid": format!("u{index}")})).collect();
        let finalizers: Value = (0..COUNT).map(|index| json!(format!("example.com/f{}", index / 2))).collect();
        let patch = json!({"metadata": {
            "finalizers": finalizers,
            "ownerReferences": owners(&mut (0..COUNT).rev()),
            "$setElementOrder/ownerReferences": order,
        }});
        let target = f.object("configmaps", "c");
        let apply = async |patch: Value| {
            let body = patch.to_string().into();
            value(&f.registry.patch(&target, PatchType::Strategic, body, WriteParams::default()).await.unwrap())
        };
        let patched = apply(patch).await;
        assert_eq!(patched.items(&["metadata", "ownerReferences"]).len(), COUNT);
        assert_eq!(patched["metadata"]["ownerReferences"][0]["uid"], format!("u{}", COUNT - 1));
        assert_eq!(patched.items(&["metadata", "finalizers"]).len(), COUNT / 2);
        let gone: Value = (0..COUNT).map(|index| json!({"$patch": "delete", "uid": format!("u{index}")})).collect();
        let patched = apply(json!({"metadata": {"ownerReferences": gone}})).await;
        assert_eq!(patched.at(&["metadata", "ownerReferences"]), None);
    });
}

#[test]
fn crds_with_many_large_patterns_are_rejected_in_time() {
    let properties: serde_json::Map<String, Value> =
        (0..20_000).map(|index| (format!("p{index}"), json!({"type": "string", "pattern": "[a-z]{1000}"}))).collect();
    let definition = |properties: Value| {
        json!({"metadata": {"name": "foos.a.io"}, "spec": {
            "group": "a.io", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": properties}}}],
        }})
    };
    let error = create("customresourcedefinitions", definition(properties.into())).unwrap_err();
    assert!(error.message.contains("the patterns of the schemas are too large together"), "{}", error.message);
    let one = json!({"p": {"type": "string", "pattern": "(a{1000}){1000}"}});
    let error = create("customresourcedefinitions", definition(one)).unwrap_err();
    assert!(error.message.contains("error parsing regexp: invalid repeat count: `{1000}`"), "{}", error.message);
}

#[test]
fn objects_above_etcds_limit_are_rejected() {
    let object = |length: usize| {
        let mut object = deployment("d");
        object["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["x".repeat(length)]);
        object
    };
    create("deployments", object(1_571_000)).unwrap();
    let error = create("deployments", object(1_573_000)).unwrap_err();
    assert_eq!((error.code, error.reason, &*error.message), (500, None, "etcdserver: request is too large"));
    let error = create("deployments", object(2_500_000)).unwrap_err();
    assert!(
        error.message.starts_with("rpc error: code = ResourceExhausted desc = trying to send"),
        "{}",
        error.message
    );
    answer("update", async move |f: Fixture| {
        f.create("deployments", object(1)).await.unwrap();
        let error = f.update("deployments", object(1_573_000)).await.unwrap_err();
        assert_eq!(error.message, "etcdserver: request is too large");
        let dry = WriteParams { dry_run: DryRun::All, ..WriteParams::default() };
        let target = f.object("deployments", "d");
        f.registry.update(&target, Body::Value(object(1_573_000)), dry).await.unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn grace_periods_overflow_like_go() {
    let f = Fixture::new().await;
    let on_node = |name: &str, grace: i64| {
        let mut object = pod(name);
        object["spec"]["nodeName"] = "n".into();
        object["spec"]["terminationGracePeriodSeconds"] = grace.into();
        object
    };
    let delete = async |name: &str, grace_period: Option<i64>| {
        let params = DeleteParams { grace_period, ..DeleteParams::default() };
        answered(&f.delete("pods", name, params).await.unwrap())["metadata"].clone()
    };
    let in_seconds = |seconds: i64| format_time(f.registry.clock().now() + jiff::SignedDuration::from_secs(seconds));
    // The real server's timestamps for these grace periods: the year 2180, one second ago, the year 1734.
    for (name, grace, after) in
        [("a", 300_000_000_000, 4_852_094_820), ("b", i64::MAX, -1), ("c", 9_223_372_037, -9_223_372_037)]
    {
        f.create("pods", on_node(name, grace)).await.unwrap();
        let marked = delete(name, None).await;
        assert_eq!(marked["deletionGracePeriodSeconds"], grace, "{name}");
        assert_eq!(marked["deletionTimestamp"], in_seconds(after), "{name}");
        let shorter = delete(name, Some(5)).await;
        assert_eq!(shorter["deletionGracePeriodSeconds"], 5, "{name}");
        delete(name, Some(0)).await;
        assert!(f.get("pods", name).await.unwrap_err().is_not_found());
    }
    f.create("pods", on_node("d", 30)).await.unwrap();
    assert_eq!(delete("d", Some(300_000_000_000)).await["deletionGracePeriodSeconds"], 300_000_000_000_i64);
    f.create("pods", on_node("e", i64::MIN)).await.unwrap();
    assert_eq!(delete("e", None).await["deletionGracePeriodSeconds"], 1);
}

#[test]
fn applies_of_long_lists_finish_in_time() {
    answer("apply", async |f: Fixture| {
        let object = |order: &mut dyn Iterator<Item = usize>| {
            let owner = |index| json!({"uid": format!("u{index}"), "apiVersion": "v1", "kind": "Pod", "name": "p"});
            let owners: Value = order.map(owner).collect();
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "ownerReferences": owners}})
        };
        f.create("configmaps", object(&mut (0..10_000))).await.unwrap();
        let params = WriteParams { field_manager: "m".into(), ..WriteParams::default() };
        let body = object(&mut (0..10_000).rev()).to_string();
        let target = f.object("configmaps", "c");
        let applied = f.registry.apply(&target, body.as_bytes(), true, params).await.unwrap();
        assert_eq!(value(&applied).items(&["metadata", "ownerReferences"]).len(), 10_000);
    });
}
