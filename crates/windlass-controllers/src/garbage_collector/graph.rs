//! Who owns whom, as far as has been seen. A value: events go in, work comes out; nothing is read or written elsewhere.
//!
//! The graph lags behind the server and is never the reason to delete anything: it only says where to look. The one
//! thing that is decided by it is that nothing is left that blocks, or is orphaned by, the deletion of an owner.

use std::{collections::BTreeSet, sync::Arc};

use hashbrown::HashMap;
use windlass_api::{Meta, OwnerRef};

use super::{absent::AbsentOwners, identity::Identity};

/// The finalizer of an owner whose dependents go first.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner whose dependents stay.
pub(crate) const ORPHAN: &str = "orphan";

/// All objects that were seen, and those that were only referred to.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: HashMap<Arc<str>, Node>,
    absent: AbsentOwners,
}

/// What is to be looked at. The same work twice is done once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Job {
    /// Whether the object with this uid is to stay.
    Judge(Arc<str>),
    /// The dependents of the object with this uid lose it as their owner.
    Orphan(Arc<str>),
    /// The dependent names an owner that is in another namespace, which is to be told.
    Misplaced {
        /// Whose reference it is.
        dependent: Arc<str>,
        /// Whom it means.
        owner: Arc<str>,
    },
}

/// How an object is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// An informer has shown it.
    Observed,
    /// Others name it as their owner; it may not exist, or not under that name.
    Virtual,
}

/// Where an object is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nobody has deleted it.
    Alive,
    /// It is being deleted, and waits for others than its dependents.
    Deleting,
    /// It is being deleted, and waits for its dependents to be let go.
    Orphaning,
    /// It is being deleted, and waits for its dependents to be deleted.
    DeletingDependents,
}

/// What is known of one object when it is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) identity: Identity,
    pub(crate) sight: Sight,
    pub(crate) fate: Fate,
    pub(crate) dependents: Dependents,
}

/// The objects that name another as their owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dependents {
    /// How many there are.
    pub(crate) count: usize,
    /// Those whose deletion the owner has to wait for, and their fates.
    pub(crate) blocking: Vec<(Arc<str>, Fate)>,
    /// Whether one of them is itself waiting for its dependents, among which may be the owner: a circle.
    pub(crate) may_be_circular: bool,
}

#[derive(Debug)]
struct Node {
    identity: Identity,
    sight: Sight,
    fate: Fate,
    /// As the object has them.
    owners: Vec<OwnerRef>,
    /// The uids of nodes that have this one among their owners. Sorted, so that one history leads to one order of work.
    dependents: BTreeSet<Arc<str>>,
}

impl Fate {
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
    /// An informer shows the present state of an object.
    pub(crate) fn observe(&mut self, identity: Identity, meta: &Meta) -> Vec<Job> {
        let mut jobs = Vec::new();
        let uid = Arc::clone(&identity.uid);
        let before = if let Some(node) = self.nodes.get_mut(&uid) {
            let was_virtual = std::mem::replace(&mut node.sight, Sight::Observed) == Sight::Virtual;
            let before = node.fate;
            node.identity = identity;
            if was_virtual {
                // Whoever meant another object by this uid has an owner that does not exist.
                for misled in self.misled_dependents(&uid) {
                    jobs.extend(self.misplaced(&misled, &uid));
                    jobs.push(Job::Judge(misled));
                }
            }
            before
        } else {
            self.nodes.insert(Arc::clone(&uid), Node::new(identity, Sight::Observed));
            Fate::Alive
        };
        self.link(&uid, meta.owner_references(), &mut jobs);

        let fate = Fate::of(meta);
        let Some(node) = self.nodes.get_mut(&uid) else { return jobs };
        node.fate = fate;
        if fate != before {
            match fate {
                Fate::Orphaning => jobs.push(Job::Orphan(uid)),
                Fate::DeletingDependents => {
                    jobs.extend(node.dependents.iter().cloned().map(Job::Judge));
                    jobs.push(Job::Judge(uid));
                }
                Fate::Alive | Fate::Deleting => {}
            }
        }
        jobs
    }

    /// An informer shows that an object is gone.
    pub(crate) fn remove(&mut self, uid: &str) -> Vec<Job> {
        let mut jobs = Vec::new();
        let Some(node) = self.nodes.remove(uid) else { return jobs };
        if !node.dependents.is_empty() {
            self.absent.insert(node.identity.clone());
        }
        jobs.extend(node.dependents.into_iter().map(Job::Judge));
        for owner in &node.owners {
            self.unlink(&node.identity.uid, &owner.uid, &mut jobs);
        }
        jobs
    }

    /// The server says that there is no such object.
    ///
    /// Unlike [`Graph::remove`] this may be about a misunderstanding: the object may be there under other coordinates.
    pub(crate) fn found_absent(&mut self, absent: &Identity) -> Vec<Job> {
        let Some(node) = self.nodes.get(&absent.uid) else { return Vec::new() };
        match node.sight {
            // The informer will tell of its deletion with more certainty, but judging again does no harm.
            Sight::Observed if node.identity == *absent => self.remove(&absent.uid),
            Sight::Observed => self.disown(absent),
            Sight::Virtual => {
                let others = self.other_identities(absent);
                let Some(next) = others.range(absent.clone()..).next().or_else(|| others.first()).cloned() else {
                    let jobs = self.remove(&absent.uid);
                    self.absent.insert(absent.clone());
                    return jobs;
                };
                let mut jobs = self.disown(absent);
                if let Some(node) = self.nodes.get_mut(&absent.uid) {
                    node.identity = next;
                    jobs.push(Job::Judge(Arc::clone(&absent.uid)));
                }
                jobs
            }
        }
    }

    /// A kind is no longer served: none of its objects is there.
    pub(crate) fn remove_kind(&mut self, api_version: &str, kind: &str) -> Vec<Job> {
        let is_gone = |node: &&Node| {
            node.sight == Sight::Observed && *node.identity.api_version == *api_version && *node.identity.kind == *kind
        };
        let mut gone: Vec<_> = self.nodes.values().filter(is_gone).map(|node| Arc::clone(&node.identity.uid)).collect();
        gone.sort_unstable();
        gone.iter().flat_map(|uid| self.remove(uid)).collect()
    }

    /// What is known of the object with this uid.
    pub(crate) fn case(&self, uid: &str) -> Option<Case> {
        let node = self.nodes.get(uid)?;
        let mut dependents = Dependents { count: node.dependents.len(), ..Dependents::default() };
        for (dependent, of) in self.dependents_of(node) {
            if of.owners.iter().any(|owner| *owner.uid == *uid && owner.block_owner_deletion) {
                dependents.blocking.push((Arc::clone(dependent), of.fate));
            }
            dependents.may_be_circular |= of.fate == Fate::DeletingDependents;
        }
        Some(Case { identity: node.identity.clone(), sight: node.sight, fate: node.fate, dependents })
    }

    /// The objects that name the one with this uid as their owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Identity> {
        let node = self.nodes.get(uid);
        node.map(|node| self.dependents_of(node).map(|(_, of)| of.identity.clone()).collect()).unwrap_or_default()
    }

    /// Whether an owner is known to be gone.
    pub(crate) fn is_absent(&self, owner: &Identity) -> bool {
        self.absent.contains(owner)
    }

    /// Remembers that an owner is gone.
    pub(crate) fn note_absent(&mut self, owner: Identity) {
        self.absent.insert(owner);
    }

    /// How many objects there are, seen or only referred to.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Gives a node its owners, in place of those it had.
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
                let mut owner = Node::new(identity, Sight::Virtual);
                owner.dependents.insert(Arc::clone(uid));
                self.nodes.insert(Arc::clone(&new.uid), owner);
                jobs.push(Job::Judge(Arc::clone(&new.uid)));
            }
        }
        if doubtful {
            jobs.extend(owners.iter().find_map(|owner| self.misplaced(uid, &owner.uid)));
            jobs.push(Job::Judge(Arc::clone(uid)));
        }
    }

    /// That an owner was seen where a dependent's reference cannot mean it.
    fn misplaced(&self, dependent: &Arc<str>, owner: &Arc<str>) -> Option<Job> {
        let (of, by) = (self.nodes.get(dependent)?, self.nodes.get(owner)?);
        let reaches = by.sight == Sight::Virtual || by.identity.reaches(of.identity.namespace.as_ref());
        (!reaches).then(|| Job::Misplaced { dependent: Arc::clone(dependent), owner: Arc::clone(owner) })
    }

    /// The object with a uid, and its reference to an owner.
    pub(crate) fn reference(&self, dependent: &str, owner: &str) -> Option<(Identity, OwnerRef)> {
        let node = self.nodes.get(dependent)?;
        let reference = node.owners.iter().find(|reference| *reference.uid == *owner)?;
        Some((node.identity.clone(), reference.clone()))
    }

    /// Takes a dependent from an owner. A virtual node that nobody refers to has no reason to be.
    fn unlink(&mut self, dependent: &Arc<str>, owner: &Arc<str>, jobs: &mut Vec<Job>) {
        let Some(node) = self.nodes.get_mut(owner) else { return };
        node.dependents.remove(dependent);
        if node.sight == Sight::Virtual && node.dependents.is_empty() {
            self.nodes.remove(owner);
        } else {
            self.unblocked(owner, jobs);
        }
    }

    /// An owner that waits for its dependents may have one less to wait for.
    fn unblocked(&self, owner: &Arc<str>, jobs: &mut Vec<Job>) {
        if self.nodes.get(owner).is_some_and(|node| node.fate == Fate::DeletingDependents) {
            jobs.push(Job::Judge(Arc::clone(owner)));
        }
    }

    /// Judges those who mean exactly `absent`; the others mean something that may be there.
    fn disown(&mut self, absent: &Identity) -> Vec<Job> {
        let mean_it = self.dependents_meaning(absent);
        if !mean_it.is_empty() {
            self.absent.insert(absent.clone());
        }
        mean_it.into_iter().map(Job::Judge).collect()
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

    /// The dependents of a node with a reference that does not mean the node as it is.
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

    /// What else than `absent` the dependents of its node may mean by its uid.
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
    fn new(identity: Identity, sight: Sight) -> Self {
        Self { identity, sight, fate: Fate::Alive, owners: Vec::new(), dependents: BTreeSet::new() }
    }
}

#[cfg(test)]
mod tests;
