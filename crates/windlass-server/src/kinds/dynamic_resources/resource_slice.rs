//! ResourceSlices: the devices of a pool.

use crate::kinds::{
    dynamic_resources::{MAX_ITEMS, validate_pool_name, validate_unique},
    pod_spec::volume_sources::validate_driver_name,
    prelude::*,
    selector::validate_node_selector,
};

pub(super) const KIND: Kind = Kind {
    name: "ResourceSlice",
    rules: Rules {
        metadata: MetadataRule::CHANGES,
        generation: Generation::Spec,
        returns_deleted: true,
        fields: &[
            FieldRule { label: "spec.nodeName", path: "spec.nodeName" },
            FieldRule { label: "spec.driver", path: "spec.driver" },
        ],
        indexed_field: Some("spec.nodeName"),
        selects_namespace: false,
        unknown_field: UnknownField::OfVersion,
        ..Rules::COMMON
    },
    prepare_create,
    validate_create: |slice, errors| validate_spec(&slice.child("spec"), None, errors),
    validate_update: |new, old, errors| validate_spec(&new.child("spec"), Some(&old.child("spec")), errors),
    ..BASE
};

const MAX_DEVICES: usize = 128;

/// The fields for the value of an attribute.
const VALUES: [&str; 8] = ["int", "bool", "string", "version", "ints", "bools", "strings", "versions"];

/// Sets the time of taints without one to the current time.
fn prepare_create(slice: &mut Value, write: &WriteContext<'_>) {
    change_each(slice, "spec.devices.*.taints.*", |taint| default_to(taint, "timeAdded", write.now()));
}

/// Validates a spec. `old` is the spec before an update, and `None` for a creation.
fn validate_spec(spec: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    validate_driver_name(&spec.child("driver"), errors);
    validate_pool(&spec.child("pool"), errors);
    if let Some(old) = old {
        spec.check_immutable(old, &["pool.name", "driver", "nodeName"], errors);
    }
    validate_location(spec, errors);
    let (devices, counters) = (spec.child("devices"), spec.child("sharedCounters"));
    if counters.is_set() && devices.is_set() {
        spec.invalid_as("", "only one of `sharedCounters` or `devices` is allowed", errors);
    }
    if devices.at_most(MAX_DEVICES, errors) {
        return;
    }
    let selects_per_device = spec.child("perDeviceNodeSelection").flag();
    devices.each(|device, errors| validate_device(device, selects_per_device, errors), errors);
    validate_unique(&devices, &["name"], errors);
    counters.each(validate_counter_set, errors);
}

fn validate_pool(pool: &Field<'_>, errors: &mut Errors) {
    validate_pool_name(&pool.child("name"), errors);
    pool.child("resourceSliceCount").check_count(1.., "must be greater than zero", errors);
    pool.child("generation").check_int(0.., "must be greater than or equal to zero", errors);
}

/// Validates the location of a slice's devices, which must be specified in exactly one way.
fn validate_location(spec: &Field<'_>, errors: &mut Errors) {
    let mut found: Vec<&str> = Vec::new();
    let node = spec.child("nodeName");
    match node.value().and_then(Value::as_str) {
        Some("") => node.invalid("must be either unset or set to a non-empty string", errors),
        Some(name) => {
            found.push("`nodeName`");
            node.invalid_each(dns_subdomain(name), errors);
        }
        None => {}
    }
    let selector = spec.child("nodeSelector");
    if selector.is_set() {
        found.push("`nodeSelector`");
        validate_node_selector(&selector, errors);
        let terms = selector.child("nodeSelectorTerms");
        if terms.len() != 1 {
            let shown = terms.value().cloned().unwrap_or_else(|| json!([]));
            terms.invalid_as(&shown, "must have exactly one node selector term", errors);
        }
    }
    for (name, quoted) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")] {
        let field = spec.child(name);
        match field.value().and_then(Value::as_bool) {
            Some(true) => found.push(quoted),
            Some(false) => field.invalid("must be either unset or set to true", errors),
            None => {}
        }
    }
    let text = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match found.len() {
        0 => spec.required(text, errors),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", found.join(", "));
            spec.invalid_as(&shown, &format!("{text}, but multiple fields are set"), errors);
        }
    }
}

/// Validates a device. `selects_per_device` is `true` if each device of the slice specifies its nodes.
fn validate_device(device: &Field<'_>, selects_per_device: bool, errors: &mut Errors) {
    device.child("name").check_text(dns_label, errors);
    let attributes = device.child("attributes");
    let count = attributes.len() + device.child("capacity").len();
    if count > MAX_ITEMS {
        let shown = i64::try_from(count).unwrap_or(i64::MAX);
        let text = format!("the total number of attributes and capacities must not exceed {MAX_ITEMS}");
        device.invalid_as(&shown, &text, errors);
    }
    for (_, attribute) in attributes.entries() {
        match attribute.len() {
            1 => {}
            _ if !errors.before(V1_37) => report_values(&attribute, errors),
            0 => attribute.invalid_as("", "exactly one value must be specified", errors),
            _ => attribute.invalid("exactly one value must be specified", errors),
        }
    }
    let is_located = ["nodeName", "nodeSelector", "allNodes"].iter().any(|name| device.child(name).is_set());
    if !selects_per_device && is_located {
        let text = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        device.invalid_as(&Value::Null, text, errors);
    } else if selects_per_device && !is_located {
        let text = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        device.required(text, errors);
    }
}

/// Reports an attribute with no value or several, in the words since 1.37.
fn report_values(attribute: &Field<'_>, errors: &mut Errors) {
    let quoted = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let found: Vec<&str> = VALUES.into_iter().filter(|name| attribute.child(name).is_set()).collect();
    if found.is_empty() {
        attribute.invalid_as("", &format!("must specify one of: {}", quoted(&VALUES)), errors);
    } else {
        let shown = format!("{{{}}}", quoted(&found));
        attribute.invalid_as(&shown, &format!("must specify exactly one of: {}", quoted(&VALUES)), errors);
    }
}

/// Validates a set of counters that the devices of a pool share.
fn validate_counter_set(set: &Field<'_>, errors: &mut Errors) {
    set.child("name").required_text(dns_label, errors);
    set.child("counters").check_not_empty("", errors);
}
