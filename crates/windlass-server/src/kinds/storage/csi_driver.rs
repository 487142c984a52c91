//! `CSIDriver`.

use crate::kinds::prelude::*;

pub(super) const KIND: Kind = Kind {
    name: "CSIDriver",
    rules: Rules {
        metadata: MetadataRule::CHANGES,
        unconditional_update: false,
        returns_deleted: true,
        ..Rules::COMMON
    },
    default,
    prepare_update,
    validate,
    validate_update,
    immutable: &["spec.volumeLifecycleModes"],
    warnings,
    ..BASE
};

fn default(object: &mut Value) {
    let spec = object_mut(object, "spec");
    default_pointer(spec, "attachRequired", true);
    for field in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        default_pointer(spec, field, false);
    }
    default_pointer(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if spec.items(&["volumeLifecycleModes"]).is_empty() {
        spec.insert("volumeLifecycleModes".to_owned(), json!(["Persistent"]));
    }
}

/// Increments the generation of a changed driver. New drivers have no generation.
fn prepare_update(new: &mut Value, old: &Value) {
    if !same(new.at(&["spec"]), old.at(&["spec"])) {
        let generation = old.int(&["metadata", "generation"]).unwrap_or_default() + 1;
        metadata_mut(new).insert("generation".to_owned(), generation.into());
    }
}

fn validate(driver: &Field<'_>, errors: &mut Errors) {
    let spec = driver.child("spec");
    spec.child("fsGroupPolicy").one_of(&["File", "None", "ReadWriteOnceWithFSType"], errors);
    let requests = spec.child("tokenRequests");
    validate_token_requests(&requests, errors);
    let modes = spec.child("volumeLifecycleModes");
    for mode in modes.items() {
        if !matches!(mode.text(), "Persistent" | "Ephemeral") {
            errors.unsupported(modes.path(), mode.json(), &["Persistent", "Ephemeral"]);
        }
    }
    let period = spec.child("nodeAllocatableUpdatePeriodSeconds");
    period.check_int(10.., "must be greater than or equal to 10 seconds", errors);
    let in_secrets = spec.child("serviceAccountTokenInSecrets");
    if in_secrets.is_set() && requests.is_empty() {
        in_secrets.invalid("serviceAccountTokenInSecrets is set but no tokenRequests are specified", errors);
    }
}

fn validate_update(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (spec, old_spec) = (new.child("spec"), old.child("spec"));
    // The field is "attachRequired", but the real server reports this path.
    let path = spec.path().child("attachedRequired");
    errors.immutable(&path, spec.child("attachRequired").value(), old_spec.child("attachRequired").value());
}

/// Warns if tokens are passed to the driver in volume attributes.
fn warnings(new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    let requests = new.items(&["spec", "tokenRequests"]);
    let is_changed = old.is_none_or(|old| old.items(&["spec", "tokenRequests"]) != requests);
    let is_unset = new.at(&["spec", "serviceAccountTokenInSecrets"]).is_none();
    if is_changed && is_unset && !requests.is_empty() {
        let text = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent \
                    possible logging of tokens in volume attributes";
        warnings.push(text.to_owned());
    }
}

fn validate_token_requests(requests: &Field<'_>, errors: &mut Errors) {
    let mut audiences = DuplicateCheck::default();
    for request in requests.items() {
        let audience = request.json().text(&["audience"]);
        if audiences.repeats(audience) {
            errors.duplicate(request.child("audience").path(), audience);
            continue;
        }
        let expiration = request.child("expirationSeconds");
        expiration.check_int(600.., "may not specify a duration less than 10 minutes", errors);
        expiration.check_int(..=1 << 32, "may not specify a duration larger than 2^32 seconds", errors);
    }
}
