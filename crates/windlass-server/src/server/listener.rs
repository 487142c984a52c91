//! Accepting connections, and ending them all.

use std::{future::Future, io, pin::pin, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
    time,
};

use super::{Server, connection::Connection};
use crate::{http::Stopping, tls::TlsIdentity};

/// Connections at a time; more wait to be accepted.
const CONNECTIONS: usize = 16_384;

/// After failing to accept (too many open files, say), wait so long before the next try.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long requests that are under way may take once the server is to stop.
const GRACE: Duration = Duration::from_millis(700);

/// Serves a listener until `shutdown` is ready.
pub(super) async fn serve(
    server: &Server,
    listener: TcpListener,
    tls: Option<&TlsIdentity>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    server.inner().set_address(listener.local_addr()?);
    let limit = Arc::new(Semaphore::new(CONNECTIONS));
    let (stop, stopping) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    let mut all = server.inner().stopping();
    loop {
        let accept = async {
            let permit = limit.clone().acquire_owned().await.expect("the semaphore is never closed");
            (accept(&listener).await, permit)
        };
        let (stream, permit) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = all.requested() => break,
            accepted = accept => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        let connection = Connection::new(server.inner().clone(), Stopping(stopping.clone()));
        let tls = tls.cloned();
        connections.spawn(async move {
            connection.serve(stream, tls).await;
            drop(permit);
        });
    }
    drop(listener);
    stop.send_replace(true);
    let finished = async { while connections.join_next().await.is_some() {} };
    if time::timeout(GRACE, finished).await.is_err() {
        tracing::debug!(connections = connections.len(), "closing connections with requests that are under way");
        connections.shutdown().await;
    }
    Ok(())
}

/// The next connection, however long that takes.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // The client hung up before we came to it.
            Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) => {
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "could not accept a connection");
                time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
