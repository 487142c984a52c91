//! The group `storagemigration.k8s.io`: requests to rewrite the stored objects of a resource. Served since 1.37.

use crate::kinds::{prelude::*, selector::validate_conditions};

pub(super) const KINDS: &[Kind] = &[Kind {
    name: "StorageVersionMigration",
    rules: Rules { resets: Resets::BARE_STATUS, unconditional_update: false, ..Rules::WITH_STATUS },
    validate,
    validate_status,
    immutable: &["spec"],
    ..BASE
}];

fn validate(migration: &Field<'_>, errors: &mut Errors) {
    let resource = migration.child("spec.resource");
    let plural = resource.child("resource");
    if plural.is_empty() {
        plural.required("resource is required to be set", errors);
    } else {
        check_joined(&plural, dns_label_1035(plural.text()), errors);
    }
    let group = resource.child("group");
    if !group.is_empty() {
        check_joined(&group, dns_subdomain(group.text()), errors);
    }
}

/// Adds one error for all problems of a text.
fn check_joined(field: &Field<'_>, problems: Vec<String>, errors: &mut Errors) {
    if !problems.is_empty() {
        field.invalid(&problems.join(","), errors);
    }
}

fn validate_status(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (version, old_version) = (new.child("status.resourceVersion"), old.child("status.resourceVersion"));
    let text = version.text();
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    if !text.is_empty() && !is_number {
        version.invalid(&format!("resource version is not well formed: {text}"), errors);
    }
    let conditions = new.child("status.conditions");
    validate_conditions(&conditions, errors);
    if !old_version.is_empty() && old_version.text() != text {
        version.invalid_as(text, "field is immutable", errors);
    }
    let shown = conditions.value().cloned().unwrap_or_else(|| json!([]));
    if has(new, "Succeeded") && has(new, "Failed") {
        let detail = "Both success and failed conditions cannot be true at the same time";
        conditions.invalid_as(&shown, detail, errors);
    }
    for (kind, name) in [("Succeeded", "Success"), ("Failed", "Failed")] {
        if has(old, kind) && !has(new, kind) {
            let detail = format!("{name} condition cannot be set to false once it is true");
            conditions.invalid_as(&shown, &detail, errors);
        }
    }
}

/// Reports whether a migration has a true condition of a type.
fn has(migration: &Field<'_>, kind: &str) -> bool {
    let conditions = migration.json().items(&["status", "conditions"]);
    conditions.iter().any(|condition| condition.text(&["type"]) == kind && condition.text(&["status"]) == "True")
}
