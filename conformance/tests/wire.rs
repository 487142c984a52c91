//! A way to a server that can be cut.

use std::net::SocketAddr;

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{AbortHandle, JoinSet},
};
use windlass_client::{Client, Config};

/// Carries bytes between clients and a server, as long as it is asked to. Ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Wire {
    address: SocketAddr,
    line: watch::Sender<Line>,
    carrying: AbortHandle,
}

/// Whether new connections are taken; any change cuts the old ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Up,
    Down,
}

impl Wire {
    /// A wire to the server of a configuration.
    pub(crate) async fn to(config: &Config) -> Self {
        let server = config.server.authority().expect("a server has an address").to_string();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (line, state) = watch::channel(Line::Up);
        let carrying = tokio::spawn(carry(listener, server, state)).abort_handle();
        Self { address, line, carrying }
    }

    /// Where the server seems to be.
    pub(crate) fn uri(&self) -> http::Uri {
        format!("https://{}", self.address).parse().expect("an address makes a URI")
    }

    /// A client that reaches the server over this wire alone.
    pub(crate) fn client(&self, config: &Config) -> Client {
        let mut config = config.clone();
        config.server = self.uri();
        Client::new(config).expect("the configuration of a target is sound").without_rate_limit()
    }

    /// Breaks every connection. New ones are taken.
    pub(crate) fn cut(&self) {
        self.line.send_modify(|line| *line = Line::Up);
    }

    /// Breaks every connection and refuses new ones.
    pub(crate) fn go_down(&self) {
        self.line.send_replace(Line::Down);
    }

    /// Takes connections again.
    pub(crate) fn come_up(&self) {
        self.line.send_replace(Line::Up);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.carrying.abort();
    }
}

async fn carry(listener: TcpListener, server: String, line: watch::Receiver<Line>) {
    let mut connections = JoinSet::new();
    // A listener that fails has no more connections to give.
    while let Ok((mut inbound, _)) = listener.accept().await {
        let (server, mut line) = (server.clone(), line.clone());
        if *line.borrow_and_update() == Line::Down {
            continue;
        }
        connections.spawn(async move {
            let Ok(mut outbound) = TcpStream::connect(server).await else { return };
            tokio::select! {
                // However it ends: both sides learn of it when the sockets are dropped.
                _ = copy_bidirectional(&mut inbound, &mut outbound) => {}
                _ = line.changed() => {}
            }
        });
    }
}
