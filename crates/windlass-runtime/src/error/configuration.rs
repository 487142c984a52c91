//! Errors of configurations.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use thiserror::Error;
use windlass_api::BoxError;

/// The reason why a configuration cannot be used, with its place.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// A file cannot be read.
    #[error("reading the configuration {}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The content of a file or text is not a valid configuration.
    #[error("{place}{reason}")]
    Document {
        /// The place of the error.
        place: Place,
        /// The cause.
        reason: String,
    },
    /// A value is invalid, by itself or in combination with others.
    #[error("{}{field}: {reason}", prefix(file.as_deref()))]
    Invalid {
        /// The last applied file; `None` if no file was read.
        file: Option<PathBuf>,
        /// The path of the field: `leaderElection.leaseDuration`
        field: String,
        /// The cause.
        reason: String,
    },
    /// An environment variable is invalid.
    #[error("${name}: {reason}")]
    Variable {
        /// The name of the variable.
        name: &'static str,
        /// The cause.
        reason: String,
    },
    /// The log is already initialized.
    #[error("setting up the log")]
    Log {
        /// The cause.
        source: BoxError,
    },
}

/// A place in a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// `None`: the text does not come from a file.
    pub file: Option<PathBuf>,
    /// Line and column, both starting at 1.
    pub line_and_column: Option<(u64, u64)>,
    /// The path of the field, for example `leaderElection.leaseDuration`; empty for the whole document.
    pub field: String,
}

impl ConfigurationError {
    /// Returns the same place in a file.
    pub(crate) fn in_file(mut self, path: &Path) -> Self {
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
