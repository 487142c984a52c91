//! Modes, batches, retries and truncation.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::{Instant, advance};

use super::{
    AuditBatchOptions, AuditMode, AuditTruncateOptions, AuditWebhookOptions, CONFIG_MAPS, blocking, config_map, send,
    server_with,
};
use crate::{
    Server,
    audit::{
        event::Rendered,
        queue::{Entry, Queue},
    },
};

fn metadata() -> Value {
    json!([{"level": "Metadata", "omitStages": ["RequestReceived"], "nonResourceURLs": ["/version"]}])
}

async fn ask(server: &Server, times: usize) {
    for _ in 0..times {
        assert_eq!(send(server, "GET", "/version", Value::Null).await.status(), 200);
    }
}

async fn metrics(server: &Server) -> String {
    String::from_utf8_lossy(send(server, "GET", "/metrics", Value::Null).await.body()).into_owned()
}

/// Lets the tasks of the server run, without advancing the clock.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn batch_is_sent_when_full_or_after_the_wait() {
    let batch = AuditBatchOptions { max_size: 3, ..AuditBatchOptions::of_webhook() };
    let (server, recorder) = server_with(metadata(), &AuditWebhookOptions { batch, ..AuditWebhookOptions::default() });
    ask(&server, 2).await;
    settle().await;
    assert_eq!(recorder.requests(), 0, "the batch is not full");
    ask(&server, 2).await;
    settle().await;
    assert_eq!(recorder.sizes(), [3]);
    advance(Duration::from_millis(29_900)).await;
    settle().await;
    assert_eq!(recorder.sizes(), [3], "the wait is 30 s");
    advance(Duration::from_millis(200)).await;
    settle().await;
    assert_eq!(recorder.sizes(), [3, 1]);
    let list = recorder.lists.lock()[0].clone();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("EventList"), &json!("audit.k8s.io/v1")));
    assert_eq!(list["metadata"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn rate_of_batches_is_limited() {
    let batch =
        AuditBatchOptions { max_size: 1, throttle_qps: 2.0, throttle_burst: 3, ..AuditBatchOptions::of_webhook() };
    let (server, recorder) = server_with(metadata(), &AuditWebhookOptions { batch, ..AuditWebhookOptions::default() });
    ask(&server, 5).await;
    settle().await;
    assert_eq!(recorder.requests(), 3, "the burst");
    advance(Duration::from_millis(501)).await;
    settle().await;
    assert_eq!(recorder.requests(), 4);
    advance(Duration::from_millis(501)).await;
    settle().await;
    assert_eq!(recorder.requests(), 5);
}

#[tokio::test(start_paused = true)]
async fn rate_can_be_almost_zero() {
    let batch = AuditBatchOptions {
        max_size: 1,
        throttle_qps: f32::MIN_POSITIVE,
        throttle_burst: 1,
        ..AuditBatchOptions::of_webhook()
    };
    let (server, recorder) = server_with(metadata(), &AuditWebhookOptions { batch, ..AuditWebhookOptions::default() });
    ask(&server, 2).await;
    settle().await;
    assert_eq!(recorder.requests(), 1);
    // The task still runs.
    advance(Duration::from_hours(366 * 24)).await;
    settle().await;
    assert_eq!(recorder.requests(), 2);
}

#[tokio::test(start_paused = true)]
async fn end_of_the_server_sends_the_buffer_and_ends_the_task() {
    let (server, recorder) = server_with(metadata(), &AuditWebhookOptions::default());
    ask(&server, 2).await;
    settle().await;
    assert_eq!(recorder.requests(), 0, "the batch waits for more events");
    let began = Instant::now();
    drop(server);
    settle().await;
    assert_eq!((recorder.sizes(), began.elapsed()), (vec![2], Duration::ZERO));
    assert_eq!(Arc::strong_count(&recorder), 1, "the task holds the webhook");
}

#[tokio::test(start_paused = true)]
async fn full_buffer_loses_events_but_not_requests() {
    let batch = AuditBatchOptions { buffer_size: 4, max_size: 1, ..AuditBatchOptions::of_webhook() };
    let (server, recorder) = server_with(metadata(), &AuditWebhookOptions { batch, ..AuditWebhookOptions::default() });
    recorder.hang();
    let started = Instant::now();
    // 15 batches by the burst, each with its own request, one waits for the rate limit, and 4 are in the buffer.
    for _ in 0..30 {
        ask(&server, 1).await;
        settle().await;
    }
    assert_eq!(started.elapsed(), Duration::ZERO, "requests do not wait for the webhook");
    assert_eq!(recorder.requests(), 15);
    let text = metrics(&server).await;
    assert!(text.contains("apiserver_audit_error_total{plugin=\"buffered\"} 10\n"), "{text}");
    assert!(text.contains("apiserver_audit_event_total 30\n"), "{text}");
    recorder.resume();
    server.flush_audit().await;
    assert_eq!(recorder.events().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn failed_request_is_repeated_with_growing_delays() {
    let batch = AuditBatchOptions { max_size: 1, ..AuditBatchOptions::of_webhook() };
    let (server, recorder) = server_with(metadata(), &AuditWebhookOptions { batch, ..AuditWebhookOptions::default() });
    recorder.fails.store(true, SeqCst);
    ask(&server, 1).await;
    settle().await;
    assert_eq!(recorder.requests(), 1);
    // 10 s, 15 s, 22.5 s and 33.75 s, each up to a fifth longer.
    for (seconds, requests) in [(9, 1), (4, 2), (10, 2), (10, 3), (17, 3), (10, 4)] {
        advance(Duration::from_secs(seconds)).await;
        settle().await;
        assert_eq!(recorder.requests(), requests, "after {seconds} s more");
    }
    recorder.fails.store(false, SeqCst);
    advance(Duration::from_secs(41)).await;
    settle().await;
    assert_eq!((recorder.requests(), recorder.events().len()), (5, 1));
    assert!(!metrics(&server).await.contains("plugin=\"webhook\""));
}

#[tokio::test(start_paused = true)]
async fn batch_is_lost_after_five_attempts() {
    let batch = AuditBatchOptions { max_size: 2, ..AuditBatchOptions::of_webhook() };
    let (server, recorder) = server_with(metadata(), &AuditWebhookOptions { batch, ..AuditWebhookOptions::default() });
    recorder.fails.store(true, SeqCst);
    ask(&server, 2).await;
    for _ in 0..200 {
        advance(Duration::from_secs(1)).await;
        settle().await;
    }
    assert_eq!(recorder.requests(), 5);
    let text = metrics(&server).await;
    assert!(text.contains("apiserver_audit_error_total{plugin=\"webhook\"} 2\n"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn blocking_request_waits_for_its_own_event_only() {
    let (server, recorder) = server_with(metadata(), &blocking());
    recorder.hang();
    let waiting = tokio::spawn({
        let server = server.clone();
        async move { ask(&server, 1).await }
    });
    settle().await;
    assert!(!waiting.is_finished());
    // A request that is not audited is answered.
    assert_eq!(send(&server, "GET", "/healthz", Value::Null).await.status(), 200);
    recorder.resume();
    waiting.await.unwrap();
    assert_eq!(recorder.events().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn strict_mode_rejects_requests_that_cannot_be_audited() {
    let strict = |mode| AuditWebhookOptions {
        initial_backoff: Duration::from_millis(1),
        batch: AuditBatchOptions { mode, ..AuditBatchOptions::of_webhook() },
        ..AuditWebhookOptions::default()
    };
    let rules = || json!([{"level": "Metadata", "nonResourceURLs": ["/version"]}]);
    let (server, recorder) = server_with(rules(), &strict(AuditMode::BlockingStrict));
    recorder.fails.store(true, SeqCst);
    let response = send(&server, "GET", "/version?a=1&b", Value::Null).await;
    assert_eq!(response.status(), 500);
    let text = String::from_utf8_lossy(response.body()).into_owned();
    assert_eq!(text, "Internal Server Error: \"/version?a=1&amp;b\": failed to store audit event\n");
    let text = metrics(&server).await;
    assert!(text.contains("apiserver_audit_requests_rejected_total 1\n"), "{text}");
    let (server, recorder) = server_with(rules(), &strict(AuditMode::Blocking));
    recorder.fails.store(true, SeqCst);
    assert_eq!(send(&server, "GET", "/version", Value::Null).await.status(), 200, "the other mode ignores the error");
}

#[tokio::test]
async fn large_event_loses_its_objects_and_a_larger_one_is_lost() {
    let truncate = |max_event_size| AuditWebhookOptions {
        truncate: AuditTruncateOptions { enabled: true, max_event_size, ..AuditTruncateOptions::default() },
        ..blocking()
    };
    let rules = || json!([{"level": "RequestResponse", "omitStages": ["RequestReceived"]}]);
    let large = json!({"metadata": {"name": "large"}, "data": {"k": "x".repeat(4000)}});
    let (server, recorder) = server_with(rules(), &truncate(4000));
    send(&server, "POST", CONFIG_MAPS, config_map("small")).await;
    send(&server, "POST", CONFIG_MAPS, large.clone()).await;
    let events = recorder.events();
    assert!(
        events[0].get("requestObject").is_some() && events[0]["annotations"].get("audit.k8s.io/truncated").is_none()
    );
    assert!(events[1].get("requestObject").is_none() && events[1].get("responseObject").is_none());
    assert_eq!(events[1]["annotations"]["audit.k8s.io/truncated"], "true");
    assert_eq!(events[1]["objectRef"]["name"], "large");
    let (server, recorder) = server_with(rules(), &truncate(100));
    send(&server, "POST", CONFIG_MAPS, large).await;
    assert_eq!(recorder.requests(), 0);
    let text = metrics(&server).await;
    assert!(text.contains("apiserver_audit_error_total{plugin=\"truncate\"} 1\n"), "{text}");
}

/// Clients can send objects of 3 MiB.
#[tokio::test]
async fn size_of_the_buffer_is_limited_until_events_are_written() {
    let queue = Arc::new(Queue::new(1000));
    let object = Bytes::from(vec![b' '; 1 << 20]);
    let entry = |object: Option<Bytes>| {
        let event = Rendered {
            head: Bytes::new(),
            request_object: object,
            response_object: None,
            tail: Bytes::new(),
            line: None,
        };
        Entry { event: Arc::new(event), audit_id: "".into(), written: None }
    };
    let pushed = (0..100).take_while(|_| queue.push(entry(Some(object.clone()))).is_ok()).count();
    assert_eq!(pushed, 63, "events of a little more than 1 MiB");
    let batch = queue.collect(10, Duration::ZERO, 10).await.unwrap();
    assert!(queue.push(entry(Some(object.clone()))).is_err(), "the batch is not written yet");
    drop(batch);
    assert!(queue.push(entry(Some(object))).is_ok());
    let huge = Arc::new(Queue::new(10));
    let huge_object = Some(Bytes::from(vec![b' '; 80 << 20]));
    assert!(huge.push(entry(huge_object.clone())).is_ok(), "an event of any size fits into an empty buffer");
    assert!(huge.push(entry(huge_object)).is_err() && huge.push(entry(None)).is_err());
}

#[test]
fn invalid_options_have_the_messages_of_kubernetes() {
    let log = |change: &dyn Fn(&mut crate::AuditLogOptions)| {
        let mut options = crate::AuditLogOptions { path: "-".into(), ..crate::AuditLogOptions::default() };
        change(&mut options);
        options.validate().map_err(|error| error.to_string())
    };
    assert_eq!(log(&|_| {}), Ok(()));
    let refused = |change: &dyn Fn(&mut crate::AuditLogOptions), message: &str| {
        assert_eq!(log(change), Err(message.to_owned()));
    };
    refused(&|log| log.max_age = -1, "--audit-log-maxage -1 can't be a negative number");
    refused(&|log| log.max_backups = -1, "--audit-log-maxbackup -1 can't be a negative number");
    refused(&|log| log.max_size = -1, "--audit-log-maxsize -1 can't be a negative number");
    refused(&|log| log.version = "v2".into(), "invalid group version, allowed versions are [\"audit.k8s.io/v1\"]");
    refused(
        &|log| log.truncate.max_event_size = 0,
        "invalid audit truncate log max event size 0, must be a positive number",
    );
    refused(
        &|log| log.truncate.max_batch_size = 5,
        "invalid audit truncate log max batch size 5, must be greater than max event size (102400)",
    );
    let batch = |change: &dyn Fn(&mut AuditBatchOptions)| {
        let mut options = AuditWebhookOptions::default();
        change(&mut options.batch);
        options.validate().unwrap_err().to_string()
    };
    for (problem, expected) in [
        (batch(&|batch| batch.buffer_size = 0), "buffer size 0"),
        (batch(&|batch| batch.max_size = -1), "max batch size -1"),
        (batch(&|batch| batch.throttle_qps = 0.0), "throttle QPS 0"),
        (batch(&|batch| batch.throttle_burst = 0), "throttle burst 0"),
    ] {
        assert_eq!(problem, format!("invalid audit batch webhook {expected}, must be a positive number"));
    }
    assert_eq!("none".parse::<AuditMode>(), Err("allowed modes are \"batch,blocking,blocking-strict\"".to_owned()));
}
