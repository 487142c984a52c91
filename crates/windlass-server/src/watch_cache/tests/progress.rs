//! The watch cache of a store that other clients write to.

use std::sync::atomic::AtomicUsize;

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};

use super::*;
use crate::storage::Delivery;

type Item = Result<Delivery, StorageError>;

/// A storage at revision 1 whose watches yield what the test sends to them. The first one is the watch of the pump.
#[derive(Debug, Default)]
struct Scripted {
    streams: parking_lot::Mutex<Vec<UnboundedReceiver<Item>>>,
    starts: parking_lot::Mutex<Vec<Revision>>,
    progress_requests: AtomicUsize,
}

impl Scripted {
    /// Returns the storage, and the senders of its watches.
    fn with<const N: usize>() -> (Arc<Self>, [UnboundedSender<Item>; N]) {
        let scripted = Self::default();
        let senders = [(); N].map(|()| {
            let (sender, receiver) = unbounded();
            scripted.streams.lock().insert(0, receiver);
            sender
        });
        (Arc::new(scripted), senders)
    }
}

impl suite::Forward for Scripted {
    fn below(&self) -> &dyn Storage {
        unreachable!("the cache only watches")
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        async { Ok(Revision(1)) }.boxed()
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<EventStream, StorageError>> {
        assert_eq!(prefix, "");
        self.starts.lock().push(after);
        let stream = self.streams.lock().pop().expect("a further watch");
        async move { Ok(stream.boxed()) }.boxed()
    }

    fn request_progress(&self) {
        self.progress_requests.fetch_add(1, Ordering::SeqCst);
    }
}

fn deletion(revision: u64, name: &str, completes: bool) -> Delivery {
    let (revision, key) = (Revision(revision), format!("{PODS}ns/{name}").into());
    Delivery::Event { event: StorageEvent { revision, key, current: None, previous: None }, completes }
}

fn progress(revision: u64) -> Delivery {
    Delivery::Progress(Revision(revision))
}

fn send(sender: &UnboundedSender<Item>, items: impl IntoIterator<Item = Delivery>) {
    for item in items {
        sender.unbounded_send(Ok(item)).unwrap();
    }
}

async fn key(subscription: &mut Subscription<Frame>) -> String {
    next(subscription).await.event.key.trim_start_matches("/registry/pods/ns/").to_owned()
}

/// Lets the pump run until it waits for the storage.
async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn incomplete_revision_is_not_dispatched() {
    let (storage, [events]) = Scripted::with();
    let cache = Cache::new(storage);
    let mut subscription = cache.subscribe(PODS, Revision(1)).await.unwrap();
    send(&events, [deletion(5, "a", false), deletion(5, "b", false)]);
    settle().await;
    assert!(subscription.take().is_none());
    assert_eq!(subscription.progress(), Revision(1));
    send(&events, [deletion(5, "c", true)]);
    for (name, progress) in [("a", 4), ("b", 4), ("c", 5)] {
        assert_eq!(key(&mut subscription).await, name);
        assert_eq!(subscription.progress(), Revision(progress));
    }
}

#[tokio::test]
async fn incomplete_revision_is_completed_by_later_items() {
    let (storage, [events]) = Scripted::with();
    let cache = Cache::new(storage);
    let mut subscription = cache.subscribe(PODS, Revision(1)).await.unwrap();
    send(&events, [deletion(5, "a", false), deletion(6, "b", false)]);
    assert_eq!(key(&mut subscription).await, "a");
    settle().await;
    assert_eq!(subscription.progress(), Revision(5));
    send(&events, [progress(5)]);
    settle().await;
    assert!(subscription.take().is_none());
    send(&events, [progress(9)]);
    assert_eq!(key(&mut subscription).await, "b");
    settle().await;
    assert_eq!(subscription.progress(), Revision(9));
}

#[tokio::test]
async fn subscription_in_the_middle_of_a_revision_gets_all_of_it() {
    let (storage, [events]) = Scripted::with();
    let cache = Cache::new(storage);
    let mut first = cache.subscribe(PODS, Revision(1)).await.unwrap();
    send(&events, [deletion(5, "a", false)]);
    settle().await;
    let mut second = cache.subscribe(PODS, Revision(1)).await.unwrap();
    send(&events, [deletion(5, "b", true)]);
    for subscription in [&mut first, &mut second] {
        assert_eq!([key(subscription).await, key(subscription).await], ["a", "b"]);
    }
}

#[tokio::test]
async fn renewed_stream_repeats_nothing() {
    let (storage, [events, again]) = Scripted::with();
    let cache = Cache::new(Arc::clone(&storage) as Arc<dyn Storage>);
    let mut subscription = cache.subscribe(PODS, Revision(1)).await.unwrap();
    send(&events, [deletion(4, "a", true), deletion(5, "b", false)]);
    events.unbounded_send(Err(StorageError::Lagged { after: Revision(4) })).unwrap();
    send(&again, [deletion(5, "b", false), deletion(5, "c", true)]);
    for name in ["a", "b", "c"] {
        assert_eq!(key(&mut subscription).await, name);
    }
    assert_eq!(*storage.starts.lock(), [Revision(1), Revision(4)]);
}

#[tokio::test]
async fn replay_ends_with_the_progress_of_the_cache() {
    let (storage, [events, replay]) = Scripted::with();
    let cache = Cache::new(storage);
    let mut first = cache.subscribe(PODS, Revision(1)).await.unwrap();
    send(&events, [deletion(5, "a", false), deletion(5, "b", true), progress(8)]);
    assert_eq!([key(&mut first).await, key(&mut first).await], ["a", "b"]);
    settle().await;
    let mut late = cache.subscribe(PODS, Revision(4)).await.unwrap();
    send(&replay, [deletion(5, "a", false)]);
    assert_eq!(key(&mut late).await, "a");
    assert_eq!(late.progress(), Revision(4), "more events of the revision can follow");
    send(&replay, [deletion(5, "b", true), progress(7)]);
    assert_eq!(key(&mut late).await, "b");
    assert!(late.take().is_none());
    assert_eq!(late.progress(), Revision(7));
    // A later event belongs to the mailbox.
    send(&replay, [deletion(9, "c", true)]);
    send(&events, [deletion(9, "c", true)]);
    assert_eq!(key(&mut late).await, "c");
    assert!(late.take().is_none());
    assert_eq!(late.progress(), Revision(9));
}

#[tokio::test(start_paused = true)]
async fn waiting_reader_requests_progress_until_it_is_reached() {
    let (storage, [events]) = Scripted::with();
    let cache = Cache::new(Arc::clone(&storage) as Arc<dyn Storage>);
    let requests = || storage.progress_requests.load(Ordering::SeqCst);
    cache.wait_for_revision(Revision(1)).await.unwrap();
    assert_eq!(requests(), 0);
    let answers = async {
        time::sleep(Duration::from_millis(250)).await;
        assert_eq!(requests(), 3, "one immediately, and one each 100 ms");
        send(&events, [progress(6)]);
        time::sleep(Duration::from_millis(100)).await;
        send(&events, [progress(7)]);
    };
    let (reached, ()) = futures::join!(cache.wait_for_revision(Revision(7)), answers);
    reached.unwrap();
    assert_eq!(requests(), 4);
}

fn unreadable(revision: u64, key: &str) -> Delivery {
    let (key, reason) = (key.into(), "no key".to_owned());
    Delivery::Unreadable { key, revision: Revision(revision), completes: true, reason }
}

#[tokio::test]
async fn unreadable_value_closes_only_the_watches_that_would_see_it() {
    let (storage, [events]) = Scripted::with();
    let cache = Cache::new(storage.clone());
    let mut pods = cache.subscribe(PODS, Revision(1)).await.unwrap();
    let mut secrets = cache.subscribe("/registry/secrets/", Revision(1)).await.unwrap();
    let mut everything = cache.subscribe("", Revision(1)).await.unwrap();
    send(&events, [unreadable(2, "/registry/secrets/ns/a"), deletion(3, "b", true)]);
    assert_eq!(key(&mut pods).await, "b");
    assert_eq!(pods.progress(), Revision(3));
    for closed in [&mut secrets, &mut everything] {
        ended(closed).await;
    }
    assert_eq!(storage.starts.lock().len(), 1, "the watch of the storage continues");
}

#[tokio::test]
async fn unreadable_value_in_a_replay_closes_only_the_watches_that_would_see_it() {
    let (storage, [events, of_pods, of_secrets]) = Scripted::with();
    let cache = Cache::new(storage);
    let mut live = cache.subscribe("", Revision(1)).await.unwrap();
    send(&events, [deletion(2, "a", true), deletion(3, "b", true)]);
    for _ in 0..2 {
        next(&mut live).await;
    }
    let replayed = [unreadable(2, "/registry/secrets/ns/a"), deletion(3, "b", true)];
    send(&of_pods, replayed.clone());
    send(&of_secrets, replayed);
    let mut pods = cache.subscribe(PODS, Revision(1)).await.unwrap();
    assert_eq!(key(&mut pods).await, "b");
    let mut secrets = cache.subscribe("/registry/secrets/", Revision(1)).await.unwrap();
    ended(&mut secrets).await;
}
