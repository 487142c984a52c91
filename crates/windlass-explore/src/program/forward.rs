//! Forwards a port of this machine to the same port in the network namespace of the newest process.
//!
//! The API server calls webhooks of the program there, and executables of steps can reach it.

use std::{io, net::Ipv4Addr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};

use crate::isolation::Connector;

/// The pause after a connection could not be accepted, such as without free file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// A forwarded port. Dropping it closes the port and its connections.
#[derive(Debug)]
pub(super) struct Forward {
    newest: Arc<Mutex<Option<Connector>>>,
    _accepting: JoinSet<()>,
}

impl Forward {
    pub(super) fn start(port: u16) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let newest = Arc::<Mutex<Option<Connector>>>::default();
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, port, Arc::clone(&newest)));
        Ok(Self { newest, _accepting: accepting })
    }

    /// Forwards later connections to another process.
    pub(super) fn forward_to(&self, process: Option<Connector>) {
        *self.newest.lock() = process;
    }
}

async fn accept(listener: TcpListener, port: u16, newest: Arc<Mutex<Option<Connector>>>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((connection, _)) => {
                    let process = newest.lock().clone();
                    connections.spawn(forward(connection, process, port));
                }
                Err(_) => sleep(PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Forwards a connection until one side ends. Closes it if the process does not listen.
async fn forward(mut outside: TcpStream, process: Option<Connector>, port: u16) {
    if let Some(process) = process
        && let Ok(mut inside) = process.connect(port).await
    {
        // An error means that one side has ended.
        let _ = copy_bidirectional(&mut outside, &mut inside).await;
    }
}
