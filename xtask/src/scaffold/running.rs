//! `windlass run`, as it runs.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use crate::Result;

/// How long it may say nothing: it builds meanwhile.
const PATIENCE: Duration = Duration::from_mins(15);

/// The command, which ends with us.
pub(super) struct Running {
    process: Child,
    lines: Receiver<String>,
    /// What it has said so far.
    said: String,
}

impl Running {
    pub(super) fn start(command: &mut Command) -> Result<Self> {
        let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut process = process.map_err(|error| format!("starting windlass run: {error}"))?;
        let output = BufReader::new(process.stdout.take().ok_or("a process without output")?);
        let (send, lines) = mpsc::channel();
        // Ends when the output does, or nobody listens any more.
        thread::spawn(move || output.lines().map_while(std::result::Result::ok).try_for_each(|line| send.send(line)));
        Ok(Self { process, lines, said: String::new() })
    }

    /// The rest of the next line that begins so.
    pub(super) fn wait_for(&mut self, beginning: &str) -> Result<String> {
        let deadline = Instant::now() + PATIENCE;
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            self.said.push_str(&line);
            self.said.push('\n');
            if let Some(rest) = line.strip_prefix(beginning) {
                return Ok(rest.to_owned());
            }
        }
        Err(format!("windlass run has not said {beginning:?} but:\n{}", self.said).into())
    }

    /// As Ctrl-C does; it must end well.
    pub(super) fn stop(mut self) -> Result {
        let asked = Command::new("kill").args(["-INT", &self.process.id().to_string()]).status()?;
        let ended = self.process.wait()?;
        if asked.success() && ended.success() {
            return Ok(());
        }
        Err(format!("windlass run did not stop well ({ended}):\n{}", self.said).into())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself, and there is nobody left to tell.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
