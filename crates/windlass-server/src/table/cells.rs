//! The cells of built-in kinds, and shared functions.
//!
//! Printers also get bookmarks, which have almost no fields. So every field may be missing.

use jiff::Timestamp;
use serde_json::Value;
use windlass_api::{LabelSelector, Operator, Requirement, parse_time};

use crate::kubernetes::KubernetesVersion;

use super::{autoscaling, core, duration, extensions, networking, pods, storage, workloads};

/// Returns the cells of an object, one per recorded column.
pub(super) type Printer = fn(&Value, Timestamp) -> Vec<Value>;

/// Returns the printer of a kind in a Kubernetes version, for any version of its group.
pub(super) fn printer(kubernetes: KubernetesVersion, group: &str, plural: &str) -> Option<Printer> {
    Some(match (group, plural) {
        ("", "componentstatuses") => core::component_status,
        ("", "configmaps") => core::config_map,
        ("", "endpoints") => core::endpoints,
        ("" | "events.k8s.io", "events") => core::core_event,
        ("", "namespaces") => core::namespace,
        ("", "nodes") => core::node,
        ("", "persistentvolumeclaims") => storage::persistent_volume_claim,
        ("", "persistentvolumes") => storage::persistent_volume,
        ("", "pods") => pods::cells,
        ("", "podtemplates") => workloads::pod_template,
        ("", "replicationcontrollers") => workloads::replication_controller,
        ("", "resourcequotas") => core::resource_quota,
        ("", "secrets") => core::secret,
        ("", "serviceaccounts") if kubernetes < KubernetesVersion::V1_35 => {
            |account, now| vec![name(account), items(&account["secrets"]).len().into(), age(account, now)]
        }
        ("", "serviceaccounts") => name_and_age,
        ("", "services") => core::service,
        ("apiextensions.k8s.io", "customresourcedefinitions") if kubernetes >= KubernetesVersion::V1_37 => {
            |crd, _| extensions::custom_resource_definition(crd)
        }
        ("apps", "controllerrevisions") => workloads::controller_revision,
        ("apps", "daemonsets") => workloads::daemon_set,
        ("apps", "deployments") => workloads::deployment,
        ("apps", "replicasets") => workloads::replica_set,
        ("apps", "statefulsets") => workloads::stateful_set,
        ("batch", "cronjobs") => workloads::cron_job,
        ("batch", "jobs") => workloads::job,
        ("coordination.k8s.io", "leases") => {
            |lease, now| vec![name(lease), text(&lease["spec"]["holderIdentity"]).into(), age(lease, now)]
        }
        ("discovery.k8s.io", "endpointslices") => networking::endpoint_slice,
        ("autoscaling", "horizontalpodautoscalers") => autoscaling::autoscaler,
        ("networking.k8s.io", "ingressclasses") => networking::ingress_class,
        ("networking.k8s.io", "ingresses") => networking::ingress,
        ("networking.k8s.io", "ipaddresses") => networking::address,
        ("networking.k8s.io", "networkpolicies") => networking::policy,
        ("networking.k8s.io", "servicecidrs") => networking::service_range,
        ("node.k8s.io", "runtimeclasses") => {
            |class, now| vec![name(class), text(&class["handler"]).into(), age(class, now)]
        }
        ("policy", "poddisruptionbudgets") => workloads::disruption_budget,
        ("rbac.authorization.k8s.io", "clusterrolebindings" | "rolebindings") => extensions::role_binding,
        ("scheduling.k8s.io", "priorityclasses") => extensions::priority_class,
        ("storage.k8s.io", "csidrivers") => storage::driver,
        ("storage.k8s.io", "csinodes") => storage::node,
        ("storage.k8s.io", "storageclasses") => storage::storage_class,
        ("storage.k8s.io", "volumeattachments") => storage::attachment,
        ("storage.k8s.io", "volumeattributesclasses") => storage::attributes_class,
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations" | "validatingwebhookconfigurations") => {
            |hooks, now| vec![name(hooks), items(&hooks["webhooks"]).len().into(), age(hooks, now)]
        }
        _ => return extensions::printer(group, plural),
    })
}

// === what printers share ===

/// Returns the object's name.
pub(super) fn name(object: &Value) -> Value {
    text(&object["metadata"]["name"]).into()
}

/// Returns the time since the object was created.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    time_since(parse_timestamp(&object["metadata"]["creationTimestamp"]), now).into()
}

/// Returns the time since a moment.
pub(super) fn time_since(then: Option<Timestamp>, now: Timestamp) -> String {
    then.map_or_else(|| "<unknown>".to_owned(), |then| duration::since(then, now))
}

/// Returns the time in a field; `None` if there is none.
pub(super) fn parse_timestamp(value: &Value) -> Option<Timestamp> {
    parse_time(value.as_str()?).ok()
}

/// Returns the text in a field; empty if there is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the items in a field.
pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns one text field of each item.
pub(super) fn list<'v>(items: impl IntoIterator<Item = &'v Value>, field: &str) -> Vec<&'v str> {
    items.into_iter().map(|item| text(&item[field])).collect()
}

/// Returns the text, or `<none>` if it is empty.
pub(super) fn none_if_empty(text: &str) -> Value {
    if text.is_empty() { "<none>".into() } else { text.into() }
}

pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

pub(super) fn int(value: &Value) -> Value {
    number(value).into()
}

pub(super) fn length(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
}

pub(super) fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

/// Returns labels as `a=b,c=d` sorted by key, or `<none>`.
pub(super) fn labels(map: &Value) -> Value {
    let mut pairs =
        map.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", text(value))).collect::<Vec<_>>();
    pairs.sort();
    none_if_empty(&pairs.join(","))
}

/// Returns a label selector as text, or `<none>`.
pub(super) fn selector(selector: &Value) -> Value {
    none_if_empty(&selector_text(selector))
}

pub(super) fn selector_text(selector: &Value) -> String {
    let mut requirements = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        requirements.push(Requirement::new(key, Operator::Equals, [text(value)]));
    }
    for expression in items(&selector["matchExpressions"]) {
        let operator = match text(&expression["operator"]) {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => return "<error>".to_owned(),
        };
        let values = items(&expression["values"]).iter().map(text);
        requirements.push(Requirement::new(text(&expression["key"]), operator, values));
    }
    LabelSelector::new(requirements).to_string()
}

/// Returns the names and images of a pod template's containers.
pub(super) fn containers(template: &Value) -> [Value; 2] {
    let containers = items(&template["spec"]["containers"]);
    [list(containers, "name").join(",").into(), list(containers, "image").join(",").into()]
}

/// Returns the first three texts and the number of further ones.
pub(super) fn first_three(all: &[String]) -> String {
    match all {
        [_, _, _, more @ ..] if !more.is_empty() => format!("{} + {} more...", all[..3].join(","), more.len()),
        _ => all.join(","),
    }
}

pub(super) fn is_true(conditions: &Value, kind: &str) -> bool {
    items(conditions).iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// Returns an int-or-string value as text.
pub(super) fn int_or_string(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns `True`, `False` or `<unset>`.
pub(super) fn flag(value: &Value) -> Value {
    match value {
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        _ => "<unset>".into(),
    }
}
