//! Warnings about pods and pod templates. Pods get warnings at creation, pod templates also at updates. Warnings never
//! reject a request.

use std::collections::{HashMap, HashSet};

use crate::kinds::{prelude::*, quantity::amount};

/// Deprecated node labels: the label, the version of the deprecation, and the replacement.
const OLD_LABELS: [(&str, &str, &str); 5] = [
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
];

/// Annotations that no longer have an effect: the annotation, the version of the change, and the field that replaces
/// it.
const OLD_ANNOTATIONS: [(&str, &str, &str); 2] = [
    ("scheduler.alpha.kubernetes.io/critical-pod", "v1.16", "priorityClassName"),
    ("seccomp.security.alpha.kubernetes.io/pod", "v1.27", "seccompProfile"),
];

/// Deprecated volume sources: the field, its name in Go, and its state.
const OLD_VOLUMES: [(&str, &str, &str); 6] = [
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
];

/// The lists of containers, in the order of the warnings.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// Adds the warnings for a new pod. Updates get none, because they are usually sent by controllers.
pub(crate) fn of_pod(new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    if old.is_none() {
        warn_of_name(new, "the Pod's hostname", warnings);
        warn_of_template(&Field::object(new), warnings);
    }
}

/// Adds the warnings for a workload whose pods are named after it, including those about its name.
pub(crate) fn of_named_workload(new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    warn_of_new_name(new, old, warnings);
    of_workload(new, old, warnings);
}

/// Adds the warnings for an object with a pod template in `spec.template`.
pub(crate) fn of_workload(new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    warn_of_changed_template(new, old, "spec", "spec.template", warnings);
}

/// Adds the warnings for a stateful set, including those about its revision history.
pub(crate) fn of_stateful_set(new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    of_workload(new, old, warnings);
    if new.int(&["spec", "revisionHistoryLimit"]).is_some_and(|limit| limit < 0) {
        let text = "a negative value retains all historical revisions; a value >= 0 is recommended";
        warnings.push(format!("spec.revisionHistoryLimit: {text}"));
    }
}

/// Adds the warnings for a cron job.
pub(crate) fn of_cron_job(new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    warn_of_new_name(new, old, warnings);
    warn_of_changed_template(new, old, "spec", "spec.jobTemplate.spec.template", warnings);
}

/// Adds the warnings for a PodTemplate object.
pub(crate) fn of_pod_template(new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    warn_of_changed_template(new, old, "template", "template", warnings);
}

/// Warns if the name of a new workload is not a DNS label.
fn warn_of_new_name(new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    if old.is_none() {
        warn_of_name(new, "Pod names and hostnames", warnings);
    }
}

/// Warns if a name is not a DNS label, although it is used as one.
fn warn_of_name(object: &Value, used_in: &str, warnings: &mut Vec<String>) {
    let problems = dns_label(object.text(&["metadata", "name"]));
    if !problems.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            problems.join(" ")
        ));
    }
}

/// Warns about a template, if the part of the object that contains it has changed.
fn warn_of_changed_template(new: &Value, old: Option<&Value>, part: &str, template: &str, warnings: &mut Vec<String>) {
    if old.is_none_or(|old| new.at(&[part]) != old.at(&[part])) {
        warn_of_template(&Field::object(new).child(template), warnings);
    }
}

/// Warns about a pod or a pod template.
fn warn_of_template(template: &Field<'_>, warnings: &mut Vec<String>) {
    let spec = template.child("spec");
    warn_of_old_labels(&spec, warnings);
    let annotations = template.child("metadata.annotations");
    for (key, since, field) in OLD_ANNOTATIONS {
        let annotation = annotations.key(key);
        if annotation.is_set() {
            let text = format!("non-functional in {since}+; use the \"{field}\" field instead");
            warnings.push(format!("{}: {text}", annotation.path()));
        }
    }
    for volume in spec.child("volumes").items() {
        for (source, name, state) in OLD_VOLUMES {
            if volume.child(source).is_set() {
                warnings.push(format!("{}: {state}", volume.child(name).path()));
            }
        }
    }
    warn_of_duplicates(&spec.child("hostAliases"), "ip", warnings);
    let secrets = spec.child("imagePullSecrets");
    warn_of_duplicates(&secrets, "name", warnings);
    for secret in secrets.items() {
        let name = secret.child("name");
        if name.is_empty() {
            warnings.push(format!("{}: invalid empty name \"\"", name.path()));
        }
    }
    for list in CONTAINERS {
        for container in spec.child(list).items() {
            warn_of_fractional_bytes(&container.child("resources"), warnings);
            warn_of_hidden_variables(&container.child("env"), warnings);
        }
    }
    warn_of_ports(&spec, warnings);
    let grace_period = spec.child("terminationGracePeriodSeconds");
    if grace_period.int().is_some_and(|seconds| seconds < 0) {
        let text = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push(format!("{}: {text}", grace_period.path()));
    }
    warn_of_missing_selectors(&spec.child("affinity"), warnings);
}

/// Warns about deprecated node labels, and about topology spread constraints without a selector.
fn warn_of_old_labels(spec: &Field<'_>, warnings: &mut Vec<String>) {
    let node_selector = spec.child("nodeSelector");
    for (key, since, successor) in OLD_LABELS {
        let label = node_selector.key(key);
        if label.is_set() {
            warnings.push(format!("{}: deprecated since {since}; use \"{successor}\" instead", label.path()));
        }
    }
    let affinity = spec.child("affinity.nodeAffinity");
    let required = affinity.child("requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    for term in required.items() {
        warn_of_old_keys(&term, warnings);
    }
    for preferred in affinity.child("preferredDuringSchedulingIgnoredDuringExecution").items() {
        warn_of_old_keys(&preferred.child("preference"), warnings);
    }
    for constraint in spec.child("topologySpreadConstraints").items() {
        warn_of_old_label(&constraint.child("topologyKey"), warnings);
        let selector = constraint.child("labelSelector");
        if !selector.is_set() {
            warnings.push(format!("{}: {NO_SELECTOR}", selector.path()));
        }
    }
}

/// Warns about deprecated labels in a node selector term.
fn warn_of_old_keys(term: &Field<'_>, warnings: &mut Vec<String>) {
    for expression in term.child("matchExpressions").items() {
        warn_of_old_label(&expression.child("key"), warnings);
    }
}

/// Warns if a field names a deprecated label.
fn warn_of_old_label(field: &Field<'_>, warnings: &mut Vec<String>) {
    let label = field.text();
    if let Some((_, since, successor)) = OLD_LABELS.iter().find(|(old, ..)| *old == label) {
        let text = format!("{label} is deprecated since {since}; use \"{successor}\" instead");
        warnings.push(format!("{}: {text}", field.path()));
    }
}

/// Warns about list items with the same key.
fn warn_of_duplicates(list: &Field<'_>, key: &str, warnings: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for item in list.items() {
        let text = item.json().text(&[key]);
        if !seen.insert(text) {
            warnings.push(format!("{}: duplicate {key} {text:?}", item.child(key).path()));
        }
    }
}

/// Warns about fractional numbers of bytes.
fn warn_of_fractional_bytes(resources: &Field<'_>, warnings: &mut Vec<String>) {
    for name in ["memory", "ephemeral-storage"] {
        for list in ["limits", "requests"] {
            warn_of_fraction(&resources.child(list).key(name), warnings);
        }
    }
}

/// Warns about a fractional number of bytes.
pub(in crate::kinds) fn warn_of_fraction(quantity: &Field<'_>, warnings: &mut Vec<String>) {
    let (path, text) = (quantity.path(), quantity.text());
    if amount(text).is_some_and(|amount| amount.fract() != 0.0) {
        warnings.push(format!("{path}: fractional byte value {text:?} is invalid, must be an integer"));
    }
}

/// Warns about variables that replace an earlier one without referring to it.
fn warn_of_hidden_variables(variables: &Field<'_>, warnings: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for variable in variables.items() {
        let (name, value) = (variable.json().text(&["name"]), variable.json().text(&["value"]));
        let reference = format!("$({name})");
        let extends = !variable.child("valueFrom").is_set() && value != reference && value.contains(&reference);
        if !seen.insert(name) && !extends {
            let path = variable.path();
            warnings
                .push(format!("{path}: hides previous definition of {name:?}, which may be dropped when using apply"));
        }
    }
}

/// Warns about ports that several containers of a pod use. The number of warnings, and of comparisons for each port, is
/// limited, so that a pod with many ports does not cause quadratic work.
fn warn_of_ports(spec: &Field<'_>, warnings: &mut Vec<String>) {
    const MAX_WARNINGS: usize = 100;
    const MAX_COMPARISONS: usize = 1000;
    let lists = CONTAINERS.map(|list| spec.child(list));
    let containers: Vec<Field<'_>> = lists.iter().flat_map(Field::items).collect();
    let lists: Vec<Field<'_>> = containers.iter().map(|container| container.child("ports")).collect();
    let ports: Vec<Field<'_>> = lists.iter().flat_map(Field::items).collect();

    let max_len = warnings.len() + MAX_WARNINGS;
    let mut by_number: HashMap<(i64, &str), Vec<&Field<'_>>> = HashMap::new();
    for port in &ports {
        let protocol = port.json().text(&["protocol"]);
        let number = port.child("containerPort").int().unwrap_or_default();
        let (address, host_port) = host_address(port);
        if !address.is_empty() && host_port == 0 {
            warnings.push(format!(
                "{}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{number} Protocol:{protocol} \
                 HostIP:{address}}}",
                port.path(),
                port.child("name").text(),
            ));
        }
        let earlier = by_number.entry((number, protocol)).or_default();
        for other in earlier.iter().take(MAX_COMPARISONS) {
            if warnings.len() >= max_len {
                return;
            }
            if let Some(relation) = relation_of_ports((address, host_port), host_address(other)) {
                let (path, other) = (port.path(), other.path());
                warnings.push(format!("{path}: {relation} port definition with {other}"));
            }
        }
        earlier.push(port);
    }
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    for (index, port) in ports.iter().enumerate() {
        let name = port.json().text(&["name"]);
        if name.is_empty() || warnings.len() >= max_len {
            continue;
        }
        let first = *by_name.entry(name).or_insert(index);
        if first != index {
            let (path, first) = (port.path(), ports[first].path());
            warnings.push(format!(
                "{path}: duplicate port name {name:?} with {first}, services and probes that select ports by name will use {first}",
            ));
        }
    }
}

/// Returns the host address and the host port of a container port.
fn host_address<'f>(port: &Field<'f>) -> (&'f str, i64) {
    let port: &'f Value = port.json();
    (port.text(&["hostIP"]), port.int(&["hostPort"]).unwrap_or_default())
}

/// Describes the relation of the host addresses of two container ports with the same number and protocol. Returns `None`
/// if they do not conflict.
fn relation_of_ports(a: (&str, i64), b: (&str, i64)) -> Option<&'static str> {
    let ((address, port), (other_address, other_port)) = (a, b);
    if a == b {
        Some("duplicate")
    } else if port == 0 || other_port == 0 {
        Some("overlapping")
    } else if port == other_port && address.is_empty() != other_address.is_empty() {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

/// Warns about pod affinity terms without a selector.
fn warn_of_missing_selectors(affinity: &Field<'_>, warnings: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let affinity = affinity.child(kind);
        for (list, selector) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", "labelSelector"),
            ("preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm.labelSelector"),
        ] {
            for term in affinity.child(list).items() {
                let selector = term.child(selector);
                if !selector.is_set() {
                    warnings.push(format!("{}: {NO_SELECTOR}", selector.path()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn number_of_port_warnings_is_limited() {
        let port = json!({"name": "a", "containerPort": 80, "protocol": "TCP"});
        let pod = json!({"spec": {"containers": [{"ports": vec![port; 50_000]}]}});
        let mut warnings = vec!["something".to_owned()];
        warn_of_ports(&Field::object(&pod).child("spec"), &mut warnings);
        assert_eq!(warnings.len(), 101);
        let first = "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]";
        assert_eq!(warnings[1], first);
    }
}
