use std::time::Duration;

use k8s_openapi::api::{core::v1::Event as ApiEvent, scheduling::v1::PriorityClass};
use windlass_api::{Patch, Resource};
use windlass_client::Client;
use windlass_envtest::{Environment, RequestMatcher, Verb};

use super::*;

/// An environment with a scheduler and nodes, but without kubelets.
async fn environment(nodes: &[&str]) -> Environment {
    let env = Environment::start().await;
    let mut manager = env.manager();
    add_to(&mut manager, Storage::None);
    env.run(manager);
    for (name, value) in [("high", 100), ("low", 1)] {
        create::<PriorityClass>(&env.client(), json!({"metadata": {"name": name}, "value": value})).await;
    }
    for name in nodes {
        create_node(&env.client(), name).await;
    }
    env
}

async fn create<K: Resource>(client: &Client, object: Value) {
    client.create(&serde_json::from_value::<K>(object).unwrap()).await.unwrap();
}

async fn create_node(client: &Client, name: &str) {
    let state = node(name, &json!({}));
    create::<Node>(client, state.clone()).await;
    let status = Patch::Merge(json!({"status": state["status"]}));
    client.patch::<Node>(name, status).subresource("status").await.unwrap();
    // The taint of new nodes, which a node lifecycle controller removes.
    client.patch::<Node>(name, Patch::Merge(json!({"spec": {"taints": null}}))).await.unwrap();
}

/// Returns a pod in the default namespace.
fn waiting(name: &str, cpu: &str, class: &str) -> Value {
    let mut pod = pod(name, cpu, json!({"priorityClassName": class, "terminationGracePeriodSeconds": 5}));
    pod["metadata"] = json!({"name": name, "namespace": "default", "labels": {"app": name}});
    pod["spec"]["containers"][0]["image"] = json!("a");
    pod
}

fn is_on(node: &str) -> impl FnMut(&Pod) -> bool + Send + use<'_> {
    move |pod| crate::pods::node_name(pod) == node
}

fn condition<'p>(pod: &'p Pod, of: &str) -> Option<&'p k8s_openapi::api::core::v1::PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == of)
}

fn has_message(message: &str) -> impl FnMut(&Pod) -> bool + Send + use<'_> {
    move |pod| condition(pod, "PodScheduled").and_then(|known| known.message.as_deref()) == Some(message)
}

/// Returns the reasons and messages of the events about a pod.
async fn events(env: &Environment, pod: &str) -> Vec<String> {
    // The recorder writes events in the background.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let events = env.client().list::<ApiEvent>().within("default").await.unwrap().items;
    let about = events.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(pod));
    about.map(|event| format!("{}: {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default())).collect()
}

#[tokio::test(start_paused = true)]
async fn unschedulable_pod_is_reported_and_bound_when_a_node_comes() {
    let env = environment(&["a"]).await;
    let client = env.client();
    create::<Pod>(&client, waiting("p1", "1500m", "low")).await;
    env.eventually::<Pod>("p1", is_on("a")).await;
    create::<Pod>(&client, waiting("p2", "1500m", "low")).await;
    let message = "0/1 nodes are available: 1 Insufficient cpu. \
                   preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    let reported = env.eventually::<Pod>("p2", has_message(message)).await;
    let known = condition(&reported, "PodScheduled").unwrap();
    assert_eq!((known.status.as_str(), known.reason.as_deref()), ("False", Some("Unschedulable")));
    assert_eq!(events(&env, "p2").await, [format!("FailedScheduling: {message}")]);
    create_node(&client, "b").await;
    env.eventually::<Pod>("p2", is_on("b")).await;
    assert!(events(&env, "p2").await.contains(&"Scheduled: Successfully assigned default/p2 to b".to_owned()));
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn deleted_pod_makes_room() {
    let env = environment(&["a"]).await;
    let client = env.client();
    create::<Pod>(&client, waiting("p1", "2", "low")).await;
    env.eventually::<Pod>("p1", is_on("a")).await;
    create::<Pod>(&client, waiting("p2", "2", "low")).await;
    env.eventually::<Pod>("p2", |pod| condition(pod, "PodScheduled").is_some()).await;
    client.delete::<Pod>("p1").grace_period(Duration::ZERO).await.unwrap();
    env.eventually::<Pod>("p2", is_on("a")).await;
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn failed_binding_is_forgotten_and_retried() {
    let env = environment(&["a"]).await;
    let client = env.client();
    let bindings = RequestMatcher::any().verb(Verb::Create).of::<Pod>().subresource("binding");
    let fault = env.on(bindings).once().fail(windlass_api::Status::internal("not today"));
    let begun = Instant::now();
    create::<Pod>(&client, waiting("p1", "2", "low")).await;
    env.eventually::<Pod>("p1", is_on("a")).await;
    assert_eq!(fault.hits(), 1);
    assert!(begun.elapsed() >= Duration::from_secs(1), "the pod is retried after a back-off");
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pods_are_assumed_on_their_nodes_while_bindings_are_in_progress() {
    let env = environment(&["a"]).await;
    let client = env.client();
    let bindings = RequestMatcher::any().verb(Verb::Create).of::<Pod>().subresource("binding");
    let held = env.on(bindings).delay(Duration::from_secs(10));
    create::<Pod>(&client, waiting("p1", "2", "low")).await;
    create::<Pod>(&client, waiting("p2", "2", "low")).await;
    // The second pod finds the node full, although no pod is bound.
    let second = env.eventually::<Pod>("p2", |pod| condition(pod, "PodScheduled").is_some()).await;
    assert!(condition(&second, "PodScheduled").unwrap().message.as_deref().unwrap().contains("1 Insufficient cpu"));
    assert_eq!(crate::pods::node_name(&client.get::<Pod>("p1").await.unwrap()), "");
    env.eventually::<Pod>("p1", is_on("a")).await;
    assert_eq!(held.hits(), 1);
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn preemption_nominates_marks_and_deletes() {
    let env = environment(&["a"]).await;
    let client = env.client();
    create::<Pod>(&client, waiting("victim", "1500m", "low")).await;
    env.eventually::<Pod>("victim", is_on("a")).await;
    let sent = env.record(RequestMatcher::writes().of::<Pod>().matching(|sent| sent.verb != Verb::Create));
    create::<Pod>(&client, waiting("vip", "1500m", "high")).await;
    let victim = env.eventually::<Pod>("victim", windlass_api::ObjectExt::is_deleting).await;
    let marked = condition(&victim, "DisruptionTarget").unwrap();
    assert_eq!(marked.reason.as_deref(), Some("PreemptionByScheduler"));
    let message = "default-scheduler: preempting to accommodate a higher priority pod";
    assert_eq!(marked.message.as_deref(), Some(message));
    let vip = env.eventually::<Pod>("vip", has_message("0/1 nodes are available: 1 Insufficient cpu.")).await;
    assert_eq!(vip.status.as_ref().unwrap().nominated_node_name.as_deref(), Some("a"));
    let preempted = format!("Preempted: Preempted by pod {} on node a", vip.uid().unwrap());
    assert!(events(&env, "victim").await.contains(&preempted));
    let order: Vec<_> = sent
        .requests()
        .iter()
        .map(|request| format!("{:?} {}", request.sent.verb, request.sent.name.as_deref().unwrap()))
        .collect();
    assert_eq!(order, ["Patch vip", "Patch victim", "Delete victim"]);
    // A less important pod does not take the room that becomes free.
    create::<Pod>(&client, waiting("late", "1500m", "low")).await;
    client.delete::<Pod>("victim").grace_period(Duration::ZERO).await.unwrap();
    env.eventually::<Pod>("vip", is_on("a")).await;
    assert_eq!(crate::pods::node_name(&client.get::<Pod>("late").await.unwrap()), "");
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn failure_of_an_equal_pod_does_not_stop_a_nominated_one() {
    let env = environment(&["a"]).await;
    let client = env.client();
    create::<Pod>(&client, waiting("victim", "1500m", "low")).await;
    env.eventually::<Pod>("victim", is_on("a")).await;
    let vip = |name: &str| {
        let mut pod = waiting(name, "1500m", "high");
        pod["metadata"]["labels"] = json!({"app": "vip"});
        pod
    };
    create::<Pod>(&client, vip("first")).await;
    env.eventually::<Pod>("victim", windlass_api::ObjectExt::is_deleting).await;
    client.delete::<Pod>("victim").grace_period(Duration::ZERO).await.unwrap();
    // The nominated pod is in back-off, and the room is kept for it.
    create::<Pod>(&client, vip("second")).await;
    env.eventually::<Pod>("second", |pod| condition(pod, "PodScheduled").is_some()).await;
    assert_eq!(crate::pods::node_name(&client.get::<Pod>("first").await.unwrap()), "");
    env.eventually::<Pod>("first", is_on("a")).await;
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn other_schedulers_and_gated_pods_are_left_alone() {
    let env = environment(&["a"]).await;
    let client = env.client();
    let mut foreign = waiting("foreign", "1", "low");
    foreign["spec"]["schedulerName"] = json!("mine");
    let mut gated = waiting("gated", "1", "low");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/quota"}]);
    create::<Pod>(&client, foreign).await;
    create::<Pod>(&client, gated).await;
    create::<Pod>(&client, waiting("plain", "1", "low")).await;
    env.eventually::<Pod>("plain", is_on("a")).await;
    for name in ["foreign", "gated"] {
        assert_eq!(crate::pods::node_name(&client.get::<Pod>(name).await.unwrap()), "", "{name}");
    }
    client.patch::<Pod>("gated", Patch::Merge(json!({"spec": {"schedulingGates": null}}))).await.unwrap();
    env.eventually::<Pod>("gated", is_on("a")).await;
    env.stop().await.unwrap();
}
