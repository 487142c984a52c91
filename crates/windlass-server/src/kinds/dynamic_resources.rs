//! The group `resource.k8s.io`: devices, their allocation, and claims for them.
//!
//! Expressions that select devices are stored without validation, as are attributes and capacities.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::kinds::pod_spec::volume_sources::validate_driver_name;
use super::{BASE, Kind, selector::validate_node_selector};
use crate::{
    object::{
        Errors, NameRule, Path, Tree, as_object, c_identifier, default_to, dns_label, dns_subdomain, entry_mut,
        items_mut, label_value, qualified_name, validate_annotations, validate_labels,
    },
    resource::{FieldRule, Generation, MetadataRule, Resets, Rules, UnknownField},
};

const GROUP: &str = "resource.k8s.io";
const SPEC: Path<'static> = Path::new("spec");
/// The maximum number of each element.
const MAX: usize = 32;
const MAX_DEVICES: usize = 128;
const MAX_SUBREQUESTS: usize = 8;
const MAX_CONSUMERS: usize = 256;
const MAX_ATTRIBUTE: usize = 32;
const MAX_POOL_NAME: usize = 253;

pub(super) const KINDS: &[Kind] = &[
    Kind {
        group: GROUP,
        name: "DeviceClass",
        prefix: "/registry/deviceclasses/",
        rules: Rules { name: NameRule::Declared, generation: Generation::Spec, returns_deleted: true, ..Rules::COMMON },
        validate: validate_class,
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "ResourceClaim",
        prefix: "/registry/resourceclaims/",
        subresources: &["status"],
        rules: Rules { resets: Resets::BARE_STATUS, returns_deleted: true, ..Rules::WITH_STATUS },
        default: |object| {
            if let Some(spec) = entry_mut(object, "spec") {
                default_claim(spec);
            }
        },
        validate_create: |object, errors| validate_claim(object.at(&["spec"]), &SPEC, errors),
        validate_update: |new, old, errors| errors.immutable(&SPEC, new.at(&["spec"]), old.at(&["spec"])),
        validate_status: validate_claim_status,
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "ResourceClaimTemplate",
        prefix: "/registry/resourceclaimtemplates/",
        rules: Rules { returns_deleted: true, ..Rules::COMMON },
        default: |object| {
            if let Some(spec) = entry_mut(object, "spec").and_then(|spec| entry_mut(spec, "spec")) {
                default_claim(spec);
            }
        },
        validate: |object, errors| {
            let path = SPEC.child("metadata");
            validate_labels(object.at(&["spec", "metadata", "labels"]), &path.child("labels"), errors);
            let metadata = object.at(&["spec", "metadata"]).unwrap_or(&Value::Null);
            validate_annotations(metadata, &path.child("annotations"), errors);
            validate_claim(object.at(&["spec", "spec"]), &SPEC.child("spec"), errors);
        },
        validate_update: |new, old, errors| errors.immutable(&SPEC, new.at(&["spec"]), old.at(&["spec"])),
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "ResourceSlice",
        prefix: "/registry/resourceslices/",
        rules: Rules {
            metadata: MetadataRule::CHANGES,
            generation: Generation::Spec,
            returns_deleted: true,
            fields: &[
                FieldRule { label: "spec.nodeName", path: "spec.nodeName" },
                FieldRule { label: "spec.driver", path: "spec.driver" },
            ],
            selects_namespace: false,
            unknown_field: UnknownField::OfVersion,
            ..Rules::COMMON
        },
        off: &["spec.devices.*.nodeAllocatableResourceMappings"],
        stamp: Some(stamp_taints),
        validate_create: |slice, errors| validate_slice(slice, None, errors),
        validate_update: |new, old, errors| validate_slice(new, Some(old), errors),
        ..BASE
    },
];

fn too_many(items: &[Value], most: usize, path: &Path<'_>, errors: &mut Errors) -> bool {
    if items.len() > most {
        errors.too_many(path, items.len(), most);
    }
    items.len() > most
}

fn unique<'v>(keys: impl Iterator<Item = &'v str>, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, key) in keys.enumerate() {
        if !seen.insert(key) {
            errors.duplicate(&path.index(index), key);
        }
    }
}

// === classes ===

fn validate_class(class: &Value, errors: &mut Errors) {
    let Some(spec) = class.at(&["spec"]) else { return };
    validate_selectors(spec, &SPEC.child("selectors"), errors);
    validate_config(spec, &[], &SPEC.child("config"), errors);
    let Some(name) = spec.at(&["extendedResourceName"]).and_then(Value::as_str) else { return };
    let extended = name.split_once('/').is_some_and(|(domain, _)| !domain.contains("kubernetes.io"));
    if !extended || name.starts_with("requests.") || !qualified_name(name).is_empty() {
        errors.invalid(&SPEC.child("extendedResourceName"), name, "must be a valid extended resource name");
    }
}

fn validate_selectors(owner: &Value, path: &Path<'_>, errors: &mut Errors) {
    let selectors = owner.items(&["selectors"]);
    if too_many(selectors, MAX, path, errors) {
        return;
    }
    for (index, selector) in selectors.iter().enumerate() {
        if selector.at(&["cel"]).is_none() {
            errors.required(&path.index(index).child("cel"), "");
        }
    }
}

fn validate_config(owner: &Value, requests: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let configs = owner.items(&["config"]);
    if too_many(configs, MAX, path, errors) {
        return;
    }
    for (index, config) in configs.iter().enumerate() {
        let place = path.index(index);
        validate_references(config, requests, &place.child("requests"), errors);
        let place = place.child("opaque");
        match config.at(&["opaque"]) {
            None => errors.required(&place, ""),
            Some(opaque) => {
                validate_driver_name(opaque.text(&["driver"]), &place.child("driver"), errors);
                match opaque.at(&["parameters"]) {
                    None => errors.required(&place.child("parameters"), ""),
                    Some(Value::Object(_)) => {}
                    Some(_) => {
                        let text = "error parsing data as JSON: json: cannot unmarshal into Go value of type map[string]interface {}";
                        errors.invalid(&place.child("parameters"), "<value omitted>", text);
                    }
                }
            }
        }
    }
}

// === claims ===

fn default_claim(spec: &mut Value) {
    let Some(devices) = entry_mut(spec, "devices") else { return };
    for request in items_mut(devices, "requests") {
        if let Some(exactly) = entry_mut(request, "exactly") {
            default_request(exactly);
        }
        for alternative in items_mut(request, "firstAvailable") {
            default_request(alternative);
        }
    }
}

fn default_request(request: &mut Value) {
    let map = as_object(request);
    default_to(map, "allocationMode", "ExactCount");
    if map.text(&["allocationMode"]) == "ExactCount" {
        default_to(map, "count", 1);
    }
    for toleration in items_mut(request, "tolerations") {
        default_to(as_object(toleration), "operator", "Equal");
    }
}

fn validate_claim(spec: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let nothing = json!({});
    let devices = spec.and_then(|spec| spec.at(&["devices"])).unwrap_or(&nothing);
    let path = path.child("devices");
    let requests = devices.items(&["requests"]);
    let list = path.child("requests");
    if !too_many(requests, MAX, &list, errors) {
        for (index, request) in requests.iter().enumerate() {
            validate_request(request, &list.index(index), errors);
        }
        unique(requests.iter().map(|request| request.text(&["name"])), &list, errors);
    }
    let mut names: Vec<String> = Vec::new();
    for request in requests {
        let name = request.text(&["name"]);
        names.push(name.to_owned());
        names
            .extend(request.items(&["firstAvailable"]).iter().map(|other| format!("{name}/{}", other.text(&["name"]))));
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let list = path.child("constraints");
    let constraints = devices.items(&["constraints"]);
    if !too_many(constraints, MAX, &list, errors) {
        for (index, constraint) in constraints.iter().enumerate() {
            let place = list.index(index);
            validate_references(constraint, &names, &place.child("requests"), errors);
            let attributes = ["matchAttribute", "distinctAttribute"];
            if let Some(field) = attributes.iter().find(|field| constraint.at(&[field]).is_some()) {
                validate_attribute(constraint.text(&[field]), &place.child(field), errors);
            } else {
                let text = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
                errors.required(&place, text);
            }
        }
    }
    validate_config(devices, &names, &path.child("config"), errors);
}

fn validate_attribute(name: &str, path: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(path, "name required");
    }
    let own = name.split_once('/').map_or(name, |(_, own)| own);
    if own.len() > MAX_ATTRIBUTE {
        errors.too_long(path, MAX_ATTRIBUTE);
    }
    if !own.is_empty() {
        errors.invalid_each(path, own, c_identifier(own));
    }
    if !name.contains('/') {
        errors.invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash");
    }
}

fn validate_references(owner: &Value, known: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let names = owner.items(&["requests"]);
    if too_many(names, MAX, path, errors) {
        return;
    }
    for (index, name) in names.iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        let place = path.index(index);
        if name.split('/').count() <= 2 {
            for part in name.split('/') {
                errors.invalid_each(&place, part, dns_label(part));
            }
        }
        if !known.contains(&name) {
            let text =
                "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
            errors.invalid(&place, name, text);
        }
    }
    unique(names.iter().filter_map(Value::as_str), path, errors);
}

fn validate_request(request: &Value, path: &Path<'_>, errors: &mut Errors) {
    let name = request.text(&["name"]);
    errors.invalid_each(&path.child("name"), name, dns_label(name));
    let alternatives = request.items(&["firstAvailable"]);
    match (request.at(&["exactly"]), alternatives.is_empty()) {
        (None, true) => errors.required(path, "exactly one of `exactly` or `firstAvailable` is required"),
        (Some(_), false) => {
            let text = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.invalid(path, &Value::Null, text);
        }
        (Some(exactly), true) => validate_wish(exactly, &path.child("exactly"), errors),
        (None, false) => {
            let list = path.child("firstAvailable");
            if too_many(alternatives, MAX_SUBREQUESTS, &list, errors) {
                return;
            }
            for (index, alternative) in alternatives.iter().enumerate() {
                let place = list.index(index);
                let name = alternative.text(&["name"]);
                errors.invalid_each(&place.child("name"), name, dns_label(name));
                validate_wish(alternative, &place, errors);
            }
            unique(alternatives.iter().map(|alternative| alternative.text(&["name"])), &list, errors);
        }
    }
}

fn validate_wish(wish: &Value, path: &Path<'_>, errors: &mut Errors) {
    let class = wish.text(&["deviceClassName"]);
    let place = path.child("deviceClassName");
    if class.is_empty() {
        errors.required(&place, "");
    } else {
        errors.invalid_each(&place, class, dns_subdomain(class));
    }
    validate_selectors(wish, &path.child("selectors"), errors);
    let (mode, count) = (wish.text(&["allocationMode"]), wish.int(&["count"]).unwrap_or_default());
    match mode {
        "All" if count != 0 => {
            errors.invalid(&path.child("count"), &count, "must not be specified when allocationMode is 'All'");
        }
        "ExactCount" if count <= 0 => errors.invalid(&path.child("count"), &count, "must be greater than zero"),
        "All" | "ExactCount" => {}
        other => errors.unsupported(&path.child("allocationMode"), other, &["All", "ExactCount"]),
    }
    let list = path.child("tolerations");
    for (index, toleration) in wish.items(&["tolerations"]).iter().enumerate() {
        validate_toleration(toleration, &list.index(index), errors);
    }
}

/// Validates a toleration of device taints.
fn validate_toleration(toleration: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (key, value) = (toleration.text(&["key"]), toleration.text(&["value"]));
    if !key.is_empty() {
        errors.invalid_each(&path.child("key"), key, qualified_name(key));
    }
    match toleration.text(&["operator"]) {
        "Exists" if !value.is_empty() => {
            errors.invalid(&path.child("value"), value, "must be empty for operator `Exists`");
        }
        "Exists" => {}
        "Equal" => errors.invalid_each(&path.child("value"), value, label_value(value)),
        "" => errors.required(&path.child("operator"), ""),
        other => errors.unsupported(&path.child("operator"), other, &["Equal", "Exists"]),
    }
    crate::kinds::pod_spec::one_of(toleration, "effect", &["NoExecute", "NoSchedule", "None"], path, errors);
}

fn validate_claim_status(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("status");
    let consumers = new.items(&["status", "reservedFor"]);
    let list = path.child("reservedFor");
    if !too_many(consumers, MAX_CONSUMERS, &list, errors) {
        for (index, consumer) in consumers.iter().enumerate() {
            for field in ["resource", "name", "uid"] {
                if consumer.text(&[field]).is_empty() {
                    errors.required(&list.index(index).child(field), "");
                }
            }
        }
        unique(consumers.iter().map(|consumer| consumer.text(&["uid"])), &list, errors);
    }
    let (after, before) = (new.at(&["status", "allocation"]), old.at(&["status", "allocation"]));
    if !consumers.is_empty() {
        let earlier: HashSet<&Value> = old.items(&["status", "reservedFor"]).iter().collect();
        let leaving = new.at(&["metadata", "deletionTimestamp"]).is_some();
        if after.is_none() {
            errors.forbidden(&list, "may not be specified when `allocated` is not set");
        } else if leaving && consumers.iter().any(|consumer| !earlier.contains(consumer)) {
            let text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            errors.forbidden(&list, text);
        }
    }
    if after.is_some() && before.is_some() {
        errors.immutable(&path.child("allocation"), after, before);
    }
}

// === slices ===

/// Sets the time of taints without one to the current time.
fn stamp_taints(new: &mut Value, _old: Option<&Value>, now: &str) {
    let Some(spec) = entry_mut(new, "spec") else { return };
    for device in items_mut(spec, "devices") {
        for taint in items_mut(device, "taints") {
            default_to(as_object(taint), "timeAdded", now);
        }
    }
}

fn validate_slice(slice: &Value, old: Option<&Value>, errors: &mut Errors) {
    let nothing = json!({});
    let spec = slice.at(&["spec"]).unwrap_or(&nothing);
    validate_driver_name(spec.text(&["driver"]), &SPEC.child("driver"), errors);
    let pool = SPEC.child("pool");
    let name = spec.text(&["pool", "name"]);
    if name.is_empty() {
        errors.required(&pool.child("name"), "");
    } else {
        if name.len() > MAX_POOL_NAME {
            errors.too_long(&pool.child("name"), MAX_POOL_NAME);
        }
        for part in name.split('/') {
            errors.invalid_each(&pool.child("name"), part, dns_subdomain(part));
        }
    }
    let count = spec.int(&["pool", "resourceSliceCount"]).unwrap_or_default();
    if count <= 0 {
        errors.invalid(&pool.child("resourceSliceCount"), &count, "must be greater than zero");
    }
    if let Some(generation) = spec.int(&["pool", "generation"]).filter(|generation| *generation < 0) {
        errors.invalid(&pool.child("generation"), &generation, "must be greater than or equal to zero");
    }
    if let Some(old) = old {
        for path in [&["spec", "pool", "name"][..], &["spec", "driver"], &["spec", "nodeName"]] {
            errors.immutable(&Path::new(&path.join(".")), slice.at(path), old.at(path));
        }
    }
    validate_place(spec, errors);
    if spec.at(&["sharedCounters"]).is_some() && spec.at(&["devices"]).is_some() {
        errors.invalid(&SPEC, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    let devices = spec.items(&["devices"]);
    let list = SPEC.child("devices");
    if too_many(devices, MAX_DEVICES, &list, errors) {
        return;
    }
    let apart = spec.flag(&["perDeviceNodeSelection"]);
    for (index, device) in devices.iter().enumerate() {
        validate_device(device, apart, &list.index(index), errors);
    }
    unique(devices.iter().map(|device| device.text(&["name"])), &list, errors);
    validate_counters(spec, &SPEC.child("sharedCounters"), errors);
}

/// Validates the counters that the devices of a slice share.
fn validate_counters(spec: &Value, list: &Path<'_>, errors: &mut Errors) {
    for (index, set) in spec.items(&["sharedCounters"]).iter().enumerate() {
        let (place, name) = (list.index(index), set.text(&["name"]));
        if name.is_empty() {
            errors.required(&place.child("name"), "");
        } else {
            errors.invalid_each(&place.child("name"), name, dns_label(name));
        }
        if set.entries(&["counters"]).next().is_none() {
            errors.required(&place.child("counters"), "");
        }
    }
}

/// Validates the location of a slice's devices, which must be specified in exactly one way.
fn validate_place(spec: &Value, errors: &mut Errors) {
    let mut found: Vec<&str> = Vec::new();
    match spec.at(&["nodeName"]).and_then(Value::as_str) {
        Some("") => {
            errors.invalid(&SPEC.child("nodeName"), "", "must be either unset or set to a non-empty string");
        }
        Some(name) => {
            found.push("`nodeName`");
            errors.invalid_each(&SPEC.child("nodeName"), name, dns_subdomain(name));
        }
        None => {}
    }
    if let Some(selector) = spec.at(&["nodeSelector"]) {
        found.push("`nodeSelector`");
        let path = SPEC.child("nodeSelector");
        validate_node_selector(selector, &path, errors);
        let terms = selector.items(&["nodeSelectorTerms"]);
        if terms.len() != 1 {
            let text = "must have exactly one node selector term";
            errors.invalid(&path.child("nodeSelectorTerms"), &json!(terms), text);
        }
    }
    for (field, name) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")] {
        match spec.at(&[field]).and_then(Value::as_bool) {
            Some(true) => found.push(name),
            Some(false) => errors.invalid(&SPEC.child(field), &json!(false), "must be either unset or set to true"),
            None => {}
        }
    }
    let text = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match found.len() {
        0 => errors.required(&SPEC, text),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", found.join(", "));
            errors.invalid(&SPEC, &shown, &format!("{text}, but multiple fields are set"));
        }
    }
}

fn validate_device(device: &Value, apart: bool, path: &Path<'_>, errors: &mut Errors) {
    let name = device.text(&["name"]);
    errors.invalid_each(&path.child("name"), name, dns_label(name));
    let many = device.entries(&["attributes"]).count() + device.entries(&["capacity"]).count();
    if many > MAX {
        let shown = i64::try_from(many).unwrap_or(i64::MAX);
        let text = format!("the total number of attributes and capacities must not exceed {MAX}");
        errors.invalid(path, &shown, &text);
    }
    let attributes = path.child("attributes");
    for (name, attribute) in device.entries(&["attributes"]) {
        let place = attributes.key(name);
        match attribute.entries(&[]).count() {
            0 => errors.invalid(&place, "", "exactly one value must be specified"),
            1 => {}
            _ => errors.invalid(&place, attribute, "exactly one value must be specified"),
        }
    }
    let places = ["nodeName", "nodeSelector", "allNodes"];
    let given = places.iter().filter(|field| device.at(&[field]).is_some()).count();
    if !apart && given > 0 {
        let text = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        errors.invalid(path, &Value::Null, text);
    } else if apart && given == 0 {
        let text = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        errors.required(path, text);
    }
}
