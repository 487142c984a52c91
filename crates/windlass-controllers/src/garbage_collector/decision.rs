//! The decision whether an object is deleted, given the state of its owners.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use windlass_api::Propagation;

use super::graph::{DeletionStage, Dependents, FOREGROUND, NodeView, ORPHAN};

/// The state of an owner, as read from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The owner exists and keeps the object alive.
    Solid,
    /// The owner is gone, or is not the object that the reference means.
    Dangling,
    /// The owner exists, and is deleted as soon as its dependents are.
    Waiting,
}

/// The action to take on an object with owners.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Keep the object unchanged.
    Keep,
    /// Keep the object, with these owners only.
    Detach(Vec<OwnerReference>),
    /// Delete the object.
    Delete {
        /// The propagation policy for the object's own dependents.
        propagation: Propagation,
        /// The owner references without `blockOwnerDeletion`, to be written before the deletion.
        unblock: Option<Vec<OwnerReference>>,
    },
}

/// The next step of an owner's foreground deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ForegroundStep {
    /// No blocking dependent is left.
    Finish,
    /// These dependents must be processed. If the list is empty, the owner waits for dependents that are already being
    /// deleted.
    Await(Vec<Arc<str>>),
}

/// Returns `true` if no decision is needed because the object is being deleted. Foreground deletion is excluded: it
/// still waits for dependents.
pub(crate) fn is_settled(view: &NodeView) -> bool {
    matches!(view.stage, DeletionStage::Deleting | DeletionStage::Orphaning)
}

/// Decides on an object by the standing of each of its owners. `finalizers` are the object's own.
pub(crate) fn decide(dependents: &Dependents, finalizers: &[String], owners: &[(OwnerReference, Standing)]) -> Verdict {
    let count = |standing| owners.iter().filter(|(_, other)| *other == standing).count();
    let (solid, waiting) = (count(Standing::Solid), count(Standing::Waiting));
    if owners.is_empty() || solid == owners.len() {
        return Verdict::Keep;
    }
    if solid > 0 {
        let stay = owners.iter().filter(|(_, standing)| *standing == Standing::Solid);
        return Verdict::Detach(stay.map(|(reference, _)| reference.clone()).collect());
    }
    if waiting > 0 && dependents.count > 0 {
        // Its owner waits for it, so it waits for its own dependents. In a cycle, all would wait forever, so it stops
        // blocking.
        let blocks = owners.iter().any(|(reference, _)| reference.block_owner_deletion == Some(true));
        let unblock = (dependents.may_be_circular && blocks).then(|| {
            let unblocked = |reference: &OwnerReference| OwnerReference {
                block_owner_deletion: reference.block_owner_deletion.map(|_| false),
                ..reference.clone()
            };
            owners.iter().map(|(reference, _)| unblocked(reference)).collect()
        });
        return Verdict::Delete { propagation: Propagation::Foreground, unblock };
    }
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    let propagation = if has(ORPHAN) {
        Propagation::Orphan
    } else if has(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    Verdict::Delete { propagation, unblock: None }
}

/// Decides on an owner in foreground deletion.
pub(crate) fn foreground_step(dependents: &Dependents) -> ForegroundStep {
    if dependents.blocking.is_empty() {
        return ForegroundStep::Finish;
    }
    let at_rest = dependents.blocking.iter().filter(|(_, stage)| *stage != DeletionStage::DeletingDependents);
    ForegroundStep::Await(at_rest.map(|(uid, _)| Arc::clone(uid)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str, blocks: bool) -> OwnerReference {
        OwnerReference { uid: uid.to_owned(), block_owner_deletion: Some(blocks), ..OwnerReference::default() }
    }

    fn some(count: usize) -> Dependents {
        Dependents { count, ..Dependents::default() }
    }

    fn delete(propagation: Propagation) -> Verdict {
        Verdict::Delete { propagation, unblock: None }
    }

    #[test]
    fn object_without_owners_or_with_solid_ones_is_kept() {
        assert_eq!(decide(&some(0), &[], &[]), Verdict::Keep);
        assert_eq!(decide(&some(3), &[], &[(owner("a", true), Standing::Solid)]), Verdict::Keep);
    }

    #[test]
    fn solid_owner_keeps_object_and_others_are_removed() {
        let owners = [
            (owner("gone", true), Standing::Dangling),
            (owner("here", false), Standing::Solid),
            (owner("going", true), Standing::Waiting),
        ];
        assert_eq!(decide(&some(0), &[], &owners), Verdict::Detach(vec![owner("here", false)]));
    }

    #[test]
    fn object_without_owners_is_deleted_by_its_finalizers() {
        let owners = [(owner("gone", true), Standing::Dangling)];
        for (finalizer, propagation) in [
            (ORPHAN, Propagation::Orphan),
            (FOREGROUND, Propagation::Foreground),
            ("example.com/other", Propagation::Background),
        ] {
            assert_eq!(decide(&some(1), &[finalizer.to_owned()], &owners), delete(propagation));
        }
    }

    #[test]
    fn dependents_of_waiting_owner_are_deleted_in_foreground() {
        let owners = [(owner("going", true), Standing::Waiting)];
        assert_eq!(decide(&some(1), &[], &owners), delete(Propagation::Foreground));
        assert_eq!(decide(&some(0), &[], &owners), delete(Propagation::Background));
    }

    #[test]
    fn possible_owner_cycle_does_not_block_deletion() {
        let dependents = Dependents { count: 1, may_be_circular: true, ..Dependents::default() };
        let verdict = decide(&dependents, &[], &[(owner("going", true), Standing::Waiting)]);
        let unblock = Some(vec![owner("going", false)]);
        assert_eq!(verdict, Verdict::Delete { propagation: Propagation::Foreground, unblock });
        // The references are already unblocked, so there is nothing to write.
        let verdict = decide(&dependents, &[], &[(owner("going", false), Standing::Waiting)]);
        assert_eq!(verdict, delete(Propagation::Foreground));
    }

    #[test]
    fn foreground_deletion_waits_for_blocking_dependents() {
        assert_eq!(foreground_step(&some(5)), ForegroundStep::Finish);
        let blocking = vec![
            ("a".into(), DeletionStage::Alive),
            ("b".into(), DeletionStage::DeletingDependents),
            ("c".into(), DeletionStage::Deleting),
        ];
        let dependents = Dependents { count: 5, blocking, may_be_circular: true };
        assert_eq!(foreground_step(&dependents), ForegroundStep::Await(vec!["a".into(), "c".into()]));
    }
}
