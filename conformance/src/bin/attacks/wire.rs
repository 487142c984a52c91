//! Low-level connections for malformed and slow requests.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, header};
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{catalog::Error, server::Server};

/// The timeout for a response.
const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) type Http2 = http2::SendRequest<BoxBody<Bytes, Infallible>>;

/// A response with its body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: String,
}

impl Answer {
    /// Returns the status code and the start of the message.
    pub(crate) fn brief(&self) -> String {
        let status: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        let message = status["message"].as_str().unwrap_or_default().replace('|', "/");
        let message: String = message.chars().take(80).collect();
        if message.is_empty() { self.code.to_string() } else { format!("{}: {message}", self.code) }
    }
}

/// A request on its own connection.
pub(crate) struct PendingRequest<'s> {
    server: &'s Server,
    request: http::request::Builder,
    body: Bytes,
}

impl<'s> PendingRequest<'s> {
    pub(crate) fn new(server: &'s Server, method: &str, path: &str) -> Self {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, server.address())
            .header(header::AUTHORIZATION, format!("Bearer {}", server.token()));
        Self { server, request, body: Bytes::new() }
    }

    pub(crate) fn header(mut self, name: &str, value: &[u8]) -> Self {
        let value = HeaderValue::from_bytes(value).expect("it has no line feeds");
        if name.eq_ignore_ascii_case("authorization")
            && let Some(headers) = self.request.headers_mut()
        {
            headers.remove(header::AUTHORIZATION);
        }
        self.request = self.request.header(name, value);
        self
    }

    /// Sends the request as a user whose permissions only come from roles.
    pub(crate) fn by(self, user: &str) -> Self {
        self.header("Impersonate-User", user.as_bytes())
    }

    pub(crate) fn body(self, content_type: &str, body: impl Into<Bytes>) -> Self {
        let mut ask = self.header("Content-Type", content_type.as_bytes());
        ask.body = body.into();
        ask
    }

    pub(crate) fn json(self, body: &serde_json::Value) -> Self {
        self.body("application/json", body.to_string())
    }

    pub(crate) async fn send(self) -> Result<Answer, Error> {
        let request = self.request.body(Full::new(self.body))?;
        let asking = async {
            let stream = tls(self.server, b"http/1.1").await?;
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            let connection = tokio::spawn(connection);
            let response = sender.send_request(request).await?;
            let code = response.status().as_u16();
            let body = response.into_body().collect().await?.to_bytes();
            connection.abort();
            Ok(Answer { code, body: String::from_utf8_lossy(&body).into_owned() })
        };
        tokio::time::timeout(PATIENCE, asking).await.map_err(|_| format!("no answer within {PATIENCE:?}"))?
    }
}

/// Opens a TLS connection for a protocol.
pub(crate) async fn tls(server: &Server, protocol: &[u8]) -> Result<TlsStream<TcpStream>, Error> {
    let mut config = conformance::trusting_any_certificate()?;
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(server.address()).await?;
    Ok(TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost")?, stream).await?)
}

/// Opens an HTTP/2 connection with this receive window per stream.
pub(crate) async fn http2(server: &Server, window: u32) -> Result<Http2, Error> {
    let stream = tls(server, b"h2").await?;
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(window)
        .handshake(TokioIo::new(stream))
        .await?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// Returns the administrator's GET request for an HTTP/2 connection.
pub(crate) fn get(server: &Server, path: &str, accept: &str) -> Result<Request<BoxBody<Bytes, Infallible>>, Error> {
    let request = Request::get(format!("https://{}{path}", server.address()))
        .header(header::AUTHORIZATION, format!("Bearer {}", server.token()))
        .header(header::ACCEPT, accept);
    Ok(request.body(Full::default().boxed())?)
}
