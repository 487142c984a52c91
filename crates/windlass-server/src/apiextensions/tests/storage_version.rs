//! Tests of changed storage versions: what is stored, and the versions that the CRD lists as stored.

use super::*;
use crate::{encoded::Encoded, resource::Shape};

const KEY: &str = "/registry/ex.io/foos/default/t";

/// Makes `v1beta1` the storage version, and waits until the server uses it.
async fn switch(registry: &Registry) -> Value {
    let mut versions = foos()["spec"]["versions"].clone();
    versions[0]["storage"] = false.into();
    versions[1]["storage"] = true.into();
    let target = definition_named(registry, "foos.ex.io");
    let definition = merge(registry, &target, json!({"spec": {"versions": versions}})).await.unwrap();
    until("the new storage version", async || {
        let target = collection(registry, "ex.io", "v1", "foos")?;
        matches!(&target.resource.shape, Shape::Custom(shape) if shape.storage_version() == "v1beta1").then_some(())
    })
    .await;
    definition
}

/// Returns the stored version of the object, and the revision of its last write.
async fn stored(registry: &Registry) -> (String, u64) {
    let (_, value) = registry.storage().get(KEY, None).await.unwrap();
    let value = value.unwrap();
    let object = Encoded::from_storage(value.body).unwrap().value(value.modified);
    (object["apiVersion"].as_str().unwrap().to_owned(), value.modified.0)
}

#[tokio::test]
async fn unchanged_patch_rewrites_an_object_of_another_version() {
    for version in ["v1", "v1beta1"] {
        let registry = with_foos().await;
        create(&registry, &collection(&registry, "ex.io", "v1", "foos").unwrap(), &foo(&json!({"size": 1})))
            .await
            .unwrap();
        let before = get(&registry, &one(&registry, version, "t")).await.unwrap();
        switch(&registry).await;
        let target = one(&registry, version, "t");
        let (was, revision) = stored(&registry).await;
        assert_eq!(was, "ex.io/v1");

        let patch = json!({
            "apiVersion": format!("ex.io/{version}"), "kind": "Foo",
            "metadata": {"resourceVersion": revision.to_string()},
        });
        let mut after = merge(&registry, &target, patch).await.unwrap();
        let (is, rewritten) = stored(&registry).await;
        assert_eq!((&*is, rewritten > revision), ("ex.io/v1beta1", true));
        assert_eq!(after["metadata"]["resourceVersion"], rewritten.to_string());
        after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
        assert_eq!(after, before, "managed fields and generation stay, too");

        let patch = json!({"metadata": {"resourceVersion": rewritten.to_string()}});
        merge(&registry, &target, patch).await.unwrap();
        assert_eq!(stored(&registry).await, ("ex.io/v1beta1".to_owned(), rewritten), "now it changes nothing");
    }
}

#[tokio::test]
async fn unchanged_update_rewrites_an_object_of_another_version() {
    let registry = with_foos().await;
    create(&registry, &collection(&registry, "ex.io", "v1", "foos").unwrap(), &foo(&json!({"size": 1}))).await.unwrap();
    switch(&registry).await;
    let target = one(&registry, "v1", "t");
    let current = get(&registry, &target).await.unwrap();
    let (_, revision) = stored(&registry).await;
    let after = registry.update(&target, bytes(&current), WriteParams::default()).await.map(value).unwrap();
    let (is, rewritten) = stored(&registry).await;
    assert_eq!((&*is, rewritten > revision), ("ex.io/v1beta1", true));
    registry.update(&target, bytes(&after), WriteParams::default()).await.unwrap();
    assert_eq!(stored(&registry).await.1, rewritten);
}

#[tokio::test]
async fn stored_version_is_removable_after_it_leaves_the_status() {
    let registry = with_foos().await;
    let definition = switch(&registry).await;
    assert_eq!(definition["status"]["storedVersions"], json!(["v1", "v1beta1"]));
    let target = definition_named(&registry, "foos.ex.io");
    let left = json!({"spec": {"versions": [definition["spec"]["versions"][1]]}});
    let refused = merge(&registry, &target, left.clone()).await.unwrap_err();
    assert_eq!(
        refused.message,
        "CustomResourceDefinition.apiextensions.k8s.io \"foos.ex.io\" is invalid: status.storedVersions[0]: Invalid value: \
         \"v1\": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a \
         storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions"
    );

    let applied = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "foos.ex.io"},
        "status": {"storedVersions": ["v1beta1"]},
    });
    let (status, applied) = (target.clone().subresource("status"), applied.to_string());
    let params = WriteParams { field_manager: "migration".to_owned(), ..WriteParams::default() };
    registry.apply(&status, applied.as_bytes(), true, params).await.unwrap();
    let definition = merge(&registry, &target, left).await.unwrap();
    assert_eq!(definition["spec"]["versions"].as_array().unwrap().len(), 1);
}
