//! Attacks with input that is small for the sender and expensive for the server.

use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::{
    catalog::{AttackResult, Error},
    server::Server,
    wire::{Answer, PendingRequest},
};

const DEFAULT: &str = "/api/v1/namespaces/default";
const ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Expects a 4xx response. Any other response means that the server failed or accepted the request.
fn refused(answer: &Answer) -> AttackResult {
    AttackResult::when((400..500).contains(&answer.code), answer.brief())
}

async fn post(server: &Server, path: &str, object: &Value) -> Result<Answer, Error> {
    PendingRequest::new(server, "POST", path).json(object).send().await
}

pub(crate) async fn yaml_aliases(server: Server) -> Result<AttackResult, Error> {
    let review = format!(
        "apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\nmetadata: {{annotations: {{a: &a \"{}\"}}}}\nspec:\n  \
         resourceAttributes: {{fieldSelector: {{requirements: [{}]}}}}\n",
        "x".repeat(500 << 10),
        "{key: *a},".repeat(5_000)
    );
    let asks =
        (0..4).map(|_| PendingRequest::new(&server, "POST", ACCESS).body("application/yaml", review.clone()).send());
    let answers = try_join_all(asks).await?;
    Ok(AttackResult::when(answers.iter().all(|answer| answer.code < 500), answers[0].brief()))
}

pub(crate) async fn yaml_doubling(server: Server) -> Result<AttackResult, Error> {
    let mut text = String::from("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: doubled}\nx0: &x0 [a, a]\n");
    for level in 1..30 {
        text.push_str(&format!("x{level}: &x{level} [*x{0}, *x{0}]\n", level - 1));
    }
    let answer = PendingRequest::new(&server, "POST", &format!("{DEFAULT}/configmaps"))
        .body("application/yaml", text)
        .send()
        .await?;
    Ok(refused(&answer))
}

pub(crate) async fn invalid_requirements(server: Server) -> Result<AttackResult, Error> {
    let requirements: Vec<Value> =
        (0..60_000).map(|number| json!({"key": format!("!{number}"), "operator": "x"})).collect();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "invalid"},
        "spec": {
            "selector": {"matchExpressions": requirements},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
        },
    });
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let answers = try_join_all((0..4).map(|_| post(&server, path, &deployment))).await?;
    let largest = answers.iter().map(|answer| answer.body.len()).max().unwrap_or_default() >> 10;
    let all_refused = answers.iter().all(|answer| answer.code == 422);
    Ok(AttackResult::when(all_refused, format!("{} with {largest} KiB", answers[0].code)))
}

pub(crate) async fn service_ports(server: Server) -> Result<AttackResult, Error> {
    let ports: Vec<Value> = (1..=60_000).map(|port| json!({"name": format!("p{port}"), "port": port})).collect();
    let service =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "ports"}, "spec": {"ports": ports}});
    Ok(finished(&post(&server, &format!("{DEFAULT}/services?dryRun=All"), &service).await?))
}

pub(crate) async fn slice_addresses(server: Server) -> Result<AttackResult, Error> {
    let address = |number: u32| format!("10.{}.{}.{}", number >> 16, (number >> 8) & 255, number & 255);
    let endpoints: Vec<Value> = (0..60_000).map(|number| json!({"addresses": [address(number)]})).collect();
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "addresses"},
        "addressType": "IPv4", "endpoints": endpoints,
    });
    Ok(refused(&post(&server, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice).await?))
}

pub(crate) async fn pod_volumes(server: Server) -> Result<AttackResult, Error> {
    let volumes: Vec<Value> = (0..20_000).map(|number| json!({"name": format!("v{number}"), "emptyDir": {}})).collect();
    let mounts: Vec<Value> =
        (0..20_000).map(|number| json!({"name": format!("v{number}"), "mountPath": format!("/{number}")})).collect();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "volumes"},
        "spec": {
            "automountServiceAccountToken": false, "volumes": volumes,
            "containers": [{"name": "a", "image": "a", "volumeMounts": mounts}],
        },
    });
    Ok(finished(&post(&server, &format!("{DEFAULT}/pods?dryRun=All"), &pod).await?))
}

pub(crate) async fn ingress_rules(server: Server) -> Result<AttackResult, Error> {
    let rules: Vec<Value> = (0..20_000)
        .map(|number| {
            let backend = json!({"service": {"name": "a", "port": {"number": 1}}});
            json!({"host": format!("h{number}.x"), "http": {"paths": [{"pathType": "Exact", "path": "/", "backend": backend}]}})
        })
        .collect();
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "rules"}, "spec": {"rules": rules},
    });
    Ok(finished(&post(&server, "/apis/networking.k8s.io/v1/namespaces/default/ingresses", &ingress).await?))
}

pub(crate) async fn certificate_usages(server: Server) -> Result<AttackResult, Error> {
    let usages: Vec<String> = (0..100_000).map(|number| format!("usage {number}")).collect();
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "usages"},
        "spec": {"request": "", "signerName": "example.com/any", "usages": usages},
    });
    Ok(refused(&post(&server, "/apis/certificates.k8s.io/v1/certificatesigningrequests", &request).await?))
}

pub(crate) async fn oversized_object(server: Server) -> Result<AttackResult, Error> {
    let object = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "oversized"},
        "spec": {"automountServiceAccountToken": false, "containers": [{
            "name": "a", "image": "a", "args": ["x".repeat(1_677_721)],
        }]},
    });
    let answer = post(&server, &format!("{DEFAULT}/pods"), &object).await?;
    Ok(AttackResult::when(answer.code >= 400, answer.brief()))
}

pub(crate) async fn json_patch(server: Server) -> Result<AttackResult, Error> {
    let data: Value = (0..10_000).map(|number| (format!("k{number}"), Value::from("v"))).collect();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "patched"}, "data": data});
    post(&server, &format!("{DEFAULT}/configmaps"), &object).await?;
    let operations: Vec<Value> = (0..10_000)
        .map(|number| json!({"op": "copy", "from": format!("/data/k{number}"), "path": format!("/data/c{number}")}))
        .collect();
    let patch = Value::from(operations).to_string();
    let path = format!("{DEFAULT}/configmaps/patched");
    let answer = PendingRequest::new(&server, "PATCH", &path).body("application/json-patch+json", patch).send().await?;
    Ok(finished(&answer))
}

pub(crate) async fn pattern(server: Server) -> Result<AttackResult, Error> {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "text": {"type": "string", "pattern": "((a{1000}){1000}){1000}"},
        "more": {"type": "string", "pattern": format!("({})", r"(\pL{900}|\w{900}){9}".repeat(20))},
    }}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "patterns.attack.example"},
        "spec": {
            "group": "attack.example", "scope": "Namespaced", "names": {"plural": "patterns", "kind": "Pattern"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    Ok(refused(&post(&server, path, &definition).await?))
}

pub(crate) async fn deep_json(server: Server) -> Result<AttackResult, Error> {
    let object = format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"deep\"}},\"data\":{}{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let path = format!("{DEFAULT}/configmaps");
    Ok(refused(&PendingRequest::new(&server, "POST", &path).body("application/json", object).send().await?))
}

/// The server may accept or reject the request, but must respond.
fn finished(answer: &Answer) -> AttackResult {
    AttackResult::when(answer.code < 500, answer.brief())
}
