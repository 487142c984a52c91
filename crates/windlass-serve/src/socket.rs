//! A connection's socket.

use std::{
    io,
    mem::MaybeUninit,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::OwnedSemaphorePermit,
    time::{self, Sleep},
};

use crate::{activity::Activity, write_timeout::WriteTimeout};

/// Limits, in time and bytes, on reading from a connection after its last response if a request was not read
/// completely.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 64 << 20;

/// A socket that counts as a connection until it is dropped, has a write timeout, and lingers on close.
///
/// If a request was not read completely, it first shuts down its write half and then reads for a short time. An
/// immediate close would reset the connection, and the client, still sending, would not see the response.
#[derive(Debug)]
pub(crate) struct Socket<S> {
    stream: WriteTimeout<S>,
    activity: Arc<Activity>,
    /// Set while the socket lingers.
    deadline: Option<Pin<Box<Sleep>>>,
    /// The number of bytes read while lingering.
    discarded: usize,
    _permit: OwnedSemaphorePermit,
}

impl<S> Socket<S> {
    pub(crate) fn new(
        stream: S,
        activity: Arc<Activity>,
        write_timeout: Duration,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let stream = WriteTimeout::new(stream, write_timeout);
        Self { stream, activity, deadline: None, discarded: 0, _permit: permit }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Socket<S> {
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
        let this = &mut *self;
        if this.deadline.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            if !this.activity.has_unread_request() {
                return Poll::Ready(Ok(()));
            }
        }
        let deadline = this.deadline.get_or_insert_with(|| Box::pin(time::sleep(LINGER)));
        if deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let mut space = [MaybeUninit::uninit(); 16 << 10];
        while this.discarded < LINGER_BYTES {
            let mut buffer = ReadBuf::uninit(&mut space);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut buffer))?;
            if buffer.filled().is_empty() {
                break;
            }
            this.discarded += buffer.filled().len();
        }
        Poll::Ready(Ok(()))
    }
}
