//! The interface between an API server and the containers of pods.

use std::{fmt, time::Duration};

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;

/// The containers of a cluster without kubelets. An API server asks it for the results of commands and for logs.
///
/// The server itself decides whether a container runs, by the status of its pod.
pub trait ContainerRuntime: fmt::Debug + Send + Sync {
    /// Reports whether the kubelet of a node can be reached.
    fn is_reachable(&self, node: &Value) -> bool;

    /// Runs a command in a container. Returns `None` if the container has no such executable.
    ///
    /// # Errors
    /// Returns a message if the command cannot be run for another reason.
    fn exec(&self, container: &ContainerId<'_>, command: &[&str]) -> Result<Option<CommandResult>, String>;

    /// Returns the log of a container, or of its previous run.
    ///
    /// # Errors
    /// Returns a message if the log cannot be read.
    fn log(&self, container: &ContainerId<'_>, previous: bool) -> Result<ContainerLog, String>;
}

/// A container of a pod.
#[derive(Clone, Copy, Debug)]
pub struct ContainerId<'a> {
    /// The pod.
    pub pod: &'a Value,
    /// The name of the container.
    pub name: &'a str,
    /// The current time.
    pub now: Timestamp,
}

/// The result of a command in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandResult {
    /// The output on standard output.
    pub stdout: Bytes,
    /// The output on standard error.
    pub stderr: Bytes,
    /// The exit code.
    pub exit_code: u8,
    /// The time that the command takes.
    pub delay: Duration,
}

/// The log of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerLog {
    /// The lines.
    pub text: Bytes,
    /// The time between two lines. The first one is written when the container starts.
    pub interval: Duration,
}
