//! A connection that takes what is written in one piece only.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Carries TLS. To a stream that takes several pieces at once, HTTP/2 gives each frame by itself, which is a record and a
/// system call each; for one that does not, it gathers small frames first: the answers and events of many streams.
#[derive(Debug)]
pub(super) struct Gathered<S>(pub(super) S);

impl<S: AsyncRead + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

// Not `poll_write_vectored`: without it, a stream says that it takes one piece.
impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_piece_is_taken_at_a_time_whatever_the_stream_takes() {
        let (stream, _other) = tokio::io::duplex(1);
        assert!(stream.is_write_vectored(), "or this shows nothing");
        assert!(!Gathered(stream).is_write_vectored());
    }
}
