//! Real etcd processes, on loopback and in temporary folders.

use std::{
    fs::File,
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::until;
use crate::{Endpoint, EtcdStorage, Options};

/// A member, stopped on drop.
#[derive(Debug)]
pub(super) struct Etcd {
    process: Child,
    arguments: Vec<String>,
    pub(super) client: u16,
    is_tls: bool,
    directory: TempDir,
}

fn program() -> PathBuf {
    std::env::var_os("WINDLASS_ETCD").expect("WINDLASS_ETCD is the etcd program; run `cargo xtask long etcd`").into()
}

fn free_ports<const N: usize>() -> [u16; N] {
    // All are bound at the same time, so they differ.
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

impl Etcd {
    /// Starts a cluster with one member.
    pub(super) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a cluster with one member and further flags.
    pub(super) fn start_with(flags: &[String]) -> Self {
        let [client, peer] = free_ports();
        let is_tls = flags.iter().any(|flag| flag.starts_with("--cert-file"));
        Self::member("one", client, peer, &format!("one=http://127.0.0.1:{peer}"), is_tls, flags)
    }

    /// Starts a cluster with three members.
    pub(super) fn cluster() -> [Self; 3] {
        let ports: [u16; 6] = free_ports();
        let name = |number: usize| format!("m{number}");
        let urls: Vec<_> = (0..3).map(|n| format!("{}=http://127.0.0.1:{}", name(n), ports[n])).collect();
        let urls = urls.join(",");
        std::array::from_fn(|n| Self::member(&name(n), ports[n + 3], ports[n], &urls, false, &[]))
    }

    fn member(name: &str, client: u16, peer: u16, cluster: &str, is_tls: bool, flags: &[String]) -> Self {
        let directory = tempfile::tempdir().unwrap();
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

    pub(super) fn endpoint(&self) -> Endpoint {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.client).parse().unwrap()
    }

    /// Ends the member without giving it a chance to say so.
    pub(super) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts a killed member again.
    pub(super) fn restart(&mut self) {
        self.process = run(&self.arguments, &self.directory);
    }

    /// Stops the member from running. Its connections stay open.
    pub(super) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues a paused member.
    pub(super) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.process.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Restarts a killed member at another port.
    pub(super) fn restart_elsewhere(&mut self) {
        let [client] = free_ports();
        self.restart_at(client);
    }

    /// Restarts a killed member at a port.
    pub(super) fn restart_at(&mut self, client: u16) {
        for argument in &mut self.arguments {
            *argument = argument.replace(
                &format!("client-urls=http://127.0.0.1:{}", self.client),
                &format!("client-urls=http://127.0.0.1:{client}"),
            );
        }
        self.client = client;
        self.restart();
    }

    /// Returns the metrics of a member without TLS.
    pub(super) async fn metrics(&self) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.client)).await.ok()?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.ok()?;
        Some(text)
    }

    /// Reports whether the member is the leader, according to its metrics.
    pub(super) async fn is_leader(&self) -> bool {
        self.metrics().await.is_some_and(|text| text.contains("\netcd_server_is_leader 1\n"))
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
    let log = File::options().create(true).append(true).open(directory.path().join("log")).unwrap();
    let mut command = Command::new(program());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().expect("etcd starts")
}

/// Connects as soon as etcd is ready.
pub(super) async fn connect(options: Options) -> EtcdStorage {
    until(async || EtcdStorage::connect(options.clone()).await.ok()).await
}

/// Connects to these members, in this order.
pub(super) async fn connect_to(members: &[&Etcd]) -> EtcdStorage {
    connect(Options::new(members.iter().map(|member| member.endpoint()))).await
}

/// Returns the index of the leader.
pub(super) async fn leader(members: &[Etcd]) -> usize {
    until(async || {
        for (index, member) in members.iter().enumerate() {
            if member.is_leader().await {
                return Some(index);
            }
        }
        None
    })
    .await
}
