//! Connections to real etcd processes, and their state.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::until;
use crate::{EtcdStorage, Options, testing::Etcd};

/// Returns the metrics of a member without TLS.
pub(super) async fn metrics(member: &Etcd) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", member.client_port())).await.ok()?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.ok()?;
    Some(text)
}

/// Reports whether a member is the leader, according to its metrics.
async fn is_leader(member: &Etcd) -> bool {
    metrics(member).await.is_some_and(|text| text.contains("\netcd_server_is_leader 1\n"))
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
            if is_leader(member).await {
                return Some(index);
            }
        }
        None
    })
    .await
}
