//! The content of an event.

use std::{borrow::Cow, collections::BTreeMap};

use windlass_api::{ObjectExt as _, Resource, k8s_openapi::api::core::v1::ObjectReference};

/// A message of a controller about an object.
///
/// ```
/// use windlass_runtime::events::Note;
///
/// let note = Note::normal("ScalingReplicaSet", "Scaled up replica set web-5d from 0 to 3");
/// let failed = Note::warning("FailedCreate", "Error creating: quota exceeded").annotated("example.com/quota", "pods");
/// # let _ = (note, failed);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a note does nothing until it is recorded"]
pub struct Note {
    pub(super) severity: Severity,
    pub(super) reason: Cow<'static, str>,
    pub(super) message: String,
    pub(super) annotations: BTreeMap<String, String>,
    /// `None`: the reason describes the action.
    pub(super) action: Option<String>,
    pub(super) related: Option<ObjectReference>,
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// A normal operation.
    Normal,
    /// A problem.
    Warning,
}

impl Note {
    /// Creates a note about a normal operation. `reason` is a machine-readable word in `UpperCamelCase`; `message` is
    /// for users.
    pub fn normal(reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Normal, reason.into(), message.into())
    }

    /// Creates a note about a problem.
    pub fn warning(reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, reason.into(), message.into())
    }

    /// Adds an annotation to the event.
    pub fn annotated(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// Sets the action, a machine-readable word. With events.k8s.io, it defaults to the reason.
    pub fn action(mut self, action: impl Into<String>) -> Self {
        self.action = Some(action.into());
        self
    }

    /// Sets a related object.
    pub fn related<K: Resource>(mut self, object: &K) -> Self {
        self.related = Some(object.object_reference());
        self
    }

    const fn new(severity: Severity, reason: Cow<'static, str>, message: String) -> Self {
        Self { severity, reason, message, annotations: BTreeMap::new(), action: None, related: None }
    }
}

impl Severity {
    /// Returns the value of the event's `type` field.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}
