//! Why a configuration cannot be used.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use thiserror::Error;
use windlass_api::BoxError;

/// Why a configuration cannot be used. It says where.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// A file cannot be read.
    #[error("reading the configuration {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What is in a file is no configuration.
    #[error("{place}{reason}")]
    Document {
        /// Where.
        place: Place,
        /// Why not.
        reason: String,
    },
    /// A value makes no sense, by itself or beside others.
    #[error("{}{field}: {reason}", prefix(file.as_deref()))]
    Invalid {
        /// The file that was last laid over the others; `None` when there was none.
        file: Option<PathBuf>,
        /// `leaderElection.leaseDuration`
        field: String,
        /// Why not.
        reason: String,
    },
    /// A variable of the environment makes no sense.
    #[error("${name}: {reason}")]
    Variable {
        /// Its name.
        name: &'static str,
        /// Why not.
        reason: String,
    },
    /// The log has been set up already.
    #[error("setting up the log")]
    Log {
        /// Why not.
        source: BoxError,
    },
}

/// A place in a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// `None`: it is in no file.
    pub file: Option<PathBuf>,
    /// From 1 on.
    pub line_and_column: Option<(u64, u64)>,
    /// `leaderElection.leaseDuration`; empty for the whole document.
    pub field: String,
}

impl ConfigurationError {
    /// The same, of what was read from a file.
    pub(super) fn in_file(mut self, path: &Path) -> Self {
        match &mut self {
            Self::Document { place: Place { file, .. }, .. } | Self::Invalid { file, .. } => {
                *file = Some(path.to_owned());
            }
            Self::Read { .. } | Self::Variable { .. } | Self::Log { .. } => {}
        }
        self
    }
}

fn prefix(file: Option<&Path>) -> String {
    file.map(|file| format!("{}: ", file.display())).unwrap_or_default()
}

impl fmt::Display for Place {
    /// `config.yaml:3:5: leaderElection.id: `
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line_and_column) {
            (Some(file), Some((line, column))) => write!(f, "{}:{line}:{column}: ", file.display())?,
            (Some(file), None) => write!(f, "{}: ", file.display())?,
            (None, Some((line, column))) => write!(f, "line {line}, column {column}: ")?,
            (None, None) => {}
        }
        if self.field.is_empty() { Ok(()) } else { write!(f, "{}: ", self.field) }
    }
}
