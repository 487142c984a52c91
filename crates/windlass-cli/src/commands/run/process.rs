//! A child process that is terminated together with its own children.

use std::{
    io,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::process::{Child, ChildStderr, ChildStdout, Command};

/// A program in a separate process group. Signals from the terminal only reach `windlass`, which stops the program.
/// Dropping this kills the program and its children.
#[derive(Debug)]
pub(super) struct Process(Child);

/// The way in which a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// It ended on request.
    Gracefully(ExitStatus),
    /// It did not end within the grace period and was killed.
    Killed,
}

impl Process {
    pub(super) fn start(mut command: Command) -> io::Result<Self> {
        #[cfg(unix)]
        command.process_group(0);
        command.stdin(Stdio::null()).kill_on_drop(true).spawn().map(Self)
    }

    /// Takes the standard output, if it is piped.
    pub(super) fn output(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }

    /// Takes the standard error, if it is piped.
    pub(super) fn errors(&mut self) -> Option<ChildStderr> {
        self.0.stderr.take()
    }

    /// Waits until the process ends. Cancel-safe.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.0.wait().await
    }

    /// Requests the process to end (SIGTERM), and kills it after the grace period.
    pub(super) async fn stop(mut self, grace: Duration) -> io::Result<Stopped> {
        self.ask();
        if let Ok(status) = tokio::time::timeout(grace, self.ended()).await {
            return Ok(Stopped::Gracefully(status?));
        }
        self.kill();
        self.ended().await?;
        Ok(Stopped::Killed)
    }
}

#[cfg(unix)]
impl Process {
    /// Returns the process ID; `None` after it has been waited for, when the ID may be reused.
    fn id(&self) -> Option<rustix::process::Pid> {
        self.0.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?))
    }

    fn ask(&self) {
        if let Some(id) = self.id() {
            // Fails if the process has just ended.
            let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        }
    }

    /// Kills the process and its children.
    fn kill(&mut self) {
        if let Some(id) = self.id() {
            let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
        }
    }
}

#[cfg(not(unix))]
impl Process {
    /// This system has no way to request termination.
    fn ask(&mut self) {
        self.kill();
    }

    fn kill(&mut self) {
        let _ = self.0.start_kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};

    use super::*;

    /// Starts a shell and waits until it runs.
    #[allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]
    async fn shell(script: &str) -> (Process, Lines<BufReader<ChildStdout>>) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        let mut process = Process::start(command).unwrap();
        let mut lines = BufReader::new(process.output().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("up"));
        (process, lines)
    }

    #[tokio::test]
    async fn process_is_killed_if_it_ignores_sigterm() {
        let (polite, _output) = shell("trap 'exit 3' TERM; echo up; while :; do sleep 0.02; done").await;
        let Stopped::Gracefully(status) = polite.stop(Duration::from_mins(1)).await.unwrap() else { panic!("killed") };
        assert_eq!(status.code(), Some(3));
        let (deaf, _output) = shell("trap '' TERM; echo up; while :; do sleep 0.02; done").await;
        assert_eq!(deaf.stop(Duration::from_millis(50)).await.unwrap(), Stopped::Killed);
    }

    #[tokio::test]
    async fn dropped_process_ends_with_its_children() {
        let (process, mut output) = shell("echo up; sleep 1000 & wait").await;
        drop(process);
        // The pipe ends when no process holds its other end.
        let ended = tokio::time::timeout(Duration::from_mins(1), output.next_line()).await;
        assert_eq!(ended.expect("its child was killed as well").unwrap(), None);
    }
}
