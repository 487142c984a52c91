//! The errors.

use std::{io, path::PathBuf};

use crate::plan::PlanError;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error that ends an exploration. Findings are not errors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or a directory cannot be used.
    #[error("cannot read {path}", path = path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file or a directory cannot be written.
    #[error("cannot write {path}", path = path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file has invalid content.
    #[error("{path}: {reason}", path = path.display())]
    Invalid {
        /// The path.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The program cannot be started.
    #[error("cannot start {program}")]
    Start {
        /// The program.
        program: String,
        /// The cause.
        source: io::Error,
    },
    /// The program cannot be isolated.
    #[error("cannot isolate the program: {0}")]
    Isolation(String),
    /// An in-cluster environment needs isolation.
    #[error("an in-cluster environment needs a program that is isolated")]
    NotIsolated,
    /// The cluster cannot be started or used.
    #[error("cluster: {0}")]
    Cluster(String),
    /// A plan names a step that the scenario does not have.
    #[error("the plan names step {step}, but the last step is {last}")]
    NoSuchStep {
        /// The step.
        step: usize,
        /// The number of the last step.
        last: usize,
    },
    /// There is no custom resource to change.
    #[error(
        "no custom resource to change: the steps apply none of a kind in the CRDs, or it does not exist at the end"
    )]
    NothingToMutate,
    /// A run without faults failed.
    #[error("the run without faults failed: {0}")]
    CleanRun(String),
    /// The text of a plan is invalid.
    #[error(transparent)]
    Plan(#[from] PlanError),
}
