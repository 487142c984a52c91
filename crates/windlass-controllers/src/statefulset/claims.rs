//! The claims of a stateful set's pods: their names, and their owners, which determine when they are deleted. Plain
//! values, no I/O.

use k8s_openapi::{
    api::{
        apps::v1::StatefulSet,
        core::v1::{PersistentVolumeClaim, Pod},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use windlass_api::{ObjectExt, Resource};

use super::{identity, templates};

/// The retention policy for claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retention {
    Retain,
    Delete,
}

/// The ordinal of a claim, and its pod if it exists.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder<'p> {
    pub(super) ordinal: i32,
    pub(super) pod: Option<&'p Pod>,
}

pub(super) fn name(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i32) -> String {
    format!("{}-{}-{ordinal}", template.name(), set.name())
}

/// Builds the claims of an ordinal.
pub(super) fn of(set: &StatefulSet, ordinal: i32) -> Vec<PersistentVolumeClaim> {
    let selected = set.spec.as_ref().and_then(|spec| spec.selector.match_labels.clone()).unwrap_or_default();
    let claims = templates(set).iter().map(|template| {
        let mut claim = template.clone();
        claim.metadata.name = Some(name(set, template, ordinal));
        claim.metadata.namespace = set.namespace().map(str::to_owned);
        claim.labels_mut().extend(selected.clone());
        claim.status = None;
        claim
    });
    claims.collect()
}

/// Returns `true` if a claim's name is that of a pod of the set.
pub(super) fn is_of(set: &StatefulSet, claim: &str) -> bool {
    templates(set).iter().any(|template| {
        let ordinal = claim.strip_prefix(template.name()).and_then(|rest| rest.strip_prefix('-'));
        ordinal.is_some_and(|rest| identity::ordinal_in(set.name(), rest).is_some())
    })
}

/// Returns the policies for the deletion of the set, and for surplus pods after scaling down.
fn retention(set: &StatefulSet) -> (Retention, Retention) {
    let policy = set.spec.as_ref().and_then(|spec| spec.persistent_volume_claim_retention_policy.as_ref());
    let read = |value: Option<&str>| if value == Some("Delete") { Retention::Delete } else { Retention::Retain };
    let deleted = read(policy.and_then(|policy| policy.when_deleted.as_deref()));
    (deleted, read(policy.and_then(|policy| policy.when_scaled.as_deref())))
}

/// Returns `true` if a deleted pod owns the claim, so that it will be deleted as well. A new pod has to wait for that.
pub(super) fn is_stale(set: &StatefulSet, claim: &PersistentVolumeClaim, holder: Holder<'_>) -> bool {
    retention(set).1 == Retention::Delete && has_stale_owner(claim, set, holder)
}

/// Returns `true` if an owner of the claim has the pod's name and another UID.
fn has_stale_owner(claim: &PersistentVolumeClaim, set: &StatefulSet, holder: Holder<'_>) -> bool {
    let uid = holder.pod.and_then(ObjectExt::uid).unwrap_or_default();
    claim.owner_references().iter().any(|owner| is_pod(owner, set, holder) && owner.uid != uid)
}

fn is_pod(owner: &OwnerReference, set: &StatefulSet, holder: Holder<'_>) -> bool {
    is_ref::<Pod>(owner) && owner.name == identity::pod_name(set, holder.ordinal)
}

fn is_set(owner: &OwnerReference, set: &StatefulSet) -> bool {
    is_ref::<StatefulSet>(owner) && owner.name == set.name()
}

fn is_ref<K: Resource>(owner: &OwnerReference) -> bool {
    let resource = K::api_resource();
    owner.kind == *resource.kind && owner.api_version == resource.api_version()
}

/// Returns `true` if another owner determines when the claim is deleted.
pub(super) fn is_foreign(set: &StatefulSet, claim: &PersistentVolumeClaim, holder: Holder<'_>) -> bool {
    if retention(set) == (Retention::Retain, Retention::Retain) {
        return false;
    }
    let pod_uid = holder.pod.and_then(ObjectExt::uid).unwrap_or_default();
    claim.owner_references().iter().any(|owner| {
        if is_set(owner, set) {
            Some(&*owner.uid) != set.uid()
        } else if is_pod(owner, set, holder) {
            owner.uid != pod_uid
        } else {
            owner.controller == Some(true)
        }
    })
}

/// Returns the desired owners of the claim, or `None` if they are unchanged or must not be changed.
pub(super) fn owners_to_be(
    set: &StatefulSet,
    claim: &PersistentVolumeClaim,
    holder: Holder<'_>,
) -> Option<Vec<OwnerReference>> {
    let owners = claim.owner_references();
    let is_older_set = |owner: &OwnerReference| is_set(owner, set) && Some(&*owner.uid) != set.uid();
    if owners.iter().any(is_older_set) || has_stale_owner(claim, set, holder) {
        return None;
    }
    let mut wanted: Vec<_> =
        owners.iter().filter(|owner| !is_set(owner, set) && !is_pod(owner, set, holder)).cloned().collect();
    let is_ours = |uid: Option<&str>| uid.is_some_and(|uid| owners.iter().any(|owner| owner.uid == uid));
    let (has_set, has_pod) = (is_ours(set.uid()), is_ours(holder.pod.and_then(ObjectExt::uid)));
    if is_foreign(set, claim, holder) {
        return (has_set || has_pod).then_some(wanted);
    }
    let (deleted, scaled) = retention(set);
    let is_wanted = identity::ordinals(set).contains(&holder.ordinal);
    let by_set = deleted == Retention::Delete && (scaled == Retention::Retain || is_wanted);
    let by_pod = scaled == Retention::Delete && !is_wanted;
    let is_half = |owner: &OwnerReference| {
        let ours = [set.uid(), holder.pod.and_then(ObjectExt::uid)];
        ours.contains(&Some(&*owner.uid)) && owner.controller != Some(true)
    };
    if (has_set, has_pod) == (by_set, by_pod) && !owners.iter().any(is_half) {
        return None;
    }
    if by_set {
        wanted.push(set.controller_ref());
    }
    wanted.extend(holder.pod.filter(|_| by_pod).map(ObjectExt::controller_ref));
    Some(wanted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(deleted: &str, scaled: &str) -> StatefulSet {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "uid": "set"},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {},
                "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"of": "data"}}}],
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": deleted, "whenScaled": scaled},
            },
        }))
        .unwrap()
    }

    fn pod(ordinal: i32) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": format!("web-{ordinal}"), "uid": format!("pod-{ordinal}")}}))
            .unwrap()
    }

    fn owned(owners: &[(&str, &str, &str)]) -> PersistentVolumeClaim {
        let owners: Vec<_> = owners
            .iter()
            .map(|(kind, name, uid)| {
                let version = if *kind == "Pod" { "v1" } else { "apps/v1" };
                json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": true})
            })
            .collect();
        serde_json::from_value(json!({"metadata": {"name": "data-web-0", "ownerReferences": owners}})).unwrap()
    }

    fn wanted(set: &StatefulSet, claim: &PersistentVolumeClaim, ordinal: i32) -> Option<Vec<String>> {
        let pod = pod(ordinal);
        let owners = owners_to_be(set, claim, Holder { ordinal, pod: Some(&pod) })?;
        Some(owners.into_iter().map(|owner| owner.uid).collect())
    }

    #[test]
    fn claims_are_named_and_labeled_after_their_set() {
        let claims = of(&set("Retain", "Retain"), 4);
        assert_eq!(claims[0].name(), "data-web-4");
        assert_eq!(claims[0].labels().keys().collect::<Vec<_>>(), ["app", "of"]);
        assert!(is_of(&set("Retain", "Retain"), "data-web-4") && !is_of(&set("Retain", "Retain"), "data-web-x"));
    }

    #[test]
    fn claim_owner_follows_the_retention_policy() {
        let (free, of_set) = (owned(&[]), owned(&[("StatefulSet", "web", "set")]));
        let one = |uid: &str| Some(vec![uid.to_owned()]);
        assert_eq!(wanted(&set("Retain", "Retain"), &free, 0), None);
        assert_eq!(wanted(&set("Retain", "Retain"), &of_set, 0), Some(Vec::new()));
        assert_eq!(wanted(&set("Delete", "Retain"), &free, 0), one("set"));
        assert_eq!(wanted(&set("Delete", "Retain"), &free, 3), one("set"));
        assert_eq!(wanted(&set("Retain", "Delete"), &free, 0), None);
        assert_eq!(wanted(&set("Retain", "Delete"), &free, 3), one("pod-3"));
        assert_eq!(wanted(&set("Delete", "Delete"), &free, 0), one("set"));
        assert_eq!(wanted(&set("Delete", "Delete"), &of_set, 0), None);
        assert_eq!(wanted(&set("Delete", "Delete"), &of_set, 3), one("pod-3"));
    }

    #[test]
    fn foreign_claim_is_left_unchanged() {
        let other = owned(&[("StatefulSet", "web", "before")]);
        assert_eq!(wanted(&set("Delete", "Delete"), &other, 0), None);
        let foreign = owned(&[("Backup", "nightly", "b"), ("StatefulSet", "web", "set")]);
        assert!(is_foreign(&set("Delete", "Retain"), &foreign, Holder { ordinal: 0, pod: None }));
        assert_eq!(wanted(&set("Delete", "Retain"), &foreign, 0), Some(vec!["b".to_owned()]));
        let stale = owned(&[("Pod", "web-0", "before")]);
        assert!(is_stale(&set("Retain", "Delete"), &stale, Holder { ordinal: 0, pod: None }));
        assert!(!is_stale(&set("Delete", "Retain"), &stale, Holder { ordinal: 0, pod: None }));
    }
}
