//! What pods and pod templates must be like.

use std::collections::HashSet;

use serde_json::Value;

use super::{pod_parts, quantity::amount};
use crate::registry::{Errors, Path, Tree, config_key, dns_label, dns_subdomain, port_name, qualified_name};

pub(super) fn validate_pod(pod: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    let Some(spec) = pod.at(&["spec"]) else { return errors.required(&path.child("containers"), "") };
    validate_spec(spec, &path, errors);
    validate_token_owner(spec, &path, errors);
    for list in ["containers", "initContainers"] {
        let list_path = path.child(list);
        for (index, container) in spec.items(&[list]).iter().enumerate() {
            let image = container.text(&["image"]);
            if image.trim() != image {
                let place = list_path.index(index);
                errors.invalid(&place.child("image"), image, "must not have leading or trailing whitespace");
            }
        }
    }
}

/// Tokens are those of a service account. (A template's may be given by admission, once there is a pod.)
fn validate_token_owner(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !spec.text(&["serviceAccountName"]).is_empty() {
        return;
    }
    for (index, volume) in spec.items(&["volumes"]).iter().enumerate() {
        for (source_index, source) in volume.items(&["projected", "sources"]).iter().enumerate() {
            if source.at(&["serviceAccountToken"]).is_some() {
                let list = path.child("volumes");
                let place = list.index(index);
                let sources = place.child("projected.sources");
                let place = sources.index(source_index);
                errors.forbidden(
                    &place.child("serviceAccountToken"),
                    "must not be specified when serviceAccountName is not set",
                );
            }
        }
    }
}

/// A pod spec, of a pod or of a template.
pub(super) fn validate_spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let volumes = validate_volumes(spec, path, errors);
    if spec.items(&["containers"]).is_empty() {
        errors.required(&path.child("containers"), "");
    }
    let mut names = HashSet::new();
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        let list_path = path.child(list);
        for (index, container) in spec.items(&[list]).iter().enumerate() {
            let place = list_path.index(index);
            let name = container.text(&["name"]);
            if name.is_empty() {
                errors.required(&place.child("name"), "");
            } else {
                errors.invalid_each(&place.child("name"), name, dns_label(name));
                if !names.insert(name) {
                    errors.duplicate(&place.child("name"), name);
                }
            }
            validate_container(container, &volumes, &place, errors);
            if list == "ephemeralContainers" {
                pod_parts::validate_ephemeral(container, spec, &place, errors);
            }
        }
    }
    one_of(spec, "restartPolicy", &["Always", "OnFailure", "Never"], path, errors);
    one_of(spec, "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], path, errors);
    crate::registry::validate_labels(spec.at(&["nodeSelector"]), &path.child("nodeSelector"), errors);
    for field in ["serviceAccountName", "nodeName"] {
        let text = spec.text(&[field]);
        if !text.is_empty() {
            errors.invalid_each(&path.child(field), text, dns_subdomain(text));
        }
    }
    let deadline = spec.int(&["activeDeadlineSeconds"]);
    if let Some(deadline) = deadline.filter(|deadline| !(1..=i64::from(i32::MAX)).contains(deadline)) {
        errors.invalid(&path.child("activeDeadlineSeconds"), &deadline, "must be between 1 and 2147483647, inclusive");
    }
    for field in ["hostname", "subdomain"] {
        let text = spec.text(&[field]);
        if !text.is_empty() {
            errors.invalid_each(&path.child(field), text, dns_label(text));
        }
    }
    validate_tolerations(spec, path, errors);
}

fn validate_volumes<'v>(spec: &'v Value, path: &Path<'_>, errors: &mut Errors) -> HashSet<&'v str> {
    let list = path.child("volumes");
    let mut names = HashSet::new();
    for (index, volume) in spec.items(&["volumes"]).iter().enumerate() {
        let place = list.index(index);
        let name = volume.text(&["name"]);
        let mut found = Errors::default();
        if name.is_empty() {
            found.required(&place.child("name"), "");
        } else {
            found.invalid_each(&place.child("name"), name, dns_label(name));
            if names.contains(name) {
                found.duplicate(&place.child("name"), name);
            }
        }
        // The first source counts, and `emptyDir` is looked at first.
        let mut sources: Vec<&str> = volume
            .entries(&[])
            .filter(|(key, source)| *key != "name" && !source.is_null())
            .map(|(key, _)| key.as_str())
            .collect();
        sources.sort_by_key(|source| *source != "emptyDir");
        for source in sources.iter().skip(1) {
            found.forbidden(&place.child(source), "may not specify more than 1 volume type");
        }
        for (source, field) in [("secret", "secretName"), ("configMap", "name"), ("persistentVolumeClaim", "claimName")]
        {
            if sources.first() == Some(&source) && volume.text(&[source, field]).is_empty() {
                found.required(&place.child(source).child(field), "");
            }
        }
        if sources.first() == Some(&"projected") {
            validate_tokens(volume, &place.child("projected"), &mut found);
        }
        // Only a sound volume can be mounted.
        if found.is_empty() {
            names.insert(name);
        }
        errors.append(found);
    }
    names
}

/// The tokens of service accounts among the sources of a projected volume.
fn validate_tokens(volume: &Value, path: &Path<'_>, errors: &mut Errors) {
    let sources = path.child("sources");
    for (index, source) in volume.items(&["projected", "sources"]).iter().enumerate() {
        let Some(token) = source.at(&["serviceAccountToken"]) else { continue };
        if token.text(&["path"]).is_empty() {
            errors.required(&path.child("path"), "");
        }
        let place = sources.index(index);
        let place = place.child("serviceAccountToken");
        if let Some(seconds) = token.int(&["expirationSeconds"]).filter(|seconds| *seconds < 600) {
            let text = "may not specify a duration less than 10 minutes";
            errors.invalid(&place.child("expirationSeconds"), &seconds, text);
        }
    }
}

fn validate_container(container: &Value, volumes: &HashSet<&str>, path: &Path<'_>, errors: &mut Errors) {
    let image = container.text(&["image"]);
    if image.is_empty() {
        errors.required(&path.child("image"), "");
    }
    one_of(container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], path, errors);
    validate_ports(container, path, errors);
    let env = path.child("env");
    for (index, variable) in container.items(&["env"]).iter().enumerate() {
        let place = env.index(index);
        let name = variable.text(&["name"]);
        if name.is_empty() {
            errors.required(&place.child("name"), "");
        } else if !name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
            let text =
                "a valid environment variable name must consist only of printable ASCII characters other than '='";
            errors.invalid(&place.child("name"), name, text);
        }
        validate_env_source(variable, &place, errors);
    }
    let mounts = path.child("volumeMounts");
    let mut paths = HashSet::new();
    for (index, mount) in container.items(&["volumeMounts"]).iter().enumerate() {
        let place = mounts.index(index);
        let name = mount.text(&["name"]);
        if name.is_empty() {
            errors.required(&place.child("name"), "");
        }
        if !volumes.contains(name) {
            errors.not_found(&place.child("name"), name);
        }
        let mount_path = mount.text(&["mountPath"]);
        if mount_path.is_empty() {
            errors.required(&place.child("mountPath"), "");
        } else if !paths.insert(mount_path) {
            errors.invalid(&place.child("mountPath"), mount_path, "must be unique");
        }
    }
    one_of(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], path, errors);
    validate_resources(container, path, errors);
    let lifecycle = path.child("lifecycle");
    for moment in ["postStart", "preStop"] {
        if let Some(hook) = container.at(&["lifecycle", moment]) {
            validate_handler(hook, &["exec", "httpGet", "tcpSocket", "sleep"], &lifecycle.child(moment), errors);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        validate_probe(container, probe, path, errors);
    }
}

fn validate_ports(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let ports = path.child("ports");
    let (mut names, mut hosts) = (HashSet::new(), HashSet::new());
    for (index, port) in container.items(&["ports"]).iter().enumerate() {
        let place = ports.index(index);
        let name = port.text(&["name"]);
        if !name.is_empty() {
            errors.invalid_each(&place.child("name"), name, port_name(name));
            if !names.insert(name) {
                errors.duplicate(&place.child("name"), name);
            }
        }
        match port.int(&["containerPort"]).unwrap_or_default() {
            0 => errors.required(&place.child("containerPort"), ""),
            number => in_port_range(number, &place.child("containerPort"), errors),
        }
        if let Some(number) = port.int(&["hostPort"]).filter(|number| *number != 0) {
            in_port_range(number, &place.child("hostPort"), errors);
            let key = format!("{}/{}/{number}", port.text(&["protocol"]), port.text(&["hostIP"]));
            if !hosts.insert(key.clone()) {
                errors.duplicate(&place.child("hostPort"), &key);
            }
        }
        if port.text(&["protocol"]).is_empty() {
            errors.required(&place.child("protocol"), "");
        } else {
            one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &place, errors);
        }
    }
}

/// Ports are numbers from 1 to 65535.
pub(super) fn in_port_range(number: i64, path: &Path<'_>, errors: &mut Errors) {
    if !(1..=65535).contains(&number) {
        errors.invalid(path, &number, "must be between 1 and 65535, inclusive");
    }
}

fn validate_env_source(variable: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(source) = variable.at(&["valueFrom"]) else { return };
    let path = path.child("valueFrom");
    if !variable.text(&["value"]).is_empty() {
        errors.invalid(&path, "", "may not be specified when `value` is not empty");
    }
    match source.entries(&[]).filter(|(_, source)| !source.is_null()).count() {
        0 => errors.invalid(
            &path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ),
        1 => {}
        _ => errors.invalid(&path, "", "may not have more than one field specified at a time"),
    }
    for reference in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(selector) = source.at(&[reference]) {
            let place = path.child(reference);
            let name = selector.text(&["name"]);
            errors.invalid_each(&place.child("name"), name, dns_subdomain(name));
            match selector.text(&["key"]) {
                "" => errors.required(&place.child("key"), ""),
                key => errors.invalid_each(&place.child("key"), key, config_key(key)),
            }
        }
    }
}

fn validate_resources(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child("resources");
    for list in ["limits", "requests"] {
        let list_path = path.child(list);
        for (name, quantity) in container.entries(&["resources", list]) {
            let place = list_path.key(name);
            let shown = quantity.as_str().unwrap_or_default();
            let native = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage" | "storage")
                || name.starts_with("hugepages-");
            if !native {
                errors.invalid_each(&place, name, qualified_name(name));
                if !name.contains('/') {
                    errors.invalid(&place, name, "must be a standard resource type or fully qualified");
                    errors.invalid(&place, name, "must be a standard resource for containers");
                }
            }
            let value = amount(shown).unwrap_or_default();
            if value < 0.0 {
                errors.invalid(&place, shown, "must be greater than or equal to 0");
            }
            // What others bring along is counted, not shared.
            let shared = native && !name.starts_with("hugepages-");
            if !shared && value.fract() != 0.0 {
                errors.invalid(&place, shown, "must be an integer");
            }
            if list == "requests" {
                let limit = container.text(&["resources", "limits", name]);
                match amount(limit) {
                    Some(most) if !shared && (value - most).abs() > 0.0 => {
                        errors.invalid(&list_path, shown, &format!("must be equal to {name} limit of {limit}"));
                    }
                    Some(most) if value > most => {
                        let text = format!("must be less than or equal to {name} limit of {limit}");
                        errors.invalid(&list_path, shown, &text);
                    }
                    None if !shared => {
                        let text = "Limit must be set for non overcommitable resources";
                        errors.required(&path.child("limits"), text);
                    }
                    _ => {}
                }
            }
        }
    }
}

fn validate_probe(container: &Value, kind: &str, path: &Path<'_>, errors: &mut Errors) {
    let Some(probe) = container.at(&[kind]) else { return };
    let place = path.child(kind);
    validate_handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], &place, errors);
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        errors.not_negative(&place.child(field), probe.int(&[field]));
    }
    let threshold = probe.int(&["successThreshold"]).unwrap_or(1);
    if kind != "readinessProbe" && threshold != 1 {
        errors.invalid(&place.child("successThreshold"), &threshold, "must be 1");
    }
}

/// What a probe or a hook does: one of a few things. The first of them is looked at.
fn validate_handler(action: &Value, known: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let mut handlers = known.iter().filter(|handler| action.at(&[handler]).is_some());
    let Some(first) = handlers.next() else { return errors.required(path, "must specify a handler type") };
    let (place, handler) = (path.child(first), action.at(&[first]).unwrap_or(&Value::Null));
    match *first {
        "exec" if handler.items(&["command"]).is_empty() => errors.required(&place.child("command"), ""),
        "httpGet" => {
            if handler.text(&["path"]).is_empty() {
                errors.required(&place.child("path"), "");
            }
            validate_port(handler, &place, errors);
            one_of(handler, "scheme", &["HTTP", "HTTPS"], &place, errors);
        }
        "tcpSocket" | "grpc" => validate_port(handler, &place, errors),
        _ => {}
    }
    for handler in handlers {
        errors.forbidden(&path.child(handler), "may not specify more than 1 handler type");
    }
}

/// A port by its number or its name.
fn validate_port(handler: &Value, path: &Path<'_>, errors: &mut Errors) {
    let place = path.child("port");
    match handler.at(&["port"]) {
        Some(Value::String(name)) => errors.invalid_each(&place, name.as_str(), port_name(name)),
        number => in_port_range(number.and_then(Value::as_i64).unwrap_or_default(), &place, errors),
    }
}

pub(super) fn validate_tolerations(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("tolerations");
    for (index, toleration) in spec.items(&["tolerations"]).iter().enumerate() {
        let place = list.index(index);
        let (key, operator) = (toleration.text(&["key"]), toleration.text(&["operator"]));
        if !key.is_empty() {
            errors.invalid_each(&place.child("key"), key, qualified_name(key));
        } else if operator != "Exists" {
            let text = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(&place.child("operator"), operator, text);
        }
        let effect = toleration.text(&["effect"]);
        if toleration.int(&["tolerationSeconds"]).is_some() && effect != "NoExecute" {
            let text = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&place.child("effect"), effect, text);
        }
        if !matches!(operator, "" | "Equal" | "Exists") {
            errors.unsupported(&place.child("operator"), operator, &["Equal", "Exists"]);
        }
        if operator == "Exists" && !toleration.text(&["value"]).is_empty() {
            let text = "value must be empty when `operator` is 'Exists'";
            errors.invalid(&place.child("operator"), toleration.text(&["value"]), text);
        }
        one_of(toleration, "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"], &place, errors);
    }
}

/// A text that must be one of a few, if it is there.
pub(super) fn one_of(value: &Value, field: &str, known: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let text = value.text(&[field]);
    if !text.is_empty() && !known.contains(&text) {
        errors.unsupported(&path.child(field), text, known);
    }
}
