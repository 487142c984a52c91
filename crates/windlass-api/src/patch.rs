//! Changes to an object, as a server takes them.

use serde_json::Value;

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
