//! Accepting connections, and shutting them down.

use std::{future::Future, io, pin::pin, sync::Arc, time::Duration};

use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time,
};

use windlass_net::Acceptor;

use super::{Server, connection::Connection};
use crate::budget::Budget;
use crate::{state::Stopping, tls::TlsIdentity};

/// The interval between attempts to close idle connections while a client waits at the connection limit.
const RETRY: Duration = Duration::from_millis(50);

/// The time that requests in progress get after shutdown begins.
const GRACE: Duration = Duration::from_millis(700);

/// Serves a listener until `shutdown` is ready.
pub(super) async fn serve(
    server: &Server,
    listener: TcpListener,
    tls: Option<&TlsIdentity>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    server.inner().set_address(listener.local_addr()?);
    let budget = Arc::clone(server.inner().budget());
    let limit = Arc::new(Semaphore::new(budget.limits().connections));
    let mut acceptor = Acceptor::new(&listener);
    // A connection that waits for a free place.
    let mut accepted = None;
    let (stop, stopping) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    let mut all = server.inner().stopping();
    loop {
        let accept = async {
            if accepted.is_none() {
                accepted = Some(acceptor.next_or(|_| budget.close_idle()).await);
            }
            permit(&limit, &budget).await
        };
        let permit = tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = all.requested() => break,
            permit = accept => permit,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        let Some(stream) = accepted.take() else { continue };
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
        tracing::debug!(connections = connections.len(), "closing connections with requests in progress");
        connections.shutdown().await;
    }
    Ok(())
}

/// Waits for a free place for a connection, and closes idle connections to free one.
async fn permit(limit: &Arc<Semaphore>, budget: &Budget) -> OwnedSemaphorePermit {
    loop {
        let acquired = Arc::clone(limit).acquire_owned();
        match time::timeout(RETRY, acquired).await {
            Ok(permit) => return permit.expect("the semaphore is never closed"),
            Err(_elapsed) => budget.close_idle(),
        }
    }
}
