//! A cache of owners that do not exist.

use std::collections::VecDeque;

use hashbrown::HashSet;

use super::identity::Identity;

/// The maximum number of entries.
const CAPACITY: usize = 500;

/// A bounded cache of identities that do not exist on the server. With it, a thousand dependents of one owner do not
/// cause a thousand requests. UIDs are never reused, so an entry never becomes false. The oldest entries are dropped
/// first.
#[derive(Debug, Default)]
pub(crate) struct AbsentOwners {
    known: HashSet<Identity>,
    /// The same identities, in the order of insertion.
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

    /// Returns `true` if this object is known to be gone, either in its namespace or as a cluster-scoped object.
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
