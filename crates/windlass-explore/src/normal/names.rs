//! The names, UIDs and addresses of one run, and their replacements.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use crate::{
    patterns::Patterns,
    record::{ObjectName, Record},
};

/// The prefix of the volume with the token of a pod, to which the API server appends random characters.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// The replacement for a time.
pub(crate) const TIME: &str = "a time";

/// The length of a UID.
const UID: usize = 36;

/// The replacements of the generated names, UIDs and addresses of one run.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Generated names with their patterns, the longest name first.
    generated: Vec<(String, String)>,
    uids: BTreeMap<String, String>,
    addresses: BTreeMap<String, String>,
}

impl Names {
    /// Collects the names of all objects of a run.
    pub(crate) fn new(record: &Record, patterns: &Patterns) -> Self {
        let mut names = Self::default();
        for change in &record.changes {
            if change.point.name != change.object.name {
                names.generated.push((change.object.name.clone(), change.point.name.clone()));
            } else if let Some(pattern) = patterns.apply(&change.object) {
                names.generated.push((change.object.name.clone(), pattern));
            }
        }
        let objects = || {
            let changed = record.changes.iter().filter_map(|change| {
                let state = change.after.as_ref().or(change.before.as_ref());
                state.map(|state| (&change.object, state))
            });
            changed.chain(&record.end)
        };
        for (object, state) in objects() {
            let prefix = text(&state["metadata"]["generateName"]);
            if !prefix.is_empty() && object.name.starts_with(prefix) && object.name.len() > prefix.len() {
                names.generated.push((object.name.clone(), format!("{prefix}*")));
            }
        }
        names.generated.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
        names.generated.dedup_by(|a, b| a.0 == b.0);
        for (object, state) in objects() {
            let of = names.pattern(object);
            names.uids.insert(text(&state["metadata"]["uid"]).to_owned(), format!("the UID of {of}"));
            for address in addresses(object, state) {
                names.addresses.insert(address.to_owned(), format!("the address of {of}"));
            }
        }
        names
    }

    /// Returns the name of an object with `*` for its generated parts.
    pub(crate) fn pattern(&self, object: &ObjectName) -> ObjectName {
        ObjectName {
            resource: object.resource.clone(),
            namespace: self.starred(&object.namespace),
            name: self.starred(&object.name),
        }
    }

    /// Returns a text with the generated names and UIDs in it replaced by patterns.
    pub(crate) fn starred(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // First, because a part of a UID may be equal to a short name, such as `db-0`.
        while let Some(at) = position_of_uid(&text) {
            text.replace_range(at..at + UID, "*");
        }
        for (name, pattern) in &self.generated {
            if text.contains(name.as_str()) {
                text = text.replace(name.as_str(), pattern);
            }
        }
        text
    }

    /// Returns the replacement of a string in an object; `None` if it stays as it is.
    pub(super) fn replaced(&self, text: &str) -> Option<String> {
        if let Some(known) = self.uids.get(text).or_else(|| self.addresses.get(text)) {
            return Some(known.clone());
        }
        if text.len() == UID && position_of_uid(text).is_some() {
            return Some("the UID of another object".to_owned());
        }
        if text.len() >= "2026-01-01T00:00:00Z".len() && text.parse::<jiff::Timestamp>().is_ok() {
            return Some(TIME.to_owned());
        }
        if text.strip_prefix(TOKEN_VOLUME).is_some_and(|suffix| suffix.len() == 5) {
            return Some(format!("{TOKEN_VOLUME}*"));
        }
        let starred = self.starred(text);
        (starred != text).then_some(starred)
    }
}

/// Returns the addresses that the cluster has assigned to an object.
fn addresses<'v>(object: &ObjectName, state: &'v Arc<Value>) -> Vec<&'v str> {
    let elements = |list: &'v Value| list.as_array().map(Vec::as_slice).unwrap_or_default();
    let addresses: Vec<&str> = match object.resource.as_str() {
        "pods" => elements(&state["status"]["podIPs"]).iter().map(|address| text(&address["ip"])).collect(),
        "services" => elements(&state["spec"]["clusterIPs"]).iter().map(text).collect(),
        _ => Vec::new(),
    };
    addresses.into_iter().filter(|address| address.parse::<std::net::IpAddr>().is_ok()).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the position of the first UID in a text.
fn position_of_uid(text: &str) -> Option<usize> {
    let dashes = [8, 13, 18, 23];
    let is_uid = |window: &[u8]| {
        let mut bytes = window.iter().enumerate();
        bytes.all(|(at, byte)| if dashes.contains(&at) { *byte == b'-' } else { byte.is_ascii_hexdigit() })
    };
    text.as_bytes().windows(UID).position(is_uid)
}
