//! Tests of recorded events.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Duration, Instant};
use windlass_api::BoxError;
use windlass_client::Client;
use windlass_runtime::{
    Manager,
    events::{EventApi, Note, Recorder},
};

use crate::fake::{Run, config, eventually};

/// A server that accepts every event, after a list of given responses. Clones are the same server.
#[derive(Clone, Default)]
struct Server {
    requests: Arc<Mutex<Vec<(String, Value)>>>,
    answers: Arc<Mutex<VecDeque<Result<u16, &'static str>>>>,
}

impl Server {
    fn answering(answers: impl IntoIterator<Item = Result<u16, &'static str>>) -> Self {
        Self { answers: Arc::new(Mutex::new(answers.into_iter().collect())), ..Self::default() }
    }

    fn manager(&self) -> (Manager, Recorder) {
        self.manager_with(EventApi::Core)
    }

    fn manager_with(&self, api: EventApi) -> (Manager, Recorder) {
        let server = self.clone();
        let service = tower::service_fn(move |request: http::Request<windlass_client::Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                server.answer(&head, BodyExt::collect(body).await?.to_bytes())
            }
        });
        let manager = Manager::builder(Client::from_service(service, "default")).event_api(api).build();
        let recorder = manager.cluster().recorder("painter");
        (manager, recorder)
    }

    fn answer(&self, head: &http::request::Parts, body: Bytes) -> Result<http::Response<Full<Bytes>>, BoxError> {
        let request = format!("{} {}", head.method, head.uri.path());
        self.requests.lock().push((request, serde_json::from_slice(&body)?));
        let status = self.answers.lock().pop_front().unwrap_or(Ok(200))?;
        let body = if status < 300 { body } else { Bytes::new() };
        Ok(http::Response::builder().status(status).body(Full::new(body))?)
    }

    /// Returns the method, path and count of each received event.
    fn seen(&self) -> Vec<(String, i64)> {
        let requests = self.requests.lock();
        requests.iter().map(|(request, body)| (request.clone(), body["count"].as_i64().unwrap())).collect()
    }
}

fn blue() -> Note {
    Note::normal("Painted", "painted it blue")
}

const EVENTS: &str = "/api/v1/namespaces/ns/events";

#[tokio::test(start_paused = true)]
async fn equal_events_are_counted_and_flushed_at_the_stop() {
    let server = Server::default();
    let (manager, recorder) = server.manager();
    recorder.record(&config("a"), blue());
    let run = Run::start(manager);
    eventually("the first is written", || server.seen().len() == 1).await;
    recorder.record(&config("a"), blue());
    recorder.record(&config("b"), blue());
    run.stop().await.unwrap();
    let name = server.requests.lock()[0].1["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("a."), "{name}");
    let expected =
        [(format!("POST {EVENTS}"), 1), (format!("PATCH {EVENTS}/{name}"), 2), (format!("POST {EVENTS}"), 1)];
    assert_eq!(server.seen(), expected);
    recorder.record(&config("c"), blue());
}

#[tokio::test(start_paused = true)]
async fn deleted_event_is_recreated_with_its_count() {
    let server = Server::answering([Ok(200), Ok(404)]);
    let (manager, recorder) = server.manager();
    recorder.record(&config("a"), blue());
    recorder.record(&config("a"), blue());
    Run::start(manager).stop().await.unwrap();
    let counts: Vec<_> = server.seen().into_iter().map(|(request, count)| (request.len(), count)).collect();
    assert_eq!(counts.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [1, 2, 2]);
    assert_eq!(counts[0].0, counts[2].0, "it is created again");
}

#[tokio::test(start_paused = true)]
async fn event_is_retried_on_network_errors_only() {
    let server = Server::answering([Err("no connection"), Err("no connection"), Ok(200), Ok(403)]);
    let (manager, recorder) = server.manager();
    let (started, run) = (Instant::now(), Run::start(manager));
    recorder.record(&config("a"), blue());
    recorder.record(&config("b"), blue());
    recorder.record(&config("c"), blue());
    eventually("all have been tried", || server.seen().len() == 5).await;
    let waited = started.elapsed();
    assert!(waited >= Duration::from_secs(10) && waited < Duration::from_secs(21), "{waited:?}");
    run.stop().await.unwrap();
    assert_eq!(server.seen().len(), 5, "a rejected event is not retried");
}

#[tokio::test(start_paused = true)]
async fn stop_does_not_wait_for_an_unreachable_server() {
    let server = Server::answering([Err("no connection"); 20]);
    let (manager, recorder) = server.manager();
    let run = Run::start(manager);
    recorder.record(&config("a"), blue());
    eventually("it was tried", || server.seen().len() == 1).await;
    let asked = Instant::now();
    run.stop().await.unwrap();
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
}

const SERIES: &str = "/apis/events.k8s.io/v1/namespaces/ns/events";

/// Returns the method, path and series count of each received event of events.k8s.io.
fn series(server: &Server) -> Vec<(String, Option<i64>)> {
    let requests = server.requests.lock();
    requests.iter().map(|(request, body)| (request.clone(), body["series"]["count"].as_i64())).collect()
}

#[tokio::test(start_paused = true)]
async fn series_is_written_at_start_every_30_min_and_at_end() {
    let server = Server::default();
    let (manager, recorder) = server.manager_with(EventApi::Series);
    let run = Run::start(manager);
    recorder.record(&config("a"), blue().action("Painting").related(&config("brush")));
    eventually("the first", || series(&server).len() == 1).await;
    let first = server.requests.lock()[0].1.clone();
    assert_eq!((&first["action"], &first["note"]), (&"Painting".into(), &"painted it blue".into()));
    assert_eq!((&first["regarding"]["name"], &first["related"]["name"]), (&"a".into(), &"brush".into()));
    let name = first["metadata"]["name"].as_str().unwrap().to_owned();
    let patch = |count| (format!("PATCH {SERIES}/{name}"), Some(count));
    // One per minute keeps the series active.
    for _ in 0..35 {
        recorder.record(&config("a"), blue().action("Painting").related(&config("brush")));
        tokio::time::sleep(Duration::from_mins(1)).await;
    }
    let expected = [(format!("POST {SERIES}"), None), patch(2), patch(31)];
    assert_eq!(series(&server), expected);
    tokio::time::sleep(Duration::from_mins(13)).await;
    assert_eq!(series(&server)[3..], [patch(36)]);
    run.stop().await.unwrap();
    assert_eq!(series(&server).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn series_write_is_retried_and_last_count_is_flushed() {
    // The series is patched too early, created too late, and patched again.
    let server = Server::answering([Ok(200), Ok(404), Ok(409), Ok(200)]);
    let (manager, recorder) = server.manager_with(EventApi::Series);
    let run = Run::start(manager);
    let started = Instant::now();
    for _ in 0..2 {
        recorder.record(&config("a"), blue());
    }
    eventually("the series is written", || series(&server).len() == 4).await;
    assert!(started.elapsed() >= Duration::from_secs(10) && started.elapsed() < Duration::from_secs(14));
    for _ in 0..5 {
        recorder.record(&config("a"), blue());
    }
    run.stop().await.unwrap();
    let methods: Vec<_> = series(&server).into_iter().map(|(request, n)| (request[..5].to_owned(), n)).collect();
    let is = |method: &str, number| (method.to_owned(), number);
    let expected =
        [is("POST ", None), is("PATCH", Some(2)), is("POST ", Some(2)), is("PATCH", Some(2)), is("PATCH", Some(7))];
    assert_eq!(methods, expected);
}
