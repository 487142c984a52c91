//! The interface between the client and caches. It exchanges bytes instead of types.

use std::{
    fmt::{self, Debug},
    time::Duration,
};

use bytes::Bytes;
use futures::{future::BoxFuture, stream::BoxStream};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{ListOptions, Oversize, ResourceVersion, Status, WatchOptions};

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

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventType {
    /// The object was created or started to match the selectors.
    Added,
    /// The object was changed.
    Modified,
    /// The object was deleted or no longer matches the selectors. The body is its last state, with the resource version
    /// of the deletion.
    Deleted,
    /// A bookmark: no other events occurred up to the resource version of the body.
    Bookmark,
    /// The watch failed. The body is a `Status`.
    Error,
}

/// A watch event with an encoded object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawEvent {
    /// The event type.
    pub event_type: EventType,
    /// The object, as JSON.
    pub body: Bytes,
}

/// A part of a streamed list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListItem {
    /// An object, as JSON. Items of built-in kinds have neither `kind` nor `apiVersion`.
    Object(Bytes),
    /// The end of a complete list.
    End(ListMeta),
}

/// The metadata of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    /// The resource version of the list, from which a watch can start.
    pub resource_version: ResourceVersion,
    /// The continue token of the next page; `None` on the last page.
    #[serde(rename = "continue", deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    pub continue_token: Option<String>,
    /// The number of objects after this page, if the server counts them.
    #[serde(rename = "remainingItemCount", skip_serializing_if = "Option::is_none")]
    pub remaining: Option<i64>,
    /// The shard of the list. `None` for a complete list, as from servers without sharding.
    #[serde(rename = "shardInfo", skip_serializing_if = "Option::is_none")]
    pub shard: Option<Box<ShardInfo>>,
}

/// Marks a list as one shard of a larger list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardInfo {
    /// The selector of the request: see [`ListOptions::shard`](crate::ListOptions::shard).
    #[serde(default)]
    pub selector: String,
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

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        })
    }
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

fn non_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.filter(|token| !token.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_continue_token_is_the_last_page() {
        let meta: ListMeta =
            serde_json::from_str(r#"{"resourceVersion":"5","continue":"","remainingItemCount":3}"#).unwrap();
        assert_eq!((meta.resource_version.as_u64(), meta.continue_token, meta.remaining), (Some(5), None, Some(3)));
    }
}
