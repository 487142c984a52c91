//! Matching of volumes and claims. Plain values, no I/O.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec},
    apimachinery::pkg::api::resource::Quantity as ApiQuantity,
};
use windlass_api::{LabelSelector, ObjectExt, Quantity};

use crate::nodes::fit::{Labeled, is_near};

const STORAGE: &str = "storage";
/// The deprecated annotation with the class of a claim or a volume.
const OLDER_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Returns the name of the volume provisioned for a claim.
pub(crate) fn provisioned_name(uid: &str) -> String {
    format!("pvc-{uid}")
}

/// Returns the size that a claim requests.
pub(crate) fn requested(claim: &PersistentVolumeClaim) -> Quantity {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    size(resources.and_then(|resources| resources.requests.as_ref()))
}

/// Returns the size of a volume.
pub(crate) fn capacity(volume: &PersistentVolume) -> Quantity {
    size(volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()))
}

/// Returns the amount of storage in a list of quantities.
pub(crate) fn size(list: Option<&BTreeMap<String, ApiQuantity>>) -> Quantity {
    list.and_then(|list| list.get(STORAGE)?.0.parse().ok()).unwrap_or_default()
}

/// Returns the class of a claim; empty if it has none.
pub(crate) fn class_of_claim(claim: &PersistentVolumeClaim) -> &str {
    let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    claim.annotations().get(OLDER_CLASS).map(String::as_str).or(class).unwrap_or_default()
}

/// Returns `true` if a claim specifies a class, even the empty one.
pub(crate) fn says_class(claim: &PersistentVolumeClaim) -> bool {
    let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_ref());
    claim.annotations().contains_key(OLDER_CLASS) || class.is_some()
}

/// Returns the class of a volume; empty if it has none.
pub(crate) fn class_of_volume(volume: &PersistentVolume) -> &str {
    let class = volume.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    volume.annotations().get(OLDER_CLASS).map(String::as_str).or(class).unwrap_or_default()
}

/// Reports whether a volume is reserved for a claim or bound to it.
pub(crate) fn is_reserved_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    reference.is_some_and(|reference| {
        let uid = reference.uid.as_deref().filter(|uid| !uid.is_empty());
        reference.name.as_deref() == Some(claim.name())
            && reference.namespace.as_deref() == claim.namespace()
            && uid.is_none_or(|uid| claim.uid() == Some(uid))
    })
}

/// Reports whether a volume is reserved for any claim or bound to one.
pub(crate) fn is_reserved(volume: &PersistentVolume) -> bool {
    volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_some())
}

/// Reports whether a claim and a volume differ in their volume mode (file system or block device).
pub(crate) fn modes_differ(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let of_claim = claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref());
    let of_volume = volume.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref());
    of_claim.unwrap_or("Filesystem") != of_volume.unwrap_or("Filesystem")
}

/// Returns the reason why a claim cannot have the volume that it names.
pub(crate) fn mismatch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<String> {
    if volume.is_deleting() {
        return Some(format!("the volume is marked for deletion {:?}", volume.name()));
    }
    let why = if capacity(volume).value() < requested(claim).value() {
        "requested PV is too small"
    } else if class_of_volume(volume) != class_of_claim(claim) {
        "storageClassName does not match"
    } else if attributes_of_claim(claim) != attributes_of_volume(volume) {
        "volumeAttributesClassName does not match"
    } else if modes_differ(claim, volume) {
        "incompatible volumeMode"
    } else if !has_access_modes(claim, volume) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// The situation in which a claim is bound.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Binding<'n> {
    Immediate,
    /// No node is selected yet: only a volume reserved for the claim is bound.
    Delayed,
    /// The scheduler has selected a node: the volume must be reachable from it.
    OnNode(&'n dyn Labeled),
}

/// Finds the volume for a claim. Among the volumes with the fewest access modes, the one reserved for the claim is
/// preferred, then the smallest. With a selected node, the number of access modes is ignored.
pub(crate) fn best_match<'v>(
    claim: &PersistentVolumeClaim,
    volumes: impl IntoIterator<Item = &'v PersistentVolume>,
    binding: Binding<'_>,
) -> Option<&'v PersistentVolume> {
    let wanted = requested(claim);
    let selector = claim.spec.as_ref().and_then(|spec| spec.selector.as_ref()).map(LabelSelector::try_from);
    let candidates = volumes.into_iter().filter(|volume| can_hold(volume, claim, &wanted));
    let suitable = candidates.filter(|volume| {
        is_reserved_for(volume, claim) || {
            let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
            let is_selected = match &selector {
                None => true,
                Some(Ok(selector)) => selector.matches_map(volume.labels()),
                Some(Err(_)) => false,
            };
            let is_near = match binding {
                Binding::Immediate => true,
                Binding::Delayed => false,
                Binding::OnNode(node) => reaches(volume, node),
            };
            is_near && is_selected && phase == Some("Available") && class_of_volume(volume) == class_of_claim(claim)
        }
    });
    let rank = |volume: &PersistentVolume| {
        let modes = volume.spec.as_ref().and_then(|spec| spec.access_modes.as_ref()).map_or(0, Vec::len);
        let modes = if matches!(binding, Binding::OnNode(_)) { 0 } else { modes };
        (modes, !is_reserved_for(volume, claim), capacity(volume), volume.name().to_owned())
    };
    let best = suitable.min_by_key(|volume| rank(volume))?;
    // The scheduler does not consider another volume if one is reserved.
    if let Binding::OnNode(node) = binding
        && !reaches(best, node)
    {
        None
    } else {
        Some(best)
    }
}

/// Reports whether a volume is free for a claim, and has a sufficient size and matching properties.
fn can_hold(volume: &PersistentVolume, claim: &PersistentVolumeClaim, wanted: &Quantity) -> bool {
    !volume.is_deleting()
        && (!is_reserved(volume) || is_reserved_for(volume, claim))
        && has_access_modes(claim, volume)
        && capacity(volume) >= *wanted
        && !modes_differ(claim, volume)
        && attributes_of_claim(claim) == attributes_of_volume(volume)
}

/// Reports whether a node can reach a volume.
pub(crate) fn reaches(volume: &PersistentVolume, node: &dyn Labeled) -> bool {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    affinity.and_then(|affinity| affinity.required.as_ref()).is_none_or(|required| is_near(required, node))
}

fn has_access_modes(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let of_volume = |spec: &PersistentVolumeSpec| spec.access_modes.clone().unwrap_or_default();
    let offered = volume.spec.as_ref().map(of_volume).unwrap_or_default();
    let mut wanted = claim.spec.iter().flat_map(|spec| spec.access_modes.iter().flatten());
    wanted.all(|mode| offered.contains(mode))
}

fn attributes_of_claim(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref()).unwrap_or_default()
}

fn attributes_of_volume(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, ObjectReference};
    use serde_json::{Value, json};

    use super::*;

    fn volume(name: &str, size: &str, spec: Value) -> PersistentVolume {
        let mut volume = json!({
            "metadata": {"name": name, "labels": {"tier": name}}, "status": {"phase": "Available"},
            "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]},
        });
        for (field, value) in spec.as_object().unwrap() {
            volume["spec"][field] = value.clone();
        }
        serde_json::from_value(volume).unwrap()
    }

    fn claim(spec: Value) -> PersistentVolumeClaim {
        let mut claim = json!({
            "metadata": {"name": "data", "namespace": "n", "uid": "u"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}},
        });
        for (field, value) in spec.as_object().unwrap() {
            claim["spec"][field] = value.clone();
        }
        serde_json::from_value(claim).unwrap()
    }

    fn found(claim: &PersistentVolumeClaim, volumes: &[PersistentVolume]) -> Option<String> {
        best_match(claim, volumes, Binding::Immediate).map(|volume| volume.name().to_owned())
    }

    #[test]
    fn a_claim_gets_the_smallest_volume_that_satisfies_it() {
        let volumes: Vec<_> = [
            ("small", "1Gi", json!({})),
            ("large", "10Gi", json!({})),
            ("medium", "3Gi", json!({})),
            ("shared", "2Gi", json!({"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]})),
            ("block", "2Gi", json!({"volumeMode": "Block"})),
            ("classy", "2Gi", json!({"storageClassName": "fast"})),
            ("taken", "2Gi", json!({"claimRef": {"name": "other", "namespace": "n"}})),
        ]
        .into_iter()
        .map(|(name, size, spec)| volume(name, size, spec))
        .collect();
        for (spec, expected) in [
            (json!({}), Some("medium")),
            (json!({"accessModes": ["ReadOnlyMany"]}), Some("shared")),
            (json!({"volumeMode": "Block"}), Some("block")),
            (json!({"storageClassName": "fast"}), Some("classy")),
            (json!({"selector": {"matchLabels": {"tier": "large"}}}), Some("large")),
            (json!({"resources": {"requests": {"storage": "20Gi"}}}), None),
            (json!({"accessModes": ["ReadWriteMany"]}), None),
            (json!({"volumeAttributesClassName": "gold"}), None),
        ] {
            assert_eq!(found(&claim(spec.clone()), &volumes).as_deref(), expected, "{spec}");
        }
    }

    #[test]
    fn a_reserved_volume_is_its_claims() {
        let reserved = json!({"claimRef": {"name": "data", "namespace": "n"}});
        let volumes = [volume("free", "2Gi", json!({})), volume("mine", "5Gi", reserved)];
        assert_eq!(found(&claim(json!({})), &volumes).as_deref(), Some("mine"));
        let more =
            json!({"claimRef": {"name": "data", "namespace": "n"}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]});
        let wider = [volume("free", "2Gi", json!({})), volume("mine", "2Gi", more)];
        assert_eq!(found(&claim(json!({})), &wider).as_deref(), Some("free"), "it has fewer access modes");
        let delayed = best_match(&claim(json!({})), &volumes, Binding::Delayed);
        assert_eq!(delayed.map(ObjectExt::name), Some("mine"));
        assert!(best_match(&claim(json!({})), &volumes[..1], Binding::Delayed).is_none());
        let anothers = json!({"claimRef": {"name": "data", "namespace": "n", "uid": "before"}});
        assert_eq!(found(&claim(json!({})), &[volume("old", "5Gi", anothers)]), None);
    }

    #[test]
    fn a_node_gets_volumes_that_it_reaches() {
        let node = |zone: &str| -> Node {
            serde_json::from_value(json!({"metadata": {"name": "node", "labels": {"zone": zone}}})).unwrap()
        };
        let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]);
        let local = volume("local", "2Gi", json!({"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}));
        assert!(best_match(&claim(json!({})), [&local], Binding::OnNode(&node("a"))).is_some());
        assert!(best_match(&claim(json!({})), [&local], Binding::OnNode(&node("b"))).is_none());
        let mut mine = local;
        mine.spec.as_mut().unwrap().claim_ref = Some(ObjectReference {
            name: Some("data".into()),
            namespace: Some("n".into()),
            ..ObjectReference::default()
        });
        let both = [mine, volume("anywhere", "2Gi", json!({}))];
        assert!(best_match(&claim(json!({})), &both, Binding::OnNode(&node("b"))).is_none(), "it has one already");
    }

    #[test]
    fn volume_mismatch_has_a_reason() {
        let why = |spec: Value, wanted: Value| mismatch(&volume("v", "2Gi", spec), &claim(wanted)).unwrap_or_default();
        assert_eq!(why(json!({}), json!({})), "");
        assert_eq!(why(json!({"capacity": {"storage": "1Gi"}}), json!({})), "requested PV is too small");
        assert_eq!(why(json!({"storageClassName": "a"}), json!({})), "storageClassName does not match");
        assert_eq!(why(json!({"volumeMode": "Block"}), json!({})), "incompatible volumeMode");
        assert_eq!(why(json!({"accessModes": ["ReadOnlyMany"]}), json!({})), "incompatible accessMode");
    }
}
