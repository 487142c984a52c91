//! The answer of a server that is no object: success without one, or failure.
//!
//! The constructors give the real server's texts to the letter: clients decide by them.

use std::{collections::HashSet, fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{GroupKind, GroupResource, ListMeta};

/// `meta/v1.Status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Always `Status`.
    pub kind: String,
    /// Always `v1`.
    pub api_version: String,
    /// Always there, and mostly empty; a continue token that has expired comes with another one to go on with.
    #[serde(serialize_with = "what_is_set")]
    pub metadata: ListMeta,
    /// `Success` or `Failure`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// For programs; see [`reason`]. Absent for failures without a class of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<StatusDetails>>,
    /// The HTTP status code; 0 when it was not said.
    #[serde(skip_serializing_if = "is_zero")]
    pub code: u16,
}

/// What a [`Status`] is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    /// The object's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The group of [`Self::kind`]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource (plural) for most reasons, the kind for `Invalid`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The object's uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The single failures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// How long to wait before the next try, in seconds; 0 when it was not said.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

/// One of the failures behind a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// `FieldValueRequired`, …
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people; without the field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the field, `spec.containers[0].name`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// The reasons that programs decide by.
pub mod reason {
    #![allow(missing_docs, reason = "each constant is its own name")]
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

    /// Not a reason but a cause: what answered is no API server.
    pub const UNEXPECTED_SERVER_RESPONSE: &str = "UnexpectedServerResponse";

    /// Every reason: an answer with another one is judged by its code.
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

/// The cause that marks a resourceVersion from the future.
const TOO_LARGE_RESOURCE_VERSION: &str = "ResourceVersionTooLarge";

// === reading ===

impl Status {
    /// Whether the reason is `reason`.
    #[must_use]
    pub fn is(&self, reason: &str) -> bool {
        self.reason.as_deref() == Some(reason)
    }

    /// Whether the request succeeded.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.status == "Success"
    }

    /// Whether the reason is `reason`, or the code is `code` and the reason says nothing: none is given, or it is one that
    /// this version does not know.
    fn is_or_has_code(&self, reason: &str, code: u16) -> bool {
        self.is(reason)
            || (self.code == code && !self.reason.as_deref().is_some_and(|known| reason::ALL.contains(&known)))
    }

    /// Whether a resourceVersion or continue token is too old: the reason is `Expired` or `Gone`.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.is(reason::EXPIRED) || self.is_gone()
    }

    /// Whether an object of that name is there already.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.is(reason::ALREADY_EXISTS)
    }

    /// Whether the server has begun, and asks to try again. No code stands for it.
    #[must_use]
    pub fn is_server_timeout(&self) -> bool {
        self.is(reason::SERVER_TIMEOUT)
    }

    /// Whether the server has had enough for now, or answers 429 for whatever reason.
    #[must_use]
    pub fn is_too_many_requests(&self) -> bool {
        self.is(reason::TOO_MANY_REQUESTS) || self.code == 429
    }

    /// Whether the request is larger than the server takes, or it answers 413 for whatever reason.
    #[must_use]
    pub fn is_request_entity_too_large(&self) -> bool {
        self.is(reason::REQUEST_ENTITY_TOO_LARGE) || self.code == 413
    }

    /// Whether what answered did not speak the API: a proxy, a load balancer. The client has made this status.
    #[must_use]
    pub fn is_unexpected_server_response(&self) -> bool {
        self.has_cause(reason::UNEXPECTED_SERVER_RESPONSE)
    }

    /// Whether the resourceVersion lies in the server's future.
    #[must_use]
    pub fn is_too_large_resource_version(&self) -> bool {
        self.is(reason::TIMEOUT) && self.has_cause(TOO_LARGE_RESOURCE_VERSION)
    }

    /// Whether one of the causes has this reason.
    #[must_use]
    pub fn has_cause(&self, reason: &str) -> bool {
        self.details.as_ref().is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
    }

    /// How long the server asks to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// How long to wait before the next try, if there is to be one: what the server asks for, or, when it only says
    /// that it asks for a delay, none.
    #[must_use]
    pub fn suggests_client_delay(&self) -> Option<Duration> {
        self.retry_after().or_else(|| (self.is_server_timeout() && self.details.is_some()).then_some(Duration::ZERO))
    }
}

/// The questions that a reason answers, or a code where the reason says nothing.
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
    /// Whether the object, or the resource, is not there.
    is_not_found: NOT_FOUND or 404;
    /// Whether the object has changed meanwhile.
    is_conflict: CONFLICT or 409;
    /// Whether the object breaks a rule of its kind.
    is_invalid: INVALID or 422;
    /// Whether the caller may not.
    is_forbidden: FORBIDDEN or 403;
    /// Whether the server does not know who is calling.
    is_unauthorized: UNAUTHORIZED or 401;
    /// Whether the request makes no sense.
    is_bad_request: BAD_REQUEST or 400;
    /// Whether what was asked for is there no more. See also [`Self::is_expired`].
    is_gone: GONE or 410;
    /// Whether the resource does not have this verb.
    is_method_not_allowed: METHOD_NOT_ALLOWED or 405;
    /// Whether the server cannot answer in a format that the caller reads.
    is_not_acceptable: NOT_ACCEPTABLE or 406;
    /// Whether the server does not read the format of the body.
    is_unsupported_media_type: UNSUPPORTED_MEDIA_TYPE or 415;
    /// Whether the server has failed.
    is_internal_error: INTERNAL_ERROR or 500;
    /// Whether what stands behind the server is not there now.
    is_service_unavailable: SERVICE_UNAVAILABLE or 503;
    /// Whether the answer did not come in time; the server may still be at it.
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

// === making ===

impl Status {
    /// A success that is about something.
    #[must_use]
    pub fn success(details: StatusDetails) -> Self {
        Self { status: "Success".to_owned(), details: Some(Box::new(details)), ..Self::blank() }
    }

    /// A failure of any kind.
    #[must_use]
    pub fn failure(code: u16, reason: &str, message: impl Into<String>) -> Self {
        let reason = Some(reason.to_owned()).filter(|reason| !reason.is_empty());
        Self { status: "Failure".to_owned(), message: message.into(), reason, code, ..Self::blank() }
    }

    /// The same failure, about something.
    #[must_use]
    pub fn with_details(mut self, details: StatusDetails) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// The same failure with single causes.
    #[must_use]
    pub fn with_causes(mut self, causes: Vec<Cause>) -> Self {
        self.details.get_or_insert_default().causes = causes;
        self
    }

    /// No object of that name.
    #[must_use]
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::failure(404, reason::NOT_FOUND, format!("{resource} {name:?} not found")).about(resource, name)
    }

    /// No such resource in a group and version that is served.
    #[must_use]
    pub fn unknown_resource() -> Self {
        Self::failure(404, reason::NOT_FOUND, "the server could not find the requested resource")
            .with_details(StatusDetails::default())
    }

    /// An object of that name is there.
    #[must_use]
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::failure(409, reason::ALREADY_EXISTS, format!("{resource} {name:?} already exists")).about(resource, name)
    }

    /// The write cannot be carried out on the object as it is; `why` as the real server words it.
    #[must_use]
    pub fn conflict(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::failure(409, reason::CONFLICT, message).about(resource, name)
    }

    /// The object was changed by somebody else.
    #[must_use]
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// The object breaks rules of its kind. Each cause is `(field, reason, body)` as in [`Cause`].
    #[must_use]
    pub fn invalid(kind: &GroupKind, name: &str, causes: Vec<Cause>) -> Self {
        // As text that is written once: there may be many thousands, and each may be long.
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

    /// The request makes no sense.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, reason::BAD_REQUEST, message)
    }

    /// The caller may not do this to the object; an empty name is the whole resource.
    #[must_use]
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = match name {
            "" => format!("{resource} is forbidden: {why}"),
            name => format!("{resource} {name:?} is forbidden: {why}"),
        };
        Self::failure(403, reason::FORBIDDEN, message).about(resource, name)
    }

    /// The resource does not have this verb.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        Self::failure(
            405,
            reason::METHOD_NOT_ALLOWED,
            "the server does not allow this method on the requested resource",
        )
        .with_details(StatusDetails::default())
    }

    /// No credentials, or unknown ones.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::failure(401, reason::UNAUTHORIZED, "Unauthorized")
    }

    /// The body is of a type that the resource does not read.
    #[must_use]
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::failure(415, reason::UNSUPPORTED_MEDIA_TYPE, message)
    }

    /// None of the types that the caller accepts can be given.
    #[must_use]
    pub fn not_acceptable(offered: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", offered.join(", "));
        Self::failure(406, reason::NOT_ACCEPTABLE, message)
    }

    /// The body is larger than `limit` bytes.
    #[must_use]
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::failure(413, reason::REQUEST_ENTITY_TOO_LARGE, message)
    }

    /// The resourceVersion or continue token is too old.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, reason::EXPIRED, message)
    }

    /// The resourceVersion lies in the future, and did not come within the time allowed.
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

    /// The server cannot serve this now; try again after so many seconds.
    #[must_use]
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let details = StatusDetails { retry_after_seconds, ..StatusDetails::default() };
        Self::failure(429, reason::TOO_MANY_REQUESTS, message).with_details(details)
    }

    /// The server failed.
    #[must_use]
    pub fn internal(why: impl fmt::Display) -> Self {
        let cause = Cause { message: why.to_string(), ..Cause::default() };
        Self::failure(500, reason::INTERNAL_ERROR, format!("Internal error occurred: {why}")).with_causes(vec![cause])
    }

    /// The server failed in a way that has no class: 500 without a reason.
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

/// Unlike a list's, the metadata of a status leaves out what is empty.
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
    fn what_programs_decide_by_is_read_back() {
        let status = Status::too_large_resource_version(9, 3);
        let read: Status = serde_json::from_slice(&serde_json::to_vec(&status).unwrap()).unwrap();
        assert_eq!(read, status);
        assert!(read.is_too_large_resource_version() && !read.is_expired());
        assert_eq!(read.retry_after(), Some(Duration::from_secs(1)));
        assert!(Status::expired("too old").is_expired());
    }

    #[test]
    fn the_reason_decides_and_the_code_where_the_reason_says_nothing() {
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
    fn a_delay_is_suggested_by_seconds_or_by_a_reason_that_implies_one() {
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
