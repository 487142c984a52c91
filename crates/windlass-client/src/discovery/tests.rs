use http::Response;
use windlass_api::Scope;

use super::*;
use crate::{RateLimit, body::Body, pipeline::Throttle, testing::Fake};

const AGGREGATED_CORE: &str = r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[
  {"metadata":{"creationTimestamp":null},"versions":[{"version":"v1","freshness":"Current","resources":[
    {"resource":"pods","responseKind":{"group":"","version":"","kind":"Pod"},"scope":"Namespaced","singularResource":"pod",
     "verbs":["get","list","watch"],"shortNames":["po"],"categories":["all"],
     "subresources":[{"subresource":"status","responseKind":{"group":"","version":"","kind":"Pod"},"verbs":["get","patch"]}]},
    {"resource":"nodes","responseKind":{"group":"","version":"","kind":"Node"},"scope":"Cluster","singularResource":"node","verbs":["get"]}]}]}]}"#;
const AGGREGATED_GROUPS: &str = r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[
  {"metadata":{"name":"x.io"},"versions":[
    {"version":"v2","freshness":"Current","resources":[
      {"resource":"foos","responseKind":{"group":"x.io","version":"v2","kind":"Foo"},"scope":"Namespaced","singularResource":"foo","verbs":["list"]},
      {"resource":"reviews","scope":"Cluster","singularResource":"","verbs":null,"subresources":[]}]},
    {"version":"v1","freshness":"Current","resources":[
      {"resource":"foos","responseKind":{"group":"x.io","version":"v1","kind":"Foo"},"scope":"Namespaced","singularResource":"foo","verbs":["list"]},
      {"resource":"bars","responseKind":{"group":"x.io","version":"v1","kind":"Bar"},"scope":"Namespaced","singularResource":"bar","verbs":["list"]}]}]},
  {"metadata":{"name":"metrics.k8s.io"},"versions":[{"version":"v1beta1","freshness":"Stale","resources":[]}]}]}"#;

fn check(discovery: &Discovery) {
    let pods = discovery.find_kind("", "v1", "Pod").unwrap();
    assert_eq!(pods.resource.path(Some("a")), "/api/v1/namespaces/a/pods");
    assert_eq!(
        (&*pods.singular, &*pods.short_names, &*pods.categories),
        ("pod", &["po".to_owned()][..], &["all".to_owned()][..])
    );
    assert_eq!((&*pods.subresources[0].name, pods.subresources.len()), ("status", 1));
    assert!(pods.supports("watch") && !pods.supports("create"));
    assert_eq!(discovery.find_kind("", "v1", "Node").unwrap().resource.scope, Scope::Cluster);
    let all: Vec<_> = discovery.resources().map(|found| found.resource.gvr().to_string()).collect();
    assert_eq!(
        all,
        [
            "/v1, Resource=pods",
            "/v1, Resource=nodes",
            "x.io/v2, Resource=foos",
            "x.io/v1, Resource=foos",
            "x.io/v1, Resource=bars"
        ]
    );
    let preferred: Vec<_> = discovery.preferred_resources().map(|found| found.resource.gvr().to_string()).collect();
    assert_eq!(
        preferred,
        ["/v1, Resource=pods", "/v1, Resource=nodes", "x.io/v2, Resource=foos", "x.io/v1, Resource=bars"]
    );
    let failed: Vec<_> = discovery.failed.iter().map(|failed| failed.group_version.to_string()).collect();
    assert_eq!(failed, ["metrics.k8s.io/v1beta1"]);
}

#[tokio::test]
async fn the_aggregated_form_takes_two_requests() {
    let fake = Fake::new(|request| {
        let body = if request.uri().path() == "/api" { AGGREGATED_CORE } else { AGGREGATED_GROUPS };
        Response::new(body.into())
    });
    check(&fake.client().discovery().await.unwrap());
    assert_eq!(fake.seen(), ["GET /api", "GET /apis"]);
    let accept = fake.last().headers()["accept"].to_str().unwrap().to_owned();
    assert!(accept.starts_with("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"), "{accept}");
}

#[tokio::test]
async fn older_servers_are_discovered_version_by_version() {
    let fake = Fake::new(|request| {
        let body = match request.uri().path() {
            "/api" => r#"{"kind":"APIVersions","versions":["v1"]}"#,
            "/api/v1" => {
                r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[
                {"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list","watch"],"shortNames":["po"],"categories":["all"]},
                {"name":"pods/status","singularName":"","namespaced":true,"kind":"Pod","verbs":["get","patch"]},
                {"name":"nodes","singularName":"node","namespaced":false,"kind":"Node","verbs":["get"]}]}"#
            }
            "/apis" => {
                r#"{"kind":"APIGroupList","groups":[
                {"name":"x.io","versions":[{"groupVersion":"x.io/v1","version":"v1"},{"groupVersion":"x.io/v2","version":"v2"}],
                 "preferredVersion":{"groupVersion":"x.io/v2","version":"v2"}},
                {"name":"metrics.k8s.io","versions":[{"groupVersion":"metrics.k8s.io/v1beta1","version":"v1beta1"}]}]}"#
            }
            "/apis/x.io/v2" => {
                r#"{"resources":[{"name":"foos","singularName":"foo","namespaced":true,"kind":"Foo","verbs":["list"]}]}"#
            }
            "/apis/x.io/v1" => {
                r#"{"resources":[{"name":"foos","singularName":"foo","namespaced":true,"kind":"Foo","verbs":["list"]},
                {"name":"bars","singularName":"bar","namespaced":true,"kind":"Bar","verbs":["list"]}]}"#
            }
            _ => return Response::builder().status(503).body(Body::from("down")).unwrap(),
        };
        Response::new(body.into())
    });
    let discovery = fake.client().discovery().await.unwrap();
    check(&discovery);
    assert_eq!(discovery.failed[0].error.as_ref().unwrap().status().unwrap().code, 503);
}

#[tokio::test(start_paused = true)]
async fn discovery_of_old_servers_is_not_rate_limited() {
    let fake = Fake::new(|request| {
        let group = |n| format!(r#"{{"name":"g{n}.io","versions":[{{"groupVersion":"g{n}.io/v1","version":"v1"}}]}}"#);
        let groups: Vec<_> = (0..100).map(group).collect();
        Response::new(match request.uri().path() {
            "/api" => r#"{"kind":"APIVersions","versions":["v1"]}"#.into(),
            "/apis" => format!(r#"{{"kind":"APIGroupList","groups":[{}]}}"#, groups.join(",")).into(),
            _ => r#"{"resources":[{"name":"foos","kind":"Foo"}]}"#.into(),
        })
    });
    let client = fake.client().with(|policy| policy.throttle = Throttle::default_limits());
    let began = tokio::time::Instant::now();
    assert_eq!(client.discovery().await.unwrap().resources().count(), 101);
    assert_eq!((fake.seen().len(), began.elapsed().as_secs()), (103, 0));
    // Discovery is limited, too: 412 requests with a burst of 300.
    for _ in 0..3 {
        client.discovery().await.unwrap();
    }
    assert_eq!(began.elapsed().as_secs(), 2);
    // An explicit limit also applies to discovery.
    let began = tokio::time::Instant::now();
    client.with_rate_limit(RateLimit::per_second(1, 1)).discovery().await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 102);
}

#[tokio::test]
async fn discovery_without_the_core_group_fails() {
    let fake = Fake::new(|request| match request.uri().path() {
        "/api" => Response::new(r#"{"kind":"APIVersions","versions":["v1"]}"#.into()),
        "/apis" => Response::new(r#"{"kind":"APIGroupList","groups":[]}"#.into()),
        _ => Response::builder().status(500).body(Body::empty()).unwrap(),
    });
    assert!(fake.client().discovery().await.is_err());
    let error = Fake::failure(403, "no").client().discovery().await.unwrap_err();
    assert!(error.is_forbidden());
}

#[tokio::test]
async fn peer_resources_can_be_excluded() {
    let fake = Fake::new(|request| {
        Response::new(if request.uri().path() == "/api" { AGGREGATED_CORE } else { AGGREGATED_GROUPS }.into())
    });
    check(&fake.client().discovery_of(Peers::Excluded).await.unwrap());
    let accept = fake.last().headers()["accept"].to_str().unwrap().to_owned();
    let first = accept.split(',').next().unwrap();
    assert_eq!(first, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer");
}

#[tokio::test]
async fn one_resource_is_discovered_with_one_request() {
    let fake = Fake::new(|request| match request.uri().path() {
        "/apis/x.io/v1" => Response::new(r#"{"resources":[{"name":"foos","kind":"Foo"}]}"#.into()),
        "/apis/down.io/v1" => Response::builder().status(503).body(Body::empty()).unwrap(),
        _ => Response::builder().status(404).body(Body::empty()).unwrap(),
    });
    let client = fake.client();
    let resource = |group: &'static str, plural: &'static str| GroupVersionResource::new(group, "v1", plural);
    assert!(client.is_enabled(&resource("x.io", "foos")).await.unwrap());
    assert!(!client.is_enabled(&resource("x.io", "bars")).await.unwrap());
    assert!(!client.is_enabled(&resource("y.io", "foos")).await.unwrap());
    assert!(client.is_enabled(&resource("down.io", "foos")).await.is_err());
    assert_eq!(fake.seen().len(), 4);
}

#[tokio::test]
async fn discovery_can_be_filtered_by_verb() {
    let fake = Fake::new(|request| {
        Response::new(if request.uri().path() == "/api" { AGGREGATED_CORE } else { AGGREGATED_GROUPS }.into())
    });
    let discovery = fake.client().discovery().await.unwrap();
    assert!(
        discovery.supports(&GroupVersion::new("x.io", "v2")) && !discovery.supports(&GroupVersion::new("x.io", "v3"))
    );
    assert!(discovery.is_enabled(&GroupVersionResource::new("", "v1", "pods")));
    assert!(!discovery.is_enabled(&GroupVersionResource::new("", "v2", "pods")));
    let namespaced: Vec<_> = discovery.preferred_namespaced_resources().map(|found| &*found.resource.plural).collect();
    assert_eq!(namespaced, ["pods", "foos", "bars"]);
    let watched = discovery.filtered_by(|resource| resource.supports("watch"));
    let left: Vec<_> = watched.resources().map(|found| &*found.resource.plural).collect();
    assert_eq!((left, watched.groups.len()), (vec!["pods"], 1));
}
