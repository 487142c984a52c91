//! Small HTTP servers for probes, metrics and the console.

use std::{io, net::Ipv6Addr, sync::Arc};

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::Full;
use tokio::net::TcpListener;
use tokio_rustls::rustls::ServerConfig;
use windlass_serve::{Application, HttpServer, Protocols};

use crate::shutdown::Stop;

/// The maximum number of connections. These servers have few clients.
const CONNECTIONS: usize = 256;

pub(crate) type Answer = Response<Full<Bytes>>;

/// The address or listener of a server.
#[derive(Debug)]
pub(crate) enum Listen {
    /// The server is disabled.
    Off,
    /// `host:port`, or `:port` for every address of the machine.
    Address(String),
    Bound(TcpListener),
}

impl Listen {
    /// Parses an address as in flags: an empty address or `0` disables the server.
    pub(crate) fn at(address: impl Into<String>) -> Self {
        match address.into() {
            address if address.is_empty() || address == "0" => Self::Off,
            address => Self::Address(address),
        }
    }

    /// Returns the listener, or `None` if the server is disabled.
    pub(crate) async fn bind(self) -> io::Result<Option<TcpListener>> {
        let address = match self {
            Self::Off => return Ok(None),
            Self::Bound(listener) => return Ok(Some(listener)),
            Self::Address(address) => address,
        };
        let Some(port) = address.strip_prefix(':') else { return TcpListener::bind(address).await.map(Some) };
        let port = port.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the port is not a number"))?;
        // Accepts IPv4 and IPv6 where the machine supports both.
        match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, port)).await.map(Some)
            }
            bound => bound.map(Some),
        }
    }
}

/// Serves connections of a listener until the stop. No connection outlives this function.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    stop: &Stop,
    application: impl Application,
) {
    let http = HttpServer::new().connections(CONNECTIONS).protocols(Protocols::Http1);
    let http = match tls {
        Some(config) => http.tls(config),
        None => http,
    };
    http.serve(listener, application, stop.requested()).await;
}

/// Creates a plain-text response that browsers do not sniff as another type.
pub(crate) fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    answer
}

pub(crate) fn not_found() -> Answer {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}
