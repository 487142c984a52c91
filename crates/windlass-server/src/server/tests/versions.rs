//! Tests of servers of other Kubernetes versions than the default one.

use serde_json::{Value, json};

use tokio::time;

use super::{Answer, DEADLINE, get, post, with_body};
use crate::{KubernetesVersion, server::Server};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Returns the definition of `foos.ex.io` with a schema of `spec`.
fn definition(spec: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({"metadata": {"name": "foos.ex.io"}, "spec": {"group": "ex.io", "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

/// Creates an object of `foos.ex.io` on a server of a version, and returns the message of the response.
async fn foo_message(version: KubernetesVersion, definition: &Value, spec: &Value) -> String {
    let service = Server::builder().kubernetes(version).build().service();
    let defined = post(&service, DEFINITIONS, definition).await;
    assert_eq!(defined.code, 201, "{version}: {}", defined.body);
    let established = async {
        let path = format!("{DEFINITIONS}/foos.ex.io");
        while !get(&service, &path).await.body.contains(r#""type":"Established","status":"True""#) {
            tokio::task::yield_now().await;
        }
    };
    time::timeout(DEADLINE, established).await.unwrap();
    let foo = json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "x"}, "spec": spec});
    let answer = post(&service, "/apis/ex.io/v1/namespaces/default/foos", &foo).await.json();
    answer["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn server_of_an_older_version_has_its_resources_and_fields() {
    let new = Server::builder().build().service();
    let old = Server::builder().kubernetes(KubernetesVersion::V1_35).build().service();
    let policies = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
    assert_eq!((get(&new, policies).await.code, get(&old, policies).await.code), (200, 404));
    let version = get(&old, "/version").await.json();
    assert_eq!((&version["minor"], &version["minCompatibilityMinor"]), (&json!("35"), &json!("34")));
    let document = get(&old, "/openapi/v3/api/v1").await.json();
    assert_eq!(document["info"]["version"], "1.35");
    assert!(document["components"]["schemas"].get("io.k8s.api.core.v1.VolumeStatus").is_none());

    // Since 1.36, a service name may start with a digit, and pods have `schedulingGroup`.
    let service = json!({"metadata": {"name": "1a"}, "spec": {"ports": [{"port": 80}]}});
    let services = "/api/v1/namespaces/default/services";
    let created = |server| with_body(server, "POST", services, "application/json", &service);
    assert_eq!((created(&new).await.code, created(&old).await.code), (201, 422));
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "i"}], "schedulingGroup": {"podGroupName": "g"},
    }});
    let pods = "/api/v1/namespaces/default/pods?fieldValidation=Strict";
    let created = with_body(&old, "POST", pods, "application/json", &pod).await;
    assert_eq!(created.code, 400, "{}", created.body);
    assert!(created.body.contains("unknown field \\\"spec.schedulingGroup\\\""), "{}", created.body);
    assert_eq!(with_body(&new, "POST", pods, "application/json", &pod).await.code, 201);
}

#[tokio::test]
async fn server_of_a_newer_version_serves_its_kinds() {
    let server = Server::builder().kubernetes(KubernetesVersion::V1_37).build().service();
    let old = Server::builder().build().service();
    let certificates = "/apis/certificates.k8s.io/v1";
    let taint = |effect: &str| json!({"key": "example.com/broken", "effect": effect});
    for (path, object, invalid, error) in [
        (
            "/apis/storagemigration.k8s.io/v1/storageversionmigrations",
            json!({"metadata": {"name": "a"}, "spec": {"resource": {"resource": "secrets"}}}),
            json!({"metadata": {"name": "b"}, "spec": {"resource": {}}}),
            "spec.resource.resource: Required value: resource is required to be set",
        ),
        (
            "/apis/resource.k8s.io/v1/devicetaintrules",
            json!({"metadata": {"name": "a"}, "spec": {"taint": taint("NoExecute")}}),
            json!({"metadata": {"name": "b"}, "spec": {"taint": taint("Never")}}),
            "spec.taint.effect: Unsupported value: \"Never\"",
        ),
        (
            &format!("{certificates}/namespaces/default/podcertificaterequests"),
            Value::Null,
            json!({"metadata": {"name": "b"}, "spec": {"signerName": "a"}}),
            "spec.signerName: Invalid value: \"a\": must be a fully qualified domain",
        ),
        (
            &format!("{certificates}/clustertrustbundles"),
            Value::Null,
            json!({"metadata": {"name": "b:a"}, "spec": {"trustBundle": ""}}),
            "metadata.name: Invalid value: \"b:a\": ClusterTrustBundle without signer name",
        ),
    ] {
        assert_eq!((get(&server, path).await.code, get(&old, path).await.code), (200, 404), "{path}");
        if !object.is_null() {
            let created = post(&server, path, &object).await;
            assert_eq!(created.code, 201, "{}", created.body);
            let spec = json!({"spec": {"resource": {"resource": "pods"}, "taint": {"value": "v"}}});
            let changed =
                with_body(&server, "PATCH", &format!("{path}/a"), "application/merge-patch+json", &spec).await;
            let is_mutable = path.ends_with("rules");
            assert_eq!(changed.code, if is_mutable { 200 } else { 422 }, "{}", changed.body);
            if is_mutable {
                assert_eq!(changed.json()["metadata"]["generation"], 2);
            }
        }
        let rejected = post(&server, path, &invalid).await;
        let message = rejected.json()["message"].as_str().unwrap_or_default().to_owned();
        assert!(rejected.code == 422 && message.contains(error), "{message}");
    }
}

#[tokio::test]
async fn declared_rules_come_last_since_1_37() {
    let message = async |kubernetes| {
        let server = Server::builder().kubernetes(kubernetes).build().service();
        let class = json!({"metadata": {"name": "a"}, "provisioner": "", "reclaimPolicy": "Never"});
        let answer = post(&server, "/apis/storage.k8s.io/v1/storageclasses", &class).await;
        answer.json()["message"].as_str().unwrap_or_default().to_owned()
    };
    let order = |message: &str| message.find("provisioner").cmp(&message.find("reclaimPolicy"));
    assert_eq!(order(&message(KubernetesVersion::V1_36).await), std::cmp::Ordering::Less);
    assert_eq!(order(&message(KubernetesVersion::V1_37).await), std::cmp::Ordering::Greater);
}

/// Returns the response of a server of a version to a request after these objects were created.
async fn answer(version: KubernetesVersion, objects: &[(&str, &Value)], request: (&str, &str, Value)) -> Answer {
    let service = Server::builder().kubernetes(version).build().service();
    for (path, object) in objects {
        let created = post(&service, path, object).await;
        assert_eq!(created.code, 201, "{version}: {}", created.body);
    }
    let (method, path, body) = request;
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    with_body(&service, method, path, content_type, body).await
}

/// Returns the number of errors of a field.
fn causes(answer: &Answer, field: &str) -> usize {
    let answer = answer.json();
    let causes = answer["details"]["causes"].as_array().unwrap_or_else(|| panic!("no causes: {answer}"));
    causes.iter().filter(|cause| cause["field"] == field).count()
}

#[tokio::test]
async fn label_errors_are_repeated_before_1_37() {
    let policy = json!({"metadata": {"name": "a"}, "spec": {"podSelector": {}}});
    let policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    let update = json!({"metadata": {"labels": {"a b": "c"}}});
    for (version, expected) in
        [(KubernetesVersion::V1_35, 4), (KubernetesVersion::V1_36, 3), (KubernetesVersion::V1_37, 1)]
    {
        let request = ("PATCH", &*format!("{policies}/a"), update.clone());
        let answer = answer(version, &[(policies, &policy)], request).await;
        assert_eq!(causes(&answer, "metadata.labels"), expected, "{version}: {}", answer.body);
    }
}

#[tokio::test]
async fn repeated_errors_are_reported_once_since_1_37() {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    // The template gets two labels with this name, which is too long for them.
    let job = json!({"metadata": {"name": "a".repeat(64)}, "spec": {"template": template}});
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    for (version, expected) in [(KubernetesVersion::V1_36, 2), (KubernetesVersion::V1_37, 1)] {
        let answer = answer(version, &[], ("POST", jobs, job.clone())).await;
        assert_eq!(causes(&answer, "spec.template.labels"), expected, "{version}: {}", answer.body);
    }
}

#[tokio::test]
async fn jobs_are_validated_once_in_updates_since_1_37() {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = json!({"metadata": {"name": "a"}, "spec": {"template": template}});
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let update = json!({"spec": {"selector": {"matchLabels": {"x": "y"}}}});
    for (version, expected) in [(KubernetesVersion::V1_36, 2), (KubernetesVersion::V1_37, 1)] {
        let request = ("PATCH", &*format!("{jobs}/a"), update.clone());
        let answer = answer(version, &[(jobs, &job)], request).await;
        assert_eq!(causes(&answer, "spec.selector"), expected, "{version}: {}", answer.body);
    }
}

#[tokio::test]
async fn windows_pod_errors_are_ordered_by_version() {
    let spec = json!({"os": {"name": "windows"}, "hostPID": true, "securityContext": {"runAsUser": 1},
        "containers": [{"name": "c", "image": "i"}]});
    let pod = json!({"metadata": {"name": "a"}, "spec": spec});
    for (version, expected) in [
        (KubernetesVersion::V1_36, ["spec.hostPID", "spec.securityContext.runAsUser"]),
        (KubernetesVersion::V1_37, ["spec.securityContext.runAsUser", "spec.hostPID"]),
    ] {
        let answer = answer(version, &[], ("POST", "/api/v1/namespaces/default/pods", pod.clone())).await.json();
        let causes = answer["details"]["causes"].as_array().unwrap().iter();
        assert_eq!(causes.map(|cause| &cause["field"]).collect::<Vec<_>>(), expected, "{version}");
    }
}

#[tokio::test]
async fn warnings_are_sent_since_their_version() {
    let services = "/api/v1/namespaces/default/services";
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let external = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}], "externalIPs": ["1.2.3.4"]}});
    let headless = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}], "clusterIP": "None",
        "type": "ClusterIP", "sessionAffinity": "ClientIP"}});
    let quota = json!({"metadata": {"name": "a"}, "spec": {"hard": {"requests.cpu": "2", "limits.cpu": "1"}}});
    for (path, object, text, since) in [
        (services, external, "spec.externalIPs is deprecated", KubernetesVersion::V1_36),
        (quotas, quota, "ResourceQuota ", KubernetesVersion::V1_35),
        (services, headless, "spec.SessionAffinity is ignored for headless services", KubernetesVersion::V1_34),
    ] {
        for version in KubernetesVersion::ALL {
            let answer = answer(*version, &[], ("POST", path, object.clone())).await;
            assert_eq!(answer.code, 201, "{version}: {}", answer.body);
            let warnings = answer.headers.get_all("warning").iter().map(|warning| warning.to_str().unwrap());
            let is_sent = warnings.into_iter().any(|warning| warning.contains(text));
            assert_eq!(is_sent, *version >= since, "{version}: {text}");
        }
    }
}

#[tokio::test]
async fn status_writes_own_metadata_by_version() {
    let names = json!({"plural": "foos", "kind": "Foo"});
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let crd = json!({"metadata": {"name": "foos.ex.io"}, "spec": {"group": "ex.io", "scope": "Namespaced",
        "names": names, "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let status = format!("{crds}/foos.ex.io/status?fieldManager=m");
    for (version, expected) in [(KubernetesVersion::V1_35, false), (KubernetesVersion::V1_36, true)] {
        let update = json!({"metadata": {"labels": {"a": "b"}}, "status": {"storedVersions": ["v1"]}});
        let object = answer(version, &[(crds, &crd)], ("PATCH", &status, update)).await.json();
        let entries = object["metadata"]["managedFields"].as_array().unwrap_or_else(|| panic!("{version}: {object}"));
        let owns = |entry: &&Value| entry["manager"] == "m" && entry["fieldsV1"].get("f:metadata").is_some();
        assert_eq!(entries.iter().any(|entry| owns(&entry)), expected, "{version}: {object}");
    }
}

#[tokio::test]
async fn service_cidrs_reset_their_status_since_1_36() {
    let condition = json!({"type": "Ready", "status": "True", "reason": "A", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let range = json!({"metadata": {"name": "a"}, "spec": {"cidrs": ["10.5.0.0/24"]},
        "status": {"conditions": [condition]}});
    let ranges = "/apis/networking.k8s.io/v1/servicecidrs";
    for (version, expected) in [(KubernetesVersion::V1_35, true), (KubernetesVersion::V1_36, false)] {
        let object = answer(version, &[], ("POST", ranges, range.clone())).await.json();
        assert_eq!(object["metadata"]["name"], "a", "{version}: {object}");
        assert_eq!(object["status"]["conditions"].is_array(), expected, "{version}: {object}");
    }
}

#[tokio::test]
async fn autoscalers_have_a_generation_since_1_37() {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let autoscaler = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 2, "scaleTargetRef": target}});
    let autoscalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    for (version, expected) in [(KubernetesVersion::V1_36, Value::Null), (KubernetesVersion::V1_37, json!(1))] {
        let object = answer(version, &[], ("POST", autoscalers, autoscaler.clone())).await.json();
        assert_eq!(object["metadata"]["generation"], expected, "{version}: {object}");
    }
}

#[tokio::test]
async fn definitions_accept_the_functions_of_their_version() {
    for (rule, since) in [
        ("semver(self.s).major() == 1", KubernetesVersion::V1_34),
        ("self.l.slice(0, 1).size() == 1", KubernetesVersion::V1_35),
        ("self.l.sortBy(x, x).size() == 1", KubernetesVersion::V1_35),
        ("self.`in` == 'i'", KubernetesVersion::V1_37),
    ] {
        let short = json!({"type": "string", "maxLength": 5});
        let spec = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}], "properties": {
            "s": short, "in": short, "l": {"type": "array", "maxItems": 3, "items": short}}});
        for version in KubernetesVersion::ALL {
            let service = Server::builder().kubernetes(*version).build().service();
            let created = post(&service, DEFINITIONS, &definition(&spec)).await;
            assert_eq!(created.code, if *version < since { 422 } else { 201 }, "{version}: {rule}: {}", created.body);
        }
    }
}

#[tokio::test]
async fn messages_of_rules_are_not_reworded() {
    let rule = json!([{"rule": "self < 5", "message": "must be no more than 63 bytes"}]);
    let share = json!({"type": "integer", "x-kubernetes-validations": rule});
    let spec = json!({"type": "object", "properties": {"maxUnavailable": share}});
    for version in [KubernetesVersion::V1_33, KubernetesVersion::V1_36] {
        let message = foo_message(version, &definition(&spec), &json!({"maxUnavailable": 7})).await;
        assert!(message.ends_with(": must be no more than 63 bytes"), "{version}: {message}");
        assert!(!message.contains("intstr"), "{version}: {message}");
    }
}

#[tokio::test]
async fn missing_kinds_of_embedded_objects_are_worded_by_version() {
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true});
    let reference = json!({"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}});
    let spec = json!({"type": "object", "properties": {"template": embedded, "ref": reference}});
    let written = json!({"template": {"apiVersion": "v1", "metadata": {"name": "a"}}, "ref": {}});
    for (version, detail) in [(KubernetesVersion::V1_33, ": must not be empty"), (KubernetesVersion::V1_34, "")] {
        let message = foo_message(version, &definition(&spec), &written).await;
        for part in [format!("spec.template.kind: Required value{detail}"), "spec.ref.kind: Required value".to_owned()]
        {
            let end = message.split_once(&part).map(|(_, end)| end);
            assert!(end.is_some_and(|end| end.is_empty() || end.starts_with([',', ']'])), "{version}: {message}");
        }
    }
}
