//! The kind IPAddress: the IP addresses of services.

use crate::kinds::prelude::*;

pub(super) const KIND: Kind = Kind {
    name: "IPAddress",
    rules: Rules { name: NameRule::Address, restores: true, ..Rules::COMMON },
    validate,
    validate_update,
    ..BASE
};

fn validate(address: &Field<'_>, errors: &mut Errors) {
    let parent = address.child("spec.parentRef");
    if !parent.is_set() {
        return parent.required("", errors);
    }
    parent.child("group").optional_text(dns_subdomain, errors);
    for name in ["resource", "name"] {
        parent.child(name).required_text(path_segment, errors);
    }
    parent.child("namespace").check_text(path_segment, errors);
}

fn validate_update(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
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
