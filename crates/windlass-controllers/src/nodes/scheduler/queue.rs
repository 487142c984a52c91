//! The pods that need a node: those to be tried, those in back-off, and those that wait for an event.
//!
//! Pods with the same profile form a group. If they fit on no node, an event tries only the first of them. If it gets a
//! node, the next one is tried. So an event costs one decision per group, however many pods wait.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc, time::Duration};

use hashbrown::HashMap;
use tokio::time::Instant;
use windlass_api::ObjectKey;

use super::{decide::Failure, profile::Profile, reason::Causes};

/// The back-off after the first attempt. It doubles with each attempt.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// The longest back-off.
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

/// The pods that need a node.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Sorted by priority and age.
    active: BTreeMap<Rank, ObjectKey>,
    backoff: BTreeMap<(Instant, u64), ObjectKey>,
    /// The groups with waiting pods, by the address of their profile.
    groups: HashMap<usize, Group>,
    pods: HashMap<ObjectKey, Queued>,
    /// The number of pods added so far.
    added: u64,
}

type Rank = (Reverse<i32>, u64);

/// A pod that needs a node.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub(super) uid: Arc<str>,
    pub(super) profile: Arc<Profile>,
    /// The position by age.
    age: u64,
    state: State,
    attempts: u32,
    last_attempt: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Active,
    Backoff(Instant),
    /// The pod waits for an event.
    Waiting,
    /// A decision was made, and its write is in progress.
    InProgress,
}

/// Waiting pods with the same profile.
#[derive(Debug)]
struct Group {
    profile: Arc<Profile>,
    /// Sorted by age.
    waiting: BTreeMap<u64, ObjectKey>,
    causes: Causes,
    /// The pod that is being tried for the group.
    tried: Option<ObjectKey>,
    /// The failure of the last attempt.
    failure: Option<Failure>,
}

impl Queue {
    /// Adds a pod, or replaces it if it has changed.
    pub(super) fn add(&mut self, key: &ObjectKey, uid: &Arc<str>, profile: &Arc<Profile>) {
        if let Some(known) = self.pods.get(key) {
            if known.uid == *uid && Arc::ptr_eq(&known.profile, profile) {
                return;
            }
            self.remove(key);
        }
        self.added += 1;
        let age = self.added;
        let pod = Queued {
            uid: Arc::clone(uid),
            profile: Arc::clone(profile),
            age,
            state: State::Active,
            attempts: 0,
            last_attempt: None,
        };
        self.active.insert((Reverse(profile.priority), age), key.clone());
        self.pods.insert(key.clone(), pod);
    }

    /// Removes a pod that needs no node any more. If it was tried for its group, the next one is tried.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        let Some(pod) = self.detach(key) else { return };
        self.pods.remove(key);
        self.try_next(&pod.profile, key);
    }

    /// Returns the pod with this key, if it needs a node.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Queued> {
        self.pods.get(key)
    }

    /// Takes the most important pod to be tried.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(ObjectKey, Queued)> {
        let (_, key) = self.active.pop_first()?;
        let pod = self.pods.get_mut(&key)?;
        pod.state = State::InProgress;
        pod.attempts += 1;
        pod.last_attempt = Some(now);
        Some((key, pod.clone()))
    }

    /// Returns the failure of a pod with the same profile, if nothing has changed since.
    pub(super) fn known_failure(&self, profile: &Arc<Profile>) -> Option<&Failure> {
        self.groups.get(&address(profile)).and_then(|group| group.failure.as_ref())
    }

    /// Records that the pod fits on no node: it waits for an event. `reusable` is `true` if the failure is that of all
    /// pods with the profile.
    pub(super) fn wait(&mut self, key: &ObjectKey, failure: &Failure, reusable: bool) {
        let Some(pod) = self.detach(key) else { return };
        let profile = &pod.profile;
        let group = self.groups.entry(address(profile)).or_insert_with(|| Group {
            profile: Arc::clone(profile),
            waiting: BTreeMap::new(),
            causes: Causes::NONE,
            tried: None,
            failure: None,
        });
        group.waiting.insert(pod.age, key.clone());
        group.causes = failure.causes;
        group.failure = reusable.then(|| failure.clone());
        if group.tried.as_ref() == Some(key) {
            group.tried = None;
        }
        self.set_state(key, State::Waiting);
    }

    /// Retries a pod after its back-off.
    pub(super) fn retry(&mut self, key: &ObjectKey, now: Instant) {
        if self.detach(key).is_some() {
            self.enqueue(key, now);
        }
    }

    /// Tries a pod at once, unless an attempt is in progress.
    pub(super) fn activate(&mut self, key: &ObjectKey) {
        if self.pods.get(key).is_some_and(|pod| pod.state != State::InProgress)
            && let Some(pod) = self.detach(key)
        {
            self.active.insert((Reverse(pod.profile.priority), pod.age), key.clone());
            self.set_state(key, State::Active);
        }
    }

    /// Records that the pod has got a node. The next pod of its group is tried.
    pub(super) fn placed(&mut self, key: &ObjectKey) {
        if let Some(pod) = self.pods.get(key) {
            let profile = Arc::clone(&pod.profile);
            self.try_next(&profile, key);
        }
    }

    /// Tries one pod of each group that an event may help.
    pub(super) fn notify(&mut self, now: Instant, helps: impl Fn(Causes, &Profile) -> bool) {
        let mut helped = Vec::new();
        for group in self.groups.values_mut() {
            if !helps(group.causes, &group.profile) {
                continue;
            }
            group.failure = None;
            if group.tried.is_none()
                && let Some(first) = group.waiting.values().next()
            {
                group.tried = Some(first.clone());
                helped.push(first.clone());
            }
        }
        // The order of the groups is not deterministic.
        helped.sort_by_key(|key| self.pods.get(key).map(|pod| pod.age));
        for key in helped {
            self.detach(&key);
            self.enqueue(&key, now);
        }
    }

    /// Moves pods whose back-off has ended. Returns the end of the next one.
    pub(super) fn flush(&mut self, now: Instant) -> Option<Instant> {
        while let Some(entry) = self.backoff.first_entry() {
            let until = entry.key().0;
            if until > now {
                return Some(until);
            }
            let key = entry.remove();
            if let Some(pod) = self.pods.get(&key) {
                self.active.insert((Reverse(pod.profile.priority), pod.age), key.clone());
            }
            self.set_state(&key, State::Active);
        }
        None
    }

    /// Tries the next pod of a group after `key` has got a node or is gone.
    fn try_next(&mut self, profile: &Arc<Profile>, key: &ObjectKey) {
        let Some(group) = self.groups.get_mut(&address(profile)) else { return };
        if group.tried.as_ref() != Some(key) {
            return;
        }
        group.tried = None;
        if let Some(next) = group.waiting.values().next().cloned() {
            group.tried = Some(next.clone());
            self.activate(&next);
        } else {
            self.groups.remove(&address(profile));
        }
    }

    fn enqueue(&mut self, key: &ObjectKey, now: Instant) {
        let Some(pod) = self.pods.get(key) else { return };
        let backoff = FIRST_BACKOFF * (1 << pod.attempts.saturating_sub(1).min(8));
        let until = pod.last_attempt.map_or(now, |at| at + backoff.min(LONGEST_BACKOFF));
        if until <= now {
            self.active.insert((Reverse(pod.profile.priority), pod.age), key.clone());
            self.set_state(key, State::Active);
        } else {
            self.backoff.insert((until, pod.age), key.clone());
            self.set_state(key, State::Backoff(until));
        }
    }

    /// Removes a pod from the list that it is in.
    fn detach(&mut self, key: &ObjectKey) -> Option<Queued> {
        let pod = self.pods.get(key)?.clone();
        match pod.state {
            State::Active => {
                self.active.remove(&(Reverse(pod.profile.priority), pod.age));
            }
            State::Backoff(until) => {
                self.backoff.remove(&(until, pod.age));
            }
            State::Waiting => {
                let address = address(&pod.profile);
                if let Some(group) = self.groups.get_mut(&address) {
                    group.waiting.remove(&pod.age);
                    if group.waiting.is_empty() && group.tried.is_none() {
                        self.groups.remove(&address);
                    }
                }
            }
            State::InProgress => {}
        }
        Some(pod)
    }

    fn set_state(&mut self, key: &ObjectKey, state: State) {
        if let Some(pod) = self.pods.get_mut(key) {
            pod.state = state;
        }
    }
}

impl Queued {
    /// Reports whether the pod waits for an event.
    pub(super) fn is_waiting(&self) -> bool {
        self.state == State::Waiting
    }
}

/// Profiles are shared, so that equal ones have one address.
fn address(profile: &Arc<Profile>) -> usize {
    Arc::as_ptr(profile) as usize
}
