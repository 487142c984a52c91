//! A connection that coalesces writes.
//!
//! HTTP/2 writes the head of a large frame, its payload and the next frame separately, and flushes each of them. Over
//! TLS each is a separate record and system call. This stream collects all bytes that one poll of the connection
//! writes, for all its streams, and sends them together.
//!
//! Guaranteed: written bytes are sent in order, before the connection task waits for anything. At most [`MOST`] bytes
//! are buffered for a peer that does not read. An idle connection buffers at most [`KEPT`] bytes.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{BoxError, erased::AnyConnection, streams::ConnectionTask};

/// The size at which buffered bytes are sent immediately: as many as TLS accepts at a time.
const MOST: usize = 64 << 10;

/// The buffer is kept for reuse up to this capacity. A server may have very many idle connections.
const KEPT: usize = 2 << 10;

/// The stream that HTTP/2 writes to.
#[derive(Debug)]
pub(crate) struct CoalescedWriter<S>(CoalescedConnection<S>);

/// The handle that drives the connection and sends the buffered bytes.
#[derive(Debug)]
pub(crate) struct CoalescedConnection<S>(Arc<Mutex<Coalescer<S>>>);

#[derive(Debug)]
struct Coalescer<S> {
    stream: S,
    waiting: Vec<u8>,
    /// The number of buffered bytes already sent.
    sent: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> CoalescedConnection<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self(Arc::new(Mutex::new(Coalescer { stream, waiting: Vec::new(), sent: 0 })))
    }

    /// Returns the stream for HTTP/2.
    pub(crate) fn stream(&self) -> CoalescedWriter<S> {
        CoalescedWriter(Self(Arc::clone(&self.0)))
    }

    /// Polls the connection, and then sends the bytes it has written. Calls the hooks of the application
    /// before and after.
    pub(crate) async fn drive<T, E: Into<BoxError>>(
        &self,
        mut work: Pin<&mut impl Future<Output = Result<T, E>>>,
        application: &dyn AnyConnection,
        task: &ConnectionTask,
    ) -> Result<T, BoxError> {
        std::future::poll_fn(|cx| {
            task.register(cx);
            application.writing();
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done.map_err(Into::into));
            }
            // Ignores a pending send: writers get back-pressure, and this task is woken.
            let sent = self.0.lock().poll_send(cx);
            application.written();
            match sent {
                Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
                Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}

impl<S: AsyncWrite + Unpin> Coalescer<S> {
    /// Sends all buffered bytes.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.waiting.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while self.sent < self.waiting.len() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.waiting[self.sent..]))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += sent;
        }
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.sent = 0;
        self.waiting.clear();
        if self.waiting.capacity() > KEPT {
            self.waiting = Vec::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CoalescedWriter<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.0.lock().stream).poll_read(cx, buffer)
    }
}

// `poll_write_vectored` is not implemented: for such a stream, HTTP/2 combines small frames itself.
impl<S: AsyncWrite + Unpin> AsyncWrite for CoalescedWriter<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut coalescer = self.0.0.lock();
        if coalescer.waiting.len() >= MOST {
            ready!(coalescer.poll_send(cx))?;
        }
        let taken = bytes.len().min(MOST);
        coalescer.waiting.extend_from_slice(&bytes[..taken]);
        Poll::Ready(Ok(taken))
    }

    /// Does nothing. The bytes are sent after the poll of the connection.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut coalescer = self.0.0.lock();
        ready!(coalescer.poll_send(cx))?;
        Pin::new(&mut coalescer.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;
    use crate::Application;

    /// Records the size of each write.
    struct Counted(DuplexStream, Arc<Mutex<Vec<usize>>>);

    impl AsyncRead for Counted {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_read(cx, buffer)
        }
    }

    impl AsyncWrite for Counted {
        fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let written = ready!(Pin::new(&mut self.0).poll_write(cx, bytes))?;
            self.1.lock().push(written);
            Poll::Ready(Ok(written))
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(cx)
        }
    }

    async fn drive(
        coalesced: &CoalescedConnection<Counted>,
        work: Pin<&mut impl Future<Output = io::Result<()>>>,
    ) -> Result<(), BoxError> {
        let application = |_: http::Request<crate::RequestBody>| {
            future::ready(http::Response::new(http_body_util::Full::<bytes::Bytes>::default()))
        };
        let connection = Application::connect(&application, ([127, 0, 0, 1], 0).into());
        coalesced.drive(work, &connection, &ConnectionTask::default()).await
    }

    fn coalesced(room: usize) -> (CoalescedConnection<Counted>, DuplexStream, Arc<Mutex<Vec<usize>>>) {
        let (ours, theirs) = tokio::io::duplex(room);
        let writes = Arc::default();
        (CoalescedConnection::new(Counted(ours, Arc::clone(&writes))), theirs, writes)
    }

    #[tokio::test]
    async fn writes_before_a_pause_are_sent_together() {
        let (coalesced, mut peer, writes) = coalesced(1 << 20);
        let mut stream = coalesced.stream();
        let work = async move {
            for text in ["one ", "two "] {
                stream.write_all(text.as_bytes()).await?;
                stream.flush().await?;
            }
            let mut answer = [0; 1];
            stream.read_exact(&mut answer).await?;
            stream.write_all(b"three").await?;
            stream.shutdown().await
        };
        let other = async move {
            let mut first = [0; 8];
            peer.read_exact(&mut first).await.unwrap();
            assert_eq!(&first, b"one two ");
            peer.write_all(b"!").await.unwrap();
            let mut rest = String::new();
            peer.read_to_string(&mut rest).await.unwrap();
            assert_eq!(rest, "three", "it is sent before the end");
        };
        let work = std::pin::pin!(work);
        let (done, ()) = tokio::join!(drive(&coalesced, work), other);
        done.unwrap();
        assert_eq!(*writes.lock(), [8, 5]);
    }

    #[tokio::test]
    async fn unread_data_blocks_the_writer() {
        let (coalesced, mut peer, _) = coalesced(1);
        let mut stream = coalesced.stream();
        let work = std::pin::pin!(async move {
            stream.write_all(&vec![b'x'; 4 * MOST]).await?;
            stream.shutdown().await
        });
        let other = async {
            tokio::task::yield_now().await;
            assert!(coalesced.0.lock().waiting.len() <= 2 * MOST);
            let mut all = Vec::new();
            peer.read_to_end(&mut all).await.unwrap();
            assert_eq!(all.len(), 4 * MOST);
        };
        let (done, ()) = tokio::join!(drive(&coalesced, work), other);
        done.unwrap();
        assert!(coalesced.0.lock().waiting.capacity() <= KEPT);
    }

    #[tokio::test]
    async fn broken_connection_ends_the_task() {
        let (coalesced, peer, _) = coalesced(1);
        let mut stream = coalesced.stream();
        drop(peer);
        let work = std::pin::pin!(async move {
            stream.write_all(b"lost").await?;
            std::future::pending::<io::Result<()>>().await
        });
        let error = drive(&coalesced, work).await.unwrap_err();
        assert_eq!(error.downcast_ref::<io::Error>().map(io::Error::kind), Some(io::ErrorKind::BrokenPipe));
    }

    #[test]
    fn coalesced_stream_is_never_vectored() {
        let (stream, _other) = tokio::io::duplex(1);
        assert!(stream.is_write_vectored(), "otherwise the test proves nothing");
        assert!(!CoalescedConnection::new(stream).stream().is_write_vectored());
    }
}
