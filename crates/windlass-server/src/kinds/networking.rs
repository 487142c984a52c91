//! The group `networking.k8s.io`.

use super::Kind;
use crate::object::{Errors, Field, dns_subdomain, path_segment};

mod ingress;
mod ingress_class;
mod ip_address;
mod network_policy;
mod service_cidr;

const GROUP: &str = "networking.k8s.io";

pub(super) const KINDS: &[Kind] =
    &[ingress::KIND, ingress_class::KIND, ip_address::KIND, network_policy::KIND, service_cidr::KIND];

/// Validates a reference to an object of any group.
fn validate_reference(reference: &Field<'_>, errors: &mut Errors) {
    let group = reference.child("apiGroup");
    if group.is_set() {
        group.invalid_each(dns_subdomain(group.text()), errors);
    }
    for name in ["kind", "name"] {
        validate_path_segment(&reference.child(name), errors);
    }
}

/// Validates a required text that becomes a segment of a URL path.
fn validate_path_segment(field: &Field<'_>, errors: &mut Errors) {
    if field.is_empty() {
        field.required("", errors);
    } else {
        field.invalid_each(path_segment(field.text()), errors);
    }
}
