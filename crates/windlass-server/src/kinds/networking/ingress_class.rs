//! The kind IngressClass.

use crate::kinds::{
    networking::{GROUP, validate_reference},
    prelude::*,
};

const MAX_CONTROLLER_LENGTH: usize = 250;

pub(super) const KIND: Kind = Kind {
    group: GROUP,
    name: "IngressClass",
    prefix: "/registry/ingressclasses/",
    strategy: |_| Arc::new(IngressClass),
    ..BASE
};

#[derive(Debug)]
struct IngressClass;

impl Strategy for IngressClass {
    fn rules(&self) -> &Rules {
        &Rules { generation: Generation::Spec, changes_first: true, ..Rules::COMMON }
    }

    fn default(&self, class: &mut Value) {
        if let Some(parameters) = entry_mut(class, "spec").and_then(|spec| entry_mut(spec, "parameters")) {
            default_pointer(as_object(parameters), "scope", "Cluster");
        }
    }

    fn validate(&self, class: &Value, errors: &mut Errors) {
        let class = Field::object(class);
        let controller = class.child("spec.controller");
        if controller.text().len() > MAX_CONTROLLER_LENGTH {
            controller.too_long(MAX_CONTROLLER_LENGTH, errors);
        }
        validate_domain_prefixed(controller.text(), controller.path(), errors);
        let parameters = class.child("spec.parameters");
        if !parameters.is_set() {
            return;
        }
        validate_reference(&parameters, errors);
        let (scope, namespace) = (parameters.child("scope"), parameters.child("namespace"));
        match (scope.text(), namespace.is_set()) {
            ("Namespace", false) => namespace.required("`parameters.scope` is set to 'Namespace'", errors),
            ("Namespace", true) => namespace.invalid_each(dns_label(namespace.text()), errors),
            ("Cluster", true) => namespace.forbidden("`parameters.scope` is set to 'Cluster'", errors),
            ("Cluster", false) => {}
            _ => scope.unsupported(&["Cluster", "Namespace"], errors),
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        Field::object(new).check_immutable(&Field::object(old), &["spec.controller"], errors);
    }
}
