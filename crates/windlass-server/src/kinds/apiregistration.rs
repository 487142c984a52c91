//! The group `apiregistration.k8s.io`: the API services that serve each group and version.
//!
//! API services of this server are local and always available. They are kept in sync with the served groups (see
//! [`crate::api_services`]). An API service that refers to a Kubernetes service is stored, but requests are not
//! forwarded.

use serde_json::{Value, json};

use super::{BASE, Kind};
use crate::{
    object::{
        Errors, NameRule, Path, Tree, as_object, default_pointer, dns_label_1035, dns_subdomain, entry_mut, object_mut,
        path_segment,
    },
    resource::{MetadataRule, Resets, Rules},
};

const SPEC: Path<'static> = Path::new("spec");

pub(super) const KINDS: &[Kind] = &[Kind {
    group: "apiregistration.k8s.io",
    name: "APIService",
    prefix: "/registry/apiregistration.k8s.io/apiservices/",
    subresources: &["status"],
    rules: Rules {
        name: NameRule::PathSegment,
        metadata: MetadataRule::GENERIC,
        resets: Resets::BARE_STATUS,
        unconditional_update: false,
        ..Rules::WITH_STATUS
    },
    default: |object| {
        let service = entry_mut(object, "spec").and_then(|spec| entry_mut(spec, "service"));
        if let Some(service) = service {
            default_pointer(as_object(service), "port", 443);
        }
    },
    stamp: Some(stamp),
    validate,
    validate_status: |new, _, errors| {
        let path = Path::new("status.conditions");
        for (index, condition) in new.items(&["status", "conditions"]).iter().enumerate() {
            let status = condition.text(&["status"]);
            if !["True", "False", "Unknown"].contains(&status) {
                errors.unsupported(&path.index(index).child("status"), status, &["True", "False", "Unknown"]);
            }
        }
    },
    ..BASE
}];

/// Marks a new local API service as available.
fn stamp(new: &mut Value, old: Option<&Value>, now: &str) {
    if old.is_none() && new.at(&["spec", "service"]).is_none() {
        let available = json!({"type": "Available", "status": "True", "lastTransitionTime": now, "reason": "Local",
            "message": "Local APIServices are always available"});
        object_mut(new, "status").insert("conditions".to_owned(), json!([available]));
    }
}

fn validate(object: &Value, errors: &mut Errors) {
    let (group, version) = (object.text(&["spec", "group"]), object.text(&["spec", "version"]));
    let (name, required) = (object.text(&["metadata", "name"]), format!("{version}.{group}"));
    if name != required && !name.is_empty() && path_segment(name).is_empty() {
        let text = format!("must be `spec.version+\".\"+spec.group`: {required:?}");
        errors.invalid(&Path::new("metadata.name"), name, &text);
    }
    if group.is_empty() && version != "v1" {
        let text = "only v1 may have an empty group and it better be legacy kube";
        errors.required(&SPEC.child("group"), text);
    }
    if !group.is_empty() {
        errors.invalid_each(&SPEC.child("group"), group, dns_subdomain(group));
    }
    errors.invalid_each(&SPEC.child("version"), version, dns_label_1035(version));
    for (field, most) in [("groupPriorityMinimum", 20000), ("versionPriority", 1000)] {
        let priority = object.int(&["spec", field]).unwrap_or_default();
        if !(1..=most).contains(&priority) {
            let text = format!("must be positive and less than {most}");
            errors.invalid(&SPEC.child(field), &priority, &text);
        }
    }
    let bundle = object.text(&["spec", "caBundle"]);
    let insecure = object.flag(&["spec", "insecureSkipTLSVerify"]);
    let Some(service) = object.at(&["spec", "service"]) else {
        if !bundle.is_empty() {
            let bytes = bundle.trim_end_matches('=').len() * 3 / 4;
            let text = "local APIServices may not have a caBundle";
            errors.invalid(&SPEC.child("caBundle"), &format!("{bytes} bytes"), text);
        }
        if insecure {
            let text = "local APIServices may not have insecureSkipTLSVerify";
            errors.invalid(&SPEC.child("insecureSkipTLSVerify"), &json!(insecure), text);
        }
        return;
    };
    let path = SPEC.child("service");
    for field in ["namespace", "name"] {
        if service.text(&[field]).is_empty() {
            errors.required(&path.child(field), "");
        }
    }
    if let Some(port) = service.int(&["port"]).filter(|port| !(1..=65535).contains(port)) {
        errors.invalid(&path.child("port"), &port, "port is not valid: must be between 1 and 65535, inclusive");
    }
    if insecure && !bundle.is_empty() {
        let text = "may not be true if caBundle is present";
        errors.invalid(&SPEC.child("insecureSkipTLSVerify"), &json!(insecure), text);
    }
}
