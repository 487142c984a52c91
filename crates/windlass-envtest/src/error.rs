//! The error type of environments.

use std::{fmt, io, path::PathBuf};

use thiserror::Error as ThisError;
use windlass_api::BoxError;

/// An error while starting, setting up or stopping an environment.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("reading {}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A text or file to install is not a valid manifest.
    #[error("reading manifests{}", origin.as_ref().map(|path| format!(" from {}", path.display())).unwrap_or_default())]
    Manifest {
        /// The file, if the manifests come from one.
        origin: Option<PathBuf>,
        /// The cause.
        source: BoxError,
    },
    /// The server rejected a request, or could not be reached.
    #[error("{doing}")]
    Client {
        /// The failed operation: `installing CustomResourceDefinition websites.example.com`.
        doing: String,
        /// The cause.
        source: Box<windlass_client::Error>,
    },
    /// A socket, a certificate or an address is not available.
    #[error("{doing}")]
    Serve {
        /// The failed operation: `listening on 127.0.0.1`.
        doing: &'static str,
        /// The cause.
        source: BoxError,
    },
    /// The environment was built without a feature that the call needs.
    #[error("the environment {0}")]
    Unsupported(&'static str),
    /// A program sent requests that its roles do not allow.
    #[error("requests that no role allows:{0}")]
    MissingPermissions(MissingPermissions),
    /// A manager of the environment has failed or panicked.
    #[error("a manager has failed")]
    Manager(#[source] BoxError),
}

impl Error {
    pub(crate) fn client(doing: impl Into<String>) -> impl FnOnce(windlass_client::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Client { doing, source: Box::new(source) }
    }

    pub(crate) fn serve<E: Into<BoxError>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Serve { doing, source: source.into() }
    }
}

/// The requests that no role allows, and the rules to add. Its `Debug` format equals `Display`, so that `unwrap` of
/// [`Permissions::check`](crate::Permissions::check) prints it readably.
pub struct MissingPermissions {
    pub(crate) missing: Vec<String>,
    pub(crate) origin: Option<String>,
    pub(crate) role: Vec<String>,
    pub(crate) attributes: Vec<String>,
}

impl fmt::Display for MissingPermissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list(f: &mut fmt::Formatter<'_>, lines: &[String]) -> fmt::Result {
            lines.iter().try_for_each(|line| write!(f, "\n  {line}"))
        }
        list(f, &self.missing)?;
        write!(f, "\nadd to the rules of {}:", self.origin.as_deref().unwrap_or("a role"))?;
        list(f, &self.role)?;
        write!(f, "\nor, if `windlass generate rbac` writes the role, to the reconciler:")?;
        list(f, &self.attributes)
    }
}

impl fmt::Debug for MissingPermissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
