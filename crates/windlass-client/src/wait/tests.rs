use http::Response;
use parking_lot::Mutex;
use serde_json::json;
use windlass_api::{DynamicObject, k8s_openapi::api::core::v1::Pod};

use super::*;
use crate::testing::Fake;

/// Returns a server with these lists and watches, in turn. After the last one, its watches hang.
fn server(lists: Vec<&'static str>, watches: Vec<&'static str>) -> Fake {
    let (lists, watches) = (Mutex::new(lists.into_iter()), Mutex::new(watches.into_iter()));
    Fake::new(move |request| {
        let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let items = if watch { watches.lock().next() } else { lists.lock().next() };
        match items {
            Some(text) if watch => Response::new(text.into()),
            Some(items) => {
                Response::new(format!(r#"{{"metadata":{{"resourceVersion":"5"}},"items":[{items}]}}"#).into())
            }
            None => {
                Response::new(crate::body::Body::wrap(http_body_util::StreamBody::new(futures::stream::pending::<
                    Result<http_body::Frame<bytes::Bytes>, std::convert::Infallible>,
                >())))
            }
        }
    })
}

const PENDING: &str = r#"{"metadata":{"name":"p","uid":"1"},"status":{"phase":"Pending"}}"#;
const RUNNING: &str = r#"{"type":"MODIFIED","object":{"metadata":{"name":"p","uid":"1","resourceVersion":"6"},"status":{"phase":"Running"}}}"#;
const DELETED: &str = r#"{"type":"DELETED","object":{"metadata":{"name":"p","uid":"1","resourceVersion":"7"}}}"#;
const EXPIRED: &str = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#;

#[tokio::test(start_paused = true)]
async fn wait_returns_at_once_if_the_condition_holds() {
    let fake = server(vec![PENDING], vec![]);
    let pod = fake.client().wait_for::<Pod>("p").within("a").until(field(&["status", "phase"], "Pending")).await;
    assert_eq!(pod.unwrap().unwrap().name(), "p");
    assert_eq!(fake.seen(), ["GET /api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dp"]);
    let fake = server(vec![""], vec![]);
    assert_eq!(fake.client().wait_for::<Pod>("p").until(is_gone()).await.unwrap(), None);
    assert_eq!(fake.seen(), ["GET /api/v1/namespaces/home/pods?fieldSelector=metadata.name%3Dp"]);
}

#[tokio::test(start_paused = true)]
async fn wait_sees_a_change_after_the_list() {
    let fake = server(vec![PENDING], vec![RUNNING]);
    let pod = fake.client().wait_for::<Pod>("p").until(field(&["status", "phase"], "Running")).await.unwrap().unwrap();
    assert_eq!(pod.resource_version(), Some("6"));
    assert!(fake.seen()[1].contains("resourceVersion=5") && fake.seen()[1].contains("fieldSelector=metadata.name%3Dp"));
    let fake = server(vec![PENDING], vec![RUNNING, DELETED]);
    assert_eq!(fake.client().wait_for::<Pod>("p").until(is_gone()).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_too_old_is_listed_anew() {
    let fake = server(vec![PENDING, ""], vec![EXPIRED]);
    assert_eq!(fake.client().wait_for::<Pod>("p").until(is_gone()).await.unwrap(), None);
    assert_eq!(fake.seen().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn wait_fails_after_its_timeout() {
    let fake = server(vec![PENDING], vec![]);
    let wait = fake.client().wait_for::<Pod>("p").timeout(Duration::from_secs(7));
    let error = wait.until(is_gone()).await.unwrap_err();
    assert!(error.is_timeout());
    assert_eq!(error.chain(), r#"watch pods "home/p": timed out after 7s"#);
    let refused = Fake::failure(403, "").client().wait_for::<Pod>("p").until(exists()).await.unwrap_err();
    assert!(refused.is_forbidden());
}

#[tokio::test]
async fn successive_waits_share_the_same_events() {
    let text = format!("{}\n{RUNNING}\n{DELETED}\n", r#"{"type":"ADDED","object":{"metadata":{"name":"p"}}}"#);
    let fake = Fake::new(move |_| Response::new(text.clone().into()));
    let mut events = fake.client().watch::<Pod>().await.unwrap();
    let modified = until(&mut events, |event| matches!(event, WatchEvent::Modified(_))).await.unwrap();
    assert!(modified.is_some());
    let deleted = until(&mut events, |event| matches!(event, WatchEvent::Deleted(_))).await.unwrap();
    assert!(deleted.is_some());
    assert!(until(&mut events, |_| true).await.unwrap().is_none());
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_condition_counts_for_the_generation_that_it_has_seen() {
    let holds = condition::<DynamicObject>("Ready", "True");
    let with = |condition: Value| object(json!({"metadata": {"generation": 3}, "status": {"conditions": [condition]}}));
    for (found, expected) in [
        (with(json!({"type": "Ready", "status": "True"})), true),
        (with(json!({"type": "ready", "status": "true"})), true),
        (with(json!({"type": "Ready", "status": "True", "observedGeneration": 3})), true),
        (with(json!({"type": "Ready", "status": "True", "observedGeneration": 2})), false),
        (with(json!({"type": "Ready", "status": "False"})), false),
        (with(json!({"type": "Other", "status": "True"})), false),
        (object(json!({"metadata": {}})), false),
    ] {
        assert_eq!(holds(Some(&found)), expected, "{found:?}");
    }
    assert!(!holds(None));
}

#[test]
fn fields_and_identities_are_compared_as_they_are() {
    let found = object(json!({"metadata": {"uid": "1"}, "spec": {"replicas": 3}}));
    assert!(field::<DynamicObject>(&["spec", "replicas"], 3)(Some(&found)));
    assert!(!field::<DynamicObject>(&["spec", "replicas"], "3")(Some(&found)));
    assert!(!field::<DynamicObject>(&["spec", "none", "deeper"], 3)(Some(&found)));
    assert!(!field::<DynamicObject>(&["spec"], 3)(None));
    assert!(is_replaced::<DynamicObject>("2")(Some(&found)) && is_replaced::<DynamicObject>("1")(None));
    assert!(!is_replaced::<DynamicObject>("1")(Some(&found)));
    assert!(exists()(Some(&found)) && !exists::<DynamicObject>()(None) && is_gone::<DynamicObject>()(None));
}
