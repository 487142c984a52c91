//! Turns at work that occupies a processor: long computations, and the bytes of large responses.
//!
//! A limited number of turns exists at a time; other work waits. Exempt requests come first. Then the waiting priority
//! levels take turns, and within a level its flows, for example its users. So one user with many requests delays others
//! by one turn, and not by all of these requests.
//!
//! Guaranteed: a dropped [`Turn`] is passed on at once. If turns are limited in time, one that is kept longer is passed on,
//! too, even if its owner is never polled. No task runs in the background.
//!
//! Not guaranteed: without priority and fairness, and in a level without queues, all requests are one flow, in the order of
//! their arrival.

use std::{collections::VecDeque, mem, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until},
};

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
    /// Is not limited by priority and fairness, or does not belong to a request.
    #[default]
    Other,
}

/// The turns of one kind of work.
#[derive(Debug)]
pub(crate) struct Turns {
    /// The time after which a turn no longer counts.
    limit: Option<Duration>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// The turns that count, the oldest first.
    granted: VecDeque<Grant>,
    next_id: u64,
    exempt: VecDeque<Waiting>,
    /// The other work that waits. The first one is next. None is empty.
    levels: VecDeque<Queue<Queue<Waiting>>>,
}

#[derive(Debug)]
struct Grant {
    id: u64,
    since: Instant,
}

/// Waiting work with the same hash.
#[derive(Debug)]
struct Queue<T> {
    hash: u64,
    waiting: VecDeque<T>,
}

type Waiting = oneshot::Sender<Turn>;

/// A turn. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    /// `None` after the turn was returned.
    turns: Option<Arc<Turns>>,
    id: u64,
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
    /// Creates a number of turns. Each counts until it is dropped, and if there is a limit, only for this time.
    pub(crate) fn new(number: usize, limit: Option<Duration>) -> Arc<Self> {
        let state = State {
            free: number,
            granted: VecDeque::new(),
            next_id: 0,
            exempt: VecDeque::new(),
            levels: VecDeque::new(),
        };
        Arc::new(Self { limit, state: Mutex::new(state) })
    }

    /// Waits for a turn.
    pub(crate) async fn take(self: Arc<Self>, class: Class) -> Turn {
        let mut waiting = match self.enter(class) {
            Ok(turn) => return turn,
            Err(waiting) => waiting,
        };
        loop {
            let expiry = self.expiry();
            let expired = async {
                match expiry {
                    Some(expiry) => sleep_until(expiry).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                turn = &mut waiting => return turn.expect("the queue keeps the sender until it sends a turn"),
                () = expired => self.pass_expired(),
            }
        }
    }

    fn enter(self: &Arc<Self>, class: Class) -> Result<Turn, oneshot::Receiver<Turn>> {
        let mut state = self.state.lock();
        if state.free > 0 {
            state.free -= 1;
            return Ok(self.grant(&mut state));
        }
        let (sender, receiver) = oneshot::channel();
        state.push(class, sender);
        Err(receiver)
    }

    fn grant(self: &Arc<Self>, state: &mut State) -> Turn {
        let id = state.next_id;
        state.next_id += 1;
        state.granted.push_back(Grant { id, since: Instant::now() });
        Turn { turns: Some(Arc::clone(self)), id }
    }

    /// Returns the time at which the oldest turn no longer counts.
    fn expiry(&self) -> Option<Instant> {
        let limit = self.limit?;
        self.state.lock().granted.front().map(|oldest| oldest.since + limit)
    }

    /// Passes on the turns that no longer count.
    fn pass_expired(self: &Arc<Self>) {
        let Some(limit) = self.limit else { return };
        let mut state = self.state.lock();
        let now = Instant::now();
        while state.granted.front().is_some_and(|oldest| oldest.since + limit <= now) {
            state.granted.pop_front();
            self.pass_on(&mut state);
        }
    }

    /// Passes on a turn that has ended.
    fn pass_on(self: &Arc<Self>, state: &mut State) {
        while let Some(next) = state.pop() {
            let turn = self.grant(state);
            let Err(mut unused) = next.send(turn) else { return };
            // The work was dropped while it waited.
            unused.turns = None;
            state.granted.pop_back();
        }
        state.free += 1;
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

    /// Removes the work that is next.
    fn pop(&mut self) -> Option<Waiting> {
        if let Some(next) = self.exempt.pop_front() {
            return Some(next);
        }
        let mut level = self.levels.pop_front()?;
        let next = level.waiting.pop_front().and_then(|mut flow| {
            let next = flow.waiting.pop_front();
            if !flow.waiting.is_empty() {
                level.waiting.push_back(flow);
            }
            next
        });
        if !level.waiting.is_empty() {
            self.levels.push_back(level);
        }
        next
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
        let Some(turns) = mem::take(&mut self.turns) else { return };
        let mut state = turns.state.lock();
        if let Some(at) = state.granted.iter().position(|grant| grant.id == self.id) {
            state.granted.remove(at);
            turns.pass_on(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::task::JoinHandle;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(20);

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
        let turns = Turns::new(1, None);
        let classes = [flow(1, 1), flow(1, 1), flow(1, 1), flow(1, 2), flow(2, 1), flow(2, 1), Class::Exempt];
        assert_eq!(order(&turns, &classes).await, [6, 0, 4, 3, 5, 1, 2]);
    }

    #[tokio::test]
    async fn turn_of_dropped_work_goes_to_the_next() {
        let turns = Turns::new(1, None);
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

    #[tokio::test(start_paused = true)]
    async fn unused_turn_expires_if_turns_are_limited() {
        let turns = Turns::new(2, Some(LIMIT));
        let [kept, _also_kept] = [0; 2].map(|_| Arc::clone(&turns).take(Class::Other).now_or_never().unwrap());
        let started = Instant::now();
        let third = Arc::clone(&turns).take(Class::Other).await;
        assert_eq!(started.elapsed(), LIMIT);
        drop(kept);
        assert_eq!(turns.state.lock().free, 1, "the second turn has expired, too");
        drop(third);
        assert_eq!(turns.state.lock().free, 2);
    }
}
