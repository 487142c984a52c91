//! The objects of a run: those that were written, and the state that watches report.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use indexmap::IndexMap;
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_api::Entropy;

use crate::workload::Wait;

/// An object of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) set: usize,
    /// The index of the namespace. 0 for cluster-scoped objects.
    pub(crate) namespace: usize,
    pub(crate) index: usize,
}

/// The written state of an object.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// The generation after the last write.
    pub(crate) generation: i64,
}

/// The state that a watch reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    pub(crate) ready: bool,
    pub(crate) generation: i64,
}

/// A version of an object: its resource and its resource version.
type Version = (usize, String);

/// The time for which the half of a pair of a response and an event is kept.
const PAIRING: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(crate) struct Tracker {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The objects that were created and not deleted.
    live: IndexMap<Key, Written>,
    /// Objects whose deletion was requested and not yet reported.
    leaving: HashSet<Key>,
    observed: HashMap<Key, Observed>,
    /// The number of pods that a watch reports, by the object that they belong to.
    pods: HashMap<Key, usize>,
    /// The next index of the objects that the churn creates, by set and namespace.
    next: HashMap<(usize, usize), usize>,
    responses: Halves,
    events: Halves,
}

/// Responses without their event, or events without their response.
#[derive(Debug, Default)]
struct Halves {
    times: HashMap<Version, Instant>,
    /// In the order of their times.
    order: VecDeque<(Instant, Version)>,
}

impl Tracker {
    pub(crate) fn created(&self, key: Key, generation: i64) {
        let mut state = self.state.lock();
        let next = state.next.entry((key.set, key.namespace)).or_default();
        *next = (*next).max(key.index + 1);
        let written = state.live.entry(key).or_default();
        written.generation = written.generation.max(generation);
    }

    /// Records the generation after a write.
    pub(crate) fn written(&self, key: Key, generation: i64) {
        if let Some(written) = self.state.lock().live.get_mut(&key) {
            written.generation = written.generation.max(generation);
        }
    }

    /// Marks an object as being deleted. Returns `None` if it does not exist.
    pub(crate) fn begin_delete(&self, key: Key) -> Option<Written> {
        let mut state = self.state.lock();
        let written = state.live.swap_remove(&key)?;
        state.leaving.insert(key);
        Some(written)
    }

    /// Restores an object whose deletion failed.
    pub(crate) fn restore(&self, key: Key, written: Written) {
        let mut state = self.state.lock();
        if state.leaving.remove(&key) {
            state.live.insert(key, written);
        }
    }

    /// Records that an object does not exist.
    pub(crate) fn gone(&self, key: Key) {
        let mut state = self.state.lock();
        state.leaving.remove(&key);
        state.live.swap_remove(&key);
        state.observed.remove(&key);
    }

    pub(crate) fn is_live(&self, key: Key) -> bool {
        self.state.lock().live.contains_key(&key)
    }

    /// Returns a random object of these sets, or of any set.
    pub(crate) fn any(&self, sets: Option<&[usize]>, entropy: &Entropy) -> Option<Key> {
        let state = self.state.lock();
        let random = |bound: usize| usize::try_from(entropy.below(bound as u64)).unwrap_or_default();
        let wanted = |key: &Key| sets.is_none_or(|sets| sets.contains(&key.set));
        // Most objects of a phase are of its sets, so a few attempts find one without a pass over all objects.
        for _ in 0..8 {
            let (key, _) = state.live.get_index(random(state.live.len()))?;
            if wanted(key) {
                return Some(*key);
            }
        }
        let keys: Vec<&Key> = state.live.keys().filter(|key| wanted(key)).collect();
        keys.get(random(keys.len())).map(|key| **key)
    }

    /// Returns a new object of a set in a namespace.
    pub(crate) fn next(&self, set: usize, namespace: usize) -> Key {
        let mut state = self.state.lock();
        let next = state.next.entry((set, namespace)).or_default();
        let index = *next;
        *next += 1;
        Key { set, namespace, index }
    }

    pub(crate) fn observe(&self, key: Key, observed: Observed) {
        let mut state = self.state.lock();
        if !state.leaving.contains(&key) {
            // The response of its creation is still to come, or was lost.
            state.live.entry(key).or_default();
        }
        state.observed.insert(key, observed);
    }

    /// Records that a watch reported the end of an object.
    pub(crate) fn observe_deleted(&self, key: Key) {
        let mut state = self.state.lock();
        state.observed.remove(&key);
        state.leaving.remove(&key);
    }

    /// Returns the objects of these sets of which a watch has reported anything.
    pub(crate) fn known(&self, sets: &[usize]) -> Vec<Key> {
        let state = self.state.lock();
        let known = state.observed.keys().chain(&state.leaving).filter(|key| sets.contains(&key.set));
        known.copied().collect()
    }

    pub(crate) fn pod_seen(&self, key: Key) {
        *self.state.lock().pods.entry(key).or_default() += 1;
    }

    pub(crate) fn pod_gone(&self, key: Key) {
        let mut state = self.state.lock();
        if let Some(pods) = state.pods.get_mut(&key) {
            *pods -= 1;
            if *pods == 0 {
                state.pods.remove(&key);
            }
        }
    }

    /// Returns the number of objects that are not in the state to wait for.
    pub(crate) fn pending(&self, wait: Wait) -> usize {
        let state = self.state.lock();
        match wait {
            Wait::None => 0,
            Wait::Ready => {
                let is_ready = |(key, written): &(&Key, &Written)| {
                    let observed = state.observed.get(*key);
                    observed.is_some_and(|seen| seen.ready && seen.generation >= written.generation)
                };
                state.live.iter().filter(|object| !is_ready(object)).count()
            }
            Wait::Gone => {
                let ownerless = state.pods.keys().filter(|key| !state.live.contains_key(*key));
                ownerless.filter(|key| !state.leaving.contains(*key)).count() + state.leaving.len()
            }
        }
    }

    /// Pairs the response of a write with its event. Returns the latency of the watch if both are known.
    pub(crate) fn response(&self, version: Version, at: Instant) -> Option<Duration> {
        let mut state = self.state.lock();
        if let Some(seen) = state.events.times.remove(&version) {
            return Some(seen.saturating_duration_since(at));
        }
        state.responses.add(version, at);
        None
    }

    /// Pairs an event with the response of its write.
    pub(crate) fn event(&self, version: Version, at: Instant) -> Option<Duration> {
        let mut state = self.state.lock();
        if let Some(answered) = state.responses.times.remove(&version) {
            return Some(at.saturating_duration_since(answered));
        }
        state.events.add(version, at);
        None
    }
}

impl Halves {
    fn add(&mut self, version: Version, at: Instant) {
        while let Some((_, old)) = self.order.pop_front_if(|(since, _)| at.saturating_duration_since(*since) > PAIRING)
        {
            self.times.remove(&old);
        }
        self.times.insert(version.clone(), at);
        self.order.push_back((at, version));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key { set: 0, namespace: 0, index: 0 };

    #[test]
    fn ready_requires_the_written_generation() {
        let tracker = Tracker::default();
        tracker.created(KEY, 1);
        assert_eq!(tracker.pending(Wait::Ready), 1);
        tracker.observe(KEY, Observed { ready: true, generation: 1 });
        assert_eq!(tracker.pending(Wait::Ready), 0);
        tracker.written(KEY, 2);
        assert_eq!(tracker.pending(Wait::Ready), 1, "the controllers have not seen generation 2");
        tracker.observe(KEY, Observed { ready: true, generation: 2 });
        assert_eq!(tracker.pending(Wait::Ready), 0);
    }

    #[test]
    fn object_with_a_lost_response_is_live_when_observed() {
        let tracker = Tracker::default();
        tracker.observe(KEY, Observed { ready: true, generation: 1 });
        assert!(tracker.is_live(KEY));
        tracker.begin_delete(KEY).unwrap();
        tracker.observe(KEY, Observed { ready: true, generation: 2 });
        assert!(!tracker.is_live(KEY), "it is being deleted");
    }

    #[test]
    fn gone_waits_for_the_object_and_its_pods() {
        let tracker = Tracker::default();
        tracker.created(KEY, 1);
        tracker.pod_seen(KEY);
        assert_eq!(tracker.pending(Wait::Gone), 0, "nothing was deleted");
        tracker.begin_delete(KEY).unwrap();
        assert_eq!(tracker.pending(Wait::Gone), 1);
        tracker.observe_deleted(KEY);
        assert_eq!(tracker.pending(Wait::Gone), 1, "its pod remains");
        tracker.pod_gone(KEY);
        assert_eq!(tracker.pending(Wait::Gone), 0);
    }

    #[test]
    fn failed_deletion_restores_the_object() {
        let tracker = Tracker::default();
        tracker.created(KEY, 1);
        let written = tracker.begin_delete(KEY).unwrap();
        assert!(tracker.begin_delete(KEY).is_none() && !tracker.is_live(KEY));
        tracker.restore(KEY, written);
        assert!(tracker.is_live(KEY));
        assert_eq!(tracker.pending(Wait::Gone), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn responses_and_events_pair_in_any_order() {
        let tracker = Tracker::default();
        let start = Instant::now();
        let later = start + Duration::from_millis(7);
        assert_eq!(tracker.response((0, "1".into()), start), None);
        assert_eq!(tracker.event((0, "1".into()), later), Some(Duration::from_millis(7)));
        assert_eq!(tracker.event((0, "2".into()), start), None);
        assert_eq!(tracker.response((0, "2".into()), later), Some(Duration::ZERO), "the event came first");
        assert_eq!(tracker.event((1, "3".into()), start), None);
        let much_later = start + PAIRING * 2;
        assert_eq!(tracker.event((1, "4".into()), much_later), None);
        assert_eq!(tracker.response((1, "3".into()), much_later), None, "the old event was forgotten");
    }

    #[test]
    fn new_objects_of_the_churn_have_new_names() {
        let tracker = Tracker::default();
        tracker.created(Key { index: 4, ..KEY }, 1);
        assert_eq!([tracker.next(0, 0).index, tracker.next(0, 0).index], [5, 6]);
    }
}
