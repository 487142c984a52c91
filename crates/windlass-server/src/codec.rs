//! Codec plans: what the Go types do to a body on its way in.
//!
//! A [`Plan`] turns a request body (JSON, YAML or protobuf) into a value tree that is what kube-apiserver would have
//! written back: fields in the order of the Go struct with `kind` and `apiVersion` first, unknown fields dropped,
//! zero values dropped or written as the Go tags say, quantities and times in their canonical form. Plans are compiled
//! from the type table (see `types`) when a kind is first used; a decoded tree decodes to itself.
//!
//! Errors carry Go's texts, which clients show and tests compare. Not done here: defaulting, validation, conversion
//! between versions. Custom resources have no Go type: [`decode_custom`].

mod base64;
mod convert;
mod decode;
mod json;
mod protobuf;
mod quantity;
mod quote;
mod shape;
mod time;
mod types;
mod yaml;

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fmt::{self, Write},
    sync::OnceLock,
};

use parking_lot::RwLock;
use serde_json::Value;
use windlass_api::{FieldValidation, Status};

use self::{decode::Strictness, types::StructRef};

pub(crate) use self::{
    json::{MAX_DEPTH, check as check_json},
    quantity::canonical as canonical_quantity,
    quote::quote as go_quote,
    types::{Field, Struct},
    yaml::to_yaml,
};

/// The encodings of request bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
    Protobuf,
}

/// How to read and write one kind.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    api_version: String,
    root: StructRef,
}

/// A body that was understood.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    /// One per unknown or duplicate field; empty with `FieldValidation::Ignore`.
    pub(crate) warnings: Vec<String>,
}

/// A body that was not understood. Its text is the whole message of the 400 that answers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DecodeError {
    message: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DecodeError {}

impl From<DecodeError> for Status {
    fn from(error: DecodeError) -> Self {
        Self::bad_request(error.message)
    }
}

/// The plan of a kind, or `None` when no Go type of that name is served. Options and the other kinds of `meta/v1` are
/// under the group `meta.k8s.io`.
pub(crate) fn plan(group: &str, version: &str, kind: &str) -> Option<&'static Plan> {
    // Bounded by the kinds of the table, and kept for the life of the process.
    static PLANS: OnceLock<RwLock<HashMap<String, &'static Plan>>> = OnceLock::new();
    let plans = PLANS.get_or_init(RwLock::default);
    let name = format!("{group}/{version}/{kind}");
    if let Some(plan) = plans.read().get(&name) {
        return Some(plan);
    }
    let root = types::kind(group, version, kind)?;
    Some(plans.write().entry(name).or_insert_with(|| {
        Box::leak(Box::new(Plan {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            api_version: api_version(group, version),
            root,
        }))
    }))
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.into() } else { format!("{group}/{version}") }
}

/// Why a document was not decoded, before it is put into the words of the answer.
enum Failure {
    /// Not even its kind could be read.
    Unrecognized(String),
    /// Its kind is known, its content is wrong.
    Content { kind: String, version: String, message: String },
    /// The answer has this message as it is.
    Plain(String),
}

impl Plan {
    /// Decodes a request body. Kind and apiVersion may be missing; when they are there they must be those of the plan.
    pub(crate) fn decode(&self, body: &[u8], format: Format, validation: FieldValidation) -> Result<Decoded, DecodeError> {
        let decoded = match format {
            Format::Json => self.decode_json(body, validation, Vec::new()),
            Format::Yaml => yaml::parse(body).map_err(Failure::Unrecognized).and_then(|document| {
                let strict = if validation == FieldValidation::Ignore { None } else { document.duplicates };
                self.decode_json(&encode(&document.value), validation, strict.into_iter().collect())
            }),
            Format::Protobuf => self.decode_protobuf(body),
        };
        decoded.map_err(|failure| self.error(failure, body))
    }

    /// Brings a tree into the form that decoding it would give it; the error is Go's message without any prefix.
    ///
    /// With `Strict`, unknown fields are an error (`strict decoding error: …`).
    pub(crate) fn normalise(&self, value: &Value, validation: FieldValidation) -> Result<Decoded, String> {
        let body = encode(value);
        check_json(&body)?;
        self.decode_root(&body, validation, Vec::new())
    }

    /// As `normalise`, for the result of a patch: it must be of the plan's kind still.
    pub(crate) fn decode_patched(&self, value: &Value, validation: FieldValidation) -> Result<Decoded, String> {
        let body = encode(value);
        check_json(&body)?;
        let meta = json::interpret(&body).map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
        let actual = self.actual(&meta.api_version, &meta.kind)?;
        self.expect(&actual).map_err(|failure| match failure {
            Failure::Unrecognized(message) | Failure::Content { message, .. } | Failure::Plain(message) => message,
        })?;
        self.decode_root(&body, validation, Vec::new())
    }

    /// As `normalise`, with the rules and errors of Go's converter for trees: for the result of a strategic merge patch.
    /// Kind and apiVersion are the plan's, whatever the tree says.
    pub(crate) fn convert(&self, value: &Value, validation: FieldValidation) -> Result<Decoded, String> {
        let mut tree = value.clone();
        let unknown = convert::convert(&mut tree, self.root.get())?;
        let mut decoded = self.normalise(&tree, FieldValidation::Ignore)?;
        match validation {
            FieldValidation::Strict if !unknown.is_empty() => {
                return Err(format!("strict decoding error: {}", unknown.join(", ")));
            }
            FieldValidation::Ignore => {}
            _ => decoded.warnings = unknown,
        }
        Ok(decoded)
    }

    /// The struct that the kind decodes into, for what goes by its tags.
    pub(crate) fn shape(&self) -> &'static Struct {
        self.root.get()
    }

    fn decode_json(&self, body: &[u8], validation: FieldValidation, strict: Vec<String>) -> Result<Decoded, Failure> {
        let meta = json::interpret(body)
            .map_err(|error| Failure::Unrecognized(format!("couldn't get version/kind; json parse error: {error}")))?;
        let actual = self.actual(&meta.api_version, &meta.kind).map_err(Failure::Unrecognized)?;
        self.expect(&actual)?;
        self.decode_root(body, validation, strict).map_err(|message| actual.failure(message))
    }

    fn decode_root(&self, body: &[u8], validation: FieldValidation, mut strict: Vec<String>) -> Result<Decoded, String> {
        let strictness = if validation == FieldValidation::Ignore { Strictness::Lenient } else { Strictness::Strict };
        let root = decode::decode(body, self.root.get(), strictness)?;
        strict.extend(root.strict_errors);
        if validation == FieldValidation::Strict && !strict.is_empty() {
            return Err(format!("strict decoding error: {}", strict.join(", ")));
        }
        Ok(Decoded { value: self.object(root.values), warnings: strict })
    }

    fn decode_protobuf(&self, body: &[u8]) -> Result<Decoded, Failure> {
        let envelope = protobuf::Envelope::read(body).map_err(Failure::Unrecognized)?;
        let actual = self.actual(&envelope.api_version, &envelope.kind).map_err(Failure::Unrecognized)?;
        self.expect(&actual)?;
        let values = protobuf::decode(envelope.raw, self.root.get()).map_err(|message| actual.failure(message))?;
        Ok(Decoded { value: self.object(values), warnings: Vec::new() })
    }

    /// The root object, under the names of the plan.
    fn object(&self, mut values: Vec<Option<Value>>) -> Value {
        let shape = self.root.get();
        for (index, field) in shape.fields.iter().enumerate().take(2) {
            match field.name {
                "kind" => values[index] = Some(Value::from(self.kind.as_str())),
                "apiVersion" => values[index] = Some(Value::from(self.api_version.as_str())),
                _ => {}
            }
        }
        shape::object(shape, values)
    }

    /// What the document says it is; what it does not say is what was expected.
    fn actual(&self, api_version: &str, kind: &str) -> Result<Actual, String> {
        let (mut group, mut version) = match api_version.split_once('/') {
            None => ("", api_version),
            Some((_, rest)) if rest.contains('/') => {
                return Err(format!("unexpected GroupVersion string: {api_version}"));
            }
            Some(pair) => pair,
        };
        if version.is_empty() && (group.is_empty() || group == self.group) {
            (group, version) = (&self.group, &self.version);
        }
        let kind = if kind.is_empty() { &self.kind } else { kind };
        Ok(Actual { group: group.into(), version: version.into(), kind: kind.into() })
    }

    fn expect(&self, actual: &Actual) -> Result<(), Failure> {
        let same_kind = actual.kind == self.kind;
        if same_kind && actual.group == self.group && actual.version == self.version {
            return Ok(());
        }
        if self.group == "meta.k8s.io" {
            // Options may come in the version of any group.
            return if same_kind {
                Ok(())
            } else {
                Err(Failure::Plain(format!("decoded object cannot be converted to {}", self.kind)))
            };
        }
        // The two versions of this one are the same type.
        if same_kind && self.kind == "Eviction" && actual.group == self.group {
            return Ok(());
        }
        let scheme = match self.group.as_str() {
            "apiextensions.k8s.io" => "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55",
            "apiregistration.k8s.io" => "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28",
            _ => "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30",
        };
        let own_scheme = |group: &str| matches!(group, "apiextensions.k8s.io" | "apiregistration.k8s.io");
        let in_scheme = actual.group == self.group || !own_scheme(&self.group) && !own_scheme(&actual.group);
        let gv = api_version(&actual.group, &actual.version);
        if !in_scheme || !types::is_registered(&actual.group, &actual.version, &actual.kind) {
            return Err(actual.failure(format!(
                "no kind {} is registered for version {} in scheme {}",
                go_quote(&actual.kind),
                go_quote(&gv),
                go_quote(scheme)
            )));
        }
        let moved = |group: &str| group == "extensions" || self.kind == "Event";
        if same_kind && (actual.group == self.group || moved(&actual.group)) {
            return Err(Failure::Plain(format!(
                "the API version in the data ({gv}) does not match the expected API version ({})",
                self.api_version
            )));
        }
        Err(actual.failure(format!(
            "converting ({}.{}) to ({}.{}): unknown conversion",
            actual.version,
            actual.kind,
            self.internal_package(),
            self.kind
        )))
    }

    /// The Go package of the kind's internal version.
    fn internal_package(&self) -> &str {
        match self.group.as_str() {
            "" | "events.k8s.io" => "core",
            group => group.split_once('.').map_or(group, |(package, _)| package),
        }
    }

    fn error(&self, failure: Failure, body: &[u8]) -> DecodeError {
        let message = match failure {
            Failure::Plain(message) => message,
            Failure::Unrecognized(message) | Failure::Content { message, .. } if self.group == "meta.k8s.io" => message,
            Failure::Unrecognized(message) => unrecognized(&self.kind, &message, body),
            Failure::Content { kind, version, message } => {
                format!("{kind} in version {} cannot be handled as a {}: {message}", go_quote(&version), self.kind)
            }
        };
        DecodeError { message }
    }
}

/// The group, version and kind of a document.
struct Actual {
    group: String,
    version: String,
    kind: String,
}

impl Actual {
    fn failure(&self, message: String) -> Failure {
        Failure::Content { kind: self.kind.clone(), version: self.version.clone(), message }
    }
}

/// Decodes a custom resource: the values as they are, keys in alphabetical order. Duplicate keys are reported (as
/// warnings, or with `Strict` as the error), the last value counts; unknown fields are the schema's business.
///
/// Floats stay floats, so that 1.0 and 1 can be told apart; [`go_numbers`] writes them as Go does.
pub(crate) fn decode_custom(
    kind: &str,
    body: &[u8],
    format: Format,
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    let error = |message: String| DecodeError { message: unrecognized(kind, &message, body) };
    let (text, mut strict) = match format {
        Format::Yaml => {
            let document = yaml::parse(body).map_err(error)?;
            (encode(&document.value), document.duplicates.into_iter().collect())
        }
        Format::Json | Format::Protobuf => (body.to_vec(), Vec::new()),
    };
    let meta = json::interpret(&text)
        .map_err(|message| error(format!("couldn't get version/kind; json parse error: {message}")))?;
    if meta.kind.is_empty() {
        return Err(error(format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(body))));
    }
    let strictness = if validation == FieldValidation::Ignore { Strictness::Lenient } else { Strictness::Strict };
    let version = meta.api_version.rsplit('/').next().unwrap_or_default();
    let content = |message: String| DecodeError {
        message: format!("{} in version {} cannot be handled as a {kind}: {message}", meta.kind, go_quote(version)),
    };
    let (mut value, duplicates) = decode::decode_any(&text, strictness).map_err(content)?;
    if strictness == Strictness::Lenient {
        strict.clear();
    }
    strict.extend(duplicates);
    if validation == FieldValidation::Strict && !strict.is_empty() {
        return Err(content(format!("strict decoding error: {}", strict.join(", "))));
    }
    sort_keys(&mut value);
    Ok(Decoded { value, warnings: strict })
}

/// Decodes JSON without any type, as a patch is: integers stay integers, the last of duplicate keys counts and with
/// anything but `Ignore` they are reported. The error is Go's message.
pub(crate) fn decode_untyped(body: &[u8], validation: FieldValidation) -> Result<Decoded, String> {
    check_json(body)?;
    let strictness = if validation == FieldValidation::Ignore { Strictness::Lenient } else { Strictness::Strict };
    decode::decode_any(body, strictness).map(|(value, warnings)| Decoded { value, warnings })
}

fn unrecognized(kind: &str, message: &str, body: &[u8]) -> String {
    format!("the object provided is unrecognized (must be of type {kind}): {message} ({})", summary(body))
}

/// The beginning of a body for people to recognise it by.
fn summary(body: &[u8]) -> String {
    const LENGTH: usize = 30;
    let head = &body[..body.len().min(LENGTH)];
    let mut text = match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(head).into_owned(),
        Some(_) => head.iter().fold(String::with_capacity(2 * LENGTH), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }),
    };
    if body.len() > LENGTH {
        text.push_str(" ...");
    }
    text
}

fn encode(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("a value tree has only string keys and finite numbers")
}

/// Puts the keys of every object in alphabetical order.
pub(crate) fn sort_keys(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(sort_keys),
        Value::Object(entries) => {
            entries.sort_keys();
            entries.values_mut().for_each(sort_keys);
        }
        _ => {}
    }
}

/// Writes floats without a fraction as integers, as Go does.
pub(crate) fn go_numbers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(go_numbers),
        Value::Object(entries) => entries.values_mut().for_each(go_numbers),
        Value::Number(number) if number.is_f64() => {
            if let Some(written) = number.as_f64().and_then(decode::go_float) {
                *number = written;
            }
        }
        _ => {}
    }
}
