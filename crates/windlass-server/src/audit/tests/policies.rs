//! The annotations of validating admission policies.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Recorder, blocking, policy, send};
use crate::{AuditConfiguration, AuditWebhook, Server};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

#[tokio::test]
async fn failures_and_annotations_of_a_policy_are_recorded() {
    let recorder = Recorder::new();
    let webhook: Arc<dyn AuditWebhook> = recorder.clone();
    let rules = json!([{"level": "Metadata", "omitStages": ["RequestReceived"]}]);
    let audit = AuditConfiguration::new(policy(rules)).with_webhook(webhook, &blocking()).unwrap();
    let server = Server::builder().audit(audit).build();
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]});
    let spec = json!({
        "matchConstraints": {"resourceRules": [rule]},
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "true"}, {"expression": "object.metadata.name != 'b'", "message": "no \"b\" <"}],
        "auditAnnotations": [
            {"key": "name", "valueExpression": "' ' + object.metadata.name + '-' + params.data.suffix"},
            {"key": "same", "valueExpression": "'always'"},
            {"key": "none", "valueExpression": "null"},
        ],
    });
    for suffix in ["x", "y"] {
        let params = json!({"metadata": {"name": format!("params-{suffix}")}, "data": {"suffix": suffix}});
        assert_eq!(send(&server, "POST", "/api/v1/namespaces/kube-public/configmaps", params).await.status(), 201);
    }
    let policy = json!({"metadata": {"name": "p.example.com"}, "spec": spec});
    let created = send(&server, "POST", &format!("{GROUP}/validatingadmissionpolicies"), policy).await;
    assert_eq!(created.status(), 201);
    let reference = json!({"selector": {}, "namespace": "kube-public", "parameterNotFoundAction": "Deny"});
    let binding = json!({"metadata": {"name": "binding"},
        "spec": {"policyName": "p.example.com", "validationActions": ["Audit", "Warn"], "paramRef": reference,
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}}});
    let bound = send(&server, "POST", &format!("{GROUP}/validatingadmissionpolicybindings"), binding).await;
    assert_eq!(bound.status(), 201);
    let annotations = async |name: &str| {
        recorder.lists.lock().clear();
        let object = json!({"metadata": {"name": name}});
        let response = send(&server, "POST", "/api/v1/namespaces/default/configmaps", object).await;
        assert_eq!(response.status(), 201, "{}", String::from_utf8_lossy(response.body()));
        recorder.events().last().unwrap()["annotations"].clone()
    };
    let found = annotations("a").await;
    assert_eq!(found["p.example.com/name"], "a-x, a-y");
    assert_eq!(found["p.example.com/same"], "always");
    assert_eq!((found.get("p.example.com/none"), found.get(FAILURE)), (None, None));
    let found = annotations("b").await;
    let failure: Value = serde_json::from_str(found[FAILURE].as_str().unwrap()).unwrap();
    let expected = json!([{"message": "no \"b\" <", "policy": "p.example.com", "binding": "binding",
        "expressionIndex": 1, "validationActions": ["Audit", "Warn"]}]);
    assert_eq!(failure, expected);
    assert!(found[FAILURE].as_str().unwrap().contains("\\u003c"), "Go escapes the character");
}

const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";
