//! The errors of calls.

use std::{error::Error as StdError, fmt};

/// The status codes.
pub mod code {
    /// Success.
    pub const OK: u32 = 0;
    /// The call was canceled.
    pub const CANCELED: u32 = 1;
    /// An error without a code of its own.
    pub const UNKNOWN: u32 = 2;
    /// The request is invalid.
    pub const INVALID_ARGUMENT: u32 = 3;
    /// The subject of the request does not exist.
    pub const NOT_FOUND: u32 = 5;
    /// The client may not make the call.
    pub const PERMISSION_DENIED: u32 = 7;
    /// A value is outside of the permitted range.
    pub const OUT_OF_RANGE: u32 = 11;
    /// The server does not have the method.
    pub const UNIMPLEMENTED: u32 = 12;
    /// The server cannot serve now.
    pub const UNAVAILABLE: u32 = 14;
    /// The client is not authenticated.
    pub const UNAUTHENTICATED: u32 = 16;
}

/// The names of the status codes in the errors of Go's gRPC.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// An error status from the server. Displayed as by Go's gRPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// One of the constants in [`code`].
    pub code: u32,
    /// The message of the server.
    pub message: String,
}

impl Status {
    /// Parses an error of Go's gRPC. Returns `None` for another text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (name, message) = text.strip_prefix("rpc error: code = ")?.split_once(" desc = ")?;
        let known = CODES.iter().position(|known| *known == name).and_then(|at| u32::try_from(at).ok());
        Some(Self { code: known.unwrap_or(code::UNKNOWN), message: message.into() })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, message } = self;
        match CODES.get(*code as usize) {
            Some(name) => write!(f, "rpc error: code = {name} desc = {message}"),
            None => write!(f, "rpc error: code = Code({code}) desc = {message}"),
        }
    }
}

impl StdError for Status {}

/// The failure of one attempt at a call.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The request was not sent.
    #[error("the request was not sent")]
    Unsent(#[source] Box<dyn StdError + Send + Sync>),
    /// The connection failed. The request may have been executed.
    #[error("the connection was lost before the response")]
    Lost(#[source] Box<dyn StdError + Send + Sync>),
    /// There was no response in time. The request may have been executed.
    #[error("there was no response in time")]
    Timeout,
    /// The server responded with an error.
    #[error(transparent)]
    Status(#[from] Status),
}

/// Returns an error with all causes in one line.
#[must_use]
pub fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_has_the_form_of_go() {
        for (code, message, text) in [
            (5, "missing", "rpc error: code = NotFound desc = missing"),
            (16, "", "rpc error: code = Unauthenticated desc = "),
            (99, "x", "rpc error: code = Code(99) desc = x"),
        ] {
            let status = Status { code, message: message.into() };
            assert_eq!(status.to_string(), text);
            let parsed = Status::parse(text).unwrap();
            assert_eq!(parsed.code, if code == 99 { code::UNKNOWN } else { code });
            assert_eq!(parsed.message, message);
        }
        assert_eq!(Status::parse("another error"), None);
    }

    #[test]
    fn chain_has_all_causes() {
        let error = CallError::Lost("reset".into());
        assert_eq!(chain(&error), "the connection was lost before the response: reset");
    }
}
