//! Tests of API versions that Kubernetes has removed.

use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time;

use super::{Answer, DEADLINE, accepting, frame, get, post, watch, with_body};
use crate::{
    kinds::RuntimeConfig,
    server::{Server, Service},
};

/// The media type of the aggregated discovery document.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const BUDGETS: &str = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets";

/// Returns a server with all removed versions.
fn service() -> Service {
    let all: Vec<String> = RuntimeConfig::versions().collect();
    Server::builder().runtime_config(all.join(",").parse().unwrap()).build().service()
}

/// A kind of a removed version, with a small object.
struct Case {
    group: &'static str,
    /// The plural name, after the namespace of a namespaced kind.
    path: &'static str,
    kind: &'static str,
    object: Value,
    /// A merge patch, and a pointer to the value that it sets.
    patch: Value,
    set: &'static str,
    warning: String,
}

impl Case {
    fn collection(&self, version: &str) -> String {
        format!("/apis/{}/{version}/{}", self.group, self.path)
    }

    fn api_version(&self, version: &str) -> String {
        format!("{}/{version}", self.group)
    }

    fn object(&self, name: &str) -> Value {
        let mut object = self.object.clone();
        object["apiVersion"] = self.api_version("v1beta1").into();
        object["kind"] = self.kind.into();
        object["metadata"]["name"] = name.into();
        object
    }
}

/// Returns a case of a version `v1beta1` with the successor `v1`. `set` is the pointer to a value that the patch sets.
fn case(
    group: &'static str,
    path: &'static str,
    kind: &'static str,
    lifecycle: &str,
    object: Value,
    set: (&'static str, Value),
) -> Case {
    let (set, value) = set;
    let mut patch = value;
    for name in set.split('/').skip(1).collect::<Vec<_>>().into_iter().rev() {
        patch = json!({name: patch});
    }
    let instead =
        if matches!(kind, "Event" | "IngressClass") { String::new() } else { format!("; use {group}/v1 {kind}") };
    let warning = format!("{group}/v1beta1 {kind} is {lifecycle}{instead}");
    Case { group, path, kind, object, patch, set, warning }
}

/// One case for each removed version, except that of CustomResourceDefinitions.
fn cases() -> Vec<Case> {
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let webhook = json!({"name": "a.ex.io", "clientConfig": {"url": "https://ex.io"}, "sideEffects": "None"});
    let regarding = json!({"kind": "Pod", "namespace": "default", "name": "p"});
    let path = json!({"path": "/", "backend": {"serviceName": "s", "servicePort": 80}});
    vec![
        case(
            "policy",
            "namespaces/default/poddisruptionbudgets",
            "PodDisruptionBudget",
            "deprecated in v1.21+, unavailable in v1.25+",
            json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}),
            ("/spec/minAvailable", json!(2)),
        ),
        case(
            "batch",
            "namespaces/default/cronjobs",
            "CronJob",
            "deprecated in v1.21+, unavailable in v1.25+",
            json!({"spec": {"schedule": "1 * * * *", "jobTemplate": {"spec": {"template": pod}}}}),
            ("/spec/schedule", json!("2 * * * *")),
        ),
        case(
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            "deprecated in v1.16+, unavailable in v1.22+",
            json!({"metadata": {"labels": {"a": "b"}}, "webhooks": [webhook]}),
            ("/metadata/labels/a", json!("c")),
        ),
        case(
            "coordination.k8s.io",
            "namespaces/default/leases",
            "Lease",
            "deprecated in v1.19+, unavailable in v1.22+",
            json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}),
            ("/spec/holderIdentity", json!("b")),
        ),
        case(
            "events.k8s.io",
            "namespaces/default/events",
            "Event",
            "deprecated in v1.22+, unavailable in v1.25+",
            json!({"metadata": {"labels": {"a": "b"}}, "regarding": regarding, "note": "n"}),
            ("/metadata/labels/a", json!("c")),
        ),
        case(
            "networking.k8s.io",
            "namespaces/default/ingresses",
            "Ingress",
            "deprecated in v1.19+, unavailable in v1.22+",
            json!({"spec": {"ingressClassName": "c", "rules": [{"host": "a.ex.io", "http": {"paths": [path]}}]}}),
            ("/spec/ingressClassName", json!("d")),
        ),
        case(
            "rbac.authorization.k8s.io",
            "namespaces/default/rolebindings",
            "RoleBinding",
            "deprecated in v1.17+, unavailable in v1.22+",
            json!({"metadata": {"labels": {"a": "b"}}, "roleRef": {"kind": "ClusterRole", "name": "view"}}),
            ("/metadata/labels/a", json!("c")),
        ),
        case(
            "storage.k8s.io",
            "storageclasses",
            "StorageClass",
            "deprecated in v1.19+, unavailable in v1.22+",
            json!({"provisioner": "ex.io/p", "allowVolumeExpansion": false}),
            ("/allowVolumeExpansion", json!(true)),
        ),
    ]
}

/// Returns the type and the apiVersion of the next event of a watch.
async fn event(body: &mut crate::http::Body) -> String {
    let text = time::timeout(DEADLINE, frame(body)).await.unwrap().unwrap();
    let event: Value = serde_json::from_str(&text).unwrap();
    format!("{} {}", event["type"].as_str().unwrap(), event["object"]["apiVersion"].as_str().unwrap())
}

fn assert_code(answer: &Answer, code: u16) {
    assert_eq!(answer.code, code, "{}", answer.body);
}

#[tokio::test]
async fn removed_versions_are_not_served_by_default() {
    let service = Server::builder().build().service();
    let groups = get(&service, "/apis").await.body;
    let aggregated = accepting(&service, "/apis", AGGREGATED).await.body;
    let openapi = get(&service, "/openapi/v3").await.body;
    for version in RuntimeConfig::versions() {
        assert_code(&get(&service, &format!("/apis/{version}")).await, 404);
        assert!(
            !groups.contains(&format!("{version}\"")) && !openapi.contains(&format!("apis/{version}\"")),
            "{version}"
        );
    }
    assert!(!aggregated.contains("v1beta1"), "{aggregated}");
    for case in cases() {
        assert_code(&post(&service, &case.collection("v1beta1"), case.object("a")).await, 404);
    }
}

#[tokio::test]
async fn removed_versions_are_discovered() {
    let service = service();
    let groups = get(&service, "/apis").await.body;
    let aggregated = accepting(&service, "/apis", AGGREGATED).await.json();
    let swagger = get(&service, "/openapi/v2").await.json();
    let definition = ("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition");
    let others = cases().into_iter().map(|case| (case.group, case.path, case.kind));
    let (version, successor) = ("v1beta1", "v1");
    for (group, path, kind) in others.chain([definition]) {
        assert!(groups.contains(&format!("{group}/{version}\"")), "{groups}");
        let group_document = get(&service, &format!("/apis/{group}")).await.json();
        assert_eq!(group_document["preferredVersion"]["version"], successor, "{group}");
        let plural = path.rsplit('/').next().unwrap();
        let named = |list: &Value, key: &str, name: &str| -> Value {
            list.as_array().into_iter().flatten().find(|item| item[key] == name).cloned().unwrap_or_default()
        };
        let of_group = aggregated["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == group);
        let of_version = named(&of_group.unwrap()["versions"], "version", version);
        assert!(named(&of_version["resources"], "resource", plural).is_object(), "{group}: {of_version}");
        let hash = async |version: &str| {
            let list = get(&service, &format!("/apis/{group}/{version}")).await.json();
            named(&list["resources"], "name", plural)["storageVersionHash"].clone()
        };
        let (own, other) = (hash(version).await, hash(successor).await);
        assert!(own.is_string() && own == other, "{group}: {own} {other}");
        let name = format!("{version}.{group}");
        assert_code(&get(&service, &format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}")).await, 200);

        // Each reference of the documents has a schema, and the kind has one.
        let document = get(&service, &format!("/openapi/v3/apis/{group}/{version}")).await;
        let schemas = document.json()["components"]["schemas"].clone();
        for reference in document.body.split("#/components/schemas/").skip(1) {
            let reference = reference.split('"').next().unwrap();
            assert!(schemas.get(reference).is_some(), "{group}: {reference}");
        }
        let kinds = json!([{"group": group, "kind": kind, "version": version}]);
        for schemas in [&schemas, &swagger["definitions"]] {
            let is_it = |schema: &Value| schema["x-kubernetes-group-version-kind"] == kinds;
            assert!(schemas.as_object().unwrap().values().any(is_it), "{group} {kind}");
        }
    }
}

#[tokio::test]
async fn objects_are_the_same_in_both_versions() {
    let service = service();
    for case in cases() {
        let (old, new) = (case.collection("v1beta1"), case.collection("v1"));
        let (old_version, new_version) = (case.api_version("v1beta1"), case.api_version("v1"));
        let mut watches = Vec::new();
        for collection in [&old, &new] {
            watches.push(watch(&service, &format!("{collection}?watch=true&fieldSelector=metadata.name=a")).await);
        }

        let created = post(&service, &format!("{old}?fieldValidation=Strict"), case.object("a")).await;
        assert_code(&created, 201);
        assert_eq!(created.header("warning"), format!("299 - \"{}\"", case.warning));
        assert_eq!(created.json()["apiVersion"], old_version);
        let (shown, stored) = (get(&service, &format!("{old}/a")).await, get(&service, &format!("{new}/a")).await);
        assert_eq!((shown.json(), stored.header("warning")), (created.json(), ""));
        let stored = stored.json();
        assert_eq!((&stored["apiVersion"], stored["metadata"]["uid"].is_string()), (&json!(new_version), true));

        // A write in the successor is read in the removed version.
        let (merge, apply) = ("application/merge-patch+json", "application/apply-patch+yaml");
        let patched = with_body(&service, "PATCH", &format!("{new}/a"), merge, &case.patch).await;
        assert_code(&patched, 200);
        let list = get(&service, &old).await.json();
        assert_eq!(list["apiVersion"], old_version);
        let item = &list["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == "a").unwrap();
        assert_eq!(item.pointer(case.set), case.patch.pointer(case.set), "{item}");

        // An apply in the removed version conflicts with that write. Forced, it takes the field.
        let path = format!("{old}/a?fieldManager=m");
        let refused = with_body(&service, "PATCH", &path, apply, case.object("a")).await;
        assert_eq!(refused.code, 409, "{}", refused.body);
        let applied = with_body(&service, "PATCH", &format!("{path}&force=true"), apply, case.object("a")).await;
        assert_code(&applied, 200);
        let applied = applied.json();
        assert_eq!(applied.pointer(case.set), case.object("a").pointer(case.set), "{applied}");
        let managers = applied["metadata"]["managedFields"].as_array().unwrap();
        let own = managers.iter().find(|manager| manager["manager"] == "m").unwrap();
        assert_eq!((&own["operation"], &own["apiVersion"]), (&json!("Apply"), &json!(old_version)));
        let again = with_body(&service, "PATCH", &path, apply, case.object("a")).await.json();
        assert_eq!(again["metadata"]["resourceVersion"], applied["metadata"]["resourceVersion"]);

        let put = with_body(&service, "PUT", &format!("{old}/a"), "application/json", &applied).await;
        assert_code(&put, 200);
        assert_eq!(put.json()["metadata"]["resourceVersion"], applied["metadata"]["resourceVersion"]);
        assert_code(&with_body(&service, "DELETE", &format!("{old}/a"), "application/json", "").await, 200);
        for (watch, api_version) in watches.iter_mut().zip([&old_version, &new_version]) {
            let expected = ["ADDED", "MODIFIED", "MODIFIED", "DELETED"];
            for kind in expected {
                assert_eq!(event(watch.body_mut()).await, format!("{kind} {api_version}"));
            }
        }
    }
}

#[tokio::test]
async fn empty_selector_of_a_v1beta1_budget_selects_no_pods() {
    let service = service();
    let v1 = BUDGETS.replace("v1beta1", "v1");
    let create = async |collection: &str, name: &str| {
        let budget = json!({"metadata": {"name": name}, "spec": {"maxUnavailable": 1, "selector": {}}});
        assert_code(&post(&service, collection, budget).await, 201);
    };
    create(BUDGETS, "none").await;
    create(&v1, "all").await;
    let selector = async |collection: &str, name: &str| {
        get(&service, &format!("{collection}/{name}")).await.json()["spec"]["selector"].clone()
    };
    let label = |operator: &str| {
        json!({"matchExpressions": [
            {"key": "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match", "operator": operator},
        ]})
    };
    assert_eq!((selector(BUDGETS, "none").await, selector(&v1, "none").await), (json!({}), label("Exists")));
    assert_eq!((selector(BUDGETS, "all").await, selector(&v1, "all").await), (label("DoesNotExist"), json!({})));
    // The selector of all pods can be written back.
    let shown = get(&service, &format!("{BUDGETS}/all")).await.json();
    assert_code(&with_body(&service, "PUT", &format!("{BUDGETS}/all"), "application/json", shown).await, 200);
    assert_eq!(selector(&v1, "all").await, json!({}));
}

#[tokio::test]
async fn evictions_of_v1beta1_are_accepted() {
    let service = service();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_code(&post(&service, pods, pod).await, 201);
    let eviction = json!({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "p"},
        "deleteOptions": {"gracePeriodSeconds": 0}});
    assert_code(&post(&service, &format!("{pods}/p/eviction"), eviction).await, 201);
    assert_code(&get(&service, &format!("{pods}/p")).await, 404);
}

#[tokio::test]
async fn removed_versions_are_encoded_in_protobuf() {
    let service = service();
    for case in cases() {
        let collection = case.collection("v1beta1");
        assert_code(&post(&service, &collection, case.object("a")).await, 201);
        let request = http::Request::get(&collection).header("accept", "application/vnd.kubernetes.protobuf");
        let response = tower::ServiceExt::oneshot(service.clone(), request.body(String::new()).unwrap()).await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/vnd.kubernetes.protobuf");
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains(&case.api_version("v1beta1")), "{text}");
    }
}

#[tokio::test]
async fn webhooks_of_v1beta1_have_its_defaults() {
    let service = service();
    let case = cases().into_iter().find(|case| case.kind == "ValidatingWebhookConfiguration").unwrap();
    let mut configuration = case.object("a");
    configuration["webhooks"][0]["sideEffects"].take();
    assert_code(&post(&service, &case.collection("v1beta1"), configuration).await, 201);
    let webhook = get(&service, &format!("{}/a", case.collection("v1"))).await.json()["webhooks"][0].clone();
    let found = ["failurePolicy", "matchPolicy", "sideEffects", "timeoutSeconds"].map(|field| webhook[field].clone());
    assert_eq!(found, [json!("Ignore"), json!("Exact"), json!("Unknown"), json!(30)]);
    assert_eq!(webhook["admissionReviewVersions"], json!(["v1beta1"]));
}

#[tokio::test]
async fn events_of_v1beta1_have_the_rules_of_the_core_group() {
    let service = service();
    let case = cases().into_iter().find(|case| case.kind == "Event").unwrap();
    assert_code(&post(&service, &case.collection("v1beta1"), case.object("a")).await, 201);
    let event = get(&service, "/api/v1/namespaces/default/events/a").await.json();
    assert_eq!((&event["message"], &event["involvedObject"]["name"]), (&json!("n"), &json!("p")));
    let mut other = case.object("b");
    other["apiVersion"] = "events.k8s.io/v1".into();
    assert_code(&post(&service, &case.collection("v1"), other).await, 422);
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions";

/// Returns a definition as old operators have it: its schema is not structural.
fn definition() -> Value {
    let port = json!({"oneOf": [{"type": "string"}, {"type": "integer"}]});
    let spec = json!({"properties": {"size": {"type": "integer", "minimum": 1}, "port": port}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.ex.io"},
        "spec": {
            "group": "ex.io", "version": "v1", "names": {"plural": "foos", "kind": "Foo"},
            "subresources": {"status": {}},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "JSONPath": ".spec.size"}],
            "validation": {"openAPIV3Schema": {"properties": {"spec": spec}}},
        },
    })
}

#[tokio::test]
async fn definition_of_v1beta1_serves_its_resource() {
    let service = service();
    let v1 = DEFINITIONS.replace("v1beta1", "v1");
    let mut watches = [
        watch(&service, &format!("{DEFINITIONS}?watch=true")).await,
        watch(&service, &format!("{v1}?watch=true")).await,
    ];
    let created = post(&service, &format!("{DEFINITIONS}?fieldValidation=Strict"), definition()).await;
    assert_code(&created, 201);
    let warning = "apiextensions.k8s.io/v1beta1 CustomResourceDefinition is deprecated in v1.16+, unavailable in v1.22+; \
                   use apiextensions.k8s.io/v1 CustomResourceDefinition";
    assert_eq!(created.header("warning"), format!("299 - \"{warning}\""));
    for (watch, version) in watches.iter_mut().zip(["v1beta1", "v1"]) {
        assert_eq!(event(watch.body_mut()).await, format!("ADDED apiextensions.k8s.io/{version}"));
    }
    let path = format!("{DEFINITIONS}/foos.ex.io");
    let established = async {
        while !get(&service, &path).await.body.contains(r#""type":"Established","status":"True""#) {
            tokio::task::yield_now().await;
        }
    };
    time::timeout(DEADLINE, established).await.unwrap();

    let foos = "/apis/ex.io/v1/namespaces/default/foos";
    let foo = |name: &str, size: i64| {
        json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": name},
            "spec": {"size": size, "port": "http", "unknown": {"kept": true}}})
    };
    let kept = post(&service, foos, foo("a", 2)).await;
    assert_code(&kept, 201);
    assert_eq!(kept.json()["spec"], foo("a", 2)["spec"]);
    assert_code(&post(&service, foos, foo("b", 0)).await, 422);
    let table = accepting(&service, foos, "application/json;as=Table;v=v1;g=meta.k8s.io").await.json();
    assert_eq!((&table["columnDefinitions"][1]["name"], &table["rows"][0]["cells"][1]), (&json!("Size"), &json!(2)));
    let status = with_body(
        &service,
        "PATCH",
        &format!("{foos}/a/status"),
        "application/merge-patch+json",
        json!({"status": {"x": 1}}),
    )
    .await;
    assert_eq!(status.json()["status"]["x"], 1, "{}", status.body);
}

#[tokio::test]
async fn definition_of_v1beta1_can_be_written_again() {
    let service = service();
    let v1 = DEFINITIONS.replace("v1beta1", "v1");
    let path = format!("{DEFINITIONS}/foos.ex.io");
    assert_code(&post(&service, DEFINITIONS, definition()).await, 201);
    let stored = get(&service, &format!("{v1}/foos.ex.io")).await.json();
    let version = &stored["spec"]["versions"][0];
    assert_eq!((&stored["spec"]["scope"], &version["name"]), (&json!("Namespaced"), &json!("v1")));
    assert_eq!(version["additionalPrinterColumns"][0]["jsonPath"], ".spec.size");
    assert_eq!(version["schema"]["openAPIV3Schema"]["x-kubernetes-preserve-unknown-fields"], true);

    let shown = get(&service, &path).await.json();
    assert_eq!((&shown["spec"]["preserveUnknownFields"], &shown["spec"]["version"]), (&json!(true), &json!("v1")));
    assert_eq!(shown["spec"]["additionalPrinterColumns"][0]["JSONPath"], ".spec.size");
    let generation = |answer: &Answer| (answer.code, answer.json()["metadata"]["generation"].clone());
    let put = with_body(&service, "PUT", &path, "application/json", &shown).await;
    assert_eq!(generation(&put), (200, json!(1)));
    // Clients that do not read before they write send the original schema.
    for (kind, path) in [
        ("application/merge-patch+json", path.clone()),
        ("application/apply-patch+yaml", format!("{path}?fieldManager=m&force=true")),
    ] {
        let again = with_body(&service, "PATCH", &path, kind, definition()).await;
        assert_eq!(generation(&again), (200, json!(1)), "{kind}: {}", again.body);
    }
    // A write in v1 is read in v1beta1.
    let names = json!({"spec": {"names": {"shortNames": ["fo"]}}});
    assert_code(
        &with_body(&service, "PATCH", &format!("{v1}/foos.ex.io"), "application/merge-patch+json", names).await,
        200,
    );
    let list = get(&service, DEFINITIONS).await.json();
    assert_eq!(list["items"][0]["spec"]["names"]["shortNames"], json!(["fo"]));
    assert_code(&with_body(&service, "DELETE", &path, "application/json", "").await, 200);
}
