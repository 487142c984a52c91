//! Serving a listener.

use std::{future::Future, io, sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::watch};
use windlass_serve::{HttpServer, Protocols};

use super::{Server, connection::Sockets};
use crate::{state::Stopping, tls::TlsIdentity};

/// The time that requests in progress get after shutdown begins.
const GRACE: Duration = Duration::from_millis(700);

/// Serves a listener until `shutdown` is ready or the server is stopped.
pub(super) async fn serve(
    server: &Server,
    listener: TcpListener,
    tls: Option<TlsIdentity>,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let state = server.inner();
    state.set_address(listener.local_addr()?);
    let limits = state.budget().limits();
    let http = HttpServer::new()
        .connections(limits.connections)
        .streams(limits.streams)
        .head_timeout(limits.head)
        .write_timeout(limits.stall)
        .grace_period(GRACE);
    let http = match &tls {
        Some(identity) => http.tls(identity.config()),
        None => http.protocols(Protocols::Http1),
    };
    let (stop, stopping) = watch::channel(false);
    let mut all = state.stopping();
    let shutdown = async {
        tokio::select! {
            () = shutdown => {}
            () = all.requested() => {}
        }
        // Ends the watches of this listener.
        stop.send_replace(true);
    };
    let mut leaving = stopping.clone();
    let leave = async {
        // An error means that the sender was dropped.
        drop(leaving.wait_for(|stopping| *stopping).await);
        state.leave().await;
    };
    let sockets = Sockets { server: Arc::clone(state), tls, stopping: Stopping(stopping) };
    tokio::join!(http.serve(listener, sockets, shutdown), leave);
    server.flush_audit().await;
    Ok(())
}
