//! `Status`: the response of a server that is not an object, for success or failure.
//!
//! The constructors produce exactly the messages of the real server, because clients depend on them.

use std::{collections::HashSet, fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{GroupKind, GroupResource, ListMeta};

/// The API type `meta/v1.Status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Always `Status`.
    pub kind: String,
    /// Always `v1`.
    pub api_version: String,
    /// The metadata; always present and mostly empty. An expired continue token is returned with a new token to
    /// continue from.
    #[serde(serialize_with = "what_is_set")]
    pub metadata: ListMeta,
    /// `Success` or `Failure`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// The human-readable message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The machine-readable reason; see [`reason`]. Absent for failures without a specific reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The object or resource concerned, and the causes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<StatusDetails>>,
    /// The HTTP status code; 0 if unspecified.
    #[serde(skip_serializing_if = "is_zero")]
    pub code: u16,
}

/// The details of a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    /// The object's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The group of [`Self::kind`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource (plural) for most reasons, the kind for `Invalid`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The object's UID.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The individual failures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// The time to wait before a retry, in seconds; 0 if unspecified.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

/// An individual failure in a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// The reason: `FieldValueRequired`, …
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The human-readable message, without the field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the field, such as `spec.containers[0].name`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// The machine-readable reasons.
pub mod reason {
    #![allow(missing_docs, reason = "the names are self-explanatory")]
    pub const ALREADY_EXISTS: &str = "AlreadyExists";
    pub const BAD_REQUEST: &str = "BadRequest";
    pub const CONFLICT: &str = "Conflict";
    pub const EXPIRED: &str = "Expired";
    pub const FORBIDDEN: &str = "Forbidden";
    pub const GONE: &str = "Gone";
    pub const INTERNAL_ERROR: &str = "InternalError";
    pub const INVALID: &str = "Invalid";
    pub const METHOD_NOT_ALLOWED: &str = "MethodNotAllowed";
    pub const NOT_ACCEPTABLE: &str = "NotAcceptable";
    pub const NOT_FOUND: &str = "NotFound";
    pub const REQUEST_ENTITY_TOO_LARGE: &str = "RequestEntityTooLarge";
    pub const SERVER_TIMEOUT: &str = "ServerTimeout";
    pub const SERVICE_UNAVAILABLE: &str = "ServiceUnavailable";
    pub const STORE_READ_ERROR: &str = "StorageReadError";
    pub const TIMEOUT: &str = "Timeout";
    pub const TOO_MANY_REQUESTS: &str = "TooManyRequests";
    pub const UNAUTHORIZED: &str = "Unauthorized";
    pub const UNSUPPORTED_MEDIA_TYPE: &str = "UnsupportedMediaType";

    /// The reason of a cause, not of a status: the response does not come from an API server.
    pub const UNEXPECTED_SERVER_RESPONSE: &str = "UnexpectedServerResponse";

    /// All reasons. A status with any other reason is classified by its code.
    pub(super) const ALL: [&str; 19] = [
        ALREADY_EXISTS,
        BAD_REQUEST,
        CONFLICT,
        EXPIRED,
        FORBIDDEN,
        GONE,
        INTERNAL_ERROR,
        INVALID,
        METHOD_NOT_ALLOWED,
        NOT_ACCEPTABLE,
        NOT_FOUND,
        REQUEST_ENTITY_TOO_LARGE,
        SERVER_TIMEOUT,
        SERVICE_UNAVAILABLE,
        STORE_READ_ERROR,
        TIMEOUT,
        TOO_MANY_REQUESTS,
        UNAUTHORIZED,
        UNSUPPORTED_MEDIA_TYPE,
    ];
}

/// The cause of an error about a resource version that the server has not reached yet.
const TOO_LARGE_RESOURCE_VERSION: &str = "ResourceVersionTooLarge";

// === Predicates ===

impl Status {
    /// Reports whether the reason is `reason`.
    #[must_use]
    pub fn is(&self, reason: &str) -> bool {
        self.reason.as_deref() == Some(reason)
    }

    /// Reports whether the request succeeded.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.status == "Success"
    }

    /// Reports whether the reason is `reason`, or whether the code is `code` and the reason is missing or unknown.
    fn is_or_has_code(&self, reason: &str, code: u16) -> bool {
        self.is(reason)
            || (self.code == code && !self.reason.as_deref().is_some_and(|known| reason::ALL.contains(&known)))
    }

    /// Reports whether a resource version or continue token is too old: the reason is `Expired` or `Gone`.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.is(reason::EXPIRED) || self.is_gone()
    }

    /// Reports whether an object of this name already exists.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.is(reason::ALREADY_EXISTS)
    }

    /// Reports whether the server could not complete the request in time and asks for a retry. This reason has no code
    /// of its own.
    #[must_use]
    pub fn is_server_timeout(&self) -> bool {
        self.is(reason::SERVER_TIMEOUT)
    }

    /// Reports whether the server rejects the request because it has too many, or answers 429 for any reason.
    #[must_use]
    pub fn is_too_many_requests(&self) -> bool {
        self.is(reason::TOO_MANY_REQUESTS) || self.code == 429
    }

    /// Reports whether the request is larger than the server accepts, or whether the server answers 413 for any reason.
    #[must_use]
    pub fn is_request_entity_too_large(&self) -> bool {
        self.is(reason::REQUEST_ENTITY_TOO_LARGE) || self.code == 413
    }

    /// Reports whether the response does not come from an API server but, for example, from a proxy or load balancer.
    /// The client created this status.
    #[must_use]
    pub fn is_unexpected_server_response(&self) -> bool {
        self.has_cause(reason::UNEXPECTED_SERVER_RESPONSE)
    }

    /// Reports whether the server has not reached the resource version yet.
    #[must_use]
    pub fn is_too_large_resource_version(&self) -> bool {
        self.is(reason::TIMEOUT) && self.has_cause(TOO_LARGE_RESOURCE_VERSION)
    }

    /// Reports whether one of the causes has this reason.
    #[must_use]
    pub fn has_cause(&self, reason: &str) -> bool {
        self.details.as_ref().is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
    }

    /// Returns the time that the server asks to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Returns the time to wait before a retry. This is the time that the server asks for, or zero if the server asks
    /// for a delay without specifying it.
    #[must_use]
    pub fn suggests_client_delay(&self) -> Option<Duration> {
        self.retry_after().or_else(|| (self.is_server_timeout() && self.details.is_some()).then_some(Duration::ZERO))
    }
}

/// Defines predicates on a reason, or on a code if the reason is missing or unknown.
macro_rules! predicates {
    ($($(#[$doc:meta])* $name:ident: $reason:ident or $code:literal;)*) => {
        impl Status {$(
            $(#[$doc])*
            #[must_use]
            pub fn $name(&self) -> bool {
                self.is_or_has_code(reason::$reason, $code)
            }
        )*}
    };
}

predicates! {
    /// Reports whether the object or the resource does not exist.
    is_not_found: NOT_FOUND or 404;
    /// Reports whether the object was changed by another write.
    is_conflict: CONFLICT or 409;
    /// Reports whether the object failed validation.
    is_invalid: INVALID or 422;
    /// Reports whether the user lacks permission.
    is_forbidden: FORBIDDEN or 403;
    /// Reports whether the server could not authenticate the user.
    is_unauthorized: UNAUTHORIZED or 401;
    /// Reports whether the request is malformed.
    is_bad_request: BAD_REQUEST or 400;
    /// Reports whether the requested item is no longer available. See also [`Self::is_expired`].
    is_gone: GONE or 410;
    /// Reports whether the resource does not support the verb.
    is_method_not_allowed: METHOD_NOT_ALLOWED or 405;
    /// Reports whether the server cannot respond in a format that the client accepts.
    is_not_acceptable: NOT_ACCEPTABLE or 406;
    /// Reports whether the server does not support the format of the request body.
    is_unsupported_media_type: UNSUPPORTED_MEDIA_TYPE or 415;
    /// Reports whether the server had an internal error.
    is_internal_error: INTERNAL_ERROR or 500;
    /// Reports whether a service that the server depends on is unavailable.
    is_service_unavailable: SERVICE_UNAVAILABLE or 503;
    /// Reports whether the response did not arrive in time. The server may still be processing the request.
    is_timeout: TIMEOUT or 504;
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.message.as_str(), &self.reason) {
            ("", Some(reason)) => f.write_str(reason),
            ("", None) => write!(f, "status {}", self.code),
            (message, _) => f.write_str(message),
        }
    }
}

impl std::error::Error for Status {}

// === Constructors ===

impl Status {
    /// Creates a success with details.
    #[must_use]
    pub fn success(details: StatusDetails) -> Self {
        Self { status: "Success".to_owned(), details: Some(Box::new(details)), ..Self::blank() }
    }

    /// Creates a failure.
    #[must_use]
    pub fn failure(code: u16, reason: &str, message: impl Into<String>) -> Self {
        let reason = Some(reason.to_owned()).filter(|reason| !reason.is_empty());
        Self { status: "Failure".to_owned(), message: message.into(), reason, code, ..Self::blank() }
    }

    /// Returns this failure with details.
    #[must_use]
    pub fn with_details(mut self, details: StatusDetails) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Returns this failure with causes.
    #[must_use]
    pub fn with_causes(mut self, causes: Vec<Cause>) -> Self {
        self.details.get_or_insert_default().causes = causes;
        self
    }

    /// Creates the failure for an object that does not exist.
    #[must_use]
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::failure(404, reason::NOT_FOUND, format!("{resource} {name:?} not found")).about(resource, name)
    }

    /// Creates the failure for a group, version or resource that is not served.
    #[must_use]
    pub fn unknown_resource() -> Self {
        Self::failure(404, reason::NOT_FOUND, "the server could not find the requested resource")
            .with_details(StatusDetails::default())
    }

    /// Creates the failure for an object that already exists.
    #[must_use]
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::failure(409, reason::ALREADY_EXISTS, format!("{resource} {name:?} already exists")).about(resource, name)
    }

    /// Creates the failure of a write that conflicts with the object's state. `why` must be the real server's wording.
    #[must_use]
    pub fn conflict(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::failure(409, reason::CONFLICT, message).about(resource, name)
    }

    /// Creates the failure of a write to an object that was changed meanwhile.
    #[must_use]
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// Creates the failure of an object that failed validation. Each cause is `(field, reason, body)` as in [`Cause`].
    #[must_use]
    pub fn invalid(kind: &GroupKind, name: &str, causes: Vec<Cause>) -> Self {
        // Each message is formatted once, because there may be many thousands of long ones.
        let mut seen = HashSet::with_capacity(causes.len());
        let mut list = String::new();
        for cause in &causes {
            let field = if cause.field.is_empty() { "<nil>" } else { &cause.field };
            if seen.insert((field, &cause.message)) {
                let separator = if list.is_empty() { "" } else { ", " };
                list.extend([separator, field, ": ", &cause.message]);
            }
        }
        let list = match seen.len() {
            0 => "<nil>".to_owned(),
            1 => list,
            _ => format!("[{list}]"),
        };
        let details = StatusDetails {
            name: name.to_owned(),
            group: kind.group.clone().into_owned(),
            kind: kind.kind.clone().into_owned(),
            causes,
            ..StatusDetails::default()
        };
        Self::failure(422, reason::INVALID, format!("{kind} {name:?} is invalid: {list}")).with_details(details)
    }

    /// Creates the failure of a malformed request.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, reason::BAD_REQUEST, message)
    }

    /// Creates the failure of a request without permission. An empty name stands for the whole resource.
    #[must_use]
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = match name {
            "" => format!("{resource} is forbidden: {why}"),
            name => format!("{resource} {name:?} is forbidden: {why}"),
        };
        Self::failure(403, reason::FORBIDDEN, message).about(resource, name)
    }

    /// Creates the failure for a verb that the resource does not support.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        Self::failure(
            405,
            reason::METHOD_NOT_ALLOWED,
            "the server does not allow this method on the requested resource",
        )
        .with_details(StatusDetails::default())
    }

    /// Creates the failure of a request with missing or invalid credentials.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::failure(401, reason::UNAUTHORIZED, "Unauthorized")
    }

    /// Creates the failure for a body in an unsupported format.
    #[must_use]
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::failure(415, reason::UNSUPPORTED_MEDIA_TYPE, message)
    }

    /// Creates the failure of a request that accepts none of the available formats.
    #[must_use]
    pub fn not_acceptable(offered: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", offered.join(", "));
        Self::failure(406, reason::NOT_ACCEPTABLE, message)
    }

    /// Creates the failure for a body of more than `limit` bytes.
    #[must_use]
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::failure(413, reason::REQUEST_ENTITY_TOO_LARGE, message)
    }

    /// Creates the failure for a resource version or continue token that is too old.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, reason::EXPIRED, message)
    }

    /// Creates the failure for a resource version that the server did not reach within the allowed time.
    #[must_use]
    pub fn too_large_resource_version(requested: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
        let cause = Cause {
            reason: TOO_LARGE_RESOURCE_VERSION.to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        let details = StatusDetails { causes: vec![cause], retry_after_seconds: 1, ..StatusDetails::default() };
        Self::failure(504, reason::TIMEOUT, message).with_details(details)
    }

    /// Creates the failure of a throttled request, with the seconds to wait before a retry.
    #[must_use]
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let details = StatusDetails { retry_after_seconds, ..StatusDetails::default() };
        Self::failure(429, reason::TOO_MANY_REQUESTS, message).with_details(details)
    }

    /// Creates the failure for an internal error.
    #[must_use]
    pub fn internal(why: impl fmt::Display) -> Self {
        let cause = Cause { message: why.to_string(), ..Cause::default() };
        Self::failure(500, reason::INTERNAL_ERROR, format!("Internal error occurred: {why}")).with_causes(vec![cause])
    }

    /// Creates the failure for an error without a reason, with code 500.
    #[must_use]
    pub fn unclassified(message: impl Into<String>) -> Self {
        Self::failure(500, "", message)
    }

    fn about(self, resource: &GroupResource, name: &str) -> Self {
        self.with_details(StatusDetails {
            name: name.to_owned(),
            group: resource.group.clone().into_owned(),
            kind: resource.resource.clone().into_owned(),
            ..StatusDetails::default()
        })
    }

    fn blank() -> Self {
        Self { kind: "Status".to_owned(), api_version: "v1".to_owned(), ..Self::default() }
    }
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

/// Serializes the metadata of a status. In contrast to the metadata of a list, it omits empty fields.
fn what_is_set<S: serde::Serializer>(metadata: &ListMeta, serializer: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap;
    let mut map = serializer.serialize_map(None)?;
    if !metadata.resource_version.is_empty() {
        map.serialize_entry("resourceVersion", &metadata.resource_version)?;
    }
    if let Some(token) = &metadata.continue_token {
        map.serialize_entry("continue", token)?;
    }
    map.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_written_as_the_real_server_writes_it() {
        let status = Status::not_found(&GroupResource::new("apps", "deployments"), "d");
        assert_eq!(
            serde_json::to_string(&status).unwrap(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"deployments.apps \"d\" not found","reason":"NotFound","details":{"name":"d","group":"apps","kind":"deployments"},"code":404}"#
        );
        assert_eq!(
            serde_json::to_string(&Status::method_not_allowed()).unwrap(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server does not allow this method on the requested resource","reason":"MethodNotAllowed","details":{},"code":405}"#
        );
    }

    #[test]
    fn the_token_that_replaces_an_expired_one_reaches_the_client() {
        let mut status = Status::expired("too old");
        status.metadata.continue_token = Some("next".to_owned());
        let text = serde_json::to_string(&status).unwrap();
        assert!(text.contains(r#""metadata":{"continue":"next"}"#), "{text}");
    }

    #[test]
    fn several_causes_are_listed_once_each() {
        let cause = |field: &str| Cause {
            reason: "FieldValueRequired".to_owned(),
            message: "Required value".to_owned(),
            field: field.to_owned(),
        };
        let kind = GroupKind::new("", "Pod");
        let one = Status::invalid(&kind, "p", vec![cause("spec.containers")]);
        assert_eq!(one.message, r#"Pod "p" is invalid: spec.containers: Required value"#);
        let many = Status::invalid(&kind, "p", vec![cause("a"), cause("b"), cause("a")]);
        assert_eq!(many.message, r#"Pod "p" is invalid: [a: Required value, b: Required value]"#);
        assert_eq!(many.details.unwrap().causes.len(), 3);
    }

    #[test]
    fn status_reason_and_details_are_read_back() {
        let status = Status::too_large_resource_version(9, 3);
        let read: Status = serde_json::from_slice(&serde_json::to_vec(&status).unwrap()).unwrap();
        assert_eq!(read, status);
        assert!(read.is_too_large_resource_version() && !read.is_expired());
        assert_eq!(read.retry_after(), Some(Duration::from_secs(1)));
        assert!(Status::expired("too old").is_expired());
    }

    #[test]
    fn reason_decides_and_code_is_the_fallback() {
        let failure = |code, reason| Status::failure(code, reason, "no");
        for (status, asked, holds) in [
            (failure(404, "NotFound"), Status::is_not_found as fn(&Status) -> bool, true),
            (failure(404, ""), Status::is_not_found, true),
            (failure(404, "OfSomeLaterVersion"), Status::is_not_found, true),
            (failure(404, "Forbidden"), Status::is_not_found, false),
            (failure(409, "AlreadyExists"), Status::is_conflict, false),
            (failure(409, "AlreadyExists"), Status::is_already_exists, true),
            (failure(409, ""), Status::is_already_exists, false),
            (failure(409, ""), Status::is_conflict, true),
            (failure(429, "Forbidden"), Status::is_too_many_requests, true),
            (failure(413, "BadRequest"), Status::is_request_entity_too_large, true),
            (failure(410, "Expired"), Status::is_gone, false),
            (failure(410, "Expired"), Status::is_expired, true),
            (failure(410, ""), Status::is_expired, true),
            (failure(500, "ServerTimeout"), Status::is_internal_error, false),
        ] {
            assert_eq!(asked(&status), holds, "{status:?}");
        }
    }

    #[test]
    fn retry_delay_comes_from_seconds_or_reason() {
        let with = |reason: &str, seconds: Option<u32>| Status {
            details: seconds
                .map(|seconds| Box::new(StatusDetails { retry_after_seconds: seconds, ..Default::default() })),
            ..Status::failure(500, reason, "later")
        };
        assert_eq!(with("InternalError", Some(3)).suggests_client_delay(), Some(Duration::from_secs(3)));
        assert_eq!(with("ServerTimeout", Some(0)).suggests_client_delay(), Some(Duration::ZERO));
        assert_eq!(with("InternalError", Some(0)).suggests_client_delay(), None);
        assert_eq!(with("ServerTimeout", None).suggests_client_delay(), None);
    }
}
