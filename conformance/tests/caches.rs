//! Caches of a manager with each server: namespaces with their own options, and all other namespaces.

use conformance::{eventually, on_each_target, unique};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use tokio::sync::oneshot;
use windlass_api::{ObjectBuilder as _, ObjectExt as _, ObjectRef, Resource as _};
use windlass_cache::InformerOptions;
use windlass_client::Client;
use windlass_runtime::{CacheOptions, CachedClient, Manager};

/// The objects of a test, in two namespaces.
struct Stage {
    run: String,
    watched: String,
    other: String,
}

impl Stage {
    async fn new(client: &Client) -> Self {
        let [run, watched, other] = ["caches", "watched", "other"].map(unique);
        for namespace in [&watched, &other] {
            client.create(&Namespace::named(namespace)).await.unwrap();
        }
        let stage = Self { run, watched, other };
        for namespace in [&stage.watched, &stage.other] {
            for (name, tier) in [("front", "front"), ("back", "back")] {
                client.create(&stage.map(namespace, name, tier)).await.unwrap();
            }
        }
        stage
    }

    fn map(&self, namespace: &str, name: &str, tier: &str) -> ConfigMap {
        ConfigMap::named(name).in_namespace(namespace).label("run", self.run.as_str()).label("tier", tier)
    }

    /// All objects of this run in the first namespace, and those with the label `front` in all others.
    fn options(&self) -> CacheOptions {
        let selected = |labels: String| InformerOptions::default().labels(labels);
        let run = &self.run;
        CacheOptions::new()
            .namespace(&self.watched, selected(format!("run={run}")))
            .others(selected(format!("run={run},tier=front")))
    }

    /// Returns the cached objects as `namespace/name`, without the unique part of the namespace.
    async fn cached(&self, client: &CachedClient) -> Vec<String> {
        let mut found: Vec<_> = client.list::<ConfigMap>().await.unwrap().iter().map(|map| self.shown(map)).collect();
        found.sort();
        found
    }

    fn shown(&self, map: &ConfigMap) -> String {
        let namespace = if map.namespace() == Some(&*self.watched) { "watched" } else { "other" };
        format!("{namespace}/{}", map.name())
    }
}

#[tokio::test]
async fn namespace_with_own_cache_is_excluded_from_shared_cache() {
    on_each_target(|target| async move {
        let stage = Stage::new(&target.client).await;
        let manager =
            Manager::builder(target.client.clone()).cache_of(ConfigMap::api_resource(), stage.options()).build();
        let client = manager.cluster().cached_client();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(manager.run(async { drop(stopped.await) }));

        assert_eq!(stage.cached(&client).await, ["other/front", "watched/back", "watched/front"]);
        let key = |namespace: &str, name: &str| ObjectRef::<ConfigMap>::new(name).within(namespace);
        assert!(client.get_opt(key(&stage.other, "back")).await.unwrap().is_none(), "it is not in front");
        assert_eq!(client.live().get(key(&stage.other, "back")).await.unwrap().name(), "back");

        // One object becomes selected, another one no longer matches.
        let written = client.update(&stage.map(&stage.other, "back", "front")).await.unwrap();
        assert_eq!(written.metadata.managed_fields, None);
        client.update(&stage.map(&stage.other, "front", "back")).discard_response().await.unwrap();
        client.delete::<ConfigMap>(key(&stage.watched, "front")).await.unwrap();
        let (stage, client) = (&stage, &client);
        let expected = ["other/back", "watched/back"];
        eventually("the caches follow", || async move { (stage.cached(client).await == expected).then_some(()) }).await;

        drop(stop);
        running.await.unwrap().unwrap();
        for namespace in [&stage.watched, &stage.other] {
            target.client.delete::<Namespace>(namespace.as_str()).await.unwrap();
        }
        target
    })
    .await;
}
