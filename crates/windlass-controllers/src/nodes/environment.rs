//! The environment variables of a container that depend on nothing but its pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use windlass_api::ObjectExt;

/// Resolves the variables of a container. Variables from ConfigMaps, Secrets and resources are left out.
pub(crate) fn variables(pod: &Pod, container: &Container) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::from([("HOSTNAME".to_owned(), pod.name().to_owned())]);
    for variable in container.env.iter().flatten() {
        let source = variable.value_from.as_ref();
        let field = source.and_then(|source| source.field_ref.as_ref()).map(|field| &*field.field_path);
        let value = match (&variable.value, source, field) {
            (Some(value), _, _) => Some(referenced(value, &variables)),
            (None, _, Some(path)) => Some(pod_field(pod, path)),
            (None, None, None) => Some(String::new()),
            (None, Some(_), None) => None,
        };
        if let Some(value) = value {
            variables.insert(variable.name.clone(), value);
        }
    }
    variables
}

/// Replaces `$(NAME)` with the variable's value, if it exists; `$$` stands for a dollar sign.
pub(crate) fn referenced(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        replaced.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let reference = rest.strip_prefix('(').and_then(|name| name.split_once(')'));
        if let Some((value, after)) = reference.and_then(|(name, after)| Some((variables.get(name)?, after))) {
            replaced.push_str(value);
            rest = after;
        } else {
            replaced.push('$');
            rest = rest.strip_prefix('$').unwrap_or(rest);
        }
    }
    replaced + rest
}

fn pod_field(pod: &Pod, path: &str) -> String {
    let subscript = |field: &str| path.strip_prefix(field)?.strip_prefix("['")?.strip_suffix("']").map(str::to_owned);
    if let Some(key) = subscript("metadata.labels") {
        return pod.labels().get(&key).cloned().unwrap_or_default();
    }
    if let Some(key) = subscript("metadata.annotations") {
        return pod.annotations().get(&key).cloned().unwrap_or_default();
    }
    let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
    match path {
        "metadata.name" => pod.name().to_owned(),
        "metadata.namespace" => pod.namespace().unwrap_or_default().to_owned(),
        "metadata.uid" => pod.uid().unwrap_or_default().to_owned(),
        "spec.nodeName" => crate::pods::node_name(pod).to_owned(),
        "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default(),
        "status.podIP" => status.and_then(|status| status.pod_ip.clone()).unwrap_or_default(),
        "status.hostIP" => status.and_then(|status| status.host_ip.clone()).unwrap_or_default(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_come_from_values_fields_and_each_other() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "annotations": {"batch.kubernetes.io/job-completion-index": "3"}},
            "spec": {"nodeName": "node-0", "containers": [{"name": "c", "env": [
                {"name": "INDEX", "valueFrom": {"fieldRef": {
                    "fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}},
                {"name": "NAME", "value": "n-$(INDEX)-$(OTHER)-$$(INDEX)"},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "HIDDEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ]}]},
        }))
        .unwrap();
        let variables = variables(&pod, &pod.spec.as_ref().unwrap().containers[0]);
        assert_eq!(variables["INDEX"], "3");
        assert_eq!(variables["NAME"], "n-3-$(OTHER)-$(INDEX)");
        assert_eq!(variables["NODE"], "node-0");
        assert!(!variables.contains_key("HIDDEN"));
    }
}
