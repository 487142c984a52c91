//! Tests of a manager's console, over sockets.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::{Semaphore, oneshot},
    time::timeout,
};
use windlass_api::k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use windlass_client::Client;
use windlass_runtime::{Action, Context, Controller, Error, LeaderElection, Manager};

use crate::{
    fake::{Fake, config, deployment},
    leases::Leases,
};

/// A deadline for a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// Returns a listener for the manager, and its address.
async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// Sends a request with these lines and returns the whole response.
async fn ask(address: &str, head: &str) -> (u16, String, String) {
    let asked = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("{head}\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let answer = timeout(DEADLINE, asked).await.expect("the server responds");
    let (head, body) = answer.split_once("\r\n\r\n").expect("the response has a head");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_lowercase(), body.to_owned())
}

async fn state(address: &str) -> Value {
    let (status, _, body) = ask(address, "GET /api/state HTTP/1.0\r\nhost: localhost").await;
    assert_eq!(status, 200);
    serde_json::from_str(&body).unwrap()
}

/// Returns the state as soon as it meets a condition.
async fn state_when(address: &str, is_there: impl Fn(&Value) -> bool) -> Value {
    let wait = async {
        loop {
            let state = state(address).await;
            if is_there(&state) {
                return state;
            }
        }
    };
    timeout(DEADLINE, wait).await.expect("the state meets the condition")
}

/// Follows the event stream. HTTP/1.0 has no chunked encoding, so each line belongs to an event.
struct Stream(Lines<BufReader<TcpStream>>);

impl Stream {
    async fn open(address: &str, more: &str) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET /api/events HTTP/1.0\r\nhost: localhost\r\n{more}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        Self(BufReader::new(stream).lines())
    }

    /// Returns the next event: its ID, its name, its data. Returns `None` at the end.
    async fn next(&mut self) -> Option<(String, String, Value)> {
        let (mut id, mut name) = (String::new(), String::new());
        loop {
            let line = timeout(DEADLINE, self.0.next_line()).await.expect("an event arrives").unwrap()?;
            match line.split_once(": ") {
                Some(("id", value)) => value.clone_into(&mut id),
                Some(("event", value)) => value.clone_into(&mut name),
                Some(("data", value)) => return Some((id, name, serde_json::from_str(value).unwrap())),
                _ => {}
            }
        }
    }

    /// Returns the lines up to one that meets a condition, and the ID after them.
    async fn story_until(&mut self, is_last: impl Fn(&Value) -> bool) -> (Vec<Value>, String) {
        let mut story = Vec::new();
        loop {
            let (id, name, data) = self.next().await.expect("the stream continues");
            if name == "story" {
                assert_eq!(data["lost"], 0);
                story.extend(data["lines"].as_array().unwrap().clone());
                if story.last().is_some_and(&is_last) {
                    return (story, id);
                }
            }
        }
    }
}

/// Creates a client whose writes all get the same response.
fn answering(status: u16) -> Client {
    let service = tower::service_fn(move |_| async move {
        let body = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "child", "namespace": "ns"}});
        let mut answer = Response::new(Full::new(Bytes::from(body.to_string())));
        *answer.status_mut() = StatusCode::from_u16(status).unwrap();
        answer.headers_mut().insert("content-type", "application/json".parse().unwrap());
        Ok::<_, Infallible>(answer)
    });
    Client::from_service(service, "ns").with_retries(0)
}

/// Runs a manager during a trial.
async fn during(manager: Manager, trial: impl Future<Output = ()>) {
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(manager.run(async { drop(stopped.await) }));
    trial.await;
    drop(stop);
    timeout(DEADLINE, running).await.expect("it stops").unwrap().unwrap();
}

#[tokio::test]
async fn step_log_shows_a_change_from_event_to_write() {
    let (fake, (listener, address)) = (Fake::new(), listener().await);
    let mut manager = fake.manager_of(answering(201)).console(listener).build();
    manager.add(Controller::<ConfigMap>::new().named("painter").reconcile(async |_: Arc<ConfigMap>, cx: Context| {
        cx.client().create(&config("child")).await?;
        let _ = cx.live().get::<ConfigMap>("child").await?;
        Ok::<_, Error>(Action::requeue_after(Duration::from_hours(1)))
    }));
    during(manager, async {
        let mut stream = Stream::open(&address, "").await;
        let (_, name, first) = stream.next().await.unwrap();
        assert_eq!(
            (&*name, &first["leadership"]["role"]),
            ("state", &json!("alone")),
            "the initial state is sent at once"
        );
        fake.put(&config("a"));
        let (story, id) = stream.story_until(|line| line["step"] == "finished").await;
        let steps: Vec<_> = story.iter().map(|line| line["step"].as_str().unwrap()).collect();
        assert_eq!(steps, ["triggered", "started", "wrote", "finished"], "a read is no write: {story:#?}");
        assert!(story.iter().all(|line| line["controller"] == "painter" && line["key"] == "ns/a"), "{story:#?}");
        let [triggered, started, wrote, finished] = &story[..] else { unreachable!() };
        assert_eq!(
            [&triggered["change"], &triggered["resource"], &triggered["object"]],
            ["added", "configmaps", "ns/a"]
        );
        let told = [&wrote["verb"], &wrote["resource"], &wrote["object"], &wrote["status"]];
        assert_eq!(told, [&json!("create"), &json!("configmaps"), &json!("ns/child"), &json!(201)]);
        assert!(started["id"] == wrote["id"] && wrote["id"] == finished["id"], "{story:#?}");
        assert_eq!([&finished["outcome"], &finished["requeueMillis"]], [&json!("done"), &json!(3_600_000)]);

        // A reader that reconnects resumes at its position. A new one starts with the stored lines.
        fake.put(&config("b"));
        drop(stream.story_until(|line| line["key"] == "ns/b" && line["step"] == "finished").await);
        let mut resumed = Stream::open(&address, &format!("last-event-id: {id}\r\n")).await;
        let (story, _) = resumed.story_until(|line| line["step"] == "finished").await;
        assert!(story.iter().all(|line| line["key"] == "ns/b"), "{story:#?}");
        let mut new = Stream::open(&address, "last-event-id: 7-2\r\n").await;
        let (story, _) = new.story_until(|line| line["step"] == "finished").await;
        assert_eq!(story[0]["key"], "ns/a", "the ID belongs to another process");

        let state = state(&address).await;
        let painter = &state["controllers"][0];
        assert_eq!(
            [&painter["name"], &painter["resource"], &painter["workers"]],
            [&json!("painter"), &json!("configmaps"), &json!(1)]
        );
        assert_eq!((&painter["totals"]["triggers"], &painter["totals"]["reconciles"]), (&json!(2), &json!(2)));
        assert_eq!((&painter["totals"]["writes"], &painter["totals"]["failures"]), (&json!(2), &json!(0)));
        assert!(painter["latency"]["p99"].as_u64().is_some_and(|micros| micros > 0), "{painter:#}");
        let cache = &state["caches"][0];
        assert_eq!([&cache["resource"], &cache["type"], &cache["phase"]], ["configmaps", "ConfigMap", "synced"]);
        assert_eq!([&cache["objects"], &cache["lists"], &cache["errors"]], [2, 1, 0]);
        assert!(cache["encodedBytes"].as_u64().unwrap() > 100, "{cache:#}");
        assert!(state["process"]["residentBytes"].as_u64().is_none_or(|bytes| bytes > 1 << 20));
    })
    .await;
}

#[tokio::test]
async fn state_lists_active_waiting_and_failed_keys() {
    let (fake, (listener, address)) = (Fake::new(), listener().await);
    let gate = Arc::new(Semaphore::new(0));
    let mut manager = fake.manager_of(answering(409)).console(listener).build();
    let held = gate.clone();
    manager.add(Controller::<ConfigMap>::new().concurrency(2).reconcile(move |_: Arc<ConfigMap>, cx: Context| {
        let gate = held.clone();
        async move {
            let _pass = gate.acquire().await;
            cx.client().create(&config("child")).await?;
            Ok::<_, Error>(Action::await_change())
        }
    }));
    manager.add(
        Controller::<Deployment>::new()
            .reconcile(async |_: Arc<Deployment>, _: Context| -> Result<Action, Error> { panic!("out of paint") }),
    );
    for name in ["a", "b", "c", "d", "e"] {
        fake.put(&config(name));
    }
    fake.put(&deployment("web", None));
    during(manager, async {
        let busy = |state: &Value| {
            let [maps, deployments] = [&state["controllers"][0], &state["controllers"][1]];
            maps["depth"] == 3 && deployments["totals"]["panics"].as_u64() > Some(0)
        };
        let state = state_when(&address, busy).await;
        let [maps, deployments] = [&state["controllers"][0], &state["controllers"][1]];
        assert_eq!(maps["inFlight"].as_array().unwrap().len(), 2, "{maps:#}");
        assert_eq!((&maps["workers"], &maps["totals"]["reconciles"]), (&json!(2), &json!(0)));
        let failure = &deployments["lastFailure"];
        assert_eq!([&failure["key"], &failure["message"]], ["ns/web", "out of paint"]);
        assert_eq!(deployments["totals"]["failures"], deployments["totals"]["panics"]);

        gate.add_permits(100);
        let failed = |state: &Value| state["controllers"][0]["totals"]["failures"].as_u64() >= Some(5);
        let maps = &state_when(&address, failed).await["controllers"][0];
        assert!(maps["totals"]["conflicts"].as_u64() >= Some(5), "{maps:#}");
        assert!(
            maps["lastFailure"]["message"].as_str().unwrap().starts_with("create configmaps \"ns/child\""),
            "{maps:#}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_controller_that_was_removed_is_not_shown() {
    let (fake, (listener, address)) = (Fake::new(), listener().await);
    let manager = fake.manager().console(listener).build();
    let handle = manager.handle();
    during(manager, async {
        let names = |state: &Value| state["controllers"].as_array().unwrap().len();
        let painter = Controller::<ConfigMap>::new().named("painter");
        let added =
            handle.add(painter.reconcile(async |_: Arc<ConfigMap>, _: Context| Ok::<_, Error>(Action::await_change())));
        state_when(&address, |state| names(state) == 1 && state["controllers"][0]["name"] == "painter").await;
        added.unwrap().stop().await;
        assert_eq!(names(&state(&address).await), 0);
    })
    .await;
}

#[tokio::test]
async fn console_is_read_only_and_checks_the_host() {
    let (fake, (listener, address)) = (Fake::new(), listener().await);
    let manager = fake.manager().console(listener).build();
    during(manager, async {
        let (status, head, page) = ask(&address, &format!("GET / HTTP/1.0\r\nhost: {address}")).await;
        assert_eq!(status, 200);
        assert!(page.starts_with("<!doctype html>"), "{page}");
        assert!(head.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{head}");
        assert!(head.contains("x-content-type-options: nosniff") && head.contains("cache-control: no-store"), "{head}");
        for (head, expected) in [
            ("POST /api/state HTTP/1.0\r\nhost: localhost\r\ncontent-length: 0", 405),
            ("DELETE / HTTP/1.0\r\nhost: localhost", 405),
            ("GET /api/state HTTP/1.0\r\nhost: rebound.example.com", 421),
            ("GET /api/events HTTP/1.0\r\nhost: rebound.example.com", 421),
            ("GET /etc/passwd HTTP/1.0\r\nhost: localhost", 404),
            ("HEAD /api/events HTTP/1.0\r\nhost: localhost", 200),
        ] {
            let (status, found, body) = ask(&address, head).await;
            assert_eq!(status, expected, "{head}: {body}");
            assert!(found.contains("content-security-policy:"), "{found}");
            assert_eq!(found.contains("allow: get, head"), expected == 405, "{found}");
            assert!(!body.contains("controllers"), "{body}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_stop_ends_the_streams_and_leaves_nothing() {
    let before = Handle::current().metrics().num_alive_tasks();
    let (fake, (listener, address)) = (Fake::new(), listener().await);
    fake.put(&config("a"));
    let mut manager = fake.manager().console(listener).build();
    manager.add(
        Controller::<ConfigMap>::new()
            .reconcile(async |_: Arc<ConfigMap>, _: Context| Ok::<_, Error>(Action::await_change())),
    );
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(manager.run(async { drop(stopped.await) }));
    let mut streams = [Stream::open(&address, "").await, Stream::open(&address, "").await];
    for stream in &mut streams {
        drop(stream.story_until(|line| line["step"] == "finished").await);
    }
    drop(stop);
    timeout(DEADLINE, running).await.expect("it stops").unwrap().unwrap();
    for stream in &mut streams {
        while let Some((_, name, _)) = stream.next().await {
            assert!(name == "state" || name == "story", "{name}");
        }
    }
    assert!(TcpStream::connect(&address).await.is_err(), "the port is closed");
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before);
}

#[tokio::test]
async fn slow_reader_blocks_no_other_and_readers_are_limited() {
    let (fake, (listener, address)) = (Fake::new(), listener().await);
    let mut manager = fake.manager().console(listener).build();
    manager.add(
        Controller::<ConfigMap>::new()
            .reconcile(async |_: Arc<ConfigMap>, _: Context| Ok::<_, Error>(Action::await_change())),
    );
    during(manager, async {
        let mut idle = Vec::new();
        for _ in 0..16 {
            let mut stream = Stream::open(&address, "").await;
            stream.next().await.unwrap();
            idle.push(stream);
        }
        let refused = ask(&address, "GET /api/events HTTP/1.0\r\nhost: localhost").await;
        assert_eq!((refused.0, &*refused.2), (503, "too many readers\n"));
        for round in 0..4_000 {
            let mut object = config("a");
            object.data = Some(BTreeMap::from([("round".to_owned(), round.to_string())]));
            fake.put(&object);
        }
        let all = |state: &Value| {
            state["caches"][0]["events"].as_u64() >= Some(4_000) && state["controllers"][0]["depth"] == 0
        };
        state_when(&address, all).await;
        // A reader that disconnects makes room for another.
        drop(idle.pop());
        let follow = async {
            loop {
                let mut stream = Stream::open(&address, "").await;
                if let Some((_, name, _)) = stream.next().await {
                    return name;
                }
            }
        };
        assert_eq!(timeout(DEADLINE, follow).await.expect("there is room"), "state");
    })
    .await;
}

#[tokio::test]
async fn state_names_the_leader() {
    let (server, (listener, address)) = (Leases::default(), listener().await);
    let election = LeaderElection::new("lock").identity("a");
    let manager = Manager::builder(server.client("a")).leader_election(election).console(listener).build();
    during(manager, async {
        let state = state_when(&address, |state| state["leadership"]["role"] == "leading").await;
        assert_eq!(state["leadership"], json!({"role": "leading", "lease": "lock", "leader": "a"}));
    })
    .await;
}
