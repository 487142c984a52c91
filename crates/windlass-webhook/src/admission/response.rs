//! What an API server is told.

use std::{collections::BTreeMap, error::Error};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json};
use windlass_api::{BoxError, ErrorChain, Status, patch::json_diff, reason};

/// An answer: allowed or not, and why; what to warn of; what the object is to be.
#[derive(Clone, Debug)]
#[must_use = "an answer that nobody gets is none"]
pub struct Response {
    allowed: bool,
    status: Box<Status>,
    pub(super) warnings: Vec<String>,
    audit_annotations: BTreeMap<String, String>,
    /// The whole object as it is to be.
    pub(super) object: Option<Value>,
}

/// What the client is warned of, in words for people: `kubectl` prints them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Warnings(Vec<String>);

/// Why something is not allowed.
///
/// Made of any error or text by `?` or `into()`: a [`Status`] (also one that caused the error) reaches the client as it is,
/// anything else is refused with 403 and its words.
#[derive(Clone, Debug)]
pub struct Denial {
    status: Box<Status>,
    warnings: Warnings,
}

// === impl Response ===

impl Response {
    /// Allowed.
    pub fn allowed() -> Self {
        let status = Status { code: 200, ..Status::default() };
        Self::new(true, status)
    }

    /// Not allowed: 403, for a reason.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::refused(Status::failure(403, reason::FORBIDDEN, message))
    }

    /// Not allowed, with a status of one's own.
    pub fn refused(status: Status) -> Self {
        Self::new(false, status)
    }

    /// The request could not be judged: an HTTP status code, and why.
    pub fn errored(code: u16, message: impl Into<String>) -> Self {
        Denial::errored(code, message).into()
    }

    /// Allowed, and the object is to be this one: the whole object, of which the patch is made.
    pub fn patched(object: Value) -> Self {
        Self { object: Some(object), ..Self::allowed() }
    }

    /// Says something for people. The API server shows it only when it does not allow.
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.status.message = message.into();
        self
    }

    /// Warns the client, of more than before.
    pub fn with_warnings(mut self, warnings: impl Into<Warnings>) -> Self {
        self.warnings.extend(warnings.into().0);
        self
    }

    /// Adds a word to the audit log; the API server puts the name of the webhook before the key.
    pub fn with_audit_annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.audit_annotations.insert(key.into(), value.into());
        self
    }

    /// Whether it may be.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// The code and the words.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// What the client is warned of.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The object as it is to be, if it is to be changed.
    #[must_use]
    pub const fn object(&self) -> Option<&Value> {
        self.object.as_ref()
    }

    fn new(allowed: bool, status: Status) -> Self {
        let (status, warnings) = (Box::new(status), Vec::new());
        Self { allowed, status, warnings, audit_annotations: BTreeMap::new(), object: None }
    }

    /// What was said before, and now this.
    pub(super) fn after(mut self, warnings: &[String], annotations: &BTreeMap<String, String>) -> Self {
        self.warnings.splice(..0, warnings.iter().cloned());
        for (key, value) in annotations {
            self.audit_annotations.entry(key.clone()).or_insert_with(|| value.clone());
        }
        self
    }

    pub(super) const fn annotations(&self) -> &BTreeMap<String, String> {
        &self.audit_annotations
    }

    /// As a review has it: the answer to a request with this uid, about an object that came like this.
    pub(super) fn to_wire(&self, uid: &str, came: &Value) -> Value {
        let mut fields = Map::new();
        fields.insert("uid".to_owned(), uid.into());
        fields.insert("allowed".to_owned(), self.allowed.into());
        let status = &*self.status;
        let mut said = json!({"metadata": {}, "code": status.code});
        let texts =
            [("status", Some(&status.status)), ("message", Some(&status.message)), ("reason", status.reason.as_ref())];
        for (field, text) in texts.into_iter().filter_map(|(field, text)| Some((field, text?))) {
            if !text.is_empty() {
                said[field] = text.as_str().into();
            }
        }
        if let Some(details) = &status.details {
            said["details"] = json!(details);
        }
        fields.insert("status".to_owned(), said);
        let operations = self.object.as_ref().map(|object| json_diff(came, object)).unwrap_or_default();
        if self.allowed && !operations.is_empty() {
            let patch = BASE64_STANDARD.encode(Value::Array(operations).to_string());
            fields.insert("patch".to_owned(), patch.into());
            fields.insert("patchType".to_owned(), "JSONPatch".into());
        }
        if !self.audit_annotations.is_empty() {
            fields.insert("auditAnnotations".to_owned(), json!(self.audit_annotations));
        }
        if !self.warnings.is_empty() {
            fields.insert("warnings".to_owned(), json!(self.warnings));
        }
        Value::Object(fields)
    }
}

// === impl Warnings ===

impl Warnings {
    /// None.
    #[must_use]
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// One more.
    pub fn push(&mut self, warning: impl Into<String>) {
        self.0.push(warning.into());
    }
}

impl From<()> for Warnings {
    fn from((): ()) -> Self {
        Self::none()
    }
}

impl From<Vec<String>> for Warnings {
    fn from(warnings: Vec<String>) -> Self {
        Self(warnings)
    }
}

impl<const N: usize> From<[&str; N]> for Warnings {
    fn from(warnings: [&str; N]) -> Self {
        Self(warnings.map(str::to_owned).into())
    }
}

// === impl Denial ===

impl Denial {
    /// With a status of one's own.
    #[must_use]
    pub fn with_status(status: Status) -> Self {
        Self { status: Box::new(status), warnings: Warnings::none() }
    }

    /// The request could not be judged: an HTTP status code, and why.
    #[must_use]
    pub fn errored(code: u16, message: impl Into<String>) -> Self {
        Self::with_status(Status::failure(code, "", message))
    }

    /// Warns the client as well.
    #[must_use]
    pub fn with_warnings(mut self, warnings: impl Into<Warnings>) -> Self {
        self.warnings.0.extend(warnings.into().0);
        self
    }

    /// The code and the words.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }
}

impl<E: Into<BoxError>> From<E> for Denial {
    fn from(error: E) -> Self {
        let error = error.into();
        let mut cause: Option<&(dyn Error + 'static)> = Some(&*error);
        while let Some(found) = cause {
            let boxed = || found.downcast_ref::<Box<Status>>().map(|status| &**status);
            if let Some(status) = found.downcast_ref::<Status>().or_else(boxed) {
                return Self::with_status(status.clone());
            }
            cause = found.source();
        }
        Self::with_status(Status::failure(403, reason::FORBIDDEN, ErrorChain(&*error).to_string()))
    }
}

impl From<Denial> for Response {
    fn from(denial: Denial) -> Self {
        Self::refused(*denial.status).with_warnings(denial.warnings)
    }
}
