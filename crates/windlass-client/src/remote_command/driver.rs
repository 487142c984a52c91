//! The task that carries a command's streams over its connection. Both directions run concurrently, because a command
//! may print before it has read all its input.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    sync::watch,
    time::{Instant, MissedTickBehavior, interval_at},
};
use windlass_api::{ListWatchError, Status};

use super::{ExitStatus, TerminalSize};
use crate::{
    Error, Result,
    operation::Operation,
    websocket::{ConnectionError, PING_INTERVAL, Receiver, Sender},
};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
/// The channel of the exit status, a `Status`, which is the last message.
const STATUS: u8 = 3;
const RESIZE: u8 = 4;

/// The maximum size of a message, as in other clients.
const CHUNK: usize = 32 << 10;

/// The reason and the cause type of the `Status` of a failed command.
const NON_ZERO_EXIT: &str = "NonZeroExitCode";
const EXIT_CODE: &str = "ExitCode";

/// The connection's ends of the streams; `None` for streams that are not enabled.
pub(super) struct Streams {
    pub(super) stdin: Option<DuplexStream>,
    pub(super) stdout: Option<DuplexStream>,
    pub(super) stderr: Option<DuplexStream>,
    pub(super) size: Option<watch::Receiver<Option<TerminalSize>>>,
}

/// Carries the streams until the command or the connection ends.
pub(super) async fn drive(
    mut sender: Sender,
    mut receiver: Receiver,
    streams: Streams,
    operation: Operation,
) -> Result<ExitStatus> {
    let Streams { stdin, stdout, stderr, size } = streams;
    let status = tokio::select! {
        status = receive(&mut receiver, stdout, stderr) => status,
        error = send(&mut sender, stdin, size) => Err(error),
    };
    match status {
        Ok(status) => {
            sender.close().await;
            exit_status(status, &operation)
        }
        Err(error) => Err(error.during(&operation)),
    }
}

/// Passes on output until the status arrives. Continues if a reader is dropped.
async fn receive(
    receiver: &mut Receiver,
    mut stdout: Option<DuplexStream>,
    mut stderr: Option<DuplexStream>,
) -> Result<Vec<u8>, ConnectionError> {
    loop {
        let Some(frame) = receiver.next().await? else {
            return Err(ConnectionError::Closed(" (it did not say how the command ended)".to_owned()));
        };
        let stream = match frame.channel {
            STDOUT => &mut stdout,
            STDERR => &mut stderr,
            STATUS if !frame.data.is_empty() => return Ok(frame.data.to_vec()),
            _ => continue,
        };
        if let Some(open) = stream
            && open.write_all(&frame.data).await.is_err()
        {
            *stream = None;
        }
    }
}

/// Sends input, terminal sizes and pings. Ends only with the connection.
async fn send(
    sender: &mut Sender,
    mut stdin: Option<DuplexStream>,
    mut size: Option<watch::Receiver<Option<TerminalSize>>>,
) -> ConnectionError {
    let mut buffer = vec![0; if stdin.is_some() { CHUNK } else { 0 }];
    let mut pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let sent = tokio::select! {
            read = read(&mut stdin, &mut buffer) => match read {
                0 => {
                    stdin = None;
                    sender.finish(STDIN).await
                }
                length => sender.send(STDIN, &buffer[..length]).await,
            },
            new = changed(&mut size) => match new {
                Some(new) => sender.send(RESIZE, &serde_json::to_vec(&new).unwrap_or_default()).await,
                None => Ok(()),
            },
            _ = pings.tick() => sender.ping().await,
        };
        if let Err(error) = sent {
            return error;
        }
    }
}

/// Reads input and returns its length, 0 at its end. Never returns if there is no input.
async fn read(stdin: &mut Option<DuplexStream>, buffer: &mut [u8]) -> usize {
    match stdin {
        // The stream is in memory, so its only error is its end.
        Some(stdin) => stdin.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// Returns the next size of the terminal. Never returns if there is no terminal.
async fn changed(size: &mut Option<watch::Receiver<Option<TerminalSize>>>) -> Option<TerminalSize> {
    if let Some(sizes) = size
        && sizes.changed().await.is_ok()
    {
        return *sizes.borrow_and_update();
    }
    *size = None;
    std::future::pending().await
}

fn exit_status(status: Vec<u8>, operation: &Operation) -> Result<ExitStatus> {
    let unreadable = |what: String| Error::new(operation.clone(), ListWatchError::Decode(what.into()));
    let status: Status = serde_json::from_slice(&status)
        .map_err(|error| Error::new(operation.clone(), ListWatchError::Decode(error.into())))?;
    if status.is_success() {
        return Ok(ExitStatus { code: 0 });
    }
    if !status.is(NON_ZERO_EXIT) {
        return Err(Error::new(operation.clone(), status.into()));
    }
    let causes = status.details.as_deref().map(|details| details.causes.as_slice()).unwrap_or_default();
    let code = causes.iter().find(|cause| cause.reason == EXIT_CODE).map(|cause| cause.message.as_str());
    let code = code.ok_or_else(|| unreadable("the command failed, and its exit code is not told".to_owned()))?;
    match code.parse() {
        Ok(code) => Ok(ExitStatus { code }),
        Err(_) => Err(unreadable(format!("{code:?} is no exit code"))),
    }
}
