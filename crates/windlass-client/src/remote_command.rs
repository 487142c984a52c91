//! Commands in containers: exec, and attach to what runs there already.
//!
//! Spoken is the channel protocol over WebSocket, in its fifth version and, with servers that know no better, the fourth.
//! SPDY, which Kubernetes is leaving, is not.
//!
//! # Guarantees
//! - Streams are bounded: who does not read the output of a command holds the command up, and who writes more input than
//!   it reads has to wait. Streams share one connection, so a full one holds up the others too.
//! - A connection that is dead is found out within about a minute, and is an error of [`RemoteCommand::wait`].
//! - Dropping the [`RemoteCommand`] ends the connection and its task. What the command then does is up to the container
//!   runtime: most let it run on.
//!
//! # Not guaranteed
//! In the fourth version the end of the input cannot be told: a command that reads to the end of its input waits for ever.

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
    behind::Behind,
    error::Operation,
    websocket::{self, Protocol},
};

/// How much of a stream is held for a reader, or a connection, that is slower than its writer.
const STREAM_BUFFER: usize = 64 << 10;

/// Runs a command in a container, or attaches to the one that runs there. `.await` begins, and gives a
/// [`RemoteCommand`].
#[must_use = "nothing is sent before `.await`"]
pub struct Exec {
    behind: Behind,
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

/// How output comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// Standard output and standard error, apart.
    Separate,
    /// Through a terminal, which knows only one.
    Terminal,
}

/// A command that runs in a container.
#[derive(Debug)]
pub struct RemoteCommand {
    stdin: Option<Stdin>,
    stdout: Option<Stdout>,
    stderr: Option<Stdout>,
    /// `Some` with a terminal.
    size: Option<watch::Sender<Option<TerminalSize>>>,
    driver: Driver,
    operation: Operation,
}

/// The input of a command. Shutting it down, or dropping it, ends the input.
#[derive(Debug)]
pub struct Stdin(DuplexStream);

/// An output of a command.
#[derive(Debug)]
pub struct Stdout(DuplexStream);

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitStatus {
    /// What the command returned; 0 is success.
    pub code: i32,
}

/// What a command printed, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    /// How it ended.
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
    /// Characters in a line.
    #[serde(rename = "Width")]
    pub columns: u16,
    /// Lines.
    #[serde(rename = "Height")]
    pub rows: u16,
}

/// The task that carries the streams. It ends with this.
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
        Exec::new(Behind::new(self, pod.into(), "exec"), command)
    }

    /// Attaches to the command that a container of a pod was started with.
    pub fn attach(&self, pod: impl Into<ObjectRef<Pod>>) -> Exec {
        Exec::new(Behind::new(self, pod.into(), "attach"), Vec::new())
    }
}

impl Exec {
    fn new(behind: Behind, command: Vec<String>) -> Self {
        Self { behind, container: None, command, input: Input::None, output: Output::Separate }
    }

    /// In this namespace, whatever was named before.
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.behind.within(namespace);
        self
    }

    /// In this container; a pod with only one, or with a default one, needs no name.
    pub fn container(mut self, name: impl Into<String>) -> Self {
        self.container = Some(name.into());
        self
    }

    /// With input, from [`RemoteCommand::stdin`].
    pub const fn stdin(mut self) -> Self {
        self.input = Input::Piped;
        self
    }

    /// In a terminal, which mixes the two outputs, and has a size: [`RemoteCommand::resize`].
    pub const fn tty(mut self) -> Self {
        self.output = Output::Terminal;
        self
    }

    async fn send(self) -> Result<RemoteCommand> {
        let operation = self.behind.operation();
        let (input, output) = (self.input, self.output);
        let (sender, receiver) = websocket::open(&self.behind, self.query(), &[Protocol::V5, Protocol::V4]).await?;
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
    /// The input, once, if it was asked for.
    pub const fn stdin(&mut self) -> Option<Stdin> {
        self.stdin.take()
    }

    /// The output, once. What is not taken is read and thrown away.
    pub const fn stdout(&mut self) -> Option<Stdout> {
        self.stdout.take()
    }

    /// The error output, once; none with a terminal.
    pub const fn stderr(&mut self) -> Option<Stdout> {
        self.stderr.take()
    }

    /// Tells the terminal its size. Without a terminal, nothing happens; of sizes in quick succession the last counts.
    pub fn resize(&self, size: TerminalSize) {
        if let Some(sizes) = &self.size {
            sizes.send_replace(Some(size));
        }
    }

    /// Waits for the end of the command. Ends the input, and throws output away, where these were not taken.
    ///
    /// A command that fails has an [`ExitStatus`]; one that could not be run, or whose connection broke, is an error.
    pub async fn wait(mut self) -> Result<ExitStatus> {
        self.stdin = None;
        self.stdout = None;
        self.stderr = None;
        self.ended().await
    }

    /// Waits for the end of the command, and collects what it prints. Ends the input where that was not taken.
    ///
    /// Holds all the output, whatever its size: for more, read [`stdout`](Self::stdout) piece by piece.
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

/// What comes until the stream ends; why it ended is told by the command's status.
async fn read_all(stream: Option<Stdout>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        // In memory: the only error is an end.
        let _ = stream.read_to_end(&mut bytes).await;
    }
    bytes
}

impl ExitStatus {
    /// Whether the command says that all is well.
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
    /// Without the command: it may hold secrets.
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
