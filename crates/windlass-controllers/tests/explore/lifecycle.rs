//! Explorations of deletions: namespaces, and objects whose owners are gone.

use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace, Secret},
    serde_json::json,
};
use windlass_api::{ObjectBuilder as _, ObjectExt as _, Propagation};
use windlass_client::Client;
use windlass_controllers::BuiltIn;
use windlass_envtest::explore::{StepResult, explore};

use crate::{create, of};

#[test]
fn namespaces() {
    let scenario = of(BuiltIn::Namespace)
        .step("a namespace with content", |client| async move {
            client.create(&Namespace::named("shop")).await?;
            client.create(&ConfigMap::named("settings").in_namespace("shop")).await?;
            client.create(&Secret::named("key").in_namespace("shop").finalizer("example.com/slow")).await?;
            Ok(())
        })
        .step("it is deleted", |client| async move {
            client.delete::<Namespace>("shop").await?;
            Ok(())
        })
        .step("the slow finalizer is removed", |client| async move {
            let slow = windlass_api::Patch::Merge(json!({"metadata": {"finalizers": null}}));
            client.patch::<Secret>(windlass_api::ObjectRef::<Secret>::new("key").within("shop"), slow).await?;
            Ok(())
        })
        .settled("it is gone", |state| state.get::<Namespace>("shop").is_none());
    explore(scenario).assert();
}

/// Creates an owner with two dependents, one of which blocks its deletion.
async fn family(client: Client, name: &'static str) -> StepResult {
    let owner = client.create(&ConfigMap::named(name).in_namespace("default")).await?;
    for (child, blocks) in [("a", true), ("b", false)] {
        let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner.uid(), "blockOwnerDeletion": blocks});
        let metadata =
            json!({"name": format!("{name}-{child}"), "namespace": "default", "ownerReferences": [reference]});
        create::<Secret>(&client, json!({"metadata": metadata})).await?;
    }
    Ok(())
}

async fn delete(client: Client, name: &'static str, propagation: Propagation) -> StepResult {
    client.delete::<ConfigMap>(name).propagation(propagation).await?;
    Ok(())
}

#[test]
fn garbage() {
    let scenario = of(BuiltIn::GarbageCollector)
        .step("three owners with dependents", |client| async move {
            family(client.clone(), "one").await?;
            family(client.clone(), "two").await?;
            family(client, "three").await
        })
        .step("one is deleted, then its dependents", |client| delete(client, "one", Propagation::Background))
        .step("the dependents of two are deleted, then two", |client| delete(client, "two", Propagation::Foreground))
        .step("three is deleted, its dependents are orphaned", |client| delete(client, "three", Propagation::Orphan))
        .settled("the orphans are left", |state| {
            let secrets = state.all::<Secret>();
            secrets.len() == 2 && secrets.iter().all(|secret| secret.owner_references().is_empty())
        });
    explore(scenario).assert();
}
