//! The defaults of pods and pod templates.

use crate::kinds::{
    core::persistent_volume::default_source,
    pod_spec::image::tag,
    prelude::*,
    quantity::{amount, sum},
};

const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
/// The resources that decide about the QoS class.
const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// Applies the defaults of a pod.
pub(crate) fn default_pod(pod: &mut Value) {
    let spec = object_mut(pod, "spec");
    default_pointer(spec, "enableServiceLinks", true);
    let host_network = spec.flag(&["hostNetwork"]);
    let Some(spec) = pod.get_mut("spec") else { return };
    default_spec(spec);
    for list in ["containers", "initContainers"] {
        for container in items_mut(spec, list) {
            request_limits(container);
            if host_network {
                change_each(container, "ports.*", |port| {
                    if let Some(number) = port.int(&["containerPort"]) {
                        default_to(port, "hostPort", number);
                    }
                });
            }
        }
    }
    request_for_all(spec);
}

/// Applies the defaults of a pod template under a key of its owner's spec.
pub(crate) fn default_template(owner: &mut Value, key: &str) {
    if let Some(template) = entry_mut(owner, key) {
        object_mut(template, "spec");
        if let Some(spec) = template.get_mut("spec") {
            default_spec(spec);
        }
    }
}

fn default_spec(spec: &mut Value) {
    let map = as_object(spec);
    default_to(map, "restartPolicy", "Always");
    default_pointer(map, "terminationGracePeriodSeconds", 30);
    default_to(map, "dnsPolicy", "ClusterFirst");
    default_pointer(map, "securityContext", json!({}));
    default_to(map, "schedulerName", "default-scheduler");
    // Both are names of the same field.
    let account = match map.text(&["serviceAccountName"]) {
        "" => map.text(&["serviceAccount"]),
        name => name,
    };
    if !account.is_empty() {
        let account = account.to_owned();
        map.insert("serviceAccountName".to_owned(), account.clone().into());
        map.insert("serviceAccount".to_owned(), account.into());
    }
    items_mut(spec, "volumes").iter_mut().for_each(default_volume);
    for list in CONTAINERS {
        items_mut(spec, list).iter_mut().for_each(default_container);
    }
}

fn default_volume(volume: &mut Value) {
    let map = as_object(volume);
    if !map.iter().any(|(key, source)| key != "name" && !source.is_null()) {
        map.insert("emptyDir".to_owned(), json!({}));
        return;
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        change_each(volume, source, |source| default_pointer(source, "defaultMode", 420));
    }
    default_source(as_object(volume));
    if let Some(template) = entry_mut(volume, "ephemeral").and_then(|source| entry_mut(source, "volumeClaimTemplate")) {
        default_pointer(object_mut(template, "spec"), "volumeMode", "Filesystem");
    }
    change_each(volume, "image", |source| {
        let policy = pull_policy(source.text(&["reference"]));
        default_to(source, "pullPolicy", policy);
    });
    let tokens = "projected.sources.*.serviceAccountToken";
    change_each(volume, tokens, |token| default_pointer(token, "expirationSeconds", 3600));
    for references in ["downwardAPI.items.*.fieldRef", "projected.sources.*.downwardAPI.items.*.fieldRef"] {
        change_each(volume, references, |reference| default_to(reference, "apiVersion", "v1"));
    }
}

/// Returns the default pull policy of an image.
fn pull_policy(image: &str) -> &'static str {
    if tag(image) == "latest" { "Always" } else { "IfNotPresent" }
}

fn default_container(container: &mut Value) {
    let policy = pull_policy(container.text(&["image"]));
    let map = as_object(container);
    default_to(map, "terminationMessagePath", "/dev/termination-log");
    default_to(map, "terminationMessagePolicy", "File");
    default_to(map, "imagePullPolicy", policy);
    change_each(container, "ports.*", |port| default_to(port, "protocol", "TCP"));
    change_each(container, "env.*.valueFrom.fieldRef", |reference| default_to(reference, "apiVersion", "v1"));
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        change_each(container, probe, default_probe);
    }
    for hook in ["lifecycle.postStart", "lifecycle.preStop"] {
        change_each(container, hook, default_handler);
    }
}

fn default_probe(probe: &mut Map<String, Value>) {
    default_handler(probe);
    for (key, value) in [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        default_to(probe, key, value);
    }
}

fn default_handler(handler: &mut Map<String, Value>) {
    if let Some(Value::Object(action)) = handler.get_mut("httpGet") {
        default_to(action, "path", "/");
        default_to(action, "scheme", "HTTP");
    }
    if let Some(Value::Object(action)) = handler.get_mut("grpc") {
        default_pointer(action, "service", "");
    }
}

/// Sets the missing requests of a container to its limits.
fn request_limits(container: &mut Value) {
    let Some(limits) = container.at(&["resources", "limits"]).and_then(Value::as_object).cloned() else { return };
    let Some(resources) = entry_mut(container, "resources") else { return };
    let requests = object_mut(resources, "requests");
    for (name, limit) in limits {
        default_pointer(requests, &name, limit);
    }
}

/// Sets the missing pod-level requests to the sum of the containers' requests, or else to the pod-level limits.
fn request_for_all(spec: &mut Value) {
    let Some(limits) = spec.at(&["resources", "limits"]).and_then(Value::as_object).cloned() else { return };
    let sums = COMPUTE.map(|name| (name, requested(spec, name)));
    let Some(resources) = entry_mut(spec, "resources") else { return };
    let requests = object_mut(resources, "requests");
    for (name, sum) in sums {
        if let Some(sum) = sum {
            default_pointer(requests, name, sum);
        }
    }
    for (name, limit) in limits {
        if COMPUTE.contains(&name.as_str()) || name.starts_with("hugepages-") {
            default_pointer(requests, &name, limit);
        }
    }
}

/// Returns the total request of a pod's containers; `None` if no container requests the resource.
pub(super) fn requested(spec: &Value, name: &str) -> Option<String> {
    add_amounts(spec, "requests", name)
}

/// Returns the total of the containers' requests or limits, as `field` specifies. That is the sum of the containers
/// that run in parallel, or the amount of an init container if that is larger. Returns `None` if no container sets it.
pub(crate) fn add_amounts(spec: &Value, field: &str, name: &str) -> Option<String> {
    let amount_of =
        |container: &Value| container.at(&["resources", field, name]).and_then(Value::as_str).map(str::to_owned);
    let add = |total: Option<String>, more: Option<String>| match (total, more) {
        (Some(total), Some(more)) => Some(sum(&total, &more)),
        (total, more) => total.or(more),
    };
    let exceeds =
        |a: &Option<String>, b: &Option<String>| a.as_deref().and_then(amount) > b.as_deref().and_then(amount);
    let running = spec.items(&["containers"]).iter().map(amount_of).fold(None, add);
    let (mut sidecars, mut peak) = (None, None);
    for container in spec.items(&["initContainers"]) {
        // An init container runs beside the sidecars that precede it.
        let total = if container.text(&["restartPolicy"]) == "Always" {
            sidecars = add(sidecars, amount_of(container));
            sidecars.clone()
        } else {
            add(amount_of(container), sidecars.clone())
        };
        if exceeds(&total, &peak) {
            peak = total;
        }
    }
    let running = add(running, sidecars);
    if exceeds(&peak, &running) { peak } else { running }
}

/// Returns the QoS class of a pod.
pub(crate) fn quality_of_service(pod: &Value) -> &'static str {
    // Pod-level resources are evaluated like those of a single container.
    let spec = pod.at(&["spec"]).filter(|spec| spec.at(&["resources"]).is_some());
    let containers = ["containers", "initContainers"].into_iter().flat_map(|list| pod.items(&["spec", list]));
    let owners = spec.into_iter().chain(containers.filter(|_| spec.is_none()));
    let is_positive =
        |quantity: &&Value| amount(quantity.as_str().unwrap_or_default()).is_some_and(|amount| amount > 0.0);
    let (mut has_any, mut is_guaranteed) = (false, true);
    for owner in owners {
        for name in COMPUTE {
            let request = owner.at(&["resources", "requests", name]).filter(is_positive);
            let limit = owner.at(&["resources", "limits", name]).filter(is_positive);
            has_any |= request.is_some() || limit.is_some();
            is_guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (has_any, is_guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_pod_completes_containers_and_volumes() {
        let mut pod = json!({"spec": {
            "containers": [{"name": "c", "image": "nginx:1", "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": "1"}}, "livenessProbe": {"httpGet": {"port": 80}}}],
            "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}}],
        }});
        default_pod(&mut pod);
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["imagePullPolicy"], "IfNotPresent");
        assert_eq!(container["ports"][0]["protocol"], "TCP");
        assert_eq!(container["resources"]["requests"]["cpu"], "1");
        assert_eq!(container["livenessProbe"]["httpGet"], json!({"port": 80, "path": "/", "scheme": "HTTP"}));
        assert_eq!(pod["spec"]["volumes"][0]["emptyDir"], json!({}));
        assert_eq!(pod["spec"]["volumes"][1]["secret"]["defaultMode"], 420);
        assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 30);
    }

    #[test]
    fn quality_follows_requests_and_limits() {
        let pod = |resources: Value| json!({"spec": {"containers": [{"resources": resources}]}});
        assert_eq!(quality_of_service(&pod(json!({}))), "BestEffort");
        assert_eq!(quality_of_service(&pod(json!({"requests": {"cpu": "1"}}))), "Burstable");
        let limits = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(quality_of_service(&pod(json!({"requests": limits, "limits": limits}))), "Guaranteed");
    }
}
