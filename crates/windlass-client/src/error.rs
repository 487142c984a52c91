//! What can go wrong with a call, told with what was being done to which object.

use std::{error::Error as StdError, fmt, time::Duration};

use thiserror::Error;
use windlass_api::{BoxError, ErrorChain, ListWatchError, Status};

use crate::{config::ConfigError, pipeline::TimedOut, request::RequestError};

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. The text of each is this layer only; `source()` says the rest.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no usable configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The request makes no sense, so it was not sent.
    #[error("{operation}: not a valid request")]
    Request {
        /// What was being done.
        operation: Box<Operation>,
        /// What is wrong with it.
        source: RequestError,
    },
    /// The object cannot be encoded, so nothing was sent.
    #[error("{operation}: the object cannot be encoded")]
    Encode {
        /// What was being done.
        operation: Box<Operation>,
        /// Why not.
        source: serde_json::Error,
    },
    /// The server refused.
    #[error("{operation}: the server answered {}", answer(status))]
    Status {
        /// What was being done.
        operation: Box<Operation>,
        /// The server's words.
        #[source]
        status: Box<Status>,
    },
    /// The request did not get through, or the connection broke. A write may have been carried out nevertheless.
    #[error("{operation}: the connection to the server failed")]
    Transport {
        /// What was being done.
        operation: Box<Operation>,
        /// How it failed.
        source: BoxError,
    },
    /// What was waited for did not come.
    #[error("{operation}: what was waited for did not come within {limit:?}")]
    TimedOut {
        /// What was being done.
        operation: Box<Operation>,
        /// How long it was waited for.
        limit: Duration,
    },
    /// A cache does not show a write of the same program in time, and an older state would mislead the reader.
    #[error(
        "{operation}: the cache does not show an own write to {object} after {limit:?}; read with `live()`, or with `stale()` for what it shows"
    )]
    Stale {
        /// The read.
        operation: Box<Operation>,
        /// The object that was written, `namespace/name`.
        object: String,
        /// How long the read has waited.
        limit: Duration,
    },
    /// The answer is not what the API promises.
    #[error("{operation}: the answer cannot be read")]
    Decode {
        /// What was being done.
        operation: Box<Operation>,
        /// What is wrong with it.
        source: BoxError,
    },
}

/// What was being done, to what: `update pods/status "ns/name"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What was being done.
    pub verb: Verb,
    /// The resource with its group, `deployments.apps`, or a path.
    pub resource: String,
    /// The part of the object, `status`.
    pub subresource: Option<String>,
    /// The namespace, where one was given.
    pub namespace: Option<String>,
    /// The object's name, where it is about one.
    pub name: Option<String>,
}

/// What can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each verb is its own name")]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Apply,
    Delete,
    DeleteCollection,
    /// Opening a way to what stands behind an object: its log, its containers, its ports.
    Connect,
    /// A request that the caller has built.
    Request,
}

impl Error {
    /// The server's answer, if it gave one.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status { status, .. } => Some(status),
            _ => None,
        }
    }

    /// What was being done, unless it is about the configuration.
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

    /// Whether the connection failed: nothing is known of what the server did.
    #[must_use]
    pub const fn is_transport(&self) -> bool {
        matches!(self, Self::Transport { .. })
    }

    /// Whether it took too long: for the server, which says so, or for the client's own limit.
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

    /// Whether one of the causes that the server names has this reason.
    #[must_use]
    pub fn has_cause(&self, reason: &str) -> bool {
        self.status().is_some_and(|status| status.has_cause(reason))
    }

    /// How long the server asks to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.status().and_then(Status::retry_after)
    }

    /// How long to wait before the next try, if there is to be one, where the server's answer asks for a delay.
    #[must_use]
    pub fn suggests_client_delay(&self) -> Option<Duration> {
        self.status().and_then(Status::suggests_client_delay)
    }

    /// The error and all that is behind it, as one line for people:
    /// `create pods "a/b": the server answered 409 AlreadyExists: pods "b" already exists`.
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

/// What the server's answer says, where there is one.
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
    /// Whether the object, or the resource, is not there.
    is_not_found
    /// Whether an object of that name is there already.
    is_already_exists
    /// Whether the object has changed meanwhile.
    is_conflict
    /// Whether the object breaks a rule of its kind.
    is_invalid
    /// Whether the caller may not.
    is_forbidden
    /// Whether the server does not know who is calling.
    is_unauthorized
    /// Whether the request makes no sense to the server.
    is_bad_request
    /// Whether a resourceVersion or continue token is too old.
    is_expired
    /// Whether what was asked for is there no more.
    is_gone
    /// Whether the resource does not have this verb.
    is_method_not_allowed
    /// Whether the server cannot answer in a format that the client reads.
    is_not_acceptable
    /// Whether the server does not read the format of the body.
    is_unsupported_media_type
    /// Whether the request is larger than the server takes.
    is_request_entity_too_large
    /// Whether the server has had enough for now.
    is_too_many_requests
    /// Whether the server has begun, and asks to try again.
    is_server_timeout
    /// Whether the server has failed.
    is_internal_error
    /// Whether what stands behind the server is not there now.
    is_service_unavailable
    /// Whether what answered did not speak the API: a proxy, a load balancer.
    is_unexpected_server_response
}

/// Failures that are as good as a success.
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
    /// `None` when it was not there.
    fn or_not_found(self) -> Result<Option<T>>;

    /// `None` when it was there already.
    fn or_already_exists(self) -> Result<Option<T>>;

    /// Succeeds when the object does not exist: controller-runtime's `IgnoreNotFound`.
    fn ignore_not_found(self) -> Result<()>;

    /// Succeeds when the object exists already: controller-runtime's `IgnoreAlreadyExists`.
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
            // Nothing was sent; nothing will get through.
            error @ (Error::Config(_)
            | Error::Request { .. }
            | Error::Encode { .. }
            | Error::TimedOut { .. }
            | Error::Stale { .. }) => Self::Transport(error.into()),
        }
    }
}

impl Operation {
    pub(crate) fn request(path: &str) -> Self {
        Self { verb: Verb::Request, resource: path.to_owned(), subresource: None, namespace: None, name: None }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if let Some(subresource) = &self.subresource {
            write!(f, "/{subresource}")?;
        }
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => write!(f, " \"{namespace}/{name}\""),
            (None, Some(name)) => write!(f, " {name:?}"),
            (Some(namespace), None) => write!(f, " in {namespace:?}"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
            Self::DeleteCollection => "delete all",
            Self::Connect => "connect to",
            Self::Request => "request",
        })
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

    fn operation(name: Option<&str>, namespace: Option<&str>) -> Operation {
        Operation {
            verb: Verb::Create,
            resource: "pods".to_owned(),
            subresource: None,
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
        }
    }

    #[test]
    fn an_operation_reads_as_what_was_being_done() {
        assert_eq!(operation(Some("b"), Some("a")).to_string(), r#"create pods "a/b""#);
        assert_eq!(operation(None, Some("a")).to_string(), r#"create pods in "a""#);
        let status = Operation { subresource: Some("status".to_owned()), ..operation(Some("b"), None) };
        assert_eq!(status.to_string(), r#"create pods/status "b""#);
    }

    #[test]
    fn each_layer_is_told_once() {
        let status = Status::already_exists(&GroupResource::new("", "pods"), "b");
        let error = Error::new(operation(Some("b"), Some("a")), status.into());
        assert!(error.is_already_exists() && !error.is_not_found());
        assert_eq!(
            error.chain(),
            r#"create pods "a/b": the server answered 409 AlreadyExists: pods "b" already exists"#
        );
    }
}
