//! The default roles and bindings, recorded from kube-apiserver.

use serde_json::{Value, json};

use super::GROUP;
use crate::kubernetes::KubernetesVersion;

/// An object in the file.
pub(crate) struct Recorded {
    /// For example `clusterroles`.
    pub(crate) plural: &'static str,
    /// `None` for cluster-scoped kinds.
    pub(crate) namespace: Option<&'static str>,
    pub(crate) object: Value,
}

/// Returns all objects of a version.
pub(crate) fn recorded(kubernetes: KubernetesVersion) -> impl Iterator<Item = Recorded> {
    kubernetes.tables().roles.lines().filter(|line| !line.starts_with('#')).map(parse)
}

fn parse(line: &'static str) -> Recorded {
    let mut cells = line.split('\t');
    let mut next = || cells.next().unwrap_or_default();
    let (plural, namespace, name, labels, content, subjects) = (next(), next(), next(), next(), next(), next());
    let mut object = json!({
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        },
    });
    for label in split(labels) {
        object["metadata"]["labels"][label] = "true".into();
    }
    if plural.ends_with("bindings") {
        let (kind, name) = content.split_once(':').unwrap_or_default();
        object["roleRef"] = json!({"apiGroup": GROUP, "kind": kind, "name": name});
        object["subjects"] = subjects.split(' ').filter(|subject| !subject.is_empty()).map(parse_subject).collect();
    } else if let Some(label) = content.strip_prefix('=') {
        object["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
    } else {
        object["rules"] = content.split(' ').filter(|rule| !rule.is_empty()).map(parse_rule).collect();
    }
    Recorded { plural, namespace: Some(namespace).filter(|namespace| !namespace.is_empty()), object }
}

fn parse_subject(text: &str) -> Value {
    let (kind, name) = text.split_once(':').unwrap_or_default();
    match name.split_once('/') {
        Some((namespace, name)) if kind == "ServiceAccount" => {
            json!({"kind": kind, "name": name, "namespace": namespace})
        }
        _ => json!({"kind": kind, "apiGroup": GROUP, "name": name}),
    }
}

fn parse_rule(text: &str) -> Value {
    let mut rule = json!({});
    let fields = ["verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"];
    for (field, values) in fields.into_iter().zip(text.split(';')).filter(|(_, values)| !values.is_empty()) {
        let core = |value| if field == "apiGroups" && value == "core" { "" } else { value };
        rule[field] = split(values).map(core).collect();
    }
    rule
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_rules_and_subjects_are_parsed() {
        assert_eq!(
            parse_rule("get,list;core,apps;pods;a"),
            json!({"verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods"], "resourceNames": ["a"]})
        );
        assert_eq!(parse_rule("*;;;;/healthz"), json!({"verbs": ["*"], "nonResourceURLs": ["/healthz"]}));
        assert_eq!(
            parse_subject("ServiceAccount:kube-system/a"),
            json!({"kind": "ServiceAccount", "name": "a", "namespace": "kube-system"})
        );
        assert_eq!(parse_subject("User:system:a")["name"], "system:a");
        let all: Vec<Recorded> = recorded(KubernetesVersion::default()).collect();
        assert!(all.len() > 100);
        let admin = all.iter().find(|role| role.object["metadata"]["name"] == "cluster-admin").unwrap();
        assert_eq!(admin.object["rules"][0], json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
    }
}
