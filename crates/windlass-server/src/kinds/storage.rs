//! The group `storage.k8s.io`: storage classes, and objects of volume drivers.

use self::storage_class::{validate_parameters, validate_provisioner};
use crate::kinds::{prelude::*, quantity::amount, selector::validate_selector};

mod csi_driver;
mod csi_node;
mod storage_class;
mod volume_attachment;

pub(super) const KINDS: &[Kind] = &[
    csi_driver::KIND,
    csi_node::KIND,
    STORAGE_CAPACITY,
    storage_class::KIND,
    volume_attachment::KIND,
    ATTRIBUTES_CLASS,
];

const STORAGE_CAPACITY: Kind = Kind {
    name: "CSIStorageCapacity",
    rules: Rules { unconditional_update: false, ..Rules::COMMON },
    validate: validate_storage_capacity,
    immutable: &["nodeTopology", "storageClassName"],
    ..BASE
};

const ATTRIBUTES_CLASS: Kind = Kind {
    name: "VolumeAttributesClass",
    rules: Rules { returns_deleted: true, changes_first: true, ..Rules::COMMON },
    validate: validate_attributes_class,
    validate_update: |new, old, errors| {
        for name in ["driverName", "parameters"] {
            let field = new.child(name);
            if !field.same(&old.child(name)) {
                field.forbidden(&format!("updates to {name} are forbidden."), errors);
            }
        }
    },
    ..BASE
};

/// The maximum total size of a class's parameters or an attachment's metadata, keys and values together, in bytes.
const MAX_PARAMETERS_SIZE: usize = 256 << 10;

fn validate_storage_capacity(object: &Field<'_>, errors: &mut Errors) {
    validate_selector(&object.child("nodeTopology"), errors);
    let class = object.child("storageClassName");
    class.invalid_each(dns_subdomain(class.text()), errors);
    let capacity = object.child("capacity");
    if amount(capacity.text()).is_some_and(|amount| amount < 0.0) {
        capacity.invalid("must be greater than or equal to 0", errors);
    }
}

fn validate_attributes_class(class: &Field<'_>, errors: &mut Errors) {
    let parameters = class.child("parameters");
    validate_provisioner(&class.child("driverName"), errors);
    validate_parameters(&parameters, errors);
    if parameters.is_empty() {
        parameters.required("must contain at least one key/value pair", errors);
    }
}
