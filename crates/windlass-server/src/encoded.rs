//! Stored objects: JSON, encoded once per write, with a slot for the resourceVersion.
//!
//! The revision of a write is known only after the commit, so the JSON omits it and the encoding records its position.
//! Rendering copies the two parts around the number. For built-in kinds the encoding also records the end of `kind` and
//! `apiVersion`, because list items omit them.

use std::{cell::Cell, fmt, io};

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, ser::Formatter};
use windlass_api::{Meta, MetaError};

use crate::storage::Revision;

/// An encoded object. Clones share the bytes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Encoded {
    /// `HEADER` bytes (format, `item`, `slot`), then the JSON without `metadata.resourceVersion`.
    bytes: Bytes,
    /// The offset in the JSON after kind and apiVersion. 0 if list items include them.
    item: usize,
    /// The offset in the JSON for `"resourceVersion":"…"`. The surrounding commas are already in the JSON.
    slot: usize,
}

/// The encoding rules of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Fields in the order of the Go struct. List items omit kind and apiVersion.
    BuiltIn,
    /// Fields in alphabetical order. List items include kind and apiVersion.
    Custom,
}

/// The error for a stored body that this version cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the stored body is damaged: {0}")]
pub struct DamagedBody(pub(crate) &'static str);

/// Reports whether bytes begin as a body that the server has stored. JSON and protobuf do not.
#[must_use]
pub fn is_body(bytes: &[u8]) -> bool {
    bytes.first() == Some(&FORMAT)
}

const HEADER: usize = 9;
const FORMAT: u8 = 1;
const VERSION_KEY: &[u8] = b"\"resourceVersion\":\"";
/// The fields before `resourceVersion` in Go's ObjectMeta.
const BEFORE_VERSION: [&str; 5] = ["name", "generateName", "namespace", "selfLink", "uid"];

/// The fields after `labels` in Go's ObjectMeta.
const AFTER_LABELS: [&[u8]; 4] = [b"annotations", b"ownerReferences", b"finalizers", b"managedFields"];

/// The maximum size of the buffer that a thread reuses for encoding. Few objects are larger.
const SCRATCH_BYTES: usize = 64 << 10;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

// === impl Encoded ===

impl Encoded {
    /// Encodes an object without the resourceVersion in its metadata.
    pub(crate) fn new(object: &Value, style: Style) -> Self {
        // Encoded in a reusable buffer and then copied, so that the stored bytes have no spare capacity.
        let mut out = SCRATCH.take();
        out.clear();
        out.resize(HEADER, 0);
        let mut places = Places::default();
        write_object(object, style, &mut out, &mut places);
        out[0] = FORMAT;
        out[1..5].copy_from_slice(&as_u32(places.item).to_le_bytes());
        out[5..9].copy_from_slice(&as_u32(places.slot).to_le_bytes());
        let encoded = Self { bytes: Bytes::copy_from_slice(&out), item: places.item, slot: places.slot };
        if out.capacity() <= SCRATCH_BYTES {
            SCRATCH.set(out);
        }
        encoded
    }

    /// Decodes the result of [`Self::storage_bytes`].
    pub(crate) fn from_storage(bytes: Bytes) -> Result<Self, DamagedBody> {
        let header = bytes.get(..HEADER).ok_or(DamagedBody("it is shorter than its header"))?;
        if header[0] != FORMAT {
            return Err(DamagedBody("its format is unknown"));
        }
        let number =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]) as usize;
        let (item, slot) = (number(1), number(5));
        let length = bytes.len() - HEADER;
        if item > length || slot > length {
            return Err(DamagedBody("its places lie outside of it"));
        }
        Ok(Self { bytes, item, slot })
    }

    /// Returns the bytes for the storage.
    pub(crate) fn storage_bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Appends the whole object. Revision 0 omits the resourceVersion.
    pub(crate) fn render(&self, revision: Revision, out: &mut Vec<u8>) {
        self.render_from(0, revision, out);
    }

    /// Appends the object as a list item.
    pub(crate) fn render_item(&self, revision: Revision, out: &mut Vec<u8>) {
        if self.item > 0 {
            out.push(b'{');
        }
        self.render_from(self.item, revision, out);
    }

    /// Appends the object as `PartialObjectMetadata` of a version of meta.k8s.io, with the bytes of its metadata. Returns
    /// `false` if the object has to be decoded for that: its fields are not in the order of the Go struct, or it has no
    /// revision.
    pub(crate) fn render_partial(&self, api_version: &str, revision: Revision, out: &mut Vec<u8>) -> bool {
        let json = &self.bytes[HEADER..];
        if self.item == 0 || revision == Revision(0) || !json[self.item..].starts_with(b"\"metadata\":{") {
            return false;
        }
        let tail = &json[self.slot..];
        out.extend_from_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"");
        out.extend_from_slice(api_version.as_bytes());
        out.extend_from_slice(b"\",");
        out.extend_from_slice(&json[self.item..self.slot]);
        push_version(revision, out);
        out.extend_from_slice(&tail[..end_of_object(tail)]);
        out.push(b'}');
        true
    }

    /// Returns the object as a tree, with its resourceVersion. Revision 0 omits it.
    pub(crate) fn value(&self, revision: Revision) -> Value {
        let mut out = Vec::with_capacity(self.len_hint());
        self.render(revision, &mut out);
        serde_json::from_slice(&out).expect("the server encoded this JSON")
    }

    /// Returns the object's metadata without the resourceVersion. Reads no further than the end of the metadata.
    pub(crate) fn meta(&self) -> Result<Meta, MetaError> {
        let json = &self.bytes[HEADER..];
        let (head, tail) = (&json[..self.slot], &json[self.slot..]);
        let rest = &tail[..end_of_object(tail)];
        let mut out = Vec::with_capacity(head.len() + rest.len() + 1);
        match (head.strip_suffix(b","), rest.strip_prefix(b",")) {
            (None, Some(rest)) => out.extend_from_slice(&[head, rest].concat()),
            (head_without_comma, _) => {
                out.extend_from_slice(head_without_comma.unwrap_or(head));
                out.extend_from_slice(rest);
            }
        }
        out.push(b'}');
        Meta::parse(&out)
    }

    /// Returns the labels, read in place. Returns `None` if they have to be decoded, for example because of escapes.
    pub(crate) fn labels(&self) -> Option<Vec<(&str, &str)>> {
        self.metadata_field(b"labels").map_or(Some(Vec::new()), labels_in)
    }

    /// Returns the text at a dotted path outside of the metadata, read in place, or an empty one if it does not exist.
    /// Returns `None` if it has to be decoded: it has escapes or is not a text.
    pub(crate) fn text_at(&self, path: &str) -> Option<&str> {
        let mut object = &self.bytes[HEADER..];
        for name in path.split('.') {
            let Some(fields) = object.strip_prefix(b"{") else { return (object == b"null").then_some("") };
            let found = Fields(fields).find(|(key, _)| *key == name.as_bytes());
            let Some((_, value)) = found else { return Some("") };
            object = value;
        }
        if object == b"null" {
            return Some("");
        }
        let text = object.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        str::from_utf8(text).ok().filter(|text| !text.contains('\\'))
    }

    /// Reports whether the object is being deleted.
    pub(crate) fn is_deleting(&self) -> bool {
        self.metadata_field(b"deletionTimestamp").is_some_and(|time| time != b"null")
    }

    /// Returns the JSON of a field of the metadata that is not after `labels` in Go's ObjectMeta, read in place.
    fn metadata_field(&self, name: &[u8]) -> Option<&[u8]> {
        let json = &self.bytes[HEADER..];
        let (head, tail) = (&json[..self.slot], &json[self.slot..]);
        // In the order of the Go struct, the field follows the resourceVersion.
        for (key, value) in Fields(tail) {
            match key {
                key if key == name => return Some(value),
                key if AFTER_LABELS.contains(&key) => return None,
                _ => {}
            }
        }
        // In alphabetical order, it precedes it.
        let metadata = Fields(head.get(1..)?).find(|(key, _)| *key == b"metadata")?.1;
        Fields(metadata.get(1..)?).find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Returns the approximate size of the rendered object in bytes.
    pub(crate) fn len_hint(&self) -> usize {
        self.bytes.len() + 40
    }

    fn render_from(&self, start: usize, revision: Revision, out: &mut Vec<u8>) {
        let json = &self.bytes[HEADER..];
        let (head, tail) = (&json[start..self.slot], &json[self.slot..]);
        if revision == Revision(0) {
            // Removes the extra comma beside the empty slot.
            match (head.strip_suffix(b","), tail.strip_prefix(b",")) {
                (Some(head), _) => out.extend_from_slice(head),
                (None, Some(tail)) => {
                    out.extend_from_slice(head);
                    return out.extend_from_slice(tail);
                }
                (None, None) => out.extend_from_slice(head),
            }
            return out.extend_from_slice(tail);
        }
        out.extend_from_slice(head);
        push_version(revision, out);
        out.extend_from_slice(tail);
    }
}

impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Encoded({})", String::from_utf8_lossy(&self.bytes[HEADER..]))
    }
}

/// The keys and values of an object in encoded JSON, without its opening brace. Keys have no quotes.
struct Fields<'j>(&'j [u8]);

impl<'j> Iterator for Fields<'j> {
    type Item = (&'j [u8], &'j [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.0.strip_prefix(b",").unwrap_or(self.0).strip_prefix(b"\"")?;
        let (key, rest) = rest.split_at(end_of_string(rest));
        let rest = rest.strip_prefix(b":")?;
        let (value, rest) = rest.split_at(end_of_value(rest));
        self.0 = rest;
        Some((key.strip_suffix(b"\"")?, value))
    }
}

/// Returns the labels in an encoded object. Returns `None` if one of them has escapes or is not a string.
fn labels_in(object: &[u8]) -> Option<Vec<(&str, &str)>> {
    if object == b"null" {
        return Some(Vec::new());
    }
    let object = str::from_utf8(object.strip_prefix(b"{")?).ok().filter(|labels| !labels.contains('\\'))?;
    let mut labels = Vec::new();
    for (key, value) in Fields(object.as_bytes()) {
        let value = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        labels.push((str::from_utf8(key).ok()?, str::from_utf8(value).ok()?));
    }
    Some(labels)
}

/// Returns the length of a value at the beginning of these bytes.
fn end_of_value(bytes: &[u8]) -> usize {
    match bytes.first() {
        Some(b'"') => 1 + end_of_string(&bytes[1..]),
        Some(b'{' | b'[') => 1 + end_of_object(&bytes[1..]),
        _ => bytes.iter().position(|byte| matches!(byte, b',' | b'}' | b']')).unwrap_or(bytes.len()),
    }
}

/// Returns the length of the rest of an object or an array, up to and including its closing bracket.
fn end_of_object(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (1_usize, 0);
    while let Some(byte) = rest.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b'"' => at += end_of_string(&rest[at..]),
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Returns the length of the rest of a string, up to and including its closing quote.
fn end_of_string(rest: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = rest.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(rest.len(), |end| end + 1)
}

fn as_u32(place: usize) -> u32 {
    u32::try_from(place).expect("request bodies are limited to 3 MiB")
}

fn push_version(revision: Revision, out: &mut Vec<u8>) {
    out.extend_from_slice(VERSION_KEY);
    push_number(revision.0, out);
    out.push(b'"');
}

fn push_number(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

// === writing ===

#[derive(Default)]
struct Places {
    item: usize,
    slot: usize,
}

fn write_object(object: &Value, style: Style, out: &mut Vec<u8>, places: &mut Places) {
    let nothing = Map::new();
    let fields = object.as_object().unwrap_or(&nothing);
    let empty = Value::Object(Map::new());
    out.push(b'{');
    let mut first = true;
    let mut has_metadata = false;
    for (index, (key, value)) in fields.iter().enumerate() {
        if !first {
            out.push(b',');
        }
        first = false;
        if style == Style::BuiltIn && index == 2 && omits_type_meta(fields) {
            places.item = out.len() - HEADER;
        }
        push_json(key, out);
        out.push(b':');
        if key == "metadata" {
            has_metadata = true;
            write_metadata(value, style, out, places);
        } else {
            push_json(value, out);
        }
    }
    if !has_metadata {
        out.extend_from_slice(if first { b"\"metadata\":" } else { b",\"metadata\":" });
        write_metadata(&empty, style, out, places);
    }
    out.push(b'}');
}

fn omits_type_meta(fields: &Map<String, Value>) -> bool {
    let mut keys = fields.keys();
    keys.next().is_some_and(|key| key == "kind") && keys.next().is_some_and(|key| key == "apiVersion")
}

fn write_metadata(metadata: &Value, style: Style, out: &mut Vec<u8>, places: &mut Places) {
    let nothing = Map::new();
    let fields = metadata.as_object().unwrap_or(&nothing);
    let is_before = |key: &str| match style {
        Style::BuiltIn => BEFORE_VERSION.contains(&key),
        Style::Custom => key < "resourceVersion",
    };
    let others = || fields.iter().filter(|(key, _)| *key != "resourceVersion");
    let write = |(key, value): (&String, &Value), out: &mut Vec<u8>| {
        push_json(key, out);
        out.push(b':');
        push_json(value, out);
    };
    out.push(b'{');
    for field in others().filter(|(key, _)| is_before(key)) {
        write(field, out);
        out.push(b',');
    }
    places.slot = out.len() - HEADER;
    for field in others().filter(|(key, _)| !is_before(key)) {
        out.push(b',');
        write(field, out);
    }
    out.push(b'}');
}

/// Appends a value as Go's encoder does.
pub(crate) fn push_json<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    let mut serializer = serde_json::Serializer::with_formatter(out, GoFormatter);
    value.serialize(&mut serializer).expect("values have string keys and finite numbers, and memory cannot fail");
}

/// Compact JSON. Escapes `<`, `>`, `&` and the two Unicode line separators, as Go does for HTML.
struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (plain, tail) = rest.split_at(at);
            let mut characters = tail.chars();
            let special = characters.next().unwrap_or_default();
            writer.write_all(plain.as_bytes())?;
            write!(writer, "\\u{:04x}", u32::from(special))?;
            rest = characters.as_str();
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // A whole number that is still a float belongs to schemaless data, which keeps its form.
        if value.fract() == 0.0 && value.abs() < 9e18 {
            return write!(writer, "{value:?}");
        }
        if (1e-6..1e21).contains(&value.abs()) {
            return write!(writer, "{value}");
        }
        let text = format!("{value:e}");
        writer.write_all(if value.abs() < 1.0 { text } else { text.replace('e', "e+") }.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(encoded: &Encoded, revision: u64) -> String {
        let mut out = Vec::new();
        encoded.render(Revision(revision), &mut out);
        String::from_utf8(out).unwrap()
    }

    fn item(encoded: &Encoded, revision: u64) -> String {
        let mut out = Vec::new();
        encoded.render_item(Revision(revision), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn resource_version_is_at_the_position_of_go() {
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "5", "generation": 1}, "data": {"k": "v"}});
        let encoded = Encoded::new(&object, Style::BuiltIn);
        let whole = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"12","generation":1},"data":{"k":"v"}}"#;
        assert_eq!(text(&encoded, 12), whole);
        assert_eq!(
            item(&encoded, 12),
            r#"{"metadata":{"name":"a","uid":"u","resourceVersion":"12","generation":1},"data":{"k":"v"}}"#
        );
        let back = Encoded::from_storage(encoded.storage_bytes()).unwrap();
        assert_eq!(back, encoded);
        assert_eq!(back.value(Revision(12)), serde_json::from_str::<Value>(whole).unwrap());
    }

    #[test]
    fn custom_resource_keys_are_sorted_and_complete() {
        let object =
            json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "a", "uid": "u"}, "spec": {}});
        let encoded = Encoded::new(&object, Style::Custom);
        let whole = r#"{"apiVersion":"ex.io/v1","kind":"Foo","metadata":{"name":"a","resourceVersion":"7","uid":"u"},"spec":{}}"#;
        assert_eq!(text(&encoded, 7), whole);
        assert_eq!(item(&encoded, 7), whole);
    }

    #[test]
    fn partial_metadata_is_copied_without_the_rest_of_the_object() {
        let reference =
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r}", "uid": "x", "controller": true});
        for metadata in [
            json!({"name": "a"}),
            json!({"labels": {"a": "}<\"\\"}}),
            json!({"name": "a", "generateName": "g", "namespace": "n", "uid": "u", "generation": 1,
                "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"a}": "b"}, "ownerReferences": [reference],
                "finalizers": ["f"], "managedFields": [{"manager": "m", "operation": "Update"}]}),
        ] {
            let object =
                json!({"kind": "A", "apiVersion": "v1", "metadata": metadata, "spec": {"metadata": {"name": "y"}}});
            let encoded = Encoded::new(&object, Style::BuiltIn);
            let mut out = Vec::new();
            assert!(encoded.render_partial("meta.k8s.io/v1", Revision(5), &mut out));
            let mut decoded = Vec::new();
            push_json(&crate::table::partial(encoded.value(Revision(5))), &mut decoded);
            assert_eq!(String::from_utf8(out), String::from_utf8(decoded));
        }
        let mut out = Vec::new();
        let metadata = json!({"labels": {}, "name": "a"});
        let custom = json!({"apiVersion": "e.io/v1", "kind": "A", "metadata": metadata});
        assert!(!Encoded::new(&custom, Style::Custom).render_partial("meta.k8s.io/v1", Revision(5), &mut out));
        let built_in = json!({"kind": "A", "apiVersion": "v1", "metadata": metadata});
        assert!(!Encoded::new(&built_in, Style::BuiltIn).render_partial("meta.k8s.io/v1", Revision(0), &mut out));
        assert_eq!(out, b"");
    }

    #[test]
    fn metadata_without_revision_has_no_extra_comma() {
        for metadata in [json!({"name": "a", "labels": {}}), json!({"name": "a"}), json!({"labels": {}}), json!({})] {
            let object = json!({"kind": "A", "apiVersion": "v1", "metadata": metadata});
            let encoded = Encoded::new(&object, Style::BuiltIn);
            assert_eq!(encoded.value(Revision(0)), object);
            assert_eq!(encoded.value(Revision(3))["metadata"]["resourceVersion"], "3");
        }
    }

    #[test]
    fn metadata_is_parsed_without_the_rest_of_the_object() {
        let labels = json!({"a}": "\\", "b": "\"}{"});
        let time = "2026-01-02T03:04:05Z";
        for (style, metadata) in [
            (Style::BuiltIn, json!({"name": "a", "uid": "u", "generation": 3, "labels": labels})),
            (Style::BuiltIn, json!({"labels": labels})),
            (Style::BuiltIn, json!({"name": "a"})),
            (Style::BuiltIn, json!({"name": "a", "deletionTimestamp": time, "labels": labels})),
            (
                Style::BuiltIn,
                json!({"name": "a", "labels": {"deletionTimestamp": ""}, "finalizers": ["deletionTimestamp"]}),
            ),
            (Style::Custom, json!({"deletionTimestamp": time, "labels": labels, "name": "a", "uid": "u"})),
            (Style::Custom, json!({"labels": {"deletionTimestamp": ""}, "name": "a", "uid": "u"})),
            (Style::Custom, json!({"annotations": {"x": "}"}, "labels": labels, "name": "a", "uid": "u"})),
        ] {
            let object = json!({"apiVersion": "v1", "kind": "A", "data": {"metadata": {"name": "x"}},
                "metadata": metadata, "spec": {"metadata": {"name": "y"}}});
            let encoded = Encoded::new(&object, style);
            let whole = Meta::parse(text(&encoded, 0).as_bytes()).unwrap();
            assert_eq!(encoded.meta().unwrap(), whole, "{object}");
            assert_eq!(encoded.is_deleting(), whole.is_deleting(), "{object}");
            // The rest is not even valid JSON.
            let mut bytes = encoded.storage_bytes().to_vec();
            let end = bytes.len() - b"{\"metadata\":{\"name\":\"y\"}}}".len();
            bytes.truncate(end);
            assert_eq!(Encoded::from_storage(bytes.into()).unwrap().meta().unwrap(), whole, "{object}");
        }
    }

    #[test]
    fn labels_are_read_in_place() {
        let object = |metadata: Value| json!({"apiVersion": "v1", "data": {"labels": {"no": "no"}, "list": ["]", "}"]}, "kind": "A", "metadata": metadata});
        let labels = json!({"a": "1", "example.io/b": ""});
        for style in [Style::BuiltIn, Style::Custom] {
            for others in [
                json!({"name": "a", "uid": "u"}),
                json!({"name": "a", "generation": 3, "annotations": {"labels": "{\"x\":\"y\"}"}}),
                json!({"annotations": {"x": "\\"}, "finalizers": ["a", "b"], "managedFields": [{"x": [{}]}], "name": "a"}),
                json!({}),
            ] {
                let encoded = Encoded::new(&object(others.clone()), style);
                assert_eq!(encoded.labels(), Some(Vec::new()), "{encoded:?}");
                let mut metadata = Map::new();
                // Objects have their fields in the order of the style.
                for (key, value) in others.as_object().unwrap() {
                    if key == "annotations" && style == Style::BuiltIn {
                        metadata.insert("labels".into(), labels.clone());
                    }
                    metadata.insert(key.clone(), value.clone());
                }
                metadata.entry("labels").or_insert(labels.clone());
                let encoded = Encoded::new(&object(metadata.into()), style);
                assert_eq!(encoded.labels(), Some(vec![("a", "1"), ("example.io/b", "")]), "{encoded:?}");
            }
            let escaped = Encoded::new(&object(json!({"labels": {"a": "<"}})), style);
            assert_eq!(escaped.labels(), None);
            assert_eq!(escaped.meta().unwrap().label("a"), Some("<"));
        }
    }

    #[test]
    fn markup_is_escaped_like_go() {
        let object = json!({"kind": "A", "apiVersion": "v1", "metadata": {"name": "<a&b>"}});
        let encoded = Encoded::new(&object, Style::BuiltIn);
        assert!(text(&encoded, 0).contains(r"\u003ca\u0026b\u003e"), "{encoded:?}");
        assert_eq!(encoded.value(Revision(0)), object);
    }

    #[test]
    fn floats_are_formatted_like_go() {
        let numbers = json!([2.0, 2.5, 1e20, 1e21, 1.5e300, 1e-6, 1e-7, -1e22]);
        let mut out = Vec::new();
        push_json(&numbers, &mut out);
        let expected = "[2.0,2.5,100000000000000000000,1e+21,1.5e+300,0.000001,1e-7,-1e+22]";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn damaged_body_is_an_error() {
        for bytes in [&b""[..], b"\x02\0\0\0\0\0\0\0\0{}", b"\x01\xff\0\0\0\0\0\0\0{}"] {
            assert!(Encoded::from_storage(Bytes::copy_from_slice(bytes)).is_err());
        }
    }
}
