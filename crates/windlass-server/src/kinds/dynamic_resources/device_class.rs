//! DeviceClasses.

use crate::kinds::{
    dynamic_resources::{GROUP_BASE, validate_configs, validate_selectors},
    prelude::*,
};

pub(super) const KIND: Kind =
    Kind { name: "DeviceClass", prefix: "/registry/deviceclasses/", strategy: |_| Arc::new(DeviceClass), ..GROUP_BASE };

#[derive(Debug)]
struct DeviceClass;

impl Strategy for DeviceClass {
    fn rules(&self) -> &Rules {
        &Rules { name: NameRule::Declared, generation: Generation::Spec, returns_deleted: true, ..Rules::COMMON }
    }

    fn validate(&self, class: &Value, errors: &mut Errors) {
        let class = Field::object(class);
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
}
