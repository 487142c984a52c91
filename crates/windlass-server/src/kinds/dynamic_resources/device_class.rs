//! DeviceClasses.

use crate::kinds::{
    dynamic_resources::{validate_configs, validate_selectors},
    prelude::*,
};

pub(super) const KIND: Kind = Kind {
    name: "DeviceClass",
    rules: Rules { name: NameRule::Declared, generation: Generation::Spec, returns_deleted: true, ..Rules::COMMON },
    validate,
    ..BASE
};

fn validate(class: &Field<'_>, errors: &mut Errors) {
    let spec = class.child("spec");
    validate_selectors(&spec.child("selectors"), errors);
    validate_configs(&spec.child("config"), &[], errors);
    let resource = spec.child("extendedResourceName");
    let Some(name) = resource.value().and_then(Value::as_str) else { return };
    let is_extended = name.split_once('/').is_some_and(|(domain, _)| !domain.contains("kubernetes.io"));
    if !is_extended || name.starts_with("requests.") || !qualified_name(name).is_empty() {
        resource.invalid("must be a valid extended resource name", errors);
    }
}
