//! Programs that hand out credentials: the protocol `client.authentication.k8s.io`, versions v1 and v1beta1.
//!
//! A program is run when there is no credential yet, when the last one has expired, and when the server has refused it.
//! It is run once, however many requests wait for it.

mod plugin;
mod policy;

use std::io;

use serde_json::Value;
use thiserror::Error;

pub(super) use plugin::Plugin;
pub use policy::PluginPolicy;

use super::Secret;

/// A program that hands out credentials. `Debug` hides the values of its variables.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecConfig {
    /// A name to look up in `$PATH`, or a path.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables beside those of this process.
    pub env: Vec<(String, Secret)>,
    /// The version of the protocol.
    pub version: ExecVersion,
    /// What to tell people who lack the program.
    pub install_hint: Option<String>,
    /// Whether it may ask people.
    pub interaction: Interaction,
    /// What it is told of the server, in the words of the protocol; `None` for nothing.
    pub cluster: Option<Value>,
    /// Whether it may run.
    pub policy: PluginPolicy,
}

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecVersion {
    /// `client.authentication.k8s.io/v1`
    V1,
    /// `client.authentication.k8s.io/v1beta1`
    V1Beta1,
}

/// Whether a program may ask people, on the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interaction {
    /// It gets no standard input.
    Never,
    /// It gets the standard input if that is a terminal.
    IfAvailable,
    /// It is not run unless the standard input is a terminal.
    Always,
}

/// Why a program gave no credentials. What it has written is left out: it may be a secret.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The policy forbids all programs.
    #[error("no plugin is allowed")]
    Denied,
    /// The policy does not name the program.
    #[error("{path:?} is not on the list of plugins that are allowed")]
    NotListed {
        /// The program, as far as it could be found.
        path: String,
    },
    /// There is no such program.
    #[error("there is no such program{}", hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
    Missing {
        /// What the configuration says to people who lack it; left out when it was said ten times within an hour.
        hint: Option<String>,
    },
    /// The program cannot be run.
    #[error("it cannot be run")]
    Run(#[source] io::Error),
    /// It needs to ask people, and nobody is there.
    #[error("it has to ask, and the standard input is not a terminal")]
    NoTerminal,
    /// The program has failed.
    #[error("it has failed{}", code.map(|code| format!(" with exit code {code}")).unwrap_or_default())]
    Failed {
        /// Its exit code; `None` when a signal ended it.
        code: Option<i32>,
    },
    /// It has not written what the protocol says.
    #[error("its answer is not an ExecCredential of {version}: {problem}", version = version.as_str())]
    Answer {
        /// The version that it was asked to speak.
        version: ExecVersion,
        /// What is wrong.
        problem: String,
    },
}

impl ExecConfig {
    /// A program without arguments, which may not ask.
    pub fn new(command: impl Into<String>, version: ExecVersion) -> Self {
        Self {
            command: command.into(),
            args: Vec::new(),
            env: Vec::new(),
            version,
            install_hint: None,
            interaction: Interaction::Never,
            cluster: None,
            policy: PluginPolicy::AllowAll,
        }
    }

    /// The same, with arguments.
    #[must_use]
    pub fn with_args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.args = args.into_iter().map(Into::into).collect();
        self
    }
}

impl ExecVersion {
    pub(crate) const ALL: [Self; 2] = [Self::V1, Self::V1Beta1];

    /// `client.authentication.k8s.io/v1`
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "client.authentication.k8s.io/v1",
            Self::V1Beta1 => "client.authentication.k8s.io/v1beta1",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.as_str() == text)
    }
}

impl Interaction {
    pub(crate) const ALL: [Self; 3] = [Self::Never, Self::IfAvailable, Self::Always];

    /// `IfAvailable`
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Never => "Never",
            Self::IfAvailable => "IfAvailable",
            Self::Always => "Always",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }
}

#[cfg(test)]
mod tests;
