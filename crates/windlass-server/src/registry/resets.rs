//! What a write leaves as it was: each part of an object is written apart from the others.

use serde_json::Value;

use super::tree::{as_object, copy_key, metadata_mut};
use crate::field_manager::{self, Set};

/// What writes leave as it was, as dotted paths, by what they are about. A field that is reset is not owned either.
///
/// Not of all that is reset: a kind's strategy may keep more than it says here, and what it keeps beyond this is owned by
/// whoever asked for it, as on the real server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resets {
    /// Writes of the object itself, and of its finalizers.
    pub(crate) main: &'static [&'static str],
    /// Writes of the status. They change nothing else but metadata; listed is what of that they reset too.
    pub(crate) status: &'static [&'static str],
    /// Writes of approvals.
    pub(crate) approval: &'static [&'static str],
}

impl Resets {
    /// Nothing: the kind has no parts.
    pub(crate) const NONE: Self = Self { main: &[], status: &[], approval: &[] };

    /// The status is written apart.
    pub(crate) const STATUS: Self = Self { main: &["status"], status: &["spec"], ..Self::NONE };

    /// The status is written apart, and with it nothing of the metadata.
    pub(crate) const BARE_STATUS: Self = Self { status: &["metadata", "spec"], ..Self::STATUS };

    /// What a write to a subresource resets; the empty one is the object.
    fn of(&self, subresource: &str) -> &'static [&'static str] {
        match subresource {
            "" | "finalize" => self.main,
            "status" => self.status,
            "approval" => self.approval,
            _ => &[],
        }
    }

    /// The fields that a write to a subresource cannot own.
    pub(super) fn fields(&self, subresource: &str) -> Set {
        field_manager::set_of(self.of(subresource))
    }

    /// Leaves of a write to the status what it may change.
    pub(super) fn keep_all_but_status(&self, new: &mut Value, old: &Value) {
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
    fn a_write_of_the_status_changes_the_status_and_what_of_metadata_is_not_reset() {
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
    fn each_part_resets_what_it_is_not_about() {
        assert_eq!(Resets::STATUS.of(""), ["status"]);
        assert_eq!(Resets::STATUS.of("finalize"), ["status"]);
        assert_eq!(Resets::STATUS.of("status"), ["spec"]);
        assert!(Resets::STATUS.of("resize").is_empty());
        assert!(Resets::NONE.fields("status") == Set::default());
    }
}
