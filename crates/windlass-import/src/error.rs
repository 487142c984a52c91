//! The errors of imports.

/// The error for a file that cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is neither YAML nor JSON.
    #[error("{file}: it cannot be read as YAML: {why}")]
    Yaml {
        /// The file.
        file: String,
        /// The parser's message.
        why: String,
    },
    /// A document is not a valid CRD.
    #[error("{file}, document {document}: {path}: {why}")]
    Definition {
        /// The file.
        file: String,
        /// The number of the document in the file, starting at 1.
        document: usize,
        /// The path of the error: `spec.versions[0].schema`.
        path: String,
        /// The error.
        why: String,
    },
    /// A source does not define the types of a CRD.
    #[error("the types of {what}: {why}")]
    Model {
        /// The module or type.
        what: String,
        /// The error.
        why: String,
    },
}
