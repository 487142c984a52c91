//! Limits on the numbers of reads and writes at the same time, without priorities and queues.

use std::sync::{
    Arc,
    atomic::{
        AtomicU32,
        Ordering::{AcqRel, Acquire},
    },
};

use crate::identity::{MASTERS, User};

/// The limits and the current numbers.
#[derive(Debug)]
pub(super) struct MaxInFlight {
    reads: Option<Arc<Counter>>,
    writes: Option<Arc<Counter>>,
}

#[derive(Debug)]
struct Counter {
    limit: u32,
    current: AtomicU32,
}

/// A request that is counted until this is dropped.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Counter>);

impl MaxInFlight {
    /// Creates the limits. 0 is no limit.
    pub(super) fn new(reads: u32, writes: u32) -> Self {
        let counter = |limit: u32| (limit > 0).then(|| Arc::new(Counter { limit, current: AtomicU32::new(0) }));
        Self { reads: counter(reads), writes: counter(writes) }
    }

    /// Counts a request. Returns `Err` if there are too many; an administrator is never rejected.
    pub(super) fn enter(&self, verb: &str, user: &User) -> Result<Option<InFlight>, ()> {
        let is_read = matches!(verb, "get" | "list" | "watch");
        let Some(counter) = (if is_read { &self.reads } else { &self.writes }) else { return Ok(None) };
        let counted =
            counter.current.fetch_update(AcqRel, Acquire, |current| (current < counter.limit).then_some(current + 1));
        match counted {
            Ok(_) => Ok(Some(InFlight(Arc::clone(counter)))),
            Err(_) if user.groups.iter().any(|group| group == MASTERS) => Ok(None),
            Err(_) => Err(()),
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.current.fetch_sub(1, AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_have_their_own_limits() {
        let limits = MaxInFlight::new(1, 2);
        let (jane, admin) = (User::new("jane"), User::new("admin").in_groups([MASTERS]));
        let list = limits.enter("list", &jane).unwrap();
        assert!(limits.enter("get", &jane).is_err());
        assert!(limits.enter("get", &admin).is_ok());
        let _writes = [limits.enter("create", &jane).unwrap(), limits.enter("delete", &jane).unwrap()];
        assert!(limits.enter("", &jane).is_err());
        drop(list);
        assert!(limits.enter("get", &jane).is_ok());
    }

    #[test]
    fn zero_is_no_limit() {
        let limits = MaxInFlight::new(0, 1);
        let jane = User::new("jane");
        let reads: Vec<_> = (0..1000).map(|_| limits.enter("get", &jane)).collect();
        assert!(reads.iter().all(Result::is_ok));
    }
}
