//! An indexed field, such as the node of a pod: a client that selects one of its values gets only the events of objects
//! with that value.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    encoded::Encoded,
    object::Tree as _,
    storage::{Revision, StorageEvent, StoredValue},
};

/// A field of a resource by which objects are found and events are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexedField {
    /// The dotted path in the stored object.
    pub(crate) path: &'static str,
}

/// The objects in whose indexed field is a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldValue {
    pub(crate) field: IndexedField,
    pub(crate) value: Arc<str>,
}

/// The values of the indexed field in the two objects of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EventValues {
    /// A missing object has no value. A missing field is empty.
    Read { before: Option<Box<str>>, after: Option<Box<str>> },
    /// An object is damaged.
    Unknown,
}

impl IndexedField {
    /// Returns the value in a stored object. Returns `None` if the object is damaged.
    pub(super) fn read(self, body: &bytes::Bytes) -> Option<Box<str>> {
        let encoded = Encoded::from_storage(body.clone()).ok()?;
        if let Some(text) = encoded.text_at(self.path) {
            return Some(text.into());
        }
        let object = encoded.value(Revision(0));
        let path: Vec<&str> = self.path.split('.').collect();
        Some(object.at(&path).and_then(Value::as_str).unwrap_or_default().into())
    }

    pub(super) fn read_event(self, event: &StorageEvent) -> EventValues {
        let read = |value: &Option<StoredValue>| match value {
            None => Some(None),
            Some(value) => self.read(&value.body).map(Some),
        };
        match (read(&event.previous), read(&event.current)) {
            (Some(before), Some(after)) => EventValues::Read { before, after },
            _ => EventValues::Unknown,
        }
    }
}

impl EventValues {
    /// Returns the different values, at most two. Returns `None` if they are unknown.
    pub(super) fn distinct(&self) -> Option<impl Iterator<Item = &str>> {
        let Self::Read { before, after } = self else { return None };
        let after = after.as_deref().filter(|after| before.as_deref() != Some(*after));
        Some(before.as_deref().into_iter().chain(after))
    }

    /// Reports whether one of the objects can have this value.
    pub(super) fn include(&self, value: &str) -> bool {
        self.distinct().is_none_or(|mut values| values.any(|found| found == value))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::encoded::Style;

    const NODE: IndexedField = IndexedField { path: "spec.nodeName" };

    fn body(object: &Value) -> bytes::Bytes {
        Encoded::new(object, Style::BuiltIn).storage_bytes()
    }

    #[test]
    fn value_is_read_in_place_or_decoded() {
        let pod = |node: Value| json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {"nodeName": node}});
        assert_eq!(NODE.read(&body(&pod("n".into()))).as_deref(), Some("n"));
        assert_eq!(NODE.read(&body(&pod("a\"b".into()))).as_deref(), Some("a\"b"));
        assert_eq!(NODE.read(&body(&pod(Value::Null))).as_deref(), Some(""));
        assert_eq!(NODE.read(&body(&json!({"metadata": {"name": "a"}}))).as_deref(), Some(""));
        assert_eq!(NODE.read(&bytes::Bytes::from_static(b"{}")), None);
    }

    #[test]
    fn event_concerns_the_values_before_and_after() {
        let read = |before: Option<&str>, after: Option<&str>| EventValues::Read {
            before: before.map(Into::into),
            after: after.map(Into::into),
        };
        let distinct = |values: &EventValues| values.distinct().map(|found| found.collect::<Vec<_>>().join(" "));
        assert_eq!(distinct(&read(Some("a"), Some("b"))).as_deref(), Some("a b"));
        assert_eq!(distinct(&read(Some("a"), Some("a"))).as_deref(), Some("a"));
        assert_eq!(distinct(&read(None, Some("b"))).as_deref(), Some("b"));
        assert_eq!(distinct(&EventValues::Unknown), None);
        assert!(read(Some(""), Some("b")).include("") && !read(Some("a"), None).include(""));
        assert!(EventValues::Unknown.include("a"), "a watcher must learn of the damage");
    }
}
