//! The node authorizer: a kubelet may read only the objects that the pods on its node use.
//!
//! A node is a user `system:node:NAME` in the group `system:nodes`. The graph of pods, volumes and attachments is kept
//! current by watches of the storage. It includes every write that this server answered before the request arrived.

use std::{collections::HashMap, fmt, sync::Arc};

use futures::{FutureExt as _, StreamExt as _};
use serde_json::Value;
use tokio::task::unconstrained;
use windlass_api::Status;

use super::{AccessAttributes, Object, Rule, default_roles};
use crate::{
    identity::User,
    kubernetes::KubernetesVersion,
    object::Tree,
    offload::{LARGE, PART, offload},
    resource::Item,
    storage::{EventStream, RangeQuery, Revision, Storage, StorageEvent, StoredValue, last_commits::LastCommits},
};

const PREFIX: &str = "system:node:";
pub(crate) const NODES: &str = "system:nodes";
const LEASES: &str = "kube-node-lease";

/// The storage prefixes of the objects in the graph.
pub(super) const WATCHED: [&str; 5] = [
    "/registry/pods/",
    "/registry/persistentvolumes/",
    "/registry/volumeattachments/",
    "/registry/resourceslices/",
    "/registry/podcertificaterequests/",
];

/// Returns the name of the node that a user is; `None` for other users. The name may be empty.
pub(crate) fn node_name(user: &User) -> Option<&str> {
    user.name.strip_prefix(PREFIX).filter(|_| user.is_in(NODES))
}

/// The decision on a node's request, or the question that the graph answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict<'a> {
    Allowed,
    NoOpinion(String),
    /// It is allowed if the object is related to the node.
    IfRelated(Vertex<'a>),
}

/// An object in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vertex<'a> {
    kind: Kind,
    namespace: &'a str,
    name: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Secret,
    ConfigMap,
    Claim,
    Volume,
    ResourceClaim,
    ServiceAccount,
    Pod,
    Attachment,
    Slice,
    CertificateRequest,
}

/// The relations of objects to nodes.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// The pods with a node by their keys in the storage.
    pods: HashMap<String, Pod>,
    /// The number of relations of each object to each node.
    relations: HashMap<(Kind, String, String), HashMap<Arc<str>, usize>>,
    /// The claim and the secrets of volumes, by the volume's name.
    volumes: HashMap<String, Volume>,
    /// The volumes of secrets, by namespace and name.
    volumes_of_secrets: HashMap<(String, String), Vec<String>>,
    /// The nodes of attachments, slices and certificate requests, by their keys in the storage.
    others: HashMap<String, Related>,
}

#[derive(Debug)]
struct Pod {
    node: Arc<str>,
    related: Vec<(Kind, String, String)>,
}

#[derive(Debug)]
struct Volume {
    claim: (String, String),
    secrets: Vec<(String, String)>,
}

#[derive(Debug)]
struct Related {
    kind: Kind,
    namespace: String,
    name: String,
    node: Arc<str>,
}

/// The graph, and the storage events that update it.
pub(super) struct GraphFollower {
    graph: Graph,
    /// The events of each prefix, and the revision up to which they were read.
    events: Vec<(EventStream, Revision)>,
}

/// The state of a follower.
pub(super) enum CurrentGraph<'a> {
    Graph(&'a Graph),
    /// The event of a commit of this server has not arrived yet.
    Behind(&'a Graph),
    Ended,
}

/// Returns the rules of nodes for resources that are not subdivided.
pub(super) fn rules(kubernetes: KubernetesVersion) -> Vec<Rule> {
    let role = default_roles::recorded(kubernetes)
        .find(|role| role.plural == "clusterroles" && role.object.text(&["metadata", "name"]) == "system:node");
    role.map(|role| Rule::all_of(&role.object)).unwrap_or_default()
}

/// Decides about a request of a node. `rules` are those of [`rules`].
pub(super) fn judge<'a>(
    node: &str,
    attempt: &AccessAttributes<'a>,
    rules: &[Rule],
    kubernetes: KubernetesVersion,
) -> Verdict<'a> {
    if let Object::Resource { group, resource, .. } = attempt.object {
        let subdivided = match (group, resource) {
            ("", "secrets") => read_namespaced(attempt, Kind::Secret),
            ("", "configmaps") => read_namespaced(attempt, Kind::ConfigMap),
            ("", "persistentvolumeclaims") => claim(attempt),
            ("", "persistentvolumes") => get(attempt, Kind::Volume),
            ("resource.k8s.io", "resourceclaims") => get(attempt, Kind::ResourceClaim),
            ("storage.k8s.io", "volumeattachments") => get(attempt, Kind::Attachment),
            ("", "serviceaccounts") => service_account(attempt),
            ("coordination.k8s.io", "leases") => lease(node, attempt),
            ("storage.k8s.io", "csinodes") => csi_node(node, attempt),
            ("resource.k8s.io", "resourceslices") => slice(node, attempt),
            ("", "nodes") => own_node(node, attempt),
            ("", "pods") => pod(node, attempt),
            ("certificates.k8s.io", "podcertificaterequests") if kubernetes < KubernetesVersion::V1_37 => refused(""),
            ("certificates.k8s.io", "podcertificaterequests") => certificate_request(node, attempt),
            _ => return by_rules(attempt, rules),
        };
        return subdivided;
    }
    by_rules(attempt, rules)
}

fn by_rules<'a>(attempt: &AccessAttributes<'a>, rules: &[Rule]) -> Verdict<'a> {
    if rules.iter().any(|rule| rule.allows(attempt)) { Verdict::Allowed } else { refused("") }
}

fn refused<'a>(why: &str) -> Verdict<'a> {
    Verdict::NoOpinion(why.to_owned())
}

/// The parts of a request for a resource.
struct Parts<'a> {
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

fn parts<'a>(attempt: &AccessAttributes<'a>) -> Parts<'a> {
    match attempt.object {
        Object::Resource { subresource, namespace, name, .. } => Parts { subresource, namespace, name },
        Object::Path(_) => Parts { subresource: "", namespace: "", name: "" },
    }
}

fn related<'a>(attempt: &AccessAttributes<'a>, kind: Kind) -> Verdict<'a> {
    let Parts { namespace, name, .. } = parts(attempt);
    if name.is_empty() {
        return refused("No Object name found");
    }
    Verdict::IfRelated(Vertex { kind, namespace, name })
}

fn read_namespaced<'a>(attempt: &AccessAttributes<'a>, kind: Kind) -> Verdict<'a> {
    let Parts { subresource, namespace, .. } = parts(attempt);
    if !matches!(attempt.verb, "get" | "list" | "watch") {
        return refused("can only read resources of this type");
    }
    if !subresource.is_empty() {
        return refused("cannot read subresource");
    }
    if namespace.is_empty() {
        return refused("can only read namespaced object of this type");
    }
    related(attempt, kind)
}

fn claim<'a>(attempt: &AccessAttributes<'a>) -> Verdict<'a> {
    if parts(attempt).subresource != "status" {
        return get(attempt, Kind::Claim);
    }
    if !matches!(attempt.verb, "update" | "patch") {
        return refused("can only get/update/patch this type");
    }
    related(attempt, Kind::Claim)
}

fn get<'a>(attempt: &AccessAttributes<'a>, kind: Kind) -> Verdict<'a> {
    if attempt.verb != "get" {
        return refused("can only get individual resources of this type");
    }
    if !parts(attempt).subresource.is_empty() {
        return refused("cannot get subresource");
    }
    related(attempt, kind)
}

fn service_account<'a>(attempt: &AccessAttributes<'a>) -> Verdict<'a> {
    let Parts { subresource, name, .. } = parts(attempt);
    if attempt.verb == "get" && subresource.is_empty() {
        return read_namespaced(attempt, Kind::ServiceAccount);
    }
    if attempt.verb != "create" || name.is_empty() {
        return refused("can only create tokens for individual service accounts");
    }
    if subresource != "token" {
        return refused("can only create token subresource of serviceaccount");
    }
    related(attempt, Kind::ServiceAccount)
}

const OWN_VERBS: [&str; 5] = ["get", "create", "update", "patch", "delete"];

fn lease<'a>(node: &str, attempt: &AccessAttributes<'a>) -> Verdict<'a> {
    let Parts { namespace, name, .. } = parts(attempt);
    if !OWN_VERBS.contains(&attempt.verb) {
        return refused("can only get, create, update, patch, or delete a node lease");
    }
    if namespace != LEASES {
        return refused(&format!("can only access leases in the {LEASES:?} system namespace"));
    }
    if attempt.verb != "create" && name != node {
        return refused("can only access node lease with the same name as the requesting node");
    }
    Verdict::Allowed
}

fn csi_node<'a>(node: &str, attempt: &AccessAttributes<'a>) -> Verdict<'a> {
    let Parts { subresource, name, .. } = parts(attempt);
    if !OWN_VERBS.contains(&attempt.verb) {
        return refused("can only get, create, update, patch, or delete a CSINode");
    }
    if !subresource.is_empty() {
        return refused("cannot authorize CSINode subresources");
    }
    if attempt.verb != "create" && name != node {
        return refused("can only access CSINode with the same name as the requesting node");
    }
    Verdict::Allowed
}

fn slice<'a>(node: &str, attempt: &AccessAttributes<'a>) -> Verdict<'a> {
    if !parts(attempt).subresource.is_empty() {
        return refused("cannot authorize ResourceSlice subresources");
    }
    match attempt.verb {
        "create" => Verdict::Allowed,
        "get" | "update" | "patch" | "delete" => related(attempt, Kind::Slice),
        "watch" | "list" | "deletecollection" if attempt.selected_node == Some(node) => Verdict::Allowed,
        "watch" | "list" | "deletecollection" => {
            refused("can only list/watch/deletecollection resourceslices with nodeName field selector")
        }
        _ => refused(
            "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, \
             deletecollection",
        ),
    }
}

fn certificate_request<'a>(node: &str, attempt: &AccessAttributes<'a>) -> Verdict<'a> {
    if !parts(attempt).subresource.is_empty() {
        return refused("nodes may not access the status subresource of PodCertificateRequests");
    }
    match attempt.verb {
        "create" => Verdict::Allowed,
        "get" => related(attempt, Kind::CertificateRequest),
        "list" | "watch" if attempt.selected_node == Some(node) => Verdict::Allowed,
        "list" | "watch" => refused("can only list/watch podcertificaterequests with nodeName field selector"),
        verb => refused(&format!("nodes may not {verb} podcertificaterequests")),
    }
}

fn own_node<'a>(node: &str, attempt: &AccessAttributes<'a>) -> Verdict<'a> {
    let Parts { subresource, name, .. } = parts(attempt);
    match (subresource, attempt.verb) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Verdict::Allowed,
        ("", "get" | "list" | "watch") => match name {
            own if own == node => Verdict::Allowed,
            "" => refused(&format!("node '{node}' cannot read all nodes, only its own Node object")),
            other => refused(&format!("node '{node}' cannot read '{other}', only its own Node object")),
        },
        _ => refused(""),
    }
}

fn pod<'a>(node: &str, attempt: &AccessAttributes<'a>) -> Verdict<'a> {
    let Parts { subresource, name, .. } = parts(attempt);
    match (subresource, attempt.verb) {
        ("", "get") => get(attempt, Kind::Pod),
        ("", "list" | "watch") if attempt.selected_node == Some(node) => Verdict::Allowed,
        ("", "list" | "watch") if !name.is_empty() => related(attempt, Kind::Pod),
        ("", "list" | "watch") => refused("can only list/watch pods with spec.nodeName field selector"),
        ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Verdict::Allowed,
        _ => refused(""),
    }
}

// === impl Graph ===

impl Graph {
    /// Decides about a request of a node.
    pub(super) fn decide(&self, node: &str, vertex: Vertex<'_>) -> Result<(), String> {
        if self.is_related(node, vertex) {
            Ok(())
        } else {
            Err(format!("no relationship found between node '{node}' and this object"))
        }
    }

    fn is_related(&self, node: &str, vertex: Vertex<'_>) -> bool {
        let Vertex { kind, namespace, name } = vertex;
        if kind == Kind::Volume {
            let volume = self.volumes.get(name);
            return volume.is_some_and(|volume| self.has_claim(node, &volume.claim));
        }
        let key = (kind, namespace.to_owned(), name.to_owned());
        if self.relations.get(&key).is_some_and(|nodes| nodes.contains_key(node)) {
            return true;
        }
        if kind != Kind::Secret {
            return false;
        }
        let (_, namespace, name) = key;
        let volumes = self.volumes_of_secrets.get(&(namespace, name));
        let mut volumes = volumes.into_iter().flatten().filter_map(|volume| self.volumes.get(volume));
        volumes.any(|volume| self.has_claim(node, &volume.claim))
    }

    fn has_claim(&self, node: &str, (namespace, name): &(String, String)) -> bool {
        let key = (Kind::Claim, namespace.clone(), name.clone());
        self.relations.get(&key).is_some_and(|nodes| nodes.contains_key(node))
    }

    fn add(&mut self, object: &(Kind, String, String), node: &Arc<str>) {
        *self.relations.entry(object.clone()).or_default().entry(Arc::clone(node)).or_default() += 1;
    }

    fn remove(&mut self, object: &(Kind, String, String), node: &str) {
        let Some(nodes) = self.relations.get_mut(object) else { return };
        if let Some(count) = nodes.get_mut(node) {
            *count -= 1;
            if *count == 0 {
                nodes.remove(node);
            }
        }
        if nodes.is_empty() {
            self.relations.remove(object);
        }
    }

    /// Updates the object stored under a key.
    fn put(&mut self, key: &str, stored: Option<&StoredValue>) {
        let found = WATCHED.iter().enumerate().find_map(|(index, prefix)| Some((index, key.strip_prefix(prefix)?)));
        let Some((index, rest)) = found else { return };
        // An unreadable object relates to nothing.
        let object = stored.and_then(|stored| Some(Item::stored(stored).ok()?.value()));
        let (namespace, name) = rest.split_once('/').unwrap_or(("", rest));
        match index {
            0 => self.put_pod(key, namespace, name, object.as_ref()),
            1 => self.put_volume(name, object.as_ref()),
            _ => {
                let kind = match index {
                    2 => Kind::Attachment,
                    3 => Kind::Slice,
                    _ => Kind::CertificateRequest,
                };
                let node = object.as_ref().map_or("", |object| object.text(&["spec", "nodeName"]));
                self.put_other(key, kind, namespace, name, node);
            }
        }
    }

    fn put_pod(&mut self, key: &str, namespace: &str, name: &str, pod: Option<&Value>) {
        if let Some(Pod { node, related }) = self.pods.remove(key) {
            for object in &related {
                self.remove(object, &node);
            }
        }
        let Some(pod) = pod else { return };
        let node = pod.text(&["spec", "nodeName"]);
        if node.is_empty() {
            return;
        }
        let node: Arc<str> = node.into();
        let mut related = vec![(Kind::Pod, namespace.to_owned(), name.to_owned())];
        // A node can create mirror pods, which must not give it access to other objects.
        if pod.at(&["metadata", "annotations", "kubernetes.io/config.mirror"]).is_none() {
            let mut uses = Vec::new();
            uses_of_pod(pod, name, &mut uses);
            related.extend(uses.into_iter().map(|(kind, used)| (kind, namespace.to_owned(), used)));
        }
        for object in &related {
            self.add(object, &node);
        }
        self.pods.insert(key.to_owned(), Pod { node, related });
    }

    fn put_volume(&mut self, name: &str, volume: Option<&Value>) {
        if let Some(old) = self.volumes.remove(name) {
            for secret in &old.secrets {
                if let Some(volumes) = self.volumes_of_secrets.get_mut(secret) {
                    volumes.retain(|volume| volume != name);
                    if volumes.is_empty() {
                        self.volumes_of_secrets.remove(secret);
                    }
                }
            }
        }
        let Some(volume) = volume else { return };
        let Some(claim) = volume.at(&["spec", "claimRef"]) else { return };
        let claim = (claim.text(&["namespace"]).to_owned(), claim.text(&["name"]).to_owned());
        let secrets = secrets_of_volume(volume, &claim.0);
        for secret in &secrets {
            self.volumes_of_secrets.entry(secret.clone()).or_default().push(name.to_owned());
        }
        self.volumes.insert(name.to_owned(), Volume { claim, secrets });
    }

    fn put_other(&mut self, key: &str, kind: Kind, namespace: &str, name: &str, node: &str) {
        if let Some(old) = self.others.remove(key) {
            self.remove(&(old.kind, old.namespace, old.name), &old.node);
        }
        if node.is_empty() {
            return;
        }
        let related = Related { kind, namespace: namespace.to_owned(), name: name.to_owned(), node: node.into() };
        self.add(&(kind, namespace.to_owned(), name.to_owned()), &related.node);
        self.others.insert(key.to_owned(), related);
    }
}

/// Adds the objects that a pod uses.
fn uses_of_pod(pod: &Value, name: &str, uses: &mut Vec<(Kind, String)>) {
    let mut add = |kind, name: &str| {
        if !name.is_empty() {
            uses.push((kind, name.to_owned()));
        }
    };
    add(Kind::ServiceAccount, pod.text(&["spec", "serviceAccountName"]));
    for secret in pod.items(&["spec", "imagePullSecrets"]) {
        add(Kind::Secret, secret.text(&["name"]));
    }
    let containers = ["initContainers", "containers", "ephemeralContainers"];
    for container in containers.iter().flat_map(|list| pod.items(&["spec", list])) {
        for source in container.items(&["envFrom"]) {
            add(Kind::ConfigMap, source.text(&["configMapRef", "name"]));
            add(Kind::Secret, source.text(&["secretRef", "name"]));
        }
        for variable in container.items(&["env"]) {
            add(Kind::ConfigMap, variable.text(&["valueFrom", "configMapKeyRef", "name"]));
            add(Kind::Secret, variable.text(&["valueFrom", "secretKeyRef", "name"]));
        }
    }
    for volume in pod.items(&["spec", "volumes"]) {
        add(Kind::Secret, volume.text(&["secret", "secretName"]));
        add(Kind::Secret, volume.text(&["azureFile", "secretName"]));
        for source in ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"] {
            add(Kind::Secret, volume.text(&[source, "secretRef", "name"]));
        }
        add(Kind::Secret, volume.text(&["csi", "nodePublishSecretRef", "name"]));
        add(Kind::ConfigMap, volume.text(&["configMap", "name"]));
        for source in volume.items(&["projected", "sources"]) {
            add(Kind::Secret, source.text(&["secret", "name"]));
            add(Kind::ConfigMap, source.text(&["configMap", "name"]));
        }
        add(Kind::Claim, volume.text(&["persistentVolumeClaim", "claimName"]));
        if volume.at(&["ephemeral"]).is_some() {
            add(Kind::Claim, &format!("{name}-{}", volume.text(&["name"])));
        }
    }
    let statuses = pod.items(&["status", "resourceClaimStatuses"]);
    for claim in pod.items(&["spec", "resourceClaims"]) {
        add(Kind::ResourceClaim, claim.text(&["resourceClaimName"]));
        let made = statuses.iter().filter(|_| claim.at(&["resourceClaimTemplateName"]).is_some());
        for status in made.filter(|status| status.text(&["name"]) == claim.text(&["name"])) {
            add(Kind::ResourceClaim, status.text(&["resourceClaimName"]));
        }
    }
    add(Kind::ResourceClaim, pod.text(&["status", "extendedResourceClaimStatus", "resourceClaimName"]));
}

/// Returns the secrets of a volume that kubelets read, with their namespaces. `namespace` is that of the volume's claim.
fn secrets_of_volume(volume: &Value, namespace: &str) -> Vec<(String, String)> {
    let mut secrets = Vec::new();
    let mut add = |own: &str, name: &str| {
        if !name.is_empty() {
            let namespace = if own.is_empty() { namespace } else { own };
            secrets.push((namespace.to_owned(), name.to_owned()));
        }
    };
    let spec = volume.at(&["spec"]).unwrap_or(&Value::Null);
    add(spec.text(&["azureFile", "secretNamespace"]), spec.text(&["azureFile", "secretName"]));
    for source in ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"] {
        add(spec.text(&[source, "secretRef", "namespace"]), spec.text(&[source, "secretRef", "name"]));
    }
    for field in ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"] {
        add(spec.text(&["csi", field, "namespace"]), spec.text(&["csi", field, "name"]));
    }
    secrets
}

// === impl GraphFollower ===

impl GraphFollower {
    /// Reads the stored objects, and starts to watch them. Many objects are decoded outside of the runtime.
    pub(super) async fn start(storage: &dyn Storage) -> Result<Self, Status> {
        let mut follower = Self { graph: Graph::default(), events: Vec::new() };
        for prefix in WATCHED {
            let range = storage.range(RangeQuery::prefix(prefix)).await.map_err(Status::internal)?;
            let mut values = range.values.into_iter();
            while !values.as_slice().is_empty() {
                let mut bytes = 0;
                let mut is_in_part = |value: &StoredValue| {
                    bytes += value.body.len();
                    bytes <= PART
                };
                // A part has at least one object.
                let count = values.as_slice().iter().take_while(|value| is_in_part(value)).count().max(1);
                let part: Vec<StoredValue> = values.by_ref().take(count).collect();
                let is_large = bytes >= LARGE;
                let mut graph = std::mem::take(&mut follower.graph);
                let put = move || {
                    for value in &part {
                        graph.put(&value.key, Some(value));
                    }
                    graph
                };
                follower.graph = if is_large { offload(put).await? } else { put() };
            }
            let events = storage.watch(prefix, range.revision).await.map_err(Status::internal)?;
            follower.events.push((events, range.revision));
        }
        Ok(follower)
    }

    /// Returns the graph after all events so far, if they include the last commits of this server. `first` is the index of
    /// the first prefix in the commits.
    pub(super) fn current(&mut self, commits: &LastCommits, first: usize) -> CurrentGraph<'_> {
        let mut is_behind = false;
        for (index, (events, progress)) in self.events.iter_mut().enumerate() {
            // Without tokio's cooperative budget, so that a busy task does not miss pending events.
            while let Some(delivery) = unconstrained(events.next()).now_or_never() {
                let Some(Ok(delivery)) = delivery else { return CurrentGraph::Ended };
                *progress = delivery.progress().max(*progress);
                if let Some(StorageEvent { key, current, .. }) = delivery.into_event() {
                    self.graph.put(&key, current.as_ref());
                }
            }
            is_behind |= *progress < commits.last(first + index);
        }
        if is_behind { CurrentGraph::Behind(&self.graph) } else { CurrentGraph::Graph(&self.graph) }
    }
}

impl fmt::Debug for GraphFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphFollower").field("pods", &self.graph.pods.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
