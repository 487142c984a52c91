//! What an API server asks.

use std::{fmt, ops::Deref};

use http::request::Parts;
use serde::Deserialize;
use serde_json::Value;
use windlass_api::{GroupVersionKind, GroupVersionResource, k8s_openapi::api::authentication::v1::UserInfo};

/// A request for admission, and the HTTP request that it came by.
///
/// Reads as the [`AdmissionRequest`] that it holds.
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) review: AdmissionRequest,
    http: Parts,
}

/// `admission.k8s.io/v1` AdmissionRequest; that of v1beta1 has the same fields.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct AdmissionRequest {
    /// Names this request and its answer.
    pub uid: String,
    /// The kind of [`Self::object`].
    pub kind: GroupVersionKind,
    /// What is written.
    pub resource: GroupVersionResource,
    /// `status`, `scale`, …; empty for the object itself.
    pub sub_resource: String,
    /// The kind of the client's request: the object was converted if it is another than [`Self::kind`].
    pub request_kind: Option<GroupVersionKind>,
    /// The resource of the client's request.
    pub request_resource: Option<GroupVersionResource>,
    /// The subresource of the client's request.
    pub request_sub_resource: String,
    /// Empty when the server is to make one.
    pub name: String,
    /// Empty for what is in no namespace.
    pub namespace: String,
    /// What is done.
    pub operation: Operation,
    /// Who does it.
    pub user_info: UserInfo,
    /// As it is to be; null when it is deleted.
    pub object: Value,
    /// As it is now; null when it is created, or connected to.
    pub old_object: Value,
    /// Nothing will be written: nothing else may be changed in answering.
    pub dry_run: bool,
    /// CreateOptions, UpdateOptions, DeleteOptions or null.
    pub options: Value,
}

/// What is done to an object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
#[non_exhaustive]
pub enum Operation {
    /// It is new.
    Create,
    /// It replaces another.
    Update,
    /// It goes.
    Delete,
    /// A stream is opened to it: exec, attach, proxy.
    Connect,
    /// None of those that there were when this was written; empty if none was told.
    Unknown(String),
}

impl AdmissionRequest {
    /// The name of the user who does it; empty for nobody known.
    #[must_use]
    pub fn user(&self) -> &str {
        self.user_info.username.as_deref().unwrap_or_default()
    }
}

// === impl Operation ===

impl From<String> for Operation {
    fn from(text: String) -> Self {
        match text.as_str() {
            "CREATE" => Self::Create,
            "UPDATE" => Self::Update,
            "DELETE" => Self::Delete,
            "CONNECT" => Self::Connect,
            _ => Self::Unknown(text),
        }
    }
}

impl Default for Operation {
    fn default() -> Self {
        Self::Unknown(String::new())
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
            Self::Unknown(text) => text,
        })
    }
}

// === impl Request ===

impl Request {
    /// A request that came by no HTTP: for tests of handlers.
    #[must_use]
    pub fn new(review: AdmissionRequest) -> Self {
        Self::received(review, http::Request::new(()).into_parts().0)
    }

    pub(super) const fn received(review: AdmissionRequest, http: Parts) -> Self {
        Self { review, http }
    }

    /// The HTTP request: its path and query, its headers, and whatever an HTTP server before the webhooks has put into
    /// its extensions.
    #[must_use]
    pub const fn http(&self) -> &Parts {
        &self.http
    }
}

impl Deref for Request {
    type Target = AdmissionRequest;

    fn deref(&self) -> &AdmissionRequest {
        &self.review
    }
}
