//! Errors of etcd, and their conversion to those of the storage.

use std::{error::Error as StdError, fmt, sync::Arc};

use windlass_grpc::{CallError, Status, code};
use windlass_server::storage::StorageError;

const COMPACTED: &str = "etcdserver: mvcc: required revision has been compacted";
const FUTURE: &str = "etcdserver: mvcc: required revision is a future revision";
const LEASE_NOT_FOUND: &str = "etcdserver: requested lease not found";
const NO_LEADER: &str = "etcdserver: no leader";
const INVALID_TOKEN: &str = "etcdserver: invalid auth token";
const OLD_AUTH_REVISION: &str = "etcdserver: revision of auth store is old";

/// An error status, displayed as kube-apiserver shows it to its clients.
#[derive(Debug)]
struct Shown(Status);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.message.starts_with("etcdserver: ") { f.write_str(&self.0.message) } else { self.0.fmt(f) }
    }
}

impl StdError for Shown {}

/// Returns the reason for which etcd has rejected or canceled a watch. It has the form of an error of Go's gRPC.
pub(crate) fn status_of_reason(reason: &str) -> Status {
    let message = if reason.is_empty() { "etcdserver: watch canceled" } else { reason };
    Status::parse(reason).unwrap_or_else(|| Status { code: code::CANCELED, message: message.into() })
}

/// The meaning of etcd's error statuses.
pub(crate) trait EtcdStatus {
    /// The history of the requested revision was compacted.
    fn is_compacted(&self) -> bool;

    /// The requested revision does not exist yet.
    fn is_future(&self) -> bool;

    /// The lease of a put has expired. Nothing was changed.
    fn is_lease_missing(&self) -> bool;

    /// The member rejected the request, because it has no leader. It checks that before the request, so nothing was
    /// changed.
    fn is_no_leader(&self) -> bool;

    /// The member rejected the token. It checks the token before the request, so nothing was changed.
    fn is_token_rejected(&self) -> bool;

    /// The member cannot serve now, and another one may. The request may have been executed.
    fn is_unavailable(&self) -> bool;
}

fn is(status: &Status, code: u32, message: &str) -> bool {
    status.code == code && status.message == message
}

impl EtcdStatus for Status {
    fn is_compacted(&self) -> bool {
        is(self, code::OUT_OF_RANGE, COMPACTED)
    }

    fn is_future(&self) -> bool {
        is(self, code::OUT_OF_RANGE, FUTURE)
    }

    fn is_lease_missing(&self) -> bool {
        is(self, code::NOT_FOUND, LEASE_NOT_FOUND)
    }

    fn is_no_leader(&self) -> bool {
        is(self, code::UNAVAILABLE, NO_LEADER)
    }

    fn is_token_rejected(&self) -> bool {
        is(self, code::UNAUTHENTICATED, INVALID_TOKEN) || is(self, code::INVALID_ARGUMENT, OLD_AUTH_REVISION)
    }

    fn is_unavailable(&self) -> bool {
        self.code == code::UNAVAILABLE || self.code == code::CANCELED
    }
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
        let (cause, status): (Arc<dyn StdError + Send + Sync>, _) = match cause {
            CallError::Status(status) => (Arc::new(Shown(status.clone())), Some(status)),
            other => (Arc::new(other), None),
        };
        Self { operation, endpoint, cause, status }
    }

    pub(crate) fn status(&self) -> Option<&Status> {
        self.status.as_ref()
    }
}

impl From<EtcdError> for StorageError {
    fn from(error: EtcdError) -> Self {
        match error.status() {
            Some(status) => Self::Backend { message: Shown(status.clone()).to_string(), source: Box::new(error) },
            None => Self::Unavailable(Box::new(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_grpc::chain;

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
    }

    #[test]
    fn reason_of_a_canceled_watch_is_a_status() {
        let rejected = status_of_reason("rpc error: code = Unauthenticated desc = etcdserver: invalid auth token");
        assert!(rejected.is_token_rejected());
        let denied = status_of_reason("rpc error: code = PermissionDenied desc = etcdserver: permission denied");
        assert_eq!(denied, status(code::PERMISSION_DENIED, "etcdserver: permission denied"));
        assert_eq!(status_of_reason(""), status(code::CANCELED, "etcdserver: watch canceled"));
        assert_eq!(status_of_reason("mvcc: watcher"), status(code::CANCELED, "mvcc: watcher"));
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
