//! Owners that are known to be gone.

use std::collections::VecDeque;

use hashbrown::HashSet;

use super::identity::Identity;

/// How many are remembered.
const CAPACITY: usize = 500;

/// A bounded memory of identities that the server said do not exist, so that a thousand dependents of one owner do not
/// ask a thousand times. Uids are never used again: what is absent once stays absent. The oldest are forgotten first.
#[derive(Debug, Default)]
pub(crate) struct AbsentOwners {
    known: HashSet<Identity>,
    /// The same, in the order of arrival.
    order: VecDeque<Identity>,
}

impl AbsentOwners {
    pub(crate) fn insert(&mut self, identity: Identity) {
        if !self.known.insert(identity.clone()) {
            return;
        }
        self.order.push_back(identity);
        if self.order.len() > CAPACITY
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Whether this object is known to be gone, as one of its namespace or as a cluster-scoped one.
    pub(crate) fn contains(&self, identity: &Identity) -> bool {
        self.known.contains(identity)
            || (identity.namespace.is_some() && self.known.contains(&identity.clone().without_namespace()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(uid: usize, namespace: Option<&str>) -> Identity {
        Identity {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: namespace.map(Into::into),
            name: "a".into(),
            uid: uid.to_string().into(),
        }
    }

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut absent = AbsentOwners::default();
        for uid in 0..=CAPACITY {
            absent.insert(identity(uid, Some("n")));
            absent.insert(identity(uid, Some("n")));
        }
        assert!(!absent.contains(&identity(0, Some("n"))));
        assert!(absent.contains(&identity(1, Some("n"))) && absent.contains(&identity(CAPACITY, Some("n"))));
        assert_eq!(absent.order.len(), CAPACITY);
    }

    #[test]
    fn a_cluster_scoped_owner_is_absent_for_every_namespace() {
        let mut absent = AbsentOwners::default();
        absent.insert(identity(1, None));
        absent.insert(identity(2, Some("n")));
        assert!(absent.contains(&identity(1, Some("n"))) && absent.contains(&identity(1, Some("m"))));
        assert!(absent.contains(&identity(2, Some("n"))) && !absent.contains(&identity(2, Some("m"))));
    }
}
