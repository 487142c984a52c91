//! Discovery in both formats, and kinds that are created later.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use conformance::{Target, eventually, on_each_target};
use http::{Request, header::ACCEPT};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;
use tower::ServiceExt;
use windlass_api::{GroupKind, GroupVersionResource};
use windlass_client::{Body, CachedDiscovery, Client, DeferredRestMapper, Discovery, MappingError};

/// Returns a client without aggregated discovery, and its request counter.
fn older(target: &Target) -> (Client, Arc<AtomicUsize>) {
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let transport = target.config.connect().unwrap().map_request(move |mut request: Request<Body>| {
        counter.fetch_add(1, Ordering::Relaxed);
        request.headers_mut().insert(ACCEPT, "application/json".parse().unwrap());
        request
    });
    (Client::from_service(transport, "default"), sent)
}

/// Returns all resources as text, without custom resources of other tests.
fn described(discovery: &Discovery) -> Vec<String> {
    let own = |group: &str| !group.contains('.') || group.ends_with(".k8s.io");
    let mut all: Vec<_> = discovery
        .resources()
        .filter(|found| own(&found.resource.group))
        .map(|found| {
            let mut found = found.clone();
            found.verbs.sort();
            found.subresources.sort_by(|a, b| a.name.cmp(&b.name));
            found.subresources.iter_mut().for_each(|part| part.verbs.sort());
            format!("{found:?}")
        })
        .collect();
    all.sort();
    all
}

#[tokio::test]
async fn both_discovery_forms_agree() {
    on_each_target(|target| async {
        let (older, sent) = older(&target);
        let by_version = described(&older.discovery().await.unwrap());
        assert!(sent.load(Ordering::Relaxed) > 10, "a request for each version");
        let aggregated = described(&target.client.discovery().await.unwrap());
        assert!(aggregated.len() > 50, "{aggregated:?}");
        for (old, new) in by_version.iter().zip(&aggregated) {
            assert_eq!(old, new);
        }
        assert_eq!(by_version.len(), aggregated.len());
        target
    })
    .await;
}

#[tokio::test]
async fn a_kind_that_is_defined_later_is_found_by_each_of_its_names() {
    on_each_target(|target| async {
        let client = &target.client;
        let mapper =
            DeferredRestMapper::new(CachedDiscovery::in_memory(client.clone())).with_reload_after(Duration::ZERO);
        assert_eq!(mapper.resolve("deploy").await.unwrap().resource.plural, "deployments");
        assert!(matches!(mapper.resolve("latecomers").await, Err(MappingError::NoResource(_))));

        let definition: CustomResourceDefinition = serde_json::from_value(json!({
            "metadata": {"name": "latecomers.names.example.com"},
            "spec": {"group": "names.example.com", "scope": "Cluster",
                "names": {"plural": "latecomers", "kind": "Latecomer", "shortNames": ["late"], "categories": ["tardy"]},
                "versions": [
                    {"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}},
                    {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}))
        .unwrap();
        client.create(&definition).await.unwrap();
        let found = eventually("it is served", || async { mapper.resolve("late").await.ok() }).await;
        let gvr = |version: &'static str| GroupVersionResource::new("names.example.com", version, "latecomers");
        assert_eq!(found.resource.gvr(), gvr("v1"));
        let kind = GroupKind::new("names.example.com", "Latecomer");
        assert_eq!(mapper.mapping(&kind, &["v1beta1"]).await.unwrap().resource.gvr(), gvr("v1beta1"));
        let tardy = mapper.mapper().await.unwrap();
        let tardy: Vec<_> = tardy.category("tardy").iter().map(|found| found.resource.gvr()).collect();
        assert_eq!(tardy, [gvr("v1")]);
        assert!(client.dynamic(&found.resource).list().await.unwrap().is_empty());
        client.delete::<CustomResourceDefinition>("latecomers.names.example.com").await.unwrap();
        target
    })
    .await;
}
