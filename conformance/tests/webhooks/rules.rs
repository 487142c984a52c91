//! Selection and order of webhooks, and failure policies.

use std::sync::Arc;

use conformance::{Target, on_each_target, unique};
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass_api::ObjectExt as _;
use windlass_webhook::{
    WebhookPath, Webhooks,
    admission::{AdmissionRequest, Handler, Mutating, Request, Response},
};

use super::{Program, ca_bundle_targets, config_map, in_force, namespace, register_mutating, unregister};

/// Returns a webhook that appends its name to an annotation with each call.
fn signing(name: &'static str) -> impl Handler {
    Mutating::<ConfigMap, _>::new(move |config: &mut ConfigMap, _: &Request| {
        let signatures = config.annotations_mut().entry("signatures".to_owned()).or_default();
        signatures.push_str(name);
        Ok(())
    })
}

/// A webhook that never responds.
struct Silent;

impl Handler for Silent {
    async fn handle(&self, _: &Request) -> Response {
        std::future::pending().await
    }
}

fn path(path: &str) -> WebhookPath {
    WebhookPath::custom(path).unwrap()
}

async fn start(target: &Target, ns: &str, name: &str, webhooks: Webhooks) -> Program {
    Program::start(target, ns, webhooks, |made| made.inject_into(ca_bundle_targets(name))).await
}

/// Returns the webhook with changes.
fn but(mut webhook: Value, name: &str, changes: Value) -> Value {
    webhook["name"] = format!("{name}.shop.example.com").into();
    webhook.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    webhook
}

async fn signatures(target: &Target, config: &ConfigMap) -> String {
    let made = target.client.create(config).dry_run().await.unwrap();
    made.annotations().get("signatures").cloned().unwrap_or_default()
}

#[tokio::test]
async fn webhooks_match_by_rules_and_are_reinvoked_after_change() {
    on_each_target(|target| async {
        let (ns, name) = (namespace(&target).await, unique("order"));
        let webhooks = Webhooks::builder().handler(path("/a"), signing("a")).handler(path("/b"), signing("b"));
        let program = start(&target, &ns, &name, webhooks.build().unwrap()).await;
        let (a, b) = (program.webhook("/a", &["CREATE"]), program.webhook("/b", &["CREATE"]));
        let labeled = |label: &str| json!({"objectSelector": {"matchLabels": {label: "yes"}}});
        let others = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["secrets"], "operations": ["*"]}]);
        let webhooks = [
            but(a.clone(), "first", json!({})),
            but(b.clone(), "second", labeled("second")),
            but(a.clone(), "again", json!({"reinvocationPolicy": "IfNeeded", "objectSelector": labeled("again")["objectSelector"]})),
            but(b.clone(), "last", labeled("last")),
            but(a.clone(), "secrets", json!({"rules": others})),
            but(a, "updates", json!({"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["UPDATE"]}]})),
            but(b, "elsewhere", json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}})),
        ];
        register_mutating(&target.client, &name, webhooks.to_vec().into()).await;
        let labeled = |labels: &[&str]| {
            let mut config = config_map(&ns, "c", &[]);
            config.labels_mut().extend(labels.iter().map(|label| ((*label).to_owned(), "yes".to_owned())));
            config
        };
        let all = ["second", "again", "last"];
        in_force(&target, &name, async || (signatures(&target, &labeled(&[])).await == "a").then_some(())).await;
        assert_eq!(signatures(&target, &labeled(&all[..1])).await, "ab");
        // The last webhook changes the object after the previous one, which is called again.
        assert_eq!(signatures(&target, &labeled(&all)).await, "ababa");
        assert_eq!(signatures(&target, &labeled(&all[1..2])).await, "aa", "nobody came after it");
        unregister(&target.client, &name).await;
        program.stop().await;
        target
    })
    .await;
}

#[tokio::test]
async fn failure_policy_decides_writes_without_a_response() {
    on_each_target(|target| async {
        let (ns, name) = (namespace(&target).await, unique("failing"));
        let webhooks = Webhooks::builder().handler(path("/a"), signing("a")).handler(path("/silent"), Silent);
        let program = start(&target, &ns, &name, webhooks.build().unwrap()).await;
        let labeled = |label: &str, policy: &str| {
            json!({"objectSelector": {"matchLabels": {label: "yes"}}, "failurePolicy": policy, "timeoutSeconds": 1})
        };
        let (silent, lost) = (program.webhook("/silent", &["CREATE"]), program.webhook("/nowhere", &["CREATE"]));
        let webhooks = [
            but(silent.clone(), "silent", labeled("silent", "Fail")),
            but(lost.clone(), "lost", labeled("lost", "Fail")),
            but(silent, "shy", labeled("shy", "Ignore")),
            but(lost, "ignored", labeled("ignored", "Ignore")),
            but(program.webhook("/a", &["CREATE"]), "a", json!({})),
        ];
        register_mutating(&target.client, &name, webhooks.to_vec().into()).await;
        let labeled = |label: &str| {
            let mut config = config_map(&ns, "c", &[]);
            config.labels_mut().insert(label.to_owned(), "yes".to_owned());
            config
        };
        in_force(&target, &name, async || (signatures(&target, &labeled("none")).await == "a").then_some(())).await;
        for label in ["silent", "lost"] {
            let error = target.client.create(&labeled(label)).dry_run().await.unwrap_err();
            let status = error.status().unwrap();
            let beginning = format!(
                r#"Internal error occurred: failed calling webhook "{label}.shop.example.com": failed to call webhook: "#
            );
            assert_eq!((status.code, status.reason.as_deref()), (500, Some("InternalError")));
            assert!(status.message.starts_with(&beginning), "{}", status.message);
        }
        for label in ["shy", "ignored"] {
            assert_eq!(signatures(&target, &labeled(label)).await, "a");
        }
        unregister(&target.client, &name).await;
        program.stop().await;
        target
    })
    .await;
}

#[tokio::test]
async fn webhook_request_has_user_operation_and_object() {
    on_each_target(|target| async {
        let (ns, name) = (namespace(&target).await, unique("told"));
        let told: Arc<Mutex<Vec<AdmissionRequest>>> = Arc::default();
        let record = {
            let told = told.clone();
            move |request: &Request| {
                told.lock().push((**request).clone());
                Response::allowed().with_warnings(["recorded"])
            }
        };
        let webhooks = Webhooks::builder().handler(path("/record"), record).build().unwrap();
        let program = start(&target, &ns, &name, webhooks).await;
        let webhook = program.webhook("/record", &["*"]);
        register_mutating(&target.client, &name, json!([webhook])).await;
        let config = config_map(&ns, "c", &[("a", "1")]);
        in_force(&target, &name, async || {
            target.client.create(&config).dry_run().await.unwrap();
            (!told.lock().is_empty()).then_some(())
        })
        .await;
        let last = || told.lock().pop().unwrap();
        let expected = json!({"group": "", "version": "v1", "resource": "configmaps"});

        let mut made = target.client.create(&config).await.unwrap();
        let request = last();
        assert_eq!((request.operation.to_string(), request.dry_run), ("CREATE".to_owned(), false));
        assert_eq!((&*request.name, &*request.namespace), ("c", &*ns));
        assert_eq!(serde_json::to_value(&request.resource).unwrap(), expected);
        assert_eq!(request.request_resource.as_ref(), Some(&request.resource));
        assert_eq!((&*request.kind.kind, request.request_kind.as_ref()), ("ConfigMap", Some(&request.kind)));
        assert_eq!((&request.object["data"], &request.old_object), (&json!({"a": "1"}), &Value::Null));
        assert_eq!((&request.object["apiVersion"], &request.object["kind"]), (&json!("v1"), &json!("ConfigMap")));
        assert!(request.object["metadata"]["managedFields"][0]["fieldsV1"].is_object());
        assert_eq!(request.options["kind"], "CreateOptions");
        assert!(request.user_info.groups.unwrap().contains(&"system:masters".to_owned()));

        made.data = Some([("a".to_owned(), "2".to_owned())].into());
        let made = target.client.update(&made).await.unwrap();
        let request = last();
        assert_eq!(request.operation.to_string(), "UPDATE");
        assert_eq!((&request.object["data"]["a"], &request.old_object["data"]["a"]), (&json!("2"), &json!("1")));
        assert_eq!(request.options["kind"], "UpdateOptions");

        target.client.delete::<ConfigMap>(&made.object_ref()).dry_run().await.unwrap();
        let request = last();
        assert_eq!((request.operation.to_string(), request.dry_run), ("DELETE".to_owned(), true));
        assert_eq!((&request.object, &request.old_object["data"]["a"]), (&Value::Null, &json!("2")));
        assert_eq!(request.options["dryRun"], json!(["All"]));
        unregister(&target.client, &name).await;
        program.stop().await;
        target
    })
    .await;
}
