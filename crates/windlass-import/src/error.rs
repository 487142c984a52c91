//! What goes wrong.

/// Why a file is not imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is neither YAML nor JSON.
    #[error("{file}: it cannot be read as YAML: {why}")]
    Yaml {
        /// The file.
        file: String,
        /// The parser's words.
        why: String,
    },
    /// A document is no definition that an API server takes.
    #[error("{file}, document {document}: {path}: {why}")]
    Definition {
        /// The file.
        file: String,
        /// Which of its documents, from 1 on.
        document: usize,
        /// Where in it: `spec.versions[0].schema`.
        path: String,
        /// What is wrong there.
        why: String,
    },
    /// A source does not say what its types define.
    #[error("the types of {what}: {why}")]
    Model {
        /// The module or type.
        what: String,
        /// What is wrong.
        why: String,
    },
}
