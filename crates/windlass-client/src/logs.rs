//! Container logs.

use std::{
    fmt,
    future::IntoFuture,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
use futures::{Stream, future::BoxFuture, stream};
use http::Method;
use http_body::Body as _;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, ReadBuf};
use windlass_api::{ListWatchError, ObjectRef, k8s_openapi::api::core::v1::Pod};

use crate::{Client, Error, Result, body::Body, connect::ConnectRequest, operation::Operation};

/// The maximum length of a line in bytes. Longer lines are split, because a container may print gigabytes without a
/// line break.
pub const LINE_LIMIT: usize = 1 << 20;

/// Reads the log of a container. `.await` sends the request and returns a [`LogStream`].
#[must_use = "nothing is sent before `.await`"]
pub struct Logs {
    connect: ConnectRequest,
    query: Vec<(&'static str, String)>,
}

/// The output stream of a container to read. Servers accept anything but `All` only with the feature gate
/// `PodLogsQuerySplitStreams`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogSource {
    /// Standard output and standard error, in the order of printing.
    All,
    /// Only the standard output.
    Stdout,
    /// Only the standard error.
    Stderr,
}

/// The bytes of a log as they arrive. Read them with [`AsyncBufRead`], or as text with [`lines`](Self::lines).
///
/// Nothing is prefetched: a slow reader delays the server and loses no data. Dropping the stream cancels the request.
pub struct LogStream {
    body: Body,
    /// The received bytes that are not read yet.
    chunk: Bytes,
    operation: Operation,
}

impl Client {
    /// Reads the log of a container of a pod.
    ///
    /// ```no_run
    /// # async fn example(client: windlass_client::Client) -> windlass_client::Result<()> {
    /// use futures::TryStreamExt;
    ///
    /// let log = client.logs("web-0").within("shop").container("app").tail(10).follow().await?;
    /// let mut lines = std::pin::pin!(log.lines());
    /// while let Some(line) = lines.try_next().await? {
    ///     println!("{line}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn logs(&self, pod: impl Into<ObjectRef<Pod>>) -> Logs {
        Logs { connect: ConnectRequest::new(self, pod.into(), "log"), query: Vec::new() }
    }
}

impl Logs {
    /// Sets the namespace. Overrides any namespace set before.
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.connect.within(namespace);
        self
    }

    /// Selects the container. A pod with a single container needs no name.
    pub fn container(self, name: impl Into<String>) -> Self {
        self.with("container", name)
    }

    /// Follows the log until the container ends.
    pub fn follow(self) -> Self {
        self.with("follow", "true")
    }

    /// Reads the log of the container's previous instance.
    pub fn previous(self) -> Self {
        self.with("previous", "true")
    }

    /// Limits the log to its last lines.
    pub fn tail(self, lines: u64) -> Self {
        self.with("tailLines", lines.to_string())
    }

    /// Limits the log to entries younger than `age`, rounded up to whole seconds.
    pub fn since(self, age: Duration) -> Self {
        let seconds = age.as_secs() + u64::from(age.subsec_nanos() > 0);
        self.with("sinceSeconds", seconds.to_string())
    }

    /// Limits the log to entries after a point in time in RFC 3339: `2026-01-02T03:04:05Z`.
    pub fn since_time(self, time: impl Into<String>) -> Self {
        self.with("sinceTime", time)
    }

    /// Prefixes each line with its time, in RFC 3339 with nanoseconds.
    pub fn timestamps(self) -> Self {
        self.with("timestamps", "true")
    }

    /// Limits the log to this number of bytes. The last line may be truncated.
    pub fn limit_bytes(self, limit: u64) -> Self {
        self.with("limitBytes", limit.to_string())
    }

    /// Selects the output stream.
    pub fn source(self, source: LogSource) -> Self {
        let source = match source {
            LogSource::All => "All",
            LogSource::Stdout => "Stdout",
            LogSource::Stderr => "Stderr",
        };
        self.with("stream", source)
    }

    /// Skips the API server's verification of the kubelet's certificate, for nodes with broken certificates.
    pub fn unverified_node(self) -> Self {
        self.with("insecureSkipTLSVerifyBackend", "true")
    }

    /// Sets a query parameter. Replaces an earlier value.
    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.retain(|(known, _)| *known != name);
        self.query.push((name, value.into()));
        self
    }

    async fn send(self) -> Result<LogStream> {
        let answer = self.connect.send(Method::GET, "", self.query, Bytes::new()).await?;
        Ok(LogStream { body: answer.response.into_body(), chunk: Bytes::new(), operation: answer.operation })
    }
}

impl IntoFuture for Logs {
    type Output = Result<LogStream>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl LogStream {
    /// Returns the lines as text without their line breaks. Invalid UTF-8 is replaced. Lines of more than
    /// [`LINE_LIMIT`] bytes are split. The stream ends after an error.
    pub fn lines(self) -> impl Stream<Item = Result<String>> + Send {
        stream::try_unfold(self, |mut log| async move {
            let mut line = Vec::new();
            let read = (&mut log).take(LINE_LIMIT as u64).read_until(b'\n', &mut line).await;
            match read {
                Ok(0) => Ok(None),
                Ok(_) => Ok(Some((text(&line), log))),
                Err(error) => Err(log.failure(error)),
            }
        })
    }

    /// Returns the whole log as text. Invalid UTF-8 is replaced. Don't use it for logs that are followed or that have
    /// no size limit.
    pub async fn text(mut self) -> Result<String> {
        let mut bytes = Vec::new();
        match self.read_to_end(&mut bytes).await {
            Ok(_) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => Err(self.failure(error)),
        }
    }

    fn failure(&self, error: io::Error) -> Error {
        Error::new(self.operation.clone(), ListWatchError::Transport(error.into()))
    }
}

impl AsyncBufRead for LogStream {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        while this.chunk.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => this.chunk = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => break,
            }
        }
        Poll::Ready(Ok(&this.chunk))
    }

    fn consume(mut self: Pin<&mut Self>, amount: usize) {
        self.chunk.advance(amount);
    }
}

impl AsyncRead for LogStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let available = ready!(self.as_mut().poll_fill_buf(cx))?;
        let amount = available.len().min(buffer.remaining());
        buffer.put_slice(&available[..amount]);
        self.consume(amount);
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logs").field("query", &self.query).finish_non_exhaustive()
    }
}

impl fmt::Debug for LogStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogStream({})", self.operation)
    }
}

fn text(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8_lossy(line).into_owned()
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;
    use http::Response;

    use super::*;
    use crate::testing::{End, Fake, chunks};

    fn log_of(parts: Vec<&'static str>, end: End) -> Fake {
        Fake::new(move |_| Response::new(chunks(parts.clone(), end)))
    }

    #[tokio::test]
    async fn every_option_is_a_parameter_of_the_request() {
        let fake = log_of(vec!["a\n"], End::Clean);
        let client = fake.client();
        client.logs("p").await.unwrap();
        let all = client.logs("p").within("a").container("c").follow().previous().tail(3).timestamps();
        let all = all.since(Duration::from_millis(1500)).since_time("2026-01-02T03:04:05Z").limit_bytes(9);
        all.source(LogSource::Stderr).unverified_node().tail(4).await.unwrap();
        assert_eq!(
            fake.seen(),
            [
                "GET /api/v1/namespaces/home/pods/p/log",
                "GET /api/v1/namespaces/a/pods/p/log?container=c&follow=true&previous=true&timestamps=true&\
                 sinceSeconds=2&sinceTime=2026-01-02T03%3A04%3A05Z&limitBytes=9&stream=Stderr&\
                 insecureSkipTLSVerifyBackend=true&tailLines=4"
            ]
        );
    }

    #[tokio::test]
    async fn log_lines_are_split_at_newlines_across_chunks() {
        let fake = log_of(vec!["one\ntw", "o\r\n", "\nlast without end"], End::Clean);
        let log = fake.client().logs("p").await.unwrap();
        let lines: Vec<String> = log.lines().try_collect().await.unwrap();
        assert_eq!(lines, ["one", "two", "", "last without end"]);
        let log = fake.client().logs("p").await.unwrap();
        assert_eq!(log.text().await.unwrap(), "one\ntwo\r\n\nlast without end");
    }

    #[tokio::test]
    async fn long_line_is_yielded_in_pieces() {
        let endless: &'static str = "x".repeat(LINE_LIMIT / 2 + 1).leak();
        let log = log_of(vec![endless, endless, "\n"], End::Clean).client().logs("p").await.unwrap();
        let lines: Vec<usize> = log.lines().map_ok(|line| line.len()).try_collect().await.unwrap();
        assert_eq!(lines, [LINE_LIMIT, 2]);
    }

    #[tokio::test]
    async fn interrupted_log_yields_its_data_then_the_error() {
        let log = log_of(vec!["one\n"], End::Broken).client().logs("p").within("a").await.unwrap();
        let mut lines = std::pin::pin!(log.lines());
        assert_eq!(lines.try_next().await.unwrap().as_deref(), Some("one"));
        let error = lines.try_next().await.unwrap_err();
        assert!(error.is_transport());
        assert!(error.chain().starts_with(r#"connect to pods/log "a/p": "#), "{}", error.chain());
    }

    #[tokio::test]
    async fn a_refusal_is_the_servers_status() {
        let fake = Fake::failure(
            400,
            r#"{"kind":"Status","apiVersion":"v1","reason":"BadRequest","code":400,"message":"container not started"}"#,
        );
        let error = fake.client().logs("p").await.unwrap_err();
        assert_eq!(error.status().unwrap().message, "container not started");
    }
}
