use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use http::{Request, Response};
use http_body::Frame;
use parking_lot::Mutex;
use windlass_api::{BoxError, ObjectExt as _, k8s_openapi::api::core::v1::ConfigMap};

use super::*;
use crate::{
    Client,
    body::Body,
    testing::{End, Fake},
};

/// A watch on a real kube-apiserver 1.36: two additions, two changes, a deletion, bookmarks.
const RECORDED: &str = include_str!("recorded.jsonl");

/// Formats an event as a consumer sees it.
fn told(event: &WatchEvent<ConfigMap>) -> String {
    let (kind, object) = match event {
        WatchEvent::Added(object) => ("added", object),
        WatchEvent::Modified(object) => ("modified", object),
        WatchEvent::Deleted(object) => ("deleted", object),
        WatchEvent::Bookmark(bookmark) => return format!("bookmark {}", bookmark.resource_version),
    };
    let text = object.data.as_ref().map(|data| &*data["text"]).unwrap_or_default();
    format!("{kind} {} {} {text:?}", object.name(), object.resource_version().unwrap_or_default())
}

/// Returns the recorded events with their resource versions.
fn recorded() -> Vec<(u64, &'static str)> {
    let version = |line: &str| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    };
    RECORDED.lines().map(|line| (version(line), line)).collect()
}

/// Returns a body of these bytes, which then ends or breaks.
fn body(bytes: Vec<u8>, end: End) -> Body {
    let data = Ok(Frame::data(Bytes::from(bytes)));
    let broken = matches!(end, End::Broken).then(|| Err(BoxError::from("reset")));
    Body::wrap(http_body_util::StreamBody::new(stream::iter([data]).chain(stream::iter(broken))))
}

/// Returns a server with the recorded events. It cuts off its first response, and ends each later one with the error
/// that the watch cannot continue.
fn cut_at(cut: usize, end: End) -> Fake {
    let first = Arc::new(Mutex::new(true));
    Fake::new(move |request: &Request<Bytes>| {
        let query = request.uri().query().unwrap_or_default();
        let from: u64 =
            query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion=")).unwrap().parse().unwrap();
        let events = recorded().into_iter().filter(|(version, _)| *version > from);
        let mut bytes: Vec<u8> = events.flat_map(|(_, line)| [line.as_bytes(), b"\n"]).flatten().copied().collect();
        if std::mem::take(&mut *first.lock()) {
            bytes.truncate(cut);
            return Response::new(body(bytes, end));
        }
        bytes.extend(br#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#);
        Response::new(body(bytes, End::Clean))
    })
}

#[tokio::test(start_paused = true)]
async fn a_watch_cut_at_any_byte_gives_each_event_once() {
    let whole: Vec<_> = RECORDED.lines().filter(|line| !line.contains("BOOKMARK")).collect();
    let expected = [
        r#"added a 205 "one\nline \"quoted\" {[é\\""#,
        r#"added b 206 "one\nline \"quoted\" {[é\\""#,
        r#"modified a 207 "two""#,
        r#"deleted b 208 "one\nline \"quoted\" {[é\\""#,
        r#"modified a 209 "two""#,
    ];
    assert_eq!(whole.len(), expected.len());
    for cut in 0..=RECORDED.len() {
        for end in [End::Clean, End::Broken] {
            let client = cut_at(cut, end).client();
            let mut watch = client.watch::<ConfigMap>().within("rec").resource_version("204").retrying();
            let mut seen = Vec::new();
            let error = loop {
                match watch.next().await {
                    Some(Ok(event)) => seen.push(told(&event)),
                    Some(Err(error)) => break error,
                    None => panic!("cut at {cut}: the watch ended without an error"),
                }
            };
            assert_eq!(seen, expected, "cut at {cut}, {end:?}");
            assert!(error.is_expired(), "cut at {cut}: {error:?}");
            assert!(watch.next().await.is_none());
        }
    }
}

#[tokio::test]
async fn watch_without_retry_gives_whole_events_then_an_error() {
    let all: Vec<_> = client_events(RECORDED.as_bytes().to_vec(), End::Clean).await.0;
    assert_eq!(all.len(), RECORDED.lines().count());
    for cut in 0..RECORDED.len() {
        for end in [End::Clean, End::Broken] {
            let (events, error) = client_events(RECORDED.as_bytes()[..cut].to_vec(), end).await;
            assert_eq!(events, all[..events.len()], "cut at {cut}");
            let line = RECORDED.as_bytes()[..cut].rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
            // A line without a line break is an event if it is complete. An incomplete one is reported as a loss.
            let whole = RECORDED.lines().any(|event| event.as_bytes() == line);
            match error {
                Some(error) => assert!(error.is_transport(), "cut at {cut}: {error:?}"),
                None => assert!(matches!(end, End::Clean) && (line.is_empty() || whole), "silent at {cut}"),
            }
        }
    }
}

async fn client_events(bytes: Vec<u8>, end: End) -> (Vec<String>, Option<Error>) {
    let bytes = Mutex::new(Some(bytes));
    let fake = Fake::new(move |_| Response::new(body(bytes.lock().take().unwrap(), end)));
    let mut watch = fake.client().watch::<ConfigMap>().resource_version("204").await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = watch.next().await {
        match event {
            Ok(event) => events.push(told(&event)),
            Err(error) => return (events, Some(error)),
        }
    }
    (events, None)
}

/// Returns a client of a server that sends each of these responses in turn, and then hangs.
fn answering(answers: Vec<(u16, &'static str)>) -> (Fake, Client) {
    let answers = Mutex::new(answers.into_iter());
    let fake = Fake::new(move |_| match answers.lock().next() {
        Some((code, text)) => Response::builder().status(code).body(text.into()).unwrap(),
        None => Response::new(Body::wrap(http_body_util::StreamBody::new(stream::pending::<Result<_, BoxError>>()))),
    });
    let client = fake.client();
    (fake, client)
}

const EVENT: &str = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"p\",\"resourceVersion\":\"7\"}}}\n";
const BOOKMARK: &str = "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}\n";

#[tokio::test(start_paused = true)]
async fn retry_watch_resumes_once_a_second() {
    let (fake, client) = answering(vec![(200, EVENT), (200, BOOKMARK), (500, "down"), (200, "")]);
    let began = Instant::now();
    let mut watch = client.watch::<ConfigMap>().labels("a=b").resource_version("5").retrying();
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));
    assert_eq!(watch.resource_version(), "7");
    assert!(tokio::time::timeout(Duration::from_mins(1), watch.next()).await.is_err(), "a bookmark is not given");
    assert_eq!(began.elapsed().as_secs(), 60);
    let query = "/api/v1/configmaps?watch=true&labelSelector=a%3Db&resourceVersion=";
    let versions: Vec<_> = fake.seen().iter().map(|seen| seen.replace(&format!("GET {query}"), "")).collect();
    let bookmarks = |version: &str| format!("{version}&allowWatchBookmarks=true");
    assert_eq!(versions, ["5", "7", "9", "9", "9"].map(bookmarks));
}

#[tokio::test(start_paused = true)]
async fn retry_after_header_delays_the_retry() {
    let later = r#"{"type":"ERROR","object":{"kind":"Status","code":500,"details":{"retryAfterSeconds":20}}}"#;
    let (fake, client) = answering(vec![(200, later), (200, EVENT)]);
    let began = Instant::now();
    let mut watch = client.watch::<ConfigMap>().resource_version("5").retrying();
    watch.next().await.unwrap().unwrap();
    assert_eq!((began.elapsed().as_secs(), fake.seen().len()), (20, 2));
}

#[tokio::test(start_paused = true)]
async fn permanent_errors_end_the_retry_watch() {
    for (code, text) in [
        (410, ""),
        (403, ""),
        (401, ""),
        (400, ""),
        (200, r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#),
        (200, "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"p\"}}}\n"),
        (200, "{\"type\":\"ADDED\",\"object\":{\"metadata\":3}}\n"),
        (200, "<html>\n"),
    ] {
        let (fake, client) = answering(vec![(code, text)]);
        let mut watch = client.watch::<ConfigMap>().resource_version("5").retrying();
        assert!(watch.next().await.unwrap().is_err(), "{code} {text}");
        assert!(watch.next().await.is_none());
        assert_eq!(fake.seen().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn retry_watch_without_version_is_rejected() {
    for version in [None, Some(""), Some("0")] {
        let (fake, client) = answering(vec![]);
        let watch = client.watch::<ConfigMap>();
        let watch = if let Some(version) = version { watch.resource_version(version) } else { watch };
        let error = watch.retrying().try_next().await.unwrap_err();
        assert!(matches!(error, Error::Request { source: RequestError::NoVersion, .. }), "{error:?}");
        assert!(fake.seen().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_it_ends_the_request() {
    struct Told(Arc<Mutex<bool>>);
    impl Drop for Told {
        fn drop(&mut self) {
            *self.0.lock() = true;
        }
    }
    let dropped = Arc::new(Mutex::new(false));
    let flag = Arc::clone(&dropped);
    let fake = Fake::new(move |_| {
        let told = Told(Arc::clone(&flag));
        let never = stream::pending::<Result<Frame<Bytes>, BoxError>>().inspect(move |_| {
            let _ = &told;
        });
        Response::new(Body::wrap(http_body_util::StreamBody::new(never)))
    });
    let mut watch = fake.client().watch::<ConfigMap>().resource_version("5").retrying();
    assert!(tokio::time::timeout(Duration::from_secs(5), watch.next()).await.is_err());
    assert!(!*dropped.lock());
    drop(watch);
    assert!(*dropped.lock());
    assert!(fake.client().watch::<ConfigMap>().retrying().next().now_or_never().is_some());
}
