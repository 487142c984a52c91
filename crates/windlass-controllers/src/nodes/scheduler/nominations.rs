//! The pods for which preemption makes room, and the nodes where it does.

use std::{borrow::Cow, sync::Arc};

use hashbrown::HashMap;
use windlass_api::ObjectKey;

use super::{
    decide::Candidate,
    profile::Profile,
    snapshot::{NodeInfo, Usage},
};

/// The nominated pods. Their resources and ports count as used for pods of the same or a lower priority.
#[derive(Debug, Default)]
pub(super) struct Nominations {
    of_node: HashMap<Arc<str>, Vec<(ObjectKey, Arc<Profile>)>>,
    node_of: HashMap<ObjectKey, Arc<str>>,
}

impl Nominations {
    /// Nominates a pod for a node.
    pub(super) fn set(&mut self, key: &ObjectKey, node: &str, profile: &Arc<Profile>) {
        if self.node(key) == Some(node) {
            return;
        }
        self.remove(key);
        let node: Arc<str> = node.into();
        self.of_node.entry(Arc::clone(&node)).or_default().push((key.clone(), Arc::clone(profile)));
        self.node_of.insert(key.clone(), node);
    }

    /// Removes the nomination of a pod.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        let Some(node) = self.node_of.remove(key) else { return };
        if let Some(pods) = self.of_node.get_mut(&node) {
            pods.retain(|(known, _)| known != key);
            if pods.is_empty() {
                self.of_node.remove(&node);
            }
        }
    }

    /// Returns the node for which a pod is nominated.
    pub(super) fn node(&self, key: &ObjectKey) -> Option<&str> {
        self.node_of.get(key).map(|node| &**node)
    }

    /// Returns the pods of lower priority that are nominated for a node.
    pub(super) fn below(&self, node: &str, priority: i32) -> Vec<ObjectKey> {
        let pods = self.of_node.get(node).into_iter().flatten();
        pods.filter(|(_, profile)| profile.priority < priority).map(|(key, _)| key.clone()).collect()
    }

    /// Returns the usage of a node, including the nominated pods that are at least as important as the candidate.
    pub(super) fn usage<'n>(&self, node: &'n NodeInfo, candidate: Candidate<'_>) -> Cow<'n, Usage> {
        let mut usage = Cow::Borrowed(&node.usage);
        for (key, profile) in self.of_node.get(&node.name).into_iter().flatten() {
            if profile.priority >= candidate.profile.priority && key != candidate.key {
                usage.to_mut().add(profile);
            }
        }
        usage
    }
}
