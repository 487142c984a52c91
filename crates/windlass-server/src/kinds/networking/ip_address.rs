//! The kind IPAddress: the IP addresses of services.

use crate::kinds::{networking::GROUP, prelude::*};

pub(super) const KIND: Kind = Kind {
    group: GROUP,
    name: "IPAddress",
    prefix: "/registry/ipaddresses/",
    strategy: |_| Arc::new(IpAddress),
    ..BASE
};

#[derive(Debug)]
struct IpAddress;

impl Strategy for IpAddress {
    fn rules(&self) -> &Rules {
        &Rules { name: NameRule::Address, ..Rules::COMMON }
    }

    fn validate(&self, address: &Value, errors: &mut Errors) {
        let address = Field::object(address);
        let parent = address.child("spec.parentRef");
        if !parent.is_set() {
            return parent.required("", errors);
        }
        let group = parent.child("group");
        group.optional_text(dns_subdomain, errors);
        for name in ["resource", "name"] {
            parent.child(name).required_text(path_segment, errors);
        }
        let namespace = parent.child("namespace");
        namespace.invalid_each(path_segment(namespace.text()), errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        let (new, old) = (Field::object(new), Field::object(old));
        let parent = new.child("spec.parentRef");
        if !parent.same(&old.child("spec.parentRef")) {
            // The value is shown with Go's field names.
            let value = json!({
                "Group": parent.child("group").text(),
                "Resource": parent.child("resource").text(),
                "Namespace": parent.child("namespace").text(),
                "Name": parent.child("name").text(),
            });
            parent.invalid_as(&value, "field is immutable", errors);
        }
    }
}
