use std::{
    collections::VecDeque,
    io,
    sync::atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use futures::FutureExt as _;
use http::Method;
use parking_lot::Mutex;
use windlass_api::{Backoff, Entropy, k8s_openapi::api::core::v1::Pod};

use super::*;
use crate::{
    Client, Error,
    testing::{End, Fake, chunks},
    warnings::CollectWarnings,
};

/// A server's behavior in one attempt. The last one applies to all later attempts.
#[derive(Clone, Copy, Debug)]
enum Act {
    Answer(u16),
    /// An answer with a `Retry-After` header.
    Later(u16, &'static str),
    Lose(io::ErrorKind),
    Hang,
}

#[derive(Clone, Debug)]
struct Stage {
    acts: Arc<Mutex<VecDeque<Act>>>,
    attempts: Arc<AtomicUsize>,
}

impl Stage {
    fn new(acts: impl IntoIterator<Item = Act>) -> Self {
        Self { acts: Arc::new(Mutex::new(acts.into_iter().collect())), attempts: Arc::default() }
    }

    fn client(&self) -> Client {
        let stage = self.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            stage.attempts.fetch_add(1, Ordering::Relaxed);
            let act = {
                let mut acts = stage.acts.lock();
                if acts.len() > 1 { acts.pop_front() } else { acts.front().copied() }
            };
            async move {
                let answer = |code: u16| Response::builder().status(code);
                match act.expect("a stage has an act") {
                    Act::Answer(code) => Ok(answer(code).body(Body::from("{}")).unwrap()),
                    Act::Later(code, after) => {
                        Ok(answer(code).header("retry-after", after).body(Body::from("{}")).unwrap())
                    }
                    Act::Lose(kind) => Err(io::Error::from(kind)),
                    Act::Hang => futures::future::pending().await,
                }
            }
        });
        Client::from_service(service, "home")
    }

    fn attempts(&self) -> usize {
        self.attempts.load(Ordering::Relaxed)
    }
}

fn request(method: Method) -> Request<Body> {
    Request::builder().method(method).uri("/x").body(Body::empty()).unwrap()
}

/// Returns the code of the last answer, the number of attempts, and their duration in seconds.
async fn play(method: Method, acts: impl IntoIterator<Item = Act>) -> (Option<u16>, usize, u64) {
    let stage = Stage::new(acts);
    let began = Instant::now();
    let operation = Operation::request("/x");
    let client = stage.client();
    let outcome = client.send(request(method), &operation, Reading::Whole).await;
    (outcome.ok().map(|response| response.status().as_u16()), stage.attempts(), began.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn request_is_retried_after_the_servers_delay() {
    use Act::{Answer, Later};
    for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        assert_eq!(play(method.clone(), [Later(429, "3"), Later(503, "2"), Answer(200)]).await, (Some(200), 3, 5));
        assert_eq!(play(method.clone(), [Later(500, "1"), Answer(404)]).await, (Some(404), 2, 1));
        // No retry without `Retry-After`, with an invalid one, or if the request itself is wrong.
        assert_eq!(play(method.clone(), [Answer(429), Answer(200)]).await, (Some(429), 1, 0));
        assert_eq!(play(method.clone(), [Answer(503), Answer(200)]).await, (Some(503), 1, 0));
        assert_eq!(play(method.clone(), [Later(503, "Fri, 31 Dec 1999 23:59:59 GMT")]).await, (Some(503), 1, 0));
        assert_eq!(play(method.clone(), [Later(409, "1"), Answer(200)]).await, (Some(409), 1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn request_is_retried_at_most_ten_times() {
    assert_eq!(play(Method::POST, [Act::Later(429, "1")]).await, (Some(429), 11, 10));
    let stage = Stage::new([Act::Later(429, "1")]);
    let error = stage.client().with_retries(0).get::<Pod>("p").await.unwrap_err();
    assert!(error.is_too_many_requests());
    assert_eq!((stage.attempts(), error.suggests_client_delay()), (1, Some(Duration::from_secs(1))));
}

#[tokio::test(start_paused = true)]
async fn lost_read_is_retried_and_lost_write_is_not() {
    use Act::{Answer, Lose};
    for kind in [
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::ConnectionAborted,
        io::ErrorKind::BrokenPipe,
        io::ErrorKind::UnexpectedEof,
    ] {
        assert_eq!(play(Method::GET, [Lose(kind), Lose(kind), Answer(200)]).await, (Some(200), 3, 2), "{kind}");
        assert_eq!(play(Method::HEAD, [Lose(kind), Answer(200)]).await, (Some(200), 2, 1), "{kind}");
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert_eq!(play(method, [Lose(kind), Answer(200)]).await, (None, 1, 0), "{kind}");
        }
    }
    // An unreachable server is not retried.
    assert_eq!(play(Method::GET, [Lose(io::ErrorKind::ConnectionRefused), Answer(200)]).await, (None, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn lost_stream_is_not_retried_and_lost_watch_is() {
    for (reading, attempts) in [(Reading::Stream, 1), (Reading::Watch, 2)] {
        let stage = Stage::new([Act::Lose(io::ErrorKind::ConnectionReset), Act::Answer(200)]);
        let outcome = stage.client().send(request(Method::GET), &Operation::request("/x"), reading).await;
        assert_eq!((stage.attempts(), outcome.is_ok()), (attempts, attempts == 2), "{reading:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_cannot_be_sent_twice_is_sent_once() {
    let stage = Stage::new([Act::Later(429, "1"), Act::Answer(200)]);
    let request = Request::put("/x").body(chunks(vec!["a", "b"], End::Clean)).unwrap();
    let response = stage.client().request(request).await.unwrap();
    assert_eq!((response.status().as_u16(), stage.attempts()), (429, 1));
}

#[tokio::test(start_paused = true)]
async fn a_body_in_memory_is_sent_again_as_it_was() {
    let count = AtomicUsize::new(0);
    let fake = Fake::new(move |_| {
        let code = if count.fetch_add(1, Ordering::Relaxed) == 0 { 429 } else { 201 };
        Response::builder().status(code).header("retry-after", "0").body(Body::empty()).unwrap()
    });
    let request = Request::post("/x").header("x-mine", "1").body("the body").unwrap();
    assert_eq!(fake.client().request(request).await.unwrap().status(), 201);
    assert_eq!((fake.seen().len(), fake.last().body()), (2, &Bytes::from_static(b"the body")));
    assert_eq!(fake.last().headers()["x-mine"], "1");
}

#[tokio::test(start_paused = true)]
async fn last_error_mentions_the_previous_one() {
    use Act::{Later, Lose};
    let stage = Stage::new([Later(503, "0"), Lose(io::ErrorKind::ConnectionRefused)]);
    let error = stage.client().get::<Pod>("p").await.unwrap_err();
    let chain = error.chain();
    assert!(
        chain.contains("attempt 2 failed; previous attempt: the server answered 503: connection refused"),
        "{chain}"
    );
    let same = Stage::new([Lose(io::ErrorKind::ConnectionReset)]).client().get::<Pod>("p").await.unwrap_err();
    assert!(!same.chain().contains("attempt"), "{}", same.chain());
}

#[tokio::test(start_paused = true)]
async fn every_attempt_takes_a_token_but_the_first_of_a_watch() {
    let limited = |stage: &Stage| stage.client().with_rate_limit(RateLimit::per_second(1, 1));
    let began = Instant::now();
    let client = limited(&Stage::new([Act::Answer(200)]));
    for _ in 0..5 {
        client.request(request(Method::GET)).await.unwrap();
    }
    assert_eq!(began.elapsed().as_secs(), 4);

    let began = Instant::now();
    for _ in 0..100 {
        drop(client.watch::<Pod>().await.unwrap());
    }
    assert_eq!(began.elapsed().as_secs(), 0);

    let began = Instant::now();
    let client = limited(&Stage::new([Act::Later(429, "0"), Act::Later(429, "0"), Act::Answer(200)]));
    drop(client.watch::<Pod>().await.unwrap());
    assert_eq!(began.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn network_client_is_rate_limited_and_in_process_is_not() {
    let config = crate::Config::new("http://127.0.0.1:1".parse().unwrap());
    let networked = Client::new(config).unwrap();
    let began = Instant::now();
    for _ in 0..15 {
        // The server is unreachable, but the token was already taken.
        assert!(networked.get::<Pod>("p").await.unwrap_err().is_transport());
    }
    assert_eq!(began.elapsed().as_secs(), 1);
    let began = Instant::now();
    for free in [networked.clone().without_rate_limit(), networked.clone().without_default_rate_limit()] {
        for _ in 0..50 {
            assert!(free.get::<Pod>("p").await.is_err());
        }
    }
    assert_eq!(began.elapsed().as_secs(), 0);
    // An explicit limit is retained.
    let chosen = networked.with_rate_limit(RateLimit::per_second(1, 1)).without_default_rate_limit();
    for _ in 0..3 {
        assert!(chosen.get::<Pod>("p").await.is_err());
    }
    assert_eq!(began.elapsed().as_secs(), 2);
    let began = Instant::now();
    let stage = Stage::new([Act::Answer(200)]);
    for _ in 0..50 {
        stage.client().request(request(Method::GET)).await.unwrap();
    }
    assert_eq!(began.elapsed().as_secs(), 0);
}

#[tokio::test(start_paused = true)]
async fn call_times_out_in_every_state() {
    let second = Duration::from_secs(1);
    let began = Instant::now();
    let silent = Stage::new([Act::Hang]).client().with_timeout(second);
    let error = silent.get::<Pod>("p").await.unwrap_err();
    assert!(error.is_timeout() && error.is_transport());
    assert_eq!(error.chain(), r#"get pods "home/p": the connection to the server failed: no answer within 1s"#);
    // The timeout covers all attempts together.
    let error = Stage::new([Act::Later(429, "1")]).client().with_timeout(5 * second).get::<Pod>("p").await.unwrap_err();
    assert!(error.is_timeout());
    // The timeout also covers the body.
    let slow = Fake::new(|_| {
        let never = futures::stream::pending::<Result<http_body::Frame<Bytes>, io::Error>>();
        Response::new(Body::wrap(http_body_util::StreamBody::new(never)))
    });
    assert!(slow.client().with_timeout(second).get::<Pod>("p").await.unwrap_err().is_timeout());
    assert!(slow.client().with_timeout(second).list::<Pod>().await.unwrap_err().is_timeout());
    assert_eq!(began.elapsed().as_secs(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_watch_outlives_the_timeout_of_its_beginning() {
    use futures::StreamExt as _;
    let slow = Fake::new(|_| {
        let event = Bytes::from_static(b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"p\"}}}\n");
        let late = futures::stream::once(async move {
            tokio::time::sleep(Duration::from_mins(5)).await;
            Ok::<_, io::Error>(http_body::Frame::data(event))
        });
        Response::new(Body::wrap(http_body_util::StreamBody::new(late)))
    });
    let client = slow.client().with_timeout(Duration::from_secs(1));
    assert!(client.watch::<Pod>().await.unwrap().next().await.unwrap().is_ok());
    let stream = client.request_stream(request(Method::GET)).await.unwrap();
    let body = http_body_util::BodyExt::collect(stream).await.unwrap().to_bytes();
    assert!(body.starts_with(b"{\"type\""));
}

#[tokio::test(start_paused = true)]
async fn rate_limit_wait_does_not_count_against_the_timeout() {
    let client = Stage::new([Act::Answer(200)]).client();
    let client = client.with_rate_limit(RateLimit::new(Duration::from_mins(1), 1)).with_timeout(Duration::from_secs(1));
    for _ in 0..3 {
        client.request(request(Method::GET)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn requests_back_off_from_an_overloaded_server() {
    let stage = Stage::new([Act::Answer(503), Act::Answer(503), Act::Answer(200)]);
    let backoff = Backoff::new(Duration::from_secs(10)).factor(2.0);
    let overload = OverloadBackoff::new(backoff, Duration::from_mins(5), &Entropy::seeded(1));
    let client = stage.client().with_overload_backoff(overload);
    let mut waits = Vec::new();
    for _ in 0..4 {
        let began = Instant::now();
        client.request(request(Method::GET)).await.unwrap();
        waits.push(began.elapsed().as_secs());
    }
    assert_eq!(waits, [0, 10, 20, 0]);
}

#[tokio::test]
async fn an_answer_beyond_the_limit_is_not_held() {
    let fake = Fake::json(r#"{"metadata":{"name":"0123456789"}}"#);
    let client = fake.client();
    assert!(client.get::<Pod>("p").await.is_ok());
    let error = client.with_response_limit(20).get::<Pod>("p").await.unwrap_err();
    assert!(
        matches!(error, Error::Decode { .. }) && error.chain().ends_with("larger than 20 bytes"),
        "{}",
        error.chain()
    );
}

#[tokio::test]
async fn warnings_reach_the_handler_once_for_any_response() {
    for code in [200, 404] {
        let fake = Fake::new(move |_| {
            let response = Response::builder().status(code).header("warning", r#"299 - "old""#);
            response.header("warning", r#"299 - "unknown field""#).body("{}".into()).unwrap()
        });
        let (all, one) = (CollectWarnings::default(), CollectWarnings::default());
        let client = fake.client().with_warnings(all.clone());
        let _ = client.get::<Pod>("p").await;
        let _ = client.clone().with_warnings(one.clone()).get::<Pod>("p").await;
        for collected in [all, one] {
            let texts: Vec<_> = collected.take().into_iter().map(|warning| warning.text).collect();
            assert_eq!(texts, ["old", "unknown field"]);
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Counted(Arc<Mutex<Vec<String>>>);

impl Counted {
    fn note(&self, line: String) {
        self.0.lock().push(line);
    }
}

impl ClientMetrics for Counted {
    fn throttled(&self, operation: &Operation, waited: Duration) {
        self.note(format!("throttled {} {}s", operation.verb, waited.as_secs()));
    }

    fn sent(&self, _: &Operation, bytes: u64) {
        self.note(format!("sent {bytes}"));
    }

    fn attempted(&self, attempt: &Attempt<'_>) {
        let status = attempt.status.map(|status| status.as_u16());
        self.note(format!("attempt {} {} {status:?}", attempt.number, attempt.method));
    }

    fn finished(&self, operation: &Operation, took: Duration) {
        self.note(format!("finished {} {}s", operation.resource, took.as_secs()));
    }

    fn received(&self, _: &Operation, bytes: u64) {
        self.note(format!("received {bytes}"));
    }
}

#[tokio::test(start_paused = true)]
async fn request_outcomes_are_counted() {
    let stage = Stage::new([Act::Later(429, "2"), Act::Answer(200)]);
    let counted = Counted::default();
    let client = stage.client().with_metrics(counted.clone()).with_rate_limit(RateLimit::per_second(1, 1));
    client.request_json::<serde_json::Value>(Request::put("/x").body("12345").unwrap()).await.unwrap();
    assert_eq!(
        *counted.0.lock(),
        [
            "throttled request 0s",
            "sent 5",
            "attempt 0 PUT Some(429)",
            "throttled request 0s",
            "sent 5",
            "attempt 1 PUT Some(200)",
            "finished /x 2s",
            "received 2"
        ]
    );
    counted.0.lock().clear();
    let lost = Stage::new([Act::Lose(io::ErrorKind::ConnectionRefused)]).client().with_metrics(counted.clone());
    assert!(lost.request(request(Method::GET)).await.is_err());
    assert_eq!(*counted.0.lock(), ["sent 0", "attempt 0 GET None", "finished /x 0s"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_while_it_waits_gives_back_its_token() {
    let client = Stage::new([Act::Answer(200)]).client().with_rate_limit(RateLimit::per_second(1, 1));
    client.request(request(Method::GET)).await.unwrap();
    for _ in 0..50 {
        assert!(client.request(request(Method::GET)).now_or_never().is_none());
    }
    let began = Instant::now();
    client.request(request(Method::GET)).await.unwrap();
    assert!(began.elapsed() <= Duration::from_millis(1_001), "{:?}", began.elapsed());
}

/// A pod whose name consists of 200 letters p, compressed.
const COMPRESSED: &str = "H4sIAAAAAAACA6tWyk0tSUxJLElUsqpWykvMTVWyUioYJkCpthYAMcMjxOAAAAA=";

/// Returns a server that compresses its response if the client accepts that.
fn compressing() -> Fake {
    Fake::new(|request| {
        let accepted = request.headers().get(header::ACCEPT_ENCODING).is_some_and(|accepted| accepted == "gzip");
        let whole = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, COMPRESSED).unwrap();
        if accepted {
            Response::builder().header("content-encoding", "gzip").body(whole.into()).unwrap()
        } else {
            Response::new(r#"{"metadata":{"name":"plain"}}"#.into())
        }
    })
}

/// Returns a client with the policy of a network client.
fn as_networked(fake: &Fake) -> Client {
    fake.client().with(|policy| policy.compression = Compression::Offered)
}

#[tokio::test]
async fn compressed_responses_are_decoded() {
    let fake = compressing();
    let client = as_networked(&fake);
    assert_eq!(client.get::<Pod>("p").await.unwrap().metadata.name, Some("p".repeat(200)));
    for plain in [client.clone().without_compression(), fake.client()] {
        assert_eq!(plain.get::<Pod>("p").await.unwrap().metadata.name.as_deref(), Some("plain"));
        assert!(!fake.last().headers().contains_key("accept-encoding"));
    }
    // With an explicit header, the response is returned as it is. A watch is never compressed, because its events would
    // be delayed.
    let request = Request::get("/x").header("accept-encoding", "gzip").body(()).unwrap();
    let raw = client.request_stream(request).await.unwrap();
    assert!(http_body_util::BodyExt::collect(raw).await.unwrap().to_bytes().starts_with(&[0x1f, 0x8b]));
    drop(client.watch::<Pod>().await.unwrap());
    assert!(!fake.last().headers().contains_key("accept-encoding"));
}

#[tokio::test]
async fn response_limit_applies_after_decompression() {
    let client = as_networked(&compressing()).with_response_limit(100);
    let error = client.get::<Pod>("p").await.unwrap_err();
    assert!(error.chain().ends_with("larger than 100 bytes"), "{}", error.chain());
}

/// A gate that admits reads until a time that can be moved.
#[derive(Clone, Debug)]
struct Until(Arc<Mutex<Option<Instant>>>);

impl Gate for Until {
    fn admit(&self, request: &Outgoing<'_>) -> Result<(), BoxError> {
        let is_open = self.open_until().is_some_and(|until| Instant::now() < until);
        match (is_open, request.method) {
            (true, &Method::GET) => Ok(()),
            (true, _) => Err(format!("{} {:?}", request.operation, request.body).into()),
            (false, _) => Err("closed".into()),
        }
    }

    fn open_until(&self) -> Option<Instant> {
        *self.0.lock()
    }
}

#[tokio::test(start_paused = true)]
async fn closed_gate_admits_no_request_and_no_retry() {
    let second = Duration::from_secs(1);
    let start = Instant::now();
    let gate = Until(Arc::new(Mutex::new(Some(start + second * 3))));
    let operation = Operation::request("/x");
    let send = async |stage: &Stage, method: Method| {
        let client = stage.client().with_gate(gate.clone());
        let outcome = client.send(request(method), &operation, Reading::Whole).await;
        outcome.map(|response| response.status().as_u16()).map_err(|error| error.to_string())
    };
    let fine = Stage::new([Act::Answer(200)]);
    assert_eq!(send(&fine, Method::GET).await, Ok(200));
    assert_eq!(send(&fine, Method::DELETE).await, Err("request /x None".to_owned()));
    assert_eq!(fine.attempts(), 1);

    let busy = Stage::new([Act::Later(503, "2")]);
    assert_eq!(send(&busy, Method::GET).await, Err("closed".to_owned()));
    assert_eq!((busy.attempts(), start.elapsed()), (2, second * 4), "not a third time");
}

#[tokio::test(start_paused = true)]
async fn attempt_runs_until_its_gate_closes() {
    let second = Duration::from_secs(1);
    let start = Instant::now();
    let gate = Until(Arc::new(Mutex::new(Some(start + second * 10))));
    let client = Stage::new([Act::Hang]).client().with_gate(gate.clone());
    let operation = Operation::request("/x");
    let sending = client.send(request(Method::GET), &operation, Reading::Whole);
    let putting_off = async {
        tokio::time::sleep(second * 9).await;
        *gate.0.lock() = Some(start + second * 25);
    };
    let (outcome, ()) = futures::join!(sending, putting_off);
    assert!(outcome.unwrap_err().to_string().contains("the gate closed"));
    assert_eq!(start.elapsed(), second * 25);
}
