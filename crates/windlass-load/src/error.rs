//! The errors of workloads and runs.

use std::{io, path::PathBuf};

use thiserror::Error;

/// An error that prevents a run, or that makes its report unusable. Failed requests are part of the results instead.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The file of a workload cannot be read.
    #[error("cannot read workload {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A workload is invalid.
    #[error("workload {file}: {message}")]
    Workload {
        /// The file or the name of the built-in workload.
        file: String,
        /// The place in the file and the cause.
        message: String,
    },
    /// The cluster cannot be used.
    #[error("cannot {task}")]
    Cluster {
        /// The task that failed.
        task: String,
        /// The cause.
        source: Box<windlass_client::Error>,
    },
    /// A report cannot be written.
    #[error("cannot write {}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// A result with the errors of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn cluster(task: impl Into<String>) -> impl FnOnce(windlass_client::Error) -> Self {
        let task = task.into();
        |source| Self::Cluster { task, source: Box::new(source) }
    }
}
