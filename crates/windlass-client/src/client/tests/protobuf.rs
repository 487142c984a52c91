//! Requests and responses in protobuf.

use windlass_api::{Content, ListOptions, ListWatch as _, ListWatchError, WatchOptions};
use windlass_protobuf::{is_protobuf, to_protobuf};

use super::*;
use crate::ContentType;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn encoded(content_type: &str, json: &str) -> Response<Body> {
    let body = to_protobuf(json.as_bytes()).unwrap();
    Response::builder().header("content-type", content_type).body(body.into()).unwrap()
}

/// A server that answers in protobuf if the request accepts it.
fn server() -> Fake {
    Fake::new(|request| {
        let accepts = request.headers()["accept"].to_str().unwrap().starts_with(PROTOBUF);
        let json = if request.uri().path().ends_with("pods") && request.method() == "GET" { POD_LIST } else { POD };
        if accepts { encoded(PROTOBUF, json) } else { Response::new(json.into()) }
    })
}

fn client(fake: &Fake) -> Client {
    fake.client().with_content_type(ContentType::Protobuf)
}

#[tokio::test]
async fn client_of_a_service_sends_and_accepts_json() {
    let fake = server();
    fake.client().create(&pod(Some("a"), "p")).await.unwrap();
    let request = fake.last();
    assert_eq!(
        (&request.headers()["accept"], &request.headers()["content-type"]),
        (&"application/json".parse().unwrap(), &"application/json".parse().unwrap())
    );
    assert!(!is_protobuf(request.body()));
}

#[tokio::test]
async fn get_list_and_typed_writes_are_protobuf() {
    let fake = server();
    let client = client(&fake);
    let read = client.get::<Pod>("p").within("a").await.unwrap();
    assert_eq!((read.name(), read.resource_version()), ("p", Some("7")));
    assert_eq!(fake.last().headers()["accept"], "application/vnd.kubernetes.protobuf,application/json");

    let list = client.list::<Pod>().await.unwrap();
    assert_eq!(list.items.iter().map(windlass_api::ObjectExt::name).collect::<Vec<_>>(), ["p", "q"]);
    assert_eq!(list.metadata.continue_token.as_deref(), Some("next"));

    for create in [true, false] {
        let pod = pod(Some("a"), "p");
        let written = if create { client.create(&pod).await } else { client.update(&pod).await };
        assert_eq!(written.unwrap().resource_version(), Some("7"));
        let sent = fake.last();
        assert_eq!(sent.headers()["content-type"], PROTOBUF);
        let sent: Pod = windlass_protobuf::decode(sent.body()).unwrap();
        // As in Go, protobuf has the zero value of `spec`.
        assert_eq!(sent.metadata, pod.metadata);
    }

    // A patch is JSON; its response is protobuf.
    let patched = client.patch::<Pod>("p", Patch::Merge(json!({"metadata": {}}))).within("a").await.unwrap();
    assert_eq!(patched.name(), "p");
    assert_eq!(fake.last().headers()["content-type"], "application/merge-patch+json");
    assert!(fake.last().headers()["accept"].to_str().unwrap().starts_with(PROTOBUF));
}

#[tokio::test]
async fn dynamic_objects_keep_fields_of_newer_servers() {
    // A server whose JSON has a field that the table of messages lacks.
    let fake = Fake::new(|request| {
        let accepts = request.headers()["accept"].to_str().unwrap().starts_with(PROTOBUF);
        let newer = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"a"},"spec":{"newer":1}}"#;
        if accepts { encoded(PROTOBUF, newer) } else { Response::new(newer.into()) }
    });
    let pods = client(&fake).dynamic(&Pod::api_resource());
    let read = pods.get("p").within("a").await.unwrap();
    assert_eq!((read.name(), read.types.as_ref().unwrap().kind.as_str()), ("p", "Pod"));
    pods.update(&read).await.unwrap();
    assert_eq!(fake.last().headers()["content-type"], "application/json");
    assert_eq!(body(&fake)["spec"]["newer"], 1);
}

#[tokio::test]
async fn lists_and_watches_of_dynamic_objects_are_json() {
    let fake = server();
    let pods = client(&fake).list_watch(&Pod::api_resource(), None);
    for (content, expected) in [(Content::AllFields, "application/json"), (Content::Object, PROTOBUF)] {
        drop(pods.list(ListOptions { content, ..ListOptions::default() }).await.unwrap());
        assert!(fake.last().headers()["accept"].to_str().unwrap().starts_with(expected));
        drop(pods.watch(WatchOptions { content, ..WatchOptions::default() }).await.unwrap());
        assert!(fake.last().headers()["accept"].to_str().unwrap().starts_with(expected));
    }
}

#[test]
fn configurations_prefer_protobuf() {
    let config = crate::Config::new("https://cluster.example".parse().unwrap());
    assert_eq!(config.content_type, ContentType::Protobuf);
}

#[tokio::test]
async fn managed_fields_are_removed_from_protobuf() {
    let json = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","managedFields":[{"manager":"m"}]}}"#;
    let fake = Fake::new(move |_| encoded(PROTOBUF, json));
    let kept = client(&fake).get::<Pod>("p").await.unwrap();
    assert_eq!(kept.metadata.managed_fields.unwrap().len(), 1);
    let dropped = client(&fake).without_managed_fields().get::<Pod>("p").await.unwrap();
    assert_eq!(dropped.metadata.managed_fields, None);
}

#[tokio::test]
async fn kinds_without_protobuf_are_json() {
    let foo = r#"{"kind":"Foo","apiVersion":"x.io/v1","metadata":{"name":"f"}}"#;
    let fake = Fake::json(foo);
    client(&fake).dynamic(&foos()).get("f").await.unwrap();
    assert_eq!(fake.last().headers()["accept"], "application/json");
}

#[tokio::test]
async fn request_is_sent_again_in_json_after_a_406_or_415_and_the_resource_is_remembered() {
    for code in [406, 415] {
        let fake = Fake::new(move |request| {
            let header = |name: &str| request.headers().get(name).map_or("", |value| value.to_str().unwrap());
            if header("accept").starts_with(PROTOBUF) || header("content-type") == PROTOBUF {
                return Response::builder().status(code).body("no protobuf here".into()).unwrap();
            }
            Response::new(POD.into())
        });
        let client = client(&fake);
        let created = client.create(&pod(Some("a"), "p")).await.unwrap();
        assert_eq!((created.name(), fake.seen().len()), ("p", 2), "{code}");
        assert_eq!(body(&fake)["metadata"]["name"], "p");
        client.get::<Pod>("p").within("a").await.unwrap();
        client.clone().update(&pod(Some("a"), "p")).await.unwrap();
        assert_eq!(fake.seen().len(), 4, "{code}");
        // Another resource is tried again.
        drop(client.get::<ConfigMap>("m").await);
        assert_eq!(fake.seen().len(), 6, "{code}");
    }
}

#[tokio::test]
async fn status_in_protobuf_is_the_error() {
    let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"p\" not found","reason":"NotFound","details":{"name":"p","kind":"pods"},"code":404}"#;
    let fake = Fake::new(move |_| {
        let mut response = encoded(PROTOBUF, status);
        *response.status_mut() = StatusCode::NOT_FOUND;
        response
    });
    let error = client(&fake).get::<Pod>("p").await.unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(error.status().unwrap().message, "pods \"p\" not found");
    assert_eq!(error.status().unwrap().details.as_ref().unwrap().name, "p");
}

/// Returns a watch: frames with a length.
fn watch(events: &[(&str, &str)]) -> Vec<u8> {
    let length =
        |bytes: &[u8]| vec![u8::try_from(bytes.len() & 0x7F).unwrap() | 0x80, u8::try_from(bytes.len() >> 7).unwrap()];
    let mut stream = Vec::new();
    for (event_type, object) in events {
        let object = to_protobuf(object.as_bytes()).unwrap();
        let raw = [&[0x0a][..], &length(&object), &object].concat();
        let head = [&[0x0a, u8::try_from(event_type.len()).unwrap()][..], event_type.as_bytes()].concat();
        let event = [&head[..], &[0x12], &length(&raw), &raw].concat();
        stream.extend_from_slice(&u32::try_from(event.len()).unwrap().to_be_bytes());
        stream.extend_from_slice(&event);
    }
    stream
}

fn watching(stream: Vec<u8>) -> Fake {
    Fake::new(move |_| {
        let response = Response::builder().header("content-type", "application/vnd.kubernetes.protobuf;stream=watch");
        response.body(stream.clone().into()).unwrap()
    })
}

const BOOKMARK: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
const EXPIRED: &str =
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Expired","code":410}"#;

#[tokio::test]
async fn watch_in_protobuf_has_objects_bookmarks_and_errors() {
    let stream = watch(&[("ADDED", POD), ("DELETED", POD), ("BOOKMARK", BOOKMARK), ("ERROR", EXPIRED)]);
    let fake = watching(stream);
    let mut events = client(&fake).watch::<Pod>().await.unwrap();
    assert!(matches!(events.next().await, Some(Ok(WatchEvent::Added(pod))) if pod.name() == "p"));
    assert!(matches!(events.next().await, Some(Ok(WatchEvent::Deleted(pod))) if pod.name() == "p"));
    let bookmark = Bookmark { resource_version: "9".into(), initial_events_end: true };
    assert_eq!(events.next().await.unwrap().unwrap(), WatchEvent::Bookmark(bookmark));
    assert!(events.next().await.unwrap().unwrap_err().is_expired());
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn cut_watch_and_list_in_protobuf_are_transport_errors() {
    let stream = watch(&[("ADDED", POD), ("MODIFIED", POD)]);
    let fake = watching(stream[..stream.len() - 3].to_vec());
    let list_watch = client(&fake).list_watch(&Pod::api_resource(), None);
    let events: Vec<_> = list_watch.watch(WatchOptions::default()).await.unwrap().collect().await;
    assert!(matches!(&events[..], [Ok(_), Err(ListWatchError::Transport(_))]), "{events:?}");

    let list = to_protobuf(POD_LIST.as_bytes()).unwrap();
    let fake = Fake::new(move |_| {
        Response::builder().header("content-type", PROTOBUF).body(list[..list.len() - 9].to_vec().into()).unwrap()
    });
    let list_watch = client(&fake).list_watch(&Pod::api_resource(), None);
    let items: Vec<_> = list_watch.list(ListOptions::default()).await.unwrap().collect().await;
    assert!(matches!(items.last(), Some(Err(ListWatchError::Transport(_)))), "{items:?}");
}

#[tokio::test]
async fn list_watch_yields_objects_with_envelopes() {
    let fake = server();
    let list_watch = client(&fake).list_watch(&Pod::api_resource(), None);
    let items: Vec<_> = list_watch.list(ListOptions::default()).await.unwrap().try_collect().await.unwrap();
    let [ListItem::Object(first), ListItem::Object(_), ListItem::End(meta)] = &items[..] else { panic!("{items:?}") };
    assert_eq!(windlass_protobuf::type_of(first).unwrap(), ("v1".into(), "Pod".into()));
    assert_eq!(meta.resource_version.as_str(), "42");
}
