//! Errors of etcd, and their conversion to those of the storage.

use std::{error::Error as StdError, fmt, sync::Arc};

use windlass_server::storage::StorageError;

/// A gRPC status code.
pub(crate) mod code {
    pub(crate) const OK: u32 = 0;
    pub(crate) const CANCELED: u32 = 1;
    pub(crate) const INVALID_ARGUMENT: u32 = 3;
    pub(crate) const NOT_FOUND: u32 = 5;
    pub(crate) const PERMISSION_DENIED: u32 = 7;
    pub(crate) const OUT_OF_RANGE: u32 = 11;
    pub(crate) const UNAVAILABLE: u32 = 14;
    pub(crate) const UNAUTHENTICATED: u32 = 16;
}

const COMPACTED: &str = "etcdserver: mvcc: required revision has been compacted";
const FUTURE: &str = "etcdserver: mvcc: required revision is a future revision";
const LEASE_NOT_FOUND: &str = "etcdserver: requested lease not found";
const NO_LEADER: &str = "etcdserver: no leader";
const INVALID_TOKEN: &str = "etcdserver: invalid auth token";
const OLD_AUTH_REVISION: &str = "etcdserver: revision of auth store is old";

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

/// The index of `Unknown`.
const UNKNOWN: usize = 2;

/// An error status from etcd. Displayed as kube-apiserver shows it to its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) code: u32,
    pub(crate) message: String,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.starts_with("etcdserver: ") {
            return f.write_str(&self.message);
        }
        let code = CODES.get(self.code as usize).copied().map_or_else(|| format!("Code({})", self.code), str::to_owned);
        write!(f, "rpc error: code = {code} desc = {}", self.message)
    }
}

impl StdError for Status {}

impl Status {
    /// Reads the reason for which etcd has rejected or canceled a watch. It has the form of an error of Go's gRPC.
    pub(crate) fn of_reason(reason: &str) -> Self {
        let parts = reason.strip_prefix("rpc error: code = ").and_then(|rest| rest.split_once(" desc = "));
        let (code, message) = parts.unwrap_or(("Canceled", reason));
        let code = CODES.iter().position(|name| *name == code).unwrap_or(UNKNOWN);
        let message = if message.is_empty() { "etcdserver: watch canceled" } else { message };
        Self { code: u32::try_from(code).unwrap_or_default(), message: message.into() }
    }

    fn is(&self, code: u32, message: &str) -> bool {
        self.code == code && self.message == message
    }

    /// The history of the requested revision was compacted.
    pub(crate) fn is_compacted(&self) -> bool {
        self.is(code::OUT_OF_RANGE, COMPACTED)
    }

    /// The requested revision does not exist yet.
    pub(crate) fn is_future(&self) -> bool {
        self.is(code::OUT_OF_RANGE, FUTURE)
    }

    /// The lease of a put has expired. Nothing was changed.
    pub(crate) fn is_lease_missing(&self) -> bool {
        self.is(code::NOT_FOUND, LEASE_NOT_FOUND)
    }

    /// The member rejected the request, because it has no leader. It checks that before the request, so nothing was
    /// changed.
    pub(crate) fn is_no_leader(&self) -> bool {
        self.is(code::UNAVAILABLE, NO_LEADER)
    }

    /// The member rejected the token. It checks the token before the request, so nothing was changed.
    pub(crate) fn is_token_rejected(&self) -> bool {
        self.is(code::UNAUTHENTICATED, INVALID_TOKEN) || self.is(code::INVALID_ARGUMENT, OLD_AUTH_REVISION)
    }

    /// The member cannot serve now, and another one may. The request may have been executed.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.code == code::UNAVAILABLE || self.code == code::CANCELED
    }
}

/// The failure of one attempt at a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The request was not sent.
    #[error("the request was not sent")]
    Unsent(#[source] Box<dyn StdError + Send + Sync>),
    /// The connection failed. The request may have been executed.
    #[error("the connection was lost before the response")]
    Lost(#[source] Box<dyn StdError + Send + Sync>),
    /// There was no response in time. The request may have been executed.
    #[error("there was no response in time")]
    Timeout,
    /// etcd responded with an error.
    #[error(transparent)]
    Status(#[from] Status),
}

/// The error for an operation in etcd that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot {operation} in etcd at {endpoint}")]
pub struct EtcdError {
    /// The operation and its key.
    operation: String,
    /// The last endpoint that was tried, or all of them.
    endpoint: String,
    #[source]
    cause: Arc<dyn StdError + Send + Sync>,
    status: Option<Status>,
}

impl EtcdError {
    pub(crate) fn new(operation: impl Into<String>, endpoint: impl fmt::Display, cause: CallError) -> Self {
        let (operation, endpoint) = (operation.into(), endpoint.to_string());
        let status = match &cause {
            CallError::Status(status) => Some(status.clone()),
            _ => None,
        };
        Self { operation, endpoint, cause: Arc::new(cause), status }
    }

    pub(crate) fn status(&self) -> Option<&Status> {
        self.status.as_ref()
    }
}

impl From<EtcdError> for StorageError {
    fn from(error: EtcdError) -> Self {
        match error.status() {
            Some(status) => Self::Backend { message: status.to_string(), source: Box::new(error) },
            None => Self::Unavailable(Box::new(error)),
        }
    }
}

/// Returns an error with all causes in one line.
pub(crate) fn chain(error: &dyn StdError) -> String {
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

    fn status(code: u32, message: &str) -> Status {
        Status { code, message: message.into() }
    }

    #[test]
    fn errors_have_the_texts_of_kube_apiserver() {
        let large = EtcdError::new(
            "commit /registry/pods/a/b",
            "http://a:1",
            status(3, "etcdserver: request is too large").into(),
        );
        let error = StorageError::from(large);
        assert_eq!(error.to_string(), "etcdserver: request is too large");
        assert_eq!(
            chain(&error),
            "etcdserver: request is too large: cannot commit /registry/pods/a/b in etcd at http://a:1: \
             etcdserver: request is too large"
        );
        let other = StorageError::from(EtcdError::new("read /a", "http://a:1", status(8, "too much").into()));
        assert_eq!(other.to_string(), "rpc error: code = ResourceExhausted desc = too much");
        assert_eq!(status(99, "x").to_string(), "rpc error: code = Code(99) desc = x");
    }

    #[test]
    fn reason_of_a_canceled_watch_is_a_status() {
        let rejected = Status::of_reason("rpc error: code = Unauthenticated desc = etcdserver: invalid auth token");
        assert!(rejected.is_token_rejected());
        let denied = Status::of_reason("rpc error: code = PermissionDenied desc = etcdserver: permission denied");
        assert_eq!(denied, status(code::PERMISSION_DENIED, "etcdserver: permission denied"));
        assert_eq!(Status::of_reason(""), status(code::CANCELED, "etcdserver: watch canceled"));
        assert_eq!(Status::of_reason("mvcc: watcher"), status(code::CANCELED, "mvcc: watcher"));
    }

    #[test]
    fn lost_connection_is_unavailable_and_names_key_and_endpoint() {
        let lost = EtcdError::new("commit /registry/pods/a/b", "http://a:1", CallError::Lost("reset".into()));
        let error = StorageError::from(lost);
        assert!(matches!(error, StorageError::Unavailable(_)));
        assert_eq!(
            chain(&error),
            "the storage is unavailable: cannot commit /registry/pods/a/b in etcd at http://a:1: \
             the connection was lost before the response: reset"
        );
    }

    #[test]
    fn only_rejections_before_execution_allow_another_attempt() {
        assert!(status(14, "etcdserver: no leader").is_no_leader());
        assert!(status(16, "etcdserver: invalid auth token").is_token_rejected());
        assert!(status(3, "etcdserver: revision of auth store is old").is_token_rejected());
        for message in ["etcdserver: request timed out", "etcdserver: leader changed", "etcdserver: server stopped"] {
            let ambiguous = status(14, message);
            assert!(ambiguous.is_unavailable() && !ambiguous.is_no_leader() && !ambiguous.is_token_rejected());
        }
    }
}
