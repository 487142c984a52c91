//! The errors of conversions.

use std::{borrow::Cow, fmt};

use thiserror::Error;

/// The error of a conversion. It names the place in the input.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The bytes do not start with `k8s\0`.
    #[error("cannot decode the value: it does not start with the prefix \"k8s\\0\" of protobuf")]
    Prefix,
    /// The input is longer than 4 GiB.
    #[error("cannot convert {length} bytes: the limit is {} bytes", u32::MAX)]
    TooLong {
        /// The length of the input.
        length: usize,
    },
    /// The table has no message for the kind, or the object has no kind.
    #[error("cannot convert the kind {kind:?} of {api_version:?}: it has no protobuf encoding")]
    UnknownKind {
        /// The API version of the object.
        api_version: String,
        /// The kind of the object.
        kind: String,
    },
    /// The bytes are not the protobuf encoding of the message.
    #[error("cannot decode {message}{} at byte {offset}: {problem}", Suffix(*field))]
    Protobuf {
        /// The name of the message.
        message: &'static str,
        /// The JSON name of the field, if the problem is in a known field.
        field: Option<&'static str>,
        /// The position in the input.
        offset: usize,
        /// The problem, a lower-case phrase.
        problem: Cow<'static, str>,
    },
    /// The input is not JSON.
    #[error("cannot parse JSON at byte {offset}: {problem}")]
    Syntax {
        /// The position in the input.
        offset: usize,
        /// The problem, a lower-case phrase.
        problem: &'static str,
    },
    /// A JSON value has the wrong type.
    #[error("cannot encode {}: {problem}", Path(path))]
    Value {
        /// The path of the value, such as `spec.containers[0].image`. Empty for the object itself.
        path: String,
        /// The problem, a lower-case phrase.
        problem: Cow<'static, str>,
    },
}

/// The name of a field after the name of its message.
struct Suffix(Option<&'static str>);

/// The path of a value; the path of the object itself is empty.
struct Path<'a>(&'a str);

impl fmt::Display for Suffix {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |field| write!(formatter, ".{field}"))
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_empty() { "the object" } else { self.0 })
    }
}
