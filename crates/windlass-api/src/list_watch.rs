//! The seam between the crate that talks to servers and the crate that caches: bytes, not types.

use std::{
    fmt::{self, Debug},
    time::Duration,
};

use bytes::Bytes;
use futures::{future::BoxFuture, stream::BoxStream};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{ListOptions, Oversize, ResourceVersion, Status, WatchOptions};

/// An error of a layer below, of whatever type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Lists and watches the objects of one resource, in one namespace or in all.
///
/// Implementations do not retry and do not relist: that is the reflector's work. Dropping a future or a stream ends the
/// request behind it.
///
/// A stream ends with its first error, unless that is [`ListWatchError::Oversize`]: then it goes on after that object.
pub trait ListWatch: Debug + Send + Sync + 'static {
    /// One page, object by object as it arrives; [`ListItem::End`] comes once, last. A stream that ends without it was
    /// cut off.
    fn list(
        &self,
        options: ListOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<ListItem, ListWatchError>>, ListWatchError>>;

    /// The changes, one by one as they arrive. An event of type [`EventType::Error`] carries a [`Status`] and is the last.
    fn watch(
        &self,
        options: WatchOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<RawEvent, ListWatchError>>, ListWatchError>>;
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventType {
    /// It came to be, or came to match.
    Added,
    /// It changed.
    Modified,
    /// It is gone, or matches no more. The body is its last state, with the resourceVersion of the deletion.
    Deleted,
    /// Nothing happened up to the resourceVersion of the body.
    Bookmark,
    /// The watch failed; the body is a `Status`.
    Error,
}

/// One event of a watch, its object encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawEvent {
    /// What happened.
    pub event_type: EventType,
    /// One JSON object.
    pub body: Bytes,
}

/// One part of a list as it streams in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListItem {
    /// One object, as JSON. Items of built-in kinds have neither `kind` nor `apiVersion`.
    Object(Bytes),
    /// The list is complete.
    End(ListMeta),
}

/// The metadata of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    /// The version that the list shows, from which a watch can go on.
    pub resource_version: ResourceVersion,
    /// Where the next page starts; `None` on the last.
    #[serde(rename = "continue", deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    pub continue_token: Option<String>,
    /// How many objects follow this page, when the server counts them.
    #[serde(rename = "remainingItemCount", skip_serializing_if = "Option::is_none")]
    pub remaining: Option<i64>,
    /// Which shard the list is; `None` when it holds all, as from servers that do not know shards.
    #[serde(rename = "shardInfo", skip_serializing_if = "Option::is_none")]
    pub shard: Option<Box<ShardInfo>>,
}

/// A list that is a part of a larger one says by this that it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardInfo {
    /// The selector of the request: see [`ListOptions::shard`](crate::ListOptions::shard).
    #[serde(default)]
    pub selector: String,
}

/// Why a list or a watch failed.
#[derive(Debug, Error)]
pub enum ListWatchError {
    /// The server refused.
    #[error("the server answered {} {}", .0.code, .0.reason.as_deref().unwrap_or("(no reason)"))]
    Status(#[source] Box<Status>),
    /// The request did not get through, or the connection broke.
    #[error("the connection to the server failed")]
    Transport(#[source] BoxError),
    /// What came is not what the API promises.
    #[error("the server sent what cannot be read")]
    Decode(#[source] BoxError),
    /// An object is too large to be read. The list or the watch goes on with the next.
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
    /// The server's answer, if it gave one.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            Self::Transport(_) | Self::Decode(_) | Self::Oversize(_) => None,
        }
    }

    /// Whether the resourceVersion or the continue token is too old (410).
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.status().is_some_and(Status::is_expired)
    }

    /// Whether the server has not reached the resourceVersion yet.
    #[must_use]
    pub fn is_too_large_resource_version(&self) -> bool {
        self.status().is_some_and(Status::is_too_large_resource_version)
    }

    /// How long the server asks to wait.
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
