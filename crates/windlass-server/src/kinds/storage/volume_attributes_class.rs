//! `VolumeAttributesClass`.

use std::sync::Arc;

use serde_json::Value;

use super::{
    STORAGE,
    storage_class::{validate_parameters, validate_provisioner},
};
use crate::{
    kinds::Kind,
    object::{Errors, Field},
    resource::{Rules, Strategy},
};

pub(super) const KIND: Kind = Kind {
    name: "VolumeAttributesClass",
    prefix: "/registry/volumeattributesclasses/",
    strategy: |_| Arc::new(VolumeAttributesClass),
    ..STORAGE
};

#[derive(Debug)]
struct VolumeAttributesClass;

impl Strategy for VolumeAttributesClass {
    fn rules(&self) -> &Rules {
        &Rules { returns_deleted: true, changes_first: true, ..Rules::COMMON }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let class = Field::object(object);
        let parameters = class.child("parameters");
        validate_provisioner(&class.child("driverName"), errors);
        validate_parameters(&parameters, errors);
        if parameters.is_empty() {
            parameters.required("must contain at least one key/value pair", errors);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        let (new, old) = (Field::object(new), Field::object(old));
        for name in ["driverName", "parameters"] {
            let field = new.child(name);
            if !field.same(&old.child(name)) {
                field.forbidden(&format!("updates to {name} are forbidden."), errors);
            }
        }
    }
}
