//! The fields that each kind of write leaves unchanged. The parts of an object are written separately.

use serde_json::Value;

use crate::field_manager::{self, Set};
use crate::object::{as_object, copy_key, metadata_mut};

/// The fields that writes reset to their old value, as dotted paths, by the part that is written. A client does not own
/// a field that is reset.
///
/// A kind's strategy may reset further fields. A manager that sets such a field owns it, as on the real server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resets {
    /// The fields reset by writes of the object itself and of its finalizers.
    pub(crate) main: &'static [&'static str],
    /// The fields reset by writes of the status. Such writes only change the status and metadata, so this lists the
    /// metadata fields that are reset as well.
    pub(crate) status: &'static [&'static str],
    /// The fields that the client of a status write does not own, if they are not those that such a write resets.
    pub(crate) status_unowned: Option<&'static [&'static str]>,
    /// The fields reset by writes of approvals.
    pub(crate) approval: &'static [&'static str],
}

impl Resets {
    /// No resets: the kind has no separately written parts.
    pub(crate) const NONE: Self = Self { main: &[], status: &[], status_unowned: None, approval: &[] };

    /// Resets for a kind with a status subresource.
    pub(crate) const STATUS: Self = Self { main: &["status"], status: &["spec"], ..Self::NONE };

    /// Resets for a kind whose status subresource does not change metadata.
    pub(crate) const BARE_STATUS: Self = Self { status: &["metadata", "spec"], ..Self::STATUS };

    /// Returns the fields that a write to a subresource cannot own; the empty subresource is the object itself.
    pub(crate) fn of(&self, subresource: &str) -> &'static [&'static str] {
        match subresource {
            "" | "finalize" => self.main,
            "status" => self.status_unowned.unwrap_or(self.status),
            "approval" => self.approval,
            _ => &[],
        }
    }

    /// Returns the fields that a write to a subresource cannot own.
    pub(crate) fn fields(&self, subresource: &str) -> Set {
        field_manager::set_of(self.of(subresource))
    }

    /// Restores the old object except for the status and the metadata that a status write may change.
    pub(crate) fn keep_all_but_status(&self, new: &mut Value, old: &Value) {
        let status = new.get("status").filter(|status| !status.is_null()).cloned();
        let mut metadata = as_object(new).shift_remove("metadata").unwrap_or_default();
        *new = old.clone();
        if !self.status.contains(&"metadata") {
            let nothing = Value::Null;
            let old_metadata = old.get("metadata").unwrap_or(&nothing);
            for key in self.status.iter().filter_map(|path| path.strip_prefix("metadata.")) {
                copy_key(as_object(&mut metadata), old_metadata, key);
            }
            *metadata_mut(new) = std::mem::take(as_object(&mut metadata));
        }
        match status {
            Some(status) => drop(as_object(new).insert("status".to_owned(), status)),
            None => drop(as_object(new).shift_remove("status")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    pub(crate) fn status_write_keeps_reset_fields() {
        let old =
            json!({"metadata": {"labels": {"a": "1"}, "uid": "u"}, "spec": {"n": 1}, "other": 1, "status": {"n": 1}});
        let new = json!({"metadata": {"labels": {"a": "2"}, "annotations": {"b": "2"}}, "spec": {"n": 2}, "status": {"n": 2}});
        let kept = |resets: &Resets| {
            let mut new = new.clone();
            resets.keep_all_but_status(&mut new, &old);
            new
        };
        let labels = Resets { status: &["spec", "metadata.labels"], ..Resets::STATUS };
        let expected = json!({"metadata": {"labels": {"a": "1"}, "annotations": {"b": "2"}}, "spec": {"n": 1}, "other": 1,
            "status": {"n": 2}});
        assert_eq!(kept(&labels), expected);
        assert_eq!(kept(&Resets::BARE_STATUS)["metadata"], old["metadata"]);
        assert_eq!(kept(&Resets::STATUS)["metadata"], new["metadata"]);
    }

    #[test]
    pub(crate) fn each_subresource_resets_the_other_fields() {
        assert_eq!(Resets::STATUS.of(""), ["status"]);
        assert_eq!(Resets::STATUS.of("finalize"), ["status"]);
        assert_eq!(Resets::STATUS.of("status"), ["spec"]);
        assert!(Resets::STATUS.of("resize").is_empty());
        assert!(Resets::NONE.fields("status") == Set::default());
    }
}
