//! The first bytes of a connection. HTTP/2 has a preface, and any other connection is HTTP/1.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf},
    time::{self, Instant},
};

/// The first bytes of an HTTP/2 connection.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream whose first bytes are read again.
#[derive(Debug)]
pub(crate) struct Rewound<S> {
    stream: S,
    first: [u8; PREFACE.len()],
    /// The number of bytes in `first`, and the number of those that were read again.
    length: usize,
    read: usize,
}

/// The version of HTTP that a client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Http1,
    Http2,
}

impl<S> Rewound<S> {
    /// Creates a stream of which nothing was read.
    pub(crate) const fn new(stream: S) -> Self {
        Self { stream, first: [0; PREFACE.len()], length: 0, read: 0 }
    }
}

impl<S: AsyncRead + Unpin> Rewound<S> {
    /// Returns the version that the first bytes select. Returns an error if there are none within `idle`, or if the
    /// preface of HTTP/2 is not complete within `limit` of its first byte.
    pub(crate) async fn version(&mut self, idle: Duration, limit: Duration) -> io::Result<Version> {
        let mut deadline = Instant::now() + idle;
        while PREFACE.starts_with(&self.first[..self.length]) {
            if self.length == PREFACE.len() {
                return Ok(Version::Http2);
            }
            let reading = self.stream.read(&mut self.first[self.length..]);
            let Ok(read) = time::timeout_at(deadline, reading).await else {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the client sent no request in time"));
            };
            let read = read?;
            if read == 0 {
                break;
            }
            if self.length == 0 {
                deadline = Instant::now() + limit;
            }
            self.length += read;
        }
        Ok(Version::Http1)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let rest = &this.first[this.read..this.length];
        if rest.is_empty() {
            return Pin::new(&mut this.stream).poll_read(cx, buffer);
        }
        let length = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..length]);
        this.read += length;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewound<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    const IDLE: Duration = Duration::from_secs(90);
    const LIMIT: Duration = Duration::from_secs(32);

    #[tokio::test(start_paused = true)]
    async fn version_is_recognized_and_bytes_are_kept() {
        for (first, expected) in [
            ("GET / HTTP/1.1\r\n", Version::Http1),
            ("PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n", Version::Http1),
            ("PRI * HT", Version::Http1),
            ("", Version::Http1),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nmore", Version::Http2),
        ] {
            // The bytes arrive one by one.
            let (ours, mut theirs) = tokio::io::duplex(1);
            let mut stream = Rewound::new(ours);
            let client = async move { theirs.write_all(first.as_bytes()).await.unwrap() };
            let server = async {
                assert_eq!(stream.version(IDLE, LIMIT).await.unwrap(), expected, "{first:?}");
                let mut all = String::new();
                stream.read_to_string(&mut all).await.unwrap();
                assert_eq!(all, first);
            };
            tokio::join!(client, server);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_and_slow_clients_time_out() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let started = Instant::now();
        let error = Rewound::new(ours).version(IDLE, LIMIT).await.unwrap_err();
        assert_eq!((error.kind(), started.elapsed()), (io::ErrorKind::TimedOut, IDLE));
        theirs.write_all(b"x").await.unwrap_err();

        let (ours, mut theirs) = tokio::io::duplex(64);
        let started = Instant::now();
        theirs.write_all(b"PRI").await.unwrap();
        let error = Rewound::new(ours).version(IDLE, LIMIT).await.unwrap_err();
        assert_eq!((error.kind(), started.elapsed()), (io::ErrorKind::TimedOut, LIMIT));
    }
}
