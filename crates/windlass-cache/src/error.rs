//! What can go wrong, and where.

use std::{borrow::Cow, sync::Arc};

use thiserror::Error;
use windlass_api::{BoxError, GroupResource, ListWatchError, MetaError, ObjectKey, Oversize, ResourceVersion};

/// A cached object whose body is not what its type expects, or on which its decoder panicked. The informer goes on; whoever asked for the object decides.
#[derive(Debug, Clone, Error)]
#[error("decoding {}{kind} {key}", part(.field.as_deref()))]
pub struct DecodeError {
    /// `Deployment`
    pub kind: Cow<'static, str>,
    /// Which object.
    pub key: ObjectKey,
    /// Which field does not fit, `spec.containers[0].image`; `None` where it is not one field.
    pub field: Option<String>,
    /// Why.
    pub source: Arc<serde_json::Error>,
}

fn part(field: Option<&str>) -> String {
    field.map_or_else(String::new, |field| format!("{field} of "))
}

/// Something went wrong in an informer, which goes on all the same.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InformerError {
    /// A list failed; it is tried again after a while.
    #[error("listing {resource}")]
    List {
        /// `deployments.apps`
        resource: GroupResource,
        /// Why.
        source: ListWatchError,
    },
    /// A watch could not be started, or broke; it is resumed, or everything listed again.
    #[error("watching {resource}")]
    Watch {
        /// `deployments.apps`
        resource: GroupResource,
        /// Why.
        source: ListWatchError,
    },
    /// An object was left out, because it cannot be told which one it is or what it holds. Of one that the cache has already,
    /// the last state that could be read stays, until it is deleted or a list leaves it out.
    #[error("reading one of {resource}")]
    Object {
        /// `deployments.apps`
        resource: GroupResource,
        /// Why.
        source: UnreadableObject,
    },
    /// A watch did not begin with what a list of the same version has; see [`Verification`](crate::Verification).
    #[error("the watch of {resource} began otherwise than a list at version {version} ends, first at {}", .keys[0])]
    Inconsistent {
        /// `deployments.apps`
        resource: GroupResource,
        /// Of both.
        version: ResourceVersion,
        /// The objects that one has and the other not, or in another version; there is at least one.
        keys: Vec<ObjectKey>,
    },
    /// An object is missing from an index, because its values could not be computed.
    #[error("computing the values of {key} in the index {index:?} of {resource}")]
    Index {
        /// `deployments.apps`
        resource: GroupResource,
        /// The name of the index.
        index: Arc<str>,
        /// Which object.
        key: ObjectKey,
        /// Why.
        source: BoxError,
    },
}

/// An object that cannot be cached.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UnreadableObject {
    /// It is no object, or its metadata is none.
    #[error("the metadata cannot be read")]
    Meta(#[source] MetaError),
    /// It has no name.
    #[error("the object has no name")]
    Nameless,
    /// It has more bytes than the client takes. The last state that could be read stays, until the object is deleted.
    #[error("the object is too large")]
    TooLarge(#[source] Box<Oversize>),
    /// The transform failed, or made another object of it.
    #[error("transforming {key}")]
    Transform {
        /// Which object.
        key: ObjectKey,
        /// Why.
        source: BoxError,
    },
    /// It is of another kind.
    #[error("the object is a {found}, not a {expected}")]
    Kind {
        /// What was asked for.
        expected: Cow<'static, str>,
        /// What came.
        found: String,
    },
}

/// There is no index of that name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("Index with name {0} does not exist")]
pub struct UnknownIndex(pub String);

/// Why an index could not be added.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddIndexError {
    /// There is one of that name.
    #[error("indexer conflict: {0}")]
    Conflict(String),
    /// The informer has stopped.
    #[error("the informer has stopped")]
    Stopped(#[source] crate::Stopped),
}
