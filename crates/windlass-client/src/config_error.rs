//! The errors of configurations.

use std::{fmt, io, path::PathBuf};

use thiserror::Error;
use windlass_api::BoxError;

use crate::{auth::AuthError, connection_options::ProxyError};

/// The error of a configuration that cannot be loaded or used. No variant contains a secret.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("reading {}{}", path.display(), named_by.as_ref().map(|place| format!(", named by {place}")).unwrap_or_default())]
    Read {
        /// The file.
        path: PathBuf,
        /// The place in the kubeconfig that refers to the file, if any.
        named_by: Option<Box<Place>>,
        /// The cause.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("writing {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A kubeconfig is not valid YAML.
    #[error("{}: not YAML{}", place, at.map(|(line, column)| format!(", at line {line}, column {column}")).unwrap_or_default())]
    Syntax {
        /// The file.
        place: Box<Place>,
        /// The line and column of the first problem, both starting at 1. The text itself is omitted, because it may
        /// contain a secret.
        at: Option<(u64, u64)>,
    },
    /// A value in a kubeconfig is invalid.
    #[error("{place}: {problem}")]
    Invalid {
        /// The file, entry and field.
        place: Box<Place>,
        /// The problem.
        problem: String,
    },
    /// Another program is changing the kubeconfig, or was stopped while doing so and left its lock file.
    #[error("{} exists: another program is changing the kubeconfig", lock.display())]
    Locked {
        /// The lock file.
        lock: PathBuf,
    },
    /// The kubeconfig has no current context, and none is selected.
    #[error("{place}: no current-context is set")]
    NoContext {
        /// The file.
        place: Box<Place>,
    },
    /// Neither a kubeconfig nor a pod's service account exists.
    #[error("no configuration: neither $KUBECONFIG nor {} names an existing kubeconfig, and the program does not run in a pod with a service account", default_file.as_ref().map_or_else(|| "~/.kube/config".to_owned(), |path| path.display().to_string()))]
    NotFound {
        /// The path of the default kubeconfig.
        default_file: Option<PathBuf>,
    },
    /// The program does not run in a pod.
    #[error("not in a cluster: ${variable} is not set")]
    NotInCluster {
        /// The missing environment variable, which every pod has.
        variable: &'static str,
    },
    /// The server's address lacks a scheme or a host.
    #[error("{server:?} is not the address of a server: expected http:// or https:// and a host")]
    Server {
        /// The address.
        server: String,
    },
    /// An environment variable contains an invalid proxy address.
    #[error("${variable} does not name a usable proxy")]
    Proxy {
        /// The variable.
        variable: &'static str,
        /// The cause.
        source: ProxyError,
    },
    /// A certificate file contains no certificate.
    #[error("the {what} holds no PEM certificate")]
    NoCertificate {
        /// The certificate.
        what: &'static str,
    },
    /// The program has no TLS cryptography.
    #[error(transparent)]
    NoTlsProvider(#[from] windlass_tls::NoProvider),
    /// A TLS option is invalid.
    #[error("the {what} cannot be used")]
    Tls {
        /// The option.
        what: String,
        /// The cause.
        source: BoxError,
    },
    /// The user agent contains characters that are invalid in a header.
    #[error("the user agent {user_agent:?} contains characters that are invalid in a header")]
    UserAgent {
        /// The text.
        user_agent: String,
    },
    /// The credentials cannot be used.
    #[error(transparent)]
    Auth(#[from] AuthError),
}

/// A place in a kubeconfig, as precise as possible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file; `None` for a document that is not in a file.
    pub file: Option<PathBuf>,
    /// The entry, for example `user "admin"`.
    pub entry: Option<String>,
    /// The field of the entry, for example `client-key-data`.
    pub field: Option<String>,
}

impl ConfigError {
    pub(crate) fn tls(what: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Tls { what: what.into(), source: source.into() }
    }
}

impl Place {
    pub(crate) fn file(file: Option<PathBuf>) -> Self {
        Self { file, ..Self::default() }
    }

    pub(crate) fn entry(&self, entry: impl Into<String>) -> Self {
        Self { entry: Some(entry.into()), ..self.clone() }
    }

    pub(crate) fn field(&self, field: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..self.clone() }
    }

    pub(crate) fn invalid(self, problem: impl Into<String>) -> ConfigError {
        ConfigError::Invalid { place: Box::new(self), problem: problem.into() }
    }
}

impl fmt::Display for Place {
    /// Writes `/home/a/.kube/config: user "admin": client-key-data`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}", file.display())?,
            None => f.write_str("kubeconfig")?,
        }
        for part in [&self.entry, &self.field].into_iter().flatten() {
            write!(f, ": {part}")?;
        }
        Ok(())
    }
}
