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

use crate::{activity::Activity, erased::AnyConnection};

/// A stream that fails if a request head takes too long. The time starts with the first byte of the head, so it does
/// not limit idle connections.
pub(crate) struct Heads<S> {
    stream: S,
    connection: Arc<dyn AnyConnection>,
    activity: Arc<Activity>,
    limit: Duration,
    /// A partially received head.
    begun: Option<Head>,
}

struct Head {
    /// The number of requests before it.
    after: usize,
    deadline: Pin<Box<Sleep>>,
    connection: Arc<dyn AnyConnection>,
    bytes: usize,
}

impl<S> Heads<S> {
    pub(crate) fn new(stream: S, connection: Arc<dyn AnyConnection>, activity: Arc<Activity>, limit: Duration) -> Self {
        Self { stream, connection, activity, limit, begun: None }
    }
}

impl Head {
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.connection.hold(bytes);
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        self.connection.release(self.bytes);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heads<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        let requests = this.activity.begun();
        // When its request is being served, the head is complete.
        this.begun.take_if(|head| head.after != requests);
        if read.is_ready() {
            let length = buffer.filled().len() - before;
            if length > 0 && !this.activity.is_busy() && !this.activity.is_upgraded() {
                let head = this.begun.get_or_insert_with(|| Head {
                    after: requests,
                    deadline: Box::pin(time::sleep(this.limit)),
                    connection: Arc::clone(&this.connection),
                    bytes: 0,
                });
                head.add(length);
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
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Empty;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
        time::Instant,
    };

    use super::*;
    use crate::{RequestBody, activity::OpenConnections, application::Connection};

    const LIMIT: Duration = Duration::from_secs(32);

    /// Counts the bytes of unfinished heads.
    #[derive(Default)]
    struct Held(AtomicUsize);

    impl Connection for Held {
        type Body = Empty<Bytes>;

        fn answer(&self, _: Request<RequestBody>) -> impl Future<Output = Response<Empty<Bytes>>> + Send + use<> {
            std::future::ready(Response::default())
        }

        fn hold(&self, bytes: usize) {
            self.0.fetch_add(bytes, Relaxed);
        }

        fn release(&self, bytes: usize) {
            self.0.fetch_sub(bytes, Relaxed);
        }
    }

    struct Case {
        heads: Heads<DuplexStream>,
        theirs: DuplexStream,
        held: Arc<Held>,
        activity: Arc<Activity>,
    }

    fn case() -> Case {
        let (ours, theirs) = tokio::io::duplex(64);
        let (held, activity) = (Arc::<Held>::default(), OpenConnections::new().open());
        let heads = Heads::new(ours, held.clone(), Arc::clone(&activity), LIMIT);
        Case { heads, theirs, held, activity }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_request_head_times_out() {
        let Case { mut heads, mut theirs, held, .. } = case();
        time::sleep(10 * LIMIT).await;
        let started = Instant::now();
        let client = tokio::spawn(async move {
            while theirs.write_u8(b'x').await.is_ok() {
                time::sleep(Duration::from_secs(1)).await;
            }
        });
        let error = heads.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!((error.kind(), started.elapsed()), (io::ErrorKind::TimedOut, LIMIT));
        assert_eq!(held.0.load(Relaxed), 32);
        drop(heads);
        assert_eq!(held.0.load(Relaxed), 0);
        client.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn body_after_a_complete_head_has_no_head_deadline() {
        let Case { mut heads, mut theirs, held, activity } = case();
        theirs.write_all(b"head").await.unwrap();
        heads.read_exact(&mut [0; 4]).await.unwrap();
        assert_eq!(held.0.load(Relaxed), 4);
        let _request = activity.begin();
        let body = async {
            time::sleep(10 * LIMIT).await;
            theirs.write_all(b"body").await.unwrap();
        };
        let mut read = [0; 4];
        tokio::join!(async { heads.read_exact(&mut read).await.unwrap() }, body);
        assert_eq!((&read, held.0.load(Relaxed)), (b"body", 0));
    }

    #[tokio::test(start_paused = true)]
    async fn upgraded_connection_has_no_deadline() {
        let Case { mut heads, mut theirs, activity, .. } = case();
        drop(activity.begin());
        activity.upgrade();
        for _ in 0..2 {
            theirs.write_all(b"frame").await.unwrap();
            heads.read_exact(&mut [0; 5]).await.unwrap();
            assert!(time::timeout(10 * LIMIT, heads.read_u8()).await.is_err(), "the connection stays open");
        }
    }
}
