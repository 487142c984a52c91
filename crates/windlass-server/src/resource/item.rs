//! Objects as requests and responses carry them.

use bytes::Bytes;
use serde_json::Value;
use windlass_api::Status;

use super::Target;
use crate::{
    codec::Format,
    encoded::Encoded,
    storage::{Revision, StoredValue},
};

/// An object at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) encoded: Encoded,
    /// The revision of the write that produced this state; 0 for objects that were not stored (dry runs).
    pub(crate) revision: Revision,
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
        let encoded = Encoded::from_storage(value.body.clone())
            .map_err(|damage| Status::internal(format!("reading {}: {damage}", value.key)))?;
        Ok(Self { encoded, revision: value.modified })
    }
}
