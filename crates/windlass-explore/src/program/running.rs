//! A running process with its children: in a process group, or in namespaces.

use std::{io, process::ExitStatus};

#[cfg(target_os = "linux")]
use rustix::process::{Signal, kill_process_group};
use tokio::{
    net::TcpListener,
    process::{ChildStderr, ChildStdout, Command},
};

use super::ProcessGroup;
#[cfg(target_os = "linux")]
use super::group::Attempts;
#[cfg(target_os = "linux")]
use crate::isolation::{Connector, Helper, Isolation, Sandbox};

/// A running process of the program. Dropping it kills the process with its children.
#[derive(Debug)]
pub(super) enum Running {
    /// A process that has left the group is not killed.
    Group(ProcessGroup),
    /// All processes of the PID namespace are killed.
    #[cfg(target_os = "linux")]
    Isolated(Box<Helper>),
}

impl Running {
    pub(super) async fn start(command: &mut Command) -> io::Result<Self> {
        ProcessGroup::start(command).await.map(Self::Group)
    }

    #[cfg(target_os = "linux")]
    pub(super) async fn start_isolated(
        isolation: &Isolation,
        sandbox: &Sandbox,
        command: &Command,
    ) -> io::Result<Self> {
        let mut attempts = Attempts::default();
        loop {
            match Helper::start(isolation, sandbox, command).await {
                Ok(helper) => return Ok(Self::Isolated(Box::new(helper))),
                Err(error) => attempts.failed(error).await?,
            }
        }
    }

    /// Takes standard output and standard error.
    pub(super) fn take_output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        match self {
            Self::Group(group) => group.take_output(),
            #[cfg(target_os = "linux")]
            Self::Isolated(helper) => {
                let supervisor = helper.supervisor();
                (supervisor.stdout.take(), supervisor.stderr.take())
            }
        }
    }

    /// Takes the listener in the network namespace.
    pub(super) fn take_listener(&mut self) -> Option<TcpListener> {
        match self {
            Self::Group(_) => None,
            #[cfg(target_os = "linux")]
            Self::Isolated(helper) => helper.take_listener(),
        }
    }

    #[cfg(target_os = "linux")]
    pub(super) fn connector(&self) -> Option<Connector> {
        match self {
            Self::Group(_) => None,
            Self::Isolated(helper) => Some(helper.connector().clone()),
        }
    }

    /// Waits until the process has ended. Cancel-safe.
    pub(super) async fn ended(&mut self) -> io::Result<()> {
        match self {
            Self::Group(group) => group.ended().await,
            #[cfg(target_os = "linux")]
            Self::Isolated(helper) => helper.ended().await,
        }
    }

    /// Sends SIGTERM to all processes of the group.
    pub(super) fn terminate(&self) {
        match self {
            Self::Group(group) => group.terminate(),
            #[cfg(target_os = "linux")]
            Self::Isolated(helper) => signal(helper, Signal::TERM),
        }
    }

    /// Suspends all processes of the group.
    pub(super) fn suspend(&self) {
        match self {
            Self::Group(group) => group.suspend(),
            #[cfg(target_os = "linux")]
            Self::Isolated(helper) => signal(helper, Signal::STOP),
        }
    }

    /// Continues all suspended processes of the group.
    pub(super) fn resume(&self) {
        match self {
            Self::Group(group) => group.resume(),
            #[cfg(target_os = "linux")]
            Self::Isolated(helper) => signal(helper, Signal::CONT),
        }
    }

    /// Kills the process with its children. Returns its exit status.
    pub(super) async fn kill(self) -> io::Result<ExitStatus> {
        match self {
            Self::Group(group) => group.kill().await,
            #[cfg(target_os = "linux")]
            Self::Isolated(helper) => helper.kill().await,
        }
    }
}

#[cfg(target_os = "linux")]
fn signal(helper: &Helper, signal: Signal) {
    // Fails if all processes have ended.
    let _ = kill_process_group(helper.group(), signal);
}
