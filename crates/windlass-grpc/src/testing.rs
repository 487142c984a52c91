//! A server for tests, whose handler answers each unary call.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::Status;

/// The bytes before a message.
const PREFIX: usize = 5;

/// Serves one connection until it ends. The handler gets the path of a call and its message, and returns a message that
/// [`frame`](crate::frame) has encoded.
pub async fn serve_connection<S, H, F>(stream: S, handler: H)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    H: Fn(String, Bytes) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Bytes, Status>> + Send + 'static,
{
    let handler = Arc::new(handler);
    let service = service_fn(move |request: Request<Incoming>| {
        let handler = Arc::clone(&handler);
        async move {
            let (head, body) = request.into_parts();
            let message = match body.collect().await {
                Ok(body) => body.to_bytes().slice(PREFIX..),
                // The client has gone.
                Err(_) => Bytes::new(),
            };
            let (message, status) = match handler(head.uri.path().to_owned(), message).await {
                Ok(message) => (message, Status { code: crate::code::OK, message: String::new() }),
                Err(status) => (Bytes::new(), status),
            };
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", status.code.into());
            let text = utf8_percent_encode(&status.message, NON_ALPHANUMERIC).to_string();
            trailers.insert("grpc-message", HeaderValue::try_from(text).expect("encoded text is a header"));
            let body = Full::new(message).with_trailers(std::future::ready(Some(Ok(trailers))));
            Ok::<_, Infallible>(Response::new(body.map_frame(|frame: Frame<Bytes>| frame)))
        }
    });
    // The connection ends with an error if the client resets it.
    let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}
