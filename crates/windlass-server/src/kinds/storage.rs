//! The group `storage.k8s.io`: storage classes, and objects of volume drivers.

use super::{BASE, Kind};

mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod storage_class;
mod volume_attachment;
mod volume_attributes_class;

pub(super) const KINDS: &[Kind] = &[
    csi_driver::KIND,
    csi_node::KIND,
    csi_storage_capacity::KIND,
    storage_class::KIND,
    volume_attachment::KIND,
    volume_attributes_class::KIND,
];

const STORAGE: Kind = Kind { group: "storage.k8s.io", ..BASE };

/// The maximum total size of a class's parameters or an attachment's metadata, keys and values together, in bytes.
const MAX_PARAMETERS_SIZE: usize = 256 << 10;
