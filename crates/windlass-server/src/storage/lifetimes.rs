//! The values with a lifetime, in the order in which they expire. For backends.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use tokio::time::Instant;

/// The values of [`Change::PutFor`](super::Change::PutFor), by the time at which they expire.
///
/// Each value has one entry, so the size is that of the live values with a lifetime.
#[derive(Debug, Default)]
pub struct Lifetimes {
    order: BTreeSet<(Instant, Arc<str>)>,
    ends: HashMap<Arc<str>, Instant>,
}

impl Lifetimes {
    /// Records a write: the value of `key` expires at `end`, or never. A deletion is a write without an end.
    pub fn set(&mut self, key: &Arc<str>, end: Option<Instant>) {
        // Most stores have no lifetimes at all, and hashing each key would cost a fifth of loading a million of them.
        if self.ends.is_empty() && end.is_none() {
            return;
        }
        if let Some((key, end)) = self.ends.remove_entry(key) {
            self.order.remove(&(end, key));
        }
        if let Some(end) = end {
            self.ends.insert(Arc::clone(key), end);
            self.order.insert((end, Arc::clone(key)));
        }
    }

    /// Removes and returns the key of a value that has expired.
    pub fn take_expired(&mut self, now: Instant) -> Option<Arc<str>> {
        if self.next()? > now {
            return None;
        }
        let (_, key) = self.order.pop_first()?;
        self.ends.remove(&key);
        Some(key)
    }

    /// Returns the time at which the next value expires.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.order.first().map(|(end, _)| *end)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn last_write_of_a_key_decides() {
        let mut lifetimes = Lifetimes::default();
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let keys: Vec<Arc<str>> = ["a", "b", "c"].map(Arc::from).into();
        for _ in 0..100 {
            lifetimes.set(&keys[0], Some(at(1)));
            lifetimes.set(&keys[1], Some(at(2)));
            lifetimes.set(&keys[2], Some(at(3)));
        }
        lifetimes.set(&keys[0], Some(at(4)));
        lifetimes.set(&keys[1], None);
        assert_eq!((lifetimes.order.len(), lifetimes.ends.len()), (2, 2), "each value has one entry");
        assert_eq!(lifetimes.next(), Some(at(3)));
        assert_eq!(lifetimes.take_expired(at(2)), None);
        assert_eq!(lifetimes.take_expired(at(9)), Some(keys[2].clone()));
        assert_eq!(lifetimes.take_expired(at(9)), Some(keys[0].clone()));
        assert_eq!((lifetimes.take_expired(at(9)), lifetimes.next()), (None, None));
    }
}
