//! Why there is no usable configuration.

use std::{fmt, io, path::PathBuf};

use thiserror::Error;
use windlass_api::BoxError;

use super::ProxyError;
use crate::auth::AuthError;

/// A configuration that cannot be had or used. No variant holds a secret.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("reading {}{}", path.display(), named_by.as_ref().map(|place| format!(", named by {place}")).unwrap_or_default())]
    Read {
        /// The file.
        path: PathBuf,
        /// Where its name stands, if that is a kubeconfig.
        named_by: Option<Box<Place>>,
        /// Why not.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("writing {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A kubeconfig is not YAML.
    #[error("{}: not YAML{}", place, at.map(|(line, column)| format!(", at line {line}, column {column}")).unwrap_or_default())]
    Syntax {
        /// The file.
        place: Box<Place>,
        /// Line and column of the first problem, both from 1. What stands there is left out: it may be a secret.
        at: Option<(u64, u64)>,
    },
    /// Something in a kubeconfig cannot be what it is.
    #[error("{place}: {problem}")]
    Invalid {
        /// File, entry and field.
        place: Box<Place>,
        /// What is wrong with it.
        problem: String,
    },
    /// Somebody else is changing a kubeconfig, or was stopped while doing so and left the lock behind.
    #[error("{} is there: somebody else is changing the kubeconfig", lock.display())]
    Locked {
        /// The lock file.
        lock: PathBuf,
    },
    /// There is a kubeconfig, but nothing says which context to use.
    #[error("{place}: no current-context is set")]
    NoContext {
        /// The file.
        place: Box<Place>,
    },
    /// Neither a kubeconfig nor a pod's service account was found.
    #[error("no configuration: neither $KUBECONFIG nor {} leads to a kubeconfig, and this is no pod with a service account", default_file.as_ref().map_or_else(|| "~/.kube/config".to_owned(), |path| path.display().to_string()))]
    Nowhere {
        /// Where the default kubeconfig would be.
        default_file: Option<PathBuf>,
    },
    /// The program does not run in a pod.
    #[error("not in a cluster: ${variable} is not set")]
    NotInCluster {
        /// The variable that every pod has.
        variable: &'static str,
    },
    /// The server's address has no scheme or no host.
    #[error("{server:?} is not the address of a server: expected http:// or https:// and a host")]
    Server {
        /// The address.
        server: String,
    },
    /// A variable of the environment names no proxy.
    #[error("${variable} names no proxy that can be used")]
    Proxy {
        /// The variable.
        variable: &'static str,
        /// What is wrong with it.
        source: ProxyError,
    },
    /// A certificate file holds none.
    #[error("the {what} holds no PEM certificate")]
    NoCertificate {
        /// Which one.
        what: &'static str,
    },
    /// Something about TLS cannot be used.
    #[error("the {what} cannot be used")]
    Tls {
        /// Which thing.
        what: String,
        /// Why not.
        source: BoxError,
    },
    /// The user agent cannot be sent.
    #[error("the user agent {user_agent:?} holds characters that no header can carry")]
    UserAgent {
        /// The text.
        user_agent: String,
    },
    /// The credentials cannot be used.
    #[error(transparent)]
    Auth(#[from] AuthError),
}

/// A place in a kubeconfig, as exact as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file; `None` for a document that came from none.
    pub file: Option<PathBuf>,
    /// Which entry: `user "admin"`.
    pub entry: Option<String>,
    /// Which field of it: `client-key-data`.
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
    /// `/home/a/.kube/config: user "admin": client-key-data`
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
