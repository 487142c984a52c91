use super::*;
use crate::kinds::{KindOptions, built_ins};

const AGGREGATED_ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

fn table() -> ResourceTable {
    let options = KindOptions::of(KubernetesVersion::default());
    built_ins(&options)
}

fn get(path: &str, accept: Option<&str>) -> Document {
    answer(&table(), &Request { path, accept, address: "10.1.1.1:6443", ..Request::default() }).unwrap().unwrap()
}

fn json(document: &Document) -> Value {
    serde_json::from_slice(&document.body).unwrap()
}

#[test]
fn version_and_group_lists_equal_kube_apiservers() {
    assert_eq!(
        String::from_utf8(get("/api", None).body).unwrap(),
        "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"],\"serverAddressByClientCIDRs\":\
         [{\"clientCIDR\":\"0.0.0.0/0\",\"serverAddress\":\"10.1.1.1:6443\"}]}\n"
    );
    let group = "{\"kind\":\"APIGroup\",\"apiVersion\":\"v1\",\"name\":\"apps\",\"versions\":[{\"groupVersion\":\"apps/v1\",\
                 \"version\":\"v1\"}],\"preferredVersion\":{\"groupVersion\":\"apps/v1\",\"version\":\"v1\"}}\n";
    assert_eq!(String::from_utf8(get("/apis/apps", None).body).unwrap(), group);
    let groups = json(&get("/apis/", None));
    let names = groups["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap());
    let names = names.collect::<Vec<_>>();
    assert_eq!(names[..3], ["apiregistration.k8s.io", "apps", "events.k8s.io"]);
    assert!(names.contains(&"apiextensions.k8s.io"));
}

#[test]
fn resource_list_contains_subresources_after_resources() {
    let list = json(&get("/apis/apps/v1", None));
    assert_eq!(list["groupVersion"], "apps/v1");
    assert_eq!(list["apiVersion"], "v1");
    let names = list["resources"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap());
    let names = names.collect::<Vec<_>>();
    let from = names.iter().position(|name| *name == "deployments").unwrap();
    assert_eq!(names[from..from + 3], ["deployments", "deployments/scale", "deployments/status"]);
    let entry = &list["resources"][from];
    assert_eq!(
        entry.to_string(),
        "{\"name\":\"deployments\",\"singularName\":\"deployment\",\"namespaced\":true,\"kind\":\"Deployment\",\"verbs\":\
         [\"create\",\"delete\",\"deletecollection\",\"get\",\"list\",\"patch\",\"update\",\"watch\"],\"shortNames\":\
         [\"deploy\"],\"categories\":[\"all\"],\"storageVersionHash\":\"8aSe+NMegvE=\"}"
    );
    assert_eq!(list["resources"][from + 1]["group"], "autoscaling");
    assert!(json(&get("/api/v1", None)).get("apiVersion").is_none(), "the core list has no apiVersion");
}

#[test]
fn aggregated_document_has_an_etag_and_returns_304() {
    let document = get("/apis", Some(AGGREGATED_ACCEPT));
    assert_eq!(document.content_type, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    let header = |name: &str| document.headers.iter().find(|(key, _)| *key == name).unwrap().1.clone();
    assert_eq!((header("vary"), header("cache-control")), ("Accept".to_owned(), "public".to_owned()));
    let list = json(&document);
    assert_eq!(list["items"][0]["metadata"], json!({"name": "apiregistration.k8s.io"}));
    assert_eq!(list["items"][1]["metadata"], json!({"name": "apps"}));
    let resources = list["items"][1]["versions"][0]["resources"].as_array().unwrap();
    let deployments = resources.iter().find(|resource| resource["resource"] == "deployments").unwrap();
    assert_eq!(deployments["responseKind"], json!({"group": "", "version": "", "kind": "Deployment"}));
    assert_eq!(
        deployments["subresources"][0],
        json!({"subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
            "verbs": ["get", "patch", "update"]})
    );

    let again = answer(
        &table(),
        &Request {
            path: "/apis",
            accept: Some(AGGREGATED_ACCEPT),
            if_none_match: Some(&header("etag")),
            ..Request::default()
        },
    )
    .unwrap()
    .unwrap();
    assert_eq!((again.status, again.body.len()), (304, 0));
}

#[test]
fn unsupported_media_types_and_groups_are_rejected() {
    let only_old = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
    for accept in [only_old, "text/html"] {
        let status = answer(&table(), &Request { path: "/apis", accept: Some(accept), ..Request::default() })
            .unwrap()
            .unwrap_err();
        assert_eq!(status.code, 406, "{accept}");
    }
    let of = |path| answer(&table(), &Request { path, ..Request::default() });
    assert!(of("/apis/nope").is_none());
    assert!(of("/apis/nope/v1").is_none());
    assert_eq!(of("/apis/apps/v7").unwrap().unwrap_err().code, 404);
    assert_eq!(get("/apis/apps", Some("application/yaml")).content_type, "application/yaml");
}

#[test]
fn versions_are_sorted_by_kubernetes_priority() {
    let mut versions = ["v1alpha1", "v2", "foo10", "v10", "v1beta2", "foo1", "v1", "v11beta1", "v1beta1"];
    versions.sort_by(|a, b| compare_versions(b, a));
    assert_eq!(versions, ["v10", "v2", "v1", "v11beta1", "v1beta2", "v1beta1", "v1alpha1", "foo1", "foo10"]);
}

#[test]
fn aggregated_document_with_other_servers_is_rendered_once_per_change() {
    let table = table();
    let foreign = |version: &'static str| {
        [ForeignVersion {
            group: "other.example.com",
            version,
            group_priority: 1000,
            version_priority: 100,
            resources: None,
            freshness: Freshness::Current,
        }]
    };
    let versions = |version, generation| {
        let foreign = foreign(version);
        let request = Request {
            path: "/apis",
            accept: Some(AGGREGATED_ACCEPT),
            foreign: &foreign,
            generation,
            ..Request::default()
        };
        let list = json(&answer(&table, &request).unwrap().unwrap());
        let group = |group: &&Value| group["metadata"]["name"] == "other.example.com";
        list["items"].as_array().unwrap().iter().find(group).unwrap()["versions"][0]["version"].clone()
    };
    assert_eq!(versions("v1", 1), "v1");
    assert_eq!(versions("v2", 1), "v1", "the document of this generation is known");
    assert_eq!(versions("v2", 2), "v2");
    let own = json(
        &answer(&table, &Request { path: "/apis", accept: Some(AGGREGATED_ACCEPT), ..Request::default() })
            .unwrap()
            .unwrap(),
    );
    assert!(!own.to_string().contains("other.example.com"));
}
