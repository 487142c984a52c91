//! Request heads of HTTP/1: a time limit, and accounting for their memory.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{self, Sleep},
};

use crate::budget::{Account, Charge};

/// A stream that fails if a request head takes too long. The time starts with the first byte of the head, so it does
/// not limit idle connections.
#[derive(Debug)]
pub(super) struct Heads<S> {
    stream: S,
    account: Arc<Account>,
    limit: Duration,
    /// A partially received head.
    begun: Option<Head>,
}

#[derive(Debug)]
struct Head {
    /// The number of requests before it.
    after: usize,
    deadline: Pin<Box<Sleep>>,
    charge: Charge,
}

impl<S> Heads<S> {
    pub(super) fn new(stream: S, account: Arc<Account>, limit: Duration) -> Self {
        Self { stream, account, limit, begun: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heads<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        let served = this.account.served();
        // When its request is being served, the head is complete.
        this.begun.take_if(|head| head.after != served);
        if read.is_ready() {
            let length = buffer.filled().len() - before;
            if length > 0 && !this.account.is_busy() {
                let head = this.begun.get_or_insert_with(|| Head {
                    after: served,
                    deadline: Box::pin(time::sleep(this.limit)),
                    charge: this.account.nothing(),
                });
                head.charge.add(length);
            }
            return read;
        }
        let Some(head) = &mut this.begun else { return Poll::Pending };
        ready!(head.deadline.as_mut().poll(cx));
        let message = format!("the head of a request did not end within {:?}", this.limit);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heads<S> {
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
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        time::Instant,
    };

    use super::*;
    use crate::budget::{Budget, Limits};

    const LIMIT: Duration = Duration::from_secs(32);

    #[tokio::test(start_paused = true)]
    async fn slow_request_head_times_out() {
        let account = Budget::new(Limits::default()).open();
        let (ours, mut theirs) = tokio::io::duplex(64);
        let mut heads = Heads::new(ours, account, LIMIT);
        time::sleep(10 * LIMIT).await;
        let started = Instant::now();
        let client = tokio::spawn(async move {
            while theirs.write_u8(b'x').await.is_ok() {
                time::sleep(Duration::from_secs(1)).await;
            }
        });
        let error = heads.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!((error.kind(), started.elapsed()), (io::ErrorKind::TimedOut, LIMIT));
        drop(heads);
        client.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn body_after_a_complete_head_has_no_head_deadline() {
        let account = Budget::new(Limits::default()).open();
        let (ours, mut theirs) = tokio::io::duplex(64);
        let mut heads = Heads::new(ours, Arc::clone(&account), LIMIT);
        theirs.write_all(b"head").await.unwrap();
        heads.read_exact(&mut [0; 4]).await.unwrap();
        let _request = account.begin();
        let body = async {
            time::sleep(10 * LIMIT).await;
            theirs.write_all(b"body").await.unwrap();
        };
        let mut read = [0; 4];
        tokio::join!(async { heads.read_exact(&mut read).await.unwrap() }, body);
        assert_eq!(&read, b"body");
    }
}
