//! The bootstrap roles and bindings of a server, in the format of `roles.tsv`.

use serde_json::Value;

use super::{Outcome, get, line, list, text};

const HEAD: &str = "# Written by `cargo xtask record` from a real kube-apiserver; do not edit.\n\
    # Columns: plural, namespace, name, labels other than kubernetes.io/bootstrapping, then\n\
    # for roles: rules separated by spaces, each verbs;apiGroups;resources;resourceNames;nonResourceURLs (the core group is core),\n\
    #   or =label for an aggregated role, with the label of the roles that it aggregates;\n\
    # for bindings: the role, then the subjects: kind:name or kind:namespace/name\n";

/// Returns a line per role and binding that exists after the server's start.
pub(super) fn roles(server: &str) -> Outcome<String> {
    let mut out = HEAD.to_owned();
    for plural in ["clusterroles", "clusterrolebindings", "roles", "rolebindings"] {
        let found = get(server, &format!("/apis/rbac.authorization.k8s.io/v1/{plural}"), "application/json")?;
        for object in list(&found, "items") {
            let metadata = &object["metadata"];
            let labels = metadata["labels"].as_object().into_iter().flatten().map(|(label, _)| label.as_str());
            let labels: Vec<_> = labels.filter(|label| *label != "kubernetes.io/bootstrapping").collect();
            let (content, subjects) = if plural.ends_with("bindings") {
                let role = &object["roleRef"];
                let subjects: Vec<_> = list(object, "subjects").iter().map(subject).collect();
                (format!("{}:{}", text(role, "kind"), text(role, "name")), subjects.join(" "))
            } else {
                (aggregation(object).unwrap_or_else(|| rules(object)), String::new())
            };
            let cells =
                [plural, text(metadata, "namespace"), text(metadata, "name"), &labels.join(","), &content, &subjects];
            line(&mut out, &cells);
        }
    }
    Ok(out)
}

fn aggregation(role: &Value) -> Option<String> {
    let labels = role["aggregationRule"]["clusterRoleSelectors"][0]["matchLabels"].as_object()?;
    Some(format!("={}", labels.keys().next()?))
}

fn rules(role: &Value) -> String {
    list(role, "rules").iter().map(rule).collect::<Vec<_>>().join(" ")
}

fn rule(rule: &Value) -> String {
    let part = |key: &str| {
        let values = list(rule, key).iter().filter_map(Value::as_str);
        values
            .map(|value| if key == "apiGroups" && value.is_empty() { "core" } else { value })
            .collect::<Vec<_>>()
            .join(",")
    };
    let parts = ["verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"].map(part);
    parts.join(";").trim_end_matches(';').to_owned()
}

fn subject(subject: &Value) -> String {
    let (kind, namespace, name) = (text(subject, "kind"), text(subject, "namespace"), text(subject, "name"));
    if namespace.is_empty() { format!("{kind}:{name}") } else { format!("{kind}:{namespace}/{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_and_subjects_are_written_as_the_server_reads_them() {
        let pods = json!({"verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods"]});
        assert_eq!(rule(&pods), "get,list;core,apps;pods");
        assert_eq!(rule(&json!({"verbs": ["*"], "nonResourceURLs": ["/healthz"]})), "*;;;;/healthz");
        assert_eq!(subject(&json!({"kind": "ServiceAccount", "namespace": "a", "name": "b"})), "ServiceAccount:a/b");
        let role = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"x/to-view": "true"}}]}});
        assert_eq!(aggregation(&role).as_deref(), Some("=x/to-view"));
    }
}
