use std::{sync::Arc, time::Duration};

use http::Response;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::{CachedDiscovery, testing::Fake};

fn resource(gvk: (&'static str, &'static str, &'static str), plural: &'static str) -> DiscoveredResource {
    let (group, version, kind) = gvk;
    let mapper =
        RestMapper::from_resources([ApiResource::namespaced(GroupVersionKind::new(group, version, kind), plural)]);
    mapper.resources.into_iter().next().unwrap()
}

fn with_names(mut resource: DiscoveredResource, short: &str, category: &str) -> DiscoveredResource {
    resource.short_names.push(short.to_owned());
    resource.categories.push(category.to_owned());
    resource
}

/// Returns a mapper with events in two groups, deployments in two groups (one of them third-party), and classes in two
/// versions.
fn mapper() -> RestMapper {
    let resources = vec![
        with_names(resource(("", "v1", "Pod"), "pods"), "po", "all"),
        with_names(resource(("", "v1", "Event"), "events"), "ev", "none"),
        with_names(resource(("apps", "v1", "Deployment"), "deployments"), "deploy", "all"),
        with_names(resource(("events.k8s.io", "v1", "Event"), "events"), "ev", "none"),
        with_names(resource(("storage.k8s.io", "v1", "StorageClass"), "storageclasses"), "sc", "none"),
        resource(("storage.k8s.io", "v1beta1", "StorageClass"), "storageclasses"),
        resource(("storage.k8s.io", "v1beta1", "Claim"), "claims"),
        with_names(resource(("apps.example.com", "v2", "Deployment"), "deployments"), "dp", "all"),
        resource(("odd.io", "v1", "Mouse"), "mice"),
        resource(("odd.io", "v1", "Mice"), "mices"),
    ];
    RestMapper { resources }
}

fn gvr(group: &'static str, version: &'static str, name: &'static str) -> GroupVersionResource {
    GroupVersionResource::new(group, version, name)
}

#[test]
fn partial_name_maps_to_the_preferred_resource() {
    let mapper = mapper();
    for (partial, expected) in [
        (gvr("", "", "pods"), "/v1, Resource=pods"),
        (gvr("", "", "pod"), "/v1, Resource=pods"),
        (gvr("", "", "PODS"), "/v1, Resource=pods"),
        (gvr("", "", "po"), "/v1, Resource=pods"),
        (gvr("", "", "events"), "/v1, Resource=events"),
        (gvr("events.k8s.io", "", "events"), "events.k8s.io/v1, Resource=events"),
        (gvr("", "", "deployments"), "apps/v1, Resource=deployments"),
        (gvr("apps", "", "deploy"), "apps/v1, Resource=deployments"),
        (gvr("apps.example.com", "", "deployment"), "apps.example.com/v2, Resource=deployments"),
        (gvr("", "v2", "deployments"), "apps.example.com/v2, Resource=deployments"),
        (gvr("storage", "", "storageclasses"), "storage.k8s.io/v1, Resource=storageclasses"),
        (gvr("storage", "", "sc"), "storage.k8s.io/v1, Resource=storageclasses"),
        (gvr("storage.k8s.io", "v1beta1", "storageclass"), "storage.k8s.io/v1beta1, Resource=storageclasses"),
        (gvr("", "", "claims"), "storage.k8s.io/v1beta1, Resource=claims"),
    ] {
        assert_eq!(mapper.resource_for(&partial).unwrap().resource.gvr().to_string(), expected, "{partial}");
    }
}

#[test]
fn all_matches_of_a_name_are_listed_in_order() {
    let mapper = mapper();
    let kinds = mapper.kinds_for(&gvr("", "", "deployments")).unwrap();
    assert_eq!(kinds.iter().map(|kind| &*kind.group).collect::<Vec<_>>(), ["apps", "apps.example.com"]);
    // An existing group is not treated as a prefix of another.
    assert_eq!(mapper.kinds_for(&gvr("apps", "", "deployments")).unwrap().len(), 1);
    assert_eq!(mapper.kind_for(&gvr("", "", "ev")).unwrap(), GroupVersionKind::new("", "v1", "Event"));
}

#[test]
fn unknown_and_ambiguous_names_are_errors() {
    let mapper = mapper();
    let said = |partial| mapper.resource_for(&partial).unwrap_err().to_string();
    assert_eq!(said(gvr("", "", "cats")), r#"no resource matches "cats""#);
    assert_eq!(said(gvr("apps", "v9", "deployments")), r#"no resource matches "deployments.apps" in version v9"#);
    assert_eq!(
        said(gvr("", "", "mice")),
        r#""mice" may be any of "mice.odd.io" in version v1, "mices.odd.io" in version v1"#
    );
    let error = mapper.mapping(&GroupKind::new("apps", "Deployment"), &["v7", "v8"]).unwrap_err();
    assert_eq!(error.to_string(), "no resource is of kind Deployment.apps in version v7 or v8");
}

#[test]
fn kinds_map_to_resources_in_requested_versions() {
    let mapper = mapper();
    let class = GroupKind::new("storage.k8s.io", "StorageClass");
    let version = |versions: &[&str]| mapper.mapping(&class, versions).map(|found| found.resource.version.to_string());
    assert_eq!(version(&[]).unwrap(), "v1");
    assert_eq!(version(&["v3", "v1beta1", "v1"]).unwrap(), "v1beta1");
    assert!(version(&["v3"]).is_err());
    assert_eq!(mapper.mappings(&class, &[]).unwrap().len(), 2);
    // The group of a kind is not guessed.
    assert!(mapper.mapping(&GroupKind::new("", "Deployment"), &[]).is_err());
}

#[test]
fn resource_names_are_parsed_in_all_forms() {
    let mapper = mapper();
    for (text, expected) in [
        ("po", "/v1, Resource=pods"),
        ("pods.v1.", "/v1, Resource=pods"),
        ("Pod", "/v1, Resource=pods"),
        ("deploy.apps", "apps/v1, Resource=deployments"),
        ("deployments.v1.apps", "apps/v1, Resource=deployments"),
        ("deployments.v2.apps.example.com", "apps.example.com/v2, Resource=deployments"),
        ("deployments.apps.example.com", "apps.example.com/v2, Resource=deployments"),
        ("Deployment.v2.apps.example.com", "apps.example.com/v2, Resource=deployments"),
        ("Deployment", "apps/v1, Resource=deployments"),
        ("storageclasses.v1beta1.storage.k8s.io", "storage.k8s.io/v1beta1, Resource=storageclasses"),
        ("sc.storage", "storage.k8s.io/v1, Resource=storageclasses"),
    ] {
        assert_eq!(mapper.resolve(text).unwrap().resource.gvr().to_string(), expected, "{text}");
    }
    for text in ["", ".", "pods.v2.", "cats", "deployments.v3.apps", "pods.apps"] {
        assert!(mapper.resolve(text).is_err(), "{text}");
    }
}

#[test]
fn categories_and_singulars() {
    let mapper = mapper();
    let all: Vec<_> = mapper.category("all").into_iter().map(|found| found.resource.gvr().to_string()).collect();
    assert_eq!(
        all,
        ["/v1, Resource=pods", "apps/v1, Resource=deployments", "apps.example.com/v2, Resource=deployments"]
    );
    assert!(mapper.category("nothing").is_empty());
    assert_eq!(mapper.singular("storageclasses").unwrap(), "storageclass");
    assert_eq!(mapper.singular("sc").unwrap(), "storageclass");
}

#[test]
fn preferences_and_further_mappers_change_the_order() {
    let preferred = mapper().prefer(&GroupVersion::new("apps.example.com", "v2"));
    assert_eq!(preferred.resource_for(&gvr("", "", "deployments")).unwrap().resource.group, "apps.example.com");
    assert_eq!(preferred.resource_for(&gvr("", "", "po")).unwrap().resource.plural, "pods");
    let own = RestMapper { resources: vec![resource(("own.io", "v1", "Pod"), "pods")] };
    assert_eq!(own.clone().merge(mapper()).resolve("pods").unwrap().resource.group, "own.io");
    assert_eq!(mapper().merge(own).resolve("pods").unwrap().resource.group, "");
}

#[test]
fn plurals_are_guessed_as_go_guesses_them() {
    for (kind, plural) in
        [("Pod", "pods"), ("Policy", "policies"), ("Ingress", "ingresses"), ("Endpoints", "endpoints"), ("", "")]
    {
        assert_eq!(guess_plural(kind), plural);
    }
}

/// Returns a server whose group `x.io` has these resources, and which counts its requests.
fn server(plurals: &Arc<Mutex<Vec<&'static str>>>) -> Fake {
    let plurals = Arc::clone(plurals);
    Fake::new(move |request| {
        let resources: Vec<Value> = plurals
            .lock()
            .iter()
            .map(|plural| {
                json!({"resource": plural, "responseKind": {"group": "x.io", "version": "v1", "kind": plural},
                    "scope": "Cluster", "verbs": ["get"]})
            })
            .collect();
        let groups = match request.uri().path() {
            "/apis" => json!([{"metadata": {"name": "x.io"}, "versions": [{"version": "v1", "resources": resources}]}]),
            _ => json!([]),
        };
        Response::new(json!({"kind": "APIGroupDiscoveryList", "items": groups}).to_string().into())
    })
}

#[tokio::test(start_paused = true)]
async fn new_kinds_are_found_without_flooding_discovery() {
    let plurals = Arc::new(Mutex::new(vec!["foos"]));
    let fake = server(&plurals);
    let mapper = DeferredRestMapper::new(CachedDiscovery::in_memory(fake.client()));
    assert!(fake.seen().is_empty(), "no request before first use");
    mapper.resolve("foos").await.unwrap();
    assert!(Arc::ptr_eq(&mapper.mapper().await.unwrap(), &mapper.mapper().await.unwrap()));
    assert_eq!(fake.seen().len(), 2);

    plurals.lock().push("bars");
    for _ in 0..10 {
        assert!(matches!(mapper.resolve("bars").await, Err(MappingError::NoResource(_))));
    }
    assert_eq!(fake.seen().len(), 2, "the answer is younger than ten seconds");
    tokio::time::advance(Duration::from_secs(10)).await;
    mapper.resource_for(&gvr("", "", "bars")).await.unwrap();
    assert_eq!(fake.seen().len(), 4);
    mapper.mapping(&GroupKind::new("x.io", "bars"), &[]).await.unwrap();
    mapper.resolve("cats").await.unwrap_err();
    assert_eq!(fake.seen().len(), 4);
    mapper.reset();
    assert_eq!(
        mapper.kind_for(&gvr("x.io", "", "foo")).await.unwrap_err().to_string(),
        r#"no resource matches "foo.x.io""#
    );
    assert_eq!(fake.seen().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn unknown_kind_is_rediscovered_once() {
    let plurals = Arc::new(Mutex::new(vec!["foos"]));
    let fake = server(&plurals);
    let mapper = DeferredRestMapper::new(CachedDiscovery::in_memory(fake.client()));
    let kind = |kind: &'static str| GroupKind::new("x.io", kind);
    mapper.mapping(&kind("foos"), &["v1"]).await.unwrap();
    *plurals.lock() = vec!["bars"];
    tokio::time::advance(Duration::from_secs(10)).await;
    let bars = mapper.mapping(&kind("bars"), &["v1"]).await.unwrap();
    assert_eq!((bars.resource.gvr().to_string(), fake.seen().len()), ("x.io/v1, Resource=bars".to_owned(), 4));
    let error = mapper.mapping(&kind("foos"), &["v1"]).await.unwrap_err();
    assert!(matches!(error, MappingError::NoKind { .. }), "{error}");
    assert_eq!(fake.seen().len(), 4, "the server was just asked");
}

#[tokio::test]
async fn failed_discovery_is_not_an_unknown_name() {
    let mapper = DeferredRestMapper::new(CachedDiscovery::in_memory(Fake::failure(503, "").client()));
    assert!(matches!(mapper.resolve("foos").await, Err(MappingError::Discovery(_))));
}
