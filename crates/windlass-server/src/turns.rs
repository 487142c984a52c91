//! Turns at work that occupies a processor: long computations, and the bytes of large responses.
//!
//! A limited number of turns exists at a time; other work waits. Exempt requests come first. Then the waiting priority
//! levels take turns, and within a level its flows, for example its users. So one user with many requests delays others
//! by one turn, and not by all of these requests.
//!
//! Guaranteed: a turn that is dropped or [ended](Turn::end) is passed on at once. No task runs in the background, and there
//! are no timers.
//!
//! Not guaranteed: a turn that is kept is not passed on. An owner that waits for something else ends its turn first.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

tokio::task_local! {
    static CLASS: Class;
}

/// The class of a request, by priority and fairness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Class {
    /// Goes before all others.
    Exempt,
    /// The hashes of the priority level and of the flow.
    Flow { level: u64, flow: u64 },
    /// Does not belong to a request of a known user.
    #[default]
    Other,
}

/// The turns of one kind of work.
#[derive(Debug)]
pub(crate) struct Turns {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    exempt: VecDeque<Waiting>,
    /// The other work that waits. The first one is next. None is empty.
    levels: VecDeque<Queue<Queue<Waiting>>>,
}

/// Waiting work with the same hash.
#[derive(Debug)]
struct Queue<T> {
    hash: u64,
    waiting: VecDeque<T>,
}

type Waiting = oneshot::Sender<Turn>;

/// A turn. It ends when it is dropped, or before.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    has_ended: AtomicBool,
}

// === impl Class ===

impl Class {
    /// Returns the class of the request of the current task.
    pub(crate) fn current() -> Self {
        CLASS.try_with(|class| *class).unwrap_or_default()
    }

    /// Runs a future of a request of this class.
    pub(crate) async fn scope<F: Future>(self, future: F) -> F::Output {
        CLASS.scope(self, future).await
    }

    /// Calls a function for a request of this class.
    pub(crate) fn sync_scope<T>(self, call: impl FnOnce() -> T) -> T {
        CLASS.sync_scope(self, call)
    }
}

// === impl Turns ===

impl Turns {
    /// Creates a number of turns.
    pub(crate) fn new(number: usize) -> Arc<Self> {
        let state = State { free: number, exempt: VecDeque::new(), levels: VecDeque::new() };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// Waits for a turn.
    pub(crate) async fn take(self: Arc<Self>, class: Class) -> Turn {
        let waiting = {
            let mut state = self.state.lock();
            if state.free > 0 {
                state.free -= 1;
                return self.grant();
            }
            let (sender, receiver) = oneshot::channel();
            state.push(class, sender);
            receiver
        };
        waiting.await.expect("the queue keeps the sender until it sends a turn")
    }

    fn grant(self: &Arc<Self>) -> Turn {
        Turn { turns: Arc::clone(self), has_ended: AtomicBool::new(false) }
    }

    /// Passes on a turn that has ended.
    fn pass_on(self: &Arc<Self>, state: &mut State) {
        while let Some(next) = state.pop() {
            let Err(unused) = next.send(self.grant()) else { return };
            // The work was dropped while it waited.
            unused.has_ended.store(true, Relaxed);
        }
        state.free += 1;
    }
}

impl Turn {
    /// Ends the turn before it is dropped.
    pub(crate) fn end(&self) {
        if !self.has_ended.swap(true, Relaxed) {
            self.turns.pass_on(&mut self.turns.state.lock());
        }
    }

    /// Reports whether other work waits for a turn.
    pub(crate) fn is_wanted(&self) -> bool {
        let state = self.turns.state.lock();
        !state.exempt.is_empty() || !state.levels.is_empty()
    }

    /// Reports whether the turn was ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Relaxed)
    }
}

impl State {
    fn push(&mut self, class: Class, waiting: Waiting) {
        let (level, flow) = match class {
            Class::Exempt => return self.exempt.push_back(waiting),
            Class::Flow { level, flow } => (level, flow),
            Class::Other => (0, 0),
        };
        of_hash(of_hash(&mut self.levels, level), flow).push_back(waiting);
    }

    /// Removes the work that is next. Skips work that was dropped while it waited.
    fn pop(&mut self) -> Option<Waiting> {
        if let Some(next) = pop_alive(&mut self.exempt) {
            return Some(next);
        }
        loop {
            let mut level = self.levels.pop_front()?;
            let mut next = None;
            while next.is_none()
                && let Some(mut flow) = level.waiting.pop_front()
            {
                next = pop_alive(&mut flow.waiting);
                if !flow.waiting.is_empty() {
                    level.waiting.push_back(flow);
                }
            }
            if !level.waiting.is_empty() {
                self.levels.push_back(level);
            }
            if next.is_some() {
                return next;
            }
        }
    }
}

/// Removes the first work that still waits.
fn pop_alive(waiting: &mut VecDeque<Waiting>) -> Option<Waiting> {
    loop {
        let next = waiting.pop_front()?;
        if !next.is_closed() {
            return Some(next);
        }
    }
}

/// Returns the waiting work with this hash.
fn of_hash<T>(queues: &mut VecDeque<Queue<T>>, hash: u64) -> &mut VecDeque<T> {
    let found = queues.iter().position(|queue| queue.hash == hash);
    let at = found.unwrap_or_else(|| {
        queues.push_back(Queue { hash, waiting: VecDeque::new() });
        queues.len() - 1
    });
    &mut queues[at].waiting
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::task::JoinHandle;

    use super::*;

    /// Records the order in which work of these classes gets its turns.
    async fn order(turns: &Arc<Turns>, classes: &[Class]) -> Vec<usize> {
        let all = Arc::clone(turns).take(Class::Other).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting: Vec<JoinHandle<()>> = Vec::new();
        for (index, class) in classes.iter().enumerate() {
            let (turns, class, order) = (Arc::clone(turns), *class, Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let _turn = turns.take(class).await;
                order.lock().push(index);
                tokio::task::yield_now().await;
            }));
            tokio::task::yield_now().await;
        }
        drop(all);
        for task in waiting {
            task.await.unwrap();
        }
        order.lock().clone()
    }

    fn flow(level: u64, flow: u64) -> Class {
        Class::Flow { level, flow }
    }

    #[tokio::test]
    async fn exempt_work_goes_first_and_flows_take_turns() {
        let turns = Turns::new(1);
        let classes = [flow(1, 1), flow(1, 1), flow(1, 1), flow(1, 2), flow(2, 1), flow(2, 1), Class::Exempt];
        assert_eq!(order(&turns, &classes).await, [6, 0, 4, 3, 5, 1, 2]);
    }

    #[tokio::test]
    async fn dropped_work_is_no_turn_of_its_flow() {
        let turns = Turns::new(1);
        let first = Arc::clone(&turns).take(Class::Other).await;
        let [mut dropped, mut granted, mut last] =
            [flow(1, 1), flow(1, 1), flow(1, 2)].map(|class| Box::pin(Arc::clone(&turns).take(class)));
        for waiting in [&mut dropped, &mut granted, &mut last] {
            assert!(waiting.now_or_never().is_none());
        }
        drop(dropped);
        drop(first);
        assert!(last.now_or_never().is_none());
        assert!(granted.now_or_never().is_some());
    }

    #[tokio::test]
    async fn turn_of_dropped_work_goes_to_the_next() {
        let turns = Turns::new(1);
        let first = Arc::clone(&turns).take(Class::Other).await;
        let mut dropped = Box::pin(Arc::clone(&turns).take(Class::Exempt));
        let mut granted = Box::pin(Arc::clone(&turns).take(Class::Exempt));
        let mut last = Box::pin(Arc::clone(&turns).take(Class::Other));
        for waiting in [&mut dropped, &mut granted, &mut last] {
            assert!(waiting.now_or_never().is_none());
        }
        drop(dropped);
        drop(first);
        // This work has its turn and is not polled any more.
        drop(granted);
        assert!(last.now_or_never().is_some());
        assert_eq!(turns.state.lock().free, 1);
    }

    #[tokio::test]
    async fn ended_turn_is_passed_on_once() {
        let turns = Turns::new(1);
        let kept = Arc::clone(&turns).take(Class::Other).await;
        let waiting = Arc::clone(&turns).take(Class::Other);
        let mut waiting = std::pin::pin!(waiting);
        assert!(waiting.as_mut().now_or_never().is_none());
        kept.end();
        let next = waiting.now_or_never().unwrap();
        assert!(kept.has_ended() && !next.has_ended());
        drop(kept);
        assert_eq!(turns.state.lock().free, 0);
        drop(next);
        assert_eq!(turns.state.lock().free, 1);
    }
}
