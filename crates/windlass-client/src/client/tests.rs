mod answers;
mod apply;
mod cancellation;
mod cbor;
mod protobuf;

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use http::Response;
use serde_json::{Value, json};
use windlass_api::{
    ApiResource, Content, DeleteOptions, DynamicObject, FieldValidation, GroupVersionKind, ListItem, ListOptions,
    ListWatch, Nested as _, ObjectExt as _, ObjectRef, Patch, Propagation, RawEvent, Resource as _, VersionMatch,
    WatchOptions,
    k8s_openapi::{
        api::{
            apps::v1::Deployment,
            core::v1::{ConfigMap, Namespace, Pod},
        },
        apimachinery::pkg::apis::meta::v1::ObjectMeta,
    },
};

use super::*;
use crate::{
    Bookmark, WatchEvent,
    testing::{End, Fake, chunks},
    verbs::Deletion,
};

const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"a","resourceVersion":"7"}}"#;
const POD_LIST: &str = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"42","continue":"next"},
    "items":[{"metadata":{"name":"p"}},{"metadata":{"name":"q"}}]}"#;

fn pod(namespace: Option<&str>, name: &str) -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: namespace.map(str::to_owned),
            ..ObjectMeta::default()
        },
        ..Pod::default()
    }
}

fn foos() -> ApiResource {
    ApiResource::namespaced(GroupVersionKind::new("x.io", "v1", "Foo"), "foos")
}

fn body(fake: &Fake) -> Value {
    serde_json::from_slice(fake.last().body()).unwrap()
}

/// Compiled but not run: calls can be moved into tasks, and clients shared between them.
#[allow(dead_code, reason = "compiling it is the test")]
fn calls_are_send(client: &'static Client) {
    fn send<T: Send + 'static>(_: T) {}
    fn sync<T: Send + Sync + 'static>(_: T) {}
    sync(client.clone());
    send(client.get::<Pod>("p").into_future());
    send(client.list::<Pod>().into_future());
    send(client.apply(&Pod::default()).into_future());
    send(client.discovery());
    send(async move { client.watch::<Pod>().await.map(StreamExt::boxed) });
}

use std::future::IntoFuture;

#[tokio::test]
async fn get_reads_the_object_that_is_named() {
    let fake = Fake::json(POD);
    let client = fake.client();
    let pod = client.get::<Pod>("p").within("a").await.unwrap();
    assert_eq!(pod.object_ref().to_string(), "a/p");
    client.get::<Pod>(pod.object_ref()).resource_version("0").await.unwrap();
    client.get::<Pod>("p").subresource("status").await.unwrap();
    assert_eq!(
        fake.seen(),
        [
            "GET /api/v1/namespaces/a/pods/p",
            "GET /api/v1/namespaces/a/pods/p?resourceVersion=0",
            "GET /api/v1/namespaces/home/pods/p/status"
        ]
    );
    assert_eq!(fake.last().headers()["user-agent"], crate::user_agent::of_this_program());
}

#[tokio::test]
async fn cluster_scoped_kinds_have_no_default_namespace() {
    let fake = Fake::json(r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"n"}}"#);
    fake.client().get::<Namespace>("n").await.unwrap();
    assert_eq!(fake.seen(), ["GET /api/v1/namespaces/n"]);
    let error = fake.client().get::<Namespace>("n").within("a").await.unwrap_err();
    assert!(matches!(error, Error::Request { .. }), "{error}");
    assert_eq!(fake.seen().len(), 1, "nothing was sent");
}

#[tokio::test]
async fn missing_object_is_none_for_get_opt_only() {
    let fake =
        Fake::failure(404, r#"{"kind":"Status","apiVersion":"v1","reason":"NotFound","code":404,"message":"no"}"#);
    assert_eq!(fake.client().get_opt::<Pod>("p").within("a").await.unwrap(), None);
    let error = fake.client().get::<Pod>("p").within("a").await.unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(error.chain(), r#"get pods "a/p": the server answered 404 NotFound: no"#);
    let other = Fake::failure(500, "").client().get_opt::<Pod>("p").await.unwrap_err();
    assert_eq!(other.status().unwrap().code, 500);
}

#[tokio::test]
async fn list_is_of_all_namespaces_unless_one_is_given() {
    let fake = Fake::json(POD_LIST);
    let list = fake.client().list::<Pod>().await.unwrap();
    let names: Vec<_> = list.iter().map(|pod| pod.name().to_owned()).collect();
    assert_eq!(names, ["p", "q"]);
    assert_eq!(
        (list.metadata.resource_version.as_u64(), list.metadata.continue_token.as_deref()),
        (Some(42), Some("next"))
    );
    let narrowed = fake.client().list::<Pod>().within("a").labels("x=y").fields("spec.nodeName=n").limit(5);
    let narrowed = narrowed.continue_from("c").resource_version("3").version_match(VersionMatch::NotOlderThan);
    narrowed.timeout(Duration::from_secs(3)).await.unwrap();
    assert_eq!(
        fake.seen(),
        [
            "GET /api/v1/pods",
            "GET /api/v1/namespaces/a/pods?labelSelector=x%3Dy&fieldSelector=spec.nodeName%3Dn&limit=5&continue=c\
             &resourceVersion=3&resourceVersionMatch=NotOlderThan&timeoutSeconds=3"
        ]
    );
}

#[tokio::test]
async fn a_list_that_is_cut_off_is_an_error() {
    for end in [End::Clean, End::Broken] {
        let fake = Fake::new(move |_| Response::new(chunks(vec![r#"{"metadata":{},"items":[{"metadata":{}},"#], end)));
        let error = fake.client().list::<Pod>().await.unwrap_err();
        assert!(error.is_transport(), "{end:?}: {error:?}");
    }
    let odd = Fake::json(r#"{"items":[{"metadata":5}]}"#).client().list::<Pod>().await.unwrap_err();
    assert!(matches!(odd, Error::Decode { .. }));
    let no_list = Fake::json(POD).client().list::<Pod>().await.unwrap_err();
    assert!(matches!(no_list, Error::Decode { .. }));
}

#[tokio::test]
async fn create_and_update_take_the_namespace_from_the_object() {
    let fake = Fake::json(POD);
    let client = fake.client();
    client.create(&pod(Some("a"), "p")).await.unwrap();
    assert_eq!(body(&fake), json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}}));
    client.create(&pod(None, "p")).field_validation(FieldValidation::Strict).dry_run().await.unwrap();
    client.create(&pod(None, "p")).within("b").await.unwrap();
    client.update(&pod(Some("a"), "p")).await.unwrap();
    client.update_status(&pod(Some("a"), "p")).await.unwrap();
    assert_eq!(
        fake.seen(),
        [
            "POST /api/v1/namespaces/a/pods",
            "POST /api/v1/namespaces/home/pods?dryRun=All&fieldValidation=Strict",
            "POST /api/v1/namespaces/b/pods",
            "PUT /api/v1/namespaces/a/pods/p",
            "PUT /api/v1/namespaces/a/pods/p/status"
        ]
    );
}

#[tokio::test]
async fn errors_of_create_name_the_object() {
    let client = Fake::failure(409, "").client();
    let error = client.create(&pod(Some("a"), "p")).await.unwrap_err();
    assert!(error.is_already_exists());
    assert!(error.to_string().starts_with(r#"create pods "a/p": "#), "{error}");
    let unnamed = Pod {
        metadata: ObjectMeta { generate_name: Some("web-".to_owned()), ..ObjectMeta::default() },
        ..Pod::default()
    };
    let error = client.create(&unnamed).await.unwrap_err();
    assert!(error.to_string().starts_with(r#"create pods "home/web-": "#), "{error}");
    let error = client.update(&Pod::default()).await.unwrap_err();
    assert!(matches!(error, Error::Request { .. }), "{error}");
}

#[tokio::test]
async fn writes_are_in_the_name_of_the_field_owner() {
    let fake = Fake::json(POD);
    let client = fake.client().with_field_owner("me");
    client.create(&pod(None, "p")).await.unwrap();
    client.update(&pod(None, "p")).field_manager("other").await.unwrap();
    client.patch::<Pod>("p", Patch::Merge(json!({}))).await.unwrap();
    client.apply(&pod(None, "p")).await.unwrap();
    fake.client().apply(&pod(None, "p")).await.unwrap();
    fake.client().patch::<Pod>("p", Patch::Apply(json!({}))).force().await.unwrap();
    let program = fake.client().field_manager().to_owned();
    assert!(program.starts_with("windlass_client-"), "{program}");
    assert_eq!(
        fake.seen(),
        [
            "POST /api/v1/namespaces/home/pods?fieldManager=me".to_owned(),
            "PUT /api/v1/namespaces/home/pods/p?fieldManager=other".to_owned(),
            "PATCH /api/v1/namespaces/home/pods/p?fieldManager=me".to_owned(),
            "PATCH /api/v1/namespaces/home/pods/p?fieldManager=me".to_owned(),
            format!("PATCH /api/v1/namespaces/home/pods/p?fieldManager={program}"),
            format!("PATCH /api/v1/namespaces/home/pods/p?fieldManager={program}&force=true"),
        ]
    );
}

#[tokio::test]
async fn client_options_apply_to_writes_without_options() {
    let fake = Fake::json(POD);
    let client = fake.client().with_dry_run().with_field_validation(FieldValidation::Strict);
    client.create(&pod(None, "p")).await.unwrap();
    client.update(&pod(None, "p")).field_validation(FieldValidation::Warn).await.unwrap();
    client.patch::<Pod>("p", Patch::Merge(json!({}))).await.unwrap();
    client.apply(&pod(None, "p")).field_manager("me").await.unwrap();
    client.get::<Pod>("p").await.unwrap();
    let (dry, one) = ("dryRun=All&fieldValidation", "/api/v1/namespaces/home/pods/p");
    assert_eq!(
        fake.seen(),
        [
            format!("POST /api/v1/namespaces/home/pods?{dry}=Strict"),
            format!("PUT {one}?{dry}=Warn"),
            format!("PATCH {one}?{dry}=Strict"),
            format!("PATCH {one}?dryRun=All&fieldManager=me&fieldValidation=Strict"),
            format!("GET {one}"),
        ]
    );
    // A deletion sends the option in its body, whatever options it is given.
    client.delete::<Pod>("p").options(DeleteOptions::default()).await.unwrap();
    assert_eq!(body(&fake)["dryRun"], json!(["All"]));
    client.delete_collection::<Pod>().await.unwrap();
    assert_eq!(body(&fake)["dryRun"], json!(["All"]));
    let _ = client.resources::<Pod>().evict("p").await;
    assert_eq!(body(&fake)["deleteOptions"]["dryRun"], json!(["All"]));
    assert!(fake.seen().last().unwrap().ends_with("/pods/p/eviction?dryRun=All"));
}

#[tokio::test]
async fn namespaced_client_writes_no_other_namespace() {
    let fake = Fake::json(POD);
    let client = fake.client().confined_to("team");
    client.get::<Pod>("p").await.unwrap();
    client.get::<Pod>(ObjectRef::new("p").within("team")).await.unwrap();
    client.create(&pod(None, "p")).await.unwrap();
    let _ = client.get::<Namespace>("other").await;
    let _ = client.list::<Pod>().await;
    let _ = client.list_watch(&Pod::api_resource(), None).list(ListOptions::default()).await;
    let pods = "/api/v1/namespaces/team/pods";
    let expected = [
        format!("GET {pods}/p"),
        format!("GET {pods}/p"),
        format!("POST {pods}"),
        "GET /api/v1/namespaces/other".to_owned(),
        format!("GET {pods}"),
        format!("GET {pods}"),
    ];
    assert_eq!(fake.seen(), expected);

    let error = client.create(&pod(Some("home"), "p")).await.unwrap_err();
    assert_eq!(
        error.chain(),
        r#"create pods "home/p": invalid request: the client is confined to the namespace "team", and "home" is given"#
    );
    assert!(client.list::<Pod>().within("home").await.is_err());
    assert!(client.delete::<Pod>("p").within("home").await.is_err());
    assert!(client.logs(ObjectRef::new("p").within("home")).await.is_err());
    let elsewhere = client.list_watch(&Pod::api_resource(), Some("home"));
    assert!(elsewhere.watch(WatchOptions::default()).await.is_err());
    assert_eq!(fake.seen().len(), expected.len(), "nothing was sent");
}

#[tokio::test]
async fn patch_has_its_content_type_and_subresource() {
    let fake = Fake::json(POD);
    let patch = Patch::Json(json!([{"op": "remove", "path": "/spec"}]));
    fake.client().patch::<Pod>("p", patch).within("a").subresource("status").await.unwrap();
    assert_eq!(fake.seen(), ["PATCH /api/v1/namespaces/a/pods/p/status"]);
    assert_eq!(fake.last().headers()["content-type"], "application/json-patch+json");
    assert_eq!(body(&fake), json!([{"op": "remove", "path": "/spec"}]));
}

#[tokio::test]
async fn delete_returns_the_object_or_the_status() {
    let fake = Fake::json(POD);
    let delete = fake.client().delete::<Pod>("p").within("a").propagation(Propagation::Background).uid("u");
    let deletion = delete.grace_period(Duration::from_secs(3)).resource_version("7").await.unwrap();
    assert_eq!(deletion.object().unwrap().resource_version(), Some("7"));
    assert_eq!(fake.seen(), ["DELETE /api/v1/namespaces/a/pods/p"]);
    assert_eq!(
        body(&fake),
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background", "gracePeriodSeconds": 3,
               "preconditions": {"uid": "u", "resourceVersion": "7"}})
    );
    let done = Fake::json(r#"{"kind":"Status","apiVersion":"v1","status":"Success","details":{"name":"p"}}"#);
    let deletion = done.client().delete::<ConfigMap>("p").await.unwrap();
    assert!(matches!(&deletion, Deletion::Status(status) if status.is_success()));
    assert_eq!(deletion.object(), None);
}

#[tokio::test]
async fn delete_collection_is_of_one_namespace() {
    let fake = Fake::json(POD_LIST);
    fake.client().delete_collection::<Pod>().labels("a=b").await.unwrap();
    fake.client().delete_collection::<Pod>().within("a").fields("x=y").dry_run().await.unwrap();
    assert_eq!(
        fake.seen(),
        [
            "DELETE /api/v1/namespaces/home/pods?labelSelector=a%3Db",
            "DELETE /api/v1/namespaces/a/pods?fieldSelector=x%3Dy"
        ]
    );
}

#[tokio::test]
async fn scale_is_read_and_written_as_such() {
    let fake = Fake::json(
        r#"{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d","namespace":"a"},"spec":{"replicas":3},"status":{"replicas":2}}"#,
    );
    let client = fake.client();
    let mut scale = client.get_scale::<Deployment>("d").within("a").await.unwrap();
    assert_eq!(scale.spec.as_ref().unwrap().replicas, Some(3));
    scale.spec.as_mut().unwrap().replicas = Some(5);
    client.update_scale::<Deployment>(&scale).await.unwrap();
    assert_eq!(body(&fake)["spec"]["replicas"], 5);
    client.patch_scale::<Deployment>("d", Patch::Merge(json!({"spec": {"replicas": 1}}))).within("a").await.unwrap();
    assert_eq!(
        fake.seen(),
        [
            "GET /apis/apps/v1/namespaces/a/deployments/d/scale",
            "PUT /apis/apps/v1/namespaces/a/deployments/d/scale",
            "PATCH /apis/apps/v1/namespaces/a/deployments/d/scale"
        ]
    );
}

#[tokio::test]
async fn a_watch_gives_decoded_events_and_ends_with_an_error_event() {
    let fake = Fake::new(|_| {
        Response::new(chunks(
            vec![
                "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"p\"}}}\n{\"type\":\"BOOK",
                "MARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"9\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n",
                "{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":\"p\"}}}\n",
                "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}}\n",
                "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"never\"}}}\n",
            ],
            End::Clean,
        ))
    });
    let watch = fake.client().watch::<Pod>().within("a").labels("l").fields("f").resource_version("5").initial_events();
    let mut stream = watch.timeout(Duration::from_mins(1)).await.unwrap();
    assert!(matches!(stream.next().await, Some(Ok(WatchEvent::Added(pod))) if pod.name() == "p"));
    let bookmark = Bookmark { resource_version: "9".into(), initial_events_end: true };
    assert_eq!(stream.next().await.unwrap().unwrap(), WatchEvent::Bookmark(bookmark));
    assert!(matches!(stream.next().await, Some(Ok(WatchEvent::Deleted(_)))));
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(error.is_expired());
    assert!(error.to_string().starts_with(r#"watch pods in "a": "#), "{error}");
    assert!(stream.next().await.is_none());
    assert_eq!(
        fake.seen(),
        ["GET /api/v1/namespaces/a/pods?watch=true&labelSelector=l&fieldSelector=f&resourceVersion=5\
          &allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=60"]
    );
}

#[tokio::test]
async fn undecodable_event_ends_the_watch() {
    let fake = Fake::json("{\"type\":\"ADDED\",\"object\":{\"metadata\":3}}\n{\"type\":\"ADDED\",\"object\":{}}\n");
    let mut stream = fake.client().watch::<Pod>().await.unwrap();
    assert!(matches!(stream.next().await, Some(Err(Error::Decode { .. }))));
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn dynamic_objects_keep_all_and_get_their_kind() {
    let fake = Fake::json(r#"{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"x"},"spec":{"n":1}}]}"#);
    let foos = fake.client().dynamic(&foos());
    let list = foos.list().within("a").await.unwrap();
    assert_eq!(list.items[0].types.as_ref().unwrap().kind, "Foo");
    assert_eq!(list.items[0].data["spec"], json!({"n": 1}));
    assert_eq!(fake.seen(), ["GET /apis/x.io/v1/namespaces/a/foos"]);

    let fake = Fake::json(r#"{"apiVersion":"x.io/v1","kind":"Foo","metadata":{"name":"x"}}"#);
    let foos = fake.client().dynamic(&self::foos());
    let untyped = DynamicObject { types: None, ..list.items[0].clone() };
    foos.create(&untyped).await.unwrap();
    assert_eq!(
        body(&fake),
        json!({"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "x"}, "spec": {"n": 1}})
    );
    foos.apply(&untyped).await.unwrap();
    assert_eq!(body(&fake)["kind"], "Foo");
}

#[tokio::test]
async fn dynamic_update_keeps_fields_that_no_type_has() {
    let served = json!({
        "apiVersion": "x.io/v1", "kind": "Foo",
        "metadata": {"name": "x", "namespace": "a", "resourceVersion": "7", "later": {"of": "a newer server"}},
        "spec": {"n": 1, "deep": [{"odd": null}], "large": 9_007_199_254_740_993_i64},
        "odd": [true],
    });
    let text = served.to_string();
    let fake = Fake::new(move |_| Response::new(text.clone().into()));
    let foos = fake.client().dynamic(&foos());
    let mut foo = foos.get(ObjectRef::new("x").within("a")).await.unwrap();
    foo.set_nested(&["spec", "n"], 2).unwrap();
    foos.update(&foo).await.unwrap();
    let mut expected = served;
    expected["spec"]["n"] = 2.into();
    assert_eq!(body(&fake), expected);
    assert_eq!(fake.seen()[1], "PUT /apis/x.io/v1/namespaces/a/foos/x");
}

#[tokio::test]
async fn metadata_is_read_without_the_rest() {
    let fake = Fake::json(
        r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[{"metadata":{"name":"x","labels":{"a":"b"}}}]}"#,
    );
    let list = fake.client().metadata(&foos()).list().await.unwrap();
    assert_eq!(list.items[0].labels()["a"], "b");
    assert!(fake.last().headers()["accept"].to_str().unwrap().contains("as=PartialObjectMetadataList"));
}

#[tokio::test]
async fn raw_requests_give_raw_answers() {
    let fake = Fake::failure(404, "nothing here");
    let request = || Request::get("/version").body(()).unwrap();
    let response = fake.client().request(request()).await.unwrap();
    assert_eq!(response.status(), 404);
    let error = fake.client().request_json::<Value>(request()).await.unwrap_err();
    assert!(error.is_not_found());
    assert!(error.to_string().starts_with("request /version: "), "{error}");
    let version: Value = Fake::json(r#"{"major":"1"}"#).client().request_json(request()).await.unwrap();
    assert_eq!(version["major"], "1");
}

#[tokio::test]
async fn list_watch_returns_encoded_objects() {
    let fake = Fake::json(POD_LIST);
    let list_watch = fake.client().list_watch(&Pod::api_resource(), Some("a"));
    let items: Vec<_> = list_watch
        .list(ListOptions { limit: Some(2), ..ListOptions::default() })
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert!(matches!(&items[0], ListItem::Object(bytes) if bytes == r#"{"metadata":{"name":"p"}}"#));
    assert!(matches!(&items[2], ListItem::End(meta) if meta.resource_version.as_u64() == Some(42)));
    assert_eq!(items.len(), 3);

    let fake = Fake::json(
        "{\"type\":\"MODIFIED\",\"object\":{\"a\":1}}\n{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\"}}\n{}\n",
    );
    let list_watch = fake.client().list_watch(&Pod::api_resource(), None).metadata_only();
    let events: Vec<RawEvent> = list_watch.watch(WatchOptions::default()).await.unwrap().try_collect().await.unwrap();
    assert_eq!((events.len(), &*events[0].body), (2, &br#"{"a":1}"#[..]));
    assert_eq!(fake.seen(), ["GET /api/v1/pods?watch=true"]);
    assert!(fake.last().headers()["accept"].to_str().unwrap().contains("as=PartialObjectMetadata;"));
}

#[tokio::test]
async fn list_watch_requests_metadata_for_metadata_caches() {
    let fake = Fake::json(POD_LIST);
    let whole = fake.client().list_watch(&Pod::api_resource(), None);
    let accepted = || fake.last().headers()["accept"].to_str().unwrap().to_owned();
    for (content, partial) in [(Content::Object, false), (Content::Metadata, true)] {
        drop(whole.list(ListOptions { content, ..ListOptions::default() }).await.unwrap());
        assert_eq!(accepted().contains("as=PartialObjectMetadataList;"), partial);
        drop(whole.watch(WatchOptions { content, ..WatchOptions::default() }).await.unwrap());
        assert_eq!(accepted().contains("as=PartialObjectMetadata;"), partial);
    }
    drop(whole.metadata_only().list(ListOptions::default()).await.unwrap());
    assert!(accepted().contains("as=PartialObjectMetadataList;"));
}

#[tokio::test]
async fn list_watch_distinguishes_errors() {
    let list_watch = Fake::failure(410, "").client().list_watch(&Pod::api_resource(), None);
    assert!(list_watch.list(ListOptions::default()).await.err().unwrap().is_expired());
    assert!(list_watch.watch(WatchOptions::default()).await.err().unwrap().is_expired());
    let cut = Fake::new(|_| Response::new(chunks(vec![r#"{"items":[{}"#], End::Clean)));
    let items: Vec<_> =
        cut.client().list_watch(&Pod::api_resource(), None).list(ListOptions::default()).await.unwrap().collect().await;
    assert!(matches!(items.last(), Some(Err(ListWatchError::Transport(_)))), "{items:?}");
    let odd = cut.client().list_watch(&Pod::api_resource(), Some("../x"));
    assert!(odd.list(ListOptions::default()).await.is_err());
}

#[tokio::test]
async fn a_service_that_fails_is_a_transport_error() {
    let service =
        tower::service_fn(|_: Request<Body>| async { Err::<Response<Body>, _>(std::io::Error::other("gone")) });
    let client = Client::from_service(service, "home");
    let error = client.get::<Pod>("p").await.unwrap_err();
    assert!(error.is_transport());
    assert_eq!(error.chain(), r#"get pods "home/p": the connection to the server failed: gone"#);
}
