//! The errors of the commands.

use std::{io, path::PathBuf};

/// The reason why a command was not carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name is not valid in Kubernetes or cargo.
    #[error("{what} {name:?}: expected {expected}")]
    Name {
        /// The named item, such as "the kind".
        what: &'static str,
        /// The invalid name.
        name: String,
        /// The expected form.
        expected: &'static str,
    },
    /// The folder already holds a project.
    #[error("{}: the project {project} is already initialized; --force overwrites its files", path.display())]
    Initialized {
        /// The PROJECT file.
        path: PathBuf,
        /// The project's name.
        project: String,
    },
    /// The folder holds no project.
    #[error("{}: no such file; `windlass init --domain …` creates a project", .0.display())]
    NoProject(PathBuf),
    /// The PROJECT file does not have the format that windlass writes.
    #[error("reading {}", path.display())]
    Project {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The requested item already exists.
    #[error("{0}: already exists; --force overwrites its files")]
    Exists(String),
    /// The command requires something that is missing, or conflicts with the project.
    #[error("{what}: {needs}")]
    Needs {
        /// The requested item.
        what: String,
        /// The unmet requirement.
        needs: String,
    },
    /// Existing files would be overwritten.
    #[error("these files already exist; --force overwrites them: {}", names(.0))]
    WouldOverwrite(Vec<PathBuf>),
    /// A Rust file has a syntax error.
    #[error("{}, line {line}: invalid Rust syntax", path.display())]
    Syntax {
        /// The path of the file.
        path: PathBuf,
        /// The line, starting at 1.
        line: usize,
        /// The parser's error.
        source: syn::Error,
    },
    /// A YAML file could not be parsed.
    #[error("reading {}", path.display())]
    Yaml {
        /// The path of the file.
        path: PathBuf,
        /// The parser's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A TOML file could not be parsed.
    #[error("reading {}", path.display())]
    Toml {
        /// The path of the file.
        path: PathBuf,
        /// The parser's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A folder is not Windlass' repository.
    #[error("{}: not the Cargo.toml of the crate windlass; --windlass-path must be the root of Windlass' repository, which contains crates/windlass", manifest.display())]
    NoWindlass {
        /// The path of the expected file.
        manifest: PathBuf,
    },
    /// A file has no suitable place for an addition.
    #[error("{}: there is no {missing}, where `{addition}` belongs; add it manually", path.display())]
    NoPlace {
        /// The path of the file.
        path: PathBuf,
        /// The missing place.
        missing: String,
        /// The addition.
        addition: String,
    },
    /// A file could not be read or written.
    #[error("{doing} {}", path.display())]
    File {
        /// The failed operation.
        doing: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A template is invalid, which is a bug in this crate.
    #[error("rendering the template of {name}")]
    Template {
        /// The name of the template's file.
        name: String,
        /// The cause.
        source: minijinja::Error,
    },
}

fn names(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
