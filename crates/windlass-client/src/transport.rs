//! The transport: one cloneable `tower` service that carries requests to the server. Only this module erases its type.
//!
//! For a network server, its layers are, from the outside in: credentials ([`crate::auth`]), the server's address, the
//! log of requests as [`curl`] commands, the connection [`pools`], and the [`connector`] with the [`route`] and TLS.
//! Each pool has an [`http2`] connection and hyper-util's pool for HTTP/1.1. [`rotation`] follows changes of the TLS
//! files. A layer for retries would be placed between the first two.

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

/// A service that carries requests to a server, with any layers. The URIs of requests are paths.
pub type Transport = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// The maximum number of idle connections, as in client-go: enough for the bursts of a few controllers.
const IDLE_CONNECTIONS: usize = 25;
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// The interval of pings, which detect dead connections, because watches may be silent for long.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// The flow-control window of an HTTP/2 connection. It is large, because a slow reader of one watch must not block the
/// others on the connection.
const CONNECTION_WINDOW: u32 = 1 << 30;
const STREAM_WINDOW: u32 = 4 << 20;

/// Creates the transport to the server of a configuration.
pub(crate) fn connect(config: &Config) -> Result<Transport, ConfigError> {
    let credentials = config.connections.credentials(config)?;
    let issuer = credentials.issuer_of_certificates();
    let pools = config.connections.pools(config, issuer, || {
        let route = Route::to(&config.server, &config.proxy, |name| std::env::var(name).ok())?;
        let connector = Connector::new(config, route)?;
        let rotation =
            connector.needs_tls().then(|| Rotation::new(&config.tls, issuer.cloned(), config.recorder.clone()));
        let rotation = rotation.transpose()?;
        Ok(Pools::new(builder(), connector, rotation))
    })?;
    Ok(erase(Authenticated::new(Addressed::new(Curl(pools), config)?, credentials, config)?))
}

/// Returns a builder of HTTP/1.1 pools.
fn builder() -> legacy::Builder {
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_CONNECTIONS);
    builder
}

/// Copies a request, if its body is in memory.
pub(crate) fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().copy()?);
    request.method().clone_into(copy.method_mut());
    request.uri().clone_into(copy.uri_mut());
    *copy.version_mut() = request.version();
    request.headers().clone_into(copy.headers_mut());
    request.extensions().clone_into(copy.extensions_mut());
    Some(copy)
}

/// Creates a transport from any service.
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
