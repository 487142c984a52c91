//! Tests with an embedded server of Kubernetes 1.37, in paused time.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::{ApiResource, Conditions as _, DynamicObject, GroupVersionKind, Patch, Status, reason};
use windlass_envtest::{Environment, KubernetesVersion, RequestMatcher, Verb};

use super::{migration::StorageVersionMigration, *};
use crate::{BuiltIn, Controllers};

const FOOS: &str = "foos.example.com";

async fn environment(version: KubernetesVersion) -> Environment {
    let environment = Environment::builder().kubernetes(version).seed(7).start().await.unwrap();
    let mut manager = environment.manager();
    Controllers::of([BuiltIn::StorageVersionMigrator]).add_to(&mut manager);
    environment.run(manager);
    environment
}

/// An environment with a CRD that stores `v1`, three of its objects, and then `v2` as the storage version, whose size has
/// the validation `rules`.
async fn with_old_foos(rules: Value) -> Environment {
    let environment = environment(KubernetesVersion::V1_37).await;
    environment.install_manifests(&definition(&json!([]), "v1").to_string()).await.unwrap();
    let foos = environment.client().dynamic(&foos("v1"));
    for name in ["a", "b", "c"] {
        foos.create(&foo(name)).await.unwrap();
    }
    environment.install_manifests(&definition(&rules, "v2").to_string()).await.unwrap();
    environment
}

fn definition(rules: &Value, storage: &str) -> Value {
    let version = |name: &str| {
        let rules = if name == "v2" { rules.clone() } else { json!([]) };
        let size = json!({"type": "integer", "x-kubernetes-validations": rules});
        let schema = json!({"type": "object", "properties": {"size": size}});
        json!({"name": name, "served": true, "storage": name == storage, "schema": {"openAPIV3Schema": schema}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": FOOS},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [version("v1"), version("v2")],
        },
    })
}

fn foos(version: &'static str) -> ApiResource {
    ApiResource::namespaced(GroupVersionKind::new("example.com", version, "Foo"), "foos")
}

fn foo(name: &str) -> DynamicObject {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}, "size": 1})).unwrap()
}

fn patches() -> RequestMatcher {
    RequestMatcher::any().verb(Verb::Patch).of_resource(&foos("v1"))
}

/// Returns the versions of all objects.
async fn versions(environment: &Environment) -> Vec<String> {
    let list = environment.client().dynamic(&foos("v1")).list().await.unwrap();
    list.items.iter().map(|foo| foo.resource_version().unwrap().to_owned()).collect()
}

async fn request(environment: &Environment, name: &str, group: &str, plural: &str) {
    let migration = json!({"metadata": {"name": name}, "spec": {"resource": {"group": group, "resource": plural}}});
    let migration: StorageVersionMigration = serde_json::from_value(migration).unwrap();
    environment.client().create(&migration).await.unwrap();
}

async fn request_foos(environment: &Environment, name: &str) {
    request(environment, name, "example.com", "foos").await;
}

/// Waits until a migration is over, and returns its conditions: type, status, reason and message.
async fn outcome(environment: &Environment, name: &str) -> Vec<[String; 4]> {
    let migration = environment.eventually::<StorageVersionMigration>(name, |migration| migration.step() == Step::None);
    conditions(&migration.await)
}

fn conditions(migration: &StorageVersionMigration) -> Vec<[String; 4]> {
    let conditions = migration.status.conditions.iter().cloned();
    conditions.map(|condition| [condition.type_, condition.status, condition.reason, condition.message]).collect()
}

fn completed() -> [String; 4] {
    ["Running", "False", "MigrationCompleted", "Migration completed"].map(str::to_owned)
}

fn succeeded() -> [String; 4] {
    ["Succeeded", "True", "StorageVersionMigrationSucceeded", "Migration completed"].map(str::to_owned)
}

fn failed(message: &str) -> [String; 4] {
    ["Failed", "True", "StorageVersionMigrationFailed", message].map(str::to_owned)
}

/// Waits until the CRD reports the end of a migration. Returns the message and the stored versions.
async fn definition_after(environment: &Environment) -> (String, Vec<String>) {
    let mut message = String::new();
    let definition = environment.eventually::<CustomResourceDefinition>(FOOS, |definition| {
        let conditions = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let mut migrating = conditions.filter(|condition| condition.type_ == "StorageMigrating");
        migrating.next().filter(|condition| condition.status == "False").is_some_and(|condition| {
            message = condition.message.clone().unwrap_or_default();
            true
        })
    });
    let stored = definition.await.status.unwrap().stored_versions.unwrap();
    (message, stored)
}

#[tokio::test(start_paused = true)]
async fn objects_of_an_old_version_are_rewritten() {
    let environment = with_old_foos(json!([])).await;
    let before = versions(&environment).await;
    request_foos(&environment, "first").await;
    assert_eq!(outcome(&environment, "first").await, [completed(), succeeded()]);
    let after = versions(&environment).await;
    assert!(std::iter::zip(&before, &after).all(|(before, after)| before != after), "{before:?} {after:?}");
    let (message, stored) = definition_after(&environment).await;
    assert_eq!(message, "The migration has succeeded and the stored versions have been updated");
    assert_eq!(stored, ["v2"]);

    request_foos(&environment, "second").await;
    assert_eq!(outcome(&environment, "second").await, [completed(), succeeded()]);
    assert_eq!(versions(&environment).await, after, "the objects have the storage version already");
    assert_eq!(definition_after(&environment).await.1, ["v2"]);

    let client = environment.client();
    let v2 = json!({"spec": {"versions": [definition(&json!([]), "v2")["spec"]["versions"][1]]}});
    client.patch::<CustomResourceDefinition>(FOOS, Patch::Merge(v2)).await.unwrap();
    let foos = environment.eventually_all::<CustomResourceDefinition>(|all| all[0].spec.versions.len() == 1).await;
    assert_eq!(foos[0].spec.versions[0].name, "v2");
    assert_eq!(client.dynamic(&self::foos("v2")).list().await.unwrap().items.len(), 3);
    environment.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn second_migration_waits_for_the_first() {
    let environment = with_old_foos(json!([])).await;
    let busy = environment.on(patches().named("b")).fail(Status::failure(503, reason::SERVICE_UNAVAILABLE, "not now"));
    request_foos(&environment, "z").await;
    let running = environment.eventually::<StorageVersionMigration>("z", |migration| {
        migration.status.conditions.find("Running").is_some_and(|running| running.message.contains("transient"))
    });
    let message = "The migration is running, 2/3 objects not yet migrated; transient error: not now";
    let expected = ["Running", "True", "MigrationRunning", message].map(str::to_owned);
    assert_eq!(conditions(&running.await), [expected]);
    request_foos(&environment, "a").await;
    busy.happened(5).await;
    let client = environment.client();
    let waiting = client.get::<StorageVersionMigration>("a").await.unwrap();
    assert_eq!((waiting.step(), conditions(&waiting)), (Step::Wait, Vec::new()));
    drop(busy);

    let writes = environment.record(RequestMatcher::writes().of::<StorageVersionMigration>());
    assert_eq!(outcome(&environment, "a").await, [completed(), succeeded()]);
    assert_eq!(outcome(&environment, "z").await, [completed(), succeeded()]);
    assert_eq!(definition_after(&environment).await.1, ["v2"]);
    environment.stop().await.unwrap();
    let names: Vec<_> = writes.requests().into_iter().filter_map(|written| written.sent.name).collect();
    assert_eq!(names, ["z", "z", "a", "a", "a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn stop_interrupts_a_rewrite() {
    let environment = with_old_foos(json!([])).await;
    let held = environment.on(patches()).once().hold();
    request_foos(&environment, "first").await;
    held.happened(1).await;
    let begun = Instant::now();
    environment.stop().await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn deletion_of_the_running_migration_starts_the_next() {
    let environment = with_old_foos(json!([])).await;
    let busy = environment.on(patches()).fail(Status::failure(503, reason::SERVICE_UNAVAILABLE, "not now"));
    request_foos(&environment, "first").await;
    environment.eventually::<StorageVersionMigration>("first", |first| first.step() == Step::Rewrite).await;
    request_foos(&environment, "second").await;
    busy.happened(3).await;
    environment.client().delete::<StorageVersionMigration>("first").await.unwrap();
    environment.eventually::<StorageVersionMigration>("second", |second| second.step() == Step::Rewrite).await;
    drop(busy);
    assert_eq!(outcome(&environment, "second").await, [completed(), succeeded()]);
    environment.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rejected_object_fails_the_migration() {
    let rules = json!([{"rule": "self > oldSelf", "message": "must grow"}]);
    let environment = with_old_foos(rules).await;
    // The first object is already deleted when its turn comes, and counts as migrated.
    let _gone = environment.on(patches().named("a")).fail(Status::not_found(&foos("v2").group_resource(), "a"));
    request_foos(&environment, "first").await;
    let error = "2/3 not yet migrated. migration encountered unhandled error: Foo.example.com \"b\" is invalid: size: \
                 Invalid value: 1: must grow";
    assert_eq!(outcome(&environment, "first").await, [completed(), failed(error)]);
    assert_eq!(
        definition_after(&environment).await,
        ("The migration has failed".to_owned(), vec!["v1".into(), "v2".into()])
    );
    environment.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn changed_definition_keeps_the_stored_versions() {
    let environment = with_old_foos(json!([])).await;
    let held = environment.on(patches().named("b")).once().hold();
    request_foos(&environment, "first").await;
    held.happened(1).await;
    let rules = json!([{"rule": "self >= 0"}]);
    environment.install_manifests(&definition(&rules, "v2").to_string()).await.unwrap();
    drop(held);
    assert_eq!(outcome(&environment, "first").await, [completed(), succeeded()]);
    let (message, stored) = definition_after(&environment).await;
    assert!(message.ends_with("have not been updated due to a generation mismatch"), "{message}");
    assert_eq!(stored, ["v1", "v2"]);
    environment.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unknown_resource_fails_after_a_minute() {
    let environment = environment(KubernetesVersion::V1_37).await;
    let begun = Instant::now();
    request(&environment, "late", "example.com", "foos").await;
    let unknown = environment.expect().patience(Duration::from_mins(5));
    let unknown = unknown.object::<StorageVersionMigration>("late", |migration| migration.step() == Step::None).await;
    assert_eq!(conditions(&unknown), [completed(), failed("resource does not exist in discovery")]);
    // Times of creation are whole seconds.
    let elapsed = begun.elapsed();
    assert!(elapsed >= Duration::from_secs(59) && elapsed < Duration::from_secs(65), "{elapsed:?}");

    request(&environment, "early", "example.com", "foos").await;
    environment.eventually::<StorageVersionMigration>("early", |early| early.step() == Step::RecordVersion).await;
    environment.install_manifests(&definition(&json!([]), "v1").to_string()).await.unwrap();
    assert_eq!(outcome(&environment, "early").await, [completed(), succeeded()]);
    environment.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn resource_that_cannot_be_patched_fails_the_migration() {
    let environment = environment(KubernetesVersion::V1_37).await;
    request(&environment, "bindings", "", "bindings").await;
    let error = "resource \"/v1, Resource=bindings\" does not support discovery operations: [update patch list]";
    assert_eq!(outcome(&environment, "bindings").await, [completed(), failed(error)]);
    environment.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn controller_waits_quietly_without_the_api() {
    let environment = Environment::builder().kubernetes(KubernetesVersion::V1_36).seed(7).start().await.unwrap();
    let requests = environment.record(RequestMatcher::any());
    let mut manager = environment.manager();
    Controllers::of([BuiltIn::StorageVersionMigrator]).add_to(&mut manager);
    environment.run(manager);
    sleep(Duration::from_mins(10)).await;
    let sent = requests.take();
    assert!(sent.iter().all(|request| request.sent.uri.path() == "/apis/storagemigration.k8s.io/v1"), "{sent:?}");
    assert!((1..=21).contains(&sent.len()), "{}", sent.len());
    environment.stop().await.unwrap();
}

fn migration_of(name: &str, plural: &str, created: u8, conditions: Value) -> StorageVersionMigration {
    serde_json::from_value(json!({
        "metadata": {"name": name, "creationTimestamp": format!("2026-01-01T00:00:{created:02}Z")},
        "spec": {"resource": {"group": "example.com", "resource": plural}},
        "status": {"conditions": conditions},
    }))
    .unwrap()
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status, "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

#[test]
fn oldest_waiting_migration_of_each_resource_starts() {
    let running = json!([condition("Running", "True")]);
    let ended = json!([condition("Running", "True"), condition("Failed", "True")]);
    let done = json!([condition("Running", "False"), condition("Succeeded", "True")]);
    let started = startable(vec![
        migration_of("b", "foos", 2, json!([])),
        migration_of("c", "foos", 1, json!([])),
        migration_of("a", "foos", 2, json!([])),
        migration_of("old", "foos", 0, done),
        migration_of("d", "bars", 1, json!([])),
        migration_of("e", "bars", 2, running),
        migration_of("f", "bazs", 1, json!([])),
        migration_of("g", "bazs", 2, ended),
        migration_of("i", "quxs", 3, json!([])),
        migration_of("h", "quxs", 3, json!([])),
    ]);
    assert_eq!(started.iter().map(ObjectExt::name).collect::<Vec<_>>(), ["c", "h"]);
}
