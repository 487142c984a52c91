//! Warnings about pods and pod templates. Pods get warnings at creation, pod templates also at updates. Warnings never
//! reject a request.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::kinds::quantity::amount;
use crate::object::{Path, Tree, dns_label};

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

const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// Returns the warnings for a new pod. Updates get none, because they are usually sent by controllers.
pub(super) fn of_pod(new: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some() {
        return Vec::new();
    }
    let mut told = of_name(new, "the Pod's hostname");
    told.extend(of_template(new, None));
    told
}

/// Returns the warnings for a workload whose pods are named after it, including those about its name.
pub(super) fn of_named_workload(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut told = if old.is_none() { of_name(new, "Pod names and hostnames") } else { Vec::new() };
    told.extend(of_workload(new, old));
    told
}

/// Warns if a name is not a DNS label, although it is used as one.
fn of_name(object: &Value, used_in: &str) -> Vec<String> {
    let why = dns_label(object.text(&["metadata", "name"]));
    if why.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is recommended: [{}]",
        why.join(" ")
    )]
}

/// Returns the warnings for an object with a pod template in `spec.template`.
pub(super) fn of_workload(new: &Value, old: Option<&Value>) -> Vec<String> {
    of_part(new, old, &["spec", "template"], &Path::new("spec").child("template"))
}

/// Returns the warnings for a stateful set, including those about its revision history.
pub(super) fn of_stateful_set(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut told = of_workload(new, old);
    if new.int(&["spec", "revisionHistoryLimit"]).is_some_and(|limit| limit < 0) {
        let why = "a negative value retains all historical revisions; a value >= 0 is recommended";
        told.push(format!("spec.revisionHistoryLimit: {why}"));
    }
    told
}

/// Returns the warnings for a cron job.
pub(super) fn of_cron_job(new: &Value, old: Option<&Value>) -> Vec<String> {
    let path = Path::new("spec.jobTemplate.spec.template");
    let mut told = if old.is_none() { of_name(new, "Pod names and hostnames") } else { Vec::new() };
    told.extend(of_part(new, old, &["spec", "jobTemplate", "spec", "template"], &path));
    told
}

/// Returns the warnings for a PodTemplate object.
pub(super) fn of_pod_template(new: &Value, old: Option<&Value>) -> Vec<String> {
    let same = old.is_some_and(|old| new.at(&["template"]) == old.at(&["template"]));
    let template = new.at(&["template"]).filter(|_| !same);
    template.map(|template| of_template(template, Some(&Path::new("template")))).unwrap_or_default()
}

/// Returns the warnings for a template, if the spec that contains it has changed.
fn of_part(new: &Value, old: Option<&Value>, part: &[&str], path: &Path<'_>) -> Vec<String> {
    if old.is_some_and(|old| new.at(&["spec"]) == old.at(&["spec"])) {
        return Vec::new();
    }
    new.at(part).map(|template| of_template(template, Some(path))).unwrap_or_default()
}

fn of_template(template: &Value, path: Option<&Path<'_>>) -> Vec<String> {
    let mut told = Vec::new();
    let (metadata, spec_path) = match path {
        Some(path) => (path.child("metadata.annotations"), path.child("spec")),
        None => (Path::new("metadata.annotations"), Path::new("spec")),
    };
    let nothing = Value::Null;
    let spec = template.at(&["spec"]).unwrap_or(&nothing);
    old_labels(spec, &spec_path, &mut told);
    for (key, since, field) in OLD_ANNOTATIONS {
        if template.at(&["metadata", "annotations", key]).is_some() {
            let place = metadata.key(key);
            told.push(format!("{place}: non-functional in {since}+; use the \"{field}\" field instead"));
        }
    }
    volumes(spec, &spec_path, &mut told);
    twice(spec, "hostAliases", "ip", &spec_path, &mut told);
    twice(spec, "imagePullSecrets", "name", &spec_path, &mut told);
    let secrets = spec_path.child("imagePullSecrets");
    for (index, secret) in spec.items(&["imagePullSecrets"]).iter().enumerate() {
        if secret.text(&["name"]).is_empty() {
            told.push(format!("{}: invalid empty name \"\"", secrets.index(index).child("name")));
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let list_path = spec_path.child(list);
        for (index, container) in spec.items(&[list]).iter().enumerate() {
            let place = list_path.index(index);
            fractions(container, &place, &mut told);
            hidden_variables(container, &place, &mut told);
        }
    }
    ports(spec, &spec_path, &mut told);
    if spec.int(&["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
        let place = spec_path.child("terminationGracePeriodSeconds");
        told.push(format!("{place}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    unselective_affinity(spec, &spec_path, &mut told);
    told
}

/// Warns about deprecated node labels.
fn old_labels(spec: &Value, path: &Path<'_>, told: &mut Vec<String>) {
    let known = |key: &str| OLD_LABELS.iter().find(|(old, ..)| *old == key);
    let selector = path.child("nodeSelector");
    for (key, since, successor) in OLD_LABELS {
        if spec.at(&["nodeSelector", key]).is_some() {
            told.push(format!("{}: deprecated since {since}; use \"{successor}\" instead", selector.key(key)));
        }
    }
    let mut tell = |place: &Path<'_>, key: &str| {
        if let Some((_, since, successor)) = known(key) {
            told.push(format!("{place}: {key} is deprecated since {since}; use \"{successor}\" instead"));
        }
    };
    let affinity = path.child("affinity.nodeAffinity");
    let required = affinity.child("requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    let terms = ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
    for (index, term) in spec.items(&terms).iter().enumerate() {
        each_key(term, &required.index(index), &mut tell);
    }
    let preferred = affinity.child("preferredDuringSchedulingIgnoredDuringExecution");
    let terms = ["affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"];
    for (index, term) in spec.items(&terms).iter().enumerate() {
        if let Some(term) = term.at(&["preference"]) {
            each_key(term, &preferred.index(index).child("preference"), &mut tell);
        }
    }
    let constraints = path.child("topologySpreadConstraints");
    for (index, constraint) in spec.items(&["topologySpreadConstraints"]).iter().enumerate() {
        let place = constraints.index(index);
        let key = constraint.text(&["topologyKey"]);
        if let Some((_, since, successor)) = known(key) {
            let place = place.child("topologyKey");
            told.push(format!("{place}: {key} is deprecated since {since}; use \"{successor}\" instead"));
        }
        if constraint.at(&["labelSelector"]).is_none() {
            told.push(format!("{}: {NO_SELECTOR}", place.child("labelSelector")));
        }
    }
}

/// Calls `tell` for each key of a node selector term.
fn each_key(term: &Value, path: &Path<'_>, tell: &mut impl FnMut(&Path<'_>, &str)) {
    let expressions = path.child("matchExpressions");
    for (index, expression) in term.items(&["matchExpressions"]).iter().enumerate() {
        tell(&expressions.index(index).child("key"), expression.text(&["key"]));
    }
}

fn volumes(spec: &Value, path: &Path<'_>, told: &mut Vec<String>) {
    let list = path.child("volumes");
    for (index, volume) in spec.items(&["volumes"]).iter().enumerate() {
        for (source, name, fate) in OLD_VOLUMES {
            if volume.at(&[source]).is_some() {
                told.push(format!("{}: {fate}", list.index(index).child(name)));
            }
        }
    }
}

/// Warns about list items with the same key.
fn twice(spec: &Value, list: &str, key: &str, path: &Path<'_>, told: &mut Vec<String>) {
    let items = path.child(list);
    let mut seen = HashSet::new();
    for (index, item) in spec.items(&[list]).iter().enumerate() {
        let text = item.text(&[key]);
        if !seen.insert(text) {
            told.push(format!("{}: duplicate {key} {text:?}", items.index(index).child(key)));
        }
    }
}

/// Warns about fractional numbers of bytes.
fn fractions(container: &Value, path: &Path<'_>, told: &mut Vec<String>) {
    let resources = path.child("resources");
    for name in ["memory", "ephemeral-storage"] {
        for list in ["limits", "requests"] {
            let text = container.text(&["resources", list, name]);
            if amount(text).is_some_and(|amount| amount.fract() != 0.0) {
                let list_path = resources.child(list);
                let place = list_path.key(name);
                told.push(format!("{place}: fractional byte value {text:?} is invalid, must be an integer"));
            }
        }
    }
}

/// Warns about variables that replace an earlier one without referring to it.
fn hidden_variables(container: &Value, path: &Path<'_>, told: &mut Vec<String>) {
    let list = path.child("env");
    let mut seen = HashSet::new();
    for (index, variable) in container.items(&["env"]).iter().enumerate() {
        let (name, value) = (variable.text(&["name"]), variable.text(&["value"]));
        let earlier = format!("$({name})");
        let builds_on = variable.at(&["valueFrom"]).is_none() && value != earlier && value.contains(&earlier);
        if !seen.insert(name) && !builds_on {
            let place = list.index(index);
            told.push(format!("{place}: hides previous definition of {name:?}, which may be dropped when using apply"));
        }
    }
}

/// Warns about ports that several containers of a pod use. The number of warnings, and of comparisons for each port, is
/// limited, so that a pod with many ports does not cause quadratic work.
fn ports(spec: &Value, path: &Path<'_>, told: &mut Vec<String>) {
    const MOST: usize = 100;
    const COMPARED: usize = 1000;
    let mut all: Vec<([usize; 2], &'static str, &Value)> = Vec::new();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (at, container) in spec.items(&[list]).iter().enumerate() {
            let ports = container.items(&["ports"]).iter().enumerate();
            all.extend(ports.map(|(index, port)| ([at, index], list, port)));
        }
    }
    let place = |index: usize| {
        let ([container, port], list, _) = all[index];
        let list = path.child(list);
        list.index(container).child("ports").index(port).to_string()
    };
    let number = |port: &Value, field: &str| port.int(&[field]).unwrap_or_default();
    let most = told.len() + MOST;
    let mut by_number: HashMap<(i64, &str), Vec<usize>> = HashMap::new();
    for (index, &(_, _, port)) in all.iter().enumerate() {
        let (address, host) = (port.text(&["hostIP"]), number(port, "hostPort"));
        let (own, protocol) = (number(port, "containerPort"), port.text(&["protocol"]));
        if !address.is_empty() && host == 0 {
            told.push(format!(
                "{}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{own} Protocol:{protocol} \
                 HostIP:{address}}}",
                place(index),
                port.text(&["name"]),
            ));
        }
        let earlier = by_number.entry((own, protocol)).or_default();
        for &first in earlier.iter().take(COMPARED) {
            if told.len() >= most {
                return;
            }
            let (_, _, other) = all[first];
            let (other_address, other_host) = (other.text(&["hostIP"]), number(other, "hostPort"));
            let how = if address == other_address && host == other_host {
                "duplicate"
            } else if host == 0 || other_host == 0 {
                "overlapping"
            } else if host == other_host && address.is_empty() != other_address.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            told.push(format!("{}: {how} port definition with {}", place(index), place(first)));
        }
        earlier.push(index);
    }
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    for (index, &(_, _, port)) in all.iter().enumerate() {
        let name = port.text(&["name"]);
        if name.is_empty() || told.len() >= most {
            continue;
        }
        let first = *by_name.entry(name).or_insert(index);
        if first != index {
            let first = place(first);
            told.push(format!(
                "{}: duplicate port name {name:?} with {first}, services and probes that select ports by name will use {first}",
                place(index),
            ));
        }
    }
}

/// Warns about pod affinity terms without a selector.
fn unselective_affinity(spec: &Value, path: &Path<'_>, told: &mut Vec<String>) {
    let affinity = path.child("affinity");
    for kind in ["podAffinity", "podAntiAffinity"] {
        let kind_path = affinity.child(kind);
        for (list, selector) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", &["labelSelector"][..]),
            ("preferredDuringSchedulingIgnoredDuringExecution", &["podAffinityTerm", "labelSelector"]),
        ] {
            let list_path = kind_path.child(list);
            for (index, term) in spec.items(&["affinity", kind, list]).iter().enumerate() {
                if term.at(selector).is_none() {
                    told.push(format!("{}.{}: {NO_SELECTOR}", list_path.index(index), selector.join(".")));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kinds::pod_spec::warnings::*;

    #[test]
    fn of_very_many_ports_not_all_is_told() {
        let port = json!({"name": "a", "containerPort": 80, "protocol": "TCP"});
        let spec = json!({"containers": [{"ports": vec![port; 50_000]}]});
        let mut told = vec!["something".to_owned()];
        ports(&spec, &Path::new("spec"), &mut told);
        assert_eq!(told.len(), 101);
        assert_eq!(told[1], "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]");
    }
}
