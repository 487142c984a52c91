//! The state of a namespace as deterministic text, without generated names, UIDs and times.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
};

use serde_json::{Value, json};

/// The printed fields of pod specs.
const OF_PODS: [&str; 6] = ["hostname", "subdomain", "nodeName", "restartPolicy", "affinity", "tolerations"];

/// The binder repeats its events about waiting claims at least every 15 seconds. They are printed without a count, and
/// only if the scenario compares volumes.
const BINDER: &str = "persistentvolume-controller";
/// The source of events that are repeated with each retry.
const EPHEMERAL: &str = "ephemeral_volume";

/// The template hashes in names of ReplicaSets. They are replaced by the template's image in brackets.
#[derive(Debug, Default)]
pub(super) struct Hashes(HashMap<String, String>);

impl Hashes {
    fn learn(&mut self, objects: &[(String, Value)]) {
        for (_, object) in objects.iter().filter(|(kind, _)| kind == "ReplicaSet") {
            if let Some(hash) = object["metadata"]["labels"]["pod-template-hash"].as_str() {
                let image = object["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
                self.0.insert(hash.to_owned(), format!("[{image}]"));
            }
        }
    }

    fn replace(&self, text: &str) -> String {
        let is_part = |c: char| !c.is_ascii_alphanumeric();
        let mut replaced = String::with_capacity(text.len());
        for part in text.split_inclusive(is_part) {
            let word = part.trim_end_matches(is_part);
            match self.0.get(word) {
                Some(known) => replaced.push_str(&part.replacen(word, known, 1)),
                None => replaced.push_str(part),
            }
        }
        replaced
    }
}

/// Prints the objects of a namespace with their kind and the server's content. Only the compared kinds are included.
pub(super) fn write(kinds: &[String], objects: &[(String, Value)], hashes: &mut Hashes) -> String {
    hashes.learn(objects);
    let names = Names::of(objects, hashes);
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    let mut events: BTreeMap<String, i64> = BTreeMap::new();
    let has_volumes = kinds.iter().any(|kind| kind == "PersistentVolume" || kind == "StorageClass");
    for (kind, object) in objects {
        if kind == "Event" && [BINDER, EPHEMERAL].contains(&event_source(object)) {
            if has_volumes {
                lines.insert(event(object, &names), 1);
            }
        } else if kind == "Event" {
            *events.entry(event(object, &names)).or_default() += object["count"].as_i64().unwrap_or(1).max(1);
        } else {
            *lines.entry(describe(kind, object, &names)).or_default() += 1;
        }
    }
    let mut text = String::new();
    for (line, times) in lines {
        let times = if times > 1 { format!("{times} x ") } else { String::new() };
        let _ = writeln!(text, "{times}{line}");
    }
    for (line, times) in events {
        let _ = writeln!(text, "{times} x {line}");
    }
    text
}

/// Replacements for generated names and UIDs.
struct Names<'h> {
    known: HashMap<String, String>,
    hashes: &'h Hashes,
}

impl<'h> Names<'h> {
    fn of(objects: &[(String, Value)], hashes: &'h Hashes) -> Self {
        let mut known = HashMap::new();
        for (kind, object) in objects {
            let metadata = &object["metadata"];
            let name = metadata["name"].as_str().unwrap_or_default();
            let prefix = metadata["generateName"].as_str();
            let shown = match prefix.filter(|prefix| name.strip_prefix(prefix).is_some_and(is_random)) {
                Some(prefix) => {
                    let shown = format!("{}*", without_minute(prefix));
                    known.insert(name.to_owned(), shown.clone());
                    shown
                }
                None => without_minute(name),
            };
            // The real controller hashes Go's structs in memory.
            if let Some(hash) = metadata["labels"]["controller-revision-hash"].as_str()
                && kind == "ControllerRevision"
            {
                let shown_hash = format!("hash{}", object["revision"]);
                known.insert(name.to_owned(), name.replace(hash, &shown_hash));
                known.insert(hash.to_owned(), shown_hash);
            }
            if let Some(uid) = metadata["uid"].as_str() {
                known.insert(uid.to_owned(), format!("uid of {kind} {shown}"));
            }
        }
        Self { known, hashes }
    }

    /// Replaces generated names in a text, including the suffixes of deleted pods.
    fn replace(&self, text: &str) -> String {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let mut replaced = String::new();
        let mut rest = text;
        while let Some(start) = rest.find(is_part) {
            replaced.push_str(&rest[..start]);
            rest = &rest[start..];
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let word = &rest[..end];
            match self.known.get(word) {
                Some(known) => replaced.push_str(known),
                None => replaced.push_str(&made_up(word)),
            }
            rest = &rest[end..];
        }
        self.hashes.replace(&(replaced + rest))
    }
}

/// Replaces a generated suffix: `web-x7k2p` becomes `web-*`. A suffix has five characters of the server's alphabet, or
/// is a hash or a UID.
fn made_up(word: &str) -> String {
    match word.rsplit_once('-') {
        _ if word.len() == 36 && word.matches('-').count() == 4 => "a uid".to_owned(),
        Some((prefix, last)) if is_random(last) => format!("{}-*", without_minute(prefix)),
        _ => without_minute(word),
    }
}

/// Removes the minute from the names of a CronJob's jobs.
fn without_minute(name: &str) -> String {
    let is_minute = |part: &str| part.len() == 8 && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<_> = name.split('-').map(|part| if is_minute(part) { "MINUTE" } else { part }).collect();
    parts.join("-")
}

/// Reports whether a server could generate this text. An ordinal is not generated.
fn is_random(part: &str) -> bool {
    part.len() == 5 && part.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c))
}

fn event(event: &Value, names: &Names<'_>) -> String {
    let about = &event["involvedObject"];
    let about =
        format!("{} {}", about["kind"].as_str().unwrap_or_default(), about["name"].as_str().unwrap_or_default());
    let source = event_source(event);
    let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let line = format!("{source}: {} {} {}", text("type"), text("reason"), text("message"));
    format!("Event of {}: {}", names.replace(&about), names.replace(&line))
}

fn event_source(event: &Value) -> &str {
    event["source"]["component"].as_str().or(event["reportingComponent"].as_str()).unwrap_or_default()
}

fn describe(kind: &str, object: &Value, names: &Names<'_>) -> String {
    let metadata = &object["metadata"];
    let name = names.replace(metadata["name"].as_str().unwrap_or_default());
    let mut kept = json!({});
    for field in ["labels", "annotations", "finalizers", "generation"] {
        // The server sets the labels of jobs, depending on how they were written.
        let is_servers = matches!((kind, field), ("Pod", "generation") | ("Job", "labels"));
        if !metadata[field].is_null() && !is_servers {
            kept[field] = without_times(&metadata[field]);
        }
    }
    if !metadata["deletionTimestamp"].is_null() {
        kept["is being deleted"] = json!(true);
    }
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let owners: Vec<_> = owners.map(|owner| format!("{} {}", owner["kind"], owner["name"]).replace('"', "")).collect();
    if !owners.is_empty() {
        kept["owners"] = json!(owners);
    }
    // Descriptions are not copied into the recording.
    if let Some(description) = kept.pointer_mut("/annotations/kubernetes.io~1description") {
        *description = json!("a description");
    }
    let mut text = format!("{kind} {name} {kept}");
    if kind == "Pod" {
        let _ = write!(text, " {}", pod_spec(&object["spec"]));
    }
    for field in told(kind) {
        let mut value = without_times(&object[field]);
        let active = value.get_mut("active").and_then(Value::as_array_mut);
        for reference in active.into_iter().flatten() {
            reference["resourceVersion"] = json!("a version");
        }
        // The real order depends on hashes of Go's structs.
        if let Some(subsets) = value.as_array_mut().filter(|_| field == &"subsets") {
            subsets.sort_by_key(Value::to_string);
        }
        if let Some(claim) = value.get_mut("claimRef").filter(|_| kind == "PersistentVolume") {
            claim["resourceVersion"].take();
        }
        if !value.is_null() {
            let _ = write!(text, "\n    {field} {value}");
        }
    }
    if kind == "Pod" {
        let _ = write!(text, " {}", object["status"]["phase"]);
    }
    for field in ["storageClassName", "volumeName"].into_iter().filter(|_| kind == "PersistentVolumeClaim") {
        if let Some(named) = object["spec"][field].as_str().filter(|named| !named.is_empty()) {
            let _ = write!(text, "\n    {field} {named}");
        }
    }
    if kind == "ReplicaSet" {
        let _ = write!(text, "\n    replicas {}", object["spec"]["replicas"]);
    }
    names.replace(&text)
}

/// Returns the printed fields of a kind besides its metadata.
fn told(kind: &str) -> &'static [&'static str] {
    match kind {
        "Pod" | "CustomResourceDefinition" | "APIService" | "ClusterRole" | "Role" => &[],
        "Endpoints" => &["subsets"],
        "EndpointSlice" => &["addressType", "endpoints", "ports"],
        "Namespace" | "Node" | "PersistentVolume" => &["spec", "status"],
        "ServiceAccount" => &["secrets", "imagePullSecrets"],
        "Secret" => &["type"],
        _ => &["data", "revision", "status"],
    }
}

fn pod_spec(spec: &Value) -> Value {
    let mut kept = json!({});
    for field in OF_PODS {
        let value = &spec[field];
        let usual = field == "tolerations" && value.as_array().is_some_and(|all| all.len() == 2) || value.is_null();
        if !usual {
            kept[field] = value.clone();
        }
    }
    // Token volumes depend on the admission of pods.
    let volumes = spec["volumes"].as_array().into_iter().flatten().filter(|volume| volume["projected"].is_null());
    let volumes: Vec<_> = volumes.collect();
    if !volumes.is_empty() {
        kept["volumes"] = json!(volumes);
    }
    let container = &spec["containers"][0];
    kept["image"] = container["image"].clone();
    if !container["env"].is_null() {
        kept["env"] = container["env"].clone();
    }
    kept
}

/// Replaces times by a placeholder.
fn without_times(value: &Value) -> Value {
    match value {
        Value::String(text) if is_time(text) => json!("a time"),
        Value::Array(items) => items.iter().map(without_times).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), without_times(value))).collect(),
        other => other.clone(),
    }
}

fn is_time(text: &str) -> bool {
    text.len() >= 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T' && text.starts_with("20")
}
