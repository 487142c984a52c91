//! Admission requests.

use std::{fmt, ops::Deref};

use http::request::Parts;
use serde::Deserialize;
use serde_json::Value;
use windlass_api::{GroupVersionKind, GroupVersionResource, k8s_openapi::api::authentication::v1::UserInfo};

/// An admission request, with the HTTP request that contained it.
///
/// Dereferences to the [`AdmissionRequest`].
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) review: AdmissionRequest,
    http: Parts,
}

/// `admission.k8s.io/v1` AdmissionRequest. The fields of v1beta1 are the same.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct AdmissionRequest {
    /// Identifies this request and its response.
    pub uid: String,
    /// The kind of [`Self::object`].
    pub kind: GroupVersionKind,
    /// The resource of the request.
    pub resource: GroupVersionResource,
    /// The subresource: `status`, `scale`, …; empty for the object itself.
    pub sub_resource: String,
    /// The kind of the client's original request. If it differs from [`Self::kind`], the object was converted.
    pub request_kind: Option<GroupVersionKind>,
    /// The resource of the client's original request.
    pub request_resource: Option<GroupVersionResource>,
    /// The subresource of the client's original request.
    pub request_sub_resource: String,
    /// The object's name; empty if the server will generate one.
    pub name: String,
    /// The object's namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The operation.
    pub operation: Operation,
    /// The requesting user.
    pub user_info: UserInfo,
    /// The new object; null for deletions.
    pub object: Value,
    /// The existing object; null for creations and connects.
    pub old_object: Value,
    /// `true` for dry runs. A webhook must then have no side effects.
    pub dry_run: bool,
    /// CreateOptions, UpdateOptions, DeleteOptions or null.
    pub options: Value,
}

/// The operation of an admission request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
#[non_exhaustive]
pub enum Operation {
    /// The object is created.
    Create,
    /// The object is updated.
    Update,
    /// The object is deleted.
    Delete,
    /// A stream is opened to the object: exec, attach, proxy.
    Connect,
    /// An operation that this version does not know; empty if the request contained none.
    Unknown(String),
}

impl AdmissionRequest {
    /// Returns the name of the requesting user; empty if unknown.
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
    /// Creates a request without HTTP, for tests of handlers.
    #[must_use]
    pub fn new(review: AdmissionRequest) -> Self {
        Self::received(review, http::Request::new(()).into_parts().0)
    }

    pub(super) const fn received(review: AdmissionRequest, http: Parts) -> Self {
        Self { review, http }
    }

    /// Returns the HTTP request: path and query, headers, and extensions that an HTTP server has set.
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
