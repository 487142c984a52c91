//! A running `windlass run`.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use crate::Result;

/// The maximum time without output. It includes builds.
const PATIENCE: Duration = Duration::from_mins(15);

/// The process. It is stopped on drop.
pub(super) struct Running {
    process: Child,
    lines: Receiver<String>,
    /// The output so far.
    said: String,
}

impl Running {
    pub(super) fn start(command: &mut Command) -> Result<Self> {
        let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut process = process.map_err(|error| format!("starting windlass run: {error}"))?;
        let output = BufReader::new(process.stdout.take().ok_or("a process without output")?);
        let (send, lines) = mpsc::channel();
        // Ends with the output, or when the receiver is dropped.
        thread::spawn(move || output.lines().map_while(std::result::Result::ok).try_for_each(|line| send.send(line)));
        Ok(Self { process, lines, said: String::new() })
    }

    /// Returns the rest of the next line with this prefix.
    pub(super) fn wait_for(&mut self, beginning: &str) -> Result<String> {
        let deadline = Instant::now() + PATIENCE;
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            self.said.push_str(&line);
            self.said.push('\n');
            if let Some(rest) = line.strip_prefix(beginning) {
                return Ok(rest.to_owned());
            }
        }
        Err(format!("windlass run did not print {beginning:?}, but:\n{}", self.said).into())
    }

    /// Stops the process as Ctrl-C does. Returns an error if it fails.
    pub(super) fn stop(mut self) -> Result {
        let asked = Command::new("kill").args(["-INT", &self.process.id().to_string()]).status()?;
        let ended = self.process.wait()?;
        if asked.success() && ended.success() {
            return Ok(());
        }
        Err(format!("windlass run failed to stop ({ended}):\n{}", self.said).into())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have exited already, so the error is ignored.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
