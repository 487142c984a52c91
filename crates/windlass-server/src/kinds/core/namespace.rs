//! `Namespace`.

use crate::kinds::prelude::*;

pub(super) const KIND: Kind = Kind {
    name: "Namespace",
    rules: Rules {
        name: NameRule::Label,
        returns_deleted: true,
        deletion: Deletion::Namespace,
        fields: &[FieldRule { label: "status.phase", path: "status.phase" }],
        selects_namespace: false,
        ..Rules::WITH_STATUS
    },
    default,
    prepare_create,
    prepare_update,
    validate,
    validate_status,
    ..BASE
};

/// The label with the name of the namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The finalizer of the controller that deletes the content of a namespace.
const FINALIZER: &str = "kubernetes";

fn default(object: &mut Value) {
    let name = object.text(&["metadata", "name"]).to_owned();
    if !name.is_empty() {
        let labels = metadata_mut(object).entry("labels").or_insert(Value::Null);
        as_object(labels).insert(NAME_LABEL.to_owned(), name.into());
    }
    if object.text(&["status", "phase"]).is_empty() {
        object_mut(object, "status").insert("phase".to_owned(), "Active".into());
    }
}

fn prepare_create(object: &mut Value, _write: &WriteContext<'_>) {
    // Repeated, because the name may have been generated in the meantime.
    default(object);
    let spec = object_mut(object, "spec");
    if !spec.items(&["finalizers"]).iter().any(|finalizer| finalizer == FINALIZER) {
        match spec.entry("finalizers").or_insert(Value::Null) {
            Value::Array(finalizers) => finalizers.push(FINALIZER.into()),
            other => *other = json!([FINALIZER]),
        }
    }
    object_mut(object, "status").insert("phase".to_owned(), "Active".into());
}

fn prepare_update(new: &mut Value, old: &Value) {
    copy_key(object_mut(new, "spec"), old.at(&["spec"]).unwrap_or(&Value::Null), "finalizers");
}

fn validate(object: &Field<'_>, errors: &mut Errors) {
    let finalizers = object.child("spec.finalizers");
    for finalizer in finalizers.items() {
        let name = finalizer.text();
        errors.invalid_each(finalizers.path(), name, qualified_name(name));
        if name != FINALIZER && !name.contains('/') {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            finalizers.invalid_as(name, detail, errors);
        }
    }
}

fn validate_status(new: &Field<'_>, _old: &Field<'_>, errors: &mut Errors) {
    let phase = new.json().text(&["status", "phase"]);
    let detail = match new.json().at(&["metadata", "deletionTimestamp"]) {
        Some(_) if phase != "Terminating" => "may only be 'Terminating' if `deletionTimestamp` is not empty",
        None if phase != "Active" => "may only be 'Active' if `deletionTimestamp` is empty",
        _ => return,
    };
    errors.invalid(&Path::new("status.Phase"), phase, detail);
}
