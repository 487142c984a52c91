//! Calls on one HTTP/2 connection.

use std::{error::Error as StdError, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, uri::PathAndQuery};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

use crate::{
    message::{Messages, RequestBody},
    status::CallError,
};

/// The settings of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The data that the server may send on one stream before it waits for the reader. Defaults to 64 KiB.
    pub stream_window: u32,
    /// The data that the server may send on all streams together. Defaults to 64 KiB.
    pub connection_window: u32,
    /// The longest message of the server. Defaults to 4 MiB, as in Go.
    pub longest_message: usize,
    /// The detection of a server that does not respond. Defaults to none.
    pub keep_alive: Option<KeepAlive>,
}

/// The detection of a server that does not respond.
#[derive(Clone, Copy, Debug)]
pub struct KeepAlive {
    /// The time without data after which the server is asked for a response.
    pub interval: Duration,
    /// The time for this response.
    pub timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { stream_window: 1 << 16, connection_window: 1 << 16, longest_message: 4 << 20, keep_alive: None }
    }
}

/// A connection to a server. Closed when the last clone is dropped and all calls have ended.
#[derive(Clone, Debug)]
pub struct Connection {
    sender: SendRequest<RequestBody>,
    origin: Uri,
    longest_message: usize,
}

impl Connection {
    /// Begins a connection on a stream. `origin` has the scheme and the authority of requests, such as
    /// `http://localhost`. The returned future drives the connection and ends with it: spawn it.
    ///
    /// # Errors
    /// If the stream fails, or the origin is not a URL.
    pub async fn handshake<S>(
        stream: S,
        origin: &str,
        settings: Settings,
    ) -> Result<(Self, impl Future<Output = Result<(), hyper::Error>> + Send + 'static), CallError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let origin: Uri = origin.parse().map_err(|error: http::uri::InvalidUri| CallError::Unsent(error.into()))?;
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(settings.stream_window)
            .initial_connection_window_size(settings.connection_window);
        if let Some(KeepAlive { interval, timeout }) = settings.keep_alive {
            builder.keep_alive_interval(interval).keep_alive_timeout(timeout).keep_alive_while_idle(true);
        }
        let shaken = builder.handshake(TokioIo::new(stream)).await;
        let (sender, driver) = shaken.map_err(|error| CallError::Unsent(error.into()))?;
        Ok((Self { sender, origin, longest_message: settings.longest_message }, driver))
    }

    /// Sends a request, which [`frame`](crate::frame) has encoded, and returns the response's message.
    ///
    /// # Errors
    /// If the call fails.
    pub async fn unary(&self, path: &'static str, metadata: &HeaderMap, request: Bytes) -> Result<Bytes, CallError> {
        self.send(path, metadata, RequestBody::One(Some(request))).await?.only().await
    }

    /// Starts a call with streams in both directions. Returns when the server has sent the head of its response.
    ///
    /// # Errors
    /// If the call fails before that.
    pub async fn stream(
        &self,
        path: &'static str,
        metadata: &HeaderMap,
        requests: mpsc::Receiver<Bytes>,
    ) -> Result<Messages, CallError> {
        self.send(path, metadata, RequestBody::Stream(requests)).await
    }

    /// Reports whether the connection is lost.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    async fn send(&self, path: &'static str, metadata: &HeaderMap, body: RequestBody) -> Result<Messages, CallError> {
        let mut parts = self.origin.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::from_static(path));
        let uri = Uri::from_parts(parts).map_err(|error| CallError::Unsent(error.into()))?;
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.clone_from(metadata);
        headers.insert("content-type", HeaderValue::from_static("application/grpc"));
        headers.insert("te", HeaderValue::from_static("trailers"));
        let response = self.sender.clone().try_send_request(request).await;
        let response = response.map_err(|mut error| {
            // The request is returned if no part of it was sent.
            let is_unsent = error.take_message().is_some();
            let error: Box<dyn StdError + Send + Sync> = error.into_error().into();
            if is_unsent { CallError::Unsent(error) } else { CallError::Lost(error) }
        })?;
        Messages::of(response, self.longest_message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, frame, testing};

    #[derive(Clone, PartialEq, prost::Message)]
    struct Text {
        #[prost(string, tag = "1")]
        text: String,
    }

    async fn connect(socket: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, settings: Settings) -> Connection {
        let (connection, driver) = Connection::handshake(socket, "http://localhost", settings).await.unwrap();
        tokio::spawn(driver);
        connection
    }

    #[tokio::test]
    async fn calls_share_a_connection_and_fail_alone() {
        let (socket, server) = tokio::io::duplex(1 << 12);
        tokio::spawn(testing::serve_connection(server, async |path: String, request: Bytes| {
            let Text { text } = decode(request).unwrap();
            match &*path {
                "/test.Echo/Echo" => Ok(frame(&Text { text: text.repeat(2) })),
                _ => Err(crate::Status { code: crate::code::UNIMPLEMENTED, message: format!("unknown: {path} %") }),
            }
        }));
        let settings = Settings { longest_message: 1 << 17, ..Settings::default() };
        let connection = connect(socket, settings).await;
        let metadata = HeaderMap::new();
        let call = async |path, text: String| connection.unary(path, &metadata, frame(&Text { text })).await;
        // Larger than the windows and the buffer.
        let (long, unknown, longest) = tokio::join!(
            call("/test.Echo/Echo", "x".repeat(50_000)),
            call("/test.Echo/Other", String::new()),
            call("/test.Echo/Echo", "x".repeat(70_000)),
        );
        assert_eq!(decode::<Text>(long.unwrap()).unwrap().text.len(), 100_000);
        let unknown = unknown.unwrap_err().to_string();
        assert_eq!(unknown, "rpc error: code = Unimplemented desc = unknown: /test.Echo/Other %");
        let longest = crate::chain(&longest.unwrap_err());
        assert!(longest.contains("bytes is too long, at most 131072 are permitted"), "{longest}");
        assert!(!connection.is_closed());
    }

    #[tokio::test]
    async fn server_that_disappears_closes_the_connection() {
        let (socket, server) = tokio::io::duplex(1 << 12);
        let (connection, driver) =
            Connection::handshake(socket, "http://localhost", Settings::default()).await.unwrap();
        drop(server);
        // The end of the stream is an error or not, depending on what was sent.
        let _ = driver.await;
        assert!(connection.is_closed());
        let error = connection.unary("/a/b", &HeaderMap::new(), frame(&Text::default())).await.unwrap_err();
        assert!(matches!(error, CallError::Unsent(_)), "{error}");
    }
}
