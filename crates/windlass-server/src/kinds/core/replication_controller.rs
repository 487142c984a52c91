//! Replication controllers.

use windlass_api::{LabelSelector, Operator, Requirement};

use crate::kinds::{
    pod_spec::warnings,
    prelude::*,
    workload::{SCALE, Selection, WORKLOAD, default_pod_template, validate_replica_set_status, validate_template},
};

pub(super) const KIND: Kind = Kind {
    name: "ReplicationController",
    prefix: "/registry/controllers/",
    subresources: &["status", "scale"],
    strategy: |_| Arc::new(ReplicationController),
    ..BASE
};

#[derive(Debug)]
struct ReplicationController;

impl Strategy for ReplicationController {
    fn rules(&self) -> &Rules {
        &Rules {
            name: NameRule::Declared,
            dependents: Dependents::Orphan,
            fields: &[FieldRule { label: "status.replicas", path: "status.replicas" }],
            ..WORKLOAD
        }
    }

    fn scale(&self) -> Option<&ScaleRule> {
        Some(&SCALE)
    }

    fn default(&self, object: &mut Value) {
        let labels = object.at(&["spec", "template", "metadata", "labels"]).cloned();
        let spec = object_mut(object, "spec");
        default_pointer(spec, "replicas", 1);
        if let Some(labels) = labels {
            if spec.entries(&["selector"]).next().is_none() {
                spec.insert("selector".to_owned(), labels.clone());
            }
            let metadata = metadata_mut(object);
            if metadata.entries(&["labels"]).next().is_none() {
                metadata.insert("labels".to_owned(), labels);
            }
        }
        default_pod_template(object);
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let object = Field::object(object);
        let spec = object.child("spec");
        if !spec.is_set() {
            return;
        }
        let rules =
            [("minReadySeconds", Rule::NotNegative), ("selector", Rule::Required), ("replicas", Rule::NotNegative)];
        spec.check(&rules, errors);
        let template = spec.child("template");
        if !template.is_set() {
            return template.required("", errors);
        }
        let selector = spec.child("selector");
        let requirements =
            selector.entries().map(|(key, value)| Requirement::new(key, Operator::Equals, [value.text()]));
        let selection = Selection::Valid(LabelSelector::new(requirements.collect()));
        validate_template(&template, &selection, "ReplicationController", errors);
    }

    fn validate_status(&self, new: &Value, _old: &Value, errors: &mut Errors) {
        validate_replica_set_status(new, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        warnings::of_named_workload(new, old)
    }
}
