//! Normalization of values that differ between two runs of the same server. They are removed or replaced:
//!
//! - the word of the case: `{id}`, as part of an address `{id6}`
//! - UIDs: `{uid1}`, `{uid2}` in order of appearance
//! - times near the time of the response: `{now}`, `{now+30s}`, `{now.micro}`; ages in tables: `{age}`
//! - resource versions: `{rv1}` < `{rv2}` …, in order over the whole case. The version of a list or bookmark is
//!   `{rv2+}`: at least the second version of the case, and below its third. Other clients write in between.
//! - suffixes of generated names: `{5}`; continue tokens: `{continue}`; ETags: `{etag}`
//! - the port of the extension API server: `{extension}`
//! - addresses and ports of services: `{ip}`, `{port}`; the address of the server: `{address}`
//! - managedFields: the real order depends on times in seconds, so they are sorted by name. They are removed from
//!   texts. The causes of a conflict between managers are sorted
//! - descriptions of table columns, which are not copied here
//! - the structural diff in messages about forbidden pod changes, which is Go's and not intended for programs

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value};
use windlass_api::parse_time;

use crate::play::{Seen, Transcript, as_address};

/// The maximum distance in seconds between the response and a time that the server sets. Other times come from the
/// case.
const NEAR: i64 = 3600;

/// The common state for the responses of one case.
#[derive(Debug)]
pub(crate) struct Normal {
    id: String,
    /// The port of the extension API server.
    extension: Option<u16>,
    /// The versions of objects, without those of lists and bookmarks.
    versions: BTreeSet<u64>,
    /// Generated names and their replacements.
    generated: Vec<(String, String)>,
    uids: Vec<String>,
    now: Timestamp,
}

impl Normal {
    /// Collects values of all responses, so that each response is normalized consistently.
    pub(crate) fn of(transcript: &Transcript) -> Self {
        let mut normal = Self {
            id: transcript.id.clone(),
            extension: transcript.extension,
            versions: BTreeSet::new(),
            generated: Vec::new(),
            uids: Vec::new(),
            now: Timestamp::UNIX_EPOCH,
        };
        for answer in &transcript.answers {
            match &answer.seen {
                Seen::Response { .. } => normal.learn(&answer.seen.value().unwrap_or_default()),
                Seen::Events { events, .. } => {
                    let objects = events.iter().filter(|event| event["type"] != "BOOKMARK");
                    objects.for_each(|event| normal.learn(&event["object"]));
                }
                Seen::Opened { .. } | Seen::Failed(_) => {}
            }
        }
        normal
    }

    /// Sets the time of the following responses.
    pub(crate) fn at(&mut self, now: Timestamp) {
        self.now = now;
    }

    fn learn(&mut self, value: &Value) {
        match value {
            Value::Object(object) => {
                if let Some(metadata) = object.get("metadata") {
                    let version = metadata["resourceVersion"].as_str().and_then(|version| version.parse::<u64>().ok());
                    self.versions.extend(version.filter(|_| !is_collection(object)));
                    let (name, prefix) = (&metadata["name"], &metadata["generateName"]);
                    if let (Some(name), Some(prefix)) = (name.as_str(), prefix.as_str())
                        && name.len() == prefix.len() + 5
                        && name.starts_with(prefix)
                    {
                        self.generated.push((name.to_owned(), format!("{prefix}{{5}}")));
                    }
                }
                object.values().for_each(|value| self.learn(value));
            }
            Value::Array(items) => items.iter().for_each(|value| self.learn(value)),
            _ => {}
        }
    }

    /// Normalizes a watch event.
    pub(crate) fn event(&mut self, event: &Value) -> Value {
        let Value::Object(event) = event else { return self.value(event) };
        let bookmark = event.get("type").is_some_and(|kind| kind == "BOOKMARK");
        let fields = event.iter().map(|(key, value)| {
            let value = match value {
                Value::Object(object) if bookmark => self.object(object, Versions::Floor),
                value => self.value(value),
            };
            (key.clone(), value)
        });
        Value::Object(fields.collect())
    }

    /// Normalizes a document or a part of one.
    pub(crate) fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(object) => {
                let versions = if is_collection(object) { Versions::Floor } else { Versions::Exact };
                self.object(object, versions)
            }
            Value::Array(items) => Value::Array(items.iter().map(|item| self.value(item)).collect()),
            Value::String(text) => Value::String(self.text(text)),
            other => other.clone(),
        }
    }

    fn object(&mut self, object: &Map<String, Value>, versions: Versions) -> Value {
        let mut written = Map::new();
        for (key, value) in object {
            let value = match (key.as_str(), value) {
                ("managedFields", Value::Array(entries)) => self.managed_fields(entries),
                ("causes", Value::Array(causes)) => self.causes(causes),
                ("resourceVersion", Value::String(version)) => Value::String(self.version(version, versions)),
                ("continue", Value::String(token)) if !token.is_empty() => Value::from("{continue}"),
                ("serverAddress", Value::String(_)) => Value::from("{address}"),
                ("port", Value::Number(port)) if port.as_u64() == self.extension.map(u64::from) => {
                    Value::from("{extension}")
                }
                ("nodePort" | "healthCheckNodePort", Value::Number(_)) => Value::from("{port}"),
                ("metadata", Value::Object(metadata)) => self.object(metadata, versions),
                ("cells", Value::Array(cells)) => Value::Array(cells.iter().map(|cell| self.cell(cell)).collect()),
                // The rows of a bookmark contain its version.
                ("rows", Value::Array(rows)) if matches!(versions, Versions::Floor) => self.rows(rows),
                ("columnDefinitions", Value::Array(columns)) => {
                    columns.iter().map(|column| self.column(column)).collect()
                }
                (_, value) => self.value(value),
            };
            written.insert(self.text(key), value);
        }
        Value::Object(written)
    }

    fn managed_fields(&mut self, entries: &[Value]) -> Value {
        let mut entries: Vec<Value> = entries.iter().map(|entry| self.value(entry)).collect();
        let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        entries.sort_by_key(|entry| ["operation", "manager", "apiVersion", "subresource"].map(|key| text(entry, key)));
        Value::Array(entries)
    }

    fn causes(&mut self, causes: &[Value]) -> Value {
        let mut causes: Vec<Value> = causes.iter().map(|cause| self.value(cause)).collect();
        if causes.iter().all(|cause| cause["reason"] == "FieldManagerConflict") {
            causes.sort_by_key(ToString::to_string);
        }
        Value::Array(causes)
    }

    /// Normalizes the rows of a table. If a row is not an object (a bookmark), its version is treated like the table's.
    fn rows(&mut self, rows: &[Value]) -> Value {
        let row = |normal: &mut Self, row: &Value| match row {
            Value::Object(fields) => {
                let bookmark = fields.get("object").is_some_and(|object| object["metadata"]["name"].is_null());
                let versions = if bookmark { Versions::Floor } else { Versions::Exact };
                let fields = fields.iter().map(|(key, value)| {
                    let value = match (key.as_str(), value) {
                        ("object", Value::Object(object)) => normal.object(object, versions),
                        ("cells", Value::Array(cells)) => cells.iter().map(|cell| normal.cell(cell)).collect(),
                        (_, value) => normal.value(value),
                    };
                    (key.clone(), value)
                });
                Value::Object(fields.collect())
            }
            row => normal.value(row),
        };
        rows.iter().map(|each| row(self, each)).collect()
    }

    fn column(&mut self, column: &Value) -> Value {
        let mut column = self.value(column);
        if let Some(column) = column.as_object_mut() {
            column.shift_remove("description");
        }
        column
    }

    fn cell(&mut self, cell: &Value) -> Value {
        match cell {
            Value::String(text) if is_age(text) => Value::from("{age}"),
            other => self.value(other),
        }
    }

    /// Normalizes a text: a value, a message, a body that is not JSON, or a header.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let mut text = text.replace(&self.id, "{id}").replace(&as_address(&self.id), "{id6}");
        if let Some(port) = self.extension {
            text =
                text.replace(&format!(":{port}"), ":{extension}").replace(&format!("port {port}"), "port {extension}");
        }
        for (name, written) in &self.generated {
            text = text.replace(&name.replace(&self.id, "{id}"), &written.replace(&self.id, "{id}"));
        }
        let text = without_managed_fields(&text);
        let text = without_go_diff(&text);
        let text = self.versions_in(&text);
        self.words(&text)
    }

    fn version(&self, version: &str, versions: Versions) -> String {
        let Ok(number) = version.parse() else { return version.to_owned() };
        let known = self.versions.range(..=number).count();
        match versions {
            Versions::Floor => format!("{{rv{known}+}}"),
            Versions::Exact if self.versions.contains(&number) => format!("{{rv{known}}}"),
            Versions::Exact => version.to_owned(),
        }
    }

    /// Replaces versions in messages, which are identified by the preceding words.
    fn versions_in(&self, text: &str) -> String {
        const OF_OBJECTS: [&str; 6] = [
            "ResourceVersion in object meta: ",
            "ResourceVersion in record (",
            "ResourceVersion: ",
            "resourceVersion: \"",
            "\"resourceVersion\":\"",
            "\\\"resourceVersion\\\":\\\"",
        ];
        const OF_THE_SERVER: [&str; 1] = ["current: "];
        let mut text = text.to_owned();
        for marker in OF_OBJECTS {
            text = replace_number(&text, marker, |number| self.version(number, Versions::Exact));
        }
        // In YAML, lists cannot be distinguished from objects.
        if text.contains("\nkind: ") {
            text = replace_number(&text, "\n  resourceVersion: \"", |number| self.version(number, Versions::Floor));
        }
        for marker in OF_THE_SERVER {
            text = replace_number(&text, marker, |_| "{rv}".to_owned());
        }
        match text.strip_prefix("too old resource version: ").and_then(|rest| rest.split_once(" (")) {
            Some((asked, _)) => format!("too old resource version: {asked} ({{rv}})"),
            None => text,
        }
    }

    /// Replaces UIDs, times and addresses: words with a fixed shape.
    fn words(&mut self, text: &str) -> String {
        let mut written = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            let boundary =
                written.chars().next_back().is_none_or(|before| !before.is_ascii_alphanumeric() && before != '.');
            let found = if boundary { self.word(rest) } else { None };
            if let Some((length, name)) = found {
                written.push_str(&name);
                rest = &rest[length..];
            } else {
                written.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
        written
    }

    /// Returns the length and replacement of the word at the start of a text.
    fn word(&mut self, text: &str) -> Option<(usize, String)> {
        if let Some(uid) = text.get(..36).filter(|word| is_uuid(word)) {
            let known = self.uids.iter().position(|known| known == uid);
            let index = known.unwrap_or_else(|| {
                self.uids.push(uid.to_owned());
                self.uids.len() - 1
            });
            return Some((36, format!("{{uid{}}}", index + 1)));
        }
        if let Some(address) = text.strip_prefix("10.0.0.") {
            let digits = address.bytes().take_while(u8::is_ascii_digit).count();
            let range = address[digits..].starts_with('/');
            return (digits > 0 && !range).then(|| ("10.0.0.".len() + digits, "{ip}".to_owned()));
        }
        let end = text.find('Z').filter(|end| (19..=26).contains(end) && text.is_char_boundary(*end))?;
        let time = parse_time(&text[..=end]).ok()?;
        let distance = time.as_second() - self.now.as_second();
        if distance.abs() > NEAR {
            return None;
        }
        let micro = if end > 19 { ".micro" } else { "" };
        // Rounds to half a minute: the response took some time, and deadlines are at least half a minute away.
        let name = match (distance + 15).div_euclid(30) * 30 {
            ..=0 => format!("{{now{micro}}}"),
            later => format!("{{now+{later}s{micro}}}"),
        };
        Some((end + 1, name))
    }
}

/// The replacement for versions in metadata.
#[derive(Clone, Copy, Debug)]
enum Versions {
    /// Versions of objects.
    Exact,
    /// The greatest object version that is not above the version.
    Floor,
}

fn is_collection(object: &Map<String, Value>) -> bool {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    kind == "Table" || (kind.ends_with("List") && object.contains_key("items"))
}

fn is_age(text: &str) -> bool {
    let mut digits = 0;
    let mut units = 0;
    for letter in text.bytes() {
        match letter {
            b'0'..=b'9' => digits += 1,
            b's' | b'm' | b'h' | b'd' | b'y' if digits > 0 => (digits, units) = (0, units + 1),
            _ => return false,
        }
    }
    digits == 0 && (1..=2).contains(&units)
}

fn is_uuid(word: &str) -> bool {
    word.bytes().enumerate().all(|(at, letter)| match at {
        8 | 13 | 18 | 23 => letter == b'-',
        _ => letter.is_ascii_digit() || (b'a'..=b'f').contains(&letter),
    })
}

/// Replaces the number after each occurrence of a marker.
fn replace_number(text: &str, marker: &str, name: impl Fn(&str) -> String) -> String {
    let mut written = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(marker) {
        let (before, after) = rest.split_at(at + marker.len());
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        written.push_str(before);
        written.push_str(&if digits > 0 { name(&after[..digits]) } else { String::new() });
        rest = &after[digits..];
    }
    written + rest
}

/// Removes managedFields from YAML, or from JSON inside a message.
fn without_managed_fields(text: &str) -> String {
    let mut text = text.to_owned();
    for key in ["\"managedFields\":[", "\\\"managedFields\\\":["] {
        while let Some(start) = text.find(key) {
            let mut depth = 1_usize;
            let from = start + key.len();
            let length = text[from..].bytes().position(|letter| {
                match letter {
                    b'[' => depth += 1,
                    b']' => depth -= 1,
                    _ => {}
                }
                depth == 0
            });
            let Some(length) = length else { break };
            let mut end = from + length + 1;
            let mut start = start;
            if text[end..].starts_with(',') {
                end += 1;
            } else if text[..start].ends_with(',') {
                start -= 1;
            }
            text.replace_range(start..end, "");
        }
    }
    if !text.contains("managedFields:\n") {
        return text;
    }
    let mut written = String::new();
    let mut inside = None;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        if let Some(outer) = inside {
            if indent > outer || (indent == outer && line.trim_start().starts_with('-')) {
                continue;
            }
            inside = None;
        }
        if line.trim() == "managedFields:" {
            inside = Some(indent);
        } else {
            written.push_str(line);
        }
    }
    written
}

fn without_go_diff(text: &str) -> String {
    const MARKERS: [&str; 2] = ["pod updates may not change fields other than", "may not be changed\n"];
    for marker in MARKERS {
        if let Some((before, after)) = text.split_once(marker) {
            let first = after.split('\n').next().filter(|_| !marker.ends_with('\n')).unwrap_or_default();
            return format!("{before}{marker}{first}");
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const UID: &str = "0a1b2c3d-0000-4000-8000-0123456789ab";

    fn normal() -> Normal {
        let now = parse_time("2030-01-01T00:00:05Z").unwrap();
        Normal {
            id: "xyz".to_owned(),
            extension: None,
            versions: BTreeSet::from([7, 12]),
            generated: Vec::new(),
            uids: Vec::new(),
            now,
        }
    }

    #[test]
    fn object_versions_are_ordinals_and_list_versions_between() {
        let mut normal = normal();
        let object = json!({"kind": "A", "metadata": {"resourceVersion": "12"}});
        assert_eq!(normal.value(&object), json!({"kind": "A", "metadata": {"resourceVersion": "{rv2}"}}));
        let list = json!({"kind": "AList", "metadata": {"resourceVersion": "11", "continue": "x"},
                          "items": [{"metadata": {"resourceVersion": "7"}}]});
        let written = json!({"kind": "AList", "metadata": {"resourceVersion": "{rv1+}", "continue": "{continue}"},
                             "items": [{"metadata": {"resourceVersion": "{rv1}"}}]});
        assert_eq!(normal.value(&list), written);
        let bookmark = json!({"type": "BOOKMARK", "object": {"kind": "A", "metadata": {"resourceVersion": "99"}}});
        assert_eq!(normal.event(&bookmark)["object"]["metadata"]["resourceVersion"], "{rv2+}");
        assert_eq!(
            normal.text("does not match the ResourceVersion in record (7). Gone"),
            "does not match the ResourceVersion in record ({rv1}). Gone"
        );
        assert_eq!(
            normal.text("Too large resource version: 99, current: 13"),
            "Too large resource version: 99, current: {rv}"
        );
    }

    #[test]
    fn generated_values_are_named_and_sent_ones_kept() {
        let mut normal = normal();
        assert_eq!(normal.text(&format!("a {UID}, {UID}")), "a {uid1}, {uid1}");
        assert_eq!(normal.text("2030-01-01T00:00:03Z"), "{now}");
        assert_eq!(normal.text("2030-01-01T00:00:34Z"), "{now+30s}");
        assert_eq!(normal.text("2030-01-01T00:00:03.123456Z"), "{now.micro}");
        assert_eq!(normal.text("2020-01-01T00:00:00Z"), "2020-01-01T00:00:00Z");
        assert_eq!(normal.text("10.0.0.17 of 10.0.0.0/24 or 110.0.0.1"), "{ip} of 10.0.0.0/24 or 110.0.0.1");
        assert_eq!(normal.text("ns-xyz"), "ns-{id}");
    }

    #[test]
    fn ages_are_cells_and_descriptions_are_left_out() {
        let table = json!({"kind": "Table", "columnDefinitions": [{"name": "Age", "description": "prose"}],
                           "rows": [{"cells": ["a", "2m3s", 1, "5"]}]});
        let written = json!({"kind": "Table", "columnDefinitions": [{"name": "Age"}],
                             "rows": [{"cells": ["a", "{age}", 1, "5"]}]});
        assert_eq!(normal().value(&table), written);
    }

    #[test]
    fn managers_and_their_conflicts_come_in_the_order_of_names() {
        let entry = |manager: &str, operation: &str| json!({"manager": manager, "operation": operation});
        let object =
            json!({"metadata": {"managedFields": [entry("b", "Apply"), entry("a", "Update"), entry("a", "Apply")]}});
        let written =
            json!({"metadata": {"managedFields": [entry("a", "Apply"), entry("b", "Apply"), entry("a", "Update")]}});
        assert_eq!(normal().value(&object), written);
        let cause = |manager: &str| json!({"reason": "FieldManagerConflict", "message": manager});
        assert_eq!(
            normal().value(&json!({"causes": [cause("b"), cause("a")]})),
            json!({"causes": [cause("a"), cause("b")]})
        );
    }

    #[test]
    fn managed_fields_are_left_out_of_texts() {
        let message = r#"Invalid value: "{\"a\":1,\"managedFields\":[{\"x\":[1]}],\"b\":2}": no"#;
        assert_eq!(normal().text(message), r#"Invalid value: "{\"a\":1,\"b\":2}": no"#);
        let yaml = "metadata:\n  managedFields:\n  - apiVersion: v1\n    fieldsV1:\n      a: {}\n  name: a\n";
        assert_eq!(normal().text(yaml), "metadata:\n  name: a\n");
    }
}
