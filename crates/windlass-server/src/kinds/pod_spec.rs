//! The pod spec, which pods and pod templates share: defaults, validation and warnings.
//!
//! The checks run in the order of the real server, which determines the order of the errors.

use std::collections::HashSet;

use self::{resources::Asker, volumes::Volumes};
use crate::kinds::prelude::*;

pub(super) use self::placement::validate_tolerations;

pub(super) mod defaults;
mod environment;
mod image;
mod network;
mod placement;
mod resources;
mod security;
pub(super) mod volume_sources;
mod volumes;
pub(super) mod warnings;
mod windows;

/// The fields that ephemeral containers may have.
const EPHEMERAL_CONTAINER_FIELDS: [&str; 17] = [
    "name",
    "image",
    "command",
    "args",
    "workingDir",
    "envFrom",
    "env",
    "volumeMounts",
    "volumeDevices",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "securityContext",
    "stdin",
    "stdinOnce",
    "tty",
    "targetContainerName",
];

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

/// Validates the spec of a pod or of a template.
pub(super) fn validate_pod_spec(spec: &Field<'_>, errors: &mut Errors) {
    let volumes = volumes::validate_volumes(spec, errors);
    let claims = resources::validate_claims(spec, errors);
    validate_containers(spec, &volumes, &claims, errors);
    resources::validate_pod_resources(spec, &claims, errors);
    network::validate_host_ports(spec, errors);
    let policies = [
        ("restartPolicy", Rule::OneOf(&["Always", "OnFailure", "Never"])),
        ("dnsPolicy", Rule::OneOf(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"])),
    ];
    spec.check(&policies, errors);
    let node_selector = spec.child("nodeSelector");
    validate_labels(node_selector.value(), node_selector.path(), errors);
    security::validate_pod_security(spec, errors);
    placement::validate_affinity(spec, errors);
    network::validate_dns(spec, errors);
    placement::validate_gates(spec, errors);
    placement::validate_spreading(spec, errors);
    windows::validate_host_processes(spec, errors);
    security::validate_host_users(spec, errors);
    network::validate_hostname_override(spec, errors);
    spec.child("serviceAccountName").optional_text(dns_subdomain, errors);
    spec.child("nodeName").optional_text(dns_subdomain, errors);
    spec.child("activeDeadlineSeconds").in_range(1, i64::from(i32::MAX), errors);
    spec.child("hostname").optional_text(dns_label, errors);
    spec.child("subdomain").optional_text(dns_label, errors);
    placement::validate_tolerations(spec, errors);
    network::validate_host_aliases(spec, errors);
    spec.child("priorityClassName").optional_text(dns_subdomain, errors);
    spec.child("runtimeClassName").check_set_text(dns_subdomain, errors);
    spec.child("preemptionPolicy").one_of(&["PreemptLowerPriority", "Never"], errors);
    resources::validate_overhead(spec, errors);
    security::validate_system(spec, errors);
    environment::validate_file_volumes(spec, errors);
}

// === containers ===

fn validate_containers(spec: &Field<'_>, volumes: &Volumes<'_>, claims: &[&str], errors: &mut Errors) {
    let targets = ["containers", "initContainers"].into_iter().flat_map(|list| spec.json().items(&[list]));
    let targets: HashSet<&str> = targets.map(|container| container.text(&["name"])).collect();
    spec.check(&[("containers", Rule::Required)], errors);
    let lists = ContainerKind::ALL.map(|kind| (kind, spec.child(kind.list())));
    let mut names = HashSet::new();
    for (kind, list) in &lists {
        for container in list.items() {
            validate_container(&container, spec, volumes, claims, errors);
            if *kind == ContainerKind::Init {
                resources::validate_init_restart(&container, errors);
            }
            let name = container.json().text(&["name"]);
            // Init containers without a name are not duplicates of each other.
            let is_nameless_init = *kind == ContainerKind::Init && name.is_empty();
            let is_new = if is_nameless_init { !names.contains(name) } else { names.insert(name) };
            if !is_new {
                errors.duplicate(container.child("name").path(), name);
            }
            match kind {
                ContainerKind::Regular => {
                    validate_lifecycle(&container, spec, errors);
                    resources::validate_restart(&container, errors);
                }
                ContainerKind::Init => {
                    // The real server validates each init container as a list of one, so the errors name index 0.
                    let first = Field::new(list.path().index(0), container.value());
                    validate_host_ports(std::iter::once(first), errors);
                    validate_init(&container, spec, errors);
                }
                ContainerKind::Ephemeral => validate_ephemeral(&container, &targets, errors),
            }
        }
        if *kind == ContainerKind::Regular {
            validate_host_ports(list.items(), errors);
        }
    }
}

/// Validates the fields that all containers have.
fn validate_container(
    container: &Field<'_>,
    spec: &Field<'_>,
    volumes: &Volumes<'_>,
    claims: &[&str],
    errors: &mut Errors,
) {
    container.child("name").required_text(dns_label, errors);
    let rules =
        [("image", Rule::Required), ("terminationMessagePolicy", Rule::OneOf(&["File", "FallbackToLogsOnError"]))];
    container.check(&rules, errors);
    validate_ports(&container.child("ports"), errors);
    environment::validate_environment(container, errors);
    volumes::validate_mounts(container, volumes, errors);
    volumes::validate_devices(container, volumes, errors);
    container.child("imagePullPolicy").one_of(&["Always", "IfNotPresent", "Never"], errors);
    resources::validate_resources(container, Asker::Container, claims, errors);
    resources::validate_resize_policy(container, spec.json(), errors);
    security::validate_container_security(container, spec.json(), errors);
}

/// Validates that an init container has no lifecycle hooks and probes, unless it is a sidecar.
fn validate_init(container: &Field<'_>, spec: &Field<'_>, errors: &mut Errors) {
    if container.child("restartPolicy").text() == "Always" {
        return validate_lifecycle(container, spec, errors);
    }
    for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        container.child(name).check_unset("may not be set for init containers without restartPolicy=Always", errors);
    }
    for policy in container.child("resizePolicy").items() {
        let restart = policy.child("restartPolicy");
        if restart.text() == "RestartContainer" {
            restart.invalid("must not be set to 'RestartContainer' for non-sidecar initContainers", errors);
        }
    }
}

/// Rejects fields that an ephemeral container must not have. `targets` are the names of the pod's other containers.
fn validate_ephemeral(container: &Field<'_>, targets: &HashSet<&str>, errors: &mut Errors) {
    const FORBIDDEN: &str = "cannot be set for an Ephemeral Container";
    let target = container.child("targetContainerName");
    if !target.is_empty() && !targets.contains(target.text()) {
        target.not_found(errors);
    }
    for (name, _) in container.entries().filter(|(name, _)| !EPHEMERAL_CONTAINER_FIELDS.contains(name)) {
        let field = container.child(name);
        if !same(field.value(), None) {
            field.forbidden(FORBIDDEN, errors);
        }
    }
    for mount in container.child("volumeMounts").items() {
        for name in ["subPath", "subPathExpr"] {
            mount.child(name).check_empty(FORBIDDEN, errors);
        }
    }
}

// === ports ===

fn validate_ports(ports: &Field<'_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for port in ports.items() {
        let name = port.child("name");
        if !name.is_empty() {
            let problems = port_name(name.text());
            if problems.is_empty() && !names.insert(port.json().text(&["name"])) {
                name.duplicate(errors);
            }
            name.invalid_each(problems, errors);
        }
        let (number, host_number) = (port.child("containerPort"), port.child("hostPort"));
        match number.int() {
            None | Some(0) => number.required("", errors),
            Some(_) => number.in_range(1, 65535, errors),
        }
        if host_number.int() != Some(0) {
            host_number.in_range(1, 65535, errors);
        }
        port.check(&[("protocol", Rule::RequiredOneOf(&["SCTP", "TCP", "UDP"]))], errors);
    }
}

/// Validates that containers do not use the same host port.
fn validate_host_ports<'f>(containers: impl Iterator<Item = Field<'f>>, errors: &mut Errors) {
    let mut used = HashSet::new();
    for container in containers {
        for port in container.child("ports").items() {
            let number = port.child("hostPort");
            let Some(host_port) = number.int().filter(|number| *number != 0) else { continue };
            let key = format!("{}/{}/{host_port}", port.child("protocol").text(), port.child("hostIP").text());
            if !used.insert(key.clone()) {
                errors.duplicate(number.path(), &key);
            }
        }
    }
}

// === hooks and probes ===

/// Validates the lifecycle hooks and probes of a container.
fn validate_lifecycle(container: &Field<'_>, spec: &Field<'_>, errors: &mut Errors) {
    for name in ["lifecycle.postStart", "lifecycle.preStop"] {
        let hook = container.child(name);
        if hook.is_set() {
            validate_handler(&hook, &["exec", "httpGet", "tcpSocket", "sleep"], errors);
            validate_sleep(&hook, spec.child("terminationGracePeriodSeconds").int(), errors);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let is_readiness = name == "readinessProbe";
        container.child(name).if_set(|probe, errors| validate_probe(probe, is_readiness, errors), errors);
    }
}

fn validate_probe(probe: &Field<'_>, is_readiness: bool, errors: &mut Errors) {
    validate_handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], errors);
    let numbers = ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
    probe.check_not_negative(&numbers, errors);
    let grace_period = probe.child("terminationGracePeriodSeconds");
    grace_period.check_int(1.., "must be greater than 0", errors);
    if is_readiness && grace_period.is_set() {
        grace_period.invalid("must not be set for readinessProbes", errors);
    }
    let threshold = probe.child("successThreshold");
    if !is_readiness {
        threshold.check_int(1..=1, "must be 1", errors);
    }
}

/// Validates the handler of a probe or a hook. There must be exactly one; if there are several, the first one is
/// validated.
fn validate_handler(action: &Field<'_>, known: &[&str], errors: &mut Errors) {
    let mut handlers = known.iter().filter(|name| action.child(name).is_set());
    let Some(first) = handlers.next() else { return action.required("must specify a handler type", errors) };
    let handler = action.child(first);
    match *first {
        "exec" => handler.check(&[("command", Rule::Required)], errors),
        "httpGet" => validate_http_get(&handler, errors),
        "tcpSocket" | "grpc" => validate_port(&handler.child("port"), errors),
        _ => {}
    }
    for name in handlers {
        action.child(name).forbidden("may not specify more than 1 handler type", errors);
    }
}

fn validate_http_get(request: &Field<'_>, errors: &mut Errors) {
    const HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', \
                          regex used for validation is '[-A-Za-z0-9]+')";
    request.check(&[("path", Rule::Required)], errors);
    validate_port(&request.child("port"), errors);
    request.check(&[("scheme", Rule::OneOf(&["HTTP", "HTTPS"]))], errors);
    let headers = request.child("httpHeaders");
    for header in headers.items() {
        let name = header.child("name").text();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            headers.invalid_as(name, HEADER, errors);
        }
    }
}

/// Validates a port number or name.
fn validate_port(port: &Field<'_>, errors: &mut Errors) {
    match port.value() {
        Some(Value::String(name)) => port.invalid_each(port_name(name), errors),
        Some(_) => port.in_range(1, 65535, errors),
        None => port.invalid_as(&0_i64, "must be between 1 and 65535, inclusive", errors),
    }
}

/// Validates that a sleep hook is not longer than the termination grace period.
fn validate_sleep(hook: &Field<'_>, grace_period: Option<i64>, errors: &mut Errors) {
    let sleep = hook.child("sleep");
    let is_only_handler = ["exec", "httpGet", "tcpSocket"].iter().all(|other| !hook.child(other).is_set());
    let Some(grace_period) = grace_period.filter(|_| sleep.is_set() && is_only_handler) else { return };
    let seconds = sleep.child("seconds").int().unwrap_or_default();
    if !(0..=grace_period).contains(&seconds) {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace_period})");
        sleep.invalid_as(&seconds, &detail, errors);
    }
}
