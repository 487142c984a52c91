//! The environment of a container: variables and their sources.

use serde_json::Value;

use crate::{
    kinds::amount,
    object::{Errors, Path, Tree, config_key, dns_label, dns_subdomain, qualified_name},
};

const NAME: &str = "a valid environment variable name must consist only of printable ASCII characters other than '='";

/// The context of a field selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldSelector {
    Variable,
    Volume,
}

/// The fields that a variable can refer to, sorted.
const OF_VARIABLES: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// The fields that a downward API file can refer to, sorted.
const OF_VOLUMES: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// The resource amounts that can be referred to, sorted.
const AMOUNTS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const SIZES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Validates the variables of a container.
pub(super) fn validate_environment(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("env");
    for (index, variable) in container.items(&["env"]).iter().enumerate() {
        let place = list.index(index);
        match variable.text(&["name"]) {
            "" => errors.required(&place.child("name"), ""),
            name => validate_name(name, &place.child("name"), errors),
        }
        validate_value(variable, &place.child("valueFrom"), errors);
    }
    let list = path.child("envFrom");
    for (index, source) in container.items(&["envFrom"]).iter().enumerate() {
        let place = list.index(index);
        validate_name(source.text(&["prefix"]), &place.child("prefix"), errors);
        let given = ["configMapRef", "secretRef"].into_iter().filter(|reference| source.at(&[reference]).is_some());
        let given = given.inspect(|reference| {
            let place = place.child(reference);
            match source.text(&[reference, "name"]) {
                "" => errors.required(&place.child("name"), ""),
                name => errors.invalid_each(&place.child("name"), name, dns_subdomain(name)),
            }
        });
        match given.count() {
            0 => errors.invalid(&list, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(&list, "", "may not have more than one field specified at a time"),
        }
    }
}

fn validate_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    if !name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        errors.invalid(path, name, NAME);
    }
}

fn validate_value(variable: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(source) = variable.at(&["valueFrom"]) else { return };
    if let Some(field) = source.at(&["fieldRef"]) {
        validate_field_selector(field, FieldSelector::Variable, &path.child("fieldRef"), errors);
    }
    if let Some(resource) = source.at(&["resourceFieldRef"]) {
        validate_resource_selector(resource, FieldSelector::Variable, &path.child("resourceFieldRef"), errors);
    }
    for reference in ["configMapKeyRef", "secretKeyRef"] {
        let Some(selector) = source.at(&[reference]) else { continue };
        let place = path.child(reference);
        let name = selector.text(&["name"]);
        errors.invalid_each(&place.child("name"), name, dns_subdomain(name));
        match selector.text(&["key"]) {
            "" => errors.required(&place.child("key"), ""),
            key => errors.invalid_each(&place.child("key"), key, config_key(key)),
        }
    }
    if let Some(selector) = source.at(&["fileKeyRef"]) {
        validate_file_selector(selector, &path.child("fileKeyRef"), errors);
    }
    let number = source.entries(&[]).filter(|(_, source)| !source.is_null()).count();
    if number == 0 {
        let text =
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.invalid(path, "", text);
    } else if !variable.text(&["value"]).is_empty() {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if number > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

/// Validates a reference to a variable in a file of a volume.
fn validate_file_selector(selector: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (key, volume, file) = (selector.text(&["key"]), selector.text(&["volumeName"]), selector.text(&["path"]));
    for (field, text) in [("key", key), ("volumeName", volume), ("path", file)] {
        let place = path.child(field);
        match field {
            _ if text.is_empty() => errors.required(&place, ""),
            "key" => validate_name(text, &place, errors),
            "volumeName" => errors.invalid_each(&place, text, dns_label(text)),
            _ if text.split('/').any(|part| part == "..") => errors.invalid(&place, text, "must not contain '..'"),
            _ => {}
        }
    }
}

/// Validates that the volumes of such files exist and are of type `emptyDir`.
pub(super) fn validate_file_volumes(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let list_path = path.child(list);
        for (index, container) in spec.items(&[list]).iter().enumerate() {
            let place = list_path.index(index);
            let variables = place.child("env");
            for (index, variable) in container.items(&["env"]).iter().enumerate() {
                let Some(selector) = variable.at(&["valueFrom", "fileKeyRef"]) else { continue };
                let (place, name) = (variables.index(index), selector.text(&["volumeName"]));
                let place = place.child("valueFrom.fileKeyRef.volumeName");
                match spec.items(&["volumes"]).iter().rfind(|volume| volume.text(&["name"]) == name) {
                    None => errors.not_found(&place, name),
                    Some(volume) if volume.at(&["emptyDir"]).is_none() => {
                        errors.invalid(&place, name, "referenced volume must be of type emptyDir");
                    }
                    Some(_) => {}
                }
            }
        }
    }
}

/// Validates a reference to a field of the pod.
pub(super) fn validate_field_selector(selector: &Value, asker: FieldSelector, path: &Path<'_>, errors: &mut Errors) {
    if selector.text(&["apiVersion"]).is_empty() {
        return errors.required(&path.child("apiVersion"), "");
    }
    let field = selector.text(&["fieldPath"]);
    if field.is_empty() {
        return errors.required(&path.child("fieldPath"), "");
    }
    let version = selector.text(&["apiVersion"]);
    if version != "v1" && !field.ends_with("']") {
        let text = format!("error converting fieldPath: unsupported pod version: {version}");
        return errors.invalid(&path.child("fieldPath"), field, &text);
    }
    let (base, key) = match field.strip_suffix("']").and_then(|rest| rest.split_once("['")) {
        Some((base, key)) => (base, Some(key)),
        None => (field, None),
    };
    let known = OF_VARIABLES.contains(&base) || OF_VOLUMES.contains(&base) || matches!(base, "spec.host");
    match (base, key) {
        ("metadata.annotations", Some(key)) => errors.invalid_each(path, key, qualified_name(&key.to_lowercase())),
        ("metadata.labels", Some(key)) => errors.invalid_each(path, key, qualified_name(key)),
        (_, Some(_)) => {
            let text = format!("error converting fieldPath: field label does not support subscript: {field}");
            errors.invalid(&path.child("fieldPath"), field, &text);
        }
        (_, None) if !known => {
            let text = format!("error converting fieldPath: field label not supported: {field}");
            errors.invalid(&path.child("fieldPath"), field, &text);
        }
        (_, None) => {
            let allowed: &[&str] = match asker {
                FieldSelector::Variable => &OF_VARIABLES,
                FieldSelector::Volume => &OF_VOLUMES,
            };
            if !allowed.contains(&base) {
                errors.unsupported(&path.child("fieldPath"), base, allowed);
            }
        }
    }
}

/// Validates a reference to a container's request or limit.
pub(super) fn validate_resource_selector(selector: &Value, asker: FieldSelector, path: &Path<'_>, errors: &mut Errors) {
    let resource = selector.text(&["resource"]);
    let pages = ["limits.hugepages-", "requests.hugepages-"].iter().any(|prefix| resource.starts_with(prefix));
    if asker == FieldSelector::Volume && selector.text(&["containerName"]).is_empty() {
        errors.required(&path.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(&path.child("resource"), "");
    } else if !AMOUNTS.contains(&resource) && !pages {
        errors.unsupported(&path.child("resource"), resource, &AMOUNTS);
    }
    let divisor = selector.text(&["divisor"]);
    if divisor.is_empty() || amount(divisor) == Some(0.0) {
        return;
    }
    let (name, sizes): (&str, &[&str]) = match resource {
        "limits.cpu" | "requests.cpu" => ("cpu", &["1m", "1"]),
        "limits.memory" | "requests.memory" => ("memory", &SIZES),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => ("local ephemeral storage", &SIZES),
        _ if pages => ("hugepages", &SIZES),
        _ => return,
    };
    if !sizes.contains(&divisor) {
        let sizes = if name == "cpu" { "1m and 1".to_owned() } else { sizes.join(", ") };
        let text = format!("only divisor's values {sizes} are supported with the {name} resource");
        errors.invalid(&path.child("divisor"), resource, &text);
    }
}
