//! The real control plane, built from its Go modules and started on loopback: the judge of everything we claim.

use std::{
    env, fs,
    io::Read,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use clap::ValueEnum;

use crate::Result;

mod programs;

pub(crate) use programs::{OtherKubectl, build};

/// How long the control plane may take to be ready.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// The bearer token of the administrator. The server listens on loopback only, and lives as long as its tests.
const TOKEN: &str = "upstream-admin";

/// Which control plane to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// etcd and kube-apiserver, one administrator by token, no service accounts.
    Token,
    /// The same with kube-controller-manager beside it: service accounts, tokens, every controller.
    Identity,
}

/// A running control plane; stopped, and its data removed, when dropped.
#[derive(Debug)]
pub(crate) struct Upstream {
    binaries: PathBuf,
    /// In the order in which they were started; stopped in reverse.
    processes: Vec<Child>,
    directory: PathBuf,
}

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or_else(|| Path::new("."))
}

/// Starts a control plane and keeps it until standard input closes or the process is interrupted.
pub(crate) fn serve(profile: Profile) -> Result {
    let upstream = Upstream::start(profile)?;
    println!("ready\nKUBECONFIG={}", upstream.kubeconfig().display());
    println!("close standard input (Ctrl-D) to stop");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

// === impl Upstream ===

impl Upstream {
    /// Builds what is missing, starts the control plane on free loopback ports and waits until it is ready.
    pub(crate) fn start(profile: Profile) -> Result<Self> {
        let binaries = build()?;
        let directory = env::temp_dir().join(format!("windlass-upstream-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let mut upstream = Self { binaries: binaries.clone(), processes: Vec::new(), directory };
        upstream.start_in_order(&binaries, profile)?;
        Ok(upstream)
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// The kubectl of the same version.
    pub(crate) fn kubectl(&self) -> PathBuf {
        self.binaries.join("kubectl")
    }

    fn start_in_order(&mut self, binaries: &Path, profile: Profile) -> Result {
        let directory = self.directory.clone();
        let file = |name: &str| directory.join(name).display().to_string();
        let [etcd, peer, secure] = free_ports()?;

        let key = rcgen::KeyPair::generate()?;
        fs::write(file("sa.key"), key.serialize_pem())?;
        fs::write(file("sa.pub"), key.public_key_pem())?;
        fs::write(file("tokens.csv"), format!("{TOKEN},admin,admin,\"system:masters\"\n"))?;
        fs::write(self.kubeconfig(), kubeconfig(secure))?;

        let client = format!("http://127.0.0.1:{etcd}");
        self.spawn(
            binaries,
            "etcd",
            &[
                format!("--data-dir={}", file("etcd")),
                format!("--listen-client-urls={client}"),
                format!("--advertise-client-urls={client}"),
                format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
                "--unsafe-no-fsync".to_owned(),
            ],
        )?;

        let mut flags = vec![
            format!("--etcd-servers={client}"),
            format!("--cert-dir={}", file("certificates")),
            format!("--secure-port={secure}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", file("sa.pub")),
            format!("--service-account-signing-key-file={}", file("sa.key")),
            format!("--token-auth-file={}", file("tokens.csv")),
            "--authorization-mode=RBAC".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        ];
        if profile == Profile::Token {
            flags.push("--disable-admission-plugins=ServiceAccount".to_owned());
        }
        self.spawn(binaries, "kube-apiserver", &flags)?;
        self.wait_until_ready(binaries)?;

        if profile == Profile::Identity {
            let flags = [
                format!("--kubeconfig={}", self.kubeconfig().display()),
                "--leader-elect=false".to_owned(),
                "--controllers=*".to_owned(),
                format!("--service-account-private-key-file={}", file("sa.key")),
                "--bind-address=127.0.0.1".to_owned(),
                "--secure-port=0".to_owned(),
            ];
            self.spawn(binaries, "kube-controller-manager", &flags)?;
        }
        Ok(())
    }

    fn spawn(&mut self, binaries: &Path, program: &str, flags: &[String]) -> Result {
        let log = fs::File::create(self.directory.join(format!("{program}.log")))?;
        let child = Command::new(binaries.join(program))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|error| format!("starting {program}: {error}"))?;
        self.processes.push(child);
        Ok(())
    }

    fn wait_until_ready(&mut self, binaries: &Path) -> Result {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let answer = Command::new(binaries.join("kubectl"))
                .args(["--kubeconfig", &self.kubeconfig().display().to_string(), "get", "--raw", "/readyz"])
                .output()?;
            if answer.status.success() {
                return Ok(());
            }
            let ended = self.processes.iter_mut().any(|process| matches!(process.try_wait(), Ok(Some(_))));
            if ended || Instant::now() > deadline {
                let log = fs::read_to_string(self.directory.join("kube-apiserver.log")).unwrap_or_default();
                let last: Vec<_> = log.lines().rev().take(10).collect();
                return Err(format!(
                    "the real API server is not ready; its last lines, newest first:\n{}",
                    last.join("\n")
                )
                .into());
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            // It may have ended by itself, and there is nobody left to tell.
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Ports that are free at this moment.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    // All are held at once, so that no port is given twice.
    let listeners: Vec<_> = (0..N).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<std::result::Result<_, _>>()?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

fn kubeconfig(port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: upstream\n\
         clusters: [{{name: upstream, cluster: {{server: \"https://127.0.0.1:{port}\", insecure-skip-tls-verify: true}}}}]\n\
         users: [{{name: admin, user: {{token: {TOKEN}}}}}]\n\
         contexts: [{{name: upstream, context: {{cluster: upstream, user: admin}}}}]\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_differ() {
        let [a, b, c] = free_ports().unwrap();
        assert!(a != b && b != c && a != c);
    }
}
