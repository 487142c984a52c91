//! A real etcd for an embedded server.

use std::{
    env,
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;
use windlass_etcd::{Endpoint, EtcdStorage, Options};

/// The variable with the program.
const PROGRAM: &str = "WINDLASS_ETCD";

/// The time for the start.
const PATIENCE: Duration = Duration::from_mins(1);

/// A cluster with one member, on loopback and in a temporary directory. It ends on drop.
#[derive(Debug)]
pub(crate) struct Etcd {
    process: Child,
    endpoint: Endpoint,
    _directory: TempDir,
}

impl Etcd {
    pub(crate) fn start() -> Self {
        let program = env::var_os(PROGRAM).expect("WINDLASS_ETCD is the etcd program");
        let directory = tempfile::tempdir().expect("a directory can be created");
        let [client, peer] = free_ports().map(|port| format!("http://127.0.0.1:{port}"));
        let process = Command::new(program)
            .arg("--data-dir")
            .arg(directory.path().join("data"))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .args(["--unsafe-no-fsync", "--log-level=fatal"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd can be started");
        let endpoint = client.parse().expect("the URL is an endpoint");
        Self { process, endpoint, _directory: directory }
    }

    /// Connects as soon as etcd accepts connections.
    pub(crate) async fn connect(&self) -> EtcdStorage {
        let connected = tokio::time::timeout(PATIENCE, async {
            loop {
                if let Ok(storage) = EtcdStorage::connect(Options::new([self.endpoint.clone()])).await {
                    return storage;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        connected.await.expect("etcd accepts connections")
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns free ports.
fn free_ports() -> [u16; 2] {
    // Both are bound at the same time, so they differ.
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("loopback has a free port"));
    listeners.map(|listener| listener.local_addr().expect("a bound listener has an address").port())
}
