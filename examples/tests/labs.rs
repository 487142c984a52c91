//! Runs every program against a server on a socket, as its reader would, and looks at what it prints.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::json;
use tokio::{net::TcpListener, sync::oneshot};
use windlass_api::Patch;
use windlass_client::{
    Client, Kubeconfig,
    config::kubeconfig::{Cluster, User},
};
use windlass_server::{Server, TlsIdentity};

/// A server on a free port, and the kubeconfig that leads there; both end with this.
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

    /// What a program prints, when it ends well.
    async fn run(&self, program: &'static str, arguments: &[&str]) -> String {
        let mut command = command(program, &self.kubeconfig);
        command.args(arguments);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a kubelet would say.
    async fn start_pod(&self, name: &str) {
        let status = json!({"status": {"phase": "Running", "podIP": "10.1.2.3"}});
        self.client.patch::<Pod>(name, Patch::Merge(status)).within("default").subresource("status").await.unwrap();
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
async fn the_programs_print_what_they_say() {
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
async fn a_watch_tells_the_life_of_a_pod() {
    let lab = Lab::start("watch").await;
    let early = json!({"metadata": {"name": "early", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    lab.client.create(&serde_json::from_value::<Pod>(early).unwrap()).await.unwrap();
    let mut program = command(env!("CARGO_BIN_EXE_watch_pods"), &lab.kubeconfig);
    let mut child = program.arg("4").stdout(Stdio::piped()).spawn().unwrap();
    let (told, mut lines) = tokio::sync::mpsc::unbounded_channel();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| told.send(line)));
    assert_eq!(lines.recv().await.unwrap(), "PRESENT early");

    lab.run(env!("CARGO_BIN_EXE_test_pod"), &["create"]).await;
    lab.start_pod("test").await;
    lab.run(env!("CARGO_BIN_EXE_test_pod"), &["delete"]).await;
    // Of the deletion, two: that it is to be gone, and that it is.
    for line in ["ADDED test Pending", "MODIFIED test Running", "MODIFIED test Running", "DELETED test Running"] {
        assert_eq!(lines.recv().await.unwrap(), line);
    }
    let ended = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert!(ended.success());
}
