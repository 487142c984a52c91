//! Requests and responses in CBOR.

use windlass_api::ListWatchError;
use windlass_cbor::{from_json, is_cbor, to_json};

use super::*;
use crate::ContentType;

const CBOR: &str = "application/cbor";
const SEQUENCE: &str = "application/cbor-seq";
const FOO: &str = r#"{"apiVersion":"x.io/v1","kind":"Foo","metadata":{"name":"f","namespace":"a","resourceVersion":"7"},"spec":{"ratio":0.5,"count":-3}}"#;
const FOO_LIST: &str = r#"{"apiVersion":"x.io/v1","kind":"FooList","metadata":{"resourceVersion":"42","continue":"next"},
    "items":[{"apiVersion":"x.io/v1","kind":"Foo","metadata":{"name":"f"}},{"apiVersion":"x.io/v1","kind":"Foo","metadata":{"name":"g"}}]}"#;

fn encoded(content_type: &str, body: Vec<u8>) -> Response<Body> {
    Response::builder().header("content-type", content_type).body(body.into()).unwrap()
}

/// A server that answers in CBOR if the request accepts it.
fn server() -> Fake {
    Fake::new(|request| {
        let accepts = request.headers()["accept"].to_str().unwrap().starts_with(CBOR);
        let json = if request.uri().path().ends_with("foos") && request.method() == "GET" { FOO_LIST } else { FOO };
        if accepts { encoded(CBOR, from_json(json.as_bytes()).unwrap()) } else { Response::new(json.into()) }
    })
}

fn client(fake: &Fake) -> Client {
    fake.client().with_content_type(ContentType::Cbor)
}

fn sent(fake: &Fake) -> (String, Value) {
    let request = fake.last();
    let content_type = request.headers()["content-type"].to_str().unwrap().to_owned();
    (content_type, serde_json::from_slice(&to_json(request.body()).unwrap()).unwrap())
}

#[tokio::test]
async fn dynamic_objects_are_read_and_written_in_cbor() {
    let fake = server();
    let foos = client(&fake).dynamic(&foos());
    let read = foos.get("f").within("a").await.unwrap();
    assert_eq!((read.name(), &read.data["spec"]), ("f", &json!({"ratio": 0.5, "count": -3})));
    assert_eq!(fake.last().headers()["accept"], "application/cbor,application/json;q=0.9");

    let list = foos.list().await.unwrap();
    assert_eq!(list.items.iter().map(windlass_api::ObjectExt::name).collect::<Vec<_>>(), ["f", "g"]);
    assert_eq!(list.metadata.continue_token.as_deref(), Some("next"));

    let whole: Value = serde_json::from_str(FOO).unwrap();
    assert_eq!(foos.update(&read).await.unwrap(), read);
    assert_eq!(sent(&fake), (CBOR.to_owned(), whole.clone()));
    foos.create(&read).await.unwrap();
    assert!(is_cbor(fake.last().body()));
    foos.apply(&read).await.unwrap();
    assert_eq!(sent(&fake).0, "application/apply-patch+cbor");
    foos.patch("f", Patch::Merge(json!({"metadata": {}}))).within("a").await.unwrap();
    assert_eq!(fake.last().headers()["content-type"], "application/merge-patch+json");
}

#[tokio::test]
async fn typed_objects_are_decoded_from_cbor() {
    let fake = Fake::new(|_| encoded(CBOR, from_json(POD.as_bytes()).unwrap()));
    let read = client(&fake).get::<Pod>("p").await.unwrap();
    assert_eq!((read.name(), read.resource_version()), ("p", Some("7")));
    client(&fake).create(&pod(Some("a"), "p")).await.unwrap();
    assert_eq!(sent(&fake).1["kind"], "Pod");
}

#[tokio::test]
async fn metadata_is_requested_in_cbor() {
    let fake = server();
    let read = client(&fake).metadata(&foos()).get("f").await.unwrap();
    assert_eq!(read.name(), "f");
    assert!(
        fake.last().headers()["accept"].to_str().unwrap().starts_with("application/cbor;as=PartialObjectMetadata;")
    );
}

#[tokio::test]
async fn cbor_body_is_sent_again_in_json_after_a_415_and_the_resource_is_remembered() {
    for apply in [false, true] {
        let fake = Fake::new(|request| {
            if is_cbor(request.body()) {
                return Response::builder().status(415).body("no CBOR here".into()).unwrap();
            }
            Response::new(FOO.into())
        });
        let dynamic = client(&fake).dynamic(&foos());
        let foo: DynamicObject = serde_json::from_str(FOO).unwrap();
        if apply {
            dynamic.apply(&foo).await.unwrap();
        } else {
            dynamic.create(&foo).await.unwrap();
        }
        assert_eq!(fake.seen().len(), 2);
        assert_eq!(fake.last().headers()["accept"], "application/json");
        assert_eq!(body(&fake)["metadata"]["name"], "f");
        dynamic.update(&foo).await.unwrap();
        assert_eq!(fake.seen().len(), 3);
    }
}

#[tokio::test]
async fn rejected_patch_that_was_not_converted_is_not_sent_again() {
    let fake = Fake::new(|_| Response::builder().status(415).body("no merge patches".into()).unwrap());
    let patch = Patch::Merge(json!({}));
    client(&fake).dynamic(&foos()).patch("f", patch).within("a").await.unwrap_err();
    assert_eq!(fake.seen().len(), 1);
}

#[tokio::test]
async fn status_in_cbor_is_the_error() {
    let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"foos.x.io \"f\" not found","reason":"NotFound","details":{"name":"f","kind":"foos"},"code":404}"#;
    let fake = Fake::new(move |_| {
        let mut response = encoded(CBOR, from_json(status.as_bytes()).unwrap());
        *response.status_mut() = StatusCode::NOT_FOUND;
        response
    });
    let error = client(&fake).dynamic(&foos()).get("f").await.unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(error.status().unwrap().details.as_ref().unwrap().name, "f");
}

/// Returns a watch: a sequence. The order of the members varies, as in Go.
fn watch(events: &[(&str, &str)]) -> Vec<u8> {
    let event = |(index, (event_type, object)): (usize, &(&str, &str))| {
        let object = format!(r#""object":{object}"#);
        let json = match index % 2 {
            0 => format!(r#"{{"type":"{event_type}",{object}}}"#),
            _ => format!(r#"{{{object},"type":"{event_type}"}}"#),
        };
        from_json(json.as_bytes()).unwrap()
    };
    events.iter().enumerate().flat_map(event).collect()
}

const BOOKMARK: &str = r#"{"kind":"Foo","apiVersion":"x.io/v1","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
const EXPIRED: &str =
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Expired","code":410}"#;

#[tokio::test]
async fn watch_in_cbor_has_objects_bookmarks_and_errors() {
    let stream = watch(&[("ADDED", FOO), ("DELETED", FOO), ("BOOKMARK", BOOKMARK), ("ERROR", EXPIRED)]);
    let fake = Fake::new(move |_| encoded(SEQUENCE, stream.clone()));
    let mut events = client(&fake).dynamic(&foos()).watch().await.unwrap();
    assert!(matches!(events.next().await, Some(Ok(WatchEvent::Added(foo))) if foo.name() == "f"));
    assert!(matches!(events.next().await, Some(Ok(WatchEvent::Deleted(foo))) if foo.name() == "f"));
    let bookmark = Bookmark { resource_version: "9".into(), initial_events_end: true };
    assert_eq!(events.next().await.unwrap().unwrap(), WatchEvent::Bookmark(bookmark));
    assert!(events.next().await.unwrap().unwrap_err().is_expired());
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn list_watch_yields_json() {
    let fake = server();
    let list_watch = client(&fake).list_watch(&foos(), None);
    let items: Vec<_> = list_watch.list(ListOptions::default()).await.unwrap().try_collect().await.unwrap();
    let [ListItem::Object(first), ListItem::Object(_), ListItem::End(meta)] = &items[..] else { panic!("{items:?}") };
    assert_eq!(&**first, br#"{"apiVersion":"x.io/v1","kind":"Foo","metadata":{"name":"f"}}"#);
    assert_eq!(meta.resource_version.as_str(), "42");
}

#[tokio::test]
async fn cut_watch_and_list_in_cbor_are_transport_errors() {
    let stream = watch(&[("ADDED", FOO), ("MODIFIED", FOO)]);
    let second = watch(&[("ADDED", FOO)]).len();
    for end in [second + 1, stream.len() - 3] {
        let cut = stream[..end].to_vec();
        let fake = Fake::new(move |_| encoded(SEQUENCE, cut.clone()));
        let list_watch = client(&fake).list_watch(&foos(), None);
        let events: Vec<_> = list_watch.watch(WatchOptions::default()).await.unwrap().collect().await;
        assert!(matches!(&events[..], [Ok(_), Err(ListWatchError::Transport(_))]), "{events:?}");
    }
    let list = from_json(FOO_LIST.as_bytes()).unwrap();
    let fake = Fake::new(move |_| encoded(CBOR, list[..list.len() - 9].to_vec()));
    let list_watch = client(&fake).list_watch(&foos(), None);
    let items: Vec<_> = list_watch.list(ListOptions::default()).await.unwrap().collect().await;
    assert!(matches!(items.last(), Some(Err(ListWatchError::Transport(_)))), "{items:?}");
}

#[tokio::test]
async fn malformed_cbor_is_a_decoding_error() {
    // A map with a key twice.
    let fake = Fake::new(|_| encoded(CBOR, vec![0xd9, 0xd9, 0xf7, 0xa2, 0x41, b'a', 0x01, 0x41, b'a', 0x02]));
    let error = client(&fake).dynamic(&foos()).get("f").await.unwrap_err();
    let text = format!("{error:?}");
    assert!(text.contains("Duplicate") && text.contains("Decode"), "{text}");
}
