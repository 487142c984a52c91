//! The errors of calls, each with the operation and the object.

use std::{error::Error as StdError, time::Duration};

use thiserror::Error;
use windlass_api::{BoxError, ErrorChain, ListWatchError, Status};

use crate::{config_error::ConfigError, operation::Operation, pipeline::TimedOut, request::RequestError};

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a call. The `Display` text of a variant describes that layer only; `source()` returns the cause.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration is missing or invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The request is invalid and was not sent.
    #[error("{operation}: invalid request")]
    Request {
        /// The operation.
        operation: Box<Operation>,
        /// The cause.
        source: RequestError,
    },
    /// The object cannot be encoded, so no request was sent.
    #[error("{operation}: the object cannot be encoded")]
    Encode {
        /// The operation.
        operation: Box<Operation>,
        /// The cause.
        source: serde_json::Error,
    },
    /// The server rejected the request.
    #[error("{operation}: the server answered {}", answer(status))]
    Status {
        /// The operation.
        operation: Box<Operation>,
        /// The server's `Status`.
        #[source]
        status: Box<Status>,
    },
    /// The request could not be sent, or the connection broke. A write may still have been carried out.
    #[error("{operation}: the connection to the server failed")]
    Transport {
        /// The operation.
        operation: Box<Operation>,
        /// The cause.
        source: BoxError,
    },
    /// The operation or wait exceeded its time limit.
    #[error("{operation}: timed out after {limit:?}")]
    TimedOut {
        /// The operation.
        operation: Box<Operation>,
        /// The time limit.
        limit: Duration,
    },
    /// The cache did not show a write of this program in time. The read fails, because an older state would mislead the
    /// reader.
    #[error(
        "{operation}: the cache does not show an own write to {object} after {limit:?}; read with `live()`, or with `stale()` for what it shows"
    )]
    Stale {
        /// The read operation.
        operation: Box<Operation>,
        /// The written object, as `namespace/name`.
        object: String,
        /// The time limit of the read.
        limit: Duration,
    },
    /// The response is not valid for this API.
    #[error("{operation}: the response cannot be decoded")]
    Decode {
        /// The operation.
        operation: Box<Operation>,
        /// The cause.
        source: BoxError,
    },
}

impl Error {
    /// Returns the server's `Status`, if the server sent one.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Returns the operation that failed; `None` for errors in the configuration.
    #[must_use]
    pub fn operation(&self) -> Option<&Operation> {
        match self {
            Self::Config(_) => None,
            Self::Request { operation, .. }
            | Self::Encode { operation, .. }
            | Self::Status { operation, .. }
            | Self::Transport { operation, .. }
            | Self::TimedOut { operation, .. }
            | Self::Stale { operation, .. }
            | Self::Decode { operation, .. } => Some(operation),
        }
    }

    /// Reports whether the connection failed. It is then unknown whether the server carried out the request.
    #[must_use]
    pub const fn is_transport(&self) -> bool {
        matches!(self, Self::Transport { .. })
    }

    /// Reports whether the call exceeded a time limit, either the server's or the client's.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Status { status, .. } => status.is_timeout(),
            Self::TimedOut { .. } | Self::Stale { .. } => true,
            Self::Transport { source, .. } => {
                let mut chain =
                    std::iter::successors(Some(&**source as &(dyn StdError + 'static)), |&error| error.source());
                chain.any(<dyn StdError>::is::<TimedOut>)
            }
            _ => false,
        }
    }

    /// Reports whether the server's `Status` contains a cause with this reason.
    #[must_use]
    pub fn has_cause(&self, reason: &str) -> bool {
        self.status().is_some_and(|status| status.has_cause(reason))
    }

    /// Returns the time that the server asks to wait before a retry.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.status().and_then(Status::retry_after)
    }

    /// Returns the time to wait before a retry, if the server's response asks for a delay.
    #[must_use]
    pub fn suggests_client_delay(&self) -> Option<Duration> {
        self.status().and_then(Status::suggests_client_delay)
    }

    /// Returns the error and all its causes as one line: `create pods "a/b": the server answered 409 AlreadyExists:
    /// pods "b" already exists`.
    #[must_use]
    pub fn chain(&self) -> String {
        ErrorChain(self).to_string()
    }

    pub(crate) fn new(operation: Operation, error: ListWatchError) -> Self {
        let operation = Box::new(operation);
        match error {
            ListWatchError::Status(status) => Self::Status { operation, status },
            ListWatchError::Transport(source) => Self::Transport { operation, source },
            ListWatchError::Decode(source) => Self::Decode { operation, source },
            ListWatchError::Oversize(oversize) => Self::Decode { operation, source: oversize },
        }
    }
}

/// Defines predicates on the reason of the server's `Status`.
macro_rules! status_predicates {
    ($($(#[$doc:meta])* $name:ident)*) => {
        impl Error {$(
            $(#[$doc])*
            #[must_use]
            pub fn $name(&self) -> bool {
                self.status().is_some_and(Status::$name)
            }
        )*}
    };
}

status_predicates! {
    /// Returns `true` if the object or the resource does not exist.
    is_not_found
    /// Returns `true` if an object of this name already exists.
    is_already_exists
    /// Returns `true` if the object was changed by another write.
    is_conflict
    /// Returns `true` if the object failed validation.
    is_invalid
    /// Returns `true` if the user lacks permission.
    is_forbidden
    /// Returns `true` if the server could not authenticate the user.
    is_unauthorized
    /// Returns `true` if the server considers the request malformed.
    is_bad_request
    /// Returns `true` if a resource version or continue token is too old.
    is_expired
    /// Returns `true` if the requested item is no longer available.
    is_gone
    /// Returns `true` if the resource does not support the verb.
    is_method_not_allowed
    /// Returns `true` if the server cannot respond in a format that the client accepts.
    is_not_acceptable
    /// Returns `true` if the server does not support the format of the request body.
    is_unsupported_media_type
    /// Returns `true` if the request is larger than the server accepts.
    is_request_entity_too_large
    /// Returns `true` if the server rejects the request because it has too many.
    is_too_many_requests
    /// Returns `true` if the server could not complete the request in time and asks for a retry.
    is_server_timeout
    /// Returns `true` if the server had an internal error.
    is_internal_error
    /// Returns `true` if a service that the server depends on is unavailable.
    is_service_unavailable
    /// Returns `true` if the response does not come from a Kubernetes API server, but for example from a proxy or load
    /// balancer.
    is_unexpected_server_response
}

/// Converts failures that count as success for the caller.
///
/// ```
/// # use windlass_api::k8s_openapi::api::core::v1::Pod;
/// # use windlass_client::{Client, Result, Tolerate as _};
/// # async fn clean_up(client: Client) -> Result<()> {
/// client.delete::<Pod>("p").await.or_not_found()?;
/// # Ok(())
/// # }
/// ```
pub trait Tolerate<T> {
    /// Returns `None` if the object does not exist.
    fn or_not_found(self) -> Result<Option<T>>;

    /// Returns `None` if the object already exists.
    fn or_already_exists(self) -> Result<Option<T>>;

    /// Succeeds if the object does not exist; corresponds to `IgnoreNotFound` in controller-runtime.
    fn ignore_not_found(self) -> Result<()>;

    /// Succeeds if the object already exists; corresponds to `IgnoreAlreadyExists` in controller-runtime.
    fn ignore_already_exists(self) -> Result<()>;
}

impl<T> Tolerate<T> for Result<T> {
    fn or_not_found(self) -> Result<Option<T>> {
        tolerate(self, Error::is_not_found)
    }

    fn or_already_exists(self) -> Result<Option<T>> {
        tolerate(self, Error::is_already_exists)
    }

    fn ignore_not_found(self) -> Result<()> {
        self.or_not_found().map(drop)
    }

    fn ignore_already_exists(self) -> Result<()> {
        self.or_already_exists().map(drop)
    }
}

fn tolerate<T>(result: Result<T>, tolerated: fn(&Error) -> bool) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if tolerated(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

impl From<Error> for ListWatchError {
    fn from(error: Error) -> Self {
        match error {
            Error::Status { status, .. } => Self::Status(status),
            Error::Transport { source, .. } => Self::Transport(source),
            Error::Decode { source, .. } => Self::Decode(source),
            // These errors occur before a request is sent, and a retry does not help.
            error @ (Error::Config(_)
            | Error::Request { .. }
            | Error::Encode { .. }
            | Error::TimedOut { .. }
            | Error::Stale { .. }) => Self::Transport(error.into()),
        }
    }
}

fn answer(status: &Status) -> String {
    match (status.code, status.reason.as_deref()) {
        (0, Some(reason)) => reason.to_owned(),
        (code, Some(reason)) => format!("{code} {reason}"),
        (code, None) => code.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use windlass_api::GroupResource;

    use super::*;
    use crate::operation::Verb;

    #[test]
    fn error_chain_prints_each_layer_once() {
        let status = Status::already_exists(&GroupResource::new("", "pods"), "b");
        let operation = Operation {
            verb: Verb::Create,
            resource: "pods".to_owned(),
            subresource: None,
            namespace: Some("a".to_owned()),
            name: Some("b".to_owned()),
        };
        let error = Error::new(operation, status.into());
        assert!(error.is_already_exists() && !error.is_not_found());
        assert_eq!(
            error.chain(),
            r#"create pods "a/b": the server answered 409 AlreadyExists: pods "b" already exists"#
        );
    }
}
