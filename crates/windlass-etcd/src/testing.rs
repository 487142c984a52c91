//! Real etcd processes for tests, on loopback and in temporary folders. Needs the feature `testing`.

use std::{
    env,
    fs::File,
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::Endpoint;

/// The environment variable with the etcd program.
pub const PROGRAM: &str = "WINDLASS_ETCD";

/// A member, stopped on drop. It does not sync its files, so its data survives a kill of the process, but no crash of the
/// machine.
///
/// # Panics
/// All functions panic if the process cannot be controlled.
#[derive(Debug)]
pub struct Etcd {
    process: Child,
    arguments: Vec<String>,
    client: u16,
    is_tls: bool,
    directory: TempDir,
}

fn program() -> PathBuf {
    env::var_os(PROGRAM).expect("WINDLASS_ETCD is the etcd program; run `cargo xtask long etcd`").into()
}

fn free_ports<const N: usize>() -> [u16; N] {
    // All are bound at the same time, so they differ.
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").expect("loopback has a free port"));
    listeners.map(|listener| listener.local_addr().expect("a bound listener has an address").port())
}

impl Etcd {
    /// Starts a cluster with one member.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a cluster with one member and further flags.
    #[must_use]
    pub fn start_with(flags: &[String]) -> Self {
        let [client, peer] = free_ports();
        let is_tls = flags.iter().any(|flag| flag.starts_with("--cert-file"));
        Self::member("one", client, peer, &format!("one=http://127.0.0.1:{peer}"), is_tls, flags)
    }

    /// Starts a cluster with three members.
    #[must_use]
    pub fn cluster() -> [Self; 3] {
        let ports: [u16; 6] = free_ports();
        let name = |number: usize| format!("m{number}");
        let urls: Vec<_> = (0..3).map(|n| format!("{}=http://127.0.0.1:{}", name(n), ports[n])).collect();
        let urls = urls.join(",");
        std::array::from_fn(|n| Self::member(&name(n), ports[n + 3], ports[n], &urls, false, &[]))
    }

    fn member(name: &str, client: u16, peer: u16, cluster: &str, is_tls: bool, flags: &[String]) -> Self {
        let directory = tempfile::tempdir().expect("a directory can be created");
        let scheme = if is_tls { "https" } else { "http" };
        let (client_url, peer_url) = (format!("{scheme}://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let mut arguments = vec![
            format!("--name={name}"),
            format!("--data-dir={}", directory.path().join("data").display()),
            format!("--listen-client-urls={client_url}"),
            format!("--advertise-client-urls={client_url}"),
            format!("--listen-peer-urls={peer_url}"),
            format!("--initial-advertise-peer-urls={peer_url}"),
            format!("--initial-cluster={cluster}"),
            "--unsafe-no-fsync".into(),
            "--log-level=error".into(),
        ];
        arguments.extend_from_slice(flags);
        let process = run(&arguments, &directory);
        Self { process, arguments, client, is_tls, directory }
    }

    /// Returns the endpoint for clients.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.client).parse().expect("the URL is an endpoint")
    }

    /// Kills the member.
    pub fn kill(&mut self) {
        self.process.kill().expect("etcd can be killed");
        self.process.wait().expect("etcd ends");
    }

    /// Starts a killed member again.
    pub fn restart(&mut self) {
        self.process = run(&self.arguments, &self.directory);
    }

    /// Stops the member from running. Its connections stay open.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues a paused member.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Returns the port for clients.
    #[must_use]
    pub fn client_port(&self) -> u16 {
        self.client
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).expect("a process has an id");
        kill_process(pid, signal).expect("etcd can be signalled");
    }

    /// Restarts a killed member at another port.
    pub fn restart_elsewhere(&mut self) {
        let [client] = free_ports();
        self.restart_at(client);
    }

    /// Restarts a killed member at a port.
    pub fn restart_at(&mut self, client: u16) {
        for argument in &mut self.arguments {
            *argument = argument.replace(
                &format!("client-urls=http://127.0.0.1:{}", self.client),
                &format!("client-urls=http://127.0.0.1:{client}"),
            );
        }
        self.client = client;
        self.restart();
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // Fails if the process has ended. A paused one is killed, too.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn run(arguments: &[String], directory: &TempDir) -> Child {
    let log = File::options().create(true).append(true).open(directory.path().join("log"));
    let mut command = Command::new(program());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("the log can be written"));
    command.spawn().expect("etcd can be started")
}
