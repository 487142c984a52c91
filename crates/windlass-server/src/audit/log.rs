//! The log backend: a line for each event in a file or on standard output.

use std::{
    io::{self, Write as _},
    sync::Arc,
};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use super::{
    backend::{Sent, Sink},
    event::Rendered,
    metrics::Plugin,
    options::{AuditFormat, AuditLogOptions},
    queue::Entry,
    rotation::RotatingFile,
};

/// The maximum size of an event that a request writes itself, in bytes.
const WRITTEN_AT_ONCE: usize = 32 << 10;

/// The log.
#[derive(Debug)]
pub(super) struct LogSink {
    format: AuditFormat,
    output: Arc<Mutex<Output>>,
}

#[derive(Debug)]
enum Output {
    Stdout,
    File(RotatingFile),
}

impl LogSink {
    /// Opens the log. Its file and its directory are created with access for the owner only.
    pub(super) fn open(options: &AuditLogOptions) -> io::Result<Self> {
        let output =
            if options.path.as_os_str() == "-" { Output::Stdout } else { Output::File(RotatingFile::open(options)?) };
        Ok(Self { format: options.format, output: Arc::new(Mutex::new(output)) })
    }

    /// Sets the clock for the names of rotated files.
    pub(super) fn set_clock(&self, clock: &windlass_api::Clock) {
        if let Output::File(file) = &mut *self.output.lock() {
            file.set_clock(clock.clone());
        }
    }
}

impl Sink for LogSink {
    fn plugin(&self) -> Plugin {
        Plugin::Log
    }

    fn is_legacy(&self) -> bool {
        self.format == AuditFormat::Legacy
    }

    fn is_concurrent(&self) -> bool {
        false
    }

    fn write_now(&self, event: &Rendered) -> Option<io::Result<()>> {
        if event.json_len() > WRITTEN_AT_ONCE {
            return None;
        }
        let mut output = self.output.try_lock()?;
        // Standard output can be a pipe that nobody reads.
        let Output::File(file) = &mut *output else { return None };
        let mut line = Vec::with_capacity(event.json_len());
        event.push_line(&mut line);
        file.only_appends(line.len()).then(|| file.write(&line))
    }

    fn send<'a>(&'a self, events: &'a [Entry]) -> BoxFuture<'a, Sent> {
        let events: Vec<_> = events.iter().map(|entry| Arc::clone(&entry.event)).collect();
        let output = Arc::clone(&self.output);
        let count = events.len();
        let writing = spawn_blocking(move || {
            let mut output = output.lock();
            let mut sent = Sent::default();
            let mut line = Vec::new();
            for (index, event) in events.iter().enumerate() {
                line.clear();
                event.push_line(&mut line);
                if let Err(error) = output.write(&line) {
                    sent.lost.push(index);
                    sent.error = Some(error.into());
                }
            }
            sent
        });
        Box::pin(async move {
            let failed = |error: tokio::task::JoinError| Sent { lost: (0..count).collect(), error: Some(error.into()) };
            writing.await.unwrap_or_else(failed)
        })
    }
}

impl Output {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut output = io::stdout().lock();
                output.write_all(line)?;
                output.flush()
            }
            Self::File(file) => file.write(line),
        }
    }
}
