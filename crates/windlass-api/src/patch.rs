//! Patches, and their computation from two or three states of an object.
//!
//! [`PatchFrom`] creates a patch from an object before and after a change. The functions in this module work on values.
//! They also create three-way patches, from the user's last desired state, the user's new desired state, and the
//! current state.

#[cfg(feature = "k8s-openapi")]
mod from;
mod json;
mod merge;
#[cfg(feature = "schema")]
mod strategic;

use serde_json::Value;
use thiserror::Error;

#[cfg(feature = "k8s-openapi")]
pub use from::PatchFrom;
pub use json::json_diff;
pub use merge::{merge_diff, merge_three_way};
#[cfg(feature = "schema")]
pub use strategic::{OnConflict, strategic_diff, strategic_three_way};

/// The type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PatchKind {
    /// JSON patch (RFC 6902): a list of operations.
    Json,
    /// JSON merge patch (RFC 7386): an object that is merged recursively. Null removes a field, and lists are replaced.
    Merge,
    /// Strategic merge patch: like a JSON merge patch, except that lists with a merge key are merged. Only for built-in
    /// kinds.
    Strategic,
    /// Server-side apply: the fields that the caller owns.
    Apply,
}

/// A patch with its body.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// JSON patch (RFC 6902): a list of operations.
    Json(Value),
    /// JSON merge patch (RFC 7386): an object that is merged recursively. Null removes a field, and lists are replaced.
    Merge(Value),
    /// Strategic merge patch: like a JSON merge patch, except that lists with a merge key are merged. Only for built-in
    /// kinds.
    Strategic(Value),
    /// Server-side apply: the fields that the caller owns.
    Apply(Value),
}

/// The error of a patch that cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DiffError {
    /// The compared value is a list or a scalar.
    #[error("a patch requires two objects")]
    NoObject,
    /// An object cannot be encoded.
    #[error("the object cannot be encoded: {message}")]
    Encode {
        /// The cause.
        message: String,
    },
    /// The kind is not built in, so its merge keys for a strategic merge patch are unknown.
    #[error("{kind} is not a built-in kind, and only built-in kinds have strategic merge patches")]
    NotBuiltIn {
        /// Group, version and kind.
        kind: String,
    },
    /// The kind has no object or list field of this name.
    #[error("the kind has no field {path} that can be merged")]
    UnknownField {
        /// The path, separated by dots.
        path: String,
    },
    /// An item of a list lacks its merge key.
    #[error("an item of {path} lacks the merge key {key}")]
    NoMergeKey {
        /// The list's path, separated by dots.
        path: String,
        /// The missing field.
        key: String,
    },
    /// The object has no resource version for optimistic locking.
    #[error("the object has no resourceVersion for optimistic locking")]
    NoVersion,
    /// The user's change conflicts with another change.
    #[error("{path} was changed differently by another writer")]
    Conflict {
        /// The path, separated by dots.
        path: String,
    },
}

impl PatchKind {
    /// Returns the media type of the request.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }

    /// Returns the kind of a media type without parameters.
    #[must_use]
    pub fn from_media_type(media_type: &str) -> Option<Self> {
        [Self::Json, Self::Merge, Self::Strategic, Self::Apply].into_iter().find(|kind| kind.media_type() == media_type)
    }
}

impl Patch {
    /// Returns the type of the patch.
    #[must_use]
    pub const fn kind(&self) -> PatchKind {
        match self {
            Self::Json(_) => PatchKind::Json,
            Self::Merge(_) => PatchKind::Merge,
            Self::Strategic(_) => PatchKind::Strategic,
            Self::Apply(_) => PatchKind::Apply,
        }
    }

    /// Returns the body.
    #[must_use]
    pub const fn body(&self) -> &Value {
        match self {
            Self::Json(body) | Self::Merge(body) | Self::Strategic(body) | Self::Apply(body) => body,
        }
    }
}
