//! Tests of the delaying layer and the property "Early".

use std::{sync::Arc, time::Duration};

use tokio::{
    task::yield_now,
    time::{Instant, sleep},
};

use super::{MS, nothing_ready, take};
use crate::WorkQueue;

#[tokio::test(start_paused = true)]
async fn a_delayed_item_becomes_ready_at_its_moment_and_not_before() {
    let queue = WorkQueue::new();
    queue.add_after("a", MS * 50);
    assert_eq!(queue.len(), 0);
    sleep(MS * 49).await;
    assert!(nothing_ready(&queue).await);
    let start = Instant::now();
    assert_eq!(take(&queue).await, Some("a"));
    assert!(start.elapsed() <= MS * 2, "{:?}", start.elapsed());
    queue.done(&"a");
    sleep(Duration::from_hours(1)).await;
    assert!(nothing_ready(&queue).await, "once");
}

#[tokio::test(start_paused = true)]
async fn zero_delay_is_immediate() {
    let queue = WorkQueue::new();
    queue.add_after("a", Duration::ZERO);
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn earliest_delay_of_a_key_wins() {
    for delays in [[30, 10, 20], [10, 20, 30], [20, 30, 10]] {
        let queue = WorkQueue::new();
        let start = Instant::now();
        for delay in delays {
            queue.add_after("a", MS * delay);
        }
        assert_eq!(take(&queue).await, Some("a"));
        let elapsed = start.elapsed();
        assert!(elapsed >= MS * 10 && elapsed < MS * 15, "{elapsed:?}");
        queue.done(&"a");
        sleep(MS * 100).await;
        assert!(nothing_ready(&queue).await);
    }
}

#[tokio::test(start_paused = true)]
async fn delayed_items_become_ready_in_the_order_of_their_moments() {
    let queue = WorkQueue::<u64>::new();
    // 37 and 101 are coprime, so every delay occurs once, in a scattered order.
    for step in 0..101 {
        let delay = step * 37 % 101 + 1;
        queue.add_after(delay, MS * u32::try_from(delay).unwrap() * 10);
    }
    // Move some keys to earlier times, to various places in the heap.
    queue.add_after(90, MS * 15);
    queue.add_after(50, MS * 995);
    let mut order = Vec::new();
    for _ in 0..101 {
        let item = queue.get().await.unwrap();
        queue.done(&item);
        order.push(item);
    }
    let mut expected: Vec<u64> = (1..=101).filter(|&item| item != 90).collect();
    expected.insert(1, 90);
    assert_eq!(order, expected);
}

#[tokio::test(start_paused = true)]
async fn added_item_keeps_its_pending_delay() {
    let queue = WorkQueue::new();
    queue.add_after("a", MS * 10);
    queue.add("a");
    assert_eq!(take(&queue).await, Some("a"));
    queue.done(&"a");
    assert!(nothing_ready(&queue).await);
    sleep(MS * 12).await;
    assert_eq!(take(&queue).await, Some("a"));
}

#[tokio::test(start_paused = true)]
async fn delay_ending_during_processing_adds_one_run() {
    let queue = WorkQueue::new();
    queue.add("a");
    take(&queue).await;
    queue.add_after("a", MS);
    sleep(MS * 5).await;
    assert!(nothing_ready(&queue).await);
    queue.done(&"a");
    assert_eq!(take(&queue).await, Some("a"));
}

#[tokio::test(start_paused = true)]
async fn infinite_delays_are_accepted() {
    let queue = WorkQueue::new();
    queue.add_after("never", Duration::MAX);
    queue.add_after("soon", MS);
    assert_eq!(take(&queue).await, Some("soon"));
}

#[tokio::test(start_paused = true)]
async fn one_timer_task_ends_with_the_last_handle() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let queue = WorkQueue::new();
    assert_eq!(tasks(), before, "no task without delays");
    for item in 0..5000_u64 {
        queue.add_after(item, Duration::from_secs(item + 1));
    }
    yield_now().await;
    assert_eq!(tasks(), before + 1);
    drop(queue);
    sleep(MS).await;
    assert_eq!(tasks(), before);
}

#[tokio::test(start_paused = true)]
async fn shutdown_drops_delayed_items_and_ends_the_timer() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let item = Arc::new("a");
    let queue = WorkQueue::new();
    queue.add_after(item.clone(), Duration::from_secs(1));
    assert_eq!(Arc::strong_count(&item), 2);
    queue.shut_down_with_drain().await;
    assert_eq!(Arc::strong_count(&item), 1);
    assert_eq!(tasks(), before);
    queue.add_after(item, Duration::from_secs(1));
    sleep(MS).await;
    assert_eq!(tasks(), before, "and starts no other");
}

#[test]
fn a_queue_outlives_the_runtime_of_its_timer() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let queue = WorkQueue::new();
    runtime().block_on(async { queue.add_after("a", MS) });
    let got = runtime().block_on(async {
        queue.add_after("b", MS * 2);
        [take(&queue).await, take(&queue).await]
    });
    assert_eq!(got, [Some("a"), Some("b")]);
}
