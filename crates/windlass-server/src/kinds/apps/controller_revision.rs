//! `ControllerRevision`.

use crate::kinds::prelude::*;

pub(super) const KIND: Kind = Kind {
    group: "apps",
    name: "ControllerRevision",
    prefix: "/registry/controllerrevisions/",
    strategy: |_| Arc::new(ControllerRevision),
    ..BASE
};

#[derive(Debug)]
struct ControllerRevision;

impl Strategy for ControllerRevision {
    fn rules(&self) -> &Rules {
        &Rules::COMMON
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        Field::object(object).child("revision").not_negative(errors);
    }

    fn validate_create(&self, object: &Value, errors: &mut Errors) {
        let object = Field::object(object);
        let data = object.child("data");
        if !data.is_set() {
            data.required("data is mandatory", errors);
        } else if !data.json().is_object() {
            data.required("data must be a valid JSON object", errors);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        let (new, old) = (Field::object(new), Field::object(old));
        let data = new.child("data");
        // Compares the raw values: an empty value differs from a missing one.
        if data.value() != old.child("data").value() {
            data.invalid("field is immutable", errors);
        }
    }
}
