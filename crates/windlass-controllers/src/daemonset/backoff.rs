//! Back-off of failed daemon pods: a failed pod stays on its node for a growing time before it is replaced.

use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_api::ObjectKey;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(15);

/// The back-off by set and node.
#[derive(Debug, Default)]
pub(super) struct Backoffs(Mutex<HashMap<ObjectKey, HashMap<String, Backoff>>>);

#[derive(Clone, Copy, Debug)]
struct Backoff {
    /// The set's generation when the pod failed. A new generation resets the back-off.
    generation: i64,
    delay: Duration,
    since: Instant,
}

impl Backoffs {
    /// Returns the remaining back-off of a failed pod. Returns `None`, and starts the next back-off, if the pod may be
    /// deleted now.
    pub(super) fn wait(&self, set: &ObjectKey, generation: i64, node: &str) -> Option<Duration> {
        let mut sets = self.0.lock();
        let nodes = sets.entry_ref(set).or_default();
        let known = nodes.get(node).copied().filter(|known| known.generation == generation);
        let delay = match known {
            Some(known) if known.since.elapsed() < known.delay => {
                return Some(known.delay.saturating_sub(known.since.elapsed()));
            }
            Some(known) if known.since.elapsed() < LONGEST * 2 => (known.delay * 2).min(LONGEST),
            _ => FIRST,
        };
        nodes.insert(node.to_owned(), Backoff { generation, delay, since: Instant::now() });
        None
    }

    /// Drops the back-off of a deleted set.
    pub(super) fn forget(&self, set: &ObjectKey) {
        self.0.lock().remove(set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_failure_takes_twice_as_long_as_the_last() {
        let (backoffs, key) = (Backoffs::default(), ObjectKey::new("agent"));
        assert_eq!(backoffs.wait(&key, 1, "a"), None);
        assert_eq!(backoffs.wait(&key, 1, "a"), Some(FIRST));
        assert_eq!(backoffs.wait(&key, 1, "b"), None, "each node for itself");
        tokio::time::advance(FIRST).await;
        assert_eq!(backoffs.wait(&key, 1, "a"), None);
        assert_eq!(backoffs.wait(&key, 1, "a"), Some(FIRST * 2));
        assert_eq!(backoffs.wait(&key, 2, "a"), None, "another generation begins anew");
        tokio::time::advance(LONGEST * 3).await;
        assert_eq!(backoffs.wait(&key, 2, "a"), None);
        assert_eq!(backoffs.wait(&key, 2, "a"), Some(FIRST));
    }
}
