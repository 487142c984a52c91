//! Changes to an object, as a server takes them, and how they follow from what objects are and are to be.
//!
//! [`PatchFrom`] makes a patch of an object before and after a change. The functions beside it work on values, and make
//! patches of three states as well: what a user wanted before, what the user wants now, and what others have made of it.

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

/// How a patch is to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PatchKind {
    /// RFC 6902: a list of operations.
    Json,
    /// RFC 7386: an object to lay over; null removes, lists are replaced.
    Merge,
    /// Kubernetes' own: as merge, but lists with a merge key are merged. Built-in kinds only.
    Strategic,
    /// Server-side apply: the fields that the caller wants to own.
    Apply,
}

/// A patch and its body.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// RFC 6902: a list of operations.
    Json(Value),
    /// RFC 7386: an object to lay over; null removes, lists are replaced.
    Merge(Value),
    /// Kubernetes' own: as merge, but lists with a merge key are merged. Built-in kinds only.
    Strategic(Value),
    /// Server-side apply: the fields that the caller wants to own.
    Apply(Value),
}

/// Why there is no patch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DiffError {
    /// What is compared is a list or a scalar.
    #[error("a patch is made of two objects")]
    NoObject,
    /// An object cannot be encoded.
    #[error("the object cannot be encoded: {message}")]
    Encode {
        /// Why not.
        message: String,
    },
    /// The kind is not known well enough for a strategic merge patch.
    #[error("{kind} is no built-in kind, and only those have strategic merge patches")]
    NotBuiltIn {
        /// Group, version and kind.
        kind: String,
    },
    /// An object or a list stands where the kind has none.
    #[error("the kind has no field {path} that can be merged")]
    UnknownField {
        /// Where, with dots.
        path: String,
    },
    /// An item of a list with keys has no key.
    #[error("an item of {path} has no {key}, which tells it from the others")]
    NoMergeKey {
        /// The list, with dots.
        path: String,
        /// The field that is missing.
        key: String,
    },
    /// The version that the patch is to be bound to is not known.
    #[error("the object has no resourceVersion that the patch could be bound to")]
    NoVersion,
    /// Two have changed the same.
    #[error("{path} has been changed by somebody else, in another way")]
    Conflict {
        /// Where, with dots.
        path: String,
    },
}

impl PatchKind {
    /// The media type that a request names it by.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }

    /// The kind that a media type (without parameters) names.
    #[must_use]
    pub fn from_media_type(media_type: &str) -> Option<Self> {
        [Self::Json, Self::Merge, Self::Strategic, Self::Apply].into_iter().find(|kind| kind.media_type() == media_type)
    }
}

impl Patch {
    /// How it is to be understood.
    #[must_use]
    pub const fn kind(&self) -> PatchKind {
        match self {
            Self::Json(_) => PatchKind::Json,
            Self::Merge(_) => PatchKind::Merge,
            Self::Strategic(_) => PatchKind::Strategic,
            Self::Apply(_) => PatchKind::Apply,
        }
    }

    /// What it says.
    #[must_use]
    pub const fn body(&self) -> &Value {
        match self {
            Self::Json(body) | Self::Merge(body) | Self::Strategic(body) | Self::Apply(body) => body,
        }
    }
}
