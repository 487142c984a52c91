//! HTTP servers without TLS on this machine.

use std::{future::Future, time::Duration};

use tokio::net::TcpListener;
use windlass_serve::{Application, HttpServer};

/// Serves until `stop` is ready. Running requests are then cut off, because watches would never end.
pub(crate) async fn serve(listener: TcpListener, application: impl Application, stop: impl Future<Output = ()> + Send) {
    HttpServer::new().grace_period(Duration::ZERO).serve(listener, application, stop).await;
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
