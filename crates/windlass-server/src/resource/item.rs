//! Objects as requests and responses carry them.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value;
use windlass_api::Status;

use super::Target;
use crate::{
    codec::Format,
    encoded::Encoded,
    storage::{CompactBody, CompactValue, Revision, StoredValue},
};

/// An object at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) encoded: Encoded,
    /// The revision of the write that produced this state; 0 for objects that were not stored (dry runs).
    pub(crate) revision: Revision,
}

/// An item of a list. Its storage can have compressed it, and a long list is decompressed while it is sent.
#[derive(Clone, Debug)]
pub(crate) enum ListItem {
    Plain(Item),
    Compressed(CompactValue),
}

/// The body of a request.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// The bytes that the client sent.
    Encoded { bytes: Bytes, format: Format },
    /// A value from within the server.
    Value(Value),
}

impl Item {
    /// Returns the object as a tree.
    pub(crate) fn value(&self) -> Value {
        self.encoded.value(self.revision)
    }

    /// Returns the object as JSON.
    #[cfg(test)]
    pub(crate) fn to_bytes(&self) -> Bytes {
        let mut out = Vec::new();
        self.render(&mut out);
        out.into()
    }

    /// Appends the object as JSON.
    pub(crate) fn render(&self, out: &mut Vec<u8>) {
        self.encoded.render(self.revision, out);
    }

    /// Appends the object in the form that it has in a list.
    pub(crate) fn render_item(&self, out: &mut Vec<u8>) {
        self.encoded.render_item(self.revision, out);
    }

    /// Returns an item of an object that is not stored.
    pub(crate) fn fixed(target: &Target, object: &Value) -> Self {
        Self { encoded: Encoded::new(object, target.resource.shape.style()), revision: Revision(0) }
    }

    pub(crate) fn stored(value: &StoredValue) -> Result<Self, Status> {
        Self::read(&value.key, value.body.clone(), value.modified)
    }

    fn read(key: &str, body: Bytes, revision: Revision) -> Result<Self, Status> {
        let encoded = Encoded::from_storage(body);
        let encoded = encoded.map_err(|damage| Status::internal(format!("reading {key}: {damage}")))?;
        Ok(Self { encoded, revision })
    }
}

impl ListItem {
    /// Creates the item of a stored value. A compressed value is not read.
    pub(crate) fn stored(value: CompactValue) -> Result<Self, Status> {
        match value.body {
            CompactBody::Plain(body) => Ok(Self::Plain(Item::read(&value.key, body, value.modified)?)),
            CompactBody::Compressed(_) => Ok(Self::Compressed(value)),
        }
    }

    /// Returns the item, decompressed. The result is not kept.
    pub(crate) fn get(&self) -> Result<Cow<'_, Item>, Status> {
        match self {
            Self::Plain(item) => Ok(Cow::Borrowed(item)),
            Self::Compressed(value) => {
                Item::read(&value.key, value.body.clone().into_bytes(), value.modified).map(Cow::Owned)
            }
        }
    }

    pub(crate) fn into_item(self) -> Result<Item, Status> {
        match self {
            Self::Plain(item) => Ok(item),
            Self::Compressed(value) => Item::read(&value.key, value.body.into_bytes(), value.modified),
        }
    }

    /// Returns the approximate size of the object as JSON.
    pub(crate) fn len_hint(&self) -> usize {
        match self {
            Self::Plain(item) => item.encoded.len_hint(),
            Self::Compressed(value) => value.body.size(),
        }
    }

    pub(crate) fn is_compressed(&self) -> bool {
        matches!(self, Self::Compressed(_))
    }
}

impl From<Item> for ListItem {
    fn from(item: Item) -> Self {
        Self::Plain(item)
    }
}
