//! Explores the controller of services. The registry is in the cluster itself, so that faults are injected into its
//! writes, too.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

mod cluster;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use cluster::{move_to, serve};
use futures::future::BoxFuture;
use registry_sync::{Entry, Instance, Registry, RegistryError, RegistrySync};
use serde_json::{from_value, json};
use windlass::{
    Client, ObjectExt as _, ObjectKey,
    envtest::explore::{Scenario, explore},
    k8s::core::v1::{ConfigMap, Service},
};

/// A registry whose entries are ConfigMaps with a label.
struct InCluster(Client);

fn failed(error: windlass::client::Error) -> RegistryError {
    RegistryError::NoAnswer { what: "asking the cluster".to_owned(), source: error.into() }
}

impl Registry for InCluster {
    fn entries(&self) -> BoxFuture<'_, Result<BTreeMap<ObjectKey, Entry>, RegistryError>> {
        Box::pin(async {
            let found = self.0.list::<ConfigMap>().within("default").labels("registry=yes").await.map_err(failed)?;
            let entry = |config: ConfigMap| {
                let addresses = config.data.iter().flat_map(|data| data.values());
                let instances = addresses.filter_map(|address| Instance::at(address, BTreeMap::new())).collect();
                (ObjectKey::new(config.name()).within("default"), Entry { instances })
            };
            Ok(found.into_iter().map(entry).collect())
        })
    }

    fn shows(&self, entry: &Entry) -> Option<Entry> {
        let bare = |instance: &Instance| Instance { metadata: BTreeMap::new(), ..instance.clone() };
        Some(Entry { instances: entry.instances.iter().map(bare).collect() })
    }

    fn put<'a>(&'a self, key: &'a ObjectKey, entry: &'a Entry) -> BoxFuture<'a, Result<(), RegistryError>> {
        let data: BTreeMap<_, _> =
            entry.instances.iter().map(|instance| (instance.host.clone(), instance.address())).collect();
        let metadata = json!({"name": key.name, "namespace": "default", "labels": {"registry": "yes"}});
        let config: ConfigMap = from_value(json!({"metadata": metadata, "data": data})).unwrap();
        Box::pin(async move { self.0.apply(&config).force().await.map(drop).map_err(failed) })
    }

    fn remove<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<(), RegistryError>> {
        Box::pin(async move {
            match self.0.delete::<ConfigMap>(&*key.name).within("default").await {
                Err(error) if !error.is_not_found() => Err(failed(error)),
                _ => Ok(()),
            }
        })
    }
}

#[test]
fn registry_matches_the_cluster_under_all_faults() {
    let scenario = Scenario::new("registry-sync")
        .controller(|manager| {
            let registry = InCluster(manager.cluster().client().clone());
            RegistrySync::with(Arc::new(registry)).check_every(Duration::from_secs(20)).add_to(manager);
        })
        .step("two services", |client| async move {
            serve(&client, "default", "web", &["10.0.0.1"]).await?;
            serve(&client, "default", "db", &["10.0.0.9"]).await
        })
        .step("one moves", |client| async move { move_to(&client, "default", "web", &["10.0.0.2"]).await })
        .step("one is deleted", |client| async move {
            client.delete::<Service>("db").await?;
            Ok(())
        })
        .step("an entry is removed", |client| async move {
            client.delete::<ConfigMap>("web").await?;
            Ok(())
        })
        // After a restart, a stale cache may show a deleted service: its entry is created, and deleted when the cache
        // has caught up.
        .may_churn::<ConfigMap>()
        // The server assigns a random address.
        .ignoring_field::<Service>("/spec/clusterIP")
        .ignoring_field::<Service>("/spec/clusterIPs")
        .settled("the entries match the services", |state| {
            let web = state.get::<ConfigMap>("web").and_then(|config| config.data).unwrap_or_default();
            web.into_values().eq(["10.0.0.2:80"]) && state.get::<ConfigMap>("db").is_none()
        });
    explore(scenario).assert();
}
