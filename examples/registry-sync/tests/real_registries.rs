//! Tests with a real etcd and a real Polaris. Each is killed, stopped, and replaced by a server with invalid responses
//! while the cluster changes, and finally matches the cluster. `cargo xtask registry` builds the programs and passes
//! their paths.

#![allow(clippy::unwrap_used, clippy::panic, reason = "clippy.toml exempts test functions, but not their helpers")]

mod cluster;

use std::{
    fs,
    net::TcpListener as Probe,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use cluster::{Outcome, move_to, serve};
use registry_sync::{Etcd, Polaris, Registry, RegistryReader, RegistrySync};
use serde_json::{from_value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    time::{sleep, timeout},
};
use windlass::{
    Client, ObjectKey, ObjectRef,
    client::Config,
    envtest::Environment,
    k8s::core::v1::{Namespace, Service},
};

/// The names of the loggers for which Polaris requires a file.
const LOGGERS: &str = "config auth store cache naming healthcheck xdsv3 eureka nacos-apiserver apiserver default token-bucket \
                       discoverstat local HistoryLogger discoverEventLocal cmdb";

/// A registry's process on its own port. Dropping it kills the process and deletes its data.
struct Daemon {
    program: PathBuf,
    arguments: Vec<String>,
    directory: PathBuf,
    port: u16,
    process: Option<Child>,
}

impl Daemon {
    fn new(variable: &str, arguments: impl FnOnce(u16, u16) -> Vec<String>) -> Self {
        let program = std::env::var_os(variable).unwrap_or_else(|| panic!("{variable} names no program"));
        let free = || Probe::bind("127.0.0.1:0").unwrap();
        let (port, other) = (free(), free());
        let [port, other] = [port, other].map(|probe| probe.local_addr().unwrap().port());
        let directory = std::env::temp_dir().join(format!("windlass-registry-{}-{port}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Self { program: program.into(), arguments: arguments(port, other), directory, port, process: None }
    }

    fn start(&mut self) {
        let log = fs::File::create(self.directory.join("out.log")).unwrap();
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(&self.directory).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.process = Some(command.spawn().unwrap());
    }

    /// Kills the process without a graceful shutdown.
    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    fn signal(&self, signal: &str) {
        let id = self.process.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    fn client(&self) -> Client {
        Client::new(Config::new(format!("http://127.0.0.1:{}", self.port).parse().unwrap())).unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).within("shop")
}

async fn is_at(reader: &RegistryReader, name: &str, hosts: &[&str]) -> Outcome {
    let hosts: Vec<_> = hosts.iter().map(|host| format!("{host}:80")).collect();
    let at = |entry: &registry_sync::Entry| {
        entry.instances.iter().map(registry_sync::Instance::address).eq(hosts.iter().cloned())
    };
    reader.until(&key(name), |entry| entry.is_some_and(at)).await?;
    Ok(())
}

/// Listens on the registry's port and sends invalid responses.
async fn rave(port: u16) -> Outcome {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).await?;
        let _ =
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\nconnection: close\r\n\r\n{\"moo\": true").await;
    }
}

/// Verifies that the sync recovers from all failures of a registry.
async fn outlives(mut daemon: Daemon, registry: Arc<dyn Registry>) -> Outcome {
    let env = Environment::start().await;
    let (client, reader) = (env.client(), RegistryReader::new(Arc::clone(&registry)));
    let mut manager = env.manager();
    let sync = RegistrySync::with(Arc::clone(&registry));
    sync.check_every(Duration::from_millis(500)).patience(Duration::from_secs(3)).add_to(&mut manager);
    env.run(manager);

    client.create(&from_value::<Namespace>(json!({"metadata": {"name": "shop"}}))?).await?;
    for name in ["stays", "moves", "goes"] {
        serve(&client, "shop", name, &["10.0.0.1", "10.0.0.2"]).await?;
        is_at(&reader, name, &["10.0.0.1", "10.0.0.2"]).await?;
    }

    // The registry is killed and restarted.
    daemon.kill();
    move_to(&client, "shop", "moves", &["10.0.0.2", "10.0.0.3"]).await?;
    client.delete(ObjectRef::<Service>::new("goes").within("shop")).await?;
    serve(&client, "shop", "comes", &["10.0.0.4"]).await?;
    // Wait until the sync has failed at least once.
    sleep(Duration::from_secs(1)).await;
    daemon.start();
    is_at(&reader, "moves", &["10.0.0.2", "10.0.0.3"]).await?;
    is_at(&reader, "comes", &["10.0.0.4"]).await?;
    reader.until(&key("goes"), |entry| entry.is_none()).await?;
    is_at(&reader, "stays", &["10.0.0.1", "10.0.0.2"]).await?;

    // The registry accepts requests, and does not respond for longer than the timeout of the sync.
    daemon.signal("-STOP");
    move_to(&client, "shop", "moves", &["10.0.0.5"]).await?;
    client.delete(ObjectRef::<Service>::new("comes").within("shop")).await?;
    sleep(Duration::from_secs(4)).await;
    daemon.signal("-CONT");
    is_at(&reader, "moves", &["10.0.0.5"]).await?;
    reader.until(&key("comes"), |entry| entry.is_none()).await?;

    // Another server listens on its port and sends invalid responses.
    daemon.kill();
    let raving = tokio::spawn(rave(daemon.port));
    move_to(&client, "shop", "moves", &["10.0.0.6", "10.0.0.7"]).await?;
    sleep(Duration::from_secs(2)).await;
    assert!(registry.entries().await.is_err(), "an invalid response is an error");
    raving.abort();
    let _ = raving.await;
    daemon.start();
    is_at(&reader, "moves", &["10.0.0.6", "10.0.0.7"]).await?;
    is_at(&reader, "stays", &["10.0.0.1", "10.0.0.2"]).await?;

    // Another program removes an entry.
    registry.remove(&key("stays")).await?;
    is_at(&reader, "stays", &["10.0.0.1", "10.0.0.2"]).await?;
    let names: Vec<_> =
        registry.entries().await?.into_keys().filter(|key| key.namespace.as_deref() == Some("shop")).collect();
    assert_eq!(names, [key("moves"), key("stays")]);
    Ok(env.stop().await?)
}

/// Returns the token of the initial user of a new Polaris.
async fn log_in(client: &Client) -> String {
    loop {
        let who = json!({"name": "polaris", "password": "polaris"}).to_string();
        let request =
            http::Request::post("/core/v1/user/login").header("content-type", "application/json").body(who).unwrap();
        if let Ok(answer) = client.request_json::<serde_json::Value>(request).await
            && let Some(token) = answer["loginResponse"]["token"].as_str()
        {
            return token.to_owned();
        }
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real etcd: cargo xtask registry"]
async fn etcd_is_killed_halted_and_impersonated() -> Outcome {
    let arguments = |port, peer| {
        let client = format!("http://127.0.0.1:{port}");
        vec![
            "--data-dir=data".to_owned(),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
        ]
    };
    let mut daemon = Daemon::new("WINDLASS_ETCD", arguments);
    daemon.start();
    let registry = Etcd::new(daemon.client(), "kubernetes");
    outlives(daemon, Arc::new(registry)).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real Polaris: cargo xtask registry"]
async fn polaris_is_killed_halted_and_impersonated() -> Outcome {
    let mut daemon = Daemon::new("WINDLASS_POLARIS", |_, _| vec!["start".to_owned()]);
    let logger = |name: &str| {
        format!(
            "    {name}: {{ rotateOutputPath: log/{name}.log, errorRotateOutputPath: log/{name}-error.log, outputLevel: error }}\n"
        )
    };
    let loggers: String = LOGGERS.split_whitespace().map(logger).collect();
    let config = include_str!("polaris.yaml").replace("PORT", &daemon.port.to_string()).replace("LOGGERS\n", &loggers);
    fs::create_dir_all(daemon.directory.join("conf"))?;
    fs::write(daemon.directory.join("conf/polaris-server.yaml"), config)?;
    daemon.start();
    let token = timeout(Duration::from_mins(1), log_in(&daemon.client())).await?;
    let registry = Polaris::new(daemon.client(), &token)?;
    outlives(daemon, Arc::new(registry)).await
}
