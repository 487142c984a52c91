//! A connection that has left HTTP: what a server switched to another protocol, such as WebSocket.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes of a connection after the server's `101 Switching Protocols`, both ways. Dropping it closes the connection.
pub struct Upgraded(TokioIo<hyper::upgrade::Upgraded>);

impl Upgraded {
    pub(crate) fn new(connection: hyper::upgrade::Upgraded) -> Self {
        Self(TokioIo::new(connection))
    }
}

/// Whether the request asks for another protocol. HTTP/2 cannot do that: it needs a connection that speaks HTTP/1.1.
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
