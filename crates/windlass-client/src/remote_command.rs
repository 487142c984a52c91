//! Commands in containers: exec, and attach to the main process.
//!
//! Uses the channel protocol over WebSocket in version 5 or, with older servers, version 4. SPDY, which Kubernetes is
//! phasing out, is not implemented.
//!
//! # Guarantees
//! - Streams have bounded buffers. A command blocks when its output is not read, and writers of its input wait when the
//!   command does not read it. The streams share one connection, so one blocked stream blocks the others.
//! - A dead connection is detected within about a minute, and [`RemoteCommand::wait`] returns it as an error.
//! - Dropping the [`RemoteCommand`] ends the connection and its task. Whether the command continues depends on the
//!   container runtime; with most it does.
//!
//! # Not guaranteed
//! Version 4 cannot signal the end of the input: a command that reads its input to the end waits forever.

mod driver;

use std::{
    fmt,
    future::IntoFuture,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use serde::Serialize;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, DuplexStream, ReadBuf},
    sync::watch,
    task::JoinHandle,
};
use windlass_api::{ListWatchError, ObjectRef, k8s_openapi::api::core::v1::Pod};

use crate::{
    Client, Error, Result,
    connect::ConnectRequest,
    operation::Operation,
    websocket::{self, Protocol},
};

/// The size of a stream's buffer, in bytes.
const STREAM_BUFFER: usize = 64 << 10;

/// Runs a command in a container, or attaches to its main process. `.await` starts it and returns a [`RemoteCommand`].
#[must_use = "nothing is sent before `.await`"]
pub struct Exec {
    connect: ConnectRequest,
    container: Option<String>,
    command: Vec<String>,
    input: Input,
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    None,
    Piped,
}

/// The separation of output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// Standard output and standard error are separate.
    Separate,
    /// A terminal merges both streams.
    Terminal,
}

/// A running command in a container.
#[derive(Debug)]
pub struct RemoteCommand {
    stdin: Option<Stdin>,
    stdout: Option<Stdout>,
    stderr: Option<Stdout>,
    /// The size of the terminal. `Some` only with a terminal.
    size: Option<watch::Sender<Option<TerminalSize>>>,
    driver: Driver,
    operation: Operation,
}

/// The standard input of a command. Shutting it down or dropping it ends the input.
#[derive(Debug)]
pub struct Stdin(DuplexStream);

/// The standard output or standard error of a command.
#[derive(Debug)]
pub struct Stdout(DuplexStream);

/// The exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitStatus {
    /// The exit code; 0 means success.
    pub code: i32,
}

/// The output and exit status of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    /// The exit status.
    pub status: ExitStatus,
    /// The standard output.
    pub stdout: Vec<u8>,
    /// The standard error; empty with a terminal.
    pub stderr: Vec<u8>,
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TerminalSize {
    /// The width in characters.
    #[serde(rename = "Width")]
    pub columns: u16,
    /// The height in lines.
    #[serde(rename = "Height")]
    pub rows: u16,
}

/// The task that carries the streams. Dropping this value aborts it.
#[derive(Debug)]
struct Driver(JoinHandle<Result<ExitStatus>>);

impl Client {
    /// Runs a command in a container of a pod.
    ///
    /// ```no_run
    /// # async fn example(client: windlass_client::Client) -> windlass_client::Result<()> {
    /// let date = client.exec("web-0", ["date", "-u"]).within("shop").await?.output().await?;
    /// assert!(date.status.success());
    /// println!("{}", String::from_utf8_lossy(&date.stdout));
    /// # Ok(())
    /// # }
    /// ```
    pub fn exec<S: Into<String>>(&self, pod: impl Into<ObjectRef<Pod>>, command: impl IntoIterator<Item = S>) -> Exec {
        let command = command.into_iter().map(Into::into).collect();
        Exec::new(ConnectRequest::new(self, pod.into(), "exec"), command)
    }

    /// Attaches to the main process of a container.
    pub fn attach(&self, pod: impl Into<ObjectRef<Pod>>) -> Exec {
        Exec::new(ConnectRequest::new(self, pod.into(), "attach"), Vec::new())
    }
}

impl Exec {
    fn new(connect: ConnectRequest, command: Vec<String>) -> Self {
        Self { connect, container: None, command, input: Input::None, output: Output::Separate }
    }

    /// Sets the namespace. Overrides any namespace set before.
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.connect.within(namespace);
        self
    }

    /// Selects the container. A pod with a single container or a default container needs no name.
    pub fn container(mut self, name: impl Into<String>) -> Self {
        self.container = Some(name.into());
        self
    }

    /// Enables standard input, which [`RemoteCommand::stdin`] then returns.
    pub const fn stdin(mut self) -> Self {
        self.input = Input::Piped;
        self
    }

    /// Runs the command in a terminal. A terminal merges the two outputs and has a size; see [`RemoteCommand::resize`].
    pub const fn tty(mut self) -> Self {
        self.output = Output::Terminal;
        self
    }

    async fn send(self) -> Result<RemoteCommand> {
        let operation = self.connect.operation();
        let (input, output) = (self.input, self.output);
        let (sender, receiver) = websocket::open(&self.connect, self.query(), &[Protocol::V5, Protocol::V4]).await?;
        let pipe = || tokio::io::duplex(STREAM_BUFFER);
        let stdin = (input == Input::Piped).then(pipe);
        let stdout = Some(pipe());
        let stderr = (output == Output::Separate).then(pipe);
        let size = (output == Output::Terminal).then(|| watch::channel(None));
        let (stdin, stdin_end) = stdin.unzip();
        let (stdout, stdout_end) = stdout.unzip();
        let (stderr, stderr_end) = stderr.unzip();
        let (size, size_end) = size.unzip();
        let streams = driver::Streams { stdin: stdin_end, stdout: stdout_end, stderr: stderr_end, size: size_end };
        let task = tokio::spawn(driver::drive(sender, receiver, streams, operation.clone()));
        Ok(RemoteCommand {
            stdin: stdin.map(Stdin),
            stdout: stdout.map(Stdout),
            stderr: stderr.map(Stdout),
            size,
            driver: Driver(task),
            operation,
        })
    }

    fn query(&self) -> Vec<(&'static str, String)> {
        let yes = || "true".to_owned();
        let mut query: Vec<_> = self.command.iter().map(|word| ("command", word.clone())).collect();
        query.extend(self.container.iter().map(|name| ("container", name.clone())));
        if self.input == Input::Piped {
            query.push(("stdin", yes()));
        }
        query.push(("stdout", yes()));
        query.push(match self.output {
            Output::Separate => ("stderr", yes()),
            Output::Terminal => ("tty", yes()),
        });
        query
    }
}

impl IntoFuture for Exec {
    type Output = Result<RemoteCommand>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl RemoteCommand {
    /// Returns the standard input, once, if it was enabled.
    pub const fn stdin(&mut self) -> Option<Stdin> {
        self.stdin.take()
    }

    /// Returns the standard output, once. Output that is not taken is read and discarded.
    pub const fn stdout(&mut self) -> Option<Stdout> {
        self.stdout.take()
    }

    /// Returns the standard error, once. Returns `None` with a terminal.
    pub const fn stderr(&mut self) -> Option<Stdout> {
        self.stderr.take()
    }

    /// Sets the size of the terminal. Has no effect without a terminal. Of several calls in quick succession, only the
    /// last may be sent.
    pub fn resize(&self, size: TerminalSize) {
        if let Some(sizes) = &self.size {
            sizes.send_replace(Some(size));
        }
    }

    /// Waits for the end of the command. Closes the input and discards output streams that were not taken.
    ///
    /// A command that fails returns its [`ExitStatus`]. Returns an error if the command could not be run or the
    /// connection broke.
    pub async fn wait(mut self) -> Result<ExitStatus> {
        self.stdin = None;
        self.stdout = None;
        self.stderr = None;
        self.ended().await
    }

    /// Waits for the end of the command and collects its output. Closes the input if it was not taken.
    ///
    /// The whole output is held in memory. For large outputs, read [`stdout`](Self::stdout) incrementally.
    pub async fn output(mut self) -> Result<CommandOutput> {
        self.stdin = None;
        let (stdout, stderr) = (self.stdout.take(), self.stderr.take());
        let (stdout, stderr, status) = tokio::join!(read_all(stdout), read_all(stderr), self.ended());
        Ok(CommandOutput { status: status?, stdout, stderr })
    }

    async fn ended(mut self) -> Result<ExitStatus> {
        match (&mut self.driver.0).await {
            Ok(ended) => ended,
            Err(error) => Err(Error::new(self.operation, ListWatchError::Transport(error.into()))),
        }
    }
}

/// Reads a stream to its end. The exit status reports why it ended.
async fn read_all(stream: Option<Stdout>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        // The stream is in memory, so its only error is its end.
        let _ = stream.read_to_end(&mut bytes).await;
    }
    bytes
}

impl ExitStatus {
    /// Reports whether the command succeeded.
    #[must_use]
    pub const fn success(self) -> bool {
        self.code == 0
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {}", self.code)
    }
}

impl fmt::Debug for Exec {
    /// Omits the command, because it may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exec").field("container", &self.container).finish_non_exhaustive()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl AsyncRead for Stdout {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stdin {
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
mod tests;
