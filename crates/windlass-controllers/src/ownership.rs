//! Ownership of objects: a controller adopts matching orphans and releases objects that no longer match.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1;
use serde_json::{Value, json};
use windlass_api::{LabelSelector, Meta, Object, ObjectExt, ObjectRef, OwnerRef, Patch, Resource};
use windlass_cache::{Cached, Index, Lister, UnknownIndex};
use windlass_client::{Client, Error};
use windlass_runtime::{Context, Watch};

use crate::error::ReconcileError;

/// The action to take on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The owner controls the object, and the selector matches.
    Keep,
    /// The object has no controller, and the selector matches.
    Adopt,
    /// The owner controls the object, but the selector no longer matches.
    Release,
    /// The object does not concern the owner.
    Ignore,
}

/// Parses an owner's selector. Returns `None` for an empty selector, which would match everything.
pub(crate) fn selecting(selector: &v1::LabelSelector) -> Result<Option<LabelSelector>, ReconcileError> {
    let selector = LabelSelector::try_from(selector)?;
    Ok(Some(selector).filter(|selector| !selector.is_empty()))
}

/// Decides on an object by its metadata alone. An owner that is being deleted neither adopts nor releases.
pub(crate) fn claim<O: Object>(owner: &O, selector: &LabelSelector, object: &Meta) -> Claim {
    let matches = selector.matches(|label| object.label(label));
    match object.controller() {
        Some(controller) if Some(&*controller.uid) != owner.uid() => Claim::Ignore,
        Some(_) if matches => Claim::Keep,
        Some(_) if owner.is_deleting() => Claim::Ignore,
        Some(_) => Claim::Release,
        None if matches && !owner.is_deleting() && !object.is_deleting() => Claim::Adopt,
        None => Claim::Ignore,
    }
}

/// Returns a watch of `T` with an index of the objects that owners of kind `O` control, and of the objects without a
/// controller. [`candidates`] uses it.
pub(crate) fn managed_by<O: Resource, T: Resource>() -> Watch<T> {
    Watch::all().index(Index::on_meta(index_name::<O>(), |meta| match meta.controller() {
        Some(owner) => Some(Arc::clone(&owner.uid)).filter(|_| is_kind::<O>(owner)),
        None => meta.namespace().map(|namespace| orphans(namespace).into()),
    }))
}

/// Returns the objects that an owner may claim: the objects it controls, and those in its namespace without a
/// controller. Takes time in proportion to their number, independent of all other objects.
pub(crate) fn candidates<O: Resource, T: Resource>(cx: &Context, owner: &O) -> Result<Vec<Cached<T>>, UnknownIndex> {
    let (store, index) = (cx.store::<T>(), index_name::<O>());
    let mut found = store.by_index(&index, owner.uid().unwrap_or_default())?;
    found.extend(store.by_index(&index, &orphans(owner.namespace().unwrap_or_default()))?);
    Ok(found)
}

fn index_name<O: Resource>() -> String {
    format!("managed by {}", O::api_resource().gvr().group_resource())
}

/// The index value of objects without a controller. No UID starts with a slash.
fn orphans(namespace: &str) -> String {
    format!("/{namespace}")
}

/// Returns a watch of objects that may be adopted: each creation and deletion, and updates of labels or of the
/// controller. For an orphan, [`adopting_owners`] compares the selectors of all owners in its namespace.
pub(crate) fn adoptable<T: Resource>() -> Watch<T> {
    Watch::all().filter_updates(|old, new| may_change_owner(old.meta(), new.meta()))
}

fn may_change_owner(old: &Meta, new: &Meta) -> bool {
    old.labels() != new.labels() || old.controller() != new.controller()
}

/// Returns the owners that would adopt an object without a controller. As in Kubernetes, there is none for an object
/// without labels, even if a selector matches it.
pub(crate) fn adopting_owners<O: Resource, T: Object>(
    owners: &Lister<O>,
    object: &Cached<T>,
    selector: impl Fn(&O) -> Option<LabelSelector>,
) -> Vec<ObjectRef<O>> {
    let meta = object.meta();
    let is_orphan = meta.controller().is_none() && !meta.labels().is_empty();
    let Some(namespace) = meta.namespace().filter(|_| is_orphan) else { return Vec::new() };
    let wants = |owner: &Cached<O>| {
        let owner = owner.get().ok()?;
        selector(&owner)?.matches(|label| meta.label(label)).then(|| owner.object_ref())
    };
    owners.within(Arc::clone(namespace)).list().iter().filter_map(wants).collect()
}

/// Adopts and releases the `candidates`, and returns those that the owner controls afterwards.
///
/// Before the first adoption, the owner is read from the server. If an object were adopted by a deleted owner, the
/// garbage collector would delete it.
pub(crate) async fn claim_all<O, T>(
    client: &Client,
    owner: &O,
    selector: &LabelSelector,
    candidates: Vec<Cached<T>>,
) -> Result<Vec<Cached<T>>, Error>
where
    O: Resource,
    T: Resource,
{
    claim_with(client, owner, selector, candidates, None).await
}

/// Like [`claim_all`], but also adds the finalizer to adopted objects and removes it from released ones.
pub(crate) async fn claim_with<O, T>(
    client: &Client,
    owner: &O,
    selector: &LabelSelector,
    candidates: Vec<Cached<T>>,
    finalizer: Option<&str>,
) -> Result<Vec<Cached<T>>, Error>
where
    O: Resource,
    T: Resource,
{
    let mut claimed = Vec::with_capacity(candidates.len());
    let mut may_adopt = None;
    for object in candidates {
        match claim(owner, selector, object.meta()) {
            Claim::Keep => claimed.push(object),
            Claim::Ignore => {}
            Claim::Release => ignore_gone(release(client, owner, &object, finalizer).await)?,
            Claim::Adopt => {
                if may_adopt.is_none() {
                    may_adopt = Some(is_alive(client, owner).await?);
                }
                if may_adopt == Some(true) {
                    // Counted now, although the cache does not show the adoption yet: otherwise the caller would create
                    // too many.
                    ignore_gone(adopt(client, owner, &object, finalizer).await)?;
                    claimed.push(object);
                }
            }
        }
    }
    Ok(claimed)
}

async fn is_alive<O: Resource>(client: &Client, owner: &O) -> Result<bool, Error> {
    let live = client.get_opt::<O>(owner.object_ref()).await?;
    Ok(live.is_some_and(|live| live.uid() == owner.uid() && !live.is_deleting()))
}

async fn adopt<O: Resource, T: Resource>(
    client: &Client,
    owner: &O,
    object: &Cached<T>,
    finalizer: Option<&str>,
) -> Result<(), Error> {
    let mut metadata = json!({"ownerReferences": [owner.controller_ref()]});
    if let Some(finalizer) = finalizer {
        metadata["finalizers"] = json!([finalizer]);
    }
    patch_metadata(client, object.meta(), metadata).await.map(|_: T| ())
}

async fn release<O: Resource, T: Resource>(
    client: &Client,
    owner: &O,
    object: &Cached<T>,
    finalizer: Option<&str>,
) -> Result<(), Error> {
    let mut metadata = json!({"ownerReferences": [{"$patch": "delete", "uid": owner.uid()}]});
    if let Some(finalizer) = finalizer {
        metadata["$deleteFromPrimitiveList/finalizers"] = json!([finalizer]);
    }
    patch_metadata(client, object.meta(), metadata).await.map(|_: T| ())
}

/// Patches metadata with the UID as a precondition: a recreated object of the same name is not patched.
async fn patch_metadata<T: Resource>(client: &Client, meta: &Meta, mut metadata: Value) -> Result<T, Error> {
    metadata["uid"] = json!(meta.uid());
    client.patch::<T>(ObjectRef::from(meta.key().clone()), Patch::Strategic(json!({"metadata": metadata}))).await
}

/// Ignores errors for an object that is gone or was recreated: it need not be claimed.
fn ignore_gone(outcome: Result<(), Error>) -> Result<(), Error> {
    match outcome {
        Err(error) if error.is_not_found() || error.is_conflict() || error.is_invalid() => Ok(()),
        other => other,
    }
}

/// Returns `true` if an owner reference names an object of kind `K`, in any version.
pub(crate) fn is_kind<K: Resource>(owner: &OwnerRef) -> bool {
    names_kind::<K>(owner.group(), &owner.kind)
}

/// Like [`is_kind`], for the reference type of decoded objects.
pub(crate) fn refers_to<K: Resource>(owner: &v1::OwnerReference) -> bool {
    names_kind::<K>(group_of(owner), &owner.kind)
}

/// Returns the group of the owner's kind; empty for the core group.
pub(crate) fn group_of(owner: &v1::OwnerReference) -> &str {
    owner.api_version.split_once('/').map_or("", |(group, _)| group)
}

fn names_kind<K: Resource>(group: &str, kind: &str) -> bool {
    let resource = K::api_resource();
    group == resource.group && kind == &*resource.kind
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use windlass_api::{ObjectKey, Traits};

    use super::*;

    fn owner(uid: &str, deleting: bool) -> ReplicaSet {
        let mut set = ReplicaSet::default();
        set.metadata.uid = Some(uid.to_owned());
        set.metadata.deletion_timestamp =
            deleting.then_some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        set
    }

    fn object(labels: &[(&str, &str)], controller: Option<&str>) -> Meta {
        let owner = controller.map(|uid| OwnerRef { uid: uid.into(), controller: true, ..OwnerRef::default() });
        Meta::new(ObjectKey::new("")).with_traits(Traits {
            labels: labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            owner_references: owner.into_iter().collect(),
            ..Traits::default()
        })
    }

    #[test]
    fn matching_objects_are_adopted_and_others_released() {
        let selector: LabelSelector = "app=x".parse().unwrap();
        let (set, leaving) = (owner("1", false), owner("1", true));
        let (fits, other) = ([("app", "x")], [("app", "y")]);
        assert_eq!(claim(&set, &selector, &object(&fits, Some("1"))), Claim::Keep);
        assert_eq!(claim(&set, &selector, &object(&fits, Some("2"))), Claim::Ignore);
        assert_eq!(claim(&set, &selector, &object(&fits, None)), Claim::Adopt);
        assert_eq!(claim(&set, &selector, &object(&other, Some("1"))), Claim::Release);
        assert_eq!(claim(&set, &selector, &object(&other, None)), Claim::Ignore);
        assert_eq!(claim(&leaving, &selector, &object(&fits, None)), Claim::Ignore);
        assert_eq!(claim(&leaving, &selector, &object(&other, Some("1"))), Claim::Ignore);
    }

    #[test]
    fn only_updates_of_labels_and_controller_can_change_the_owner() {
        let pod = object(&[("app", "x")], None);
        assert!(!may_change_owner(&pod, &object(&[("app", "x")], None)));
        assert!(may_change_owner(&pod, &object(&[("app", "y")], None)));
        assert!(may_change_owner(&object(&[("app", "x")], Some("1")), &pod), "released");
    }
}
