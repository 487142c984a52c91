//! Tests of `windlass up --data-dir`: after the next start, a killed control plane has everything that it acknowledged.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::StreamExt as _;
use k8s_openapi::{
    ByteString,
    api::{
        authentication::v1::TokenRequest,
        core::v1::{ConfigMap, Secret},
    },
};
use tokio::{net::UnixListener, task::JoinSet, time::timeout};
use windlass_api::{ErrorChain, GroupVersion, ObjectExt as _};
use windlass_client::{Auth, Client, Clientset, Config, Kubeconfig, WatchEvent, kubeconfig::Selection};
use windlass_grpc::{Status, code, decode, frame, testing};

/// A timeout that is far longer than required.
const PATIENCE: Duration = Duration::from_mins(1);

/// A running control plane. It is killed on drop, without a chance to write anything more.
struct Running {
    child: Child,
    kubeconfig: PathBuf,
}

impl Running {
    fn start(directory: &Path) -> Self {
        Self::of(command(directory))
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
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

/// A KMS plugin that encrypts nothing, until it is dropped.
struct Plugin {
    decrypted: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

/// The messages of a plugin: those with the key that is encrypted or decrypted, and those with the key id.
#[derive(Clone, PartialEq, prost::Message)]
struct Data {
    #[prost(bytes = "vec", tag = "1")]
    data: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Encrypted {
    #[prost(bytes = "vec", tag = "1")]
    data: Vec<u8>,
    #[prost(string, tag = "2")]
    key_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PluginStatus {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(string, tag = "2")]
    healthz: String,
    #[prost(string, tag = "3")]
    key_id: String,
}

impl Plugin {
    fn start(socket: &Path) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        let decrypted = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&decrypted);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let count = Arc::clone(&count);
                let answer = move |path: String, request| std::future::ready(Self::answer(&path, request, &count));
                connections.spawn(testing::serve_connection(stream, answer));
            }
        });
        Self { decrypted, _serving: serving }
    }

    fn answer(path: &str, request: Bytes, decrypted: &AtomicUsize) -> Result<Bytes, Status> {
        let key_id = || "key-1".to_owned();
        match path {
            "/v2.KeyManagementService/Status" => {
                Ok(frame(&PluginStatus { version: "v2".into(), healthz: "ok".into(), key_id: key_id() }))
            }
            "/v2.KeyManagementService/Encrypt" => {
                let Data { data } = decode(request).unwrap();
                Ok(frame(&Encrypted { data, key_id: key_id() }))
            }
            "/v2.KeyManagementService/Decrypt" => {
                decrypted.fetch_add(1, Ordering::Relaxed);
                Ok(frame(&decode::<Data>(request).unwrap()))
            }
            other => Err(Status { code: code::UNIMPLEMENTED, message: other.to_owned() }),
        }
    }

    /// Returns the number of keys that were decrypted.
    fn decrypted(&self) -> usize {
        self.decrypted.load(Ordering::Relaxed)
    }
}

/// Returns the result of a health probe.
async fn probe(client: &Client, path: &str) -> Result<(), String> {
    let rest = client.rest(GroupVersion::new("", "v1"));
    let sent = rest.get().abs_path(path).max_retries(0).send().await;
    sent.map(drop).map_err(|error| ErrorChain(&error).to_string())
}

/// Waits until the server is ready. It checks a plugin every few seconds.
async fn until_ready(client: &Client) {
    let ready = timeout(PATIENCE, async {
        while probe(client, "/readyz").await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    ready.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")] // the plugin serves while the test waits for a process
async fn secrets_of_a_kms_provider_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let (file, socket) = (directory.path().join("encryption.yaml"), directory.path().join("kms.sock"));
    let configuration = format!(
        "{{kind: EncryptionConfiguration, apiVersion: apiserver.config.k8s.io/v1, resources: [{{resources: [secrets], \
         providers: [{{kms: {{apiVersion: v2, name: vault, endpoint: 'unix://{}', timeout: 10s}}}}]}}]}}",
        socket.display()
    );
    // The server starts without the plugin, and does not wait for it long.
    fs::write(&file, configuration.replace("10s", "100ms")).unwrap();
    let start = || {
        let mut command = command(directory.path());
        command.arg("--encryption-provider-config").arg(&file);
        Running::of(command)
    };
    let secret = {
        let mut secret = Secret::default();
        secret.metadata.name = Some("a".into());
        secret.metadata.namespace = Some("default".into());
        secret.data = Some([("password".to_owned(), ByteString(b"TOP SECRET".to_vec()))].into());
        secret
    };
    let running = start();
    let client = Client::new(running.config()).unwrap();
    let unready = probe(&client, "/readyz").await.unwrap_err();
    assert!(unready.contains("[-]kms-providers failed"), "{unready}");
    let reason = probe(&client, "/readyz/kms-providers").await.unwrap_err();
    assert!(reason.contains("kmsv2 Provider vault is not healthy"), "{reason}");
    probe(&client, "/livez").await.unwrap();
    let error = client.create(&secret).await.unwrap_err();
    let error = ErrorChain(&error).to_string();
    assert!(error.contains("KMS provider \"vault\" has no key yet"), "{error}");
    client.create(&config_map("other")).await.unwrap();

    let plugin = Plugin::start(&socket);
    until_ready(&client).await;
    let created = client.create(&secret).await.unwrap();
    drop(running);
    // The database, and its log of the last writes.
    let files = fs::read_dir(directory.path().join("data/storage")).unwrap();
    let stored = files.map(|file| fs::read(file.unwrap().path()).unwrap()).collect::<Vec<_>>().concat();
    let contains = |text: &[u8]| stored.windows(text.len()).any(|window| window == text);
    // The data of a Secret are in base64.
    assert!(contains(b"k8s:enc:kms:v2:vault:") && !contains(b"VE9QIFNFQ1JFV"));

    drop(plugin);

    // Without the plugin, the value cannot be read, and later it can.
    let running = start();
    let client = Client::new(running.config()).unwrap();
    let error = client.list::<Secret>().within("default").await.unwrap_err();
    assert!(ErrorChain(&error).to_string().contains("KMS provider \"vault\" has no key yet"), "{error}");
    fs::remove_file(&socket).unwrap();
    let plugin = Plugin::start(&socket);
    until_ready(&client).await;
    assert_eq!(client.get::<Secret>(created.object_ref()).await.unwrap(), created);
    drop(running);
    assert_eq!(plugin.decrypted(), 1);

    fs::write(&file, configuration).unwrap();
    let running = start();
    let client = Client::new(running.config()).unwrap();
    probe(&client, "/readyz").await.unwrap();
    let secrets = client.list::<Secret>().within("default").await.unwrap();
    assert_eq!(secrets.items, [created]);
    assert_eq!(plugin.decrypted(), 2);
}
