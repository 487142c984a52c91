//! The claims of a pod to be scheduled, and the nodes on which they can be satisfied.

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use windlass_api::{ObjectExt, ObjectRef};
use windlass_cache::Lister;
use windlass_client::{Client, Error};

use super::{fit::Labeled, scheduler::reason::Reason};
use crate::{
    consumers::claims_of,
    error::ReconcileError,
    volumes::{
        SELECTED_NODE, candidates, is_bound,
        matching::{Binding, best_match, class_of_claim, reaches, requested},
        reserved, volume_of, waits_for_consumer,
    },
};

/// The provisioner of classes whose volumes an administrator creates.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The claims of a pod.
#[derive(Debug, Default)]
pub(super) struct Consumption {
    /// The volumes of its bound claims.
    volumes: Vec<Arc<PersistentVolume>>,
    /// True if a bound claim has no volume in the cache.
    lacks_volume: bool,
    /// The claims to bind once a node is selected, sorted by requested size.
    waiting: Vec<Waiting>,
}

/// A claim that waits for its first consumer.
#[derive(Debug)]
struct Waiting {
    claim: Arc<PersistentVolumeClaim>,
    class: Arc<StorageClass>,
    /// The volumes that can satisfy it.
    candidates: Vec<Arc<PersistentVolume>>,
}

/// A change that gives a claim a volume.
#[derive(Debug)]
pub(super) enum Change {
    /// Reserves an existing volume.
    Reserve(Box<PersistentVolume>),
    /// Requests a new volume from the provisioner.
    Provision(Box<PersistentVolumeClaim>),
}

/// The stores of claims, volumes and classes.
#[derive(Clone, Debug)]
pub(super) struct Stores {
    pub(super) claims: Lister<PersistentVolumeClaim>,
    pub(super) volumes: Lister<PersistentVolume>,
    pub(super) classes: Lister<StorageClass>,
}

/// The source of the volume of a waiting claim on a node.
#[derive(Debug)]
enum Supply<'c> {
    /// An existing volume.
    Volume(&'c PersistentVolume),
    /// A new volume from the provisioner of the class.
    Provisioner,
}

impl Consumption {
    /// Looks up the claims of a pod. The inner error is the reason why the pod cannot be scheduled on any node.
    pub(super) fn of(pod: &Pod, stores: &Stores) -> Result<Result<Self, String>, ReconcileError> {
        let mut consumption = Self::default();
        let mut is_unbound = false;
        for key in claims_of(pod) {
            let Some(claim) = stores.claims.get(&key) else {
                return Ok(Err(missing(pod, key.name())));
            };
            let claim = claim.get()?;
            let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
            if phase == Some("Lost") {
                let (claim, volume) = (claim.name(), volume_of(&claim).unwrap_or_default());
                let why = format!("persistentvolumeclaim {claim:?} bound to non-existent persistentvolume {volume:?}");
                return Ok(Err(why));
            }
            if claim.is_deleting() {
                return Ok(Err(format!("persistentvolumeclaim {:?} is being deleted", claim.name())));
            }
            if is_bound(&claim) {
                match stores.volumes.get(&ObjectRef::new(volume_of(&claim).unwrap_or_default())) {
                    Some(volume) => consumption.volumes.push(volume.get()?),
                    None => consumption.lacks_volume = true,
                }
                continue;
            }
            let class = stores.classes.get(&ObjectRef::new(class_of_claim(&claim)));
            let class = class.map(|class| class.get()).transpose()?;
            match class.filter(|class| waits_for_consumer(class) && volume_of(&claim).is_none()) {
                Some(class) => {
                    let candidates = candidates(&stores.volumes, &claim)?;
                    consumption.waiting.push(Waiting { claim, class, candidates });
                }
                None => is_unbound = true,
            }
        }
        if is_unbound {
            return Ok(Err("pod has unbound immediate PersistentVolumeClaims".to_owned()));
        }
        consumption.waiting.sort_by_key(|waiting| requested(&waiting.claim));
        Ok(Ok(consumption))
    }

    /// Checks that a node reaches all volumes, and that waiting claims can get volumes there.
    pub(super) fn fit(&self, node: &dyn Labeled) -> Result<(), Reason> {
        if self.lacks_volume {
            return Err(Reason::LostVolume);
        }
        if !self.volumes.iter().all(|volume| reaches(volume, node)) {
            return Err(Reason::Unreachable);
        }
        self.supplies(node).map(drop).ok_or(Reason::NoVolume)
    }

    /// Reports whether all claims are bound.
    pub(super) fn is_bound(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the changes that reserve volumes which the node reaches, and request missing ones from provisioners.
    pub(super) fn changes_on(&self, node: &dyn Labeled) -> Vec<Change> {
        let supplies = self.supplies(node).unwrap_or_default();
        let changes = self.waiting.iter().zip(supplies).filter_map(|(waiting, supply)| match supply {
            Supply::Volume(volume) => reserved(volume, &waiting.claim).map(|volume| Change::Reserve(Box::new(volume))),
            Supply::Provisioner if waiting.selected_node().is_some() => None,
            Supply::Provisioner => {
                let mut asking = (*waiting.claim).clone();
                asking.annotations_mut().insert(SELECTED_NODE.to_owned(), node.node_name().to_owned());
                Some(Change::Provision(Box::new(asking)))
            }
        });
        changes.collect()
    }

    /// Finds a volume source on a node for each waiting claim. Returns `None` if one has none.
    fn supplies(&self, node: &dyn Labeled) -> Option<Vec<Supply<'_>>> {
        let mut taken = Vec::new();
        let mut supplies = Vec::new();
        for waiting in &self.waiting {
            let is_elsewhere = waiting.selected_node().is_some_and(|selected| selected != node.node_name());
            if is_elsewhere {
                return None;
            }
            let free = waiting.candidates.iter().filter(|volume| !taken.contains(&volume.name()));
            let found = best_match(&waiting.claim, free.map(|volume| &**volume), Binding::OnNode(node));
            // Once a provisioner was requested, no existing volume is used.
            match found.filter(|_| waiting.selected_node().is_none()) {
                Some(volume) => {
                    taken.push(volume.name());
                    supplies.push(Supply::Volume(volume));
                }
                None if provides_for(&waiting.class, node) => supplies.push(Supply::Provisioner),
                None => return None,
            }
        }
        Some(supplies)
    }
}

impl Waiting {
    /// Returns the node for which the provisioner was requested to create a volume.
    fn selected_node(&self) -> Option<&str> {
        self.claim.annotations().get(SELECTED_NODE).map(String::as_str)
    }
}

impl Change {
    /// Sends the change. Ignores conflicts and missing objects: the event of the change tries the pod again.
    pub(super) async fn send(&self, client: &Client) -> Result<(), Error> {
        let written = match self {
            Self::Reserve(volume) => client.update(&**volume).await.map(drop),
            Self::Provision(claim) => client.update(&**claim).await.map(drop),
        };
        match written {
            Err(error) if error.is_conflict() || error.is_not_found() => Ok(()),
            other => other,
        }
    }
}

fn missing(pod: &Pod, claim: &str) -> String {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let mut named = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    if named.any(|source| source.claim_name == claim) {
        return format!("persistentvolumeclaim {claim:?} not found");
    }
    format!("waiting for ephemeral volume controller to create the persistentvolumeclaim {claim:?}")
}

/// Reports whether the provisioner of a class can create volumes for a node.
fn provides_for(class: &StorageClass, node: &dyn Labeled) -> bool {
    let topologies = class.allowed_topologies.as_deref().unwrap_or_default();
    let is_allowed = topologies.is_empty()
        || topologies.iter().any(|term| {
            let mut rules = term.match_label_expressions.iter().flatten();
            rules.all(|rule| node.label(&rule.key).is_some_and(|label| rule.values.iter().any(|value| value == label)))
        });
    class.provisioner != NO_PROVISIONER && is_allowed
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::{Value, json};

    use super::*;

    fn node(name: &str) -> Node {
        serde_json::from_value(json!({"metadata": {"name": name, "labels": {"zone": name}}})).unwrap()
    }

    fn volume(name: &str, zone: &str) -> Arc<PersistentVolume> {
        let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]);
        let volume = json!({
            "metadata": {"name": name}, "status": {"phase": "Available"},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}},
        });
        Arc::new(serde_json::from_value(volume).unwrap())
    }

    fn waiting(name: &str, annotations: Value, provisioner: &str, candidates: &[Arc<PersistentVolume>]) -> Waiting {
        let claim = json!({
            "metadata": {"name": name, "namespace": "n", "uid": name, "annotations": annotations},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "local",
                "resources": {"requests": {"storage": "1Gi"}}},
        });
        let class = json!({"metadata": {"name": "local"}, "provisioner": provisioner,
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]});
        Waiting {
            claim: Arc::new(serde_json::from_value(claim).unwrap()),
            class: Arc::new(serde_json::from_value(class).unwrap()),
            candidates: candidates.to_vec(),
        }
    }

    fn fits(consumption: &Consumption) -> [Result<(), Reason>; 3] {
        ["a", "b", "c"].map(|name| consumption.fit(&node(name)))
    }

    #[test]
    fn bound_claims_keep_a_pod_where_their_volumes_are() {
        let bound = Consumption { volumes: vec![volume("v", "b")], ..Consumption::default() };
        assert_eq!(fits(&bound), [Err(Reason::Unreachable), Ok(()), Err(Reason::Unreachable)]);
        let lost = Consumption { lacks_volume: true, ..Consumption::default() };
        assert_eq!(lost.fit(&node("a")), Err(Reason::LostVolume));
    }

    #[test]
    fn two_claims_do_not_get_one_volume() {
        let volumes = [volume("v", "a")];
        let claims = |count: usize| {
            let names = ["one", "two"].into_iter().take(count);
            let waiting = names.map(|name| waiting(name, json!({}), NO_PROVISIONER, &volumes)).collect();
            Consumption { waiting, ..Consumption::default() }
        };
        assert_eq!((claims(1).fit(&node("a")), claims(2).fit(&node("a"))), (Ok(()), Err(Reason::NoVolume)));
    }

    #[test]
    fn a_provisioner_makes_volumes_in_its_topologies() {
        let asks = |annotations: Value| Consumption {
            waiting: vec![waiting("one", annotations, "example.com/disks", &[])],
            ..Consumption::default()
        };
        assert_eq!(fits(&asks(json!({}))), [Ok(()), Ok(()), Err(Reason::NoVolume)]);
        let selected = asks(json!({SELECTED_NODE: "b"}));
        assert_eq!(fits(&selected), [Err(Reason::NoVolume), Ok(()), Err(Reason::NoVolume)]);
    }
}
