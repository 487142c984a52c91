//! The group `apiregistration.k8s.io`: the API services that serve each group and version.
//!
//! API services of this server are local and always available. They are kept in sync with the served groups (see
//! [`crate::api_services`]). The requests for an API service that refers to a Kubernetes service are forwarded (see
//! [`crate::aggregation`]).

use crate::kinds::prelude::*;

pub(super) const KINDS: &[Kind] = &[Kind {
    name: "APIService",
    prefix: Some("/registry/apiregistration.k8s.io/apiservices/"),
    rules: Rules {
        name: NameRule::PathSegment,
        metadata: MetadataRule::GENERIC,
        resets: Resets::BARE_STATUS,
        unconditional_update: false,
        ..Rules::WITH_STATUS
    },
    default: |object| change_each(object, "spec.service", |service| default_pointer(service, "port", 443)),
    prepare_create,
    validate,
    validate_status,
    ..BASE
}];

/// Marks a local API service as available.
fn prepare_create(object: &mut Value, write: &WriteContext<'_>) {
    if object.at(&["spec", "service"]).is_none() {
        let available = json!({"type": "Available", "status": "True", "lastTransitionTime": write.now(),
            "reason": "Local", "message": "Local APIServices are always available"});
        object_mut(object, "status").insert("conditions".to_owned(), json!([available]));
    }
}

fn validate(object: &Field<'_>, errors: &mut Errors) {
    let spec = object.child("spec");
    let (group, version) = (spec.child("group"), spec.child("version"));
    let (name, expected) = (object.child("metadata.name"), format!("{}.{}", version.text(), group.text()));
    if name.text() != expected && !name.is_empty() && path_segment(name.text()).is_empty() {
        name.invalid(&format!("must be `spec.version+\".\"+spec.group`: {expected:?}"), errors);
    }
    if group.is_empty() && version.text() != "v1" {
        group.required("only v1 may have an empty group and it better be legacy kube", errors);
    }
    group.optional_text(dns_subdomain, errors);
    version.check_text(dns_label_1035, errors);
    for (name, max) in [("groupPriorityMinimum", 20000), ("versionPriority", 1000)] {
        spec.child(name).check_count(1..=max, format_args!("must be positive and less than {max}"), errors);
    }
    validate_service(&spec, errors);
}

fn validate_status(new: &Field<'_>, _old: &Field<'_>, errors: &mut Errors) {
    for condition in new.child("status.conditions").items() {
        condition.child("status").supported(&["True", "False", "Unknown"], errors);
    }
}

/// Validates the service of an API service, and the settings of the connection to it.
fn validate_service(spec: &Field<'_>, errors: &mut Errors) {
    let (service, bundle) = (spec.child("service"), spec.child("caBundle"));
    let insecure = spec.child("insecureSkipTLSVerify");
    if !service.is_set() {
        if !bundle.is_empty() {
            let bytes = bundle.text().trim_end_matches('=').len() * 3 / 4;
            bundle.invalid_as(&format!("{bytes} bytes"), "local APIServices may not have a caBundle", errors);
        }
        if insecure.flag() {
            insecure.invalid("local APIServices may not have insecureSkipTLSVerify", errors);
        }
        return;
    }
    for name in ["namespace", "name"] {
        service.child(name).check_not_empty("", errors);
    }
    let port = service.child("port");
    port.check_int(1..=65535, "port is not valid: must be between 1 and 65535, inclusive", errors);
    if insecure.flag() && !bundle.is_empty() {
        insecure.invalid("may not be true if caBundle is present", errors);
    }
}
