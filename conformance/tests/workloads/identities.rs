//! The users of the controllers' requests, from the audit log of the server: each controller acts as its own service
//! account, and its role suffices.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::api::{
    certificates::v1::CertificateSigningRequest,
    core::v1::{Namespace, PersistentVolumeClaim, Pod, ResourceQuota, Secret, ServiceAccount},
    storage::v1::VolumeAttributesClass,
};
use serde_json::{Value, json};
use windlass_api::{ObjectBuilder as _, ObjectExt, ObjectRef};
use windlass_client::{
    Client,
    certificates::{Certificate, CertificateAuthority, CertificateRequest, PrivateKey, Usage, Validity},
};
use windlass_controllers::{BuiltIn, CertificateSigner, Controllers, Identity, Pace, TokenSigner};
use windlass_envtest::{Environment, KubernetesVersion};
use windlass_runtime::Manager;
use windlass_server::{
    AdmissionConfiguration, AuditConfiguration, AuditLogOptions, AuditPolicy, AuthorizationConfiguration,
    ServerBuilder, User,
};

/// The user of the tests' own requests.
const PLAYER: &str = "admin";
/// The user of the server's own requests.
const SERVER: &str = "system:apiserver";
/// The user who installs add-ons, in place of another administrator.
const INSTALLER: &str = "installer";

/// A server with an audit log, and controllers that act as their own users.
pub(crate) struct Audited {
    pub(crate) env: Arc<Environment>,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

/// A request of a controller.
#[derive(Debug)]
pub(crate) struct Audit {
    pub(crate) user: String,
    pub(crate) groups: Vec<String>,
    pub(crate) verb: String,
    /// The group, the resource and the subresource, such as `apps/deployments/status`, or the path.
    pub(crate) target: String,
    pub(crate) code: u64,
    pub(crate) is_permitted: bool,
    pub(crate) level: String,
}

impl Audited {
    pub(crate) async fn start() -> Self {
        Self::start_version(KubernetesVersion::default()).await
    }

    async fn start_version(version: KubernetesVersion) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("audit.log");
        let policy = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]});
        let audit = AuditConfiguration::new(AuditPolicy::parse(policy).unwrap());
        let audit = audit.with_log(&AuditLogOptions { path: log.clone(), ..AuditLogOptions::default() }).unwrap();
        // As kubeadm configures it.
        let authorization = AuthorizationConfiguration::from_modes(&["Node", "RBAC"], None).unwrap();
        let chain = authorization.connect(|_| unreachable!("there is no webhook")).unwrap();
        let builder = Environment::builder().kubernetes(version).patience(Duration::from_mins(10));
        let admission = AdmissionConfiguration::default().with_node_restriction();
        let configured = move |server: ServerBuilder| server.audit(audit).authorizers(chain).admission(admission);
        let env = builder.server(configured).start().await.unwrap();
        Self { env: Arc::new(env), log, _folder: folder }
    }

    /// Returns a manager with the controllers, which run until the environment stops.
    pub(crate) fn manager(&self, controllers: Controllers) -> Manager {
        let clients = Arc::clone(&self.env);
        let user = |identity: Identity<'_>| match identity {
            Identity::Administrator => User::new(INSTALLER).in_groups(identity.groups().iter().copied()),
            _ => User::new(identity.user()).in_groups(identity.groups().iter().copied()),
        };
        let mut manager = self.env.manager_of(self.env.client_as(user(Identity::ControllerManager)).unwrap());
        controllers.identities(move |identity| Some(clients.client_as(user(identity)).unwrap())).add_to(&mut manager);
        manager
    }

    /// Returns the requests of the controllers so far.
    pub(crate) async fn requests(&self) -> Vec<Audit> {
        self.env.server().unwrap().flush_audit().await;
        let text = std::fs::read_to_string(&self.log).unwrap();
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let requests = events.filter(|event| event["stage"] == "ResponseComplete").map(|event| Audit::of(&event));
        requests.filter(|request| ![PLAYER, SERVER].contains(&&*request.user)).collect()
    }
}

impl Audit {
    fn of(event: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &event["objectRef"];
        let parts = [&object["apiGroup"], &object["resource"], &object["subresource"]].map(text);
        let target = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        let target = if object.is_null() { text(&event["requestURI"]) } else { target };
        Self {
            user: text(&event["user"]["username"]),
            groups: event["user"]["groups"].as_array().into_iter().flatten().map(text).collect(),
            verb: text(&event["verb"]),
            target,
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
            is_permitted: event["annotations"]["authorization.k8s.io/decision"] == "allow",
            level: text(&event["level"]),
        }
    }

    pub(crate) fn is_read(&self) -> bool {
        ["get", "list", "watch"].contains(&&*self.verb)
    }
}

/// Asserts that no controller acts as a privileged user, and that no role lacks a permission. Returns the users that have
/// written.
pub(crate) fn assert_least_privilege(requests: &[Audit]) -> BTreeSet<String> {
    let privileged: BTreeSet<_> = requests
        .iter()
        .filter(|request| request.groups.iter().any(|group| group == "system:masters") && request.user != INSTALLER)
        .map(|request| format!("{} {} {}", request.user, request.verb, request.target))
        .collect();
    assert!(privileged.is_empty(), "privileged requests: {privileged:#?}");

    // Everything that the add-ons of an administrator do.
    let installed = requests.iter().filter(|request| request.user == INSTALLER);
    let installed: BTreeSet<_> = installed.map(|request| &*request.target).collect();
    let add_ons =
        ["apiextensions.k8s.io/customresourcedefinitions", "metrics.k8s.io/pods", "storage.k8s.io/storageclasses"];
    assert!(installed.iter().all(|target| add_ons.contains(target)), "installed: {installed:?}");

    let mut refused = BTreeMap::<String, usize>::new();
    for request in requests.iter().filter(|request| !request.is_permitted) {
        *refused
            .entry(format!("{} {} {} {}", request.user, request.verb, request.target, request.code))
            .or_default() += 1;
    }
    assert!(refused.is_empty(), "refused requests: {refused:#?}");
    assert!(requests.iter().all(|request| request.level == "Metadata"));

    // The shared reader reads only. The controller of tokens acts as this user, as the real one does.
    let written = requests.iter().filter(|request| !request.is_read());
    let by_reader: BTreeSet<_> = written
        .clone()
        .filter(|request| request.user == "system:kube-controller-manager" && request.target != "secrets")
        .map(|request| format!("{} {}", request.verb, request.target))
        .collect();
    assert!(by_reader.is_empty(), "writes without an identity: {by_reader:#?}");
    written.map(|request| request.user.clone()).collect()
}

/// The accounts that a controller has besides that of [`BuiltIn::account`].
const FURTHER_ACCOUNTS: [&str; 3] =
    ["root-ca-cert-publisher", "pv-protection-controller", "volumeattributesclass-protection-controller"];

/// Objects that all controllers work on, by the path of their collection.
fn objects() -> Vec<(&'static str, Value)> {
    let labels = |app: &str| json!({"app": app});
    let template = |app: &str| {
        let container = json!({
            "name": "main", "image": "nginx", "ports": [{"containerPort": 80}],
            "resources": {"requests": {"cpu": "100m", "memory": "16Mi"}},
        });
        json!({
            "metadata": {"labels": labels(app), "annotations": {"windlass.dev/load": "cpu=900m"}},
            "spec": {"containers": [container]},
        })
    };
    let selecting = |app: &str| json!({"matchLabels": labels(app)});
    let workload = |app: &str| json!({"selector": selecting(app), "template": template(app)});
    let mut replicated = workload("web");
    replicated["replicas"] = 2.into();
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let mut stateful = workload("db");
    stateful["serviceName"] = "db".into();
    stateful["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": claim}]);
    let mut job = json!({"template": template("job"), "ttlSecondsAfterFinished": 30});
    job["template"]["spec"]["restartPolicy"] = "Never".into();
    job["template"]["spec"]["containers"][0]["command"] = json!(["sleep", "5"]);
    let mut legacy = json!({"replicas": 1, "selector": labels("old"), "template": template("old")});
    let ephemeral = json!({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}});
    legacy["template"]["spec"]["volumes"] = json!([ephemeral]);
    let scaled = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minReplicas": 1, "maxReplicas": 3,
        "metrics": [{"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
        }}],
    });
    let policy = json!({
        "matchConstraints": {"resourceRules": [{
            "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"],
        }]},
        "validations": [{"expression": "object.spec.replicas < 1000"}],
    });
    let token = json!({
        "metadata": {"name": "token", "annotations": {"kubernetes.io/service-account.name": "robot"}},
        "type": "kubernetes.io/service-account-token",
    });
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    let aggregated = json!({
        "metadata": {"name": "readers"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"readers": "yes"}}]},
    });
    let part = json!({"metadata": {"name": "part", "labels": {"readers": "yes"}}, "rules": [rule]});
    let named = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let endpoints = json!({
        "metadata": {"name": "manual"},
        "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}],
    });
    let old = json!({"startingDeadlineSeconds": 600, "schedule": "* * * * *", "jobTemplate": {"spec": job}});
    vec![
        ("/api/v1/namespaces/shop/resourcequotas", named("quota", json!({"hard": {"pods": "100"}}))),
        ("/api/v1/namespaces/shop/serviceaccounts", json!({"metadata": {"name": "robot"}})),
        ("/api/v1/namespaces/shop/secrets", token),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", aggregated),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", part),
        ("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", named("policy", policy)),
        ("/apis/apps/v1/namespaces/shop/deployments", named("web", replicated)),
        ("/apis/apps/v1/namespaces/shop/statefulsets", named("db", stateful)),
        ("/apis/apps/v1/namespaces/shop/daemonsets", named("agent", workload("agent"))),
        ("/api/v1/namespaces/shop/replicationcontrollers", named("old", legacy)),
        ("/apis/batch/v1/namespaces/shop/jobs", named("once", job)),
        ("/apis/batch/v1/namespaces/shop/cronjobs", named("often", old)),
        (
            "/apis/policy/v1/namespaces/shop/poddisruptionbudgets",
            named(
                "budget",
                json!({
                    "minAvailable": 1, "selector": selecting("web"),
                }),
            ),
        ),
        ("/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers", named("web", scaled)),
        ("/api/v1/namespaces/shop/services", named("web", json!({"selector": labels("web"), "ports": [{"port": 80}]}))),
        ("/api/v1/namespaces/shop/services", named("manual", json!({"ports": [{"port": 80}]}))),
        ("/api/v1/namespaces/shop/endpoints", endpoints),
        (
            "/apis/storage.k8s.io/v1/volumeattributesclasses",
            json!({
                "metadata": {"name": "fast"}, "driverName": "example.com", "parameters": {"speed": "high"},
            }),
        ),
        (
            "/apis/storagemigration.k8s.io/v1/storageversionmigrations",
            named(
                "secrets",
                json!({
                    "resource": {"group": "", "resource": "secrets"},
                }),
            ),
        ),
    ]
}

async fn create(client: &Client, path: &str, object: &Value) {
    let request = http::Request::post(path).header("content-type", "application/json").body(object.to_string());
    let created = client.request_json::<Value>(request.unwrap()).await;
    created.unwrap_or_else(|error| panic!("{path}: {error}: {error:?}"));
}

/// Returns all default roles and their bindings.
async fn roles(client: &Client) -> Value {
    let mut all = json!({});
    for plural in ["clusterroles", "clusterrolebindings"] {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{plural}?labelSelector=kubernetes.io/bootstrapping");
        let list: Value = client.request_json(http::Request::get(path).body(String::new()).unwrap()).await.unwrap();
        let items = list["items"].as_array().unwrap();
        // The rules of the others are those of the selected roles.
        for item in items.iter().filter(|item| item["aggregationRule"].is_null()) {
            let name = item["metadata"]["name"].as_str().unwrap();
            all[format!("{plural}/{name}")] = json!([item["rules"], item["roleRef"], item["subjects"]]);
        }
    }
    all
}

/// The default roles are those that the real server was recorded with, and no controller adds to them.
#[tokio::test(start_paused = true)]
async fn each_controller_writes_as_its_own_account_and_needs_no_more() {
    let audited = Audited::start_version(KubernetesVersion::V1_37).await;
    let env = &audited.env;
    let client = env.client();
    let before = roles(&client).await;
    let controllers = Controllers::all().nodes(2).pace(Pace::immediate()).root_ca("PEM");
    let controllers = controllers.token_signer(TokenSigner::new(|request| Ok(format!("token of {}", request.account))));
    env.run(audited.manager(controllers.certificate_signer(certificate_signer(env))));
    env.eventually::<ServiceAccount>(ObjectRef::new("default").within("default"), |_| true).await;

    client.create(&Namespace::named("shop")).await.unwrap();
    for (path, object) in objects() {
        create(&client, path, &object).await;
    }
    let ready = |pods: &[Pod], app: &str| {
        let of_app = pods.iter().filter(|pod| pod.labels().get("app").is_some_and(|found| found == app));
        let is_running = |pod: &&Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        of_app.filter(is_running).count()
    };
    // The load of two replicas is too high, so the autoscaler has read the metrics.
    let apps = [("web", 3), ("db", 1), ("agent", 2), ("old", 1)];
    env.eventually_all::<Pod>(|pods| apps.iter().all(|(app, count)| ready(pods, app) >= *count)).await;
    env.eventually_all::<Pod>(|pods| pods.iter().any(|pod| pod.name().starts_with("often-"))).await;
    let is_bound = |claim: &PersistentVolumeClaim| {
        claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
    };
    env.eventually_all::<PersistentVolumeClaim>(|claims| claims.len() >= 2 && claims.iter().all(is_bound)).await;
    env.eventually_gone::<k8s_openapi::api::batch::v1::Job>(ObjectRef::new("once").within("shop")).await;
    let token = ObjectRef::<Secret>::new("token").within("shop");
    env.eventually(token, |secret| secret.data.iter().flatten().any(|(key, _)| key == "token")).await;
    let quota = ObjectRef::<ResourceQuota>::new("quota").within("shop");
    env.eventually(quota, |quota| quota.status.as_ref().is_some_and(|status| status.used.is_some())).await;

    create(&client, REQUESTS, &kubelet_request()).await;
    env.eventually::<CertificateSigningRequest>("kubelet", is_issued).await;
    // Only its finalizer delays the deletion.
    client.delete::<VolumeAttributesClass>("fast").await.unwrap();
    env.eventually_gone::<VolumeAttributesClass>("fast").await;
    client.delete::<Namespace>("shop").await.unwrap();
    env.eventually_gone::<Namespace>("shop").await;
    env.eventually_all::<k8s_openapi::api::core::v1::PersistentVolume>(<[_]>::is_empty).await;

    let requests = audited.requests().await;
    let writers = assert_least_privilege(&requests);
    let accounts = BuiltIn::ALL.iter().filter_map(|controller| controller.account()).chain(FURTHER_ACCOUNTS);
    let mut expected: BTreeSet<_> = accounts.map(|name| Identity::Controller(name).user()).collect();
    expected.extend(["system:kube-controller-manager", "system:kube-scheduler", INSTALLER].map(str::to_owned));
    expected.extend(["node-0", "node-1"].map(|node| Identity::Node(node).user()));
    let missing: Vec<_> = expected.difference(&writers).collect();
    let unknown: Vec<_> = writers.difference(&expected).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "no writes: {missing:?}; unknown: {unknown:?}");
    assert_eq!(roles(&client).await, before);
    // NodeRestriction accepts their writes, too. A terminating namespace rejects events.
    let by_nodes = requests.iter().filter(|request| request.user.starts_with("system:node:"));
    let by_nodes = by_nodes.filter(|request| request.target != "events");
    let rejected: Vec<_> = by_nodes.filter(|request| request.code == 403).collect();
    assert!(rejected.is_empty(), "{rejected:?}");
}

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// Returns a signer with a new authority.
fn certificate_signer(env: &Environment) -> CertificateSigner {
    let validity = Validity::starting(env.clock().now(), Duration::from_hours(24 * 365 * 10));
    let authority = CertificateAuthority::self_signed("clients", validity).unwrap();
    CertificateSigner::new(move |order| {
        let all = [Usage::DigitalSignature, Usage::KeyEncipherment, Usage::ClientAuth, Usage::ServerAuth];
        let usages: Vec<_> =
            all.into_iter().filter(|usage| order.usages.iter().any(|name| name == usage.as_str())).collect();
        let validity = Validity { from: order.from, until: order.until };
        Ok(authority.sign(order.request, &usages, validity)?.to_pem().to_owned())
    })
}

fn signing_request(name: &str, content: &CertificateRequest) -> Value {
    let usages: Vec<_> = content.usages.iter().map(|usage| usage.as_str()).collect();
    let pem = content.to_pem(&PrivateKey::generate().unwrap()).unwrap();
    json!({"metadata": {"name": name}, "spec": {
        "request": STANDARD.encode(pem), "signerName": content.signer, "usages": usages, "expirationSeconds": 3600,
    }})
}

/// A request of a kubelet for a client certificate, which is approved without an administrator.
fn kubelet_request() -> Value {
    let mut content = CertificateRequest::client("kubernetes.io/kube-apiserver-client-kubelet", "system:node:new");
    content.organization = Some("system:nodes".to_owned());
    signing_request("kubelet", &content)
}

fn is_issued(request: &CertificateSigningRequest) -> bool {
    request.status.as_ref().is_some_and(|status| status.certificate.is_some())
}

/// Returns the reason and the message of a condition.
fn condition(request: &CertificateSigningRequest, type_: &str) -> Option<(String, String)> {
    let found = request.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)?;
    Some((found.reason.clone()?, found.message.clone()?))
}

#[tokio::test(start_paused = true)]
async fn certificate_requests_are_approved_signed_and_deleted() {
    let audited = Audited::start().await;
    let (env, client) = (&audited.env, audited.env.client());
    let begin = env.clock().now();
    let controllers = Controllers::of([BuiltIn::CsrApproving, BuiltIn::CsrSigning, BuiltIn::CsrCleaner]);
    env.run(audited.manager(controllers.certificate_signer(certificate_signer(env))));

    create(&client, REQUESTS, &kubelet_request()).await;
    let kubelet = env.eventually::<CertificateSigningRequest>("kubelet", is_issued).await;
    let message = "Auto approving kubelet client certificate after SubjectAccessReview.";
    assert_eq!(condition(&kubelet, "Approved"), Some(("AutoApproved".to_owned(), message.to_owned())));
    let pem = String::from_utf8(kubelet.status.unwrap().certificate.unwrap().0).unwrap();
    let certificate = Certificate::from_pem(&pem).unwrap();
    assert_eq!(
        (&*certificate.common_name, &*certificate.organizations),
        ("system:node:new", &["system:nodes".to_owned()][..])
    );
    let around = [certificate.not_before, certificate.not_after].map(|time| time.as_second() - begin.as_second());
    assert!((-300..-290).contains(&around[0]) && (3600..3610).contains(&around[1]), "{around:?}");

    // Others need the approval of an administrator.
    let content = CertificateRequest::client("kubernetes.io/kube-apiserver-client", "alice");
    create(&client, REQUESTS, &signing_request("alice", &content)).await;
    let mut content = CertificateRequest::client("kubernetes.io/kubelet-serving", "system:node:new");
    content.organization = Some("system:nodes".to_owned());
    content.usages = vec![Usage::DigitalSignature, Usage::ServerAuth];
    create(&client, REQUESTS, &signing_request("nameless", &content)).await;
    for name in ["alice", "nameless"] {
        client.approve(name).await.unwrap();
    }
    env.eventually::<CertificateSigningRequest>("alice", is_issued).await;
    let failed = |request: &CertificateSigningRequest| condition(request, "Failed").is_some();
    let nameless = env.eventually::<CertificateSigningRequest>("nameless", failed).await;
    let expected = ("SignerValidationFailure".to_owned(), "DNS or IP subjectAltName is required".to_owned());
    assert_eq!(condition(&nameless, "Failed"), Some(expected));

    // They are deleted after an hour.
    tokio::time::sleep(Duration::from_mins(59)).await;
    assert_eq!(client.list::<CertificateSigningRequest>().await.unwrap().items.len(), 3);
    for name in ["kubelet", "alice", "nameless"] {
        env.eventually_gone::<CertificateSigningRequest>(name).await;
    }
    let writers = assert_least_privilege(&audited.requests().await);
    assert_eq!(writers, BTreeSet::from([Identity::Controller("certificate-controller").user()]));
}
