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
    Kind {
        name: "CSIStorageCapacity",
        prefix: "/registry/csistoragecapacities/",
        strategy: |_| Arc::new(CsiStorageCapacity),
        ..STORAGE
    },
    storage_class::KIND,
    volume_attachment::KIND,
    Kind {
        name: "VolumeAttributesClass",
        prefix: "/registry/volumeattributesclasses/",
        strategy: |_| Arc::new(VolumeAttributesClass),
        ..STORAGE
    },
];

const STORAGE: Kind = Kind { group: "storage.k8s.io", ..BASE };

/// The maximum total size of a class's parameters or an attachment's metadata, keys and values together, in bytes.
const MAX_PARAMETERS_SIZE: usize = 256 << 10;

#[derive(Debug)]
struct CsiStorageCapacity;

#[derive(Debug)]
struct VolumeAttributesClass;

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
