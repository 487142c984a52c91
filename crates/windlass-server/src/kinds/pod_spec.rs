//! Validation of pods and pod templates.
//!
//! The checks run in the order of the real server, which determines the order of the errors.

use std::collections::HashSet;

use serde_json::Value;

pub(super) use crate::kinds::pod_spec::placement::validate_tolerations;
use crate::kinds::pod_spec::{resources::Asker, volumes::Volumes};
use crate::kinds::core::pod::parts;
use crate::object::{Errors, Path, Tree, dns_label, dns_subdomain, port_name};

mod environment;
mod network;
mod placement;
mod resources;
mod security;
mod volumes;
mod windows;

const HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex \
                      used for validation is '[-A-Za-z0-9]+')";
const NOT_FOR_INIT: &str = "may not be set for init containers without restartPolicy=Always";

/// Validates a new or updated pod.
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

/// Validates the additional rules for new pods.
pub(super) fn validate_new_pod(pod: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    if !pod.items(&["spec", "ephemeralContainers"]).is_empty() {
        errors.forbidden(&path.child("ephemeralContainers"), "cannot be set on create");
    }
    let gated = !pod.items(&["spec", "schedulingGates"]).is_empty();
    if gated && !pod.text(&["spec", "nodeName"]).is_empty() {
        errors.forbidden(&path.child("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
}

/// Validates that projected tokens have a service account. Templates are exempt, because admission sets the account of
/// pods.
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

/// Validates the spec of a pod or of a template.
pub(super) fn validate_spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let volumes = volumes::validate_volumes(spec, path, errors);
    let claims = resources::validate_claims(spec, path, errors);
    let containers = ["containers", "initContainers"].into_iter().flat_map(|list| spec.items(&[list]));
    let targets: HashSet<&str> = containers.map(|container| container.text(&["name"])).collect();
    if spec.items(&["containers"]).is_empty() {
        errors.required(&path.child("containers"), "");
    }
    let mut names = HashSet::new();
    for kind in ContainerKind::ALL {
        let list_path = path.child(kind.list());
        for (index, container) in spec.items(&[kind.list()]).iter().enumerate() {
            let place = list_path.index(index);
            validate_container(container, spec, &volumes, &claims, &place, errors);
            if kind == ContainerKind::Init {
                resources::validate_init_restart(container, &place, errors);
            }
            let name = container.text(&["name"]);
            // Init containers without a name are not duplicates of each other.
            let is_new =
                if kind == ContainerKind::Init && name.is_empty() { !names.contains(name) } else { names.insert(name) };
            if !is_new {
                errors.duplicate(&place.child("name"), name);
            }
            match kind {
                ContainerKind::Regular => {
                    validate_lifecycle(container, spec, &place, errors);
                    resources::validate_restart(container, &place, errors);
                }
                ContainerKind::Init => {
                    validate_host_ports(std::slice::from_ref(container), &list_path, errors);
                    validate_init(container, spec, &place, errors);
                }
                ContainerKind::Ephemeral => pod_parts::validate_ephemeral(container, &targets, &place, errors),
            }
        }
        if kind == ContainerKind::Regular {
            validate_host_ports(spec.items(&[kind.list()]), &list_path, errors);
        }
    }
    resources::validate_pod_resources(spec, &claims, path, errors);
    network::validate_host_ports(spec, path, errors);
    one_of(spec, "restartPolicy", &["Always", "OnFailure", "Never"], path, errors);
    network::validate_dns_policy(spec, path, errors);
    crate::object::validate_labels(spec.at(&["nodeSelector"]), &path.child("nodeSelector"), errors);
    security::validate_pod_security(spec, path, errors);
    placement::validate_affinity(spec, path, errors);
    network::validate_dns(spec, path, errors);
    placement::validate_gates(spec, path, errors);
    placement::validate_spreading(spec, path, errors);
    windows::validate_host_processes(spec, path, errors);
    security::validate_host_users(spec, path, errors);
    network::validate_own_name(spec, path, errors);
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
    placement::validate_tolerations(spec, path, errors);
    network::validate_host_aliases(spec, path, errors);
    let priority = spec.text(&["priorityClassName"]);
    if !priority.is_empty() {
        errors.invalid_each(&path.child("priorityClassName"), priority, dns_subdomain(priority));
    }
    if let Some(class) = spec.at(&["runtimeClassName"]).and_then(Value::as_str) {
        errors.invalid_each(&path.child("runtimeClassName"), class, dns_subdomain(class));
    }
    one_of(spec, "preemptionPolicy", &["PreemptLowerPriority", "Never"], path, errors);
    resources::validate_overhead(spec, path, errors);
    security::validate_system(spec, path, errors);
    environment::validate_file_volumes(spec, path, errors);
}

/// The lists of containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContainerKind {
    Regular,
    Init,
    Ephemeral,
}

impl ContainerKind {
    /// All kinds, in the order of validation.
    const ALL: [Self; 3] = [Self::Regular, Self::Init, Self::Ephemeral];
    /// All kinds, in their start order. Rules across all containers follow this order.
    const START_ORDER: [Self; 3] = [Self::Init, Self::Regular, Self::Ephemeral];

    fn list(self) -> &'static str {
        match self {
            Self::Regular => "containers",
            Self::Init => "initContainers",
            Self::Ephemeral => "ephemeralContainers",
        }
    }
}

/// Validates the fields that all containers have.
fn validate_container(
    container: &Value,
    spec: &Value,
    volumes: &Volumes<'_>,
    claims: &[&str],
    path: &Path<'_>,
    errors: &mut Errors,
) {
    match container.text(&["name"]) {
        "" => errors.required(&path.child("name"), ""),
        name => errors.invalid_each(&path.child("name"), name, dns_label(name)),
    }
    if container.text(&["image"]).is_empty() {
        errors.required(&path.child("image"), "");
    }
    one_of(container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], path, errors);
    validate_ports(container, path, errors);
    environment::validate_environment(container, path, errors);
    volumes::validate_mounts(container, volumes, path, errors);
    volumes::validate_devices(container, volumes, path, errors);
    one_of(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], path, errors);
    resources::validate_resources(container, Asker::Container, claims, path, errors);
    resources::validate_resize_policy(container, spec, path, errors);
    security::validate_container_security(container, spec, path, errors);
}

/// Validates the lifecycle hooks and probes of a container.
fn validate_lifecycle(container: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let lifecycle = path.child("lifecycle");
    for moment in ["postStart", "preStop"] {
        if let Some(hook) = container.at(&["lifecycle", moment]) {
            let place = lifecycle.child(moment);
            validate_handler(hook, &["exec", "httpGet", "tcpSocket", "sleep"], &place, errors);
            validate_sleep(hook, spec, &place, errors);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        validate_probe(container, probe, path, errors);
    }
}

/// Validates that an init container has no lifecycle hooks and probes, unless it is a sidecar.
fn validate_init(container: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if container.text(&["restartPolicy"]) == "Always" {
        return validate_lifecycle(container, spec, path, errors);
    }
    for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if container.at(&[field]).is_some() {
            errors.forbidden(&path.child(field), NOT_FOR_INIT);
        }
    }
    let policies = path.child("resizePolicy");
    for (index, policy) in container.items(&["resizePolicy"]).iter().enumerate() {
        let restart = policy.text(&["restartPolicy"]);
        if restart == "RestartContainer" {
            let text = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            errors.invalid(&policies.index(index).child("restartPolicy"), restart, text);
        }
    }
}

/// Validates that containers do not use the same host port.
fn validate_host_ports(containers: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let mut taken = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        let place = path.index(index);
        let ports = place.child("ports");
        for (index, port) in container.items(&["ports"]).iter().enumerate() {
            let Some(number) = port.int(&["hostPort"]).filter(|number| *number != 0) else { continue };
            let key = format!("{}/{}/{number}", port.text(&["protocol"]), port.text(&["hostIP"]));
            if !taken.insert(key.clone()) {
                errors.duplicate(&ports.index(index).child("hostPort"), &key);
            }
        }
    }
}

fn validate_ports(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let ports = path.child("ports");
    let mut names = HashSet::new();
    for (index, port) in container.items(&["ports"]).iter().enumerate() {
        let place = ports.index(index);
        let name = port.text(&["name"]);
        if !name.is_empty() {
            let problems = port_name(name);
            if problems.is_empty() && !names.insert(name) {
                errors.duplicate(&place.child("name"), name);
            }
            errors.invalid_each(&place.child("name"), name, problems);
        }
        match port.int(&["containerPort"]).unwrap_or_default() {
            0 => errors.required(&place.child("containerPort"), ""),
            number => in_port_range(number, &place.child("containerPort"), errors),
        }
        if let Some(number) = port.int(&["hostPort"]).filter(|number| *number != 0) {
            in_port_range(number, &place.child("hostPort"), errors);
        }
        if port.text(&["protocol"]).is_empty() {
            errors.required(&place.child("protocol"), "");
        } else {
            one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &place, errors);
        }
    }
}

/// Validates that a port is between 1 and 65535.
pub(super) fn in_port_range(number: i64, path: &Path<'_>, errors: &mut Errors) {
    if !(1..=65535).contains(&number) {
        errors.invalid(path, &number, "must be between 1 and 65535, inclusive");
    }
}

fn validate_probe(container: &Value, kind: &str, path: &Path<'_>, errors: &mut Errors) {
    let Some(probe) = container.at(&[kind]) else { return };
    let place = path.child(kind);
    validate_handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], &place, errors);
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        errors.not_negative(&place.child(field), probe.int(&[field]));
    }
    let grace = probe.int(&["terminationGracePeriodSeconds"]);
    let grace_path = place.child("terminationGracePeriodSeconds");
    if let Some(seconds) = grace.filter(|seconds| *seconds <= 0) {
        errors.invalid(&grace_path, &seconds, "must be greater than 0");
    }
    if let Some(seconds) = grace.filter(|_| kind == "readinessProbe") {
        errors.invalid(&grace_path, &seconds, "must not be set for readinessProbes");
    }
    let threshold = probe.int(&["successThreshold"]).unwrap_or(1);
    if kind != "readinessProbe" && threshold != 1 {
        errors.invalid(&place.child("successThreshold"), &threshold, "must be 1");
    }
}

/// Validates the handler of a probe or a hook. There must be exactly one; if there are several, the first one is
/// validated.
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
            let list = place.child("httpHeaders");
            for header in handler.items(&["httpHeaders"]) {
                let name = header.text(&["name"]);
                if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                    errors.invalid(&list, name, HEADER);
                }
            }
        }
        "tcpSocket" | "grpc" => validate_port(handler, &place, errors),
        _ => {}
    }
    for handler in handlers {
        errors.forbidden(&path.child(handler), "may not specify more than 1 handler type");
    }
}

/// Validates that a sleep hook is not longer than the termination grace period.
fn validate_sleep(hook: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let only = ["exec", "httpGet", "tcpSocket"].iter().all(|other| hook.at(&[other]).is_none());
    let (Some(sleep), Some(grace)) = (hook.at(&["sleep"]), spec.int(&["terminationGracePeriodSeconds"])) else {
        return;
    };
    let seconds = sleep.int(&["seconds"]).unwrap_or_default();
    if only && !(0..=grace).contains(&seconds) {
        let text = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.invalid(&path.child("sleep"), &seconds, &text);
    }
}

/// Validates a port number or name.
fn validate_port(handler: &Value, path: &Path<'_>, errors: &mut Errors) {
    let place = path.child("port");
    match handler.at(&["port"]) {
        Some(Value::String(name)) => errors.invalid_each(&place, name.as_str(), port_name(name)),
        number => in_port_range(number.and_then(Value::as_i64).unwrap_or_default(), &place, errors),
    }
}

/// Validates that a field has one of the supported values, if it is set.
pub(super) fn one_of(value: &Value, field: &str, known: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let text = value.text(&[field]);
    if !text.is_empty() && !known.contains(&text) {
        errors.unsupported(&path.child(field), text, known);
    }
}
