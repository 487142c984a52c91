//! Matching and validation of policies.

use http::Method;
use serde_json::{Value, json};

use crate::{
    AuditPolicy,
    audit::policy::{Level, Stage},
    identity::User,
    request::{Query, RequestInfo},
};

fn parse(policy: &str) -> Result<AuditPolicy, String> {
    let mut file: Value = serde_json::from_str(policy).unwrap();
    for (field, value) in [("apiVersion", "audit.k8s.io/v1"), ("kind", "Policy")] {
        if file.get(field).is_none() {
            file[field] = value.into();
        }
    }
    AuditPolicy::parse(file).map_err(|error| error.to_string())
}

fn request(method: &str, target: &str) -> RequestInfo {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    RequestInfo::new(&Method::from_bytes(method.as_bytes()).unwrap(), path, &Query::parse(query)).unwrap()
}

#[test]
fn every_field_of_a_rule_must_match() {
    let tim = User::new("tim").in_groups(["humans"]);
    for (rule, target, matches) in [
        (json!({}), "GET /healthz", true),
        (json!({"users": ["tim"]}), "GET /healthz", true),
        (json!({"users": ["tom"]}), "GET /healthz", false),
        (json!({"userGroups": ["robots", "humans"]}), "GET /healthz", true),
        (json!({"userGroups": ["robots"]}), "GET /healthz", false),
        (json!({"verbs": ["get"]}), "GET /api/v1/pods", false),
        (json!({"verbs": ["get", "list"]}), "GET /api/v1/pods", true),
        (json!({"verbs": ["watch"]}), "GET /api/v1/pods?watch=1", true),
        (json!({"namespaces": ["default"]}), "GET /api/v1/namespaces/default/pods", true),
        (json!({"namespaces": ["default"]}), "GET /api/v1/nodes", false),
        (json!({"namespaces": [""]}), "GET /api/v1/nodes", true),
        (json!({"namespaces": ["default"]}), "GET /healthz", false),
        (json!({"resources": [{"group": ""}]}), "GET /api/v1/namespaces/a/pods/p/log", true),
        (json!({"resources": [{"group": ""}]}), "GET /apis/apps/v1/deployments", false),
        (json!({"resources": [{"group": "*"}]}), "GET /apis/apps/v1/deployments", true),
        (json!({"resources": [{"group": "*"}]}), "GET /healthz", false),
        (json!({"resources": [{"resources": ["pods"]}]}), "GET /api/v1/namespaces/a/pods/p/log", false),
        (json!({"resources": [{"resources": ["pods/log"]}]}), "GET /api/v1/namespaces/a/pods/p/log", true),
        (json!({"resources": [{"resources": ["pods/log"]}]}), "GET /api/v1/namespaces/a/pods/p", false),
        (json!({"resources": [{"resources": ["pods/*"]}]}), "GET /api/v1/namespaces/a/pods/p/log", true),
        (json!({"resources": [{"resources": ["pods/*"]}]}), "GET /api/v1/namespaces/a/pods/p", true),
        (json!({"resources": [{"resources": ["*/log"]}]}), "GET /api/v1/namespaces/a/pods/p/log", true),
        (json!({"resources": [{"resources": ["*/log"]}]}), "GET /api/v1/namespaces/a/pods/p", false),
        (json!({"resources": [{"resources": ["*"]}]}), "GET /api/v1/namespaces/a/pods/p/log", true),
        (
            json!({"resources": [{"resources": ["pods"], "resourceNames": ["q"]}]}),
            "GET /api/v1/namespaces/a/pods/p",
            false,
        ),
        (
            json!({"resources": [{"resources": ["pods"], "resourceNames": ["p"]}]}),
            "GET /api/v1/namespaces/a/pods/p",
            true,
        ),
        (
            json!({"resources": [{"resources": ["pods"], "resourceNames": ["p"]}]}),
            "GET /api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dp",
            true,
        ),
        (json!({"nonResourceURLs": ["/healthz*"]}), "GET /healthz/etcd", true),
        (json!({"nonResourceURLs": ["/healthz"]}), "GET /healthz/etcd", false),
        (json!({"nonResourceURLs": ["*"]}), "GET /metrics", true),
        (json!({"nonResourceURLs": ["*"]}), "GET /api/v1/pods", false),
    ] {
        let mut rule = rule;
        rule["level"] = "Metadata".into();
        let policy = parse(&json!({"rules": [rule]}).to_string()).unwrap();
        let (method, target) = target.split_once(' ').unwrap();
        let level = policy.evaluate(Some(&tim), &request(method, target)).level;
        assert_eq!(level == Level::Metadata, matches, "{rule} {target}");
    }
}

#[test]
fn first_matching_rule_decides() {
    let policy = parse(
        r#"{"omitStages": ["RequestReceived"], "omitManagedFields": true, "rules": [
            {"level": "None", "users": ["quiet"]},
            {"level": "Request", "verbs": ["list"], "omitStages": ["Panic"], "omitManagedFields": false},
            {"level": "RequestResponse", "resources": [{"group": ""}]}]}"#,
    )
    .unwrap();
    let level = |user: Option<&User>, target: &str| policy.evaluate(user, &request("GET", target)).level;
    let tim = User::new("tim");
    assert_eq!(level(Some(&User::new("quiet")), "/api/v1/pods"), Level::None);
    assert_eq!(level(Some(&tim), "/api/v1/pods"), Level::Request);
    assert_eq!(level(Some(&tim), "/api/v1/nodes/n"), Level::RequestResponse);
    assert_eq!(level(None, "/api/v1/nodes/n"), Level::RequestResponse, "a request without a user");
    assert_eq!(level(Some(&tim), "/healthz"), Level::None, "no rule matches");
    let list = policy.evaluate(Some(&tim), &request("GET", "/api/v1/pods"));
    let omitted = |stage| list.omits(stage);
    assert!(omitted(Stage::RequestReceived) && omitted(Stage::Panic) && !omitted(Stage::ResponseComplete));
    assert!(!list.omits_managed_fields, "the rule overrides the policy");
    assert!(policy.evaluate(Some(&tim), &request("GET", "/api/v1/nodes/n")).omits_managed_fields);
}

#[test]
fn invalid_policies_are_rejected_with_the_messages_of_kubernetes() {
    for (policy, message) in [
        (r"{}", "loaded illegal policy with 0 rules"),
        (
            r#"{"apiVersion": "", "rules": []}"#,
            "unknown group version field audit.k8s.io/__internal, Kind=Policy in policy",
        ),
        (
            r#"{"apiVersion": "audit.k8s.io/v1beta1", "rules": []}"#,
            "failed decoding: no kind \"Policy\" is registered for version \"audit.k8s.io/v1beta1\" in scheme \"pkg/audit/scheme.go:30\"",
        ),
        (r#"{"rules": [{}]}"#, "rules[0].level: Required value"),
        (
            r#"{"rules": [{"level": "All"}]}"#,
            "rules[0].level: Unsupported value: \"All\": supported values: \"None\", \"Metadata\", \"Request\", \"RequestResponse\"",
        ),
        (
            r#"{"rules": [{"level": "None", "omitStages": ["Begin"]}], "omitStages": ["End"]}"#,
            "[omitStages[0]: Invalid value: \"End\": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic, \
             rules[0].omitStages[0]: Invalid value: \"Begin\": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic]",
        ),
        (
            r#"{"rules": [{"level": "None", "nonResourceURLs": ["healthz", "/a*b"]}]}"#,
            "[rules[0].nonResourceURLs[0]: Invalid value: \"healthz\": non-resource URL rules must begin with a '/' character, \
             rules[0].nonResourceURLs[1]: Invalid value: \"/a*b\": non-resource URL wildcards '*' must be the final character of the rule]",
        ),
        (
            r#"{"rules": [{"level": "None", "nonResourceURLs": ["/a"], "namespaces": ["b"]}]}"#,
            "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: rules cannot apply to both regular resources and non-resource URLs",
        ),
        (
            r#"{"rules": [{"level": "None", "resources": [{"group": "a/v1", "resourceNames": ["b"]}]}]}"#,
            "[rules[0].resources.group: Invalid value: \"a/v1\": a lowercase RFC 1123 subdomain must consist of lower case \
             alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', \
             regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'), \
             rules[0].resources.resourceNames: Invalid value: [\"b\"]: using resourceNames requires at least one resource]",
        ),
    ] {
        assert_eq!(parse(policy).unwrap_err(), message, "{policy}");
    }
    assert!(parse(r#"{"rules": "all"}"#).unwrap_err().starts_with("failed decoding: "));
}

#[test]
fn unknown_fields_are_reported_but_accepted() {
    let policy = parse(
        r#"{"rules": [{"level": "None", "verb": "get", "resources": [{"group": "", "verbs": ["get"]}]}], "x": 1}"#,
    );
    assert_eq!(policy.unwrap().unknown_fields(), ["x", "rules[0].verb", "rules[0].resources[0].verbs"]);
}
