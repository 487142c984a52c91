//! Credential plugins: external programs that implement the protocol `client.authentication.k8s.io`, version v1 or
//! v1beta1.
//!
//! A plugin is run when there is no credential yet, when the last one has expired, and when the server has rejected it.
//! Concurrent requests share one run.

mod policy;

use std::io;

use serde_json::Value;
use thiserror::Error;

pub use policy::PluginPolicy;

use crate::secret::Secret;

/// The configuration of a credential plugin. `Debug` hides the values of its environment variables.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecConfig {
    /// The program: a name to search in `$PATH`, or a path.
    pub command: String,
    /// The arguments.
    pub args: Vec<String>,
    /// Additional environment variables.
    pub env: Vec<(String, Secret)>,
    /// The protocol version.
    pub version: ExecVersion,
    /// The installation hint for users who lack the program.
    pub install_hint: Option<String>,
    /// The permission to prompt the user.
    pub interaction: Interaction,
    /// The description of the cluster that the program receives, in the format of the protocol; `None` for nothing.
    pub cluster: Option<Value>,
    /// The policy that decides whether the program may run.
    pub policy: PluginPolicy,
}

/// The version of the plugin protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecVersion {
    /// `client.authentication.k8s.io/v1`
    V1,
    /// `client.authentication.k8s.io/v1beta1`
    V1Beta1,
}

/// The permission of a plugin to prompt the user on the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interaction {
    /// The plugin gets no standard input.
    Never,
    /// The plugin gets the standard input if that is a terminal.
    IfAvailable,
    /// The plugin is run only if the standard input is a terminal.
    Always,
}

/// The reason why a plugin returned no credentials. It does not contain the plugin's output, which may be a secret.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The policy forbids all plugins.
    #[error("the policy forbids all plugins")]
    Denied,
    /// The policy does not list the plugin.
    #[error("{path:?} is not in the list of allowed plugins")]
    NotListed {
        /// The program's path, as far as it could be resolved.
        path: String,
    },
    /// The program does not exist.
    #[error("the program does not exist{}", hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
    Missing {
        /// The installation hint from the configuration. Omitted after it was given ten times within an hour.
        hint: Option<String>,
    },
    /// The program could not be run.
    #[error("it cannot be run")]
    Run(#[source] io::Error),
    /// The plugin must prompt the user, but there is no terminal.
    #[error("it must prompt the user, but the standard input is not a terminal")]
    NoTerminal,
    /// The program failed.
    #[error("it failed{}", code.map(|code| format!(" with exit code {code}")).unwrap_or_default())]
    Failed {
        /// The exit code; `None` if a signal ended the program.
        code: Option<i32>,
    },
    /// The output does not conform to the protocol.
    #[error("its answer is not an ExecCredential of {version}: {problem}", version = version.as_str())]
    Answer {
        /// The requested protocol version.
        version: ExecVersion,
        /// The problem.
        problem: String,
    },
}

impl ExecConfig {
    /// Creates the configuration of a plugin without arguments that may not prompt the user.
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

    /// Returns this configuration with arguments.
    #[must_use]
    pub fn with_args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.args = args.into_iter().map(Into::into).collect();
        self
    }
}

impl ExecVersion {
    pub(crate) const ALL: [Self; 2] = [Self::V1, Self::V1Beta1];

    /// Returns the version as in a kubeconfig, `client.authentication.k8s.io/v1`.
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

    /// Returns the mode as in a kubeconfig, `IfAvailable`.
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
