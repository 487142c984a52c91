//! Controllers that start with a stale cache. Surplus objects may be those of a newer specification.

use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
        batch::v1::{CronJob, Job},
        core::v1::{Node, Pod},
    },
    serde_json::{Value, json},
};
use tokio::time::{Instant, sleep};
use windlass_api::{ObjectBuilder as _, ObjectExt, Patch, Resource};
use windlass_cache::{InformerOptions, InitialSync};
use windlass_client::Client;
use windlass_controllers::{BuiltIn, Controllers};
use windlass_envtest::{Environment, Fault, RequestMatcher, Verb};

use crate::{
    LOOK, PATIENCE, create,
    workloads::{spec, template},
};

/// Starts a controller again, with a cache of `K` that stays as it is now until the fault is dropped. The first instance has
/// written the status; a new one waits until it sees its own writes.
async fn run_with_stale<K: Resource>(env: &Environment, controller: BuiltIn) -> Fault {
    let mut first = env.manager();
    Controllers::of([controller]).add_to(&mut first);
    // The clock is paused, so this is over when nothing is left to do.
    first.run(sleep(LOOK)).await.unwrap();
    let fault = env.on(RequestMatcher::any().verb(Verb::Watch).of::<K>()).hold();
    let caches = InformerOptions::default().initial_sync(InitialSync::List);
    let mut manager = env.manager_builder().caches(caches).build();
    Controllers::of([controller]).add_to(&mut manager);
    env.run(manager);
    fault.happened(1).await;
    fault
}

/// Returns the reference of an owner to itself for its objects.
async fn reference<O: Resource>(client: &Client, owner: &str) -> Value {
    let owner = client.get::<O>(owner).await.unwrap();
    let kind = O::api_resource();
    json!([{
        "apiVersion": kind.api_version(), "kind": kind.kind, "name": owner.name(), "uid": owner.uid(),
        "controller": true,
    }])
}

/// Creates an object as another instance of the controller does for a newer specification of the owner.
async fn create_owned<K: Resource>(client: &Client, owner: &Value, mut object: Value) {
    object["metadata"]["ownerReferences"] = owner.clone();
    create::<K>(client, object).await.unwrap();
}

/// Waits until the controller reads a `K` from the server after `act`, and checks that it does not send the request.
async fn only_checks<K: Resource>(env: &Environment, request: RequestMatcher, act: impl Future) {
    let check = RequestMatcher::any().verb(Verb::Get).verb(Verb::List).of::<K>();
    let requests = env.record(RequestMatcher::any());
    act.await;
    let begun = Instant::now();
    while requests.count(&check) == 0 && requests.count(&request) == 0 && begun.elapsed() < PATIENCE {
        sleep(LOOK).await;
    }
    assert!(requests.count(&check) > 0, "the controller does not read the server");
    sleep(LOOK).await;
    assert_eq!(requests.count(&request), 0, "the controller acts on the stale state: {requests:?}");
}

/// Creates a node, and a DaemonSet for nodes with a label that it does not have.
async fn create_daemon_set(client: &Client) {
    client.create(&Node::named("one")).await.unwrap();
    // A new node has the taint of nodes that are not ready.
    client.patch::<Node>("one", Patch::Merge(json!({"spec": {"taints": null}}))).await.unwrap();
    let mut of_labeled = template("a");
    of_labeled["spec"]["nodeSelector"] = json!({"agent": "wanted"});
    let set = json!({"selector": {"matchLabels": {"app": "web"}}, "template": of_labeled});
    create::<DaemonSet>(client, object("web", &set)).await.unwrap();
}

/// Returns a pod of the node.
fn pod_on(node: &str) -> Value {
    let mut pod = pod("other");
    pod["spec"]["nodeName"] = json!(node);
    pod
}

fn deletion<K: Resource>() -> RequestMatcher {
    RequestMatcher::any().verb(Verb::Delete).of::<K>()
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "a"}]},
    })
}

fn object(name: &str, spec: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

async fn change<K: Resource>(client: &Client, name: &str, spec: Value) {
    client.patch::<K>(name, Patch::Merge(json!({"spec": spec}))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stale_replica_set_loses_no_pods() {
    let env = Environment::start().await;
    let client = env.client();
    create::<ReplicaSet>(&client, object("web", &spec(1, "a"))).await.unwrap();
    let owner = reference::<ReplicaSet>(&client, "web").await;
    create_owned::<Pod>(&client, &owner, pod("first")).await;
    let stale = run_with_stale::<ReplicaSet>(&env, BuiltIn::ReplicaSet).await;
    only_checks::<ReplicaSet>(&env, deletion::<Pod>(), async {
        change::<ReplicaSet>(&client, "web", json!({"replicas": 2})).await;
        create_owned::<Pod>(&client, &owner, pod("other")).await;
    })
    .await;
    drop(stale);
    let counts = |set: &ReplicaSet| set.status.as_ref().is_some_and(|status| status.replicas == 2);
    env.eventually::<ReplicaSet>("web", counts).await;
    assert_eq!(client.list::<Pod>().within("default").await.unwrap().items.len(), 2);
    // A surplus pod of the current specification is deleted.
    change::<ReplicaSet>(&client, "web", json!({"replicas": 1})).await;
    env.eventually_all::<Pod>(|pods| pods.len() == 1).await;
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stale_stateful_set_loses_no_pods() {
    let env = Environment::start().await;
    let client = env.client();
    let mut set = spec(1, "a");
    set["serviceName"] = json!("web");
    set["podManagementPolicy"] = json!("Parallel");
    create::<StatefulSet>(&client, object("web", &set)).await.unwrap();
    let owner = reference::<StatefulSet>(&client, "web").await;
    create_owned::<Pod>(&client, &owner, pod("web-0")).await;
    let stale = run_with_stale::<StatefulSet>(&env, BuiltIn::StatefulSet).await;
    only_checks::<StatefulSet>(&env, deletion::<Pod>(), async {
        change::<StatefulSet>(&client, "web", json!({"replicas": 2})).await;
        create_owned::<Pod>(&client, &owner, pod("web-1")).await;
    })
    .await;
    drop(stale);
    change::<StatefulSet>(&client, "web", json!({"replicas": 1})).await;
    env.eventually_gone::<Pod>("web-1").await;
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stale_daemon_set_loses_no_pods() {
    let env = Environment::start().await;
    let client = env.client();
    create_daemon_set(&client).await;
    let stale = run_with_stale::<DaemonSet>(&env, BuiltIn::DaemonSet).await;
    let owner = reference::<DaemonSet>(&client, "web").await;
    only_checks::<DaemonSet>(&env, deletion::<Pod>(), async {
        change::<DaemonSet>(&client, "web", json!({"template": {"spec": {"nodeSelector": null}}})).await;
        create_owned::<Pod>(&client, &owner, pod_on("one")).await;
    })
    .await;
    drop(stale);
    let counts = |set: &DaemonSet| set.status.as_ref().is_some_and(|status| status.desired_number_scheduled == 1);
    env.eventually::<DaemonSet>("web", counts).await;
    change::<DaemonSet>(&client, "web", json!({"template": {"spec": {"nodeSelector": {"agent": "none"}}}})).await;
    // No kubelet ends it.
    env.eventually::<Pod>("other", ObjectExt::is_deleting).await;
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stale_job_loses_no_pods() {
    let env = Environment::start().await;
    let client = env.client();
    let mut pods = template("a");
    pods["spec"]["restartPolicy"] = json!("Never");
    create::<Job>(&client, object("web", &json!({"suspend": true, "template": pods}))).await.unwrap();
    let stale = run_with_stale::<Job>(&env, BuiltIn::Job).await;
    let labels = client.get::<Job>("web").await.unwrap().spec.unwrap().template.metadata.unwrap().labels;
    let owner = reference::<Job>(&client, "web").await;
    only_checks::<Job>(&env, deletion::<Pod>(), async {
        change::<Job>(&client, "web", json!({"suspend": false})).await;
        let mut pod = pod("other");
        pod["metadata"]["labels"] = json!(labels);
        pod["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
        pod["spec"]["restartPolicy"] = json!("Never");
        create_owned::<Pod>(&client, &owner, pod).await;
    })
    .await;
    drop(stale);
    let counts = |job: &Job| job.status.as_ref().is_some_and(|status| status.active == Some(1));
    env.eventually::<Job>("web", counts).await;
    change::<Job>(&client, "web", json!({"suspend": true})).await;
    env.eventually_gone::<Pod>("other").await;
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stale_deployment_loses_no_replica_set() {
    let env = Environment::start().await;
    let client = env.client();
    let mut deployment = spec(0, "a");
    deployment["revisionHistoryLimit"] = json!(0);
    // A paused deployment creates no replica set, but deletes old ones.
    deployment["paused"] = json!(true);
    create::<Deployment>(&client, object("web", &deployment)).await.unwrap();
    let owner = reference::<Deployment>(&client, "web").await;
    let stale = run_with_stale::<Deployment>(&env, BuiltIn::Deployment).await;
    only_checks::<Deployment>(&env, deletion::<ReplicaSet>(), async {
        change::<Deployment>(&client, "web", json!({"template": template("b")})).await;
        let mut set = object("other", &spec(0, "b"));
        set["metadata"]["labels"] = json!({"app": "web"});
        create_owned::<ReplicaSet>(&client, &owner, set).await;
        let status = Patch::Merge(json!({"status": {"replicas": 0, "observedGeneration": 1}}));
        client.patch::<ReplicaSet>("other", status).subresource("status").await.unwrap();
    })
    .await;
    drop(stale);
    // The replica set of an earlier template is deleted.
    change::<Deployment>(&client, "web", json!({"template": template("c")})).await;
    env.eventually_gone::<ReplicaSet>("other").await;
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stale_cron_job_begins_no_job() {
    let env = Environment::start().await;
    let client = env.client();
    let mut pods = template("a");
    pods["spec"]["restartPolicy"] = json!("Never");
    let cron = json!({"schedule": "*/2 * * * *", "jobTemplate": {"spec": {"template": pods}}});
    create::<CronJob>(&client, object("web", &cron)).await.unwrap();
    let stale = run_with_stale::<CronJob>(&env, BuiltIn::CronJob).await;
    let creation = RequestMatcher::any().verb(Verb::Create).of::<Job>();
    only_checks::<CronJob>(&env, creation, async {
        // Another instance has begun the next job, which is already deleted.
        let status = Patch::Merge(json!({"status": {"lastScheduleTime": "2200-01-01T00:00:00Z"}}));
        client.patch::<CronJob>("web", status).subresource("status").await.unwrap();
    })
    .await;
    drop(stale);
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stale_node_loses_no_daemon_pods() {
    let env = Environment::start().await;
    let client = env.client();
    create_daemon_set(&client).await;
    let stale = run_with_stale::<Node>(&env, BuiltIn::DaemonSet).await;
    let label = |value: &str| Patch::Merge(json!({"metadata": {"labels": {"agent": value}}}));
    let owner = reference::<DaemonSet>(&client, "web").await;
    only_checks::<Node>(&env, deletion::<Pod>(), async {
        client.patch::<Node>("one", label("wanted")).await.unwrap();
        create_owned::<Pod>(&client, &owner, pod_on("one")).await;
    })
    .await;
    drop(stale);
    let counts = |set: &DaemonSet| set.status.as_ref().is_some_and(|status| status.desired_number_scheduled == 1);
    env.eventually::<DaemonSet>("web", counts).await;
    client.patch::<Node>("one", label("unwanted")).await.unwrap();
    // No kubelet ends it.
    env.eventually::<Pod>("other", ObjectExt::is_deleting).await;
    env.stop().await.unwrap();
}
