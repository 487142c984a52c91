//! HTTP servers without TLS on this machine.

use std::{error::Error, future::Future, pin::pin, sync::Arc, time::Duration};

use http::{Request, Response};
use http_body::Body;
use hyper::{body::Incoming, service::Service};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet};
use windlass_net::{Acceptor, WriteTimeout};

type BoxError = Box<dyn Error + Send + Sync>;

/// The maximum number of connections; further ones wait to be accepted.
const CONNECTIONS: usize = 1_024;

/// The timeout for a client to send a request's headers, and for an idle connection.
const HEAD: Duration = Duration::from_secs(32);

/// The timeout for a client that does not read its response.
const STALL: Duration = Duration::from_mins(1);

/// The interval and timeout of HTTP/2 pings to idle clients.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);

/// Serves until `stop` is ready. Running requests are then cut off, because watches would never end.
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
    let limit = Arc::new(Semaphore::new(CONNECTIONS));
    let mut acceptor = Acceptor::new(&listener);
    loop {
        let accept = async {
            let permit = Arc::clone(&limit).acquire_owned().await.expect("the semaphore is never closed");
            (acceptor.next().await, permit)
        };
        let (socket, permit) = tokio::select! {
            () = &mut stop => return,
            Some(_) = tasks.join_next() => continue,
            accepted = accept => accepted,
        };
        let mut server = auto::Builder::new(TokioExecutor::new());
        server.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
        server.http2().timer(TokioTimer::new()).keep_alive_interval(PING).keep_alive_timeout(PONG);
        let socket = TokioIo::new(WriteTimeout::new(socket, STALL));
        let connection = connections.watch(server.serve_connection_with_upgrades(socket, service.clone()).into_owned());
        tasks.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error, "a connection ended");
            }
            drop(permit);
        });
    }
}

/// Raises the limit of open files to the hard limit, because each connection is one.
#[cfg(unix)]
pub(crate) fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, current = ?limit.current, "cannot raise the limit of open files");
    }
}

/// Other systems have no such limit.
#[cfg(not(unix))]
pub(crate) fn raise_file_limit() {}

#[cfg(all(test, unix))]
mod tests {
    use rustix::process::{Resource, getrlimit};

    use super::*;

    #[test]
    fn file_limit_is_raised_to_the_most_allowed() {
        raise_file_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
