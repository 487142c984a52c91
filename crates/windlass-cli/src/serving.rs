//! Serving HTTP without TLS to whoever is near.

use std::{error::Error, future::Future, pin::pin};

use http::{Request, Response};
use http_body::Body;
use hyper::{body::Incoming, service::Service};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::{conn::auto, graceful::GracefulShutdown},
};
use tokio::{net::TcpListener, task::JoinSet};

type BoxError = Box<dyn Error + Send + Sync>;

/// Serves until told to stop. Requests that are being answered are then cut off: watches would never end.
pub(crate) async fn serve<S, B>(listener: TcpListener, service: S, stop: impl Future<Output = ()>)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let mut stop = pin!(stop);
    let connections = GracefulShutdown::new();
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = &mut stop => return,
            Some(_) = tasks.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, _)) => {
                let server = auto::Builder::new(TokioExecutor::new());
                let connection = server.serve_connection_with_upgrades(TokioIo::new(socket), service.clone());
                let connection = connections.watch(connection.into_owned());
                tasks.spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!(error, "a connection ended");
                    }
                });
            }
            Err(error) => tracing::warn!(%error, "a connection was not accepted"),
        }
    }
}
