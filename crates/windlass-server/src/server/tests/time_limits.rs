//! Tests with requests that take too long.

use http_body::Frame;
use http_body_util::StreamBody;

use super::*;

/// The response of kube-apiserver to a request that takes too long.
const TOO_LATE: &str = r#"{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout","reason":"Timeout","details":{},"code":504}"#;

/// Sends a request whose body never ends. Returns the answer, and the time that it has taken.
async fn endless(service: &Service, path: &str) -> (Answer, Duration) {
    let began = Instant::now();
    let body = StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, windlass_api::BoxError>>());
    let request = request("POST", path).header(header::CONTENT_TYPE, "application/json").body(body).unwrap();
    let (parts, body) = service.clone().oneshot(request).await.unwrap().into_parts();
    let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    (Answer { code: parts.status.as_u16(), headers: parts.headers, body }, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn request_that_takes_too_long_fails_after_its_time_limit() {
    let patient = server().service();
    let brief = Server::builder().request_timeout(Duration::from_secs(7)).build().service();
    // The server starts with the first request.
    for service in [&patient, &brief] {
        assert_eq!(get(service, "/api/v1/namespaces/default").await.code, 200);
    }
    for (service, query, seconds) in [
        (&patient, "", 60),
        (&patient, "?timeout=5s", 5),
        (&patient, "?timeout=0s", 60),
        (&patient, "?timeout=-5s", 60),
        (&patient, "?timeout=2m", 60),
        (&brief, "", 7),
        (&brief, "?timeout=10s", 7),
        (&brief, "?timeout=1500ms", 1),
    ] {
        let (answer, took) = endless(service, &format!("{CONFIG_MAPS}{query}")).await;
        assert_eq!((answer.code, &*answer.body, took.as_secs()), (504, TOO_LATE, seconds), "{query}");
        assert_eq!(answer.headers[header::CONTENT_TYPE], "text/plain; charset=utf-8");
    }
    let (answer, took) = endless(&patient, &format!("{CONFIG_MAPS}?timeout=5")).await;
    assert_eq!((answer.code, took), (400, Duration::ZERO), "{}", answer.body);
}

#[tokio::test(start_paused = true)]
async fn watch_outlives_the_time_limit_of_requests() {
    let service = Server::builder().request_timeout(Duration::from_secs(7)).build().service();
    let mut events = watch(&service, &format!("{CONFIG_MAPS}?watch=true&timeout=1s&timeoutSeconds=300")).await;
    time::sleep(Duration::from_secs(60)).await;
    assert_eq!(post(&service, CONFIG_MAPS, config_map("a")).await.code, 201);
    assert!(frame(events.body_mut()).await.unwrap().contains("ADDED"));
}
