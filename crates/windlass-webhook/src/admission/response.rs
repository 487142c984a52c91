//! Admission responses.

use std::{collections::BTreeMap, error::Error};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json};
use windlass_api::{BoxError, ErrorChain, Status, patch::json_diff, reason};

/// An admission response: the decision with its reason, warnings, and the changed object.
#[derive(Clone, Debug)]
#[must_use = "a response does nothing until it is returned"]
pub struct Response {
    allowed: bool,
    status: Box<Status>,
    pub(super) warnings: Vec<String>,
    audit_annotations: BTreeMap<String, String>,
    /// The complete changed object.
    pub(super) object: Option<Value>,
}

/// Warnings for the client. `kubectl` prints them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Warnings(Vec<String>);

/// The reason why a request is denied.
///
/// Converts from any error or text with `?` or `into()`. A [`Status`], also as the cause of an error, is returned to
/// the client unchanged. Any other error leads to status 403 with the error's message.
#[derive(Clone, Debug)]
pub struct Denial {
    status: Box<Status>,
    warnings: Warnings,
}

// === impl Response ===

impl Response {
    /// Allows the request.
    pub fn allowed() -> Self {
        let status = Status { code: 200, ..Status::default() };
        Self::new(true, status)
    }

    /// Denies the request with status 403 and a message.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::refused(Status::failure(403, reason::FORBIDDEN, message))
    }

    /// Denies the request with this status.
    pub fn refused(status: Status) -> Self {
        Self::new(false, status)
    }

    /// Reports that the request could not be handled, with an HTTP status code and a message.
    pub fn errored(code: u16, message: impl Into<String>) -> Self {
        Denial::errored(code, message).into()
    }

    /// Allows the request and replaces the object. The patch is computed from the complete new object.
    pub fn patched(object: Value) -> Self {
        Self { object: Some(object), ..Self::allowed() }
    }

    /// Sets a message. The API server shows it only for denied requests.
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.status.message = message.into();
        self
    }

    /// Adds warnings for the client.
    pub fn with_warnings(mut self, warnings: impl Into<Warnings>) -> Self {
        self.warnings.extend(warnings.into().0);
        self
    }

    /// Adds an annotation to the audit log. The API server prefixes the key with the webhook's name.
    pub fn with_audit_annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.audit_annotations.insert(key.into(), value.into());
        self
    }

    /// Reports whether the request is allowed.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Returns the code and the message.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Returns the warnings for the client.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the changed object, if there is one.
    #[must_use]
    pub const fn object(&self) -> Option<&Value> {
        self.object.as_ref()
    }

    fn new(allowed: bool, status: Status) -> Self {
        let (status, warnings) = (Box::new(status), Vec::new());
        Self { allowed, status, warnings, audit_annotations: BTreeMap::new(), object: None }
    }

    /// Prepends the warnings and audit annotations of previous handlers.
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

    /// Encodes the response for a review: the response to the request with this UID, with the patch relative to `came`.
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
    /// Creates an empty list.
    #[must_use]
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Appends a warning.
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
    /// Creates a denial with this status.
    #[must_use]
    pub fn with_status(status: Status) -> Self {
        Self { status: Box::new(status), warnings: Warnings::none() }
    }

    /// Creates a denial that reports a failure of the handler, with an HTTP status code and a message.
    #[must_use]
    pub fn errored(code: u16, message: impl Into<String>) -> Self {
        Self::with_status(Status::failure(code, "", message))
    }

    /// Adds warnings for the client.
    #[must_use]
    pub fn with_warnings(mut self, warnings: impl Into<Warnings>) -> Self {
        self.warnings.0.extend(warnings.into().0);
        self
    }

    /// Returns the code and the message.
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
