//! A stream with a timeout for peers that do not read.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{self, Sleep},
};

/// A stream whose writes fail with [`io::ErrorKind::TimedOut`] if the peer accepts no bytes for some time.
///
/// The time counts only while bytes wait to be sent, so quiet connections such as idle watches do not time out. Each
/// accepted byte restarts the timeout.
#[derive(Debug)]
pub(crate) struct WriteTimeout<S> {
    stream: S,
    limit: Duration,
    /// Set while bytes wait to be sent.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    /// Creates a stream whose peer must accept bytes within `limit`.
    pub(crate) const fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, deadline: None }
    }

    fn check<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.deadline = None;
            return result;
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(time::sleep(self.limit)));
        if deadline.as_mut().poll(cx).is_ready() {
            let message = format!("the peer has read nothing for {:?}", self.limit);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)));
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.check(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.check(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        // A flush without work does not reset the timeout of a pending write.
        if flushed.is_pending() { self.check(cx, flushed) } else { flushed }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.check(cx, closed)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const LIMIT: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn write_to_a_peer_that_does_not_read_times_out() {
        let (ours, _theirs) = tokio::io::duplex(4);
        let started = time::Instant::now();
        let error = WriteTimeout::new(ours, LIMIT).write_all(b"longer than that").await.unwrap_err();
        assert_eq!((error.kind(), started.elapsed()), (io::ErrorKind::TimedOut, LIMIT));
        assert_eq!(error.to_string(), "the peer has read nothing for 60s");
    }

    #[tokio::test(start_paused = true)]
    async fn slow_reader_and_quiet_connection_are_kept() {
        let (ours, mut theirs) = tokio::io::duplex(1);
        let mut ours = WriteTimeout::new(ours, LIMIT);
        let reader = tokio::spawn(async move {
            let mut read = Vec::new();
            for _ in 0..5 {
                time::sleep(LIMIT.checked_sub(Duration::from_secs(1)).unwrap()).await;
                read.push(theirs.read_u8().await.unwrap());
            }
            (read, theirs)
        });
        ours.write_all(b"slow").await.unwrap();
        time::sleep(10 * LIMIT).await;
        ours.write_all(b"!").await.unwrap();
        assert_eq!(reader.await.unwrap().0, b"slow!");
    }
}
