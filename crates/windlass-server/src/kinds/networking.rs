//! The group `networking.k8s.io`.

use crate::kinds::prelude::*;

mod ingress;
mod ingress_class;
mod ingress_v1beta1;
mod ip_address;
mod network_policy;
mod service_cidr;

pub(super) const KINDS: &[Kind] = &[
    ingress::KIND,
    ingress_v1beta1::KIND,
    ingress_class::KIND,
    ip_address::KIND,
    network_policy::KIND,
    service_cidr::KIND,
];

/// Validates a reference to an object of any group.
fn validate_reference(reference: &Field<'_>, errors: &mut Errors) {
    reference.child("apiGroup").check_set_text(dns_subdomain, errors);
    for name in ["kind", "name"] {
        reference.child(name).required_text(path_segment, errors);
    }
}
