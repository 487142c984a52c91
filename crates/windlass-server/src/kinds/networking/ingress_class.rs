//! The kind IngressClass.

use crate::kinds::{networking::validate_reference, prelude::*};

const MAX_CONTROLLER_LENGTH: usize = 250;

pub(super) const KIND: Kind = Kind {
    name: "IngressClass",
    rules: Rules { generation: Generation::Spec, changes_first: true, ..Rules::COMMON },
    default: |class| {
        change_each(class, "spec.parameters", |parameters| default_pointer(parameters, "scope", "Cluster"));
    },
    validate,
    immutable: &["spec.controller"],
    ..BASE
};

fn validate(class: &Field<'_>, errors: &mut Errors) {
    let controller = class.child("spec.controller");
    controller.check_bytes(MAX_CONTROLLER_LENGTH, errors);
    validate_domain_prefixed(controller.text(), controller.path(), errors);
    let parameters = class.child("spec.parameters");
    if !parameters.is_set() {
        return;
    }
    validate_reference(&parameters, errors);
    let (scope, namespace) = (parameters.child("scope"), parameters.child("namespace"));
    match (scope.text(), namespace.is_set()) {
        ("Namespace", false) => namespace.required("`parameters.scope` is set to 'Namespace'", errors),
        ("Namespace", true) => namespace.check_text(dns_label, errors),
        ("Cluster", true) => namespace.forbidden("`parameters.scope` is set to 'Cluster'", errors),
        ("Cluster", false) => {}
        _ => scope.unsupported(&["Cluster", "Namespace"], errors),
    }
}
