//! Connections to ports in the network namespace of a process.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    os::fd::OwnedFd,
    sync::Arc,
};

use tokio::{
    net::{TcpSocket, TcpStream},
    sync::Mutex,
};

use super::channel::Channel;

/// Connects to ports in a network namespace. The supervisor creates the sockets, because a socket belongs to the
/// namespace of its creator.
#[derive(Clone, Debug)]
pub(crate) struct Connector(Arc<Mutex<Channel>>);

impl Connector {
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self(Arc::new(Mutex::new(Channel::new(socket)?))))
    }

    /// Connects to a port of the loopback interface.
    pub(crate) async fn connect(&self, port: u16) -> io::Result<TcpStream> {
        let socket = self.0.lock().await.request().await?;
        let socket = std::net::TcpStream::from(socket);
        socket.set_nonblocking(true)?;
        TcpSocket::from_std_stream(socket).connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await
    }
}
