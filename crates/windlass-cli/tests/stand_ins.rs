//! Tests of the stand-ins of `windlass envtest-assets`, used as by Go's envtest.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use k8s_openapi::api::core::v1::Namespace;
use windlass_api::{Clock, Entropy, ObjectExt as _};
use windlass_client::{
    Auth, Client, Config,
    certificates::{CertificateAuthority, Leaf, Validity},
    config::TlsOptions,
};

/// A timeout that is far longer than required.
const PATIENCE: Duration = Duration::from_mins(1);

/// A folder with the stand-ins and a folder for their files; removed when dropped.
struct Assets(PathBuf);

/// A running stand-in; killed when dropped.
struct Running(Child);

impl Assets {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("windlass-stand-ins-{}", Entropy::os().uuid()));
        let written = Command::new(env!("CARGO_BIN_EXE_windlass")).arg("envtest-assets").arg(&folder).output().unwrap();
        assert!(written.status.success(), "{written:?}");
        let folder = fs::canonicalize(folder).unwrap();
        assert_eq!(String::from_utf8(written.stdout).unwrap(), format!("KUBEBUILDER_ASSETS={}\n", folder.display()));
        fs::create_dir(folder.join("files")).unwrap();
        Self(folder)
    }

    fn command(&self, name: &str, flags: &[String]) -> Command {
        let mut command = Command::new(self.0.join(name));
        command.args(flags).env_remove("WINDLASS_LOG").env_remove("KUBECONFIG").stdin(Stdio::null());
        command
    }

    fn start(&self, name: &str, flags: &[String]) -> Running {
        Running(self.command(name, flags).spawn().unwrap())
    }

    fn run(&self, name: &str, flags: &[String]) -> Output {
        self.command(name, flags).output().unwrap()
    }

    fn write(&self, file: &str, content: &str) -> String {
        let path = self.0.join("files").join(file);
        fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    fn files(&self) -> &Path {
        self.0.as_path()
    }
}

impl Drop for Assets {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Running {
    /// Sends SIGTERM and waits for the end.
    async fn stop(mut self) {
        assert!(Command::new("kill").arg(self.0.id().to_string()).status().unwrap().success());
        let ended = tokio::task::spawn_blocking(move || self.0.wait().unwrap().success());
        assert!(tokio::time::timeout(PATIENCE, ended).await.expect("it ends").unwrap(), "it exits successfully");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails if the process has ended, which is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn flags<const N: usize>(flags: [&str; N]) -> Vec<String> {
    flags.map(str::to_owned).into()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Repeats a request until there is a response.
async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let found = async {
        loop {
            match ask().await {
                Some(found) => return found,
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {what}"))
}

fn get(port: u16, path: &str) -> Option<String> {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(connection, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[tokio::test]
async fn etcd_stand_in_serves_health_and_stops() {
    let assets = Assets::new();
    let help = assets.run("etcd", &flags(["--help"]));
    assert!(help.status.success());
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.lines().any(|line| line.trim_start().starts_with("--unsafe-no-fsync")), "{help}");

    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let etcd = assets.start(
        "etcd",
        &[
            format!("--advertise-client-urls={url}"),
            format!("--data-dir={}", assets.files().display()),
            format!("--listen-client-urls={url}"),
            "--listen-peer-urls=http://localhost:0".to_owned(),
            "--unsafe-no-fsync=true".to_owned(),
        ],
    );
    let healthy = eventually("health", async || get(port, "/health")).await;
    assert!(healthy.starts_with("HTTP/1.1 200") && healthy.contains(r#""health":"true""#), "{healthy}");
    etcd.stop().await;
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[tokio::test]
async fn apiserver_stand_in_accepts_envtest_flags() {
    let assets = Assets::new();
    let help = String::from_utf8(assets.run("kube-apiserver", &flags(["--help"])).stdout).unwrap();
    assert!(!help.contains("--insecure-port") && help.contains("--client-ca-file"), "{help}");

    // Creates certificates like envtest: one CA for the server and one for clients.
    let validity = Validity::starting(Clock::system().now(), Duration::from_hours(1));
    let serving = CertificateAuthority::self_signed("envtest-environment", validity).unwrap();
    let served = serving.issue(&Leaf::server(["localhost", "127.0.0.1"]), validity).unwrap();
    let clients = CertificateAuthority::self_signed("envtest-environment", validity).unwrap();
    let files = assets.files().join("files");
    assets.write("apiserver.crt", served.certificate().to_pem());
    assets.write("apiserver.key", served.key().to_pem().expose());
    let signer = assets.write("sa-signer.key", served.key().to_pem().expose());
    let tokens = assets.write("tokens.csv", "SECRET,reader,7,\"readers,system:masters\"\n");
    let port = free_port();
    let server = assets.start(
        "kube-apiserver",
        &[
            "--allow-privileged=true".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--cert-dir={}", files.display()),
            format!("--client-ca-file={}", assets.write("client-ca.crt", clients.certificate().to_pem())),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--etcd-servers=http://127.0.0.1:2379".to_owned(),
            "--feature-gates=Some=true".to_owned(),
            format!("--secure-port={port}"),
            format!("--service-account-issuer=https://127.0.0.1:{port}/"),
            format!("--service-account-signing-key-file={signer}"),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            format!("--token-auth-file={tokens}"),
        ],
    );
    let config = || {
        let server = format!("https://127.0.0.1:{port}").parse().unwrap();
        Config::new(server).with_tls(TlsOptions::trusting(serving.certificate().to_pem().as_bytes().to_vec()))
    };
    let anonymous = Client::new(config()).unwrap();
    let health = || http::Request::get("/healthz").body("").unwrap();
    let answer = eventually("health", async || anonymous.request(health()).await.ok()).await;
    assert_eq!(answer.status(), 200);

    let mut leaf = Leaf::client("admin");
    leaf.organization = Some("system:masters".to_owned());
    let identity = clients.issue(&leaf, validity).unwrap().identity();
    let tls = TlsOptions::trusting(serving.certificate().to_pem().as_bytes().to_vec()).with_identity(identity);
    let admin = Client::new(config().with_tls(tls)).unwrap();
    assert_eq!(admin.get::<Namespace>("default").await.unwrap().name(), "default");
    let stranger = serving.issue(&leaf, validity).unwrap().identity();
    let tls = TlsOptions::trusting(serving.certificate().to_pem().as_bytes().to_vec()).with_identity(stranger);
    let stranger = Client::new(config().with_tls(tls)).unwrap();
    assert!(stranger.get::<Namespace>("default").await.unwrap_err().is_unauthorized());

    let connection = [
        format!("--server=https://127.0.0.1:{port}"),
        "--token=SECRET".to_owned(),
        "--insecure-skip-tls-verify".to_owned(),
        format!("--cache-dir={}", files.join("cache").display()),
    ];
    let command = ["get", "namespace", "default", "-o", "name"].map(str::to_owned);
    let shown = assets.run("kubectl", &[&connection[..], &command[..]].concat());
    assert_eq!(String::from_utf8(shown.stdout).unwrap(), "namespace/default\n");
    server.stop().await;
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[tokio::test]
async fn stand_in_start_error_is_reported() {
    let assets = Assets::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", taken.local_addr().unwrap());
    let output = assets.run("etcd", &[format!("--listen-client-urls={url}")]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && told.contains(&format!("listening on {url}: ")), "{told}");
    let output = assets.run("kube-apiserver", &flags(["--client-ca-file=/nowhere/ca.crt", "--cert-dir=/dev/null/x"]));
    assert!(!output.status.success());
}

#[tokio::test]
async fn unsupported_security_flag_stops_the_api_server() {
    let assets = Assets::new();
    let run = |flags: &[&str]| {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let output = assets.run("kube-apiserver", &flags);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let told = run(&["--encryption-provider-config=/e.yaml", "--enable-admission-plugins=ImagePolicyWebhook"]);
    assert!(told.contains("unsupported flag --encryption-provider-config: objects are in memory"), "{told}");
    assert!(
        told.contains("--enable-admission-plugins=ImagePolicyWebhook") && told.contains("--allow-unsupported-flags"),
        "{told}"
    );
    // With this flag, the server starts and fails only at its certificates.
    let told = run(&["--encryption-provider-config=/e.yaml", "--allow-unsupported-flags", "--cert-dir=/dev/null/x"]);
    assert!(told.contains("unsupported flag --encryption-provider-config") && told.contains("/dev/null/x"), "{told}");
}

#[tokio::test]
async fn flags_disable_anonymous_requests_and_old_tls() {
    let assets = Assets::new();
    let port = free_port();
    let certificates = assets.files().join("files");
    let server = assets.start(
        "kube-apiserver",
        &[
            "--anonymous-auth=false".to_owned(),
            "--tls-min-version=VersionTLS13".to_owned(),
            format!("--cert-dir={}", certificates.display()),
            format!("--token-auth-file={}", assets.write("tokens.csv", "SECRET,reader,7,\"system:masters\"\n")),
            format!("--secure-port={port}"),
        ],
    );
    let ca = eventually("the authority", async || fs::read(certificates.join("ca.crt")).ok()).await;
    let config = |tls: TlsOptions| Config::new(format!("https://127.0.0.1:{port}").parse().unwrap()).with_tls(tls);
    let admin = Client::new(config(TlsOptions::trusting(ca.clone())).with_auth(Auth::Bearer("SECRET".into()))).unwrap();
    eventually("an answer", async || admin.get::<Namespace>("default").await.ok()).await;
    let anonymous = Client::new(config(TlsOptions::trusting(ca.clone()))).unwrap();
    assert!(anonymous.get::<Namespace>("default").await.unwrap_err().is_unauthorized());
    // It listens only on loopback, although no address was specified.
    let others = Command::new("hostname").arg("-I").output().map(|output| String::from_utf8(output.stdout).unwrap());
    for address in others.unwrap_or_default().split_whitespace().filter(|address| address.contains('.')) {
        assert!(TcpStream::connect((address, port)).is_err(), "{address}");
    }
    server.stop().await;
}
