//! A proxy to a server, whose connections can be cut.

use std::net::SocketAddr;

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpSocket, TcpStream},
    sync::{mpsc, oneshot},
    task::{AbortHandle, JoinSet},
};
use windlass_client::{Client, Config};

/// A proxy that copies bytes between clients and a server. It ends on drop.
#[derive(Debug)]
pub(crate) struct Wire {
    address: SocketAddr,
    orders: mpsc::UnboundedSender<Order>,
    carrying: AbortHandle,
    /// Reserves the port while the proxy does not listen.
    _port: TcpSocket,
}

/// The state of the proxy. The sender of an order is notified when it is executed.
#[derive(Debug)]
struct Order {
    line: Line,
    obeyed: oneshot::Sender<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// Existing connections are cut, new ones are accepted.
    Up,
    /// Existing connections continue, new ones wait.
    Held,
    /// Existing connections are cut, new ones are rejected.
    Down,
}

impl Wire {
    /// Starts a proxy to the server of a configuration.
    pub(crate) async fn to(config: &Config) -> Self {
        let server = config.server.authority().expect("a server has an address").to_string();
        let port = socket(SocketAddr::from(([127, 0, 0, 1], 0)));
        let address = port.local_addr().expect("a bound socket has an address");
        let (orders, received) = mpsc::unbounded_channel();
        let carrying = tokio::spawn(carry(address, server, received)).abort_handle();
        let wire = Self { address, orders, carrying, _port: port };
        wire.order(Line::Up).await;
        wire
    }

    /// Returns the proxy's address.
    pub(crate) fn uri(&self) -> http::Uri {
        format!("https://{}", self.address).parse().expect("an address makes a URI")
    }

    /// Returns a client that uses only this proxy.
    pub(crate) fn client(&self, config: &Config) -> Client {
        let mut config = config.clone();
        config.server = self.uri();
        Client::new(config).expect("the configuration of a target is sound").without_rate_limit()
    }

    /// Cuts all connections. New ones are accepted.
    pub(crate) async fn cut(&self) {
        self.order(Line::Up).await;
    }

    /// Lets new connections wait. Existing ones continue.
    pub(crate) async fn hold(&self) {
        self.order(Line::Held).await;
    }

    /// Cuts all connections, and rejects new ones.
    pub(crate) async fn go_down(&self) {
        self.order(Line::Down).await;
    }

    /// Accepts connections again.
    pub(crate) async fn come_up(&self) {
        self.order(Line::Up).await;
    }

    async fn order(&self, line: Line) {
        let (obeyed, is_obeyed) = oneshot::channel();
        self.orders.send(Order { line, obeyed }).expect("the wire carries until it is dropped");
        is_obeyed.await.expect("the wire carries until it is dropped");
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.carrying.abort();
    }
}

/// Returns a socket that shares its address with others of this kind, as long as only one listens.
fn socket(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("there is one socket more");
    socket.set_reuseaddr(true).expect("a fresh socket takes options");
    socket.bind(address).expect("loopback has a free port");
    socket
}

async fn carry(address: SocketAddr, server: String, mut orders: mpsc::UnboundedReceiver<Order>) {
    let mut listener: Option<TcpListener> = None;
    let mut now = Line::Down;
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            order = orders.recv() => {
                let Some(Order { line, obeyed }) = order else { return };
                now = line;
                // The state changes first, so a cut client cannot reconnect for a moment.
                match line {
                    Line::Up | Line::Held if listener.is_some() => {}
                    Line::Up | Line::Held => {
                        listener = Some(socket(address).listen(64).expect("the port is the wire's own"));
                    }
                    Line::Down => listener = None,
                }
                if line != Line::Held {
                    connections.shutdown().await;
                }
                // The sender of the order may be gone.
                let _ = obeyed.send(());
            }
            inbound = accept(listener.as_ref()), if now == Line::Up => {
                let server = server.clone();
                connections.spawn(async move {
                    let Ok(mut outbound) = TcpStream::connect(server).await else { return };
                    let mut inbound = inbound;
                    // Both sides are notified when the sockets are dropped.
                    let _ = copy_bidirectional(&mut inbound, &mut outbound).await;
                });
            }
        }
    }
}

/// Accepts the next connection. Waits forever without a listener, or if it fails.
async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    if let Some(listener) = listener
        && let Ok((connection, _)) = listener.accept().await
    {
        return connection;
    }
    std::future::pending().await
}
