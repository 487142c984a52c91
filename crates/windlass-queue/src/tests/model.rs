//! Comparison of the queue with a model. Every operation of the queue is one critical section, so concurrent threads
//! are equivalent to some sequence of operations. All short sequences are tried, and random long ones from seeds.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tokio::time::{Instant, sleep};

use super::{MS, Woken};
use crate::{AddOptions, Get, WorkQueue};

/// The documented behavior in its simplest form.
#[derive(Debug, Default)]
struct Model {
    queued: VecDeque<u8>,
    processing: BTreeSet<u8>,
    /// The dirty keys among those in processing.
    dirty: BTreeSet<u8>,
    /// Time and order of arrival.
    waiting: BTreeMap<u8, (Instant, usize)>,
}

impl Model {
    fn add(&mut self, key: u8) {
        if self.processing.contains(&key) {
            self.dirty.insert(key);
        } else if !self.queued.contains(&key) {
            self.queued.push_back(key);
        }
    }

    fn add_at(&mut self, key: u8, moment: Instant, arrival: usize) {
        let waits = self.waiting.entry(key).or_insert((moment, arrival));
        waits.0 = waits.0.min(moment);
    }

    fn pass(&mut self, now: Instant) {
        let mut due: Vec<_> = self.waiting.iter().filter(|(_, at)| at.0 <= now).map(|(key, at)| (*at, *key)).collect();
        due.sort_unstable();
        for (_, key) in due {
            self.waiting.remove(&key);
            self.add(key);
        }
    }

    fn get(&mut self) -> Option<u8> {
        let key = self.queued.pop_front()?;
        assert!(self.processing.insert(key), "the model hands out no key twice");
        Some(key)
    }

    fn done(&mut self, key: u8) {
        if self.processing.remove(&key) && self.dirty.remove(&key) {
            self.queued.push_back(key);
        }
    }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

#[test]
fn every_short_sequence_of_operations_matches_the_model() {
    const LENGTH: u32 = 7;
    const OPERATIONS: u32 = 5;
    for sequence in 0..OPERATIONS.pow(LENGTH) {
        let (queue, mut model) = (WorkQueue::new(), Model::default());
        for step in 0..LENGTH {
            match sequence / OPERATIONS.pow(step) % OPERATIONS {
                0 => {
                    let expected = model.get().map_or(Poll::Pending, |key| Poll::Ready(Some(key)));
                    assert_eq!(poll(&mut queue.get(), Waker::noop()), expected, "{sequence}, step {step}");
                }
                operation => {
                    let key = u8::from(operation % 2 == 0);
                    if operation < 3 {
                        queue.add(key);
                        model.add(key);
                    } else {
                        queue.done(&key);
                        model.done(key);
                    }
                }
            }
            assert_eq!(queue.len(), model.queued.len(), "{sequence}, step {step}");
        }
    }
}

/// A worker with its pending `get`.
struct Worker<'q> {
    get: Option<Get<'q, u8>>,
    woken: Arc<Woken>,
    /// The number of its wake-ups at its last poll.
    seen: usize,
    has: Option<u8>,
}

impl Worker<'_> {
    fn waits(&self) -> bool {
        self.get.is_some()
    }

    fn is_on_its_way(&self) -> bool {
        self.waits() && self.woken.count() > self.seen
    }
}

/// Pseudo-random numbers that are equal in each run.
struct Numbers(u64);

impl Numbers {
    /// Returns a number below `bound`.
    fn next(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % bound
    }
}

/// Workers start, wait, are cancelled, work and finish in any order, with concurrent producers, delays and shutdowns.
#[tokio::test(start_paused = true)]
async fn queue_loses_no_key_and_wakes_workers() {
    for seed in 1..=300 {
        let mut numbers = Numbers(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        let queue = WorkQueue::new();
        let mut model = Model::default();
        let mut workers: Vec<_> =
            (0..3).map(|_| Worker { get: None, woken: Arc::default(), seen: 0, has: None }).collect();
        for step in 0..200 {
            let case = (seed, step);
            let key = u8::try_from(numbers.next(4)).unwrap();
            let worker = &mut workers[numbers.next(3)];
            match numbers.next(9) {
                0 | 1 => {
                    queue.add(key);
                    model.add(key);
                }
                2..=4 if worker.has.is_none() => {
                    let get = worker.get.get_or_insert_with(|| queue.get());
                    worker.seen = worker.woken.count();
                    let polled = poll(get, &Waker::from(worker.woken.clone()));
                    worker.has = model.get();
                    assert_eq!(polled, worker.has.map_or(Poll::Pending, |key| Poll::Ready(Some(key))), "{case:?}");
                    if worker.has.is_some() {
                        worker.get = None;
                    }
                }
                5 => worker.get = None,
                6 => {
                    // The times lie between the steps of the clock below.
                    let delay = MS * (10 * u32::from(key) + 5);
                    queue.add_after(key, delay);
                    model.add_at(key, Instant::now() + delay, step);
                }
                7 => {
                    sleep(MS * 10).await;
                    model.pass(Instant::now());
                }
                _ => {
                    if let Some(key) = worker.has.take() {
                        queue.done(&key);
                        model.done(key);
                    }
                }
            }
            assert_eq!(queue.len(), model.queued.len(), "{case:?}");
            assert_eq!(queue.unfinished_work().keys, model.processing.len(), "{case:?}");
            let waiting = workers.iter().filter(|worker| worker.waits()).count();
            let on_their_way = workers.iter().filter(|worker| worker.is_on_its_way()).count();
            assert!(on_their_way >= waiting.min(queue.len()), "{case:?}: a worker sleeps while a key is ready");
        }
        queue.shut_down();
        for worker in &mut workers {
            assert!(!worker.waits() || worker.is_on_its_way(), "{seed}: a worker sleeps after the shutdown");
            if let Some(key) = worker.has {
                queue.done(&key);
                model.done(key);
            }
        }
        while let Some(key) = model.get() {
            assert_eq!(poll(&mut queue.get(), Waker::noop()), Poll::Ready(Some(key)), "{seed}");
            queue.done(&key);
            model.done(key);
        }
        assert_eq!(poll(&mut queue.get(), Waker::noop()), Poll::Ready(None), "{seed}");
    }
}

/// The model of a queue by priority.
#[derive(Debug, Default)]
struct PriorityModel {
    /// The additions since the key was last taken.
    wanted: BTreeMap<u8, Wanted>,
    processing: BTreeSet<u8>,
    numbers: usize,
}

#[derive(Clone, Copy, Debug)]
struct Wanted {
    priority: i32,
    /// Time and order of arrival of a delayed key; `None` if it is dirty.
    waits: Option<(Instant, usize)>,
    /// The position among keys of the same priority, if it is ready.
    number: usize,
}

impl PriorityModel {
    fn number(&mut self) -> usize {
        self.numbers += 1;
        self.numbers
    }

    fn add(&mut self, key: u8, priority: i32) {
        let number = self.number();
        let wanted = self.wanted.entry(key).or_insert(Wanted { priority, waits: None, number });
        if wanted.waits.take().is_some() || priority > wanted.priority {
            wanted.number = number;
        }
        wanted.priority = wanted.priority.max(priority);
    }

    fn add_at(&mut self, key: u8, priority: i32, moment: Instant, arrival: usize) {
        let number = self.number();
        let wanted = self.wanted.entry(key).or_insert(Wanted { priority, waits: Some((moment, arrival)), number });
        if let Some(waits) = &mut wanted.waits {
            waits.0 = waits.0.min(moment);
        } else if priority > wanted.priority {
            wanted.number = number;
        }
        wanted.priority = wanted.priority.max(priority);
    }

    fn pass(&mut self, now: Instant) {
        let mut due: Vec<_> = self.wanted.iter().filter_map(|(key, wanted)| Some((wanted.waits?, *key))).collect();
        due.retain(|(waits, _)| waits.0 <= now);
        due.sort_unstable();
        for (_, key) in due {
            self.add(key, i32::MIN);
        }
    }

    fn ready(&self) -> impl Iterator<Item = (u8, Wanted)> {
        let free = |key: &u8| !self.processing.contains(key);
        self.wanted.iter().filter(move |(key, wanted)| wanted.waits.is_none() && free(key)).map(|(key, it)| (*key, *it))
    }

    fn get(&mut self) -> Option<(u8, i32)> {
        let (key, wanted) = self.ready().min_by_key(|(_, wanted)| (Reverse(wanted.priority), wanted.number))?;
        self.wanted.remove(&key);
        assert!(self.processing.insert(key), "the model hands out no key twice");
        Some((key, wanted.priority))
    }

    fn done(&mut self, key: u8) {
        if self.processing.remove(&key) {
            let number = self.number();
            if let Some(wanted) = self.wanted.get_mut(&key) {
                wanted.number = number;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn priority_queue_merges_priority_and_delay_of_a_key() {
    for seed in 1..=300 {
        let mut numbers = Numbers(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        let queue = WorkQueue::builder().by_priority().build();
        let mut model = PriorityModel::default();
        for step in 0..200 {
            let case = (seed, step);
            let key = u8::try_from(numbers.next(5)).unwrap();
            let priority = i32::try_from(numbers.next(4)).unwrap() - 2;
            let options = AddOptions::new().priority(priority);
            match numbers.next(7) {
                0 | 1 => {
                    queue.add_with(key, options);
                    model.add(key, priority);
                }
                2 | 3 => {
                    // The times lie between the steps of the clock below.
                    let delay = MS * (10 * u32::try_from(numbers.next(4)).unwrap() + 5);
                    queue.add_with(key, options.after(delay));
                    model.add_at(key, priority, Instant::now() + delay, step);
                }
                4 => {
                    sleep(MS * 10).await;
                    model.pass(Instant::now());
                }
                5 => {
                    let expected = model.get().map_or(Poll::Pending, |taken| Poll::Ready(Some(taken)));
                    assert_eq!(poll(&mut queue.get().with_priority(), Waker::noop()), expected, "{case:?}");
                }
                _ => {
                    queue.done(&key);
                    model.done(key);
                }
            }
            assert_eq!(queue.len(), model.ready().count(), "{case:?}");
        }
    }
}
