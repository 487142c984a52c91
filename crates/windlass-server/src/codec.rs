//! Codec plans: decode request bodies as the Go types do.
//!
//! A [`Plan`] decodes a request body (JSON, YAML, protobuf or CBOR) into the value tree that kube-apiserver would encode
//! again. Fields are in the order of the Go struct, with `kind` and `apiVersion` first. Unknown fields are dropped,
//! zero values are dropped or written according to the Go tags, and quantities and times are canonical. A plan is
//! compiled from the type table (see `types`) when its kind is first used. Decoding a decoded tree again does not
//! change it.
//!
//! Errors have Go's texts, which clients show and tests compare. Not done here: defaulting, validation, and conversion
//! between versions. Custom resources have no Go type; see [`CustomKind`].

mod base64;
mod cbor;
mod convert;
mod decode;
mod in_place;
mod json;
mod numbers;
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
use crate::kubernetes::KubernetesVersion;

pub(crate) use self::{
    cbor::{cbor_frame, cbor_message, from_cbor},
    json::{MAX_DEPTH, check as check_json},
    numbers::{float_large_numbers, go_numbers},
    protobuf::{FRAME_PREFIX, ProtobufList, protobuf_frame, to_protobuf},
    quote::{is_printable, quote as go_quote},
    time::{check_duration, go_worded},
    types::{Field, Struct},
    yaml::{to_yaml, to_yaml_item},
};

/// The maximum number of list elements and map entries in a body: an element may be two or three bytes in the body and
/// a kilobyte decoded.
const MAX_ELEMENTS: usize = 200_000;

/// The encodings of request bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
    Protobuf,
    Cbor,
}

/// The encodings that a server offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Offer {
    /// JSON, YAML and protobuf.
    #[default]
    Stable,
    /// Also CBOR.
    WithCbor,
}

/// The decoder and encoder of one kind.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    /// The version whose types the plan has.
    pub(crate) kubernetes: KubernetesVersion,
    api_version: String,
    root: StructRef,
}

/// A successfully decoded body.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    /// One warning per unknown or duplicate field; empty with `FieldValidation::Ignore`.
    pub(crate) warnings: Vec<String>,
}

/// A decoding error. Its text is the complete message of the 400 response.
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

/// Returns the plan of a kind that is equal in all Kubernetes versions, such as options and scales; `None` if no served
/// Go type has that name. The kinds of `meta/v1` have the group `meta.k8s.io`.
pub(crate) fn plan(group: &str, version: &str, kind: &str) -> Option<&'static Plan> {
    plan_of(KubernetesVersion::default(), group, version, kind)
}

/// Returns the plan of a kind in a Kubernetes version, or `None` if a server of that version cannot serve it.
pub(crate) fn plan_of(kubernetes: KubernetesVersion, group: &str, version: &str, kind: &str) -> Option<&'static Plan> {
    // The tables bound the number of plans, and plans are never freed.
    static PLANS: [OnceLock<RwLock<HashMap<String, &'static Plan>>>; KubernetesVersion::ALL.len()] =
        [const { OnceLock::new() }; KubernetesVersion::ALL.len()];
    let plans = PLANS[kubernetes.index()].get_or_init(RwLock::default);
    let name = format!("{group}/{version}/{kind}");
    if let Some(plan) = plans.read().get(&name) {
        return Some(plan);
    }
    let root = types::kind(kubernetes, group, version, kind)
        .or_else(|| types::removed_kind(kubernetes, group, version, kind))?;
    Some(plans.write().entry(name).or_insert_with(|| {
        Box::leak(Box::new(Plan {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            kubernetes,
            api_version: api_version(group, version),
            root,
        }))
    }))
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.into() } else { format!("{group}/{version}") }
}

/// Returns the name of the scheme in Go's errors: the source position of its creation in the official builds.
pub(crate) fn scheme_name(kubernetes: KubernetesVersion) -> &'static str {
    if kubernetes < KubernetesVersion::V1_35 { "pkg/runtime/scheme.go:110" } else { "pkg/runtime/scheme.go:111" }
}

/// The reason why a document could not be decoded, before it is formatted for the response.
enum Failure {
    /// The kind of the document could not be read.
    Unrecognized(String),
    /// The kind is known, but the content is invalid.
    Content { kind: String, version: String, message: String },
    /// The complete message of the response.
    Plain(String),
}

impl Plan {
    /// Returns the apiVersion of the kind, such as `apps/v1`.
    pub(crate) fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Decodes a request body. Kind and apiVersion may be missing; if present, they must be those of the plan.
    pub(crate) fn decode(
        &self,
        body: &[u8],
        format: Format,
        validation: FieldValidation,
    ) -> Result<Decoded, DecodeError> {
        let decoded = match format {
            Format::Json => self.decode_json(body, validation, Vec::new()),
            Format::Yaml => yaml::parse(body).map_err(Failure::Unrecognized).and_then(|document| {
                let strict = yaml_errors(document.duplicates, validation);
                self.decode_json(&encode(&document.value), validation, strict)
            }),
            Format::Protobuf => self.decode_protobuf(body),
            Format::Cbor => match from_cbor(body) {
                Ok(json) => return self.decode(&json, Format::Json, validation),
                Err(error) => Err(Failure::Unrecognized(unknown_kind(&error, body))),
            },
        };
        decoded.map_err(|failure| self.error(failure, body))
    }

    /// Brings a tree into the form of a decoded body. The error is Go's message without a prefix.
    ///
    /// With `Strict`, unknown fields are an error (`strict decoding error: …`).
    pub(crate) fn normalize(&self, value: Value, validation: FieldValidation) -> Result<Decoded, String> {
        let mut value = value;
        // `in_place` does not report unknown fields.
        if validation == FieldValidation::Ignore && self.in_place(&mut value) {
            return Ok(Decoded { value, warnings: Vec::new() });
        }
        let body = encode(&value);
        check_json(&body)?;
        self.decode_root(&body, validation, Vec::new())
    }

    /// Brings a tree into the form of a decoded body, in place if possible. Returns whether it was possible.
    fn in_place(&self, value: &mut Value) -> bool {
        if let Value::Object(entries) = value {
            for field in self.root.get().fields.iter().take(2) {
                match field.name {
                    "kind" => drop(entries.insert("kind".to_owned(), self.kind.as_str().into())),
                    "apiVersion" => drop(entries.insert("apiVersion".to_owned(), self.api_version.as_str().into())),
                    _ => {}
                }
            }
        }
        in_place::in_place(value, self.root.get()).is_ok()
    }

    /// Like `normalize`, and drops what storage does not keep. The real server stores most kinds in protobuf, which
    /// does not distinguish an empty list from an absent one.
    pub(crate) fn normalize_stored(&self, value: Value) -> Result<Value, String> {
        let mut value = self.normalize(value, FieldValidation::Ignore)?.value;
        if !matches!(&*self.group, "apiextensions.k8s.io" | "apiregistration.k8s.io") {
            shape::drop_empty_containers(self.root.get(), &mut value);
        }
        Ok(value)
    }

    /// Like `normalize`, for the result of a patch: it must still be an object of the plan's kind.
    pub(crate) fn decode_patched(&self, value: &Value, validation: FieldValidation) -> Result<Decoded, String> {
        // A tree with unknown fields cannot be normalized.
        let is_set_to = |key: &str, text: &str| value.get(key).is_some_and(|value| value == text);
        if is_set_to("kind", &self.kind) && is_set_to("apiVersion", &self.api_version) {
            let mut tree = value.clone();
            if self.in_place(&mut tree) {
                return Ok(Decoded { value: tree, warnings: Vec::new() });
            }
        }
        let body = encode(value);
        check_json(&body)?;
        let meta =
            json::interpret(&body).map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
        if meta.api_version.is_empty() {
            return self.decode_unversioned(value, validation);
        }
        let actual = self.actual(&meta.api_version, &meta.kind)?;
        self.expect(&actual).map_err(|failure| match failure {
            Failure::Unrecognized(message) | Failure::Content { message, .. } | Failure::Plain(message) => message,
        })?;
        self.decode_root(&body, validation, Vec::new())
    }

    /// Decodes an object without apiVersion into Go's internal type. Its fields have no JSON names, so all fields are
    /// unknown.
    fn decode_unversioned(&self, value: &Value, validation: FieldValidation) -> Result<Decoded, String> {
        let mut decoded = self.decode_root(b"{}", FieldValidation::Ignore, Vec::new())?;
        let fields = value.as_object().into_iter().flatten().map(|(name, _)| name);
        let unknown = fields.filter(|name| !matches!(name.as_str(), "kind" | "apiVersion"));
        let unknown: Vec<String> = unknown.map(|name| format!("unknown field {}", go_quote(name))).collect();
        match validation {
            FieldValidation::Strict if !unknown.is_empty() => return Err(strict_error(&unknown)),
            FieldValidation::Ignore => {}
            _ => decoded.warnings = unknown,
        }
        Ok(decoded)
    }

    /// Like `normalize`, with the rules and errors of Go's converter for unstructured objects. Used for the result of a
    /// strategic merge patch. Kind and apiVersion are always those of the plan.
    pub(crate) fn convert(&self, value: &Value, validation: FieldValidation) -> Result<Decoded, String> {
        let mut tree = value.clone();
        let unknown = convert::convert(&mut tree, self.root.get())?;
        let mut decoded = self.normalize(tree, FieldValidation::Ignore)?;
        match validation {
            FieldValidation::Strict if !unknown.is_empty() => {
                return Err(strict_error(&unknown));
            }
            FieldValidation::Ignore => {}
            _ => decoded.warnings = unknown,
        }
        Ok(decoded)
    }

    /// Returns the struct that the kind decodes into, for code that reads its tags.
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

    fn decode_root(
        &self,
        body: &[u8],
        validation: FieldValidation,
        mut strict: Vec<String>,
    ) -> Result<Decoded, String> {
        let strictness = if validation == FieldValidation::Ignore { Strictness::Lenient } else { Strictness::Strict };
        let root = decode::decode(body, self.root, strictness)?;
        strict.extend(root.strict_errors);
        if validation == FieldValidation::Strict && !strict.is_empty() {
            return Err(strict_error(&strict));
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

    /// Builds the root object with the plan's kind and apiVersion.
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

    /// Returns the document's group, version and kind. Missing values default to those of the plan.
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
        // Options are valid in the version of any group.
        let is_meta = self.group == "meta.k8s.io";
        if is_meta && same_kind {
            return Ok(());
        }
        // Both versions of Eviction are the same type.
        if same_kind && self.kind == "Eviction" && actual.group == self.group {
            return Ok(());
        }
        let own_scheme = |group: &str| matches!(group, "apiextensions.k8s.io" | "apiregistration.k8s.io");
        let in_scheme = actual.group == self.group || !own_scheme(&self.group) && !own_scheme(&actual.group);
        let gv = api_version(&actual.group, &actual.version);
        if is_meta || !in_scheme || !types::is_registered(self.kubernetes, &actual.group, &actual.version, &actual.kind)
        {
            return Err(actual.failure(format!(
                "no kind {} is registered for version {} in scheme {}",
                go_quote(&actual.kind),
                go_quote(&gv),
                go_quote(scheme_name(self.kubernetes))
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

    /// Returns the Go package of the kind's internal version.
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

/// Returns the message for a body in CBOR that cannot be read.
fn unknown_kind(error: &windlass_cbor::Error, body: &[u8]) -> String {
    format!("unable to determine group/version/kind: {}", cbor_message(error, body))
}

/// The expected kind of a custom resource.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CustomKind<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
}

impl CustomKind<'_> {
    /// Decodes a custom resource. Values are not changed and keys are in alphabetical order. Kind and apiVersion are
    /// required, and the apiVersion must be the expected one. Validation reports an unexpected kind later.
    ///
    /// Duplicate keys become warnings even with `Strict`: the caller checks unknown fields against the schema, and
    /// reports both in one error (see [`Self::strict_error`]). Floats stay floats, so that 1.0 differs from 1;
    /// [`go_numbers`] converts them to Go's form.
    pub(crate) fn decode(
        &self,
        body: &[u8],
        format: Format,
        validation: FieldValidation,
    ) -> Result<Decoded, DecodeError> {
        let unrecognized = |message: String| DecodeError { message: unrecognized(self.kind, &message, body) };
        let (text, mut warnings) = match format {
            Format::Yaml => {
                let document = yaml::parse(body).map_err(unrecognized)?;
                (encode(&document.value), yaml_errors(document.duplicates, validation))
            }
            Format::Cbor => {
                let json = from_cbor(body).map_err(|error| unrecognized(unknown_kind(&error, body)))?;
                return self.decode(&json, Format::Json, validation);
            }
            Format::Json | Format::Protobuf => (body.to_vec(), Vec::new()),
        };
        let meta = json::interpret(&text)
            .map_err(|message| unrecognized(format!("couldn't get version/kind; json parse error: {message}")))?;
        if meta.api_version.matches('/').count() > 1 {
            return Err(unrecognized(format!("unexpected GroupVersion string: {}", meta.api_version)));
        }
        if meta.kind.is_empty() {
            return Err(unrecognized(format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(body))));
        }
        let strictness = if validation == FieldValidation::Ignore { Strictness::Lenient } else { Strictness::Strict };
        let (mut value, duplicates) =
            decode::decode_any(&text, strictness).map_err(|message| self.content_error(&meta.kind, &message))?;
        let expected = api_version(self.group, self.version);
        if meta.api_version != expected {
            let message = format!(
                "the API version in the data ({}) does not match the expected API version ({expected})",
                meta.api_version
            );
            return Err(DecodeError { message });
        }
        warnings.extend(duplicates);
        sort_keys(&mut value);
        Ok(Decoded { value, warnings })
    }

    /// Returns the error for a document with invalid content. `kind` is the kind in the document.
    pub(crate) fn content_error(&self, kind: &str, message: &str) -> DecodeError {
        let version = go_quote(self.version);
        DecodeError { message: format!("{kind} in version {version} cannot be handled as a {}: {message}", self.kind) }
    }
}

/// Normalizes the metadata of a custom resource, which has a Go type. The paths in the warnings begin with `metadata`.
/// The error is Go's message.
pub(crate) fn decode_object_meta(metadata: &Value, validation: FieldValidation) -> Result<Decoded, String> {
    let target = types::named("apimachinery/pkg/apis/meta/v1.ObjectMeta");
    let strictness = if validation == FieldValidation::Ignore { Strictness::Lenient } else { Strictness::Strict };
    let root = decode::decode(&encode(metadata), target, strictness)?;
    let inside = |warning: String| warning.replacen(" field \"", " field \"metadata.", 1);
    let warnings = root.strict_errors.into_iter().map(inside).collect();
    Ok(Decoded { value: shape::object(target.get(), root.values), warnings })
}

/// Returns the single error message for all unknown and duplicate fields in strict mode.
pub(crate) fn strict_error(errors: &[String]) -> String {
    format!("strict decoding error: {}", errors.join(", "))
}

/// Returns the messages for the duplicate keys of a YAML document: one error in strict mode, otherwise one warning per
/// key.
fn yaml_errors(duplicates: Vec<String>, validation: FieldValidation) -> Vec<String> {
    match validation {
        FieldValidation::Strict if !duplicates.is_empty() => {
            vec![format!("yaml: unmarshal errors:\n  {}", duplicates.join("\n  "))]
        }
        FieldValidation::Ignore => Vec::new(),
        _ => duplicates,
    }
}

/// Decodes the body of an apply request: untyped YAML, with a warning for each duplicate key. The error is Go's
/// message.
pub(crate) fn decode_applied(body: &[u8]) -> Result<Decoded, String> {
    let mut document = yaml::parse(body)?;
    float_large_numbers(&mut document.value);
    Ok(Decoded { value: document.value, warnings: document.duplicates })
}

/// Decodes an untyped JSON patch body. Integers stay integers, and the last of duplicate keys wins. Duplicates are
/// reported except with `Ignore`. The error is Go's message.
pub(crate) fn decode_untyped(body: &[u8], validation: FieldValidation) -> Result<Decoded, String> {
    check_json(body)?;
    let strictness = if validation == FieldValidation::Ignore { Strictness::Lenient } else { Strictness::Strict };
    decode::decode_any(body, strictness).map(|(value, warnings)| Decoded { value, warnings })
}

fn unrecognized(kind: &str, message: &str, body: &[u8]) -> String {
    format!("the object provided is unrecognized (must be of type {kind}): {message} ({})", summary(body))
}

/// Returns the beginning of a body for an error message.
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

/// Formats JSON as Go does, with HTML characters escaped.
pub(crate) fn go_json(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 32);
    for character in text.chars() {
        match character {
            '<' => escaped.push_str(r"\u003c"),
            '>' => escaped.push_str(r"\u003e"),
            '&' => escaped.push_str(r"\u0026"),
            '\u{2028}' => escaped.push_str(r"\u2028"),
            '\u{2029}' => escaped.push_str(r"\u2029"),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// Sorts the keys of every object alphabetically.
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
