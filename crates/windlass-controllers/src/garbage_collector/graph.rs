//! The graph of owners and dependents that the informers have shown. A plain value: it takes events and returns work
//! items, without I/O.
//!
//! The graph lags behind the server and is never the reason for a deletion; it only selects the objects to check. It
//! alone decides one thing: whether an owner's deletion has any blocking or orphaned dependents left.

use std::{collections::BTreeSet, sync::Arc};

use hashbrown::HashMap;
use windlass_api::{Meta, OwnerRef};

use super::{absent::AbsentOwners, identity::Identity};

/// The finalizer of an owner in foreground deletion.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner whose dependents are orphaned.
pub(crate) const ORPHAN: &str = "orphan";

/// All observed objects, and objects that are only referenced.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: HashMap<Arc<str>, Node>,
    absent: AbsentOwners,
}

/// A work item. Equal items are queued once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Job {
    /// Decide whether the object with this UID is kept.
    AttemptToDelete(Arc<str>),
    /// Remove the object with this UID from the owners of its dependents.
    Orphan(Arc<str>),
    /// Report that the dependent names an owner in another namespace.
    Misplaced {
        /// The UID of the object with the reference.
        dependent: Arc<str>,
        /// The UID of the referenced object.
        owner: Arc<str>,
    },
}

/// The source of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeSource {
    /// An informer has shown the object.
    Observed,
    /// Other objects name it as their owner. It may not exist, or not under that name.
    Virtual,
}

/// The stage of an object's deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeletionStage {
    /// The object is not being deleted.
    Alive,
    /// The object is being deleted, and does not wait for its dependents.
    Deleting,
    /// The object is being deleted, and waits until its dependents are orphaned.
    Orphaning,
    /// The object is being deleted, and waits until its dependents are deleted.
    DeletingDependents,
}

/// The graph's data about one object, as input for a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeView {
    pub(crate) identity: Identity,
    pub(crate) source: NodeSource,
    pub(crate) stage: DeletionStage,
    pub(crate) dependents: Dependents,
}

/// The objects that name another as their owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dependents {
    /// The number of dependents.
    pub(crate) count: usize,
    /// The dependents that block the owner's deletion, with their stage.
    pub(crate) blocking: Vec<(Arc<str>, DeletionStage)>,
    /// `true` if a dependent is itself waiting for its dependents. They may include the owner: a cycle.
    pub(crate) may_be_circular: bool,
}

#[derive(Debug)]
struct Node {
    identity: Identity,
    source: NodeSource,
    stage: DeletionStage,
    /// The object's owner references.
    owners: Vec<OwnerRef>,
    /// The UIDs of the nodes that have this one among their owners. Sorted, so that the same events lead to the same
    /// order of work.
    dependents: BTreeSet<Arc<str>>,
}

impl DeletionStage {
    fn of(meta: &Meta) -> Self {
        let has = |name: &str| meta.finalizers().iter().any(|finalizer| &**finalizer == name);
        match meta.is_deleting() {
            false => Self::Alive,
            true if has(ORPHAN) => Self::Orphaning,
            true if has(FOREGROUND) => Self::DeletingDependents,
            true => Self::Deleting,
        }
    }
}

impl Graph {
    /// Records the current state of an object, as shown by an informer.
    pub(crate) fn observe(&mut self, identity: Identity, meta: &Meta) -> Vec<Job> {
        let mut jobs = Vec::new();
        let uid = Arc::clone(&identity.uid);
        let before = if let Some(node) = self.nodes.get_mut(&uid) {
            let was_virtual = std::mem::replace(&mut node.source, NodeSource::Observed) == NodeSource::Virtual;
            let before = node.stage;
            node.identity = identity;
            if was_virtual {
                // The owner of a dependent that meant another object by this UID does not exist.
                for misled in self.misled_dependents(&uid) {
                    jobs.extend(self.misplaced(&misled, &uid));
                    jobs.push(Job::AttemptToDelete(misled));
                }
            }
            before
        } else {
            self.nodes.insert(Arc::clone(&uid), Node::new(identity, NodeSource::Observed));
            DeletionStage::Alive
        };
        self.link(&uid, meta.owner_references(), &mut jobs);

        let stage = DeletionStage::of(meta);
        let Some(node) = self.nodes.get_mut(&uid) else { return jobs };
        node.stage = stage;
        if stage != before {
            match stage {
                DeletionStage::Orphaning => jobs.push(Job::Orphan(uid)),
                DeletionStage::DeletingDependents => {
                    jobs.extend(node.dependents.iter().cloned().map(Job::AttemptToDelete));
                    jobs.push(Job::AttemptToDelete(uid));
                }
                DeletionStage::Alive | DeletionStage::Deleting => {}
            }
        }
        jobs
    }

    /// Records the deletion of an object, as shown by an informer.
    pub(crate) fn remove(&mut self, uid: &str) -> Vec<Job> {
        let mut jobs = Vec::new();
        let Some(node) = self.nodes.remove(uid) else { return jobs };
        if !node.dependents.is_empty() {
            self.absent.insert(node.identity.clone());
        }
        jobs.extend(node.dependents.into_iter().map(Job::AttemptToDelete));
        for owner in &node.owners {
            self.unlink(&node.identity.uid, &owner.uid, &mut jobs);
        }
        jobs
    }

    /// Records that the server has no such object.
    ///
    /// Unlike [`Graph::remove`], this may concern a wrong reference: the object may exist under another name, namespace
    /// or kind.
    pub(crate) fn found_absent(&mut self, absent: &Identity) -> Vec<Job> {
        let Some(node) = self.nodes.get(&absent.uid) else { return Vec::new() };
        match node.source {
            // The informer will also report the deletion; deciding twice does no harm.
            NodeSource::Observed if node.identity == *absent => self.remove(&absent.uid),
            NodeSource::Observed => self.disown(absent),
            NodeSource::Virtual => {
                let others = self.other_identities(absent);
                let Some(next) = others.range(absent.clone()..).next().or_else(|| others.first()).cloned() else {
                    let jobs = self.remove(&absent.uid);
                    self.absent.insert(absent.clone());
                    return jobs;
                };
                let mut jobs = self.disown(absent);
                if let Some(node) = self.nodes.get_mut(&absent.uid) {
                    node.identity = next;
                    jobs.push(Job::AttemptToDelete(Arc::clone(&absent.uid)));
                }
                jobs
            }
        }
    }

    /// Removes all objects of a kind that is no longer served.
    pub(crate) fn remove_kind(&mut self, api_version: &str, kind: &str) -> Vec<Job> {
        let is_gone = |node: &&Node| {
            node.source == NodeSource::Observed
                && *node.identity.api_version == *api_version
                && *node.identity.kind == *kind
        };
        let mut gone: Vec<_> = self.nodes.values().filter(is_gone).map(|node| Arc::clone(&node.identity.uid)).collect();
        gone.sort_unstable();
        gone.iter().flat_map(|uid| self.remove(uid)).collect()
    }

    /// Returns the data about the object with this UID.
    pub(crate) fn view(&self, uid: &str) -> Option<NodeView> {
        let node = self.nodes.get(uid)?;
        let mut dependents = Dependents { count: node.dependents.len(), ..Dependents::default() };
        for (dependent, of) in self.dependents_of(node) {
            if of.owners.iter().any(|owner| *owner.uid == *uid && owner.block_owner_deletion) {
                dependents.blocking.push((Arc::clone(dependent), of.stage));
            }
            dependents.may_be_circular |= of.stage == DeletionStage::DeletingDependents;
        }
        Some(NodeView { identity: node.identity.clone(), source: node.source, stage: node.stage, dependents })
    }

    /// Returns the objects that name the one with this UID as their owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Identity> {
        let node = self.nodes.get(uid);
        node.map(|node| self.dependents_of(node).map(|(_, of)| of.identity.clone()).collect()).unwrap_or_default()
    }

    /// Returns `true` if an owner is known to be gone.
    pub(crate) fn is_absent(&self, owner: &Identity) -> bool {
        self.absent.contains(owner)
    }

    /// Records that an owner is gone.
    pub(crate) fn record_absent(&mut self, owner: Identity) {
        self.absent.insert(owner);
    }

    /// Returns the number of objects, observed or only referenced.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Replaces the owners of a node.
    fn link(&mut self, uid: &Arc<str>, owners: &[OwnerRef], jobs: &mut Vec<Job>) {
        let Some(node) = self.nodes.get_mut(uid) else { return };
        if node.owners == owners {
            return;
        }
        let before = std::mem::replace(&mut node.owners, owners.to_vec());
        let namespace = node.identity.namespace.clone();

        for old in &before {
            match owners.iter().find(|new| new.uid == old.uid) {
                None => self.unlink(uid, &old.uid, jobs),
                Some(new) if old.block_owner_deletion && !new.block_owner_deletion => self.unblocked(&old.uid, jobs),
                Some(_) => {}
            }
        }
        let mut doubtful = false;
        for new in owners {
            if before.contains(new) {
                continue;
            }
            if let Some(owner) = self.nodes.get_mut(&new.uid) {
                owner.dependents.insert(Arc::clone(uid));
                doubtful |= !owner.identity.is_meant_by(new, namespace.as_ref());
            } else {
                let identity = Identity::of_owner(new, namespace.clone());
                let mut owner = Node::new(identity, NodeSource::Virtual);
                owner.dependents.insert(Arc::clone(uid));
                self.nodes.insert(Arc::clone(&new.uid), owner);
                jobs.push(Job::AttemptToDelete(Arc::clone(&new.uid)));
            }
        }
        if doubtful {
            jobs.extend(owners.iter().find_map(|owner| self.misplaced(uid, &owner.uid)));
            jobs.push(Job::AttemptToDelete(Arc::clone(uid)));
        }
    }

    /// Returns a work item if the observed owner is in another namespace than the dependent.
    fn misplaced(&self, dependent: &Arc<str>, owner: &Arc<str>) -> Option<Job> {
        let (of, by) = (self.nodes.get(dependent)?, self.nodes.get(owner)?);
        let reaches = by.source == NodeSource::Virtual || by.identity.reaches(of.identity.namespace.as_ref());
        (!reaches).then(|| Job::Misplaced { dependent: Arc::clone(dependent), owner: Arc::clone(owner) })
    }

    /// Returns the dependent's identity, and its reference to the owner.
    pub(crate) fn reference(&self, dependent: &str, owner: &str) -> Option<(Identity, OwnerRef)> {
        let node = self.nodes.get(dependent)?;
        let reference = node.owners.iter().find(|reference| *reference.uid == *owner)?;
        Some((node.identity.clone(), reference.clone()))
    }

    /// Removes a dependent from an owner. A virtual node without dependents is dropped.
    fn unlink(&mut self, dependent: &Arc<str>, owner: &Arc<str>, jobs: &mut Vec<Job>) {
        let Some(node) = self.nodes.get_mut(owner) else { return };
        node.dependents.remove(dependent);
        if node.source == NodeSource::Virtual && node.dependents.is_empty() {
            self.nodes.remove(owner);
        } else {
            self.unblocked(owner, jobs);
        }
    }

    /// Queues an owner in foreground deletion, because a blocking dependent may be gone.
    fn unblocked(&self, owner: &Arc<str>, jobs: &mut Vec<Job>) {
        if self.nodes.get(owner).is_some_and(|node| node.stage == DeletionStage::DeletingDependents) {
            jobs.push(Job::AttemptToDelete(Arc::clone(owner)));
        }
    }

    /// Queues the dependents whose references equal `absent`. Other references to the same UID may be right.
    fn disown(&mut self, absent: &Identity) -> Vec<Job> {
        let mean_it = self.dependents_meaning(absent);
        if !mean_it.is_empty() {
            self.absent.insert(absent.clone());
        }
        mean_it.into_iter().map(Job::AttemptToDelete).collect()
    }

    fn dependents_meaning(&self, owner: &Identity) -> Vec<Arc<str>> {
        let Some(node) = self.nodes.get(&owner.uid) else { return Vec::new() };
        self.dependents_of(node)
            .filter(|(_, of)| {
                let mut references = of.owners.iter().filter(|reference| reference.uid == owner.uid);
                references.any(|reference| owner.is_meant_by(reference, of.identity.namespace.as_ref()))
            })
            .map(|(uid, _)| Arc::clone(uid))
            .collect()
    }

    /// Returns the dependents whose reference to a node differs from its observed identity.
    fn misled_dependents(&self, uid: &str) -> Vec<Arc<str>> {
        let Some(node) = self.nodes.get(uid) else { return Vec::new() };
        self.dependents_of(node)
            .filter(|(_, of)| {
                let mut references = of.owners.iter().filter(|reference| *reference.uid == *uid);
                references.any(|reference| !node.identity.is_meant_by(reference, of.identity.namespace.as_ref()))
            })
            .map(|(uid, _)| Arc::clone(uid))
            .collect()
    }

    /// Returns the other identities that dependents assign to the UID of `absent`.
    fn other_identities(&self, absent: &Identity) -> BTreeSet<Identity> {
        let Some(node) = self.nodes.get(&absent.uid) else { return BTreeSet::new() };
        self.dependents_of(node)
            .flat_map(|(_, of)| of.owners.iter().map(move |reference| (reference, &of.identity.namespace)))
            .filter(|(reference, namespace)| {
                reference.uid == absent.uid && !absent.is_meant_by(reference, namespace.as_ref())
            })
            .map(|(reference, namespace)| Identity::of_owner(reference, namespace.clone()))
            .filter(|identity| !self.absent.contains(identity))
            .collect()
    }

    fn dependents_of<'g>(&'g self, node: &'g Node) -> impl Iterator<Item = (&'g Arc<str>, &'g Node)> {
        node.dependents.iter().filter_map(|uid| Some((uid, self.nodes.get(uid)?)))
    }
}

impl Node {
    fn new(identity: Identity, source: NodeSource) -> Self {
        Self { identity, source, stage: DeletionStage::Alive, owners: Vec::new(), dependents: BTreeSet::new() }
    }
}

#[cfg(test)]
mod tests;
