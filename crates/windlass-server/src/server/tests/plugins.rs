//! Admission plugins that are off by default, and default ones that are disabled. The messages are those of
//! kube-apiserver 1.36.3 with the same flags.

use super::*;
use crate::{AdmissionConfiguration, AdmissionPlugins, PodAccounts, User};

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

fn with(enabled: &[&str], disabled: &[&str], configurations: Value) -> Service {
    let file = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": configurations,
    });
    let plugins = AdmissionPlugins::new(enabled, disabled).unwrap();
    let read = |_: &str| Err("there is no other file".into());
    let configuration = AdmissionConfiguration::of_plugins(plugins, file, &read).unwrap();
    Server::builder().entropy(Entropy::seeded(1)).admission(configuration).build().service()
}

fn enabling(plugin: &str) -> Service {
    with(&[plugin], &[], json!([]))
}

fn pod(fields: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "a", "image": "i"}]});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"metadata": {"name": "p"}, "spec": spec})
}

async fn annotate(service: &Service, annotations: Value) {
    let patch = json!({"metadata": {"annotations": annotations}});
    let path = "/api/v1/namespaces/default";
    assert_eq!(with_body(service, "PATCH", path, "application/merge-patch+json", patch).await.code, 200);
}

async fn message(service: &Service, path: &str, body: Value) -> (u16, String) {
    let answer = post(service, path, body).await;
    (answer.code, answer.json()["message"].as_str().unwrap_or_default().to_owned())
}

fn refused(code: u16, message: &str) -> (u16, String) {
    (code, message.to_owned())
}

#[tokio::test]
async fn always_pull_images_sets_the_policy_of_new_images() {
    let service = enabling("AlwaysPullImages");
    let spec = json!({
        "containers": [{"name": "a", "image": "i", "imagePullPolicy": "Never"}],
        "initContainers": [{"name": "b", "image": "i:1"}],
        "volumes": [{"name": "v", "image": {"reference": "r", "pullPolicy": "Never"}}],
    });
    let created = post(&service, PODS, pod(spec)).await.json();
    let policies = ["/spec/containers/0/imagePullPolicy", "/spec/initContainers/0/imagePullPolicy"];
    for policy in policies.into_iter().chain(["/spec/volumes/0/image/pullPolicy"]) {
        assert_eq!(created.pointer(policy), Some(&json!("Always")), "{policy}");
    }
}

#[tokio::test]
async fn always_deny_rejects_writes_but_not_reads() {
    let service = enabling("AlwaysDeny");
    let denied = message(&service, CONFIG_MAPS, json!({"metadata": {"name": "c"}})).await;
    assert_eq!(denied, refused(403, "configmaps \"c\" is forbidden: admission control is denying all modifications"));
    assert_eq!(get(&service, CONFIG_MAPS).await.code, 200);
}

#[tokio::test]
async fn missing_namespaces_are_provided_or_rejected() {
    let path = "/api/v1/namespaces/new/configmaps";
    let object = || json!({"metadata": {"name": "c"}});
    let service = with(&["NamespaceAutoProvision"], &["NamespaceLifecycle"], json!([]));
    assert_eq!(post(&service, path, object()).await.code, 201);
    assert_eq!(get(&service, "/api/v1/namespaces/new").await.json()["status"]["phase"], "Active");
    let dry = "/api/v1/namespaces/other/configmaps?dryRun=All";
    post(&service, dry, object()).await;
    assert_eq!(get(&service, "/api/v1/namespaces/other").await.code, 404);

    let service = with(&["NamespaceExists"], &["NamespaceLifecycle"], json!([]));
    assert_eq!(message(&service, path, object()).await, refused(404, "namespaces \"new\" not found"));
    let service = with(&[], &["NamespaceLifecycle"], json!([]));
    assert_eq!(post(&service, path, object()).await.code, 201);
}

#[tokio::test]
async fn wide_anti_affinity_and_external_ips_are_denied() {
    let service = with(&["LimitPodHardAntiAffinityTopology", "DenyServiceExternalIPs"], &[], json!([]));
    let affinity = |key: &str| {
        let term = json!({"topologyKey": key, "labelSelector": {}});
        pod(json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}))
    };
    let denied = message(&service, PODS, affinity("zone")).await;
    let why = "pods \"p\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key \
               kubernetes.io/hostname is allowed";
    assert_eq!(denied, refused(403, why));
    assert_eq!(post(&service, PODS, affinity("kubernetes.io/hostname")).await.code, 201);

    let services = "/api/v1/namespaces/default/services";
    let object = |ips: Value| json!({"metadata": {"name": "s"}, "spec": {"externalIPs": ips, "ports": [{"port": 1}]}});
    let denied = message(&service, services, object(json!(["1.2.3.4"]))).await;
    assert_eq!(denied, refused(403, "services \"s\" is forbidden: Use of external IPs is denied by admission control"));
    assert_eq!(post(&service, services, object(json!([]))).await.code, 201);
}

#[tokio::test]
async fn requested_devices_are_tolerated() {
    let service = enabling("ExtendedResourceToleration");
    let limits = json!({"example.com/b": "1", "example.com/a": "1", "cpu": "1"});
    let own = json!([{"key": "example.com/b", "operator": "Exists", "effect": "NoSchedule"}]);
    let containers = json!([{"name": "a", "image": "i", "resources": {"limits": limits}}]);
    let created = post(&service, PODS, pod(json!({"tolerations": own, "containers": containers}))).await.json();
    let tolerations = created["spec"]["tolerations"].as_array().unwrap();
    let keys: Vec<&str> = tolerations.iter().map(|toleration| toleration["key"].as_str().unwrap()).collect();
    let defaults = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    assert_eq!(keys, ["example.com/b", defaults[0], defaults[1], "example.com/a"]);
}

#[tokio::test]
async fn node_selector_of_the_namespace_is_added_and_limits_pods() {
    let selectors =
        json!({"podNodeSelectorPluginConfig": {"clusterDefaultNodeSelector": "zone=a", "default": "zone=a"}});
    let configuration = json!([{"name": "PodNodeSelector", "configuration": selectors}]);
    let service = with(&["PodNodeSelector"], &[], configuration);
    let created = post(&service, &format!("{PODS}?dryRun=All"), pod(json!({}))).await.json();
    assert_eq!(created["spec"]["nodeSelector"], json!({"zone": "a"}));
    let conflict = "pods \"p\" is forbidden: pod node label selector conflicts with its namespace node label selector";
    let selecting = |labels: Value| pod(json!({"nodeSelector": labels}));
    assert_eq!(message(&service, PODS, selecting(json!({"zone": "b"}))).await, refused(403, conflict));
    let other = "pods \"p\" is forbidden: pod node label selector labels conflict with its namespace whitelist";
    assert_eq!(message(&service, PODS, selecting(json!({"disk": "ssd"}))).await, refused(403, other));
    annotate(&service, json!({"scheduler.alpha.kubernetes.io/node-selector": "x"})).await;
    assert_eq!(message(&service, PODS, pod(json!({}))).await, refused(500, "invalid selector: [x]"));
}

#[tokio::test]
async fn tolerations_of_the_namespace_are_added_and_limit_pods() {
    let configuration = json!([{"name": "PodTolerationRestriction", "configuration": {
        "apiVersion": "podtolerationrestriction.admission.k8s.io/v1alpha1", "kind": "Configuration",
        "default": [{"key": "default", "operator": "Exists"}],
    }}]);
    let service = with(&["PodTolerationRestriction"], &["DefaultTolerationSeconds"], configuration);
    let dry = format!("{PODS}?dryRun=All");
    let created = post(&service, &dry, pod(json!({}))).await.json();
    assert_eq!(created["spec"]["tolerations"], json!([{"key": "default", "operator": "Exists"}]));
    let burstable = json!([{"name": "a", "image": "i", "resources": {"requests": {"cpu": "1"}}}]);
    let created = post(&service, &dry, pod(json!({"containers": burstable}))).await.json();
    assert_eq!(created["spec"]["tolerations"][1]["key"], "node.kubernetes.io/memory-pressure");
    let one = json!([{"key": "a", "operator": "Exists"}]).to_string();
    annotate(
        &service,
        json!({
            "scheduler.alpha.kubernetes.io/tolerationsWhitelist": one,
            "scheduler.alpha.kubernetes.io/defaultTolerations": "",
        }),
    )
    .await;
    let other = pod(json!({"tolerations": [{"key": "b", "operator": "Exists"}]}));
    let why =
        "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist";
    assert_eq!(message(&service, &dry, other).await, refused(500, why));
    let allowed = pod(json!({"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]}));
    assert_eq!(post(&service, &dry, allowed).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn events_above_the_limit_are_rejected() {
    let limits = json!([
        {"type": "Namespace", "qps": 1, "burst": 2},
        {"type": "SourceAndObject", "qps": 1, "burst": 2},
    ]);
    let configuration = json!([{"name": "EventRateLimit", "configuration": {
        "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration", "limits": limits,
    }}]);
    let service = with(&["EventRateLimit"], &[], configuration);
    let event = || {
        json!({
            "metadata": {"generateName": "e"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "x"},
            "source": {"component": "c"},
        })
    };
    let path = "/api/v1/namespaces/default/events";
    for _ in 0..2 {
        assert_eq!(post(&service, path, event()).await.code, 201);
    }
    let limited = message(&service, path, event()).await;
    let why = "Too many requests: [limit reached on type Namespace for key default, limit reached on type SourceAndObject \
               for key cPoddefaultx]";
    assert_eq!(limited, refused(429, why));
    time::advance(Duration::from_secs(1)).await;
    assert_eq!(post(&service, path, event()).await.code, 201);
}

#[tokio::test]
async fn owner_references_need_permissions() {
    let admin = enabling("OwnerReferencesPermissionEnforcement");
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "update", "patch"]}]);
    let role = json!({"metadata": {"name": "editor"}, "rules": rules});
    post(&admin, "/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await;
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"});
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "editor"});
    let binding = json!({"metadata": {"name": "editor"}, "roleRef": reference, "subjects": [subject]});
    post(&admin, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
    let eve = admin.clone().acting_as(User::new("eve"));
    let owned = |version: &str, kind: &str, blocks: bool| {
        let owner = json!({"apiVersion": version, "kind": kind, "name": "o", "uid": "u", "blockOwnerDeletion": blocks});
        json!({"metadata": {"name": "c", "ownerReferences": [owner]}})
    };
    let denied = message(&eve, CONFIG_MAPS, owned("v1", "ConfigMap", true)).await;
    let why = "configmaps \"c\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you \
               can't set finalizers on: , <nil>";
    assert_eq!(denied, refused(403, why));
    let denied = message(&eve, CONFIG_MAPS, owned("example.com/v1", "Thing", true)).await;
    let why = "configmaps \"c\" is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping for \
               APIVersion example.com/v1 Kind Thing: no matches for kind \"Thing\" in version \"example.com/v1\"";
    assert_eq!(denied, refused(403, why));
    assert_eq!(post(&eve, CONFIG_MAPS, owned("v1", "ConfigMap", false)).await.code, 201);
    let path = format!("{CONFIG_MAPS}/c");
    let patch = |patch: Value| with_body(&eve, "PATCH", &path, "application/merge-patch+json", patch);
    let denied = patch(json!({"metadata": {"ownerReferences": null}})).await.json();
    let why = "configmaps \"c\" is forbidden: cannot set an ownerRef on a resource you can't delete: , <nil>";
    assert_eq!(denied["message"], why);
    assert_eq!(patch(json!({"metadata": {"labels": {"a": "b"}}})).await.code, 200);
    assert_eq!(post(&admin, &format!("{CONFIG_MAPS}?dryRun=All"), owned("v1", "Pod", true)).await.code, 409);
}

#[tokio::test]
async fn pods_get_the_topology_of_their_node() {
    let labels = json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "other": "o"});
    let node = json!({"metadata": {"name": "n", "labels": labels}});
    for (disabled, expected) in [
        (&[][..], json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"})),
        (&["PodTopologyLabels"][..], Value::Null),
    ] {
        let service = with(&[], disabled, json!([]));
        post(&service, "/api/v1/nodes", node.clone()).await;
        let created = post(&service, &format!("{PODS}?dryRun=All"), pod(json!({"nodeName": "n"}))).await.json();
        assert_eq!(created["metadata"]["labels"], expected);
        post(&service, PODS, pod(json!({}))).await;
        let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
        assert_eq!(post(&service, &format!("{PODS}/p/binding"), binding).await.code, 201);
        assert_eq!(get(&service, &format!("{PODS}/p")).await.json()["metadata"]["labels"], expected);
    }
}

#[tokio::test]
async fn resizes_must_fit_the_node() {
    let service = with(&[], &[], json!([]));
    let allocatable = json!({"cpu": "1", "memory": "1Gi"});
    let node = |name: &str, system: &str| json!({"metadata": {"name": name, "labels": {"kubernetes.io/os": system}}, "status": {"allocatable": allocatable}});
    for node in [node("n", "linux"), node("w", "windows")] {
        assert_eq!(post(&service, "/api/v1/nodes", node).await.code, 201);
    }
    let requests = json!({"requests": {"cpu": "100m"}});
    for name in ["n", "w", "none"] {
        let containers = json!([{"name": "a", "image": "i", "resources": requests}]);
        let init = json!([{"name": "i", "image": "i", "resources": requests}]);
        let mut pod = pod(json!({"nodeName": name, "containers": containers, "initContainers": init}));
        pod["metadata"]["name"] = name.into();
        assert_eq!(post(&service, PODS, pod).await.code, 201);
    }
    let resize = async |name: &str, list: &str, requests: Value| {
        let container = if list == "containers" { "a" } else { "i" };
        let patch = json!({"spec": {list: [{"name": container, "resources": {"requests": requests}}]}});
        let path = format!("{PODS}/{name}/resize");
        let answer = with_body(&service, "PATCH", &path, "application/strategic-merge-patch+json", patch).await;
        let body = answer.json();
        let reason = body["details"]["causes"][0]["reason"].as_str().unwrap_or_default().to_owned();
        (body["message"].as_str().unwrap_or_default().to_owned(), reason)
    };
    let big = || json!({"cpu": "2", "memory": "2Gi"});
    for (name, why, reason) in [
        (
            "n",
            "node didn't have enough allocatable resources: cpu, requested: 2000, allocatable: 1000; memory, requested: \
             2147483648, allocatable: 1073741824",
            "NodeCapacity",
        ),
        ("w", "pod resize is only supported on linux nodes, node \"w\" is \"windows\"", "UnsupportedPlatform"),
        ("none", "node \"none\" not found", ""),
    ] {
        let expected = (format!("pods \"{name}\" is forbidden: {why}"), reason.to_owned());
        assert_eq!(resize(name, "containers", big()).await, expected);
    }
    let why = "pods \"n\" is forbidden: pod update requires features InPlacePodVerticalScalingInitContainers which are not \
               available on node \"n\"";
    assert_eq!(resize("n", "initContainers", json!({"cpu": "200m"})).await.0, why);
    assert_eq!(resize("n", "containers", json!({"cpu": "200m"})).await.0, "");
}

#[tokio::test]
async fn disabled_plugins_have_no_effect() {
    let service = with(
        &[],
        &[
            "DefaultTolerationSeconds",
            "Priority",
            "TaintNodesByCondition",
            "StorageObjectInUseProtection",
            "LimitRanger",
        ],
        json!([]),
    );
    let limits = json!([{"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "1"}}]);
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": limits}});
    post(&service, "/api/v1/namespaces/default/limitranges", range).await;
    let created = post(&service, PODS, pod(json!({"priorityClassName": "none"}))).await.json();
    for path in ["/spec/tolerations", "/spec/priority", "/spec/containers/0/resources/limits"] {
        assert_eq!(created.pointer(path), None, "{path}: {created}");
    }
    let node = post(&service, "/api/v1/nodes", json!({"metadata": {"name": "n"}})).await.json();
    assert_eq!(node["spec"]["taints"], Value::Null);
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let claim = post(&service, CLAIMS, json!({"metadata": {"name": "c"}, "spec": spec})).await.json();
    assert_eq!(claim["metadata"]["finalizers"], Value::Null);
    assert_eq!(claim["metadata"]["name"], "c");
}

#[tokio::test]
async fn quotas_policies_and_webhooks_can_be_disabled() {
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "0"}}});
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let hook = |plural: &str| {
        let rule =
            json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
        let webhook = json!({
            "name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": [rule],
            "clientConfig": {"url": "https://127.0.0.1:1/"},
        });
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}webhookconfigurations");
        (path, json!({"metadata": {"name": plural}, "webhooks": [webhook]}))
    };
    let all = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook", "ResourceQuota"];
    for enabled in [None, Some(0), Some(1), Some(2)] {
        let disabled: Vec<&str> =
            all.iter().enumerate().filter(|(index, _)| Some(*index) != enabled).map(|(_, name)| *name).collect();
        let service = with(&[], &disabled, json!([]));
        post(&service, quotas, quota.clone()).await;
        let status = json!({"status": {"hard": {"count/configmaps": "0"}, "used": {"count/configmaps": "0"}}});
        with_body(&service, "PATCH", &format!("{quotas}/q/status"), "application/merge-patch+json", status).await;
        for plural in ["mutating", "validating"] {
            let (path, configuration) = hook(plural);
            assert_eq!(post(&service, &path, configuration).await.code, 201);
        }
        let expected = match enabled {
            None => 201,
            Some(2) => 403,
            Some(_) => 500,
        };
        assert_eq!(post(&service, CONFIG_MAPS, json!({"metadata": {"name": "c"}})).await.code, expected, "{enabled:?}");
    }
}

#[tokio::test]
async fn service_account_plugin_follows_flags_and_options() {
    let accounts = |plugins: AdmissionPlugins, accounts: PodAccounts| {
        let configuration = AdmissionConfiguration::new(plugins).unwrap();
        let builder = Server::builder().entropy(Entropy::seeded(1)).admission(configuration);
        builder.pod_accounts(accounts).build().service()
    };
    let plugins = |enabled: &[&str], disabled: &[&str]| AdmissionPlugins::new(enabled, disabled).unwrap();
    let name = "ServiceAccount";
    for (plugins, choice, code) in [
        (plugins(&[], &[]), PodAccounts::Required, 403),
        (plugins(&[], &[name]), PodAccounts::Required, 201),
        (plugins(&[], &[]), PodAccounts::Optional, 201),
        (plugins(&[name], &[]), PodAccounts::Optional, 403),
    ] {
        let service = accounts(plugins, choice);
        assert_eq!(post(&service, PODS, pod(json!({}))).await.code, code, "{plugins:?} {choice:?}");
    }
}
