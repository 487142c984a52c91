//! Delivery before the response: a writer waits until the waiting subscribers have its event.
//!
//! After a response, a client often lists or reads a cache. If the event came later, that cache would be stale more
//! often than with kube-apiserver. There, the watch cache gets the event from etcd while the response is on its way.
//!
//! A writer waits until each subscriber polls for its next event. By then the event has been passed to the connection,
//! or to the in-process consumer. It waits only for subscribers that were waiting when the event came, see
//! [`Mailbox::unfinished_item`](crate::storage::mailbox::Mailbox::unfinished_item). A client that does not read
//! keeps its subscriber from polling. It can delay one write by [`PATIENCE`]; after that it is not waited for
//! during one second.

use std::{future::poll_fn, sync::Arc, time::Duration};

use tokio::time;

use super::{Shared, Subscriber, WatchCache, fan_out::Topic, topics_of};
use crate::storage::Revision;

/// The time that a writer waits for all subscribers together. They need about a tenth of a millisecond, and more on a
/// busy machine.
pub(super) const PATIENCE: Duration = Duration::from_millis(10);

impl<D: Default + Send + Sync + 'static> WatchCache<D> {
    /// Reports whether `key` has subscribers.
    pub(crate) fn is_watched(&self, key: &str) -> bool {
        self.shared.is_watched(key)
    }

    /// Waits until the waiting subscribers to `key` have processed the events up to `revision`, for at most
    /// [`PATIENCE`]. Topics with very many subscribers are not waited for.
    pub(crate) async fn wait_for_delivery(&self, key: &str, revision: Revision) {
        if !self.shared.is_watched(key) {
            return;
        }
        self.shared.dispatch_up_to(revision);
        let mut expected = Vec::new();
        let delivered = async {
            if *self.shared.position.borrow() < revision {
                // Another task is dispatching it, or the storage has not delivered it yet. Cannot fail, because `self`
                // holds the sender.
                let mut position = self.shared.position.subscribe();
                let _ = position.wait_for(|position| *position >= revision).await;
            }
            expected = self.shared.busy_subscribers(key);
            for (subscriber, number) in &expected {
                poll_fn(|cx| subscriber.mailbox.poll_finished(*number, cx)).await;
            }
        };
        if time::timeout(PATIENCE, delivered).await.is_ok() {
            return;
        }
        for (subscriber, number) in expected {
            if !subscriber.mailbox.has_finished(number) {
                tracing::debug!(topic = %subscriber.topic, "a slow watch delays writers");
                subscriber.mailbox.ignore_consumer();
            }
        }
    }
}

impl<D> Shared<D> {
    fn is_watched(&self, key: &str) -> bool {
        let fan_out = self.fan_out.lock();
        !fan_out.topics.is_empty() && topics_of(key).any(|name| fan_out.topics.contains_key(name))
    }

    /// Returns the subscribers that are processing an event of this key, each with the number of the event.
    fn busy_subscribers(&self, key: &str) -> Vec<(Arc<Subscriber<D>>, u64)> {
        let fan_out = self.fan_out.lock();
        let topics = topics_of(key).filter_map(|name| fan_out.topics.get(name));
        topics
            .flat_map(Topic::few)
            .filter_map(|subscriber| Some((Arc::clone(subscriber), subscriber.mailbox.unfinished_item()?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::FutureExt;
    use parking_lot::Mutex;
    use tokio::{task::JoinHandle, time::Instant};

    use super::*;
    use crate::{
        storage::{Change, Expect, MemoryStorage, Storage},
        watch_cache::Subscription,
    };

    type Seen = Arc<Mutex<Vec<Revision>>>;

    const PODS: &str = "/registry/pods/";

    async fn write(storage: &MemoryStorage, key: &str) -> Revision {
        storage.commit(key, Expect::Absent, Change::Put(Bytes::from_static(b"{}"))).await.unwrap().revision
    }

    /// Writes and waits for the subscribers. Returns the time that this took.
    async fn deliver(cache: &WatchCache<()>, storage: &MemoryStorage, name: &str) -> (Revision, Duration) {
        let (key, began) = (format!("{PODS}ns/{name}"), Instant::now());
        let revision = write(storage, &key).await;
        cache.wait_for_delivery(&key, revision).await;
        (revision, began.elapsed())
    }

    /// Starts a task that records each event and then works on it for some time.
    async fn reader(cache: &WatchCache<()>, work: Duration) -> (Seen, JoinHandle<()>) {
        // It waits already before the task runs, so each writer waits for it.
        let mut events = idle_subscription(cache).await;
        let seen = Seen::default();
        let noted = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                noted.lock().push(event.event.revision);
                if !work.is_zero() {
                    time::sleep(work).await;
                }
            }
        });
        (seen, task)
    }

    /// Returns a subscription that waits for its first event and is then not polled.
    async fn idle_subscription(cache: &WatchCache<()>) -> Subscription<()> {
        let mut events = cache.subscribe(PODS, Revision(1)).await.unwrap();
        assert!(events.next().now_or_never().is_none());
        events
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_subscribers_get_the_event_before_writer_continues() {
        let storage = MemoryStorage::new();
        let cache = WatchCache::new(Arc::new(storage.clone()));
        let (seen, _task) = reader(&cache, Duration::ZERO).await;
        for number in 0..50 {
            let (revision, took) = deliver(&cache, &storage, &number.to_string()).await;
            assert_eq!(seen.lock().last(), Some(&revision));
            assert_eq!(took, Duration::ZERO);
        }
        let undelivered = write(&storage, "/registry/pods/ns/last").await;
        assert_ne!(seen.lock().last(), Some(&undelivered), "the commit itself does not wait");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn subscribers_on_other_threads_get_the_event_first() {
        let storage = MemoryStorage::new();
        let cache = WatchCache::new(Arc::new(storage.clone()));
        let (seen, _task) = reader(&cache, Duration::ZERO).await;
        for number in 0..200 {
            let (revision, took) = deliver(&cache, &storage, &number.to_string()).await;
            if took >= PATIENCE {
                // The machine was too busy to run the reader, so the reader is no longer waited for.
                break;
            }
            assert_eq!(seen.lock().last(), Some(&revision));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn subscriber_that_stops_polling_delays_one_write() {
        let storage = MemoryStorage::new();
        let cache = WatchCache::new(Arc::new(storage.clone()));
        let mut idle = idle_subscription(&cache).await;
        let (seen, _task) = reader(&cache, Duration::ZERO).await;
        let (revision, took) = deliver(&cache, &storage, "a").await;
        assert_eq!(seen.lock().last(), Some(&revision), "other subscribers are not delayed");
        // Timers round up to the next millisecond.
        assert!((PATIENCE..=PATIENCE + Duration::from_millis(1)).contains(&took), "{took:?}");
        assert_eq!(deliver(&cache, &storage, "b").await.1, Duration::ZERO);
        // It polls again, but is still not waited for within the next second.
        while idle.next().now_or_never().is_some() {}
        assert_eq!(deliver(&cache, &storage, "c").await.1, Duration::ZERO);
        time::advance(Duration::from_secs(1)).await;
        while idle.next().now_or_never().is_some() {}
        assert!(deliver(&cache, &storage, "d").await.1 >= PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn subscriber_that_never_waited_delays_no_write() {
        let storage = MemoryStorage::new();
        let cache = WatchCache::new(Arc::new(storage.clone()));
        let mut events = cache.subscribe(PODS, Revision(1)).await.unwrap();
        for name in ["a", "b", "c"] {
            let (revision, took) = deliver(&cache, &storage, name).await;
            assert_eq!(took, Duration::ZERO);
            assert_eq!(events.next().await.unwrap().event.revision, revision);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn busy_subscriber_delays_one_write_only() {
        let storage = MemoryStorage::new();
        let cache = WatchCache::new(Arc::new(storage.clone()));
        let (seen, _task) = reader(&cache, Duration::from_mins(1)).await;
        assert!(deliver(&cache, &storage, "a").await.1 >= PATIENCE);
        assert_eq!(seen.lock().len(), 1);
        assert_eq!(deliver(&cache, &storage, "b").await.1, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_subscription_unblocks_the_writer() {
        let storage = MemoryStorage::new();
        let cache = Arc::new(WatchCache::new(Arc::new(storage.clone())));
        let idle = idle_subscription(&cache).await;
        let writer = tokio::spawn({
            let (cache, storage) = (Arc::clone(&cache), storage.clone());
            async move { deliver(&cache, &storage, "a").await.1 }
        });
        tokio::task::yield_now().await;
        assert!(!writer.is_finished());
        drop(idle);
        assert_eq!(writer.await.unwrap(), Duration::ZERO);
    }
}
