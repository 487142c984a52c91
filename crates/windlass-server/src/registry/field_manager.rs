//! Who owns which field: the one place in the write path where `metadata.managedFields` is decided.
//!
//! Ownership is not tracked yet. Until it is, what clients send as managedFields is not theirs to say, and is dropped.

use serde_json::Value;

use super::tree::metadata_mut;

/// Decides the managedFields of an object that `manager` is about to write.
pub(super) fn track(object: &mut Value, manager: &str) {
    if metadata_mut(object).shift_remove("managedFields").is_some() {
        tracing::trace!(manager, "managedFields are not kept");
    }
}
