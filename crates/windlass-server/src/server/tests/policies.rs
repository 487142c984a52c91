//! Admission policies, as far as the cases of the conformance suite do not cover them.

use super::*;
use crate::User;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

fn constraints() -> Value {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]});
    json!({"resourceRules": [rule]})
}

/// Creates a policy and its binding.
async fn policy(service: &Service, kind: &str, name: &str, spec: Value, binding: Value) {
    let plural = format!("{}admissionpolic", kind.to_lowercase());
    let mut all = json!({"matchConstraints": constraints()});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let created =
        post(service, &format!("{GROUP}/{plural}ies"), json!({"metadata": {"name": name}, "spec": all})).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let mut all = json!({"policyName": name});
    all.as_object_mut().unwrap().extend(binding.as_object().unwrap().clone());
    let bindings = format!("{GROUP}/{plural}ybindings");
    let created = post(service, &bindings, json!({"metadata": {"name": name}, "spec": all})).await;
    assert_eq!(created.code, 201, "{}", created.body);
}

async fn denying(service: &Service, name: &str, expression: &str) {
    let spec = json!({"validations": [{"expression": expression, "message": format!("{name} says no")}]});
    policy(service, "Validating", name, spec, json!({"validationActions": ["Deny"]})).await;
}

#[tokio::test]
async fn policy_takes_effect_with_the_next_write() {
    let service = server().service();
    assert_eq!(post(&service, CONFIG_MAPS, config_map("a")).await.code, 201);
    denying(&service, "names", "object.metadata.name != 'b'").await;
    let refused = post(&service, CONFIG_MAPS, config_map("b")).await;
    assert_eq!(refused.verdict(), (422, "Invalid".to_owned()));
    let why = "configmaps \"b\" is forbidden: ValidatingAdmissionPolicy 'names' with binding 'names' denied request: \
               names says no";
    assert_eq!(refused.json()["message"], why);
    let patch = json!({"spec": {"validations": [{"expression": "object.metadata.name != 'c'"}]}});
    let path = format!("{GROUP}/validatingadmissionpolicies/names");
    assert_eq!(with_body(&service, "PATCH", &path, "application/merge-patch+json", patch).await.code, 200);
    assert_eq!(post(&service, CONFIG_MAPS, config_map("b")).await.code, 201);
    assert_eq!(post(&service, CONFIG_MAPS, config_map("c")).await.code, 422);
    let binding = format!("{GROUP}/validatingadmissionpolicybindings/names");
    assert_eq!(with_body(&service, "DELETE", &binding, "application/json", "").await.code, 200);
    assert_eq!(post(&service, CONFIG_MAPS, config_map("c")).await.code, 201);
}

#[tokio::test]
async fn first_policy_by_name_decides_the_message() {
    let service = server().service();
    denying(&service, "second", "false").await;
    denying(&service, "first", "false").await;
    let refused = post(&service, CONFIG_MAPS, config_map("a")).await;
    assert!(refused.body.contains("first says no") && !refused.body.contains("second says no"), "{}", refused.body);
}

#[tokio::test]
async fn expensive_expression_has_the_same_result() {
    let service = server().service();
    let numbers = "[1,2,3,4,5,6,7,8,9,10]";
    let sum = format!("{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, {numbers}.all(d, a + b + c + d > 0))))");
    denying(&service, "slow", &format!("{sum} && object.metadata.name != 'b'")).await;
    assert_eq!(post(&service, CONFIG_MAPS, config_map("a")).await.code, 201);
    assert_eq!(post(&service, CONFIG_MAPS, config_map("b")).await.code, 422);
}

#[tokio::test]
async fn several_checks_of_the_authorizer_are_decided() {
    let service = server().service();
    let check = |resource: &str| {
        format!("authorizer.group('').resource('{resource}').namespace('default').check('list').allowed()")
    };
    let expression = format!("{} && !{}", check("configmaps"), check("secrets"));
    denying(&service, "access", &expression).await;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "list"]}]);
    let role = json!({"metadata": {"name": "r"}, "rules": rules});
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    assert_eq!(post(&service, &format!("{roles}/roles"), role).await.code, 201);
    let binding = json!({"metadata": {"name": "r"}, "subjects": [{"kind": "User", "name": "anna"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}});
    assert_eq!(post(&service, &format!("{roles}/rolebindings"), binding).await.code, 201);
    let create = |name: &str| {
        let body = config_map(name).to_string();
        request("POST", CONFIG_MAPS).header(header::CONTENT_TYPE, "application/json").body(body).unwrap()
    };
    let mut as_anna = create("a");
    as_anna.extensions_mut().insert(User::new("anna"));
    as_anna.headers_mut().insert("impersonate-user", "anna".parse().unwrap());
    assert_eq!(send(&service, as_anna).await.code, 201);
    // The administrator may also list secrets.
    assert_eq!(send(&service, create("b")).await.code, 422);
}

#[tokio::test]
async fn deep_chain_of_variables_is_evaluated() {
    let service = server().service();
    let mut variables = vec![json!({"name": "v0", "expression": "size(object.metadata.name)"})];
    for number in 1..300 {
        let expression = format!("variables.v{} + 1", number - 1);
        variables.push(json!({"name": format!("v{number}"), "expression": expression}));
    }
    let spec = json!({"variables": variables, "validations": [{"expression": "variables.v299 == 300"}]});
    policy(&service, "Validating", "deep", spec, json!({"validationActions": ["Deny"]})).await;
    assert_eq!(post(&service, CONFIG_MAPS, config_map("a")).await.code, 201);
    assert_eq!(post(&service, CONFIG_MAPS, config_map("ab")).await.code, 422);
}

#[tokio::test]
async fn mutation_precedes_validation() {
    let service = server().service();
    let expression = "Object{metadata: Object.metadata{labels: {'mutated': 'yes'}}}";
    let mutation = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
    let spec = json!({"mutations": [mutation], "reinvocationPolicy": "Never"});
    policy(&service, "Mutating", "labels", spec, json!({})).await;
    denying(&service, "labels", "object.metadata.labels.mutated == 'yes' && object.metadata.labels.x == 'y'").await;
    let created = post(&service, CONFIG_MAPS, config_map("a")).await;
    assert_eq!((created.code, &created.json()["metadata"]["labels"]), (201, &json!({"mutated": "yes", "x": "y"})));
}
