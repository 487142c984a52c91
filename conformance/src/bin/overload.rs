//! Overloads a running API server: clients that send the most expensive permitted requests at the same time, a
//! well-behaved client, and a client of the system. `cargo xtask long overload` starts the server and runs this program.
//!
//! For each kind of requests the program prints a row of a Markdown table: the responses to the attackers, and the
//! latencies of the other two clients. The attackers are a process of their own, and the other clients have threads of
//! their own, so that none of them waits for another within this program. It fails if the latency of a measured client
//! is too high, or if one of its requests fails.

#![allow(clippy::disallowed_methods, reason = "a tool for people: real processes, real time")]

use std::{
    error::Error,
    io::{BufRead as _, BufReader, Write as _, stdin},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use http::{Request, StatusCode, request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::{
    runtime,
    time::{sleep, timeout},
};
use windlass_client::{Body, Client, Config, Kubeconfig, kubeconfig::Selection};

/// The number of attackers, each of them another user.
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

/// The first argument of the process of the attackers.
const ATTACK: &str = "--attack";

type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// A kind of expensive requests.
struct Load {
    name: &'static str,
    connections: Connections,
    /// Returns the request of an attacker.
    request: fn(request::Builder, usize) -> request::Builder,
    /// Returns the body for an attacker and a round.
    body: fn(usize, u64) -> String,
}

/// The connections of the attackers.
enum Connections {
    OneEach,
    Shared,
}

const LOADS: [Load; 8] = [
    Load {
        name: "lists of 10 MB in JSON",
        connections: Connections::OneEach,
        request: |request, _| request.uri(objects("")),
        body: no_body,
    },
    Load {
        name: "the same lists, all on one connection",
        connections: Connections::Shared,
        request: |request, _| request.uri(objects("")),
        body: no_body,
    },
    Load {
        name: "lists of 10 MB in YAML",
        connections: Connections::OneEach,
        request: |request, _| request.uri(objects("")).header("Accept", "application/yaml"),
        body: no_body,
    },
    Load {
        name: "lists as tables",
        connections: Connections::OneEach,
        request: |request, _| {
            request
                .uri(objects("?includeObject=Object"))
                .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        },
        body: no_body,
    },
    Load {
        name: "lists with a selector that matches nothing",
        connections: Connections::OneEach,
        request: |request, _| request.uri(objects("?labelSelector=a%3Db,c%21%3Dd&resourceVersion=0")),
        body: no_body,
    },
    Load {
        name: "watches that begin with 10 MB",
        connections: Connections::OneEach,
        request: |request, _| request.uri(objects("?watch=1&resourceVersion=0&timeoutSeconds=1")),
        body: no_body,
    },
    Load {
        name: "applies of 0.9 MB",
        connections: Connections::OneEach,
        request: |request, attacker| {
            let path = format!("/large-{attacker}?fieldManager=overload&force=true");
            request.method("PATCH").uri(objects(&path)).header("Content-Type", "application/apply-patch+yaml")
        },
        body: |attacker, round| large(&format!("large-{attacker}"), round, 1000).to_string(),
    },
    Load {
        name: "creations of 0.9 MB with 60,000 keys, not stored",
        connections: Connections::OneEach,
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

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match *arguments.as_slice() {
        [ATTACK, kubeconfig, load] => attack(kubeconfig, load).map(|()| true),
        [kubeconfig, seconds] => compare(kubeconfig, seconds, ""),
        [kubeconfig, seconds, only] => compare(kubeconfig, seconds, only),
        _ => Err("usage: overload KUBECONFIG SECONDS [ONLY]".into()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("overload: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the table. Reports whether the limits held.
fn compare(kubeconfig: &str, seconds: &str, only: &str) -> Result<bool> {
    let time = Duration::from_secs(seconds.parse().map_err(|error| format!("{seconds:?}: {error}"))?);
    runtime::Builder::new_current_thread().enable_all().build()?.block_on(prepare(&client(kubeconfig)?))?;
    println!(
        "| requests of {ATTACKERS} clients | responses per second | 429 | failures | user: median | p99 | maximum | failures | system: median | p99 | maximum | failures |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    let mut all_held = true;
    for load in LOADS.iter().filter(|load| load.name.contains(only)) {
        all_held &= overload(kubeconfig, load, time)?;
    }
    Ok(all_held)
}

/// Runs one kind of load and prints its row.
fn overload(kubeconfig: &str, load: &Load, time: Duration) -> Result<bool> {
    let stopped = AtomicBool::new(false);
    let mut attackers = Attackers::start(kubeconfig, load)?;
    // The load has begun when the other clients begin.
    thread::sleep(Duration::from_secs(1));
    let begun = attackers.count()?;
    let (user, system, ended) = thread::scope(|scope| {
        let user = scope.spawn(|| measure(kubeconfig, Some(NEIGHBOR), &stopped));
        let system = scope.spawn(|| measure(kubeconfig, None, &stopped));
        thread::sleep(time);
        let ended = attackers.count();
        stopped.store(true, Relaxed);
        (user.join(), system.join(), ended)
    });
    drop(attackers);
    let ended = ended?;
    let (Ok(user), Ok(system)) = (user, system) else { return Err("a measuring client panicked".into()) };
    let (user, system) = (user?, system?);
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let rate = (ended[0] - begun[0]) as f64 / time.as_secs_f64();
    let (rejected, failed) = (ended[1] - begun[1], ended[2] - begun[2]);
    println!("| {} | {rate:.1} | {rejected} | {failed} | {} | {} |", load.name, user.cells(), system.cells());
    Ok([user, system].iter().all(|client| client.failures == 0 && client.at(99) <= LIMIT))
}

/// The process of the attackers, which ends when this is dropped.
struct Attackers {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Attackers {
    fn start(kubeconfig: &str, load: &Load) -> Result<Self> {
        let program = std::env::current_exe()?;
        let mut process = Command::new(program)
            .args([ATTACK, kubeconfig, load.name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(questions), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("the attackers have no pipes".into());
        };
        Ok(Self { process, questions, answers: BufReader::new(answers) })
    }

    /// Returns the number of successes, of responses with 429, and of failures until now.
    fn count(&mut self) -> Result<[u64; 3]> {
        writeln!(self.questions)?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let counts: Vec<u64> = line.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
        <[u64; 3]>::try_from(counts).map_err(|_| format!("the attackers answered {line:?}").into())
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        // Both only fail if the process has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends the requests of all attackers until the standard input ends. Answers each line of it with the counts.
fn attack(kubeconfig: &str, name: &str) -> Result {
    let load = LOADS.iter().find(|load| load.name == name).ok_or_else(|| format!("no load has the name {name:?}"))?;
    let counts: Arc<[AtomicU64; 3]> = Arc::default();
    let runtime = runtime::Builder::new_multi_thread().enable_all().build()?;
    let _entered = runtime.enter();
    let shared = client(kubeconfig)?;
    for attacker in 0..ATTACKERS {
        let client = match load.connections {
            Connections::OneEach => client(kubeconfig)?,
            Connections::Shared => shared.clone(),
        };
        runtime.spawn(send_repeatedly(client, load, attacker, Arc::clone(&counts)));
    }
    for line in stdin().lines() {
        line?;
        let [successes, rejected, failed] = counts.each_ref().map(|count| count.load(Relaxed));
        println!("{successes} {rejected} {failed}");
    }
    Ok(())
}

/// Sends the requests of an attacker, one after the other.
async fn send_repeatedly(client: Client, load: &Load, attacker: usize, counts: Arc<[AtomicU64; 3]>) {
    for round in 1.. {
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
}

/// Gets a small object again and again.
fn measure(kubeconfig: &str, user: Option<&str>, stopped: &AtomicBool) -> Result<Latencies> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = client(kubeconfig)?;
        let mut latencies = Latencies { sorted: Vec::new(), failures: 0 };
        while !stopped.load(Relaxed) {
            let request = Request::get(objects("/small"));
            let request = match user {
                Some(user) => as_user(request, user),
                None => request,
            };
            let request = request.body(Body::empty())?;
            let started = Instant::now();
            let status = timeout(PATIENCE, send(&client, request)).await;
            latencies.failures += usize::from(!matches!(status, Ok(Ok(StatusCode::OK))));
            latencies.sorted.push(started.elapsed());
            sleep(PAUSE).await;
        }
        latencies.sorted.sort_unstable();
        Ok(latencies)
    })
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

/// Returns a client with connections of its own: clients of one configuration would share them.
fn client(kubeconfig: &str) -> Result<Client> {
    let config = Config::from_kubeconfig(&Kubeconfig::read(Path::new(kubeconfig))?, &Selection::default())?;
    Ok(Client::new(config)?.without_rate_limit().with_retries(0).without_compression())
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
