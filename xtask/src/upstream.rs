//! The real control plane, built from its Go modules and started on loopback. It is the reference for all comparisons.

use std::{
    env, fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use clap::ValueEnum;

use crate::Result;

mod access;
mod etcd;
mod kwok;
mod programs;

pub(crate) use programs::{
    Minor, OtherKubectl, build, build_e2e, build_minor, build_polaris, built_kubectl, cache, output_of,
};

/// The timeout for the start of the control plane.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// The bearer token of the administrator. The server listens on loopback only, and runs as long as its tests.
const TOKEN: &str = "upstream-admin";

/// The bearer token of an administrator whose requests are in the audit log, for conformance/tests/audit.rs.
const AUDITOR_TOKEN: &str = "upstream-auditor";

/// The control plane to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// etcd and kube-apiserver, one administrator with a token, no service accounts.
    Token,
    /// Also kube-controller-manager, with service accounts, tokens and all controllers.
    Identity,
}

/// A running control plane. It is stopped, and its data is removed, on drop.
#[derive(Debug)]
pub(crate) struct Upstream {
    /// The folder of etcd, kubectl and kube-controller-manager.
    binaries: PathBuf,
    /// The folder of kube-apiserver.
    server: PathBuf,
    profile: Profile,
    /// `true` if etcd syncs its writes to disk.
    is_synced: bool,
    ports: Ports,
    /// In start order; they are stopped in reverse.
    processes: Vec<Process>,
    directory: PathBuf,
}

/// The loopback ports of the control plane. They do not change during its lifetime.
#[derive(Clone, Copy, Debug)]
struct Ports {
    etcd: u16,
    peer: u16,
    secure: u16,
}

#[derive(Debug)]
struct Process {
    program: &'static str,
    child: Child,
}

const ETCD: &str = "etcd";
/// The name of the API server among the processes.
pub(crate) const SERVER: &str = "kube-apiserver";
const CONTROLLERS: &str = "kube-controller-manager";

/// Flags for many parallel scenarios: high request limits, and short intervals of the autoscaler.
const SIDE_BY_SIDE: &[&str] = &[
    "--kube-api-qps=1000",
    "--kube-api-burst=1000",
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-downscale-stabilization=5s",
];

/// The orders to a served control plane, one per line; `done` is the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    /// Kills the API server.
    Stop,
    /// Starts the API server again, and waits until it is ready.
    Start,
    /// Compacts all versions but the current one.
    Compact,
    /// Deletes all stored data. The API server should be stopped.
    Clear,
}

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or_else(|| Path::new("."))
}

/// Starts a control plane and runs it until standard input closes or the process is interrupted. Standard input
/// contains [`Order`]s.
pub(crate) fn serve(minor: Option<&Minor>, profile: Profile) -> Result {
    let mut upstream = Upstream::of(minor, profile)?;
    println!("ready\nKUBECONFIG={}", upstream.kubeconfig().display());
    println!("close standard input (Ctrl-D) to stop; it takes the orders stop, start, compact and clear");
    for line in std::io::stdin().lines() {
        upstream.obey(Order::from_str(line?.trim(), true)?)?;
        println!("done");
    }
    Ok(())
}

// === impl Upstream ===

impl Upstream {
    /// Builds missing programs, starts the control plane on free loopback ports and waits until it is ready.
    pub(crate) fn start(profile: Profile) -> Result<Self> {
        Self::of(None, profile)
    }

    /// Like [`Self::start`], with the kube-apiserver of a minor version. The other programs are those of the default
    /// version.
    pub(crate) fn of(minor: Option<&Minor>, profile: Profile) -> Result<Self> {
        let mut upstream = Self::prepare(profile)?;
        if let Some(minor) = minor {
            upstream.server = build_minor(minor)?;
        }
        upstream.launch()?;
        upstream.wait_until_ready()?;
        if profile == Profile::Identity {
            upstream.start_controllers(SIDE_BY_SIDE)?;
        }
        Ok(upstream)
    }

    /// Starts the servers of the profile with controllers. [`Self::control`] starts the controllers.
    pub(crate) fn without_controllers() -> Result<Self> {
        let mut upstream = Self::prepare(Profile::Identity)?;
        upstream.launch()?;
        upstream.wait_until_ready()?;
        Ok(upstream)
    }

    /// Starts kube-controller-manager for another server. The kubeconfig that it gets has no CA certificate, as that of the
    /// real server: the controller would publish it in each namespace.
    pub(crate) fn control(&mut self, kubeconfig: &Path) -> Result {
        let changed = self.directory.join("controllers.kubeconfig");
        fs::write(&changed, without_authority(&fs::read_to_string(kubeconfig)?))?;
        self.start_controllers_of(&changed, SIDE_BY_SIDE)
    }

    /// Starts the profile with controllers, with these flags in addition to the defaults.
    pub(crate) fn with_controllers(flags: &[&str]) -> Result<Self> {
        let mut upstream = Self::without_controllers()?;
        upstream.start_controllers(flags)?;
        Ok(upstream)
    }

    /// Builds missing programs, reserves free loopback ports, and writes the configuration files.
    pub(crate) fn prepare(profile: Profile) -> Result<Self> {
        let binaries = build()?;
        let directory = env::temp_dir().join(format!("windlass-upstream-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let [etcd, peer, secure, issuer] = free_ports()?;
        let ports = Ports { etcd, peer, secure };
        let server = binaries.clone();
        let upstream = Self { binaries, server, profile, is_synced: false, ports, processes: Vec::new(), directory };
        let key = rcgen::KeyPair::generate()?;
        fs::write(upstream.file("sa.key"), key.serialize_pem())?;
        fs::write(upstream.file("sa.pub"), key.public_key_pem())?;
        let token = |token: &str, name: &str| format!("{token},{name},{name},\"system:masters\"\n");
        fs::write(upstream.file("tokens.csv"), token(TOKEN, "admin") + &token(AUDITOR_TOKEN, "auditor"))?;
        fs::write(upstream.kubeconfig(), kubeconfig(ports.secure))?;
        access::prepare(&upstream.directory, issuer)?;
        Ok(upstream)
    }

    /// Lets etcd sync each write to disk. By default it does not, because tests don't need it.
    pub(crate) fn sync_writes(&mut self) {
        self.is_synced = true;
    }

    /// Starts etcd and the API server without waiting for them.
    pub(crate) fn launch(&mut self) -> Result {
        self.start_etcd()?;
        self.start_server()
    }

    /// Returns the process IDs.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.processes.iter().map(|process| process.child.id()).collect()
    }

    /// Returns the process IDs with their names.
    pub(crate) fn named_processes(&self) -> Vec<(&'static str, u32)> {
        self.processes.iter().map(|process| (process.program, process.child.id())).collect()
    }

    /// Returns the path of the administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Returns the address of etcd.
    pub(crate) fn etcd(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.etcd)
    }

    /// Returns the path of the key that signs the tokens of service accounts.
    pub(crate) fn signing_key(&self) -> PathBuf {
        self.file("sa.key").into()
    }

    /// Returns the path of the kubectl of the same version.
    pub(crate) fn kubectl(&self) -> PathBuf {
        self.binaries.join("kubectl")
    }

    fn start_controllers(&mut self, flags: &[&str]) -> Result {
        self.start_controllers_of(&self.kubeconfig(), flags)
    }

    fn start_controllers_of(&mut self, kubeconfig: &Path, flags: &[&str]) -> Result {
        let mut flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        flags.extend([
            format!("--kubeconfig={}", kubeconfig.display()),
            "--leader-elect=false".to_owned(),
            "--controllers=*".to_owned(),
            format!("--service-account-private-key-file={}", self.signing_key().display()),
            "--bind-address=127.0.0.1".to_owned(),
            "--secure-port=0".to_owned(),
        ]);
        self.spawn(CONTROLLERS, &flags)?;
        // One of the first objects that it creates.
        self.wait_for(kubeconfig, &["get", "serviceaccount", "default", "--namespace", "default"], CONTROLLERS)
    }

    fn start_etcd(&mut self) -> Result {
        let (client, peer) = (self.etcd(), self.ports.peer);
        let mut flags = vec![
            format!("--data-dir={}", self.file(ETCD)),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
            // The default of 2 GiB is too small for benchmarks; 8 GiB is the recommended maximum.
            "--quota-backend-bytes=8589934592".to_owned(),
        ];
        if !self.is_synced {
            flags.push("--unsafe-no-fsync".to_owned());
        }
        self.spawn(ETCD, &flags)
    }

    fn start_server(&mut self) -> Result {
        let secure = self.ports.secure;
        let mut flags = vec![
            format!("--etcd-servers={}", self.etcd()),
            format!("--cert-dir={}", self.file("certificates")),
            format!("--secure-port={secure}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", self.file("sa.pub")),
            format!("--service-account-signing-key-file={}", self.signing_key().display()),
            format!("--token-auth-file={}", self.file("tokens.csv")),
            // The default of test environments.
            "--allow-privileged=true".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            // The policy selects the requests of the tests of the audit log only.
            format!("--audit-policy-file={}", root().join("conformance/audit/policy.json").display()),
            format!("--audit-log-path={}", self.file("audit.log")),
        ];
        flags.extend(access::flags(&self.directory));
        if self.profile == Profile::Token {
            flags.push("--disable-admission-plugins=ServiceAccount".to_owned());
        }
        self.spawn(SERVER, &flags)
    }

    fn obey(&mut self, order: Order) -> Result {
        match order {
            Order::Stop => {
                self.stop(SERVER);
                Ok(())
            }
            Order::Start => {
                self.start_server()?;
                self.wait_until_ready()
            }
            Order::Compact => etcd::compact(self.ports.etcd),
            Order::Clear => {
                self.stop(ETCD);
                fs::remove_dir_all(self.file(ETCD))?;
                self.start_etcd()
            }
        }
    }

    fn stop(&mut self, program: &str) {
        self.processes.retain_mut(|process| {
            let stays = process.program != program;
            if !stays {
                process.end();
            }
            stays
        });
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    fn spawn(&mut self, program: &'static str, flags: &[String]) -> Result {
        let folder = if program == SERVER { &self.server } else { &self.binaries };
        self.spawn_file(program, &folder.join(program), flags)
    }

    fn spawn_file(&mut self, program: &'static str, file: &Path, flags: &[String]) -> Result {
        let log = fs::File::create(self.directory.join(format!("{program}.log")))?;
        let child = Command::new(file)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|error| format!("starting {program}: {error}"))?;
        self.processes.push(Process { program, child });
        Ok(())
    }

    fn wait_until_ready(&mut self) -> Result {
        self.wait_for(&self.kubeconfig(), &["get", "--raw", "/readyz"], SERVER)
    }

    /// Waits until kubectl succeeds with these arguments. The error has the last lines of a program's log: of this program,
    /// or of another one if that has ended.
    fn wait_for(&mut self, kubeconfig: &Path, arguments: &[&str], program: &str) -> Result {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let mut kubectl = Command::new(self.kubectl());
            let answer = kubectl.arg("--kubeconfig").arg(kubeconfig).args(arguments).output()?;
            if answer.status.success() {
                return Ok(());
            }
            if let Some((ended, status)) = self.processes.iter_mut().find_map(Process::ended) {
                let last = self.last_lines(ended);
                return Err(format!("{ended} ended ({status}) while {program} started; {last}").into());
            }
            if Instant::now() > deadline {
                return Err(format!("{program} is not ready; {}", self.last_lines(program)).into());
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn last_lines(&self, program: &str) -> String {
        let log = fs::read_to_string(self.file(&format!("{program}.log"))).unwrap_or_default();
        let last: Vec<_> = log.lines().rev().take(10).collect();
        format!("its last lines, newest first:\n{}", last.join("\n"))
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.processes.iter_mut().rev().for_each(Process::end);
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Process {
    /// Returns the name and the status of a process that has ended.
    fn ended(&mut self) -> Option<(&'static str, ExitStatus)> {
        let status = self.child.try_wait().ok().flatten()?;
        Some((self.program, status))
    }

    fn end(&mut self) {
        // The process may have exited already, so the error is ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns ports that are currently free.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    // All listeners exist at the same time, so no port is returned twice.
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

/// Returns a kubeconfig without CA certificates, whose clients accept any certificate.
fn without_authority(kubeconfig: &str) -> String {
    let mut changed = String::new();
    let mut lines = kubeconfig.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((indent, _)) = line.split_once("certificate-authority-data:") else {
            changed.extend([line, "\n"]);
            continue;
        };
        changed.extend([indent, "insecure-skip-tls-verify: true\n"]);
        // The value can be on the next lines.
        let is_value = |line: &&str| line.starts_with(indent) && line[indent.len()..].starts_with(' ');
        while lines.next_if(is_value).is_some() {}
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authority_is_removed_from_a_kubeconfig() {
        let text =
            "clusters:\n- cluster:\n    certificate-authority-data: >-\n      LS0t\n    server: https://a\n  name: w\n";
        let changed = "clusters:\n- cluster:\n    insecure-skip-tls-verify: true\n    server: https://a\n  name: w\n";
        assert_eq!(without_authority(text), changed);
    }

    #[test]
    fn free_ports_differ() {
        let [a, b, c] = free_ports().unwrap();
        assert!(a != b && b != c && a != c);
    }
}
