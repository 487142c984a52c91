//! An audit event, and its form in the log and in requests to a webhook.

use std::{borrow::Cow, collections::BTreeMap, net::IpAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, header};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use windlass_api::{Status, StatusDetails};

use super::policy::{Level, Stage};
use crate::{codec::go_quote, encoded::push_json, identity::User};

/// The maximum length of a user agent in bytes, and the end of a longer one.
const USER_AGENT_BYTES: usize = 1024;
const TRUNCATED: &str = "...TRUNCATED";

/// The annotation of an event whose objects are omitted because they are too large.
const TRUNCATION: (&str, &str) = ("audit.k8s.io/truncated", "true");

/// The state of a request's event. It is rendered at each stage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Event {
    pub(super) level: Level,
    pub(super) audit_id: String,
    pub(super) uri: String,
    pub(super) verb: Cow<'static, str>,
    /// `None` if the authentication failed.
    pub(super) user: Option<Arc<User>>,
    pub(super) impersonated: Option<Arc<User>>,
    /// The verb of the constrained impersonation mode. Empty for the legacy mode.
    pub(super) constraint: String,
    pub(super) source_ips: Vec<IpAddr>,
    pub(super) user_agent: String,
    pub(super) object: Option<ObjectReference>,
    pub(super) status: Option<ResponseStatus>,
    /// Compact JSON.
    pub(super) request_object: Option<Bytes>,
    /// Compact JSON.
    pub(super) response_object: Option<Bytes>,
    pub(super) received: Timestamp,
    pub(super) annotations: BTreeMap<Cow<'static, str>, String>,
}

/// The object of a request. Empty fields are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
    #[serde(rename = "apiGroup", skip_serializing_if = "String::is_empty")]
    pub(super) group: String,
    #[serde(rename = "apiVersion", skip_serializing_if = "String::is_empty")]
    pub(super) version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) resource_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) subresource: String,
}

/// A user in an event. Empty fields are omitted.
#[derive(Serialize)]
struct UserInfo<'u> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'u str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'u str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    groups: &'u [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: &'u BTreeMap<String, Vec<String>>,
}

/// The form of a [`ResponseStatus`] in an event. Empty fields are omitted.
#[derive(Serialize)]
struct StatusFields<'s> {
    metadata: BTreeMap<&'s str, &'s str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    status: &'s str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'s str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'s str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'s StatusDetails>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
}

/// The response status of an event.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseStatus {
    /// The status in the response. `None` if the response is an object.
    pub(super) status: Option<Box<Status>>,
    pub(super) code: u16,
}

/// A rendered event. Objects are not copied.
#[derive(Clone, Debug)]
pub(crate) struct Rendered {
    /// The JSON without the opening brace, the objects, and the fields after them.
    pub(super) head: Bytes,
    pub(super) request_object: Option<Bytes>,
    pub(super) response_object: Option<Bytes>,
    /// The JSON after the objects, with the closing brace.
    pub(super) tail: Bytes,
    /// The line of the legacy format.
    pub(super) line: Option<Bytes>,
}

const TYPE_META: &[u8] = b"{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\",";
const REQUEST_OBJECT: &[u8] = b",\"requestObject\":";
const RESPONSE_OBJECT: &[u8] = b",\"responseObject\":";

// === impl Event ===

impl Event {
    /// Renders the event at a stage. Without `with_objects`, the objects are omitted and an annotation reports it.
    pub(super) fn render(&self, stage: Stage, now: Timestamp, with_objects: bool) -> Rendered {
        let mut head = Vec::with_capacity(512);
        let mut field = Fields { out: &mut head, is_first: true };
        field.text("level", self.level.name());
        field.text("auditID", &self.audit_id);
        field.text("stage", stage.name());
        field.text("requestURI", &self.uri);
        field.text("verb", &self.verb);
        match &self.user {
            Some(user) => field.value("user", &UserInfo::of(user)),
            None => field.value("user", &BTreeMap::<&str, &str>::new()),
        }
        if let Some(user) = &self.impersonated {
            field.value("impersonatedUser", &UserInfo::of(user));
            if !self.constraint.is_empty() {
                let metadata = BTreeMap::from([("impersonationConstraint", &self.constraint)]);
                field.value("authenticationMetadata", &metadata);
            }
        }
        if !self.source_ips.is_empty() {
            field.value("sourceIPs", &self.source_ips);
        }
        if !self.user_agent.is_empty() {
            field.text("userAgent", &self.user_agent);
        }
        if let Some(object) = &self.object {
            field.value("objectRef", object);
        }
        if let Some(status) = &self.status {
            field.value("responseStatus", &StatusFields::of(status));
        }
        let mut tail = Vec::with_capacity(256);
        let mut field = Fields { out: &mut tail, is_first: false };
        let stage_time = if stage == Stage::RequestReceived { self.received } else { now };
        field.text("requestReceivedTimestamp", &micros(self.received));
        field.text("stageTimestamp", &micros(stage_time));
        let truncation = (!with_objects).then_some((Cow::Borrowed(TRUNCATION.0), TRUNCATION.1.to_owned()));
        if !self.annotations.is_empty() || truncation.is_some() {
            let truncation: BTreeMap<_, _> = truncation.into_iter().collect();
            let all: BTreeMap<_, _> = self.annotations.iter().chain(&truncation).collect();
            field.value("annotations", &all);
        }
        tail.push(b'}');
        let objects = |object: &Option<Bytes>| object.clone().filter(|_| with_objects);
        Rendered {
            head: head.into(),
            request_object: objects(&self.request_object),
            response_object: objects(&self.response_object),
            tail: tail.into(),
            line: None,
        }
    }

    /// Returns the event as a line of the legacy format, without its end.
    pub(super) fn legacy(&self, stage: Stage) -> String {
        let list = |groups: &[String]| groups.iter().map(|group| go_quote(group)).collect::<Vec<_>>().join(",");
        let user = self.user.as_deref().filter(|user| !user.name.is_empty());
        let name = user.map_or("<none>", |user| &user.name);
        let groups = user.filter(|user| !user.groups.is_empty()).map_or("<none>".to_owned(), |user| list(&user.groups));
        let as_user = self.impersonated.as_ref().map_or("<self>", |user| &user.name);
        let as_groups = self.impersonated.as_ref().filter(|user| !user.groups.is_empty());
        let as_groups = as_groups.map_or("<lookup>".to_owned(), |user| list(&user.groups));
        let namespace = self.object.as_ref().map_or("", |object| &object.namespace);
        let namespace = if namespace.is_empty() { "<none>" } else { namespace };
        let response = self.status.as_ref().map_or("<deferred>".to_owned(), |status| status.code.to_string());
        let ip = self.source_ips.first().map_or("<unknown>".to_owned(), ToString::to_string);
        format!(
            "{} AUDIT: id={} stage={} ip={} method={} user={} groups={} as={} asgroups={} user-agent={} namespace={} \
             uri={} response=\"{response}\"",
            self.received,
            go_quote(&self.audit_id),
            go_quote(stage.name()),
            go_quote(&ip),
            go_quote(&self.verb),
            go_quote(name),
            go_quote(&groups),
            go_quote(as_user),
            go_quote(&as_groups),
            go_quote(&self.user_agent),
            go_quote(namespace),
            go_quote(&self.uri),
        )
    }
}

/// Appends fields of an object.
struct Fields<'o> {
    out: &'o mut Vec<u8>,
    is_first: bool,
}

impl Fields<'_> {
    fn name(&mut self, name: &str) {
        if !std::mem::take(&mut self.is_first) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn text(&mut self, name: &str, text: &str) {
        self.name(name);
        push_json(text, self.out);
    }

    fn value(&mut self, name: &str, value: &impl Serialize) {
        self.name(name);
        push_json(value, self.out);
    }
}

impl<'u> UserInfo<'u> {
    fn of(user: &'u User) -> Self {
        Self { username: &user.name, uid: &user.uid, groups: &user.groups, extra: &user.extra }
    }
}

impl<'s> StatusFields<'s> {
    fn of(status: &'s ResponseStatus) -> Self {
        let shown = status.status.as_deref();
        Self {
            metadata: BTreeMap::new(),
            status: shown.map_or("", |shown| &shown.status),
            message: shown.map_or("", |shown| &shown.message),
            reason: shown.and_then(|shown| shown.reason.as_deref()).unwrap_or_default(),
            details: shown.and_then(|shown| shown.details.as_deref()),
            code: Some(status.code).filter(|code| *code != 0),
        }
    }
}

fn micros(time: Timestamp) -> String {
    format!("{time:.6}")
}

// === impl Rendered ===

impl Rendered {
    /// Returns the size of the event as a line of JSON, in bytes.
    pub(super) fn json_len(&self) -> usize {
        let object = |object: &Option<Bytes>, name: &[u8]| object.as_ref().map_or(0, |bytes| name.len() + bytes.len());
        TYPE_META.len()
            + self.head.len()
            + object(&self.request_object, REQUEST_OBJECT)
            + object(&self.response_object, RESPONSE_OBJECT)
            + self.tail.len()
            + 1
    }

    /// Appends the event as a line of the log.
    pub(super) fn push_line(&self, out: &mut Vec<u8>) {
        if let Some(line) = &self.line {
            out.extend_from_slice(line);
        } else {
            out.extend_from_slice(TYPE_META);
            self.push_fields(out);
        }
        out.push(b'\n');
    }

    /// Appends the event as an item of an `EventList`, which has no kind.
    pub(super) fn push_item(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        self.push_fields(out);
    }

    fn push_fields(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        for (object, name) in [(&self.request_object, REQUEST_OBJECT), (&self.response_object, RESPONSE_OBJECT)] {
            if let Some(object) = object {
                out.extend_from_slice(name);
                out.extend_from_slice(object);
            }
        }
        out.extend_from_slice(&self.tail);
    }
}

/// Returns the user agent of a request, cut to a limited length. As in Go, each invalid byte becomes U+FFFD.
pub(super) fn user_agent(headers: &HeaderMap) -> String {
    let Some(agent) = headers.get(header::USER_AGENT) else { return String::new() };
    let bytes = agent.as_bytes();
    if bytes.len() <= USER_AGENT_BYTES {
        return go_text(bytes);
    }
    go_text(&bytes[..USER_AGENT_BYTES]) + TRUNCATED
}

/// Decodes text as Go's JSON encoder does: each invalid byte becomes U+FFFD.
pub(super) fn go_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// Returns the IP addresses of the client and of the proxies between: those of `X-Forwarded-For`, that of `X-Real-Ip`, and
/// that of the connection. A client can set all but the last.
pub(super) fn source_ips(headers: &HeaderMap, remote: Option<IpAddr>) -> Vec<IpAddr> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut found: Vec<IpAddr> = text("x-forwarded-for").split(',').filter_map(|part| parse_ip(part.trim())).collect();
    found.extend(parse_ip(text("x-real-ip")).filter(|address| !found.contains(address)));
    let remote = remote.map(|address| address.to_canonical());
    found.extend(remote.filter(|address| found.last() != Some(address)));
    found
}

/// Parses an address as Go's older parser does: the numbers of an IPv4 address may have leading zeros.
fn parse_ip(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    let mut parts = text.split('.').map(|part| {
        let is_number = (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse::<u32>().ok()).flatten().and_then(|number| u8::try_from(number).ok())
    });
    let mut next = || parts.next().flatten();
    let octets = [next()?, next()?, next()?, next()?];
    parts.next().is_none().then(|| IpAddr::from(octets))
}

/// Returns a client's JSON in the form in which Go embeds it: compact, with markup escaped. Returns `None` if it is not
/// JSON.
pub(super) fn compact(json: &[u8]) -> Option<Vec<u8>> {
    crate::codec::check_json(json).ok()?;
    let mut out = Vec::with_capacity(json.len());
    let (mut in_string, mut is_escaped) = (false, false);
    let mut bytes = json;
    while let Some((&byte, rest)) = bytes.split_first() {
        bytes = rest;
        match byte {
            b' ' | b'\n' | b'\t' | b'\r' if !in_string => continue,
            b'<' | b'>' | b'&' => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            0xE2 if rest.starts_with(&[0x80, 0xA8]) || rest.starts_with(&[0x80, 0xA9]) => {
                out.extend_from_slice(if rest[1] == 0xA8 { b"\\u2028" } else { b"\\u2029" });
                bytes = &rest[2..];
            }
            _ => out.push(byte),
        }
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ => {}
        }
    }
    Some(out)
}

/// Removes the managed fields of an object in JSON, of the items of a list, or of the objects in the rows of a table.
pub(super) fn without_managed_fields(json: Bytes) -> Bytes {
    const NAME: &[u8] = b"\"managedFields\"";
    if !json.windows(NAME.len()).any(|window| window == NAME) {
        return json;
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(&json) else { return json };
    let remove = |object: &mut Value| {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.shift_remove("managedFields");
        }
    };
    remove(&mut value);
    for item in value.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        remove(item);
    }
    for row in value.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
        row.get_mut("object").into_iter().for_each(remove);
    }
    let mut out = Vec::with_capacity(json.len());
    push_json(&value, &mut out);
    out.into()
}
