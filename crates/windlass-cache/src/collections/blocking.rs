//! A shared queue that waits for items and can be closed.

use std::fmt;

use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::Notify;

use super::{Fifo, Heap, Keyed, ObjectStore};
use crate::event_queue::{Delta, EventQueue, InOrder, OneByOne};

/// A queue that neither locks nor waits. [`Blocking`] adds both.
pub trait Queue {
    /// The type of the items.
    type Item;

    /// Removes and returns the next item, if there is one.
    fn pop_next(&mut self) -> Option<Self::Item>;
}

/// A queue shared by several tasks: popping waits for items, and the queue can be closed.
///
/// ```
/// use windlass_cache::collections::{Blocking, Closed, Fifo, ObjectStore};
/// # use windlass_api::k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
/// # fn pod(name: &str) -> Pod {
/// #     Pod { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..Pod::default() }
/// # }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
///
/// let queue = Blocking::new(Fifo::new());
/// let (popped, ()) = futures::join!(queue.pop(), async { queue.insert(pod("a")) });
/// assert_eq!(popped?.metadata.name.as_deref(), Some("a"));
///
/// queue.change(|fifo| fifo.insert(pod("b")))?;
/// queue.close();
/// assert_eq!(queue.change(|fifo| fifo.insert(pod("c"))), Err(Closed));
/// assert_eq!(queue.pop().await?.metadata.name.as_deref(), Some("b"), "queued items can still be popped");
/// assert_eq!(queue.pop().await, Err(Closed));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct Blocking<Q> {
    state: Mutex<State<Q>>,
    /// Wakes one waiting task. If there are more items, that task wakes the next one.
    filled: Notify,
}

struct State<Q> {
    queue: Q,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    Closed,
}

/// The queue is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the queue is closed")]
pub struct Closed;

impl<Q> Blocking<Q> {
    /// Wraps a queue.
    pub fn new(queue: Q) -> Self {
        Self { state: Mutex::new(State { queue, phase: Phase::Open }), filled: Notify::new() }
    }

    /// Changes the queue atomically. Returns [`Closed`] without calling `change` if the queue is closed. `change` must
    /// be short, because it blocks all other users.
    pub fn change<T>(&self, change: impl FnOnce(&mut Q) -> T) -> Result<T, Closed> {
        let mut state = self.state.lock();
        if state.phase == Phase::Closed {
            return Err(Closed);
        }
        let result = change(&mut state.queue);
        drop(state);
        self.filled.notify_one();
        Ok(result)
    }

    /// Reads the queue, even if it is closed.
    pub fn read<T>(&self, read: impl FnOnce(&Q) -> T) -> T {
        read(&self.state.lock().queue)
    }

    /// Closes the queue: no more items can be added. Queued items can still be popped; after that, popping returns
    /// [`Closed`].
    pub fn close(&self) {
        self.state.lock().phase = Phase::Closed;
        self.filled.notify_one();
    }

    /// Reports whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.state.lock().phase == Phase::Closed
    }
}

impl<Q: Queue> Blocking<Q> {
    /// Waits for the next item. Dropping the future removes no item.
    pub async fn pop(&self) -> Result<Q::Item, Closed> {
        loop {
            let answer = {
                let mut state = self.state.lock();
                match state.queue.pop_next() {
                    Some(item) => Some(Ok(item)),
                    None => (state.phase == Phase::Closed).then_some(Err(Closed)),
                }
            };
            if let Some(answer) = answer {
                self.filled.notify_one();
                return answer;
            }
            self.filled.notified().await;
        }
    }
}

impl<Q: fmt::Debug> fmt::Debug for Blocking<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Blocking").field("queue", &state.queue).field("phase", &state.phase).finish_non_exhaustive()
    }
}

/// A shared [`Fifo`] is a store whose objects can be popped. After [`Blocking::close`], it ignores changes.
impl<T: Keyed + Clone> ObjectStore<T> for Blocking<Fifo<T>> {
    fn insert(&self, object: T) {
        // The trait returns no error; callers that need one use `change`.
        let _ = self.change(|fifo| fifo.insert(object));
    }

    fn remove(&self, key: &T::Key) {
        let _ = self.change(|fifo| fifo.remove(key));
    }

    fn replace(&self, objects: Vec<T>) {
        let _ = self.change(|fifo| fifo.replace(objects));
    }

    fn get(&self, key: &T::Key) -> Option<T> {
        self.read(|fifo| fifo.get(key).cloned())
    }

    fn list(&self) -> Vec<T> {
        self.read(|fifo| fifo.iter().cloned().collect())
    }
}

/// A shared [`Heap`] is a store that lists its objects in the order in which they will be popped. After
/// [`Blocking::close`], it ignores changes.
///
/// ```
/// use windlass_cache::collections::{Blocking, Heap, ObjectStore};
/// # use windlass_cache::collections::Keyed;
/// # #[derive(Clone, Debug, PartialEq)]
/// # struct Task { name: &'static str, due: u32 }
/// # impl Keyed for Task {
/// #     type Key = &'static str;
/// #     fn key(&self) -> &'static str { self.name }
/// # }
///
/// let tasks = Blocking::new(Heap::by(|task: &Task| task.due));
/// tasks.replace(vec![Task { name: "write", due: 30 }, Task { name: "read", due: 10 }]);
/// tasks.insert(Task { name: "write", due: 5 });
/// assert_eq!(tasks.keys(), ["write", "read"]);
/// assert_eq!(tasks.get(&"read").map(|task| task.due), Some(10));
/// ```
impl<T: Keyed + Clone, P: Ord + Clone> ObjectStore<T> for Blocking<Heap<T, P>> {
    fn insert(&self, object: T) {
        // The trait returns no error; callers that need one use `change`.
        let _ = self.change(|heap| heap.insert(object));
    }

    fn remove(&self, key: &T::Key) {
        let _ = self.change(|heap| heap.remove(key));
    }

    fn replace(&self, objects: Vec<T>) {
        let _ = self.change(|heap| heap.replace(objects));
    }

    fn get(&self, key: &T::Key) -> Option<T> {
        self.read(|heap| heap.get(key).cloned())
    }

    fn list(&self) -> Vec<T> {
        self.read(|heap| heap.iter().cloned().collect())
    }
}

impl<T: Keyed> Queue for Fifo<T> {
    type Item = T;

    fn pop_next(&mut self) -> Option<T> {
        self.pop()
    }
}

impl<T: Keyed, P: Ord + Clone> Queue for Heap<T, P> {
    type Item = T;

    fn pop_next(&mut self) -> Option<T> {
        self.pop()
    }
}

impl<K> Queue for crate::event_queue::DeltaFifo<K> {
    type Item = (windlass_api::ObjectKey, Vec<Delta<K>>);

    fn pop_next(&mut self) -> Option<Self::Item> {
        self.pop_deltas()
    }
}

impl<K: Send + Sync + 'static> Queue for InOrder<K> {
    type Item = Delta<K>;

    fn pop_next(&mut self) -> Option<Delta<K>> {
        EventQueue::pop(self)
    }
}

impl<K: Send + Sync + 'static> Queue for OneByOne<K> {
    type Item = Delta<K>;

    fn pop_next(&mut self) -> Option<Delta<K>> {
        EventQueue::pop(self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{collections::tests::Item, testing::soon};

    #[tokio::test(start_paused = true)]
    async fn waiters_get_one_item_each_and_close_wakes_the_rest() {
        let queue = Arc::new(Blocking::new(Fifo::new()));
        let waiting: Vec<_> = (0..5)
            .map(|_| {
                let queue = Arc::clone(&queue);
                tokio::spawn(async move { queue.pop().await })
            })
            .collect();
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        queue
            .change(|fifo| [Item("a", 1), Item("b", 2), Item("c", 3)].into_iter().for_each(|item| fifo.insert(item)))
            .unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        queue.close();
        let mut popped = Vec::new();
        for task in waiting {
            popped.push(soon(task).await.unwrap());
        }
        popped.sort_by_key(Result::is_err);
        assert_eq!(popped, [Ok(Item("a", 1)), Ok(Item("b", 2)), Ok(Item("c", 3)), Err(Closed), Err(Closed)]);
        assert!(queue.is_closed());
    }

    #[tokio::test(start_paused = true)]
    async fn shared_heap_is_a_store_and_a_queue() {
        let heap = Blocking::new(Heap::by(|item: &Item| item.1));
        let store: &dyn ObjectStore<Item> = &heap;
        store.replace(vec![Item("a", 3), Item("b", 2), Item("c", 1)]);
        store.insert(Item("a", 0));
        store.remove(&"b");
        assert_eq!((store.get(&"a"), store.get(&"b")), (Some(Item("a", 0)), None));
        assert_eq!((store.keys(), store.list()), (vec!["a", "c"], vec![Item("a", 0), Item("c", 1)]));
        assert_eq!(soon(heap.pop()).await, Ok(Item("a", 0)));
        heap.close();
        ObjectStore::insert(&heap, Item("d", 1));
        assert_eq!(heap.keys(), ["c"], "a closed heap ignores changes");
    }

    #[tokio::test(start_paused = true)]
    async fn closed_heap_rejects_changes_and_pop_returns_closed() {
        let heap = Blocking::new(Heap::by(|item: &Item| item.1));
        heap.close();
        assert_eq!(heap.change(|heap| heap.insert(Item("a", 1))), Err(Closed));
        assert_eq!(soon(heap.pop()).await.unwrap_err().to_string(), "the queue is closed");
    }
}
