//! The named properties of the crate documentation, each with its tests, and the contracts of the three layers.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    task::{JoinSet, yield_now},
    time::{Instant, advance, sleep, timeout},
};

use crate::{Exponential, QueueMetrics, UnfinishedWork, WorkQueue};

const MS: Duration = Duration::from_millis(1);

fn assert_send<T: Send>(value: T) -> T {
    value
}

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Woken {
    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

async fn take(queue: &WorkQueue<&'static str>) -> Option<&'static str> {
    assert_send(queue.get()).await
}

/// Whether nothing is handed out now; other tasks run first.
async fn nothing_ready(queue: &WorkQueue<&'static str>) -> bool {
    timeout(Duration::ZERO, queue.get()).await.is_err()
}

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
async fn done_of_what_no_worker_has_changes_nothing() {
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
async fn many_producers_and_consumers_lose_nothing_and_never_share_an_item() {
    const KEYS: usize = 50;
    const ROUNDS: usize = 400;
    let queue = WorkQueue::<usize>::new();
    let in_hand: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    // What a producer has asked for and what a worker has seen, per key.
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
    // Delayed ones that are still waiting would be dropped by the shutdown.
    let deadline = Instant::now() + Duration::from_secs(20);
    while (0..KEYS).any(|key| seen[key].load(SeqCst) != asked[key].load(SeqCst)) {
        assert!(Instant::now() < deadline, "the last change of some key was not looked at");
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
fn a_woken_worker_that_does_not_come_passes_the_item_on() {
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
async fn shutdown_hands_out_what_is_queued_takes_nothing_new_and_ends_every_worker() {
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

// === Early: the delaying layer ===

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
async fn no_delay_means_now() {
    let queue = WorkQueue::new();
    queue.add_after("a", Duration::ZERO);
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn early_the_earliest_of_several_moments_wins_and_the_others_are_forgotten() {
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
    // 37 and 101 are coprime: every delay once, in a scattered order.
    for step in 0..101 {
        let delay = step * 37 % 101 + 1;
        queue.add_after(delay, MS * u32::try_from(delay).unwrap() * 10);
    }
    // Some move forward, to odd places in the heap.
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
async fn a_waiting_item_can_be_added_processed_and_still_comes_at_its_moment() {
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
async fn a_moment_that_comes_during_processing_is_one_more_run() {
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
async fn delays_without_end_are_accepted() {
    let queue = WorkQueue::new();
    queue.add_after("never", Duration::MAX);
    queue.add_after("soon", MS);
    assert_eq!(take(&queue).await, Some("soon"));
}

#[tokio::test(start_paused = true)]
async fn thousands_of_delays_need_one_task_and_it_ends_with_the_last_handle() {
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
async fn a_shutdown_drops_what_waits_and_ends_the_timer() {
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

// === The rate-limiting layer ===

#[tokio::test(start_paused = true)]
async fn rate_limited_items_come_later_each_time_until_they_are_forgotten() {
    let queue = WorkQueue::builder().rate_limiter(Exponential::new(MS * 10, Duration::from_secs(1))).build();
    for (failures, expected) in [(1, 10), (2, 20), (3, 40)] {
        let start = Instant::now();
        queue.add_rate_limited("a");
        assert_eq!(queue.num_requeues(&"a"), failures);
        assert_eq!(take(&queue).await, Some("a"));
        let elapsed = start.elapsed();
        assert!(elapsed >= MS * expected && elapsed < MS * (expected + 3), "{elapsed:?}");
        queue.done(&"a");
    }
    queue.forget(&"a");
    assert_eq!(queue.num_requeues(&"a"), 0);
    let start = Instant::now();
    queue.add_rate_limited("a");
    take(&queue).await;
    assert!(start.elapsed() < MS * 13);
}

// === Metrics ===

#[derive(Debug, Default)]
struct Recorded(Mutex<Vec<String>>);

impl QueueMetrics for Recorded {
    fn added(&self) {
        self.0.lock().push("added".into());
    }

    fn taken(&self, waited: Duration) {
        self.0.lock().push(format!("taken after {waited:?}"));
    }

    fn finished(&self, worked: Duration) {
        self.0.lock().push(format!("finished after {worked:?}"));
    }

    fn retried(&self) {
        self.0.lock().push("retried".into());
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_have_the_meanings_of_client_go() {
    let recorded = Arc::new(Recorded::default());
    let queue = WorkQueue::builder().name("q").metrics(recorded.clone()).build();
    assert_eq!(queue.name(), "q");
    let happened = || std::mem::take(&mut *recorded.0.lock());
    queue.add("a");
    queue.add("a");
    assert_eq!(happened(), ["added"], "deduplicated additions do not count");
    advance(MS * 3).await;
    take(&queue).await;
    assert_eq!(happened(), ["taken after 3ms"]);
    queue.add("a");
    advance(MS * 5).await;
    let ms5 = MS * 5;
    assert_eq!(queue.unfinished_work(), UnfinishedWork { keys: 1, total: ms5, longest: ms5 });
    queue.done(&"a");
    assert_eq!(happened(), ["added", "finished after 5ms"]);
    take(&queue).await;
    assert_eq!(happened(), ["taken after 5ms"], "it has been dirty since it was added");
    queue.done(&"a");
    happened();
    queue.add_after("b", MS * 10);
    assert_eq!(happened(), ["retried"]);
    sleep(MS * 20).await;
    assert_eq!(happened(), ["added"]);
    assert_eq!(queue.unfinished_work(), UnfinishedWork::default());
}
