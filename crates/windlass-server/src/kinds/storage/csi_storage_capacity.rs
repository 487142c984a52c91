//! `CSIStorageCapacity`.

use std::sync::Arc;

use serde_json::Value;

use super::STORAGE;
use crate::{
    kinds::{Kind, amount, selector::validate_selector},
    object::{Errors, Field, dns_subdomain},
    resource::{Rules, Strategy},
};

pub(super) const KIND: Kind = Kind {
    name: "CSIStorageCapacity",
    prefix: "/registry/csistoragecapacities/",
    strategy: |_| Arc::new(CsiStorageCapacity),
    ..STORAGE
};

#[derive(Debug)]
struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn rules(&self) -> &Rules {
        &Rules { unconditional_update: false, ..Rules::COMMON }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let object = Field::object(object);
        validate_selector(&object.child("nodeTopology"), errors);
        let class = object.child("storageClassName");
        class.invalid_each(dns_subdomain(class.text()), errors);
        let capacity = object.child("capacity");
        if amount(capacity.text()).is_some_and(|amount| amount < 0.0) {
            capacity.invalid("must be greater than or equal to 0", errors);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        Field::object(new).check_immutable(&Field::object(old), &["nodeTopology", "storageClassName"], errors);
    }
}
