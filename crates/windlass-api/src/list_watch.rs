//! The interface between the client and caches. It exchanges bytes instead of types.

use std::{fmt::Debug, time::Duration};

use bytes::Bytes;
use futures::{future::BoxFuture, stream::BoxStream};
use thiserror::Error;

use crate::{EventType, ListMeta, ListOptions, Oversize, Status, WatchOptions};

/// An error of any type from a lower layer.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Lists and watches the objects of one resource, in one namespace or in all.
///
/// Implementations neither retry nor relist; the reflector does both. Dropping a future or a stream cancels its
/// request.
///
/// A stream ends with its first error, except for [`ListWatchError::Oversize`], after which it continues with the next
/// object.
pub trait ListWatch: Debug + Send + Sync + 'static {
    /// Lists one page and yields each object as it arrives, then [`ListItem::End`] once. A stream without `End` was cut
    /// off.
    fn list(
        &self,
        options: ListOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<ListItem, ListWatchError>>, ListWatchError>>;

    /// Watches and yields each event as it arrives. An event of type [`EventType::Error`] contains a [`Status`] and is
    /// the last.
    fn watch(
        &self,
        options: WatchOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<RawEvent, ListWatchError>>, ListWatchError>>;
}

/// A watch event with an encoded object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawEvent {
    /// The event type.
    pub event_type: EventType,
    /// The object, as JSON, or in protobuf with its envelope, which starts with `k8s\0`.
    pub body: Bytes,
}

/// A part of a streamed list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListItem {
    /// An object, as JSON, or in protobuf with an envelope, which starts with `k8s\0`. In JSON, items of built-in kinds
    /// have neither `kind` nor `apiVersion`.
    Object(Bytes),
    /// The end of a complete list.
    End(ListMeta),
}

/// The error of a list or watch.
#[derive(Debug, Error)]
pub enum ListWatchError {
    /// The server rejected the request.
    #[error("the server answered {} {}", .0.code, .0.reason.as_deref().unwrap_or("(no reason)"))]
    Status(#[source] Box<Status>),
    /// The request could not be sent, or the connection broke.
    #[error("the connection to the server failed")]
    Transport(#[source] BoxError),
    /// The response is not valid for this API.
    #[error("the response of the server cannot be decoded")]
    Decode(#[source] BoxError),
    /// An object exceeds the size limit. The list or watch continues with the next object.
    #[error("an object is too large")]
    Oversize(#[source] Box<Oversize>),
}

impl ListWatchError {
    /// Returns the server's `Status`, if the server sent one.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            Self::Transport(_) | Self::Decode(_) | Self::Oversize(_) => None,
        }
    }

    /// Reports whether the resource version or the continue token is too old (410).
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.status().is_some_and(Status::is_expired)
    }

    /// Reports whether the server has not reached the resource version yet.
    #[must_use]
    pub fn is_too_large_resource_version(&self) -> bool {
        self.status().is_some_and(Status::is_too_large_resource_version)
    }

    /// Returns the time that the server asks to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.status().and_then(Status::retry_after)
    }
}

impl From<Status> for ListWatchError {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}
