//! The plugin `NodeRestriction`: limits the writes of a kubelet to its own node, and to the pods on it.
//!
//! Together with the node authorizer, a stolen credential of a node gives access to that node only.

use std::{collections::BTreeSet, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::future::BoxFuture;
use rustls::pki_types::{CertificateSigningRequestDer, pem::PemObject as _};
use serde_json::{Map, Value};
use windlass_api::{GroupResource, Status};
use x509_parser::{certification_request::X509CertificationRequest, prelude::FromDer as _};

use crate::{
    authz::{AccessAttributes, Authorizer, Object, node_name},
    codec::go_quote,
    object::{Tree, same},
    registry::{Admission, Attributes, Operation, Registry},
    resource::Target,
};

/// Restricts the writes of nodes.
#[derive(Debug)]
pub(crate) struct NodeRestriction(pub(crate) Arc<Authorizer>);

const MIRROR: &str = "kubernetes.io/config.mirror";
const LEASES: &str = "kube-node-lease";
const RESTRICTED: &str = "node-restriction.kubernetes.io";

/// The labels of Kubernetes that a kubelet may set on its node, besides those with a prefix in [`OWN_PREFIXES`].
const OWN_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
const OWN_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

impl Admission for NodeRestriction {
    fn handles(&self, write: &Attributes) -> bool {
        write.operation != Operation::Connect && node_name(&write.context.user).is_some()
    }

    fn handles_subresource_kinds(&self) -> bool {
        true
    }

    fn admit<'a>(&'a self, registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let user = Arc::clone(&write.context.user);
            let Some(node) = node_name(&user) else { return Ok(()) };
            if node.is_empty() {
                let user = go_quote(&user.name);
                return Err(write.forbidden(format!("could not determine node from user {user}")));
            }
            Restricted { plugin: self, registry, node, write }.check().await
        })
    }
}

/// A write of a node.
struct Restricted<'a> {
    plugin: &'a NodeRestriction,
    registry: &'a Registry,
    node: &'a str,
    write: &'a Attributes,
}

impl Restricted<'_> {
    async fn check(&self) -> Result<(), Status> {
        let write = self.write;
        let subresource = write.subresource.as_deref().unwrap_or_default();
        match (write.resource.group.as_str(), write.resource.plural.as_str()) {
            ("", "pods") => match subresource {
                "" => self.pod().await,
                "status" => self.pod_status(),
                "eviction" => self.eviction().await,
                other => self.refuse(format!(
                    "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
                    go_quote(other)
                )),
            },
            ("", "nodes") => self.own_node(),
            ("", "persistentvolumeclaims") if subresource == "status" => self.claim_status(),
            ("", "persistentvolumeclaims") => self.refuse("may only update PVC status"),
            ("", "serviceaccounts") if subresource == "token" && write.operation == Operation::Create => {
                self.token().await
            }
            ("coordination.k8s.io", "leases") if write.namespace != LEASES => {
                self.refuse(format!("can only access leases in the {LEASES:?} system namespace"))
            }
            ("coordination.k8s.io", "leases") if write.name != self.node => {
                self.refuse("can only access node lease with the same name as the requesting node")
            }
            ("storage.k8s.io", "csinodes") if write.name != self.node => {
                self.refuse("can only access CSINode with the same name as the requesting node")
            }
            ("resource.k8s.io", "resourceslices") => self.slice(),
            ("certificates.k8s.io", "certificatesigningrequests") => self.signing_request(),
            ("certificates.k8s.io", "podcertificaterequests") => self.pod_certificate(subresource),
            _ => Ok(()),
        }
    }

    fn refuse(&self, why: impl std::fmt::Display) -> Result<(), Status> {
        Err(self.write.forbidden(why))
    }

    fn quoted(&self) -> String {
        go_quote(self.node)
    }

    /// Returns an object of the core group, or the error that it does not exist.
    async fn found(&self, plural: &str, namespace: Option<&str>, name: &str) -> Result<Value, Status> {
        self.object("", plural, namespace, name).await
    }

    async fn object(&self, group: &str, plural: &str, namespace: Option<&str>, name: &str) -> Result<Value, Status> {
        let resources = self.registry.resources();
        let resource = resources.get(group, "v1", plural).ok_or_else(Status::unknown_resource)?;
        let item = self.registry.peek_recent(&Target::object(resource, namespace, name)).await?;
        // The caches of the real server name the kind in the singular.
        let kind = plural.strip_suffix('s').unwrap_or(plural).to_owned();
        let missing = || GroupResource::new(group.to_owned(), kind);
        let item = item.ok_or_else(|| Status::not_found(&missing(), name))?;
        Ok(item.value())
    }

    async fn pod(&self) -> Result<(), Status> {
        match self.write.operation {
            Operation::Create => self.mirror_pod().await,
            Operation::Delete => {
                let pod = self.found("pods", Some(&self.write.namespace), &self.write.name).await?;
                if pod.text(&["spec", "nodeName"]) == self.node {
                    return Ok(());
                }
                let node = self.quoted();
                self.refuse(format!("node {node} can only delete pods with spec.nodeName set to itself"))
            }
            Operation::Update | Operation::Connect => {
                let node = self.quoted();
                let why =
                    format!("unexpected operation \"UPDATE\", node {node} can only create and delete mirror pods");
                self.refuse(why)
            }
        }
    }

    async fn mirror_pod(&self) -> Result<(), Status> {
        let (pod, node) = (&self.write.object, self.quoted());
        if pod.at(&["metadata", "annotations", MIRROR]).is_none() {
            return self
                .refuse(format!("pod does not have {MIRROR:?} annotation, node {node} can only create mirror pods"));
        }
        if pod.text(&["spec", "nodeName"]) != self.node {
            return self.refuse(format!("node {node} can only create pods with spec.nodeName set to itself"));
        }
        let owner = match pod.items(&["metadata", "ownerReferences"]) {
            [] => {
                return self.refuse(format!("node {node} can only create pods with an owner reference set to itself"));
            }
            [owner] => owner,
            _ => {
                return self
                    .refuse(format!("node {node} can only create pods with a single owner reference set to itself"));
            }
        };
        let text = |field: &str| owner.text(&[field]);
        if text("apiVersion") != "v1" || text("kind") != "Node" || text("name") != self.node {
            return self.refuse(format!("node {node} can only create pods with an owner reference set to itself"));
        }
        if !owner.flag(&["controller"]) {
            return self
                .refuse(format!("node {node} can only create pods with a controller owner reference set to itself"));
        }
        if owner.flag(&["blockOwnerDeletion"]) {
            return self.refuse(format!("node {node} must not set blockOwnerDeletion on an owner reference"));
        }
        let stored = self.found("nodes", None, self.node).await?;
        let (expected, found) = (text("uid"), stored.text(&["metadata", "uid"]));
        if expected != found {
            let name = self.node;
            return self.refuse(format!("node {name} UID mismatch: expected {expected} got {found}"));
        }
        match referenced(pod) {
            Some(what) => self.refuse(format!("node {node} can not create pods that reference {what}")),
            None => Ok(()),
        }
    }

    fn pod_status(&self) -> Result<(), Status> {
        if self.write.operation != Operation::Update {
            return self.refuse(format!("unexpected operation {}", go_quote(self.operation())));
        }
        let (new, node) = (&self.write.object, self.quoted());
        let old = self.write.old.as_ref().unwrap_or(&Value::Null);
        if old.text(&["spec", "nodeName"]) != self.node {
            let why = format!("node {node} can only update pod status for pods with spec.nodeName set to itself");
            return self.refuse(why);
        }
        if labels(old) != labels(new) {
            return self.refuse(format!("node {node} cannot update labels through pod status"));
        }
        let claims = |pod: &Value| -> Vec<(String, Option<String>)> {
            let statuses = pod.items(&["status", "resourceClaimStatuses"]).iter();
            let claim = |status: &Value| status.at(&["resourceClaimName"])?.as_str().map(str::to_owned);
            statuses.map(|status| (status.text(&["name"]).to_owned(), claim(status))).collect()
        };
        if claims(old) != claims(new) {
            return self.refuse(format!("node {node} cannot update resource claim statues"));
        }
        let extended = ["status", "extendedResourceClaimStatus"];
        if !same(old.at(&extended), new.at(&extended)) {
            return self.refuse(format!("node {node} cannot update extended resource claim status"));
        }
        Ok(())
    }

    fn operation(&self) -> &'static str {
        match self.write.operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }

    async fn eviction(&self) -> Result<(), Status> {
        if self.write.operation != Operation::Create {
            return self.refuse(format!("unexpected operation {}", self.operation()));
        }
        let pod = self.found("pods", Some(&self.write.namespace), &self.write.name).await?;
        if pod.text(&["spec", "nodeName"]) == self.node {
            return Ok(());
        }
        self.refuse(format!("node {} can only evict pods with spec.nodeName set to itself", self.node))
    }

    fn claim_status(&self) -> Result<(), Status> {
        if self.write.operation != Operation::Update {
            return self.refuse(format!("unexpected operation {}", go_quote(self.operation())));
        }
        let fixed = |claim: &Value| {
            let mut claim = claim.clone();
            if let Some(Value::Object(metadata)) = claim.get_mut("metadata") {
                for field in ["resourceVersion", "managedFields"] {
                    metadata.shift_remove(field);
                }
            }
            if let Some(Value::Object(status)) = claim.get_mut("status") {
                for field in ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"] {
                    status.shift_remove(field);
                }
            }
            claim
        };
        let old = self.write.old.as_ref().map(fixed);
        let new = fixed(&self.write.object);
        if same(old.as_ref(), Some(&new)) {
            return Ok(());
        }
        let node = self.quoted();
        // The real server adds the difference in a form of its own.
        self.refuse(format!(
            "node {node} is not allowed to update fields other than status.quantity and status.conditions"
        ))
    }

    fn own_node(&self) -> Result<(), Status> {
        let (write, node) = (self.write, self.quoted());
        if write.name != self.node {
            return self.refuse(format!("node {node} is not allowed to modify node {}", go_quote(&write.name)));
        }
        let new = &write.object;
        let source = ["spec", "configSource"];
        match (write.operation, &write.old) {
            (Operation::Create, _) => {
                if new.at(&source).is_some() {
                    let why = format!("node {node} is not allowed to create pods with a non-nil configSource");
                    return self.refuse(why);
                }
                let forbidden = forbidden_labels(labels(new), &Map::new());
                if !forbidden.is_empty() {
                    let why = format!("node {node} is not allowed to set the following labels: {forbidden}");
                    return self.refuse(why);
                }
            }
            (Operation::Update, Some(old)) => {
                if new.at(&source).is_some() && !same(new.at(&source), old.at(&source)) {
                    let why =
                        format!("node {node} is not allowed to update configSource to a new non-nil configSource");
                    return self.refuse(why);
                }
                if new.items(&["spec", "taints"]) != old.items(&["spec", "taints"]) {
                    return self.refuse(format!("node {node} is not allowed to modify taints"));
                }
                let owners = ["metadata", "ownerReferences"];
                if new.items(&owners) != old.items(&owners) {
                    return self.refuse(format!("node {node} is not allowed to modify ownerReferences"));
                }
                let forbidden = forbidden_labels(labels(new), labels(old));
                if !forbidden.is_empty() {
                    return self.refuse(format!("is not allowed to modify labels: {forbidden}"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    async fn token(&self) -> Result<(), Status> {
        let spec = self.write.object.at(&["spec"]).unwrap_or(&Value::Null);
        let reference = spec.at(&["boundObjectRef"]).unwrap_or(&Value::Null);
        let text = |field: &str| reference.text(&[field]);
        if text("apiVersion") != "v1" || text("kind") != "Pod" || text("name").is_empty() {
            return self.refuse("node requested token not bound to a pod");
        }
        let uid = text("uid");
        if uid.is_empty() {
            return self.refuse("node requested token with a pod binding without a uid");
        }
        let pod = self.found("pods", Some(&self.write.namespace), text("name")).await?;
        if uid != pod.text(&["metadata", "uid"]) {
            return self.refuse(format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have \
                 been deleted and then recreated"
            ));
        }
        if pod.text(&["spec", "nodeName"]) != self.node {
            return self.refuse("node requested token bound to a pod scheduled on a different node");
        }
        let audience = match spec.items(&["audiences"]) {
            [] => "",
            [audience] => audience.as_str().unwrap_or_default(),
            _ => return self.refuse("node may only request 0 or 1 audiences"),
        };
        match self.references_audience(&pod, audience).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => {
                let audience = go_quote(audience);
                return self.refuse(format!("error validating audience {audience}: {}", error.message));
            }
        }
        let object = Object::Resource {
            group: "",
            version: "v1",
            resource: audience,
            subresource: "",
            namespace: &self.write.namespace,
            name: &self.write.name,
        };
        let attempt = AccessAttributes::new("request-serviceaccounts-token-audience", object);
        let user = &self.write.context.user;
        if self.plugin.0.decide(self.registry.storage(), user, &attempt).await?.is_allowed() {
            return Ok(());
        }
        let (audience, user) = (go_quote(audience), &user.name);
        self.refuse(format!(
            "audience {audience} not found in pod spec volume, {user} is not authorized to request tokens for this \
             audience"
        ))
    }

    /// Reports whether a volume of the pod needs a token for an audience.
    async fn references_audience(&self, pod: &Value, audience: &str) -> Result<bool, Status> {
        let mut problem = None;
        for volume in pod.items(&["spec", "volumes"]) {
            let sources = volume.items(&["projected", "sources"]).iter();
            let mut tokens = sources.filter_map(|source| source.at(&["serviceAccountToken"]));
            if tokens.any(|token| token.text(&["audience"]) == audience) {
                return Ok(true);
            }
            let claim = if volume.at(&["ephemeral", "volumeClaimTemplate"]).is_some() {
                Some(format!("{}-{}", pod.text(&["metadata", "name"]), volume.text(&["name"])))
            } else {
                volume.at(&["persistentVolumeClaim"]).map(|claim| claim.text(&["claimName"]).to_owned())
            };
            let driver = match claim {
                Some(claim) => match self.driver_of_claim(&claim).await {
                    Ok(driver) => driver,
                    Err(error) => {
                        problem = Some(error);
                        continue;
                    }
                },
                None => volume.text(&["csi", "driver"]).to_owned(),
            };
            if driver.is_empty() {
                continue;
            }
            match self.object("storage.k8s.io", "csidrivers", None, &driver).await {
                Ok(driver) => {
                    let mut requests = driver.items(&["spec", "tokenRequests"]).iter();
                    if requests.any(|request| request.text(&["audience"]) == audience) {
                        return Ok(true);
                    }
                }
                Err(error) => problem = Some(error),
            }
        }
        problem.map_or(Ok(false), Err)
    }

    async fn driver_of_claim(&self, name: &str) -> Result<String, Status> {
        let claim = self.found("persistentvolumeclaims", Some(&self.write.namespace), name).await?;
        let volume = self.found("persistentvolumes", None, claim.text(&["spec", "volumeName"])).await?;
        Ok(volume.text(&["spec", "csi", "driver"]).to_owned())
    }

    fn slice(&self) -> Result<(), Status> {
        let (object, verb) = match (self.write.operation, &self.write.old) {
            (Operation::Create, _) => (&self.write.object, "create"),
            (Operation::Delete, Some(old)) => (old, "delete"),
            _ => return Ok(()),
        };
        if object.text(&["spec", "nodeName"]) == self.node {
            return Ok(());
        }
        self.refuse(format!("can only {verb} ResourceSlice with the same NodeName as the requesting node"))
    }

    fn signing_request(&self) -> Result<(), Status> {
        let spec = self.write.object.at(&["spec"]).unwrap_or(&Value::Null);
        let is_of_nodes = matches!(
            spec.text(&["signerName"]),
            "kubernetes.io/kubelet-serving" | "kubernetes.io/kube-apiserver-client-kubelet"
        );
        if self.write.operation != Operation::Create || !is_of_nodes {
            return Ok(());
        }
        let expected = format!("system:node:{}", self.node);
        let pem = STANDARD.decode(spec.text(&["request"])).unwrap_or_default();
        let Ok(der) = CertificateSigningRequestDer::from_pem_slice(&pem) else {
            let why = "unable to parse csr: PEM block type must be CERTIFICATE REQUEST";
            return self.refuse(why);
        };
        let name = X509CertificationRequest::from_der(&der).ok().and_then(|(_, request)| {
            let subject = &request.certification_request_info.subject;
            let name = subject.iter_common_name().last()?.as_str().ok()?;
            Some(name.to_owned())
        });
        if name.as_deref() == Some(&*expected) {
            return Ok(());
        }
        self.refuse(format!("can only create a node CSR with CN={expected}"))
    }

    fn pod_certificate(&self, subresource: &str) -> Result<(), Status> {
        if self.write.operation != Operation::Create {
            return self.refuse(format!("unexpected operation {}", self.operation()));
        }
        if !subresource.is_empty() {
            return self.refuse(format!("unexpected subresource {subresource}"));
        }
        let named = self.write.object.text(&["spec", "nodeName"]);
        if named == self.node {
            return Ok(());
        }
        let (named, node) = (go_quote(named), self.quoted());
        self.refuse(format!("PodCertificateRequest.Spec.NodeName={named}, which is not the requesting node {node}"))
    }
}

fn labels(object: &Value) -> &Map<String, Value> {
    static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    object.at(&["metadata", "labels"]).and_then(Value::as_object).unwrap_or(&NONE)
}

/// Returns the changed labels that a kubelet may not change, separated by commas.
fn forbidden_labels(new: &Map<String, Value>, old: &Map<String, Value>) -> String {
    let changed = new.iter().filter(|(key, value)| old.get(*key) != Some(value)).map(|(key, _)| key);
    let removed = old.keys().filter(|key| !new.contains_key(*key));
    let forbidden: BTreeSet<&str> =
        changed.chain(removed).map(String::as_str).filter(|key| is_forbidden(key)).collect();
    forbidden.into_iter().collect::<Vec<_>>().join(", ")
}

fn is_forbidden(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    let is_in = |domain: &str| prefix.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    let is_own = || OWN_LABELS.contains(&key) || OWN_PREFIXES.into_iter().any(is_in);
    is_in(RESTRICTED) || ((is_in("kubernetes.io") || is_in("k8s.io")) && !is_own())
}

/// Returns the kind of API objects that a pod refers to; `None` if there are none.
fn referenced(pod: &Value) -> Option<&'static str> {
    let spec = pod.at(&["spec"]).unwrap_or(&Value::Null);
    if !spec.text(&["serviceAccountName"]).is_empty() {
        return Some("serviceaccounts");
    }
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let containers = || lists.iter().flat_map(|list| spec.items(&[list]));
    let uses = |from: &str, key: &str| {
        containers().any(|container| {
            container.items(&["envFrom"]).iter().any(|source| source.at(&[from]).is_some())
                || container.items(&["env"]).iter().any(|variable| variable.at(&["valueFrom", key]).is_some())
        })
    };
    let volumes = spec.items(&["volumes"]);
    let secret_sources = ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"];
    let has_secret_volume = volumes.iter().any(|volume| {
        volume.at(&["secret"]).is_some()
            || volume.at(&["azureFile"]).is_some()
            || secret_sources.iter().any(|source| volume.at(&[source, "secretRef"]).is_some())
            || volume.at(&["csi", "nodePublishSecretRef"]).is_some()
            || volume.items(&["projected", "sources"]).iter().any(|source| source.at(&["secret"]).is_some())
    });
    if !spec.items(&["imagePullSecrets"]).is_empty() || uses("secretRef", "secretKeyRef") || has_secret_volume {
        return Some("secrets");
    }
    let has_config_volume = volumes.iter().any(|volume| {
        volume.at(&["configMap"]).is_some()
            || volume.items(&["projected", "sources"]).iter().any(|source| source.at(&["configMap"]).is_some())
    });
    if uses("configMapRef", "configMapKeyRef") || has_config_volume {
        return Some("configmaps");
    }
    if !spec.items(&["resourceClaims"]).is_empty() {
        return Some("resourceclaims");
    }
    volumes.iter().find_map(|volume| {
        let has = |source: &str| volume.at(&[source]).is_some();
        let by_source = [
            ("csi", "csidrivers (via CSI volumes)"),
            ("glusterfs", "endpoints (via glusterFS volumes)"),
            ("persistentVolumeClaim", "persistentvolumeclaims"),
            ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
        ];
        let direct = by_source.into_iter().find(|(source, _)| has(source)).map(|(_, what)| what);
        let projected = [
            ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
            ("clusterTrustBundle", "clustertrustbundles"),
            ("podCertificate", "podcertificates"),
        ];
        direct.or_else(|| {
            volume.items(&["projected", "sources"]).iter().find_map(|source| {
                projected.into_iter().find(|(field, _)| source.at(&[field]).is_some()).map(|(_, what)| what)
            })
        })
    })
}
