//! Overloads a running API server: clients that send the most expensive permitted requests at the same time, a
//! well-behaved client, and a client of the system. `cargo xtask long overload` starts the server and runs this program.
//!
//! For each kind of requests the program prints a row of a Markdown table: the responses to the attackers, and the
//! latencies of the other two clients. These two have threads of their own, so that they do not wait for the attackers
//! within this program. It fails if the latency of one of them is too high, or if one of their requests
//! fails.

#![allow(clippy::disallowed_methods, reason = "a tool for people: real processes, real time")]

use std::{
    error::Error,
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use http::{Request, StatusCode, request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::{
    runtime,
    sync::watch,
    task::{JoinHandle, JoinSet, spawn_blocking},
    time::{sleep, timeout},
};
use windlass_client::{Body, Client, Config, Kubeconfig, kubeconfig::Selection};

/// The number of attackers, each of them another user with a connection of its own.
const ATTACKERS: usize = 50;

/// The objects that they list: 2,000 of 5 KB.
const OBJECTS: usize = 2000;
const OBJECT_SIZE: usize = 5000;

/// The size of the objects that they write.
const LARGE: usize = 900_000;

/// The pause between two requests of the other clients.
const PAUSE: Duration = Duration::from_millis(20);

/// A request that takes longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(70);

/// The limit of the 99th percentile of the other clients.
const LIMIT: Duration = Duration::from_secs(1);

const NAMESPACE: &str = "overload";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";
const NEIGHBOR: &str = "overload-neighbor";

type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// A kind of expensive requests.
struct Load {
    name: &'static str,
    /// Returns the request of an attacker.
    request: fn(request::Builder, usize) -> request::Builder,
    /// Returns the body for an attacker and a round.
    body: fn(usize, u64) -> String,
}

const LOADS: [Load; 7] = [
    Load { name: "lists of 10 MB in JSON", request: |request, _| request.uri(objects("")), body: no_body },
    Load {
        name: "lists of 10 MB in YAML",
        request: |request, _| request.uri(objects("")).header("Accept", "application/yaml"),
        body: no_body,
    },
    Load {
        name: "lists as tables",
        request: |request, _| {
            request
                .uri(objects("?includeObject=Object"))
                .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        },
        body: no_body,
    },
    Load {
        name: "lists with a selector that matches nothing",
        request: |request, _| request.uri(objects("?labelSelector=a%3Db,c%21%3Dd&resourceVersion=0")),
        body: no_body,
    },
    Load {
        name: "watches that begin with 10 MB",
        request: |request, _| request.uri(objects("?watch=1&resourceVersion=0&timeoutSeconds=1")),
        body: no_body,
    },
    Load {
        name: "applies of 0.9 MB",
        request: |request, attacker| {
            let path = format!("/large-{attacker}?fieldManager=overload&force=true");
            request.method("PATCH").uri(objects(&path)).header("Content-Type", "application/apply-patch+yaml")
        },
        body: |attacker, round| large(&format!("large-{attacker}"), round, 1000).to_string(),
    },
    Load {
        name: "creations of 0.9 MB with 60,000 keys, not stored",
        request: |request, _| {
            request.method("POST").uri(objects("?dryRun=All")).header("Content-Type", "application/json")
        },
        body: |attacker, round| large(&format!("new-{attacker}"), round, 60_000).to_string(),
    },
];

/// The latencies and failures of a client.
struct Latencies {
    sorted: Vec<Duration>,
    failures: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(kubeconfig), Some(Ok(seconds))) = (arguments.next(), arguments.next().map(|text| text.parse())) else {
        eprintln!("usage: overload KUBECONFIG SECONDS [ONLY]");
        return ExitCode::FAILURE;
    };
    match run(&kubeconfig, Duration::from_secs(seconds), &arguments.next().unwrap_or_default()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("overload: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the table. Reports whether the limits held.
async fn run(kubeconfig: &str, time: Duration, only: &str) -> Result<bool> {
    let read = Kubeconfig::read(Path::new(kubeconfig))?;
    let config = Config::from_kubeconfig(&read, &Selection::default())?;
    prepare(&client(&config)?).await?;
    println!(
        "| requests of {ATTACKERS} clients | responses per second | 429 | failures | user: median | p99 | maximum | failures | system: median | p99 | maximum | failures |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    let mut all_held = true;
    for load in LOADS.iter().filter(|load| load.name.contains(only)) {
        all_held &= overload(&config, load, time).await?;
    }
    Ok(all_held)
}

/// Runs one kind of load and prints its row.
async fn overload(config: &Config, load: &'static Load, time: Duration) -> Result<bool> {
    let (stop, stopped) = watch::channel(false);
    let counts: Arc<[AtomicU64; 3]> = Arc::default();
    let mut attackers = JoinSet::new();
    for attacker in 0..ATTACKERS {
        let (client, counts, stopped) = (client(config)?, Arc::clone(&counts), stopped.clone());
        attackers.spawn(async move {
            let mut round = 0;
            while !*stopped.borrow() {
                round += 1;
                let request = as_user(Request::builder(), &format!("overload-attacker-{attacker}"));
                let request = (load.request)(request, attacker).body((load.body)(attacker, round).into());
                let Ok(request) = request else { return };
                let count = match timeout(PATIENCE, send(&client, request)).await {
                    Ok(Ok(status)) if status.is_success() => 0,
                    Ok(Ok(StatusCode::TOO_MANY_REQUESTS)) => 1,
                    _ => 2,
                };
                counts[count].fetch_add(1, Relaxed);
            }
        });
    }
    // The load has begun when the other clients begin.
    sleep(Duration::from_secs(1)).await;
    let begun = counts.each_ref().map(|count| count.load(Relaxed));
    let user = measure_on_thread(config, Some(NEIGHBOR), stopped.clone());
    let system = measure_on_thread(config, None, stopped);
    sleep(time).await;
    let ended = counts.each_ref().map(|count| count.load(Relaxed));
    stop.send_replace(true);
    let (user, system) = (user.await??, system.await??);
    while attackers.join_next().await.is_some() {}
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let rate = (ended[0] - begun[0]) as f64 / time.as_secs_f64();
    let (rejected, failed) = (ended[1] - begun[1], ended[2] - begun[2]);
    println!("| {} | {rate:.1} | {rejected} | {failed} | {} | {} |", load.name, user.cells(), system.cells());
    Ok([user, system].iter().all(|client| client.failures == 0 && client.at(99) <= LIMIT))
}

/// Runs [`measure`] on a thread of its own.
fn measure_on_thread(
    config: &Config,
    user: Option<&'static str>,
    stopped: watch::Receiver<bool>,
) -> JoinHandle<Result<Latencies>> {
    let config = config.clone();
    spawn_blocking(move || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async { Ok(measure(client(&config)?, user, stopped).await) })
    })
}

/// Gets a small object again and again.
async fn measure(client: Client, user: Option<&str>, stopped: watch::Receiver<bool>) -> Latencies {
    let mut latencies = Latencies { sorted: Vec::new(), failures: 0 };
    while !*stopped.borrow() {
        let request = Request::get(objects("/small"));
        let request = match user {
            Some(user) => as_user(request, user),
            None => request,
        };
        let Ok(request) = request.body(Body::empty()) else { break };
        let started = Instant::now();
        let status = timeout(PATIENCE, send(&client, request)).await;
        latencies.failures += usize::from(!matches!(status, Ok(Ok(StatusCode::OK))));
        latencies.sorted.push(started.elapsed());
        sleep(PAUSE).await;
    }
    latencies.sorted.sort_unstable();
    latencies
}

impl Latencies {
    /// Returns a percentile.
    fn at(&self, percent: usize) -> Duration {
        let index = (self.sorted.len() * percent / 100).min(self.sorted.len().saturating_sub(1));
        self.sorted.get(index).copied().unwrap_or_default()
    }

    fn cells(&self) -> String {
        let millis = |percent| format!("{:.0} ms", self.at(percent).as_secs_f64() * 1e3);
        format!("{} | {} | {} | {}", millis(50), millis(99), millis(100), self.failures)
    }
}

/// Creates the objects, and the permissions of the users.
async fn prepare(admin: &Client) -> Result {
    create(admin, "/api/v1/namespaces", &json!({"metadata": {"name": NAMESPACE}})).await?;
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]});
    create(admin, &format!("{ROLES}/clusterroles"), &json!({"metadata": {"name": NAMESPACE}, "rules": [rule]})).await?;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": NAMESPACE},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": NAMESPACE},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "system:authenticated"}],
    });
    create(admin, &format!("{ROLES}/clusterrolebindings"), &binding).await?;
    create(admin, &objects(""), &json!({"metadata": {"name": "small"}})).await?;
    for number in 0..OBJECTS {
        let data = json!({"text": "x".repeat(OBJECT_SIZE)});
        create(admin, &objects(""), &json!({"metadata": {"name": format!("object-{number}")}, "data": data})).await?;
    }
    Ok(())
}

async fn create(admin: &Client, path: &str, object: &Value) -> Result {
    let request = Request::post(path).header("Content-Type", "application/json").body(object.to_string().into())?;
    let status = send(admin, request).await?;
    if status.is_success() || status == StatusCode::CONFLICT { Ok(()) } else { Err(format!("{path}: {status}").into()) }
}

/// Sends a request and reads its response.
async fn send(client: &Client, request: Request<Body>) -> Result<StatusCode> {
    let (head, body) = client.request(request).await?.into_parts();
    let mut body = std::pin::pin!(body);
    while let Some(frame) = body.frame().await {
        frame?;
    }
    Ok(head.status)
}

/// Returns a client with connections of its own.
fn client(config: &Config) -> Result<Client> {
    Ok(Client::new(config.clone())?.without_rate_limit().with_retries(0).without_compression())
}

fn as_user(request: request::Builder, user: &str) -> request::Builder {
    request.header("Impersonate-User", user)
}

fn objects(rest: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps{rest}")
}

fn no_body(_attacker: usize, _round: u64) -> String {
    String::new()
}

/// Returns an object of 0.9 MB with this name and this number of keys.
fn large(name: &str, round: u64, keys: usize) -> Value {
    let text = "x".repeat(LARGE / keys - 14);
    let data: serde_json::Map<String, Value> =
        (0..keys).map(|key| (format!("k{key}"), format!("{round}{text}").into())).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}
