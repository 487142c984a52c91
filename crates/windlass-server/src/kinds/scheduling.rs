//! The group `scheduling.k8s.io`: priority classes.

use crate::kinds::prelude::*;

/// The system priority classes: name, value and description.
pub(crate) const SYSTEM_CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

/// The maximum priority of user-defined classes.
const MAX_PRIORITY: i64 = 1_000_000_000;

pub(super) const KINDS: &[Kind] = &[Kind {
    name: "PriorityClass",
    rules: Rules { metadata: MetadataRule::CHANGES, ..Rules::COMMON },
    default: |object| default_pointer(as_object(object), "preemptionPolicy", "PreemptLowerPriority"),
    prepare_create,
    validate_create,
    validate_update,
    immutable: &["preemptionPolicy"],
    ..BASE
}];

fn prepare_create(object: &mut Value, _write: &WriteContext<'_>) {
    // Priority classes never get another generation.
    metadata_mut(object).insert("generation".to_owned(), 1.into());
}

fn validate_create(class: &Field<'_>, errors: &mut Errors) {
    let (name, value) = (class.child("metadata.name"), class.child("value"));
    if name.text().starts_with("system-") {
        if let Some(problem) = system_class_problem(class) {
            let text = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {problem}"
            );
            name.forbidden(&text, errors);
        }
    } else if value.int().is_some_and(|value| value > MAX_PRIORITY) {
        let text = format!("maximum allowed value of a user defined priority is {MAX_PRIORITY}");
        value.forbidden(&text, errors);
    }
    class.check(&[("preemptionPolicy", Rule::RequiredOneOf(&["PreemptLowerPriority", "Never"]))], errors);
}

fn validate_update(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let value = new.child("value");
    if value.value() != old.child("value").value() {
        value.forbidden("may not be changed in an update.", errors);
    }
}

/// Returns the difference of a class to the system class of its name.
fn system_class_problem(class: &Field<'_>) -> Option<String> {
    let name = class.json().text(&["metadata", "name"]);
    match SYSTEM_CLASSES.iter().find(|(system, ..)| *system == name) {
        None => Some(format!("{name} is not a known system priority class")),
        Some((_, priority, _)) if *priority != class.child("value").int().unwrap_or_default() => {
            Some(format!("value of {name} PriorityClass must be {priority}"))
        }
        Some(_) if class.child("globalDefault").flag() => {
            Some(format!("globalDefault of {name} PriorityClass must be false"))
        }
        Some(_) => None,
    }
}
