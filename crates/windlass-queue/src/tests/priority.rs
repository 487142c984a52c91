//! Tests of queues by priority.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, advance, sleep};

use super::{MS, Recorded, nothing_ready, take};
use crate::{AddOptions, DEFAULT_PRIORITY, Exponential, LOW_PRIORITY, WorkQueue};

type Queue = WorkQueue<&'static str>;

fn by_priority() -> Queue {
    WorkQueue::builder().by_priority().rate_limiter(Exponential::new(MS * 10, Duration::from_secs(1))).build()
}

fn at(priority: i32) -> AddOptions {
    AddOptions::new().priority(priority)
}

/// Takes all ready items without calling `done`.
async fn all(queue: &Queue) -> Vec<(&'static str, i32)> {
    let mut items = Vec::new();
    while !queue.is_empty() {
        items.extend(queue.get().with_priority().await);
    }
    items
}

#[tokio::test]
async fn higher_priority_first_then_in_order() {
    let queue = by_priority();
    queue.add_with("listed", at(LOW_PRIORITY));
    queue.add("first");
    queue.add_with("urgent", at(7));
    queue.add("second");
    queue.add_with("listed too", at(LOW_PRIORITY));
    assert_eq!(queue.len(), 5);
    let expected = [("urgent", 7), ("first", 0), ("second", 0), ("listed", LOW_PRIORITY), ("listed too", LOW_PRIORITY)];
    assert_eq!(all(&queue).await, expected);
}

#[tokio::test]
async fn raised_key_is_queued_behind_its_new_peers() {
    let queue = by_priority();
    for (item, priority) in [("raised", 0), ("a", 0), ("peer", 5), ("raised", 5), ("a", -1), ("late", 5), ("peer", 5)] {
        queue.add_with(item, at(priority));
    }
    assert_eq!(all(&queue).await, [("peer", 5), ("raised", 5), ("late", 5), ("a", 0)]);
}

#[tokio::test(start_paused = true)]
async fn ready_key_is_not_delayed_as_well() {
    let queue = by_priority();
    queue.add("a");
    queue.add_after("a", MS * 10);
    assert_eq!(queue.len(), 1);
    assert_eq!(take(&queue).await, Some("a"));
    queue.done(&"a");
    sleep(MS * 50).await;
    assert!(nothing_ready(&queue).await, "the later moment was dropped");
}

#[tokio::test(start_paused = true)]
async fn immediate_add_cancels_delay_and_keeps_priority() {
    let queue = by_priority();
    for item in ["a", "b", "c", "d"] {
        queue.add_with(item, at(3).after(MS * 10));
    }
    assert_eq!(queue.len(), 0, "delayed keys do not count");
    queue.add_with("b", at(1));
    queue.add_with("c", at(9));
    assert_eq!(all(&queue).await, [("c", 9), ("b", 3)]);
    queue.done(&"b");
    queue.done(&"c");
    sleep(MS * 50).await;
    assert_eq!(
        all(&queue).await,
        [("a", 3), ("d", 3)],
        "the other keys become ready at their time, these do not again"
    );
}

#[tokio::test(start_paused = true)]
async fn cancelled_waiter_keeps_the_order_of_the_others() {
    // The heap contains these delays in this order. The last one, 4, moves up when it replaces 62, and down when it
    // replaces 2.
    const DELAYS: [u32; 15] = [1, 50, 2, 60, 70, 30, 3, 61, 62, 71, 72, 31, 32, 33, 4];
    for ended in DELAYS {
        let queue = WorkQueue::<u32>::builder().by_priority().build();
        for delay in DELAYS {
            queue.add_after(delay, MS * delay * 10);
        }
        queue.add(ended);
        let mut order = Vec::new();
        for _ in DELAYS {
            let item = queue.get().await.unwrap();
            queue.done(&item);
            order.push(item);
        }
        let mut expected = DELAYS;
        expected.sort_by_key(|&delay| (delay != ended, delay));
        assert_eq!(order, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn earliest_time_and_highest_priority_win() {
    let queue = by_priority();
    queue.add_with("a", at(1).after(MS * 30));
    queue.add_with("a", at(8).after(MS * 60));
    queue.add_with("a", at(2).after(MS * 10));
    let start = Instant::now();
    assert_eq!(queue.get().with_priority().await, Some(("a", 8)));
    assert!(start.elapsed() >= MS * 10 && start.elapsed() < MS * 15, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn delayed_key_is_queued_behind_its_peers() {
    let queue = by_priority();
    queue.add_after("waited", MS * 10);
    queue.add_with("low", at(-1));
    queue.add("ready");
    sleep(MS * 20).await;
    assert_eq!(all(&queue).await, [("ready", 0), ("waited", 0), ("low", -1)]);
}

#[tokio::test(start_paused = true)]
async fn earlier_of_delay_and_rate_limit_applies() {
    let queue = by_priority();
    // The limiter returns 10, 20, 40 ms.
    for (options, expected) in [
        (AddOptions::new().after(MS * 100).rate_limited(), 10),
        (AddOptions::new().after(MS * 5).rate_limited(), 5),
        (AddOptions::new().rate_limited(), 40),
    ] {
        let start = Instant::now();
        queue.add_with("a", options);
        assert_eq!(take(&queue).await, Some("a"));
        let elapsed = start.elapsed();
        assert!(elapsed >= MS * expected && elapsed < MS * (expected + 3), "{options:?}: {elapsed:?}");
        queue.done(&"a");
    }
    assert_eq!(queue.num_requeues(&"a"), 3, "each is an attempt");
}

#[tokio::test(start_paused = true)]
async fn reprocessed_key_gets_its_latest_priority_after_done() {
    let queue = by_priority();
    queue.add_with("a", at(50));
    assert_eq!(queue.get().with_priority().await, Some(("a", 50)));
    queue.add_with("a", at(LOW_PRIORITY));
    queue.add_with("a", at(2));
    queue.add_after("a", MS);
    assert!(nothing_ready(&queue).await);
    queue.add_with("b", at(1));
    queue.done(&"a");
    assert_eq!(all(&queue).await, [("a", 2), ("b", 1)], "the priority of last time is forgotten");
    queue.done(&"a");
    queue.add("a");
    assert_eq!(queue.get().with_priority().await, Some(("a", DEFAULT_PRIORITY)));
    queue.done(&"a");
    sleep(MS * 50).await;
    assert!(nothing_ready(&queue).await, "a dirty key is not delayed as well");
}

#[tokio::test(start_paused = true)]
async fn priority_shutdown_hands_out_ready_drops_delayed() {
    let queue = by_priority();
    queue.add("ready");
    queue.add_after("waiting", MS);
    queue.shut_down();
    queue.add("late");
    assert_eq!(take(&queue).await, Some("ready"));
    assert_eq!(take(&queue).await, None);
    queue.done(&"ready");
    sleep(MS * 10).await;
    assert_eq!(take(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn priority_drain_waits_for_accepted_keys() {
    let queue = by_priority();
    queue.add("a");
    take(&queue).await;
    queue.add_with("a", at(3));
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shut_down_with_drain().await }
    });
    sleep(MS).await;
    queue.done(&"a");
    assert_eq!(queue.get().with_priority().await, Some(("a", 3)));
    sleep(MS).await;
    assert!(!drain.is_finished());
    queue.done(&"a");
    drain.await.unwrap();
}

#[tokio::test]
async fn a_worker_that_waits_for_a_queue_by_priority_ends_with_it() {
    let queue = by_priority();
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().with_priority().await }
    });
    tokio::task::yield_now().await;
    queue.shut_down();
    assert_eq!(waiting.await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn depth_is_reported_by_priority_and_delays_as_retries() {
    let recorded = Arc::new(Recorded::default());
    let queue = WorkQueue::builder().by_priority().metrics(recorded.clone()).build();
    queue.add_with("a", at(1));
    assert_eq!(recorded.happened(), ["added", "1: +1"]);
    queue.add_with("a", at(4));
    assert_eq!(recorded.happened(), ["4: +1", "1: -1"], "raised, not added");
    queue.add_with("a", at(4).after(MS));
    queue.add_with("a", at(3));
    assert_eq!(recorded.happened(), ["retried"]);
    advance(MS * 2).await;
    take(&queue).await;
    assert_eq!(recorded.happened(), ["taken after 2ms", "4: -1"]);
    queue.add_with("b", at(2).after(MS));
    assert_eq!(recorded.happened(), ["retried"], "delayed keys do not count in the depth");
    sleep(MS * 5).await;
    assert_eq!(recorded.happened(), ["added", "2: +1"]);
}

#[tokio::test]
async fn in_other_queues_priorities_do_not_count() {
    let queue = WorkQueue::new();
    queue.add_with("a", at(LOW_PRIORITY));
    queue.add_with("b", at(100));
    assert_eq!(all(&queue).await, [("a", DEFAULT_PRIORITY), ("b", DEFAULT_PRIORITY)]);
}
