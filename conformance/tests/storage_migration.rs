//! The storage version migrator, and the values that the server then stores.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use serde_json::{from_value, json};
use windlass_api::{ApiResource, DynamicObject, GroupVersionKind, ObjectExt, Patch};
use windlass_client::Client;
use windlass_controllers::{BuiltIn, Controllers};
use windlass_envtest::{Environment, KubernetesVersion};
use windlass_server::{
    storage::{MemoryStorage, RangeQuery, Storage},
    stored_resources,
};
use windlass_storage::{EncryptedStorage, EncryptionConfiguration};

/// An environment over a storage, with the migrator.
async fn environment(storage: &Arc<dyn Storage>) -> Environment {
    let storage = Arc::clone(storage);
    let builder = Environment::builder().kubernetes(KubernetesVersion::V1_37).seed(7);
    let environment = builder.server(move |server| server.storage(storage)).start().await.unwrap();
    let mut manager = environment.manager();
    Controllers::of([BuiltIn::StorageVersionMigrator]).add_to(&mut manager);
    environment.run(manager);
    environment
}

/// Migrates a resource, and waits for the success.
async fn migrate(client: &Client, group: &str, plural: &str) {
    let kind = GroupVersionKind::new("storagemigration.k8s.io", "v1", "StorageVersionMigration");
    let migrations = client.dynamic(&ApiResource::namespaced(kind, "storageversionmigrations").cluster_scoped());
    let migration = json!({
        "metadata": {"generateName": "migration-"}, "spec": {"resource": {"group": group, "resource": plural}},
    });
    let created = migrations.create(&from_value::<DynamicObject>(migration).unwrap()).await.unwrap();
    conformance::eventually("the migration succeeds", async || {
        let migration = migrations.get(created.name()).await.unwrap();
        let conditions = migration.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let has = |kind: &str, status: &str| {
            conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == status)
        };
        assert!(!has("Failed", "True"), "{conditions:?}");
        (has("Succeeded", "True") && has("Running", "False")).then_some(())
    })
    .await;
}

/// Returns the stored values with a prefix.
async fn stored(storage: &Arc<dyn Storage>, prefix: &str) -> Vec<Vec<u8>> {
    let range = storage.range(RangeQuery::prefix(prefix)).await.unwrap();
    range.values.iter().map(|value| value.body.to_vec()).collect()
}

fn definition(storage: &str) -> String {
    let version = |name: &str| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"name": name, "served": true, "storage": name == storage, "schema": {"openAPIV3Schema": schema}})
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [version("v1"), version("v2")],
        },
    });
    definition.to_string()
}

#[tokio::test(start_paused = true)]
async fn migrated_custom_resources_are_stored_in_the_storage_version() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    let environment = environment(&storage).await;
    let client = environment.client();
    environment.install_manifests(&definition("v1")).await.unwrap();
    let foos = ApiResource::namespaced(GroupVersionKind::new("example.com", "v1", "Foo"), "foos");
    // More than one page.
    for number in 0..600 {
        let foo = json!({"metadata": {"name": format!("foo-{number}"), "namespace": "default"}, "size": number});
        client.dynamic(&foos).create(&from_value::<DynamicObject>(foo).unwrap()).await.unwrap();
    }
    // The keys of custom resources are sorted, so the first `apiVersion` is that of the object.
    let versions = async || -> Vec<String> {
        let values = stored(&storage, "/registry/example.com/foos/").await;
        let texts = values.iter().map(|body| String::from_utf8_lossy(body));
        texts
            .map(|text| text.split("\"apiVersion\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned())
            .collect()
    };
    environment.install_manifests(&definition("v2")).await.unwrap();
    assert_eq!(versions().await, vec!["example.com/v1"; 600]);
    migrate(&client, "example.com", "foos").await;
    assert_eq!(versions().await, vec!["example.com/v2"; 600]);
    environment.stop().await.unwrap();
}

fn encryption(keys: [&str; 2]) -> EncryptionConfiguration {
    // The base64 form of 32 zeros. Keys are chosen by name.
    let keys = keys.map(|name| json!({"name": name, "secret": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}));
    let resources = json!([{"resources": ["secrets"], "providers": [{"aesgcm": {"keys": keys}}]}]);
    let configuration =
        json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": resources});
    from_value(configuration).unwrap()
}

#[tokio::test(start_paused = true)]
async fn migrated_secrets_are_encrypted_with_the_first_key() {
    let below: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    let encrypted =
        EncryptedStorage::new(Arc::clone(&below), &encryption(["old", "new"]), stored_resources()).await.unwrap();
    let encrypted = Arc::new(encrypted);
    let environment = environment(&(Arc::clone(&encrypted) as Arc<dyn Storage>)).await;
    let client = environment.client();
    for name in ["a", "b"] {
        let secret = json!({"metadata": {"name": name, "namespace": "default"}, "stringData": {"password": "x"}});
        client.create::<Secret>(&from_value(secret).unwrap()).await.unwrap();
    }
    let count_with = async |key: &str| {
        let prefix = format!("k8s:enc:aesgcm:v1:{key}:");
        let values = stored(&below, "/registry/secrets/default/").await;
        values.iter().filter(|body| body.starts_with(prefix.as_bytes())).count()
    };
    assert_eq!((count_with("old").await, count_with("new").await), (2, 0));
    encrypted.reconfigure(&encryption(["new", "old"])).await.unwrap();
    assert_eq!((count_with("old").await, count_with("new").await), (2, 0));
    migrate(&client, "", "secrets").await;
    assert_eq!((count_with("old").await, count_with("new").await), (0, 2));
    let patch = Patch::Merge(json!({"metadata": {"labels": {"read": "true"}}}));
    let secret = client.patch::<Secret>("a", patch).await.unwrap();
    assert_eq!(secret.data.unwrap()["password"].0, b"x");
    environment.stop().await.unwrap();
}
