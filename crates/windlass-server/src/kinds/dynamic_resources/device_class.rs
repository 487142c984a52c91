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
    if !errors.before(V1_37) {
        return errors.invalid_each(resource.path(), name, extended_name_problems(name));
    }
    let is_extended = name.split_once('/').is_some_and(|(domain, _)| !domain.contains("kubernetes.io"));
    if !is_extended || name.starts_with("requests.") || !qualified_name(name).is_empty() {
        resource.invalid("must be a valid extended resource name", errors);
    }
}

/// Returns the problems of the name of an extended resource, by the rules since 1.37.
fn extended_name_problems(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if !name.contains('/') {
        problems.push("a name must be a domain-prefixed path, such as 'example.com/my-prop'".to_owned());
    } else if name.contains("kubernetes.io/") {
        problems.push("must not have \"kubernetes.io/\" domain".to_owned());
    }
    if name.starts_with("requests.") {
        problems.push("must not have \"requests.\" prefix".to_owned());
    }
    // Quotas add the prefix to the name.
    problems.extend(qualified_name(&format!("requests.{name}")));
    problems
}
