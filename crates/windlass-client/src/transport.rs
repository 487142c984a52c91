//! The transport: one cloneable `tower` service that carries requests to the server. Only this module erases its type.
//!
//! For a network server, its layers are, from the outside in: the server's address, the log of requests as [`curl`]
//! commands, the connection [`pools`], and the [`connector`] with the [`route`] and TLS. Each pool has an [`http2`]
//! connection (feature `http2`) and hyper-util's pool for HTTP/1.1. [`rotation`] follows changes of the TLS files.
//! [`Config::connect`](crate::Config::connect) adds the [credentials](crate::credentials) as the outermost layer.

mod address;
mod connections;
mod connector;
mod curl;
mod driver;
#[cfg(feature = "http2")]
mod http2;
#[cfg(not(feature = "http2"))]
mod no_http2;
mod pools;
mod resolver;
mod rotation;
mod route;
mod tls;
mod upgrade;

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper_util::{client::legacy, rt::TokioTimer};
use tower::{Service, ServiceExt, util::BoxCloneSyncService};
use windlass_api::BoxError;

pub use connections::Closing;
pub(crate) use connections::{CONNECT_TIMEOUT, ConnectionKey, Connections};
#[cfg(feature = "http2")]
pub(crate) use http2::NotBegun;
pub use upgrade::Upgraded;

use crate::{body::Body, config_error::ConfigError, metrics::MetricsRecorder};
use address::Addressed;
use connector::Connector;
use curl::Curl;
use driver::Drivers;
#[cfg(not(feature = "http2"))]
use no_http2 as http2;
use pools::Pools;
use rotation::Rotation;
use route::Route;

/// A service that carries requests to a server, with any layers. The URIs of requests are paths.
pub type Transport = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// The maximum number of idle connections, as in client-go: enough for the bursts of a few controllers.
const IDLE_CONNECTIONS: usize = 25;
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Creates the transport to a server, without credentials.
pub(crate) fn connect(
    key: ConnectionKey,
    connections: &Connections,
    recorder: &MetricsRecorder,
) -> Result<Addressed<Curl<Pools>>, ConfigError> {
    let server = key.server.clone();
    let pools = connections.pools(key, recorder, |key| {
        let route = Route::to(&key.server, &key.proxy, |name| std::env::var(name).ok())?;
        let connector = Connector::new(key, route, recorder.clone())?;
        let rotation = connector
            .needs_tls()
            .then(|| Rotation::new(&key.tls, key.plugin_identity.clone(), recorder.clone()))
            .transpose()?;
        Ok(Pools::new(builder(), connector, rotation))
    })?;
    Addressed::new(Curl(pools), server)
}

/// Returns a builder of HTTP/1.1 pools.
fn builder() -> legacy::Builder {
    let mut builder = legacy::Client::builder(Drivers);
    builder
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_CONNECTIONS);
    builder
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
