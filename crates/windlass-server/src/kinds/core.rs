//! The small kinds of the core group and related groups.

use serde_json::{Value, json};

/// The annotation of accounts whose pods may use only the account's secrets.
pub(crate) const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";
use super::quantity::amount;
use crate::codec::{check_json, go_quote};
use crate::object::{
    DuplicateCheck, Errors, Path, Tree, as_object, config_key, copy_key, default_to, entry_mut, items_mut, label_value,
    metadata_mut, object_mut, qualified_name, range_problem,
};

/// The maximum size of a config map's or secret's data, in bytes.
const MAX_SIZE: usize = 1 << 20;
const IMMUTABLE: &str = "field is immutable when `immutable` is set";

// === config maps and secrets ===

pub(super) fn validate_config_map(object: &Value, errors: &mut Errors) {
    let mut size = 0;
    for (bag, other) in [("data", "binaryData"), ("binaryData", "")] {
        let path = Path::new(bag);
        for (key, value) in object.entries(&[bag]) {
            errors.invalid_each(&path.key(key), key, config_key(key));
            if !other.is_empty() && object.at(&[other, key]).is_some() {
                errors.invalid(&path.key(key), key, "duplicate of key present in binaryData");
            }
            let text = value.as_str().unwrap_or_default();
            size += if bag == "data" { text.len() } else { decoded_len(text) };
        }
    }
    if size > MAX_SIZE {
        // The error concerns the whole object.
        errors.add(&Path::new("[]"), "FieldValueTooLong", format!("Too long: may not be more than {MAX_SIZE} bytes"));
    }
}

pub(super) fn validate_config_map_update(new: &Value, old: &Value, errors: &mut Errors) {
    keep_immutable(&["data", "binaryData"], new, old, errors);
}

pub(super) fn default_secret(object: &mut Value) {
    default_to(as_object(object), "type", "Opaque");
    // Merges the write-only field into the data.
    let map = as_object(object);
    if let Some(Value::Object(texts)) = map.shift_remove("stringData") {
        let data = object_mut(object, "data");
        for (key, text) in texts {
            let text = text.as_str().unwrap_or_default();
            data.insert(key, base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text).into());
        }
    }
}

pub(super) fn validate_secret(object: &Value, errors: &mut Errors) {
    let path = Path::new("data");
    let mut size = 0;
    for (key, value) in object.entries(&["data"]) {
        errors.invalid_each(&path.key(key), key, config_key(key));
        size += decoded_len(value.as_str().unwrap_or_default());
    }
    if size > MAX_SIZE {
        errors.too_long(&path, MAX_SIZE);
    }
    let has = |key: &str| object.at(&["data", key]).is_some();
    match object.text(&["type"]) {
        "kubernetes.io/service-account-token" => {
            const NAME: &str = "kubernetes.io/service-account.name";
            if object.text(&["metadata", "annotations", NAME]).is_empty() {
                errors.required(&Path::new("metadata.annotations").key(NAME), "");
            }
        }
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            errors.required(&path.key("username"), "");
            errors.required(&path.key("password"), "");
        }
        kind => {
            let required: &[&str] = match kind {
                "kubernetes.io/dockercfg" => &[".dockercfg"],
                "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
                "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
                "kubernetes.io/tls" => &["tls.crt", "tls.key"],
                _ => &[],
            };
            for key in required {
                match object.at(&["data", key]) {
                    None => errors.required(&path.key(key), ""),
                    Some(config) if key.starts_with(".docker") => {
                        if let Err(why) = check_docker_config(config.as_str().unwrap_or_default()) {
                            errors.invalid(&path.key(key), "<secret contents redacted>", &why);
                        }
                    }
                    Some(_) => {}
                }
            }
        }
    }
}

/// Checks that a Docker configuration in base64 is a JSON object. The error is Go's message.
fn check_docker_config(text: &str) -> Result<(), String> {
    let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).unwrap_or_default();
    check_json(&bytes)?;
    let word = match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{' | b'n') | None => return Ok(()),
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "bool",
        Some(_) => "number",
    };
    Err(format!("json: cannot unmarshal {word} into Go value of type map[string]interface {{}}"))
}

pub(super) fn validate_secret_update(new: &Value, old: &Value, errors: &mut Errors) {
    errors.immutable(&Path::new("type"), new.at(&["type"]), old.at(&["type"]));
    keep_immutable(&["data"], new, old, errors);
}

fn keep_immutable(bags: &[&str], new: &Value, old: &Value, errors: &mut Errors) {
    if !old.flag(&["immutable"]) {
        return;
    }
    if !new.flag(&["immutable"]) {
        errors.forbidden(&Path::new("immutable"), IMMUTABLE);
    }
    for bag in bags {
        if new.at(&[bag]) != old.at(&[bag]) {
            errors.forbidden(&Path::new(bag), IMMUTABLE);
        }
    }
}

/// Returns the number of bytes that canonical base64 decodes to.
fn decoded_len(text: &str) -> usize {
    text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count().min(text.len() / 4 * 3)
}

// === service accounts ===

/// Reduces references to secrets to their names.
pub(super) fn prepare_service_account(object: &mut Value) {
    for secret in items_mut(object, "secrets") {
        let name = secret.text(&["name"]).to_owned();
        *secret = json!({"name": name});
    }
}

/// Warns if an account starts to use the deprecated limit on mountable secrets.
pub(super) fn service_account_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let limits = |account: &Value| account.at(&["metadata", "annotations", ENFORCE_MOUNTABLE_SECRETS]).is_some();
    if !limits(new) || old.is_some_and(limits) {
        return Vec::new();
    }
    let instead = "prefer separate namespaces to isolate access to mounted secrets";
    vec![format!("metadata.annotations[{ENFORCE_MOUNTABLE_SECRETS}]: deprecated in v1.32+; {instead}")]
}

// === namespaces ===

const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

pub(super) fn default_namespace(object: &mut Value) {
    let name = object.text(&["metadata", "name"]).to_owned();
    if !name.is_empty() {
        let labels = metadata_mut(object).entry("labels").or_insert(Value::Null);
        as_object(labels).insert(NAMESPACE_LABEL.to_owned(), name.into());
    }
    if object.text(&["status", "phase"]).is_empty() {
        object_mut(object, "status").insert("phase".to_owned(), "Active".into());
    }
}

pub(super) fn prepare_namespace_create(object: &mut Value) {
    // Repeated, because the name may have been generated in the meantime.
    default_namespace(object);
    let spec = object_mut(object, "spec");
    if !spec.items(&["finalizers"]).iter().any(|finalizer| finalizer == "kubernetes") {
        let finalizers = spec.entry("finalizers").or_insert(Value::Null);
        match finalizers {
            Value::Array(finalizers) => finalizers.push("kubernetes".into()),
            other => *other = json!(["kubernetes"]),
        }
    }
    object_mut(object, "status").insert("phase".to_owned(), "Active".into());
}

pub(super) fn prepare_namespace_update(new: &mut Value, old: &Value) {
    let nothing = json!({});
    copy_key(object_mut(new, "spec"), old.at(&["spec"]).unwrap_or(&nothing), "finalizers");
}

pub(super) fn validate_namespace(object: &Value, errors: &mut Errors) {
    let path = Path::new("spec.finalizers");
    for finalizer in object.items(&["spec", "finalizers"]) {
        let text = finalizer.as_str().unwrap_or_default();
        errors.invalid_each(&path, text, qualified_name(text));
        if text != "kubernetes" && !text.contains('/') {
            errors.invalid(&path, text, "name is neither a standard finalizer name nor is it fully qualified");
        }
    }
}

pub(super) fn validate_namespace_status(new: &Value, _old: &Value, errors: &mut Errors) {
    let path = Path::new("status.Phase");
    let phase = new.text(&["status", "phase"]);
    let deleting = new.at(&["metadata", "deletionTimestamp"]).is_some();
    if deleting && phase != "Terminating" {
        errors.invalid(&path, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty");
    } else if !deleting && phase != "Active" {
        errors.invalid(&path, phase, "may only be 'Active' if `deletionTimestamp` is empty");
    }
}

// === nodes ===

pub(super) fn default_node(object: &mut Value) {
    // Both fields contain the pod range. If they differ, the older one wins.
    let range = object.text(&["spec", "podCIDR"]).to_owned();
    let first = object.items(&["spec", "podCIDRs"]).first().cloned();
    let spec = object_mut(object, "spec");
    match first {
        Some(first) if range.is_empty() => drop(spec.insert("podCIDR".to_owned(), first)),
        first if !range.is_empty() && first.as_ref().is_none_or(|first| *first != *range) => {
            spec.insert("podCIDRs".to_owned(), json!([range]));
        }
        _ => {}
    }
    if let Some(capacity) = object.at(&["status", "capacity"]).cloned() {
        let status = object_mut(object, "status");
        if status.at(&["allocatable"]).is_none() {
            status.insert("allocatable".to_owned(), capacity);
        }
    }
}

pub(super) fn node_field(object: &Value, label: &str) -> Option<String> {
    (label == "spec.unschedulable").then(|| object.flag(&["spec", "unschedulable"]).to_string())
}

/// Removes the source of the kubelet's configuration, which belongs to a removed feature.
pub(super) fn drop_node_config(new: &mut Value) {
    object_mut(new, "spec").shift_remove("configSource");
    if let Some(status) = entry_mut(new, "status") {
        as_object(status).shift_remove("config");
    }
}

pub(super) fn node_warnings(new: &Value, _old: Option<&Value>) -> Vec<String> {
    let external = !new.text(&["spec", "externalID"]).is_empty();
    let told = "spec.externalID: this field is deprecated, and is unused by Kubernetes";
    external.then(|| told.to_owned()).into_iter().collect()
}

pub(super) fn validate_node(object: &Value, errors: &mut Errors) {
    validate_taints(object, errors);
    validate_node_amounts(object, errors);
    if let Some(swap) = object.int(&["status", "nodeInfo", "swap", "capacity"]).filter(|swap| *swap <= 0) {
        errors.invalid(&Path::new("metadata.nodeSwapStatus.capacity"), &swap, "must be greater than zero");
    }
    validate_node_features(object, errors);
    let list = Path::new("spec.podCIDRs");
    let ranges = object.items(&["spec", "podCIDRs"]);
    for (index, range) in ranges.iter().enumerate() {
        let range = range.as_str().unwrap_or_default();
        if let Some(problem) = range_problem(range) {
            errors.invalid(&list.index(index), range, problem);
        }
    }
    let sixes = ranges.iter().filter(|range| range.as_str().is_some_and(|text| text.contains(':'))).count();
    if ranges.len() > 2 || (ranges.len() == 2 && sixes != 1) {
        let text = "may specify no more than one CIDR for each IP family";
        errors.invalid(&list, &Value::from(ranges), text);
    }
}

/// Validates that the resources of a node are not negative.
fn validate_node_amounts(object: &Value, errors: &mut Errors) {
    let status = Path::new("status");
    for field in ["capacity", "allocatable"] {
        let list = status.child(field);
        for (name, quantity) in object.entries(&["status", field]) {
            let text = quantity.as_str().unwrap_or_default();
            let value = amount(text).unwrap_or_default();
            let place = list.child(name);
            if value < 0.0 {
                errors.invalid(&place, text, "must be greater than or equal to 0");
            }
            if name.contains('/') && !name.contains("kubernetes.io/") && value.fract() != 0.0 {
                errors.invalid(&place, text, "must be an integer");
            }
        }
    }
}

/// Validates the declared features of a node: names in order, whose first segment starts with a capital letter.
fn validate_node_features(object: &Value, errors: &mut Errors) {
    const RULE: &str = "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or \
                        MyFeature/mySubFeature), and contain only alphanumeric characters and slashes";
    const LONGEST: usize = 253;
    let list = Path::new("status.declaredFeatures");
    let names = object.items(&["status", "declaredFeatures"]).iter().filter_map(Value::as_str);
    let mut last = None;
    for (index, name) in names.enumerate() {
        let place = list.index(index);
        match last {
            Some(last) if last == name => errors.duplicate(&place, name),
            Some(last) if last > name => errors.invalid(&place, name, "list must be sorted alphabetically"),
            _ => {}
        }
        last = Some(name);
        let is_word = |word: &str| {
            word.starts_with(|letter: char| letter.is_ascii_alphabetic())
                && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        let rule = if name.len() > LONGEST {
            format!("must be no more than {LONGEST} characters")
        } else if !name.starts_with(|letter: char| letter.is_ascii_uppercase()) || !name.split('/').all(is_word) {
            RULE.to_owned()
        } else {
            continue;
        };
        errors.invalid(&place, name, &format!("invalid feature name {}: {rule}", go_quote(name)));
    }
}

fn validate_taints(object: &Value, errors: &mut Errors) {
    // The taints are in the spec, but the real server reports this path.
    let path = Path::new("metadata.taints");
    let taints = object.items(&["spec", "taints"]);
    let mut seen = DuplicateCheck::default();
    for (index, taint) in taints.iter().enumerate() {
        let place = path.index(index);
        let (key, value, effect) = (taint.text(&["key"]), taint.text(&["value"]), taint.text(&["effect"]));
        errors.invalid_each(&place.child("key"), key, qualified_name(key));
        let problems = label_value(value);
        if !problems.is_empty() {
            errors.invalid(&place.child("value"), value, &problems.join(";"));
        }
        match effect {
            "" => errors.required(&place.child("effect"), ""),
            "NoSchedule" | "PreferNoSchedule" | "NoExecute" => {}
            other => {
                errors.unsupported(&place.child("effect"), other, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
            }
        }
        if seen.repeats((key, effect)) {
            // The value is shown with Go's field names.
            let added = taint.at(&["timeAdded"]).unwrap_or(&Value::Null);
            let shown = json!({"Key": key, "Value": value, "Effect": effect, "TimeAdded": added});
            let message = format!("Duplicate value: {shown}: taints must be unique by key and effect pair");
            errors.add(&place, "FieldValueDuplicate", message);
        }
    }
}

pub(super) fn validate_node_update(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    let ranges = old.items(&["spec", "podCIDRs"]);
    if !ranges.is_empty() && ranges != new.items(&["spec", "podCIDRs"]) {
        let text = "node updates may not change podCIDR except from \"\" to valid";
        errors.forbidden(&path.child("podCIDRs"), text);
    }
    let provider = old.text(&["spec", "providerID"]);
    if !provider.is_empty() && provider != new.text(&["spec", "providerID"]) {
        let text = "node updates may not change providerID except from \"\" to valid";
        errors.forbidden(&path.child("providerID"), text);
    }
    // The real server validates these twice and reports errors twice.
    validate_node_amounts(new, errors);
    validate_node_features(new, errors);
    validate_taints(new, errors);
    if new.text(&["spec", "externalID"]) != old.text(&["spec", "externalID"]) {
        errors.forbidden(&path.child("externalID"), "may not be updated");
    }
}

// === leases ===

pub(super) fn validate_lease(object: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    if let Some(seconds) = object.int(&["spec", "leaseDurationSeconds"]).filter(|seconds| *seconds <= 0) {
        errors.invalid(&path.child("leaseDurationSeconds"), &seconds, "must be greater than 0");
    }
    if let Some(count) = object.int(&["spec", "leaseTransitions"]).filter(|count| *count < 0) {
        errors.invalid(&path.child("leaseTransitions"), &count, "must be greater than or equal to 0");
    }
}

// === controller revisions ===

pub(super) fn validate_controller_revision(object: &Value, errors: &mut Errors) {
    errors.not_negative(&Path::new("revision"), object.int(&["revision"]));
}

pub(super) fn validate_new_controller_revision(object: &Value, errors: &mut Errors) {
    match object.at(&["data"]) {
        None => errors.required(&Path::new("data"), "data is mandatory"),
        Some(data) if !data.is_object() => errors.required(&Path::new("data"), "data must be a valid JSON object"),
        Some(_) => {}
    }
}

pub(super) fn validate_controller_revision_update(new: &Value, old: &Value, errors: &mut Errors) {
    // Compares the raw values: an empty value differs from a missing one.
    let (data, before) = (new.at(&["data"]), old.at(&["data"]));
    if data != before {
        errors.invalid(&Path::new("data"), data.unwrap_or(&Value::Null), "field is immutable");
    }
}
