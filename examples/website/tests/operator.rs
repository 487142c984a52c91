//! Tests the operator in production form: a process, a configuration file, and an API server on a socket.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{
    path::PathBuf,
    process::{Child, Command},
    time::Duration,
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time::{sleep, timeout},
};
use website_operator::api::{READY, Website};
use windlass::{
    Client, ObjectBuilder as _, ObjectExt as _, Patch,
    api::Conditions as _,
    client::{
        Kubeconfig,
        kubeconfig::{Cluster, User},
    },
    k8s::{
        apps::v1::Deployment,
        coordination::v1::Lease,
        core::v1::{ConfigMap, Event, Service},
    },
    server::{Server, TlsIdentity},
};

/// The timeout of each wait, long enough for a busy machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// An API server, and the operator's process. Dropping it stops both and deletes their files.
struct Port {
    client: Client,
    operator: Child,
    metrics: String,
    health: String,
    server: Server,
    directory: PathBuf,
    _stop: oneshot::Sender<()>,
}

impl Port {
    async fn open() -> Self {
        let directory = std::env::temp_dir().join(format!("windlass-website-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (kubeconfig, config) = (directory.join("kubeconfig"), directory.join("config.yaml"));

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tls = TlsIdentity::generate(vec!["127.0.0.1".to_owned()]).unwrap();
        let cluster = Cluster::new(format!("https://{}", listener.local_addr().unwrap())).trusting(tls.ca_pem());
        Kubeconfig::single("port", cluster, User::with_token("s3cret")).write(&kubeconfig).unwrap();
        let server = Server::builder().token("s3cret").build();
        let (stop, stopped) = oneshot::channel();
        let serving = server.clone();
        tokio::spawn(async move {
            serving.serve(listener, tls, async { drop(stopped.await) }).await.unwrap();
        });

        let [metrics, health, webhooks] = free_addresses().await;
        let document = json!({
            "apiVersion": "windlass.dev/v1alpha1",
            "kind": "ManagerConfiguration",
            "metrics": {"bindAddress": metrics, "secure": false},
            "health": {"bindAddress": health},
            "webhook": {"host": "127.0.0.1", "port": webhooks.rsplit_once(':').unwrap().1.parse::<u16>().unwrap()},
            "logging": {"level": "warn"},
        });
        std::fs::write(&config, document.to_string()).unwrap();
        let mut operator = Command::new(env!("CARGO_BIN_EXE_website-operator"));
        operator.args(["--install", "--leader-elect", "--config"]).arg(config).env("KUBECONFIG", kubeconfig);
        let operator = operator.spawn().unwrap();
        let client = Client::from_service(server.service(), "default");
        Self { client, operator, metrics, health, server, directory, _stop: stop }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let _ = self.operator.kill();
        let _ = self.operator.wait();
        self.server.stop();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Returns unused addresses.
async fn free_addresses() -> [String; 3] {
    let mut listeners = Vec::new();
    for _ in 0..3 {
        listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
    }
    [0, 1, 2].map(|place: usize| listeners[place].local_addr().unwrap().to_string())
}

/// Polls until there is a value.
async fn eventually<T>(what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(found) = ask().await {
                return found;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(DEADLINE, asking).await.unwrap_or_else(|_| panic!("never: {what}"))
}

/// Sends a plain HTTP request, and returns the head and body of the response.
async fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    Some(answer)
}

fn website(greeting: &str) -> Website {
    Website::named("harbour").in_namespace("default").with(|website| website.spec.greeting = greeting.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn website_is_validated_built_reported_and_deleted() {
    let mut port = Port::open().await;
    let client = port.client.clone();
    let told = async || client.create(&website("Ahoy")).dry_run().await.ok()?.spec.image;
    eventually("the API server calls the webhooks", told).await;
    eventually("it is ready", async || get(&port.health, "/readyz").await?.ends_with("ok").then_some(())).await;

    // Webhooks set defaults and reject invalid websites.
    let made = client.create(&website("Ahoy")).await.unwrap();
    assert_eq!((made.spec.image.as_deref(), made.spec.replicas), (Some("nginx:1.29"), Some(1)));
    let many = client.patch::<Website>("harbour", Patch::Merge(json!({"spec": {"replicas": 11}}))).await.unwrap_err();
    assert!(
        many.chain().ends_with("denied the request: spec.replicas: 11 exceeds the maximum of 10"),
        "{}",
        many.chain()
    );

    // The dependents are created.
    let deployment = eventually("it is served", async || client.get_opt::<Deployment>("harbour").await.unwrap()).await;
    assert!(deployment.is_controlled_by(&made));
    let page = async || client.get_opt::<ConfigMap>("harbour").await.unwrap()?.data?.remove("index.html");
    assert_eq!(eventually("it has a page", page).await, "<h1>Ahoy</h1>\n");
    eventually("it is reached", async || client.get_opt::<Service>("harbour").await.unwrap()).await;
    let listed = async || client.get_opt::<ConfigMap>("websites").await.unwrap()?.data?.remove("harbour");
    assert_eq!(eventually("it is listed", listed).await, "Ahoy");

    // The status and events report progress.
    let reported = async |message: &str| {
        let status = client.get::<Website>("harbour").await.unwrap().status?;
        let told = status.conditions.find(READY)?.message == message && status.observed_generation == Some(1);
        told.then(|| status.conditions.is_true(READY))
    };
    let ready = eventually("it is starting", async || reported("0 of 1 servers are ready").await).await;
    assert!(!ready);
    let servers = Patch::Merge(json!({"status": {"replicas": 1, "readyReplicas": 1}}));
    client.patch::<Deployment>("harbour", servers).subresource("status").await.unwrap();
    let ready = eventually("it is served", async || reported("1 of 1 servers are ready").await).await;
    assert!(ready);
    let event = async || {
        let events = client.list::<Event>().within("default").await.unwrap();
        events.into_iter().find(|event| event.reason.as_deref() == Some("Serving"))
    };
    assert_eq!(eventually("an event is recorded", event).await.involved_object.name.as_deref(), Some("harbour"));

    // A change of the spec, and metrics of the leader.
    let other = Patch::Merge(json!({"spec": {"greeting": "Welcome"}}));
    client.patch::<Website>("harbour", other).await.unwrap();
    eventually("its page changes", async || page().await.filter(|page| page == "<h1>Welcome</h1>\n")).await;
    let metrics = get(&port.metrics, "/metrics").await.unwrap();
    for line in [
        r#"leader_election_master_status{name="website.shop.example.com"} 1"#,
        r#"controller_runtime_reconcile_total{controller="website",result="success"} "#,
    ] {
        assert!(metrics.lines().any(|found| found.starts_with(line)), "{line} is not in {metrics}");
    }

    // Deletion of the website, and shutdown of the operator.
    client.delete::<Website>("harbour").await.unwrap();
    let gone = async || client.get_opt::<Website>("harbour").await.unwrap().is_none().then_some(());
    eventually("it is gone", gone).await;
    assert_eq!(listed().await, None, "the directory entry is removed");
    let pid = port.operator.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let status = tokio::task::block_in_place(|| port.operator.wait()).unwrap();
    assert!(status.success(), "{status}");
    let lease = client.get::<Lease>("website.shop.example.com").await.unwrap();
    assert_eq!(lease.spec.unwrap().holder_identity.as_deref(), Some(""), "the lease is free");
}
