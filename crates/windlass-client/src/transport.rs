//! What carries a request to the server and its answer back: one clonable `tower` service, its type erased here and
//! nowhere else.
//!
//! Over the network it is, from the outside in: credentials ([`crate::auth`]), the server's address, the log of requests
//! as [`curl`] commands, the connection [`pools`], each with an [`http2`] connection and hyper-util's pool for HTTP/1.1, and
//! [`connector`] with the [`route`] and TLS below them. [`rotation`] follows the files that TLS is made of. (A layer that
//! retries belongs between the first two.)

mod address;
mod body;
mod connector;
mod curl;
mod http2;
mod pools;
mod resolver;
mod rotation;
mod route;
mod shared;
mod tls;
mod upgrade;

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper_util::{
    client::legacy,
    rt::{TokioExecutor, TokioTimer},
};
use tower::{Service, ServiceExt, util::BoxCloneSyncService};
use windlass_api::BoxError;

pub use body::Body;
pub(crate) use http2::NotBegun;
pub use shared::Closing;
pub(crate) use shared::Connections;
pub use upgrade::Upgraded;

use crate::{Config, ConfigError, auth::Authenticated};
use address::Addressed;
use connector::Connector;
use curl::Curl;
use pools::Pools;
use rotation::Rotation;
use route::Route;

/// What carries requests to a server and its answers back, of whatever layers it is made. The URIs of requests are paths.
pub type Transport = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// As Go's client: enough for the bursts of a few controllers.
const IDLE_CONNECTIONS: usize = 25;
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// A dead connection is found out by pings, since watches may be silent for long.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// Watches share one HTTP/2 connection: one that is read slowly must not use up the window of the others.
const CONNECTION_WINDOW: u32 = 1 << 30;
const STREAM_WINDOW: u32 = 4 << 20;

/// Carries requests to the server that a configuration names.
pub(crate) fn connect(config: &Config) -> Result<Transport, ConfigError> {
    let credentials = config.connections.credentials(config)?;
    let issuer = credentials.issuer_of_certificates();
    let pools = config.connections.pools(config, issuer, || {
        let route = Route::to(&config.server, &config.proxy, |name| std::env::var(name).ok())?;
        let connector = Connector::new(config, route)?;
        let rotation =
            connector.needs_tls().then(|| Rotation::new(&config.tls, issuer.cloned(), config.audience.clone()));
        let rotation = rotation.transpose()?;
        Ok(Pools::new(builder(), connector, rotation))
    })?;
    Ok(erase(Authenticated::new(Addressed::new(Curl(pools), config)?, credentials, config)?))
}

/// Of pools that speak HTTP/1.1.
fn builder() -> legacy::Builder {
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_CONNECTIONS);
    builder
}

/// The same request once more, where its body is in memory.
pub(crate) fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().copy()?);
    request.method().clone_into(copy.method_mut());
    request.uri().clone_into(copy.uri_mut());
    *copy.version_mut() = request.version();
    request.headers().clone_into(copy.headers_mut());
    request.extensions().clone_into(copy.extensions_mut());
    Some(copy)
}

/// Carries requests to any service.
pub(crate) fn erase<S, B>(service: S) -> Transport
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let service = service.map_err(Into::into).map_response(|response: Response<B>| response.map(Body::wrap));
    BoxCloneSyncService::new(service)
}

#[cfg(test)]
mod tests;
