use http::HeaderValue;

use super::*;
use crate::{
    operation::Verb,
    testing::{End, chunks},
};

fn operation() -> Operation {
    Operation {
        verb: Verb::Get,
        resource: "pods".to_owned(),
        subresource: None,
        namespace: Some("n".to_owned()),
        name: Some("p".to_owned()),
    }
}

async fn failure(code: u16, method: Method, body: impl Into<Body>) -> Status {
    let response = Response::builder().status(code).body(body.into()).unwrap();
    match check(response, &method, &operation()).await {
        Err(ListWatchError::Status(status)) => *status,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn server_messages_are_kept() {
    let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods \"p\" not found","reason":"NotFound","details":{"name":"p","kind":"pods"},"code":404}"#;
    let status = failure(404, Method::GET, body).await;
    assert!(status.is_not_found());
    assert_eq!(status.message, r#"pods "p" not found"#);
}

#[tokio::test]
async fn a_status_that_leaves_out_its_code_has_that_of_the_response() {
    let status = failure(410, Method::GET, r#"{"kind":"Status","apiVersion":"v1"}"#).await;
    assert!(status.is_expired());
}

#[tokio::test]
async fn plain_error_response_becomes_a_status() {
    for (code, method, reason) in [
        (400, Method::GET, reason::BAD_REQUEST),
        (401, Method::GET, reason::UNAUTHORIZED),
        (403, Method::GET, reason::FORBIDDEN),
        (404, Method::GET, reason::NOT_FOUND),
        (405, Method::PUT, reason::METHOD_NOT_ALLOWED),
        (409, Method::POST, reason::ALREADY_EXISTS),
        (409, Method::PUT, reason::CONFLICT),
        (422, Method::PUT, reason::INVALID),
        (429, Method::GET, reason::TOO_MANY_REQUESTS),
        (500, Method::GET, reason::INTERNAL_ERROR),
        (502, Method::GET, reason::INTERNAL_ERROR),
        (503, Method::GET, reason::SERVICE_UNAVAILABLE),
        (504, Method::GET, reason::TIMEOUT),
    ] {
        let status = failure(code, method, "<html>no</html>").await;
        assert_eq!((status.code, status.reason.as_deref()), (code, Some(reason)));
        assert!(status.has_cause(reason::UNEXPECTED_SERVER_RESPONSE));
        let details = status.details.unwrap();
        assert_eq!((&*details.kind, &*details.name, &*details.causes[0].message), ("pods", "p", "<html>no</html>"));
    }
    assert_eq!(failure(418, Method::GET, "").await.reason, None);
}

#[tokio::test]
async fn a_long_or_binary_failure_is_cut_short() {
    let long = failure(500, Method::GET, "é".repeat(2_000)).await;
    assert_eq!(long.details.unwrap().causes[0].message, "é".repeat(1_024));
    let uneven = failure(500, Method::GET, format!("x{}", "é".repeat(2_000))).await;
    assert_eq!(uneven.details.unwrap().causes[0].message.len(), 2_047);
    let binary = failure(500, Method::GET, vec![0xff, 0xfe, 0x00]).await;
    assert_eq!(binary.details.unwrap().causes[0].message, "unknown");
}

#[tokio::test]
async fn retry_after_header_sets_the_delay() {
    let response =
        |body: &'static str| Response::builder().status(429).header("retry-after", "7").body(Body::from(body)).unwrap();
    for (body, seconds) in [
        ("slow down", 7),
        (r#"{"kind":"Status","apiVersion":"v1","code":429,"reason":"TooManyRequests"}"#, 7),
        (r#"{"kind":"Status","apiVersion":"v1","code":429,"details":{"retryAfterSeconds":3}}"#, 3),
    ] {
        let error = check(response(body), &Method::GET, &operation()).await.unwrap_err();
        assert_eq!(error.retry_after(), Some(std::time::Duration::from_secs(seconds)), "{body}");
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_transport_error() {
    let body = chunks(vec!["{\"a\":", "1"], End::Broken);
    assert!(matches!(collect(body, 100).await, Err(ListWatchError::Transport(_))));
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_not_held() {
    let body = || chunks(vec!["12345", "67890", "x"], End::Clean);
    assert_eq!(collect(body(), 11).await.unwrap(), "1234567890x");
    let error = collect(body(), 10).await.unwrap_err();
    assert!(matches!(error, ListWatchError::Decode(_)));
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "the answer is larger than 10 bytes");
}

#[test]
fn dates_to_wait_for_are_passed_over() {
    let mut headers = HeaderMap::new();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("Fri, 31 Dec 1999 23:59:59 GMT"));
    assert_eq!(retry_after(&headers), None);
}

#[test]
fn only_a_status_is_taken_for_one() {
    assert!(status_of(br#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#).unwrap().is_success());
    for other in [r#"{"kind":"Pod","apiVersion":"v1"}"#, r#"{"kind":"Status","apiVersion":"x.io/v1"}"#, "", "[]"] {
        assert_eq!(status_of(other.as_bytes()), None, "{other}");
    }
}
