//! Claims: the changes that a request has caused, as far as its response shows them.

use serde_json::Value;

use super::{revision_of, text};
use crate::record::{Change, ChangeVerb, ObjectName};

/// A claim of a request to one change.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) process: usize,
    /// The number of the request.
    pub(crate) request: usize,
    /// The revision of the storage before the request. The change is a later one.
    pub(crate) after: u64,
    pub(crate) target: Target,
}

/// The change that a claim applies to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The change at a revision.
    Revision(u64),
    /// The removal of the object with this UID.
    Removal { uid: String },
    /// The removal of the object with this UID, the beginning of its deletion, or the change at the revision.
    Deletion { uid: String, revision: u64 },
    /// The next change of an object. For responses that do not contain the object.
    Next(ObjectName),
}

impl Claim {
    /// Reports whether the claim applies to a change.
    pub(super) fn matches(&self, change: &Change) -> bool {
        let is_removal = |uid: &str| change.verb == ChangeVerb::Delete && change.uid == uid;
        change.revision > self.after
            && match &self.target {
                Target::Revision(revision) => change.revision == *revision,
                Target::Removal { uid } => is_removal(uid),
                Target::Deletion { uid, revision } => {
                    is_removal(uid) || change.uid == *uid && (change.begins_deletion() || change.revision == *revision)
                }
                Target::Next(object) => change.object == *object,
            }
    }
}

impl Target {
    /// Returns the change that a response with an object shows, or `None` if the request did not change the object.
    pub(crate) fn of_written(object: &Value, after: u64) -> Option<Self> {
        let revision = revision_of(object)?;
        if revision > after {
            return Some(Self::Revision(revision));
        }
        // The removal of the last finalizer deletes the object, and the response has its last resource version.
        let uid = text(object, "/metadata/uid").to_owned();
        (object.pointer("/metadata/deletionTimestamp").is_some() && is_removed(object)).then_some(Self::Removal { uid })
    }

    /// Returns the change that the response of a deletion shows, or `None` if the object was being deleted before.
    pub(crate) fn of_deleted(object: &Value, after: u64) -> Option<Self> {
        let uid = text(object, "/metadata/uid").to_owned();
        if is_removed(object) {
            return Some(Self::Removal { uid });
        }
        let revision = revision_of(object)?;
        (revision > after).then_some(Self::Deletion { uid, revision })
    }
}

/// Reports whether an object is removed from the storage when its deletion begins, or is removed now that it is being
/// deleted: it has no finalizer and no grace period.
pub(crate) fn is_removed(object: &Value) -> bool {
    let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    let grace = object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    // A namespace keeps its content, and a list of finalizers of its own.
    let content = object.pointer("/spec/finalizers").and_then(Value::as_array);
    let is_namespace = object.pointer("/kind").is_some_and(|kind| kind == "Namespace");
    finalizers.is_none_or(Vec::is_empty)
        && grace.unwrap_or_default() == 0
        && (!is_namespace || content.is_none_or(Vec::is_empty))
}
