//! Accepting connections up to the limit, and shutting down.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time,
};

use crate::{
    acceptor::{Acceptor, Listener},
    activity::OpenConnections,
    application::Application,
    connection::{Context, Stopping},
    erased::AnyApplication,
    http_server::HttpServer,
    socket::Socket,
};

/// The interval between attempts to close idle connections while a client waits at the connection limit.
const RETRY: Duration = Duration::from_millis(50);

impl HttpServer {
    /// Serves the connections of a listener until `shutdown` is ready. Then it closes the listener and idle
    /// connections, and finishes requests in progress within the grace period.
    ///
    /// Returns the number of connections that were closed with requests in progress.
    pub async fn serve(
        self,
        listener: TcpListener,
        application: impl Application,
        shutdown: impl Future<Output = ()> + Send,
    ) -> usize {
        self.serve_connections(listener, &application, pin!(shutdown)).await
    }

    /// Like [`Self::serve`], without generic parameters: everything below is compiled in this crate.
    fn serve_connections<'a>(
        self,
        listener: TcpListener,
        application: &'a dyn AnyApplication,
        shutdown: Pin<&'a mut (dyn Future<Output = ()> + Send)>,
    ) -> Pin<Box<dyn Future<Output = usize> + Send + 'a>> {
        Box::pin(self.serve_on(listener, application, shutdown))
    }

    /// Like [`Self::serve_connections`], for any source of connections.
    pub(crate) async fn serve_on(
        self,
        listener: impl Listener,
        application: &dyn AnyApplication,
        mut shutdown: Pin<&mut (dyn Future<Output = ()> + Send)>,
    ) -> usize {
        let tls = self.tls.as_ref().map(|config| {
            let mut config = (**config).clone();
            config.alpn_protocols = self.protocols.alpn();
            Arc::new(config)
        });
        let server = Arc::new(self);
        let open = OpenConnections::new();
        let limit = Arc::new(Semaphore::new(server.connections));
        let mut acceptor = Acceptor::new(listener);
        // A connection that waits for a free place.
        let mut accepted = None;
        let (stop, stopping) = watch::channel(());
        let mut connections = JoinSet::new();
        loop {
            let accept = async {
                if accepted.is_none() {
                    accepted = Some(acceptor.next_or(|| open.close_idle()).await);
                }
                permit(&limit, &open).await
            };
            let permit = tokio::select! {
                biased;
                () = &mut shutdown => break,
                permit = accept => permit,
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            };
            let Some((stream, peer)) = accepted.take() else { continue };
            let activity = open.open();
            let socket = Socket::new(stream, Arc::clone(&activity), server.write, permit);
            let stopping = Stopping(stopping.clone());
            let context = Context { server: Arc::clone(&server), tls: tls.clone(), activity, stopping };
            connections.spawn(context.serve(socket, application.connect(peer)));
        }
        drop((acceptor, accepted));
        drop(stop);
        let finished = async { while connections.join_next().await.is_some() {} };
        if time::timeout(server.grace, finished).await.is_ok() {
            return 0;
        }
        let cut_off = connections.len();
        tracing::debug!(connections = cut_off, "closing connections with requests in progress");
        connections.shutdown().await;
        cut_off
    }
}

/// Waits for a free place for a connection, and closes idle connections to free one.
async fn permit(limit: &Arc<Semaphore>, open: &OpenConnections) -> OwnedSemaphorePermit {
    loop {
        let acquired = Arc::clone(limit).acquire_owned();
        match time::timeout(RETRY, acquired).await {
            Ok(permit) => return permit.expect("the semaphore is never closed"),
            Err(_elapsed) => open.close_idle(),
        }
    }
}
