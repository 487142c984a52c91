use futures::TryStreamExt as _;
use http::Response;
use windlass_api::{ObjectExt as _, k8s_openapi::api::core::v1::Pod};

use crate::testing::{End, Fake, chunks};

/// Returns a page of two pods.
fn page(names: [&str; 2], next: &str) -> String {
    let item = |name: &str| format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
    format!(
        r#"{{"metadata":{{"resourceVersion":"7","continue":"{next}","remainingItemCount":3}},"items":[{},{}]}}"#,
        item(names[0]),
        item(names[1])
    )
}

/// Returns a server with three pages. From the page of this number on, the resource version has expired.
fn server(forgotten_from: usize) -> Fake {
    Fake::new(move |request| {
        let query = request.uri().query().unwrap_or_default();
        let number = if query.contains("continue=two") {
            1
        } else if query.contains("continue=three") {
            2
        } else {
            0
        };
        if number > 0 && number >= forgotten_from {
            let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}"#;
            return Response::builder().status(410).body(body.into()).unwrap();
        }
        let (names, next) = [(["a", "b"], "two"), (["c", "d"], "three"), (["e", "f"], "")][number];
        // In this test, the whole list is one page.
        let next = if query.contains("limit") { next } else { "" };
        Response::new(page(names, next).into())
    })
}

fn names(pods: impl IntoIterator<Item = Pod>) -> String {
    pods.into_iter().map(|pod| pod.name().to_owned()).collect()
}

#[tokio::test]
async fn all_pages_are_one_list() {
    let fake = server(usize::MAX);
    let list = fake.client().list::<Pod>().labels("x=y").resource_version("3").limit(2).paged().await.unwrap();
    assert_eq!(list.metadata.resource_version.as_u64(), Some(7));
    assert_eq!(list.metadata.continue_token, None);
    assert_eq!(names(list), "abcdef");
    assert_eq!(
        fake.seen(),
        [
            "GET /api/v1/pods?labelSelector=x%3Dy&limit=2&resourceVersion=3",
            "GET /api/v1/pods?labelSelector=x%3Dy&limit=2&continue=two",
            "GET /api/v1/pods?labelSelector=x%3Dy&limit=2&continue=three",
        ]
    );
    fake.client().list::<Pod>().paged().await.unwrap();
    assert_eq!(fake.seen()[3], "GET /api/v1/pods?limit=500");
}

#[tokio::test]
async fn expired_continue_token_restarts_as_a_full_list() {
    for forgotten in [1, 2] {
        let fake = server(forgotten);
        let list = fake.client().list::<Pod>().resource_version("3").paged().await.unwrap();
        assert_eq!(names(list), "ab");
        assert_eq!(fake.seen().last().unwrap(), "GET /api/v1/pods?resourceVersion=3");
        assert_eq!(fake.seen().len(), forgotten + 2);
    }
    // Not if the caller started with a continue token: the rest is not the whole list.
    let fake = server(1);
    let error = fake.client().list::<Pod>().continue_from("two").paged().await.unwrap_err();
    assert!(error.is_expired() && fake.seen().len() == 1);
    let error = Fake::failure(403, "").client().list::<Pod>().paged().await.unwrap_err();
    assert!(error.is_forbidden());
}

#[tokio::test]
async fn items_are_streamed_and_pages_loaded_on_demand() {
    let fake = server(usize::MAX);
    let mut items = fake.client().list::<Pod>().limit(2).items();
    assert!(fake.seen().is_empty());
    let mut seen = String::new();
    for requests in [1, 1, 2, 2, 3, 3] {
        seen += items.try_next().await.unwrap().unwrap().name();
        assert_eq!(fake.seen().len(), requests);
    }
    assert!(items.try_next().await.unwrap().is_none());
    assert_eq!((&*seen, fake.seen().len()), ("abcdef", 3));
}

#[tokio::test]
async fn items_end_with_an_error_when_the_version_is_forgotten() {
    let mut items = server(1).client().list::<Pod>().items();
    for _ in 0..2 {
        assert!(items.try_next().await.unwrap().is_some());
    }
    assert!(items.try_next().await.unwrap_err().is_expired());
    assert!(items.try_next().await.unwrap().is_none());
}

#[tokio::test]
async fn truncated_list_yields_the_received_items() {
    let cut = Fake::new(|_| Response::new(chunks(vec![r#"{"items":[{"metadata":{"name":"a"}},{"meta"#], End::Clean)));
    let mut items = cut.client().list::<Pod>().items();
    assert_eq!(items.try_next().await.unwrap().unwrap().name(), "a");
    assert!(items.try_next().await.unwrap_err().is_transport());
}
