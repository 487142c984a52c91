//! Owner references, checked against the rules of the garbage collector: an owner is in the object's namespace or
//! cluster-scoped.
//!
//! [`ObjectExt::controlled_by`](windlass_api::ObjectExt::controlled_by) is shorter and does not check.

use thiserror::Error;
use windlass_api::{ObjectExt as _, Resource, Scope, k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference};

/// The reason why an owner reference cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// The object already has a controller owner. There can be only one.
    #[error("{object} is already controlled by {kind} {name:?}")]
    AlreadyControlled {
        /// The object.
        object: String,
        /// The controller's kind.
        kind: String,
        /// The controller's name.
        name: String,
    },
    /// The owner is in another namespace. The garbage collector would treat it as deleted.
    #[error("{object} cannot be owned by {owner}: it is in another namespace")]
    ElsewhereInCluster {
        /// The object.
        object: String,
        /// The owner.
        owner: String,
    },
}

/// Sets `owner` as the controller owner of an object. Returns an error if the object has another one.
pub fn control<K: Resource, O: Resource>(object: &mut K, owner: &O) -> Result<(), OwnerError> {
    let reference = owner.controller_ref();
    if let Some(other) = object.controller().filter(|other| !is_same(other, &reference)) {
        let (kind, name) = (other.kind.clone(), other.name.clone());
        return Err(OwnerError::AlreadyControlled { object: object.object_ref().to_string(), kind, name });
    }
    set(object, owner, reference)
}

/// Adds an owner that is not the controller. The garbage collector deletes the object when all owners are deleted.
pub fn own<K: Resource, O: Resource>(object: &mut K, owner: &O) -> Result<(), OwnerError> {
    let reference = OwnerReference { controller: None, block_owner_deletion: None, ..owner.controller_ref() };
    set(object, owner, reference)
}

fn set<K: Resource, O: Resource>(object: &mut K, owner: &O, reference: OwnerReference) -> Result<(), OwnerError> {
    let within = |namespace: Option<&str>| namespace.map(str::to_owned);
    let is_namespaced = K::api_resource().scope == Scope::Namespaced;
    let owner_in = within(owner.namespace());
    if owner_in.is_some() && (!is_namespaced || owner_in != within(object.namespace())) {
        let (object, owner) = (object.object_ref().to_string(), owner.object_ref().to_string());
        return Err(OwnerError::ElsewhereInCluster { object, owner });
    }
    let owners = object.metadata_mut().owner_references.get_or_insert_default();
    // A reference in another version of the same kind refers to the same owner.
    match owners.iter_mut().find(|known| is_same(known, &reference)) {
        Some(known) => *known = reference,
        None => owners.push(reference),
    }
    Ok(())
}

/// Reports whether two references name the same object, ignoring its UID.
fn is_same(a: &OwnerReference, b: &OwnerReference) -> bool {
    let group = |reference: &OwnerReference| reference.api_version.rsplit_once('/').map(|(group, _)| group.to_owned());
    a.kind == b.kind && a.name == b.name && group(a) == group(b)
}

#[cfg(test)]
mod tests {
    use windlass_api::{
        ObjectBuilder as _,
        k8s_openapi::api::{
            apps::v1::Deployment,
            core::v1::{ConfigMap, Namespace, Node, Pod},
        },
    };

    use super::*;

    #[test]
    fn object_has_one_controller_and_other_owners() {
        let mut pod = Pod::named("p").in_namespace("ns");
        let first = Deployment::named("d").in_namespace("ns");
        control(&mut pod, &first).unwrap();
        control(&mut pod, &first).unwrap();
        let [reference] = pod.owner_references() else { panic!("one: {:?}", pod.owner_references()) };
        assert_eq!((reference.controller, reference.block_owner_deletion), (Some(true), Some(true)));
        let error = control(&mut pod, &Deployment::named("e").in_namespace("ns")).unwrap_err();
        assert_eq!(error.to_string(), "ns/p is already controlled by Deployment \"d\"");
        own(&mut pod, &ConfigMap::named("c").in_namespace("ns")).unwrap();
        own(&mut pod, &Node::named("n")).unwrap();
        assert_eq!(pod.owner_references().len(), 3);
        assert_eq!(pod.controller().unwrap().name, "d");
    }

    #[test]
    fn owner_has_the_same_namespace_or_none() {
        let elsewhere = ConfigMap::named("c").in_namespace("other");
        let error = own(&mut Pod::named("p").in_namespace("ns"), &elsewhere).unwrap_err();
        assert_eq!(error.to_string(), "ns/p cannot be owned by other/c: it is in another namespace");
        assert!(
            control(&mut Namespace::named("n"), &elsewhere).is_err(),
            "a cluster-scoped object has no namespaced owner"
        );
    }

    #[test]
    fn owner_in_another_version_replaces_the_reference() {
        let mut pod = Pod::named("p").in_namespace("ns");
        let owner = Deployment::named("d").in_namespace("ns");
        control(&mut pod, &owner).unwrap();
        pod.metadata.owner_references.as_mut().unwrap()[0].api_version = "apps/v1beta1".to_owned();
        control(&mut pod, &owner).unwrap();
        assert_eq!(pod.owner_references().len(), 1);
        assert_eq!(pod.owner_references()[0].api_version, "apps/v1");
    }
}
