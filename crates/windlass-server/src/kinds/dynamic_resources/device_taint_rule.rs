//! DeviceTaintRules: taints of devices that an administrator adds. Served since 1.37.

use crate::kinds::{
    dynamic_resources::{validate_pool_name, validate_taint},
    pod_spec::volume_sources::validate_driver_name,
    prelude::*,
    selector::validate_conditions,
};

pub(super) const KIND: Kind = Kind {
    name: "DeviceTaintRule",
    rules: Rules {
        metadata: MetadataRule::CHANGES,
        resets: Resets::BARE_STATUS,
        generation: Generation::Spec,
        unconditional_update: false,
        ..Rules::WITH_STATUS
    },
    prepare_create: |rule, write| change_each(rule, "spec.taint", |taint| default_to(taint, "timeAdded", write.now())),
    prepare_update,
    validate_create: |rule, errors| validate_spec(&rule.child("spec"), &Value::Null, errors),
    validate_update: |new, old, errors| validate_spec(&new.child("spec"), old.json(), errors),
    validate_status: |new, _, errors| {
        let conditions = new.child("status.conditions");
        validate_conditions(&conditions, errors);
        conditions.at_most(MAX_CONDITIONS, errors);
    },
    ..BASE
};

const MAX_CONDITIONS: usize = 8;

/// Keeps the time of a taint that the client does not set.
fn prepare_update(new: &mut Value, old: &Value) {
    if let Some(time) = old.at(&["spec", "taint", "timeAdded"]).cloned() {
        change_each(new, "spec.taint", |taint| default_to(taint, "timeAdded", time.clone()));
    }
}

/// Validates a spec. `old` is the object before an update, and `null` for a creation.
fn validate_spec(spec: &Field<'_>, old: &Value, errors: &mut Errors) {
    let selector = spec.child("deviceSelector");
    selector.child("driver").if_set(validate_driver_name, errors);
    selector.child("pool").if_set(validate_pool_name, errors);
    selector.child("device").check_set_text(dns_label, errors);
    validate_taint(&spec.child("taint"), old.text(&["spec", "taint", "effect"]), errors);
}
