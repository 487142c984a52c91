//! `ControllerRevision`.

use crate::kinds::prelude::*;

pub(super) const KIND: Kind = Kind {
    name: "ControllerRevision",
    validate: |object, errors| object.child("revision").not_negative(errors),
    validate_create,
    validate_update,
    ..BASE
};

fn validate_create(object: &Field<'_>, errors: &mut Errors) {
    let data = object.child("data");
    if !data.is_set() {
        data.required("data is mandatory", errors);
    } else if !data.json().is_object() {
        data.required("data must be a valid JSON object", errors);
    }
}

fn validate_update(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let data = new.child("data");
    // Compares the raw values: an empty value differs from a missing one.
    if data.value() != old.child("data").value() {
        data.invalid("field is immutable", errors);
    }
}
