//! Tests of the controller with a paused clock, and with injected faults.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use ingress_manager::{ANNOTATION, controller};
use serde_json::{Value, from_value, json};
use windlass::{
    Client, ObjectExt as _, Patch,
    envtest::{
        Environment, RequestMatcher,
        explore::{Scenario, StepResult, explore},
    },
    k8s::{
        core::v1::{Event, Service},
        networking::v1::Ingress,
    },
};
use windlass_controllers::{BuiltIn, Controllers};

fn service(host: &str) -> Service {
    let metadata = json!({"name": "web", "namespace": "default", "annotations": {ANNOTATION: host}});
    from_value(json!({"metadata": metadata, "spec": {"ports": [{"port": 80}]}})).unwrap()
}

fn by_hand() -> Ingress {
    let backend = json!({"service": {"name": "maintenance", "port": {"number": 80}}});
    from_value(json!({"metadata": {"name": "web", "namespace": "default"}, "spec": {"defaultBackend": backend}}))
        .unwrap()
}

fn host(ingress: &Ingress) -> Option<&str> {
    ingress.spec.as_ref()?.rules.as_ref()?.first()?.host.as_deref()
}

async fn annotate(client: &Client, value: Value) -> StepResult {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {ANNOTATION: value}}}));
    client.patch::<Service>("web", patch).await?;
    Ok(())
}

async fn rewrite(client: &Client, host: &str) -> StepResult {
    client
        .patch::<Ingress>("web", Patch::Json(json!([{"op": "replace", "path": "/spec/rules/0/host", "value": host}])))
        .await?;
    Ok(())
}

async fn start() -> Environment {
    let env = Environment::start().await;
    let mut manager = env.manager();
    manager.add(controller());
    Controllers::of([BuiltIn::GarbageCollector]).add_to(&mut manager);
    env.run(manager);
    env
}

#[tokio::test(start_paused = true)]
async fn deleted_or_edited_ingress_is_restored() -> StepResult {
    let env = start().await;
    let web = env.client().create(&service("shop.example.com")).await?;
    let first = env.eventually::<Ingress>("web", |ingress| host(ingress) == Some("shop.example.com")).await;
    assert!(first.is_controlled_by(&web));

    env.client().delete::<Ingress>("web").await?;
    env.eventually::<Ingress>("web", |ingress| ingress.uid() != first.uid()).await;
    rewrite(&env.client(), "elsewhere.example.com").await?;
    env.eventually::<Ingress>("web", |ingress| host(ingress) == Some("shop.example.com")).await;
    annotate(&env.client(), json!("www.example.com")).await?;
    env.eventually::<Ingress>("web", |ingress| host(ingress) == Some("www.example.com")).await;
    annotate(&env.client(), Value::Null).await?;
    env.eventually_gone::<Ingress>("web").await;

    annotate(&env.client(), json!("true")).await?;
    env.eventually::<Ingress>("web", |ingress| host(ingress).is_none()).await;
    env.client().delete::<Service>("web").await?;
    env.eventually_gone::<Ingress>("web").await;
    Ok(env.stop().await?)
}

#[tokio::test(start_paused = true)]
async fn foreign_ingress_is_kept_and_reported() -> StepResult {
    let env = start().await;
    let theirs = env.client().create(&by_hand()).await?;
    let writes = env.record(RequestMatcher::writes().of::<Ingress>());
    env.client().create(&service("shop.example.com")).await?;
    let told = |events: &[Event]| events.iter().any(|event| event.reason.as_deref() == Some("IngressTaken"));
    env.eventually_all::<Event>(told).await;
    annotate(&env.client(), Value::Null).await?;
    annotate(&env.client(), json!("not a host")).await?;
    let refused = |events: &[Event]| events.iter().any(|event| event.reason.as_deref() == Some("IngressRefused"));
    env.eventually_all::<Event>(refused).await;
    assert_eq!(writes.requests().len(), 0);
    assert_eq!(env.client().get::<Ingress>("web").await?.resource_version(), theirs.resource_version());

    annotate(&env.client(), json!("shop.example.com")).await?;
    env.client().delete::<Ingress>("web").await?;
    env.eventually::<Ingress>("web", |ingress| host(ingress) == Some("shop.example.com")).await;
    Ok(env.stop().await?)
}

#[test]
fn ingress_manager_survives_explored_faults() {
    let scenario = Scenario::new("ingress-manager")
        .controller(|manager| {
            manager.add(controller());
        })
        .step("a service asks", |client| async move {
            client.create(&service("shop.example.com")).await?;
            Ok(())
        })
        .step("its ingress is deleted", |client| async move {
            client.delete::<Ingress>("web").await?;
            Ok(())
        })
        .step("it is rewritten by hand", |client| async move { rewrite(&client, "elsewhere.example.com").await })
        .step("another host", |client| async move { annotate(&client, json!("www.example.com")).await })
        .step("no more", |client| async move { annotate(&client, Value::Null).await })
        .step("a Service whose Ingress has another owner", |client| async move {
            client.create(&by_hand()).await?;
            annotate(&client, json!("shop.example.com")).await
        })
        // The server assigns a random address.
        .ignoring_field::<Service>("/spec/clusterIP")
        .ignoring_field::<Service>("/spec/clusterIPs")
        .settled("the Ingress of another owner is unchanged", |state| {
            let web = state.get::<Ingress>("web");
            web.is_some_and(|ingress| host(&ingress).is_none() && ingress.controller().is_none())
        });
    explore(scenario).assert();
}
