//! What is to be said.

use std::{borrow::Cow, collections::BTreeMap};

use windlass_api::{ObjectExt as _, Resource, k8s_openapi::api::core::v1::ObjectReference};

/// What a controller has to say of an object.
///
/// ```
/// use windlass_runtime::events::Note;
///
/// let note = Note::normal("ScalingReplicaSet", "Scaled up replica set web-5d from 0 to 3");
/// let failed = Note::warning("FailedCreate", "Error creating: quota exceeded").annotated("example.com/quota", "pods");
/// # let _ = (note, failed);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a note is nothing until it is recorded"]
pub struct Note {
    pub(super) severity: Severity,
    pub(super) reason: Cow<'static, str>,
    pub(super) message: String,
    pub(super) annotations: BTreeMap<String, String>,
    /// `None`: the reason says it all.
    pub(super) action: Option<String>,
    pub(super) related: Option<ObjectReference>,
}

/// How much it should worry the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Things take their course.
    Normal,
    /// Something is not as it should be.
    Warning,
}

impl Note {
    /// Things take their course. `reason` is one word for machines, `UpperCamelCase`; `message` is for people.
    pub fn normal(reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Normal, reason.into(), message.into())
    }

    /// Something is not as it should be.
    pub fn warning(reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, reason.into(), message.into())
    }

    /// With an annotation on the event.
    pub fn annotated(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// What was done, in one word for machines; events.k8s.io takes the reason where nothing is said.
    pub fn action(mut self, action: impl Into<String>) -> Self {
        self.action = Some(action.into());
        self
    }

    /// Another object that has to do with it.
    pub fn related<K: Resource>(mut self, object: &K) -> Self {
        self.related = Some(object.object_reference());
        self
    }

    const fn new(severity: Severity, reason: Cow<'static, str>, message: String) -> Self {
        Self { severity, reason, message, annotations: BTreeMap::new(), action: None, related: None }
    }
}

impl Severity {
    /// As the API writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}
