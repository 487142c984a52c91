//! The errors of this crate.

use std::{borrow::Cow, sync::Arc};

use thiserror::Error;
use windlass_api::{BoxError, GroupResource, ListWatchError, MetaError, ObjectKey, Oversize, ResourceVersion};

use crate::synced::Stopped;

/// A cached object whose body does not fit its type, or whose decoder panicked. The informer continues; the caller
/// decides how to handle the error.
#[derive(Debug, Clone, Error)]
#[error("decoding {}{kind} {key}", part(.field.as_deref()))]
pub struct DecodeError {
    /// The kind, for example `Deployment`.
    pub kind: Cow<'static, str>,
    /// The object's key.
    pub key: ObjectKey,
    /// The field that does not fit, for example `spec.containers[0].image`; `None` if it is not a single field.
    pub field: Option<String>,
    /// The cause.
    pub source: Arc<serde_json::Error>,
}

fn part(field: Option<&str>) -> String {
    field.map_or_else(String::new, |field| format!("{field} of "))
}

/// An error in an informer. The informer continues.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InformerError {
    /// A list failed. It is retried after a back-off delay.
    #[error("listing {resource}")]
    List {
        /// The resource, for example `deployments.apps`.
        resource: GroupResource,
        /// The cause.
        source: ListWatchError,
    },
    /// A watch could not be started, or broke. The reflector resumes it or relists.
    #[error("watching {resource}")]
    Watch {
        /// The resource, for example `deployments.apps`.
        resource: GroupResource,
        /// The cause.
        source: ListWatchError,
    },
    /// An object was skipped because its metadata or content could not be read. If the cache has the object, its last
    /// readable state is retained until the object is deleted or missing in a list.
    #[error("reading one of {resource}")]
    Object {
        /// The resource, for example `deployments.apps`.
        resource: GroupResource,
        /// The cause.
        source: UnreadableObject,
    },
    /// The initial events of a watch differ from a list of the same version; see [`Verification`](crate::Verification).
    #[error("the initial events of {resource} differ from a list at version {version}, first at {}", .keys[0])]
    Inconsistent {
        /// The resource, for example `deployments.apps`.
        resource: GroupResource,
        /// The version of both.
        version: ResourceVersion,
        /// The keys of the objects that differ: present in only one of them, or with different versions. Never empty.
        keys: Vec<ObjectKey>,
    },
    /// An object is missing from an index because its index values could not be computed.
    #[error("computing the values of {key} in the index {index:?} of {resource}")]
    Index {
        /// The resource, for example `deployments.apps`.
        resource: GroupResource,
        /// The name of the index.
        index: Arc<str>,
        /// The object's key.
        key: ObjectKey,
        /// The cause.
        source: BoxError,
    },
}

/// The reason why an object cannot be cached.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UnreadableObject {
    /// The JSON is not an object, or its metadata is invalid.
    #[error("the metadata cannot be read")]
    Meta(#[source] MetaError),
    /// The object has no name.
    #[error("the object has no name")]
    Nameless,
    /// The object is larger than the client's limit. The last readable state is retained until the object is deleted.
    #[error("the object is too large")]
    TooLarge(#[source] Box<Oversize>),
    /// The transform failed, or changed the object's identity.
    #[error("transforming {key}")]
    Transform {
        /// The object's key.
        key: ObjectKey,
        /// The cause.
        source: BoxError,
    },
    /// The object is of another kind.
    #[error("the object is a {found}, not a {expected}")]
    Kind {
        /// The expected kind.
        expected: Cow<'static, str>,
        /// The kind of the object.
        found: String,
    },
}

/// The index does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("Index with name {0} does not exist")]
pub struct UnknownIndex(pub String);

/// The reason why an index could not be added.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddIndexError {
    /// The name belongs to a different index.
    #[error("indexer conflict: {0}")]
    Conflict(String),
    /// The informer has stopped.
    #[error("the informer has stopped")]
    Stopped(#[source] Stopped),
}

/// Formats the sources of an error for a log line, outermost first.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    sources(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Returns the sources of an error, outermost first.
pub(crate) fn sources<'e>(
    error: &'e dyn std::error::Error,
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |error| (*error).source())
}
