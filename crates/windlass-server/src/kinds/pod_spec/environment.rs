//! The environment of a container: variables and their sources.

use crate::kinds::{amount, prelude::*};

/// The fields that a variable can refer to, sorted.
const VARIABLE_FIELDS: [&str; 9] = [
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
const VOLUME_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// The resource amounts that can be referred to, sorted.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const SIZE_DIVISORS: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// The context of a field selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldSelector {
    Variable,
    Volume,
}

/// Validates the variables of a container.
pub(super) fn validate_environment(container: &Field<'_>, errors: &mut Errors) {
    for variable in container.child("env").items() {
        variable.check(&[("name", Rule::Required)], errors);
        validate_name(&variable.child("name"), errors);
        validate_value(&variable, errors);
    }
    let sources = container.child("envFrom");
    for source in sources.items() {
        validate_name(&source.child("prefix"), errors);
        let mut references = 0;
        for name in ["configMapRef", "secretRef"] {
            let reference = source.child(name);
            if reference.is_set() {
                references += 1;
                reference.child("name").required_text(dns_subdomain, errors);
            }
        }
        // Like in the real server, these errors do not name the source.
        match references {
            0 => sources.invalid_as("", "must specify one of: `configMapRef` or `secretRef`", errors),
            1 => {}
            _ => sources.invalid_as("", "may not have more than one field specified at a time", errors),
        }
    }
}

/// Validates the name of a variable. An absent or empty name is valid.
fn validate_name(name: &Field<'_>, errors: &mut Errors) {
    const DETAIL: &str =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
    if !name.text().bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        name.invalid(DETAIL, errors);
    }
}

/// Validates the source of a variable's value.
fn validate_value(variable: &Field<'_>, errors: &mut Errors) {
    let source = variable.child("valueFrom");
    if !source.is_set() {
        return;
    }
    let field = source.child("fieldRef");
    field.if_set(|field, errors| validate_field_selector(field, FieldSelector::Variable, errors), errors);
    let resource = source.child("resourceFieldRef");
    resource.if_set(|resource, errors| validate_resource_selector(resource, FieldSelector::Variable, errors), errors);
    for name in ["configMapKeyRef", "secretKeyRef"] {
        let selector = source.child(name);
        if selector.is_set() {
            let name = selector.child("name");
            name.check_text(dns_subdomain, errors);
            selector.child("key").required_text(config_key, errors);
        }
    }
    source.child("fileKeyRef").if_set(validate_file_selector, errors);
    let sources = source.json().entries(&[]).filter(|(_, source)| !source.is_null()).count();
    if sources == 0 {
        let detail =
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        source.invalid_as("", detail, errors);
    } else if !variable.child("value").is_empty() {
        source.invalid_as("", "may not be specified when `value` is not empty", errors);
    } else if sources > 1 {
        source.invalid_as("", "may not have more than one field specified at a time", errors);
    }
}

/// Validates a reference to a variable in a file of a volume.
fn validate_file_selector(selector: &Field<'_>, errors: &mut Errors) {
    selector.check(&[("key", Rule::Required)], errors);
    validate_name(&selector.child("key"), errors);
    selector.child("volumeName").required_text(dns_label, errors);
    selector.check(&[("path", Rule::Required)], errors);
    let file = selector.child("path");
    if file.text().split('/').any(|part| part == "..") {
        file.invalid("must not contain '..'", errors);
    }
}

/// Validates that the volumes of such files exist and are of type `emptyDir`.
pub(super) fn validate_file_volumes(spec: &Field<'_>, errors: &mut Errors) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.child(list).items() {
            for variable in container.child("env").items() {
                let selector = variable.child("valueFrom.fileKeyRef");
                if selector.is_set() {
                    validate_file_volume(&selector.child("volumeName"), spec, errors);
                }
            }
        }
    }
}

fn validate_file_volume(volume_name: &Field<'_>, spec: &Field<'_>, errors: &mut Errors) {
    let name = volume_name.text();
    match spec.json().items(&["volumes"]).iter().rfind(|volume| volume.text(&["name"]) == name) {
        None => errors.not_found(volume_name.path(), name),
        Some(volume) if volume.at(&["emptyDir"]).is_none() => {
            volume_name.invalid_as(name, "referenced volume must be of type emptyDir", errors);
        }
        Some(_) => {}
    }
}

/// Validates a reference to a field of the pod.
pub(super) fn validate_field_selector(selector: &Field<'_>, context: FieldSelector, errors: &mut Errors) {
    let (version, field) = (selector.child("apiVersion"), selector.child("fieldPath"));
    if version.is_empty() || field.is_empty() {
        let missing = if version.is_empty() { version } else { field };
        return missing.required("", errors);
    }
    let (version, name) = (version.text(), field.text());
    let not_converted =
        |problem: String, errors: &mut Errors| field.invalid(&format!("error converting fieldPath: {problem}"), errors);
    if version != "v1" && !name.ends_with("']") {
        return not_converted(format!("unsupported pod version: {version}"), errors);
    }
    let (base, key) = match name.strip_suffix("']").and_then(|rest| rest.split_once("['")) {
        Some((base, key)) => (base, Some(key)),
        None => (name, None),
    };
    let is_known = VARIABLE_FIELDS.contains(&base) || VOLUME_FIELDS.contains(&base) || base == "spec.host";
    let allowed: &[&str] = match context {
        FieldSelector::Variable => &VARIABLE_FIELDS,
        FieldSelector::Volume => &VOLUME_FIELDS,
    };
    match (base, key) {
        ("metadata.annotations", Some(key)) => {
            errors.invalid_each(selector.path(), key, qualified_name(&key.to_lowercase()));
        }
        ("metadata.labels", Some(key)) => errors.invalid_each(selector.path(), key, qualified_name(key)),
        (_, Some(_)) => not_converted(format!("field label does not support subscript: {name}"), errors),
        (_, None) if !is_known => not_converted(format!("field label not supported: {name}"), errors),
        (_, None) => field.one_of(allowed, errors),
    }
}

/// Validates a reference to a container's request or limit.
pub(super) fn validate_resource_selector(selector: &Field<'_>, context: FieldSelector, errors: &mut Errors) {
    let (container, resource) = (selector.child("containerName"), selector.child("resource"));
    let name = resource.text();
    let is_huge_pages = ["limits.hugepages-", "requests.hugepages-"].iter().any(|prefix| name.starts_with(prefix));
    if context == FieldSelector::Volume && container.is_empty() {
        container.required("", errors);
    } else if name.is_empty() {
        resource.required("", errors);
    } else if !is_huge_pages {
        resource.one_of(&RESOURCES, errors);
    }
    let divisor = selector.child("divisor");
    if divisor.is_empty() || amount(divisor.text()) == Some(0.0) {
        return;
    }
    let (title, divisors): (&str, &[&str]) = match name {
        "limits.cpu" | "requests.cpu" => ("cpu", &["1m", "1"]),
        "limits.memory" | "requests.memory" => ("memory", &SIZE_DIVISORS),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => ("local ephemeral storage", &SIZE_DIVISORS),
        _ if is_huge_pages => ("hugepages", &SIZE_DIVISORS),
        _ => return,
    };
    if !divisors.contains(&divisor.text()) {
        let list = if title == "cpu" { "1m and 1".to_owned() } else { divisors.join(", ") };
        let detail = format!("only divisor's values {list} are supported with the {title} resource");
        divisor.invalid_as(name, &detail, errors);
    }
}
