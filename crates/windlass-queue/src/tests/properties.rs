//! Tests of the properties named in the crate documentation.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{
    task::{JoinSet, yield_now},
    time::{Instant, sleep, timeout},
};

use super::{MS, Woken, nothing_ready, take};
use crate::WorkQueue;

// === Fair ===

#[tokio::test]
async fn fair_items_come_out_in_the_order_in_which_they_became_ready() {
    let queue = WorkQueue::new();
    for item in ["a", "b", "c", "a"] {
        queue.add(item);
    }
    assert_eq!(take(&queue).await, Some("a"));
    queue.add("a"); // ready again only when done: behind the others
    assert_eq!(take(&queue).await, Some("b"));
    queue.done(&"a");
    assert_eq!(take(&queue).await, Some("c"));
    assert_eq!(take(&queue).await, Some("a"));
    assert!(queue.is_empty());
}

// === Stingy ===

#[tokio::test]
async fn stingy_many_adds_before_processing_are_one() {
    let queue = WorkQueue::new();
    for _ in 0..5 {
        queue.add("a");
    }
    assert_eq!(queue.len(), 1);
    assert_eq!(take(&queue).await, Some("a"));
    queue.done(&"a");
    assert!(nothing_ready(&queue).await);
}

#[tokio::test]
async fn stingy_adds_while_processing_are_one_more_run_after_done() {
    let queue = WorkQueue::new();
    queue.add("a");
    take(&queue).await;
    for _ in 0..5 {
        queue.add("a");
    }
    assert_eq!(queue.len(), 0, "in processing is not queued");
    assert!(nothing_ready(&queue).await, "no second worker gets it");
    queue.done(&"a");
    assert_eq!(queue.len(), 1);
    assert_eq!(take(&queue).await, Some("a"));
    queue.done(&"a");
    assert!(nothing_ready(&queue).await);
}

#[tokio::test]
async fn done_of_an_unprocessed_key_changes_nothing() {
    let queue = WorkQueue::new();
    queue.done(&"a");
    queue.add("a");
    queue.done(&"a");
    assert_eq!(take(&queue).await, Some("a"));
    queue.done(&"a");
    queue.done(&"a");
    queue.add("a");
    assert_eq!(take(&queue).await, Some("a"));
}

// === Many producers, many consumers ===

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_producers_and_consumers_lose_no_item() {
    const KEYS: usize = 50;
    const ROUNDS: usize = 400;
    let queue = WorkQueue::<usize>::new();
    let in_hand: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    // The number of additions by producers and the number seen by workers, per key.
    let asked: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    let seen: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());

    let mut workers = JoinSet::new();
    for _ in 0..8 {
        let (queue, in_hand, asked, seen) = (queue.clone(), in_hand.clone(), asked.clone(), seen.clone());
        workers.spawn(async move {
            while let Some(key) = queue.get().await {
                assert_eq!(in_hand[key].fetch_add(1, SeqCst), 0, "two workers have {key}");
                seen[key].store(asked[key].load(SeqCst), SeqCst);
                yield_now().await;
                in_hand[key].fetch_sub(1, SeqCst);
                queue.done(&key);
            }
        });
    }
    let mut producers = JoinSet::new();
    for producer in 0..8 {
        let (queue, asked) = (queue.clone(), asked.clone());
        producers.spawn(async move {
            for round in 0..ROUNDS {
                let key = (producer * 7 + round) % KEYS;
                asked[key].fetch_add(1, SeqCst);
                if round % 10 == 0 {
                    queue.add_after(key, MS);
                    sleep(MS * 2).await;
                } else {
                    queue.add(key);
                }
            }
        });
    }
    while let Some(result) = producers.join_next().await {
        result.unwrap();
    }
    // The shutdown would drop delayed keys.
    let deadline = Instant::now() + Duration::from_secs(20);
    while (0..KEYS).any(|key| seen[key].load(SeqCst) != asked[key].load(SeqCst)) {
        assert!(Instant::now() < deadline, "a worker missed the last change of a key");
        yield_now().await;
    }
    timeout(Duration::from_secs(20), queue.shut_down_with_drain()).await.expect("workers drain the queue");
    while let Some(result) = workers.join_next().await {
        result.unwrap();
    }
}

#[test]
fn one_item_wakes_one_waiting_worker() {
    let queue = WorkQueue::new();
    let wakers: Vec<Arc<Woken>> = (0..3).map(|_| Arc::default()).collect();
    let std_wakers: Vec<Waker> = wakers.iter().cloned().map(Waker::from).collect();
    let mut first = pin!(queue.get());
    let mut second = pin!(queue.get());
    let mut third = pin!(queue.get());
    for (get, waker) in [&mut first, &mut second, &mut third].into_iter().zip(&std_wakers) {
        assert!(get.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    }
    let counts = || wakers.iter().map(|woken| woken.count()).collect::<Vec<_>>();
    queue.add("a");
    queue.add("a");
    assert_eq!(counts(), [1, 0, 0]);
    queue.add("b");
    assert_eq!(counts(), [1, 1, 0]);
    assert_eq!(second.as_mut().poll(&mut Context::from_waker(&std_wakers[1])), Poll::Ready(Some("a")));
    assert_eq!(first.as_mut().poll(&mut Context::from_waker(&std_wakers[0])), Poll::Ready(Some("b")));
    queue.add("b");
    queue.done(&"a");
    assert_eq!(counts(), [1, 1, 0], "nothing became ready");
    queue.done(&"b");
    assert_eq!(counts(), [1, 1, 1]);
}

#[test]
fn dropped_woken_worker_passes_the_item_on() {
    let queue = WorkQueue::new();
    let (lost, heir) = (Arc::<Woken>::default(), Arc::<Woken>::default());
    let (lost_waker, heir_waker) = (Waker::from(lost.clone()), Waker::from(heir.clone()));
    let mut dropped = Box::pin(queue.get());
    let mut waiting = pin!(queue.get());
    assert!(dropped.as_mut().poll(&mut Context::from_waker(&lost_waker)).is_pending());
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&heir_waker)).is_pending());
    queue.add("a");
    assert_eq!((lost.count(), heir.count()), (1, 0));
    drop(dropped);
    assert_eq!((lost.count(), heir.count()), (1, 1));
    assert_eq!(waiting.as_mut().poll(&mut Context::from_waker(&heir_waker)), Poll::Ready(Some("a")));
}

#[tokio::test]
async fn a_queue_that_is_never_empty_lets_other_tasks_run() {
    let queue = WorkQueue::new();
    let other = Arc::new(AtomicUsize::new(0));
    let seen = other.clone();
    let task = tokio::spawn(async move { seen.fetch_add(1, SeqCst) });
    for _ in 0..10_000 {
        queue.add("a");
        take(&queue).await;
        queue.done(&"a");
    }
    assert_eq!(other.load(SeqCst), 1);
    task.await.unwrap();
}

// === Shutdown notifications ===

#[tokio::test]
async fn shutdown_hands_out_queued_items_and_ends_workers() {
    let queue = WorkQueue::new();
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { [queue.get().await, queue.get().await] }
    });
    yield_now().await;
    queue.add("a");
    queue.shut_down();
    assert!(queue.is_shutting_down());
    queue.add("b");
    queue.add_after("c", MS);
    assert_eq!(waiting.await.unwrap(), [Some("a"), None]);
    assert_eq!(take(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_all_that_was_accepted() {
    let queue = WorkQueue::new();
    queue.add("held");
    queue.add("queued");
    take(&queue).await;
    queue.add("held"); // dirty while processed: accepted
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shut_down_with_drain().await }
    });
    yield_now().await;
    assert!(queue.is_shutting_down());
    queue.add("late");
    assert_eq!(take(&queue).await, Some("queued"));
    queue.done(&"queued");
    sleep(MS).await;
    assert!(!drain.is_finished(), "one is in processing");
    queue.done(&"held");
    sleep(MS).await;
    assert!(!drain.is_finished(), "it was dirty again");
    assert_eq!(take(&queue).await, Some("held"));
    queue.done(&"held");
    drain.await.unwrap();
    assert_eq!(take(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_a_drain() {
    let queue = WorkQueue::new();
    queue.add("a");
    take(&queue).await;
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shut_down_with_drain().await }
    });
    sleep(MS).await;
    assert!(!drain.is_finished());
    queue.shut_down();
    drain.await.unwrap();
}

#[tokio::test]
async fn a_drain_of_an_idle_queue_returns_at_once() {
    WorkQueue::<&str>::new().shut_down_with_drain().await;
}

#[tokio::test]
async fn items_are_dropped_when_they_are_done() {
    let item = Arc::new("a");
    let queue = WorkQueue::new();
    queue.add(item.clone());
    queue.add(item.clone());
    let got = queue.get().await.unwrap();
    queue.done(&got);
    drop(got);
    assert_eq!(Arc::strong_count(&item), 1);
}

#[tokio::test(start_paused = true)]
async fn length_counts_ready_and_shutdown_shows_at_once() {
    let queue = WorkQueue::new();
    assert!(queue.is_empty());
    for item in ["a", "b", "c"] {
        queue.add(item);
    }
    queue.add_after("later", MS);
    take(&queue).await;
    queue.add("a");
    assert_eq!(queue.len(), 2, "without keys in processing and delayed keys");
    assert!(!queue.is_shutting_down());
    queue.shut_down();
    assert!(queue.is_shutting_down());
    assert_eq!(queue.len(), 2);
    queue.done(&"a");
    assert_eq!(queue.len(), 3, "a key accepted before");
}
