//! Pod templates.

use crate::kinds::{
    pod_spec::{defaults::default_template, warnings},
    prelude::*,
    workload::validate_pod_template,
};

pub(super) const KIND: Kind =
    Kind { name: "PodTemplate", prefix: "/registry/podtemplates/", strategy: |_| Arc::new(PodTemplate), ..BASE };

#[derive(Debug)]
struct PodTemplate;

impl Strategy for PodTemplate {
    fn rules(&self) -> &Rules {
        &Rules {
            metadata: MetadataRule::CHANGES,
            generation: Generation::Content,
            returns_deleted: true,
            pod_spec: Some("/template/spec"),
            ..Rules::COMMON
        }
    }

    fn default(&self, object: &mut Value) {
        default_template(object, "template");
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        validate_pod_template(&Field::object(object).child("template"), errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        warnings::of_pod_template(new, old)
    }
}
