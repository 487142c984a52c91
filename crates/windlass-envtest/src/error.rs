//! Why an environment cannot do what it is asked.

use std::{io, path::PathBuf};

use thiserror::Error as ThisError;
use windlass_api::BoxError;

use crate::Missing;

/// Why an environment cannot be started, furnished or stopped.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("reading {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What was given to be installed is no manifest.
    #[error("reading manifests{}", origin.as_ref().map(|path| format!(" from {}", path.display())).unwrap_or_default())]
    Manifest {
        /// The file, where they come from one.
        origin: Option<PathBuf>,
        /// Why not.
        source: BoxError,
    },
    /// The server refused something, or was not reached.
    #[error("{doing}")]
    Client {
        /// What was being done: `installing CustomResourceDefinition websites.example.com`.
        doing: String,
        /// Why not.
        source: Box<windlass_client::Error>,
    },
    /// There is no socket, certificate or address.
    #[error("{doing}")]
    Serve {
        /// What was being done: `listening on 127.0.0.1`.
        doing: &'static str,
        /// Why not.
        source: BoxError,
    },
    /// Something that only an environment has that was built so.
    #[error("the environment {0}")]
    Lacks(&'static str),
    /// A program called what its roles do not ask for.
    #[error("called, and asked for by no role:{0}")]
    NotAskedFor(Missing),
    /// A manager of the environment has failed, or panicked.
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
