//! Replication controllers.

use windlass_api::{LabelSelector, Operator, Requirement};

use crate::kinds::{
    pod_spec::warnings,
    prelude::*,
    workload::{Selection, WORKLOAD, default_pod_template, validate_replica_set_status, validate_template},
};

pub(super) const KIND: Kind = Kind {
    name: "ReplicationController",
    prefix: Some("/registry/controllers/"),
    rules: Rules {
        name: NameRule::Declared,
        dependents: Dependents::Orphan,
        fields: &[FieldRule { label: "status.replicas", path: "status.replicas" }],
        ..WORKLOAD
    },
    default,
    validate,
    validate_status: validate_replica_set_status,
    warnings: warnings::of_named_workload,
    ..BASE
};

fn default(object: &mut Value) {
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

fn validate(object: &Field<'_>, errors: &mut Errors) {
    let spec = object.child("spec");
    if !spec.is_set() {
        return;
    }
    let rules = [("minReadySeconds", Rule::NotNegative), ("selector", Rule::Required), ("replicas", Rule::NotNegative)];
    spec.check(&rules, errors);
    let template = spec.child("template");
    if !template.is_set() {
        return template.required("", errors);
    }
    let selector = spec.child("selector");
    let requirements = selector.entries().map(|(key, value)| Requirement::new(key, Operator::Equals, [value.text()]));
    let selection = Selection::Valid(LabelSelector::new(requirements.collect()));
    validate_template(&template, &selection, "ReplicationController", errors);
}
