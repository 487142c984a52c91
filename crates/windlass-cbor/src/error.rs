//! The errors of conversions.

use thiserror::Error;

/// The error of a conversion. It names the place in the input.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The input is not CBOR, or has a value that JSON or Kubernetes does not have.
    #[error("cannot decode CBOR at byte {offset}: {problem}")]
    Cbor {
        /// The position in the input.
        offset: u64,
        /// The problem, a lower-case phrase.
        problem: Problem,
    },
    /// The input is not JSON.
    #[error("cannot encode JSON as CBOR at byte {offset}: {problem}")]
    Json {
        /// The position in the input.
        offset: usize,
        /// The problem, a lower-case phrase.
        problem: &'static str,
    },
}

/// The reason why CBOR is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The input ends within an item.
    #[error("the input ends within an item")]
    Truncated,
    /// Data follows the only item of a document.
    #[error("data after the end of the document")]
    Trailing,
    /// The first byte of an item is reserved.
    #[error("malformed item")]
    Malformed,
    /// A break is not within an item of indefinite length, or within a pair of a map.
    #[error("unexpected break")]
    Break,
    /// A chunk of a string is not a string of its type.
    #[error("malformed chunk of a string")]
    Chunk,
    /// The key of a map is not a string.
    #[error("key that is not a string")]
    Key,
    /// A map has a key twice.
    #[error("duplicate key in a map")]
    Duplicate,
    /// A string is not UTF-8.
    #[error("string that is not UTF-8")]
    Utf8,
    /// An integer does not fit into 64 bits with a sign.
    #[error("integer beyond 64 bits with a sign")]
    Integer,
    /// A number is not a number or infinite.
    #[error("number that is not finite")]
    Float,
    /// A simple value is not `true`, `false` or `null`.
    #[error("simple value that is not true, false or null")]
    Simple,
    /// The content of a tag has a wrong type or value, or the tag is not supported.
    #[error("invalid content of a tag, or tag that is not supported")]
    Tag,
    /// The nesting exceeds [`MAX_DEPTH`](crate::MAX_DEPTH).
    #[error("nesting of more than {} levels", crate::MAX_DEPTH)]
    Depth,
    /// Open maps have more than [`MAX_KEYS`](crate::MAX_KEYS) keys, or a key is longer than 1 MiB.
    #[error("too many keys, or key that is too long")]
    Keys,
}
