use std::time::Duration;

use serde_json::json;
use windlass_api::{
    Bookmarks, DryRun, FieldValidation, GroupVersionKind, InitialEvents, Preconditions, Propagation, VersionMatch,
};

use super::*;

fn pods() -> Target {
    Target::new(ApiResource::namespaced(GroupVersionKind::new("", "v1", "Pod"), "pods"))
}

fn deployments() -> Target {
    Target::new(ApiResource::namespaced(GroupVersionKind::new("apps", "v1", "Deployment"), "deployments"))
}

fn nodes() -> Target {
    Target::new(ApiResource::namespaced(GroupVersionKind::new("", "v1", "Node"), "nodes").cluster_scoped())
}

fn line(request: &Request<Bytes>) -> String {
    format!("{} {}", request.method(), request.uri())
}

fn header<'r>(request: &'r Request<Bytes>, name: &str) -> Option<&'r str> {
    request.headers().get(name).map(|value| value.to_str().unwrap())
}

#[test]
fn get_names_the_object() {
    let request = pods().within("a").named("p").get(None, Content::Object).unwrap();
    assert_eq!(line(&request), "GET /api/v1/namespaces/a/pods/p");
    assert_eq!(header(&request, "accept"), Some("application/json"));
    assert_eq!(header(&request, "content-type"), None);
    assert!(request.body().is_empty());
}

#[test]
fn get_takes_a_version_and_a_subresource() {
    let target = deployments().within("a").named("d").subresource("scale");
    let request = target.get(Some("0"), Content::Object).unwrap();
    assert_eq!(line(&request), "GET /apis/apps/v1/namespaces/a/deployments/d/scale?resourceVersion=0");
}

#[test]
fn cluster_scoped_objects_need_no_namespace() {
    assert_eq!(line(&nodes().named("n").get(None, Content::Object).unwrap()), "GET /api/v1/nodes/n");
    assert_eq!(line(&nodes().list(&ListOptions::default(), Content::Object).unwrap()), "GET /api/v1/nodes");
}

#[test]
fn lists_are_of_one_namespace_or_all() {
    let options = ListOptions::default();
    assert_eq!(line(&pods().list(&options, Content::Object).unwrap()), "GET /api/v1/pods");
    assert_eq!(line(&pods().within("").list(&options, Content::Object).unwrap()), "GET /api/v1/pods");
    assert_eq!(line(&pods().within("a").list(&options, Content::Object).unwrap()), "GET /api/v1/namespaces/a/pods");
}

#[test]
fn list_options_are_encoded_in_the_query() {
    let options = ListOptions {
        labels: Some("app in (a,b),!c".to_owned()),
        fields: Some("metadata.name=x".to_owned()),
        shard: Some("shardRange(object.metadata.uid, '0x0', '0x8')".to_owned()),
        content: Content::Object,
        limit: Some(500),
        continue_token: Some("a+/=&".to_owned()),
        resource_version: Some("7".to_owned()),
        version_match: Some(VersionMatch::Exact),
        timeout: Some(Duration::from_secs(9)),
    };
    assert_eq!(
        line(&pods().list(&options, Content::Object).unwrap()),
        "GET /api/v1/pods?labelSelector=app%20in%20%28a%2Cb%29%2C%21c&fieldSelector=metadata.name%3Dx\
         &shardSelector=shardRange%28object.metadata.uid%2C%20%270x0%27%2C%20%270x8%27%29&limit=500\
         &continue=a%2B%2F%3D%26&resourceVersion=7&resourceVersionMatch=Exact&timeoutSeconds=9"
    );
}

#[test]
fn metadata_is_requested_with_the_accept_header() {
    let list = pods().list(&ListOptions::default(), Content::Metadata).unwrap();
    assert_eq!(
        header(&list, "accept"),
        Some("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
    );
    let watch = pods().watch(&WatchOptions::default(), Content::Metadata).unwrap();
    let one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    assert_eq!(header(&watch, "accept"), Some(one));
    let get = pods().within("a").named("p").get(None, Content::Metadata).unwrap();
    assert_eq!(header(&get, "accept"), Some(one));
}

#[test]
fn watch_request_is_a_list_with_watch_parameter() {
    let options = WatchOptions {
        resource_version: Some("5".to_owned()),
        bookmarks: Bookmarks::Allow,
        initial_events: InitialEvents::No,
        ..WatchOptions::default()
    };
    assert_eq!(
        line(&deployments().watch(&options, Content::Object).unwrap()),
        "GET /apis/apps/v1/deployments?watch=true&resourceVersion=5&allowWatchBookmarks=true"
    );
}

#[test]
fn create_posts_to_the_collection() {
    let options = WriteOptions {
        dry_run: DryRun::All,
        field_manager: Some("me & you".to_owned()),
        field_validation: Some(FieldValidation::Strict),
    };
    let request = pods().within("a").create(Bytes::from_static(b"{}"), &options).unwrap();
    assert_eq!(
        line(&request),
        "POST /api/v1/namespaces/a/pods?dryRun=All&fieldManager=me%20%26%20you&fieldValidation=Strict"
    );
    assert_eq!(header(&request, "content-type"), Some("application/json"));
    assert_eq!(request.body(), "{}");
}

#[test]
fn create_posts_to_a_subresource_of_a_named_object() {
    let target = pods().within("a").named("p").subresource("eviction");
    let request = target.create(Bytes::from_static(b"{}"), &WriteOptions::default()).unwrap();
    assert_eq!(line(&request), "POST /api/v1/namespaces/a/pods/p/eviction");
}

#[test]
fn update_puts_the_object_in_its_place() {
    let target = pods().within("a").named("p").subresource("status");
    let request = target.update(Bytes::from_static(b"{}"), &WriteOptions::default()).unwrap();
    assert_eq!(line(&request), "PUT /api/v1/namespaces/a/pods/p/status");
    assert_eq!(header(&request, "content-type"), Some("application/json"));
}

#[test]
fn each_patch_names_its_kind() {
    let target = pods().within("a").named("p");
    for (patch, media_type) in [
        (Patch::Json(json!([])), "application/json-patch+json"),
        (Patch::Merge(json!({})), "application/merge-patch+json"),
        (Patch::Strategic(json!({})), "application/strategic-merge-patch+json"),
        (Patch::Apply(json!({})), "application/apply-patch+yaml"),
    ] {
        let body = Bytes::from(serde_json::to_vec(patch.body()).unwrap());
        let request = target.patch(&patch, body, &PatchOptions::default()).unwrap();
        assert_eq!(line(&request), "PATCH /api/v1/namespaces/a/pods/p");
        assert_eq!(header(&request, "content-type"), Some(media_type));
    }
}

#[test]
fn an_apply_may_be_forced() {
    let options = PatchOptions {
        write: WriteOptions { field_manager: Some("me".to_owned()), ..WriteOptions::default() },
        force: Some(true),
    };
    let patch = Patch::Apply(json!({}));
    let request = pods().within("a").named("p").patch(&patch, Bytes::from_static(b"{}"), &options).unwrap();
    assert_eq!(line(&request), "PATCH /api/v1/namespaces/a/pods/p?fieldManager=me&force=true");
}

#[test]
fn delete_carries_its_options_in_the_body() {
    let options = DeleteOptions {
        grace_period: Some(Duration::ZERO),
        propagation: Some(Propagation::Foreground),
        preconditions: Some(Preconditions { uid: Some("u".to_owned()), resource_version: None }),
        dry_run: DryRun::No,
    };
    let request = pods().within("a").named("p").delete(&options).unwrap();
    assert_eq!(line(&request), "DELETE /api/v1/namespaces/a/pods/p");
    assert_eq!(header(&request, "content-type"), Some("application/json"));
    let body: serde_json::Value = serde_json::from_slice(request.body()).unwrap();
    assert_eq!(
        body,
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0,
               "propagationPolicy": "Foreground", "preconditions": {"uid": "u"}})
    );
}

#[test]
fn delete_collection_selects_in_the_query() {
    let which = ListOptions { labels: Some("a=b".to_owned()), ..ListOptions::default() };
    let request = pods().within("a").delete_collection(&DeleteOptions::default(), &which).unwrap();
    assert_eq!(line(&request), "DELETE /api/v1/namespaces/a/pods?labelSelector=a%3Db");
    let everywhere = pods().delete_collection(&DeleteOptions::default(), &which).unwrap_err();
    assert_eq!(everywhere, RequestError::NoNamespace { resource: "pods".to_owned() });
}

#[test]
fn names_with_path_segments_are_rejected() {
    for (name, rule) in [
        (".", "be that"),
        ("..", "be that"),
        ("a/b", "contain a slash"),
        ("../x", "contain a slash"),
        ("a%2fb", "contain a percent sign"),
    ] {
        let error = pods().within("n").named(name).get(None, Content::Object).unwrap_err();
        assert_eq!(error, RequestError::Segment { part: "name", value: name.to_owned(), rule });
        let error = pods().within(name).list(&ListOptions::default(), Content::Object).unwrap_err();
        assert!(matches!(error, RequestError::Segment { part: "namespace", .. }), "{error}");
        let error = pods().within("n").named("p").subresource(name.to_owned()).get(None, Content::Object).unwrap_err();
        assert!(matches!(error, RequestError::Segment { part: "subresource", .. }), "{error}");
    }
}

#[test]
fn missing_parts_are_named_in_the_error() {
    let error = pods().within("n").named("").get(None, Content::Object).unwrap_err();
    assert_eq!(error.to_string(), "the name is empty");
    let error = pods().within("n").get(None, Content::Object).unwrap_err();
    assert_eq!(error, RequestError::NoName);
    let error = deployments().named("p").get(None, Content::Object).unwrap_err();
    assert_eq!(error.to_string(), "deployments.apps are namespaced, and no namespace is given");
    let error = pods().create(Bytes::new(), &WriteOptions::default()).unwrap_err();
    assert!(matches!(error, RequestError::NoNamespace { .. }));
}

#[test]
fn namespace_for_cluster_scoped_kind_is_rejected() {
    let error = nodes().within("a").named("n").get(None, Content::Object).unwrap_err();
    assert_eq!(error.to_string(), r#"nodes are not namespaced, and the namespace "a" is given"#);
}

#[test]
fn odd_names_are_percent_encoded() {
    let path = |name: &str| pods().within("n").named(name).get(None, Content::Object).unwrap().uri().path().to_owned();
    assert_eq!(path("system:node~a@b$c&d+e,f;g=h"), "/api/v1/namespaces/n/pods/system:node~a@b$c&d+e,f;g=h");
    assert_eq!(path("a b?c#d\"é"), "/api/v1/namespaces/n/pods/a%20b%3Fc%23d%22%C3%A9");
    assert_eq!(path("..."), "/api/v1/namespaces/n/pods/...");
}
