//! Child processes in process groups of their own.

use std::{
    io,
    process::{ExitStatus, Stdio},
    time::Duration,
};

#[cfg(unix)]
use rustix::process::{WaitId, WaitIdOptions, waitid};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The number of attempts to start an executable that was just written, and the time between them.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// The attempts to start a program.
#[derive(Debug, Default)]
pub(super) struct Attempts(usize);

impl Attempts {
    /// Waits before the next attempt if the executable was open for writing. Returns any other error.
    pub(super) async fn failed(&mut self, error: io::Error) -> io::Result<()> {
        self.0 += 1;
        // A process that another thread started just now has inherited the open file until it executes its own.
        if error.kind() == io::ErrorKind::ExecutableFileBusy && self.0 < ATTEMPTS {
            tokio::time::sleep(PAUSE).await;
            return Ok(());
        }
        Err(error)
    }
}

/// A child process and its children. Dropping this kills them all.
///
/// A process that leaves the group is not killed.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    /// The leader. It is waited for only by [`Self::kill`], so its ID is that of the group until then.
    leader: Child,
    /// Notifies of ended children of this process.
    #[cfg(unix)]
    children: Signal,
}

impl ProcessGroup {
    /// Starts a program without input, and with pipes for its output.
    pub(crate) async fn start(command: &mut Command) -> io::Result<Self> {
        // Registered first, so that no end is missed.
        #[cfg(unix)]
        let children = signal(SignalKind::child())?;
        #[cfg(unix)]
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        let mut attempts = Attempts::default();
        let leader = loop {
            match command.spawn() {
                Ok(leader) => break leader,
                Err(error) => attempts.failed(error).await?,
            }
        };
        Ok(Self {
            leader,
            #[cfg(unix)]
            children,
        })
    }

    /// Takes standard output and standard error.
    pub(crate) fn take_output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.leader.stdout.take(), self.leader.stderr.take())
    }
}

#[cfg(unix)]
impl ProcessGroup {
    /// Waits until the leader has ended. Cancel-safe.
    pub(crate) async fn ended(&mut self) -> io::Result<()> {
        let Some(id) = self.id() else { return Ok(()) };
        // Without waiting for it: the ID of a group without processes may be reused.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(id), options)?.is_none() {
            self.children.recv().await;
        }
        Ok(())
    }

    /// Sends SIGTERM to all processes of the group.
    pub(crate) fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Suspends all processes of the group.
    pub(crate) fn suspend(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// Continues all suspended processes of the group.
    pub(crate) fn resume(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    /// Kills all processes of the group. Returns the exit status of the leader.
    pub(crate) async fn kill(mut self) -> io::Result<ExitStatus> {
        self.signal(rustix::process::Signal::KILL);
        self.leader.wait().await
    }

    fn signal(&self, signal: rustix::process::Signal) {
        if let Some(id) = self.id() {
            // Fails if all processes have ended.
            let _ = rustix::process::kill_process_group(id, signal);
        }
    }

    /// Returns the ID of the leader and the group; `None` after the leader was waited for.
    fn id(&self) -> Option<rustix::process::Pid> {
        self.leader.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?))
    }
}

#[cfg(unix)]
impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(rustix::process::Signal::KILL);
    }
}

#[cfg(not(unix))]
impl ProcessGroup {
    pub(crate) async fn ended(&mut self) -> io::Result<()> {
        self.leader.wait().await.map(drop)
    }

    // This system has no signals, so these do nothing.

    pub(crate) fn terminate(&self) {}

    pub(crate) fn suspend(&self) {}

    pub(crate) fn resume(&self) {}

    pub(crate) async fn kill(mut self) -> io::Result<ExitStatus> {
        // Fails if the process has ended.
        let _ = self.leader.start_kill();
        self.leader.wait().await
    }
}

#[cfg(all(test, unix))]
mod tests {
    use tokio::{
        io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
        time::timeout,
    };

    use super::*;

    const PATIENCE: Duration = Duration::from_mins(1);

    /// Starts a shell and waits for its first line.
    #[allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]
    async fn shell(script: &str) -> (ProcessGroup, BufReader<ChildStdout>) {
        let mut group = ProcessGroup::start(Command::new("sh").args(["-c", script])).await.unwrap();
        let mut output = BufReader::new(group.take_output().0.unwrap());
        let mut line = String::new();
        timeout(PATIENCE, output.read_line(&mut line)).await.unwrap().unwrap();
        assert_eq!(line, "up\n");
        (group, output)
    }

    /// Waits until no process holds the other end of the pipe.
    #[allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]
    async fn closed(mut output: BufReader<ChildStdout>) {
        timeout(PATIENCE, output.read_to_end(&mut Vec::new())).await.expect("all processes have ended").unwrap();
    }

    #[tokio::test]
    async fn executable_that_is_still_open_starts_when_it_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        std::fs::copy("/bin/sh", &path).unwrap();
        let open = std::fs::File::options().append(true).open(&path).unwrap();
        let mut command = Command::new(&path);
        command.args(["-c", "exit 5"]);
        let (group, ()) = tokio::join!(ProcessGroup::start(&mut command), async { drop(open) });
        let mut group = group.unwrap();
        timeout(PATIENCE, group.ended()).await.unwrap().unwrap();
        assert_eq!(group.kill().await.unwrap().code(), Some(5));
    }

    #[tokio::test]
    async fn dropped_group_ends_with_its_children() {
        let (group, output) = shell("echo up; sleep 1000 & wait").await;
        drop(group);
        closed(output).await;
    }

    #[tokio::test]
    async fn children_of_an_ended_leader_are_killed() {
        let (mut group, output) = shell("echo up; sleep 1000 & exit 3").await;
        timeout(PATIENCE, group.ended()).await.unwrap().unwrap();
        timeout(PATIENCE, group.ended()).await.expect("it has still ended").unwrap();
        assert_eq!(group.kill().await.unwrap().code(), Some(3));
        closed(output).await;
    }

    #[tokio::test]
    async fn killed_group_ends_although_it_ignores_sigterm() {
        let (mut group, output) = shell("trap '' TERM; (trap '' TERM; sleep 1000) & echo up; wait").await;
        group.terminate();
        assert!(timeout(Duration::from_millis(50), group.ended()).await.is_err());
        assert_eq!(group.kill().await.unwrap().code(), None);
        closed(output).await;
    }

    #[tokio::test]
    async fn suspended_group_ends_when_it_is_resumed() {
        let (mut group, output) = shell("echo up; exec sleep 1000").await;
        group.suspend();
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(group.id().unwrap()), options).unwrap().is_none() {
            timeout(PATIENCE, group.children.recv()).await.unwrap();
        }
        group.terminate();
        assert!(timeout(Duration::from_millis(100), group.ended()).await.is_err(), "it is suspended");
        group.resume();
        timeout(PATIENCE, group.ended()).await.unwrap().unwrap();
        assert!(!group.kill().await.unwrap().success());
        closed(output).await;
    }
}
