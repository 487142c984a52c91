//! Upgraded connections: those that a server has switched to another protocol, such as WebSocket.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A bidirectional byte stream after the server's `101 Switching Protocols`. Dropping it closes the connection.
pub struct Upgraded(TokioIo<hyper::upgrade::Upgraded>);

impl Upgraded {
    pub(crate) fn new(connection: hyper::upgrade::Upgraded) -> Self {
        Self(TokioIo::new(connection))
    }
}

/// Reports whether the request asks for an upgrade. HTTP/2 does not support this, so it needs an HTTP/1.1 connection.
pub(super) fn is_asked_for<B>(request: &Request<B>) -> bool {
    request.headers().contains_key(header::UPGRADE)
}

impl fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgraded").finish_non_exhaustive()
    }
}

impl AsyncRead for Upgraded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
