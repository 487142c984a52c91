//! Pod templates.

use crate::kinds::{
    pod_spec::{defaults::default_template, warnings},
    prelude::*,
    workload::validate_pod_template,
};

pub(super) const KIND: Kind = Kind {
    name: "PodTemplate",
    rules: Rules {
        metadata: MetadataRule::CHANGES,
        generation: Generation::Content,
        returns_deleted: true,
        pod_spec: Some("/template/spec"),
        ..Rules::COMMON
    },
    default: |object| default_template(object, "template"),
    validate: |object, errors| validate_pod_template(&object.child("template"), errors),
    warnings: warnings::of_pod_template,
    ..BASE
};
