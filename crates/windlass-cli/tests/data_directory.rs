//! Tests of `windlass up --data-dir`: after the next start, a killed control plane has everything that it acknowledged.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::api::{authentication::v1::TokenRequest, core::v1::ConfigMap};
use tokio::time::timeout;
use windlass_api::{ErrorChain, ObjectExt as _};
use windlass_client::{Auth, Client, Clientset, Config, Kubeconfig, WatchEvent, kubeconfig::Selection};

/// A timeout that is far longer than required.
const PATIENCE: Duration = Duration::from_mins(1);

/// A running control plane. It is killed on drop, without a chance to write anything more.
struct Running {
    child: Child,
    kubeconfig: PathBuf,
}

impl Running {
    fn start(directory: &Path) -> Self {
        let mut child = command(directory).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let found = lines.map_while(Result::ok).find_map(|line| Some(line.strip_prefix("KUBECONFIG=")?.into()));
        Self { child, kubeconfig: found.expect("the command prints the path of its kubeconfig") }
    }

    fn config(&self) -> Config {
        let kubeconfig = Kubeconfig::read(&self.kubeconfig).unwrap();
        Config::from_kubeconfig(&kubeconfig, &Selection::default()).unwrap()
    }

    /// Returns the lines of the kubeconfig with the CA and the token of the administrator.
    fn credentials(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.kubeconfig).unwrap();
        let credentials = text.lines().filter(|line| line.contains("authority-data:") || line.contains("token:"));
        let credentials: Vec<String> = credentials.map(str::to_owned).collect();
        assert_eq!(credentials.len(), 2, "{text}");
        credentials
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["up", "--bind", "127.0.0.1:0", "--nodes", "0", "--controllers", "serviceaccount", "--data-dir"]);
    command.arg(directory.join("data")).arg("--kubeconfig").arg(directory.join("kubeconfig"));
    command.env_remove("WINDLASS_LOG").stdin(Stdio::null());
    command
}

fn config_map(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.metadata.namespace = Some("default".to_owned());
    object
}

#[tokio::test]
async fn killed_control_plane_continues_with_its_objects_and_credentials() {
    let directory = tempfile::tempdir().unwrap();
    let first = Running::start(directory.path());
    let (before, trusted) = (first.config(), first.credentials());
    let client = Client::new(before.clone()).unwrap();
    let old = client.create(&config_map("old")).await.unwrap();
    let new = client.create(&config_map("new")).await.unwrap();
    let clientset = Clientset::new(client);
    let granted = timeout(PATIENCE, async {
        loop {
            let accounts = clientset.core_v1().service_accounts("default");
            match accounts.create_token("default", &TokenRequest::default()).await {
                Ok(granted) => return granted,
                // The controller creates the account a moment after the start.
                Err(error) if error.is_not_found() => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(error) => panic!("{error}"),
            }
        }
    });
    let token = granted.await.unwrap().status.unwrap().token.unwrap();
    drop(first);

    let second = Running::start(directory.path());
    let after = second.config();
    assert_eq!(second.credentials(), trusted);
    let client = Client::new(after.clone()).unwrap();
    assert_eq!(client.get::<ConfigMap>(old.object_ref()).await.unwrap(), old);
    assert_eq!(client.get::<ConfigMap>(new.object_ref()).await.unwrap(), new);

    // A watch continues after a version from before the end. The serviceaccount controller writes its object with the
    // certificate authority at any time.
    let since = old.metadata.resource_version.clone().unwrap();
    let watch = client.watch::<ConfigMap>().within("default").fields("metadata.name!=kube-root-ca.crt");
    let mut events = watch.resource_version(since).await.unwrap();
    let event = timeout(PATIENCE, events.next()).await.unwrap().unwrap().unwrap();
    assert!(matches!(&event, WatchEvent::Added(object) if *object == new), "{event:?}");

    // The clients of the first control plane trust the second one, and the tokens of accounts stay valid.
    let mut account = before.clone();
    account.auth = Auth::Bearer(token.as_str().into());
    account.server = after.server.clone();
    let account = Client::new(account).unwrap();
    let error = account.get::<ConfigMap>(old.object_ref()).await.unwrap_err();
    let reason = ErrorChain(&error).to_string();
    assert!(reason.contains("system:serviceaccount:default:default"), "{reason}");
}

#[test]
fn directory_in_use_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let _running = Running::start(directory.path());
    let output = command(directory.path()).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("another process uses the directory"), "{error}");
}

/// Runs `windlass snapshot`, and returns its output or its error.
fn snapshot(action: &str, data: &Path, file: &Path) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    let output = command.args(["snapshot", action, "--data-dir"]).arg(data).arg(file).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[tokio::test]
async fn snapshot_of_a_running_control_plane_is_restored() {
    let directory = tempfile::tempdir().unwrap();
    let running = Running::start(directory.path());
    let client = Client::new(running.config()).unwrap();
    let kept = client.create(&config_map("kept")).await.unwrap();
    let file = directory.path().join("snapshot");
    let saved = snapshot("save", &directory.path().join("data"), &file).unwrap();
    client.create(&config_map("later")).await.unwrap();
    let error = snapshot("restore", &directory.path().join("data"), &file).unwrap_err();
    assert!(error.contains("another process uses the directory"), "{error}");
    drop(running);

    let new = directory.path().join("new");
    let restored = snapshot("restore", &new.join("data"), &file).unwrap();
    assert_eq!(restored.strip_prefix("restored: "), saved.strip_prefix("saved: "));
    let running = Running::start(&new);
    let client = Client::new(running.config()).unwrap();
    assert_eq!(client.get::<ConfigMap>(kept.object_ref()).await.unwrap(), kept);
    let later = client.get::<ConfigMap>(config_map("later").object_ref()).await.unwrap_err();
    assert!(later.is_not_found(), "{later}");
    // A client of the old cluster cannot continue its watch, and lists again.
    let since = kept.metadata.resource_version.unwrap();
    let mut events = client.watch::<ConfigMap>().within("default").resource_version(since).await.unwrap();
    let event = timeout(PATIENCE, events.next()).await.unwrap().unwrap();
    assert!(event.as_ref().is_err_and(windlass_client::Error::is_expired), "{event:?}");
}
