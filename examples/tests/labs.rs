//! Runs every program against a server on a socket, and checks its output.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::json;
use tokio::{
    net::TcpListener,
    sync::{
        mpsc::{UnboundedReceiver, unbounded_channel},
        oneshot,
    },
};
use windlass_api::Patch;
use windlass_client::{
    Client, Kubeconfig,
    kubeconfig::{Cluster, User},
};
use windlass_server::{Server, TlsIdentity};

/// The timeout for a line that a program must print.
const PATIENCE: Duration = Duration::from_mins(1);

/// A server on a free port, and its kubeconfig. Dropping it stops the server and deletes the file.
struct Lab {
    kubeconfig: PathBuf,
    client: Client,
    server: Server,
    _stop: oneshot::Sender<()>,
}

impl Lab {
    async fn start(name: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = TlsIdentity::generate(vec!["127.0.0.1".to_owned()]).unwrap();
        let server = Server::builder().token("s3cret").build();
        let kubeconfig = std::env::temp_dir().join(format!("windlass-lab-{}-{name}", std::process::id()));
        let cluster = Cluster::new(format!("https://{address}")).trusting(tls.ca_pem());
        Kubeconfig::single("lab", cluster, User::with_token("s3cret")).write(&kubeconfig).unwrap();
        let (stop, stopped) = oneshot::channel();
        let serving = server.clone();
        tokio::spawn(async move {
            serving.serve(listener, tls, async { drop(stopped.await) }).await.unwrap();
        });
        let client = Client::from_service(server.service(), "default");
        Self { kubeconfig, client, server, _stop: stop }
    }

    /// Runs a program until it ends successfully, and returns its output.
    async fn run(&self, program: &'static str, arguments: &[&str]) -> String {
        let mut command = command(program, &self.kubeconfig);
        command.args(arguments);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Creates a pod in the default namespace.
    async fn create_pod(&self, name: &str) {
        let pod = json!({"metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        self.client.create(&serde_json::from_value::<Pod>(pod).unwrap()).await.unwrap();
    }

    /// Writes the status of a running pod, as a kubelet would.
    async fn start_pod(&self, name: &str) {
        let status = json!({"status": {"phase": "Running", "podIP": "10.1.2.3"}});
        self.client.patch::<Pod>(name, Patch::Merge(status)).within("default").subresource("status").await.unwrap();
    }
}

/// A program that prints lines until it is stopped. Dropping it stops the program.
struct Watching {
    child: Child,
    lines: UnboundedReceiver<String>,
}

impl Watching {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = unbounded_channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.lines.recv()).await;
        line.expect("the program prints nothing more").expect("the program has ended")
    }

    /// Waits for a line with this ending. A deletion may be preceded by updates.
    async fn wait_for(&mut self, end: &str) {
        while !self.line().await.ends_with(end) {}
    }

    async fn end(mut self) -> ExitStatus {
        tokio::task::spawn_blocking(move || self.child.wait().unwrap()).await.unwrap()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // The program may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.server.stop();
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

fn command(program: &str, kubeconfig: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("KUBECONFIG", kubeconfig);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_print_the_documented_output() {
    let lab = Lab::start("programs").await;
    let created = lab.run(env!("CARGO_BIN_EXE_test_pod"), &["create"]).await;
    assert_eq!(created, "pod default/test created\n");

    let rest = lab.run(env!("CARGO_BIN_EXE_rest_client"), &[]).await;
    assert!(rest.starts_with("default/test was created at 20"), "{rest}");

    let pod = lab.run(env!("CARGO_BIN_EXE_clientset_pod"), &[]).await;
    assert_eq!(pod, "name:   test\nphase:  Pending\nnode:   \nimage:  nginx (test)\n");

    let running = lab.run(env!("CARGO_BIN_EXE_clientset_running"), &[]).await;
    assert_eq!(running, "0 of 1 pods are running\n");
    lab.start_pod("test").await;
    let running = lab.run(env!("CARGO_BIN_EXE_clientset_running"), &[]).await;
    assert_eq!(running, "1 of 1 pods are running\n");

    let node: Node = serde_json::from_value(json!({"metadata": {"name": "node-1"}})).unwrap();
    lab.client.create(&node).await.unwrap();
    let overview = lab.run(env!("CARGO_BIN_EXE_clientset_overview"), &[]).await;
    assert!(overview.contains("  default/test: Running on \"\", at \"10.1.2.3\"\n"), "{overview}");
    assert!(overview.contains("  node-1: ready ?, kubelet \"\"\n"), "{overview}");

    let dynamic = lab.run(env!("CARGO_BIN_EXE_dynamic_client"), &["po"]).await;
    assert_eq!(dynamic, "/v1, Resource=pods:\n  default/test, with 2 fields beside its metadata\n");
    let namespaces = lab.run(env!("CARGO_BIN_EXE_dynamic_client"), &["Namespace"]).await;
    assert!(
        namespaces.starts_with("/v1, Resource=namespaces:\n") && namespaces.contains("  default, with"),
        "{namespaces}"
    );

    let discovery = lab.run(env!("CARGO_BIN_EXE_discovery_client"), &[]).await;
    for line in ["server v1.36", "\n  apps/v1\n", "\n  deployments.apps (Deployment): "] {
        assert!(discovery.contains(line), "{line}: {discovery}");
    }

    let deleted = lab.run(env!("CARGO_BIN_EXE_test_pod"), &["delete"]).await;
    assert_eq!(deleted, "pod default/test deleted\n");
    let pods = lab.client.list::<Pod>().await.unwrap();
    assert!(pods.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_prints_the_phases_of_a_pod() {
    let lab = Lab::start("watch").await;
    lab.create_pod("early").await;
    let mut program = command(env!("CARGO_BIN_EXE_watch_pods"), &lab.kubeconfig);
    let mut watching = Watching::start(program.arg("4"));
    assert_eq!(watching.line().await, "PRESENT early");

    lab.run(env!("CARGO_BIN_EXE_test_pod"), &["create"]).await;
    lab.start_pod("test").await;
    lab.run(env!("CARGO_BIN_EXE_test_pod"), &["delete"]).await;
    // A deletion causes two events: the deletion timestamp is set, then the pod is removed.
    for line in ["ADDED test Pending", "MODIFIED test Running", "MODIFIED test Running", "DELETED test Running"] {
        assert_eq!(watching.line().await, line);
    }
    assert!(watching.end().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn informer_prints_each_kind_of_change() {
    let lab = Lab::start("informer").await;
    lab.create_pod("early").await;
    let mut informer = Watching::start(&mut command(env!("CARGO_BIN_EXE_informer"), &lab.kubeconfig));
    assert_eq!(informer.line().await, "ADDED default/early (initial list)");
    assert_eq!(informer.line().await, "SYNCED 1 pods");

    lab.create_pod("late").await;
    lab.start_pod("late").await;
    lab.client.delete::<Pod>("early").within("default").grace_period(Duration::ZERO).await.unwrap();
    for line in ["ADDED default/late", "UPDATED default/late: Pending -> Running", "DELETED default/early"] {
        informer.wait_for(line).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_print_the_newest_state_of_queued_pods() {
    let lab = Lab::start("workqueue").await;
    lab.create_pod("early").await;
    let mut program = Watching::start(&mut command(env!("CARGO_BIN_EXE_informer_workqueue"), &lab.kubeconfig));
    // A worker may print its line before the line with the number of pods.
    let first = [program.line().await, program.line().await];
    assert!(first.contains(&"SYNCED 1 pods, 3 workers".to_owned()), "{first:?}");
    assert!(first.iter().any(|line| line.ends_with(": default/early is Pending")), "{first:?}");

    lab.start_pod("early").await;
    program.wait_for(": default/early is Running").await;
    lab.client.delete::<Pod>("early").within("default").grace_period(Duration::ZERO).await.unwrap();
    program.wait_for(": default/early is gone").await;
}
