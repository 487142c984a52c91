//! Webhooks for `*/*` get requests about subresources: scales, bindings, evictions, tokens, reviews, connections.

use std::sync::Arc;

use conformance::{Target, on_each_target, unique};
use http::Method;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, Service, ServiceAccount},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass_api::GroupVersion;
use windlass_client::Client;
use windlass_webhook::{
    WebhookPath, Webhooks,
    admission::{AdmissionRequest, Request, Response},
};

use super::{Program, ca_bundle_targets, config_map, in_force, namespace, register_mutating, unregister};

/// The webhook's requests since the last read.
#[derive(Default)]
struct SeenRequests {
    requests: Mutex<Vec<AdmissionRequest>>,
    denies: Mutex<bool>,
}

impl SeenRequests {
    fn ask(&self, request: &Request) -> Response {
        self.requests.lock().push((**request).clone());
        if *self.denies.lock() { Response::denied("not today") } else { Response::allowed() }
    }

    /// Returns the requests as text: operation, resource with subresource, kind, name.
    fn take(&self) -> Vec<String> {
        let text = |request: AdmissionRequest| {
            let AdmissionRequest { operation, resource, sub_resource, kind, name, .. } = request;
            let resource = if sub_resource.is_empty() {
                resource.resource.into_owned()
            } else {
                format!("{}/{sub_resource}", resource.resource)
            };
            format!("{operation} {resource} {} {name}", kind.kind)
        };
        self.requests.lock().drain(..).map(text).collect()
    }

    fn last(&self) -> AdmissionRequest {
        self.requests.lock().last().expect("the webhook was asked").clone()
    }
}

/// Sends a request and returns the code of its error, or 0 for success.
async fn send(client: &Client, method: Method, path: &str, body: Option<Value>) -> (u16, String) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut request = client.rest(GroupVersion::new("", "v1")).verb(method).abs_path(path);
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        request = request.param(name.to_owned(), value);
    }
    if let Some(body) = body {
        request = request.header("Content-Type", "application/json").body(body.to_string());
    }
    match request.send().await {
        Ok(_) => (0, String::new()),
        Err(error) => error.status().map(|status| (status.code, status.message.clone())).unwrap_or_default(),
    }
}

async fn make(client: &Client, ns: &str) {
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": ns},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }))
    .unwrap();
    client.create(&deployment).await.unwrap();
    let service = json!({"metadata": {"name": "s", "namespace": ns}, "spec": {"ports": [{"port": 80}]}});
    client.create::<Service>(&serde_json::from_value(service).unwrap()).await.unwrap();
    let account = json!({"metadata": {"name": "robot", "namespace": ns}});
    client.create::<ServiceAccount>(&serde_json::from_value(account).unwrap()).await.unwrap();
    for name in ["p", "q"] {
        let pod = json!({
            "metadata": {"name": name, "namespace": ns},
            "spec": {"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}]},
        });
        client.create::<Pod>(&serde_json::from_value(pod).unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn webhooks_are_called_for_every_subresource() {
    on_each_target(|target| async {
        let (ns, name) = (namespace(&target).await, unique("parts"));
        make(&target.client, &ns).await;
        let asked = Arc::new(SeenRequests::default());
        let program = started(&target, &ns, &name, &asked).await;
        let core = format!("/api/v1/namespaces/{ns}");
        let binding = |pod: &str| json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"name": "n"}});
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"},
            "deleteOptions": {"gracePeriodSeconds": 0}});
        let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": ns}, "spec": {"replicas": 3}});
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview", "metadata": {"namespace": ns},
            "spec": {"user": "u", "resourceAttributes": {"namespace": ns, "verb": "get", "resource": "pods"}}});
        let cases = [
            (Method::PUT, format!("/apis/apps/v1/namespaces/{ns}/deployments/web/scale"), Some(scale), "UPDATE deployments/scale Scale web"),
            (Method::POST, format!("{core}/pods/p/binding"), Some(binding("p")), "CREATE pods/binding Binding p"),
            (Method::POST, format!("{core}/bindings"), Some(binding("q")), "CREATE bindings Binding q"),
            (Method::POST, format!("{core}/serviceaccounts/robot/token"), Some(json!({"spec": {}})), "CREATE serviceaccounts/token TokenRequest robot"),
            (Method::POST, format!("/apis/authorization.k8s.io/v1/namespaces/{ns}/localsubjectaccessreviews"), Some(review), "CREATE localsubjectaccessreviews LocalSubjectAccessReview "),
            (Method::POST, format!("{core}/pods/p/exec?command=ls"), None, "CONNECT pods/exec PodExecOptions p"),
            (Method::GET, format!("{core}/pods/p/attach?stdin=true"), None, "CONNECT pods/attach PodAttachOptions p"),
            (Method::POST, format!("{core}/pods/p/portforward?ports=80"), None, "CONNECT pods/portforward PodPortForwardOptions p"),
            (Method::GET, format!("{core}/pods/p:80/proxy/a/b"), None, "CONNECT pods/proxy PodProxyOptions p:80"),
            (Method::DELETE, format!("{core}/services/s/proxy/"), None, "CONNECT services/proxy ServiceProxyOptions s"),
            (Method::POST, format!("{core}/pods/p/eviction"), Some(eviction), "CREATE pods/eviction Eviction p"),
        ];
        *asked.denies.lock() = true;
        for (method, path, body, expected) in &cases {
            asked.take();
            let (code, message) = send(&target.client, method.clone(), path, body.clone()).await;
            assert_eq!(asked.take(), [*expected], "{}: {path}", target.name);
            assert_eq!((code, message.contains("denied the request: not today")), (403, true), "{path}: {message}");
        }
        *asked.denies.lock() = false;
        for (method, path, body, expected) in cases {
            asked.take();
            let (_, message) = send(&target.client, method, &path, body).await;
            let last = asked.last();
            assert_eq!(asked.take(), [expected], "{}: {path}: {message}", target.name);
            check(&last);
        }
        send(&target.client, Method::GET, &format!("{core}/pods/q/log"), None).await;
        assert_eq!(asked.take(), Vec::<String>::new(), "logs are read");
        let (code, message) = send(&target.client, Method::POST, &format!("{core}/pods/q/exec?command=ls&dryRun=All"), None).await;
        assert_eq!((code, message.as_str()), (400, "dryRun is not supported"));
        unregister(&target.client, &name).await;
        program.stop().await;
        target
    })
    .await;
}

/// Starts a program whose webhook gets all requests in its namespace.
async fn started(target: &Target, ns: &str, name: &str, asked: &Arc<SeenRequests>) -> Program {
    let handler = {
        let asked = asked.clone();
        move |request: &Request| asked.ask(request)
    };
    let webhooks = Webhooks::builder().handler(WebhookPath::custom("/all").unwrap(), handler).build().unwrap();
    let program = Program::start(target, ns, webhooks, |made| made.inject_into(ca_bundle_targets(name))).await;
    let mut webhook = program.webhook("/all", &["*"]);
    webhook["rules"] = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}]);
    register_mutating(&target.client, name, json!([webhook])).await;
    let config = config_map(ns, "c", &[]);
    in_force(target, name, async || {
        target.client.create(&config).dry_run().await.ok()?;
        (!asked.take().is_empty()).then_some(())
    })
    .await;
    asked.take();
    program
}

/// Checks the object and its options by kind.
fn check(request: &AdmissionRequest) {
    let object = &request.object;
    let expected = match &*request.kind.kind {
        "Scale" => {
            assert_eq!(request.old_object["spec"]["replicas"], 1);
            json!([object["spec"]["replicas"], "autoscaling/v1", 3])
        }
        "Binding" => json!([object["target"]["name"], "v1", "n"]),
        "Eviction" => json!([object["deleteOptions"]["gracePeriodSeconds"], "policy/v1", 0]),
        "TokenRequest" => json!([object["spec"]["expirationSeconds"], "authentication.k8s.io/v1", 3600]),
        "LocalSubjectAccessReview" => json!([object["spec"]["user"], "authorization.k8s.io/v1", "u"]),
        "PodExecOptions" => {
            // Options from a query get no defaults.
            assert_eq!((&object["stdout"], &object["stderr"]), (&Value::Null, &Value::Null));
            json!([object["command"][0], "v1", "ls"])
        }
        "PodAttachOptions" => json!([object["stdin"], "v1", true]),
        "PodPortForwardOptions" => json!([object["ports"][0], "v1", 80]),
        "PodProxyOptions" => json!([object["path"], "v1", "/a/b"]),
        "ServiceProxyOptions" => json!([object["path"], "v1", "/"]),
        other => panic!("nobody asks about {other}"),
    };
    assert_eq!((&expected[0], &object["apiVersion"]), (&expected[2], &expected[1]), "{object}");
    assert_eq!(object["kind"], *request.kind.kind);
    let options = match &*request.operation.to_string() {
        "CREATE" => json!("CreateOptions"),
        "UPDATE" => json!("UpdateOptions"),
        _ => Value::Null,
    };
    assert_eq!(request.options["kind"], options);
}
