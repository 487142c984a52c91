//! The group `networking.k8s.io`.

use crate::kinds::prelude::*;

mod ingress;
mod ingress_class;
mod ip_address;
mod network_policy;
mod service_cidr;

pub(super) const KINDS: &[Kind] =
    &[ingress::KIND, ingress_class::KIND, ip_address::KIND, network_policy::KIND, service_cidr::KIND];

/// Validates a reference to an object of any group.
fn validate_reference(reference: &Field<'_>, errors: &mut Errors) {
    let group = reference.child("apiGroup");
    if group.is_set() {
        group.invalid_each(dns_subdomain(group.text()), errors);
    }
    for name in ["kind", "name"] {
        reference.child(name).required_text(path_segment, errors);
    }
}
