use std::{
    collections::{BTreeMap, VecDeque},
    sync::atomic::AtomicUsize,
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use windlass_api::{
    Content, Entropy, EventType, LabelSelector, ListWatchError, ObjectKey, ObjectRef, PartialObject, Status,
};

use super::*;
use crate::{
    cached::Cached,
    event_queue::{Change, Delta},
    handler::{Deleted, DeletedState, InitialList, Notification},
    options::InitialSync,
    testing::{FakeListWatch, Verb, WatchList},
};

type Maps = SharedInformer<ConfigMap>;

/// An informer that is being run.
struct Run {
    informer: Maps,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Run {
    fn start(informer: &Maps) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let run = informer.clone().run(async move { _ = stopped.await });
        Self { informer: informer.clone(), stop: Some(stop), task: tokio::spawn(run) }
    }

    async fn synced(informer: &Maps) -> Self {
        let run = Self::start(informer);
        soon(run.informer.has_synced()).await.unwrap();
        run
    }

    async fn stop(mut self) {
        self.stop.take();
        timeout(Duration::from_secs(1), self.task).await.expect("it stops within a second").unwrap();
    }
}

/// A handler that writes down what it is told.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Handler<ConfigMap> for Diary {
    fn handle(&mut self, notification: Notification<ConfigMap>) {
        let name = |object: &Cached<ConfigMap>| format!("{}@{}", object.key(), object.meta().resource_version);
        self.0.lock().push(match &notification {
            Notification::Added { object, initial: InitialList::Yes } => format!("initial {}", name(object)),
            Notification::Added { object, initial: InitialList::No } => format!("added {}", name(object)),
            Notification::Updated { old, new } => format!("updated {} {}", name(old), name(new)),
            Notification::Deleted(Deleted { object, state: DeletedState::Final }) => {
                format!("deleted {}", name(object))
            }
            Notification::Deleted(Deleted { object, state: DeletedState::Unknown }) => {
                format!("missed {}", name(object))
            }
        });
    }
}

fn informer(fake: &FakeListWatch) -> Maps {
    SharedInformer::new(Arc::new(fake.clone()), InformerOptions::default().entropy(Entropy::seeded(1)))
}

fn map(name: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "namespace": "n"}, "data": {"k": "v"}})
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).within("n")
}

/// A failure instead of a test that hangs.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_hours(1), future).await.expect("it happens within an hour")
}

/// Lets everything happen that can without time passing.
async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn handlers_are_told_of_what_is_there_and_then_of_what_changes() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let informer = informer(&fake);
    let diary = Diary::default();
    let registration = informer.add_handler(diary.clone());
    let run = Run::start(&informer);
    soon(registration.has_synced()).await.unwrap();
    assert_eq!(diary.take(), ["initial n/a@2"]);
    fake.apply(&map("b"));
    fake.apply(&map("a"));
    fake.delete(&key("b"));
    settle().await;
    assert_eq!(diary.take(), ["added n/b@3", "updated n/a@2 n/a@4", "deleted n/b@5"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_store_shows_a_change_before_a_handler_is_told() {
    let fake = FakeListWatch::new();
    let informer = informer(&fake);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (lister, sink) = (informer.store(), Arc::clone(&seen));
    let _registration = informer.add_handler(move |notification: Notification<ConfigMap>| {
        let held = lister.get(&notification.object().object_ref()).map(|object| object.meta().resource_version.clone());
        sink.lock().push((notification.object().meta().resource_version.clone(), held));
    });
    let run = Run::synced(&informer).await;
    fake.apply(&map("a"));
    settle().await;
    fake.delete(&key("a"));
    settle().await;
    assert_eq!(*seen.lock(), [(2.into(), Some(2.into())), (3.into(), None)]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_late_handler_is_told_what_is_there_once_and_misses_nothing() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let informer = informer(&fake);
    let run = Run::synced(&informer).await;
    fake.apply(&map("b"));
    settle().await;
    let diary = Diary::default();
    let registration = informer.add_handler(diary.clone());
    fake.apply(&map("c"));
    soon(registration.has_synced()).await.unwrap();
    settle().await;
    let told = diary.take();
    assert_eq!(told[..2], ["initial n/a@2", "initial n/b@3"]);
    assert!(told[2..] == ["added n/c@4"] || told[2..] == ["initial n/c@4"], "{told:?}");
    run.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_has_synced_when_it_has_dealt_with_the_initial_list() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    fake.apply(&map("b"));
    let informer = informer(&fake);
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let registration = informer.add_handler(move |_: Notification<ConfigMap>| gate.recv().unwrap());
    let run = Run::synced(&informer).await;
    release.send(()).unwrap();
    assert!(!registration.has_synced().is_synced(), "the second object has not been dealt with");
    release.send(()).unwrap();
    soon(registration.has_synced()).await.unwrap();
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_is_synced_too() {
    let informer = informer(&FakeListWatch::new());
    let registration = informer.add_handler(Diary::default());
    let run = Run::synced(&informer).await;
    soon(registration.has_synced()).await.unwrap();
    assert!(informer.store().is_empty());
    run.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_handler_holds_up_neither_the_store_nor_another_handler() {
    let fake = FakeListWatch::new();
    let informer = informer(&fake);
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let slow_registration = informer.add_handler(move |_: Notification<ConfigMap>| _ = gate.recv());
    let diary = Diary::default();
    let _registration = informer.add_handler(diary.clone());
    let run = Run::synced(&informer).await;
    for index in 0..100 {
        fake.apply(&map(&format!("m{index}")));
    }
    timeout(Duration::from_secs(10), async {
        while diary.0.lock().len() < 100 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the fast handler is told everything");
    assert_eq!(informer.store().len(), 100);
    drop(release);
    soon(slow_registration.has_synced()).await.unwrap();
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_costs_one_notification_and_nothing_else() {
    let fake = FakeListWatch::new();
    let informer = informer(&fake);
    let diary = Diary::default();
    let mut inner = diary.clone();
    let _registration = informer.add_handler(move |notification: Notification<ConfigMap>| {
        assert_ne!(&*notification.key().name, "bad", "as the test wants it");
        inner.handle(notification);
    });
    let run = Run::synced(&informer).await;
    for name in ["a", "bad", "b"] {
        fake.apply(&map(name));
    }
    settle().await;
    assert_eq!(diary.take(), ["added n/a@2", "added n/b@4"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_handler_is_told_nothing_more() {
    let fake = FakeListWatch::new();
    let informer = informer(&fake);
    let never = informer.add_handler(Diary::default());
    never.remove();
    never.shut_down().await;
    assert!(never.has_synced().await.is_err());

    let (diary, other) = (Diary::default(), Diary::default());
    let registration = informer.add_handler(diary.clone());
    let _other = informer.add_handler(other.clone());
    let run = Run::synced(&informer).await;
    fake.apply(&map("a"));
    settle().await;
    registration.shut_down().await;
    registration.remove();
    fake.apply(&map("a"));
    settle().await;
    assert_eq!(diary.take(), ["added n/a@2"]);
    assert_eq!(other.take(), ["added n/a@2", "updated n/a@2 n/a@3"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_is_told_after_a_list_and_what_is_the_same_is_not() {
    let fake = FakeListWatch::new();
    fake.apply(&map("same"));
    fake.apply(&map("changed"));
    fake.apply(&map("gone"));
    let informer = informer(&fake);
    let diary = Diary::default();
    let _registration = informer.add_handler(diary.clone());
    let run = Run::synced(&informer).await;
    settle().await;
    diary.take();
    fake.disconnect();
    fake.apply(&map("changed"));
    fake.delete(&key("gone"));
    fake.apply(&map("new"));
    fake.compact();
    sleep(Duration::from_mins(1)).await;
    assert_eq!(diary.take(), ["missed n/gone@4", "updated n/changed@3 n/changed@5", "added n/new@7"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_handler_is_resynced_in_its_own_period() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let informer = informer(&fake);
    let (slow, fast, never) = (Diary::default(), Diary::default(), Diary::default());
    let _never = informer.add_handler(never.clone());
    let _slow = informer.add_handler_with(slow.clone(), HandlerOptions::default().resync(Duration::from_secs(30)));
    let run = Run::synced(&informer).await;
    let _late = informer.add_handler_with(fast.clone(), HandlerOptions::default().resync(Duration::from_millis(1)));
    settle().await;
    for diary in [&slow, &fast, &never] {
        assert_eq!(diary.take(), ["initial n/a@2"]);
    }
    sleep(Duration::from_secs(61)).await;
    assert_eq!(never.take(), [""; 0]);
    assert_eq!(slow.take(), ["updated n/a@2 n/a@2"; 2]);
    let fast = fast.take();
    assert!((59..=61).contains(&fast.len()), "once a second at most, {} times", fast.len());
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn when_it_stops_no_task_is_left_and_the_store_can_still_be_read() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let informer = informer(&fake);
    let held = Arc::new(());
    let in_handler = Arc::clone(&held);
    let registration = informer.add_handler(move |_: Notification<ConfigMap>| _ = &in_handler);
    let run = Run::synced(&informer).await;
    run.stop().await;
    assert!(informer.is_stopped());
    assert_eq!((fake.open_streams(), Arc::strong_count(&held)), (0, 1));
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
    assert_eq!(informer.store().len(), 1);
    registration.shut_down().await;

    let late = informer.add_handler(Diary::default());
    assert_eq!(late.has_synced().await, Err(Stopped));
    let index = Index::on_meta("i", |_| [""]);
    assert!(matches!(informer.add_index(index).await, Err(AddIndexError::Stopped(_))));
    timeout(Duration::from_secs(1), informer.run(std::future::pending())).await.expect("a second run returns at once");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_run_ends_everything_as_well() {
    let fake = FakeListWatch::new();
    fake.fail(Verb::Watch, Status::internal("x").into());
    fake.fail(Verb::List, Status::internal("x").into());
    let informer = informer(&fake);
    let held = Arc::new(());
    let in_handler = Arc::clone(&held);
    let registration = informer.add_handler(move |_: Notification<ConfigMap>| _ = &in_handler);
    let run = Run::start(&informer);
    settle().await;
    run.task.abort();
    settle().await;
    assert!(informer.is_stopped());
    assert_eq!((fake.open_streams(), Arc::strong_count(&held)), (0, 1));
    assert_eq!(informer.has_synced().await, Err(Stopped));
    assert_eq!(registration.has_synced().await, Err(Stopped));
    registration.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn indices_can_be_added_before_and_after_the_start() {
    let fake = FakeListWatch::new();
    let mut labelled = map("a");
    labelled["metadata"]["labels"] = json!({"app": "x"});
    fake.apply(&labelled);
    let informer = informer(&fake);
    let by_app = |name: &str| Index::on_meta(name, |meta| meta.label("app").map(str::to_owned));
    informer.add_index(by_app("before")).await.unwrap();
    let run = Run::synced(&informer).await;
    informer.add_index(by_app("after")).await.unwrap();
    assert_eq!(informer.add_index(by_app("before")).await, Err(AddIndexError::Conflict("before".to_owned())));
    let lister = informer.store();
    for index in ["before", "after"] {
        assert_eq!(lister.by_index(index, "x").unwrap().len(), 1);
        assert_eq!(lister.within("other").by_index(index, "x").unwrap().len(), 0);
        assert_eq!(*lister.index_values(index).unwrap(), [Arc::from("x")]);
    }
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn listers_read_by_key_namespace_and_labels() {
    let fake = FakeListWatch::new();
    for (namespace, name, app) in [("n", "a", "x"), ("n", "b", "y"), ("m", "a", "x")] {
        fake.apply(&json!({"metadata": {"name": name, "namespace": namespace, "labels": {"app": app}}}));
    }
    let informer = informer(&fake);
    let run = Run::synced(&informer).await;
    let (all, within) = (informer.store(), informer.store().within("n"));
    let reference = |text: &str| text.parse::<ObjectRef<ConfigMap>>().unwrap();
    assert!(all.get(&reference("n/a")).is_some() && all.get(&reference("a")).is_none());
    assert!(within.get(&reference("a")).is_some() && within.get(&reference("m/a")).is_none());
    assert_eq!((all.len(), within.len(), all.list().len(), within.list().len()), (3, 2, 3, 2));
    let selector: LabelSelector = "app=x".parse().unwrap();
    assert_eq!((all.select(&selector).len(), within.select(&selector).len()), (2, 1));
    let missing = all.require(&reference("n/none")).unwrap_err();
    assert_eq!(missing.message, "configmaps \"none\" not found");
    assert_eq!(all.version().as_u64(), Some(4));
    fake.bookmark();
    fake.advance();
    fake.bookmark();
    settle().await;
    assert_eq!(all.version().as_u64(), Some(5));
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_is_cached_and_says_so_when_it_is_used() {
    let fake = FakeListWatch::new();
    let mut odd = map("odd");
    odd["data"] = json!("no map");
    fake.apply(&odd);
    fake.apply(&map("a"));
    let informer = informer(&fake);
    let run = Run::synced(&informer).await;
    let get = |name: &str| informer.store().get(&ObjectRef::new(name).within("n")).unwrap();
    let error = get("odd").get().unwrap_err();
    assert_eq!(error.to_string(), "decoding ConfigMap n/odd");
    assert!(Arc::ptr_eq(&get("a").get().unwrap(), &get("a").get().unwrap()), "decoded once");
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn reads_go_on_while_the_server_is_away() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let informer = informer(&fake);
    let run = Run::synced(&informer).await;
    for _ in 0..20 {
        fake.fail(Verb::Watch, Status::internal("away").into());
        fake.fail(Verb::List, Status::internal("away").into());
    }
    fake.break_connections();
    for _ in 0..100 {
        sleep(Duration::from_secs(1)).await;
        assert_eq!(informer.store().len(), 1);
    }
    sleep(Duration::from_hours(1)).await;
    fake.apply(&map("b"));
    settle().await;
    assert_eq!(informer.store().len(), 2);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_day_of_bookmarks_costs_one_list_and_a_watch_every_few_minutes() {
    let fake = FakeListWatch::new();
    let informer = informer(&fake);
    let run = Run::synced(&informer).await;
    let start = Instant::now();
    while start.elapsed() < Duration::from_hours(24) {
        fake.advance();
        fake.bookmark();
        sleep(Duration::from_mins(1)).await;
    }
    assert_eq!(informer.store().version().as_u64(), Some(fake.version()));
    let requests = fake.requests().len();
    assert!((144..=289).contains(&requests), "{requests}");
    run.stop().await;
}

/// The order of client-go's queue without atomic events: what vanished first, then each listed object by itself.
struct OneByOne {
    known: Store<ConfigMap>,
    deltas: VecDeque<Delta<ConfigMap>>,
    initial: Option<usize>,
}

impl EventQueue<ConfigMap> for OneByOne {
    fn push(&mut self, change: Change<ConfigMap>) {
        match change {
            Change::Added(object) => self.deltas.push_back(Delta::Added(object)),
            Change::Updated(object) => self.deltas.push_back(Delta::Updated(object)),
            Change::Deleted(object) => self.deltas.push_back(Delta::Deleted(Deleted::last_known(object))),
            Change::Replace { objects, version } => {
                let gone = |known: &Cached<_>| objects.iter().all(|object: &Cached<_>| object.key() != known.key());
                for object in self.known.list().into_iter().filter(gone) {
                    self.deltas.push_back(Delta::Deleted(Deleted::missed(object)));
                }
                self.deltas.extend(objects.into_iter().map(Delta::Replaced));
                self.initial.get_or_insert(self.deltas.len());
                self.deltas.push_back(Delta::Bookmark(version));
            }
            Change::Resync => self.deltas.extend(self.known.list().into_iter().map(Delta::Sync)),
            Change::Bookmark(version) => self.deltas.push_back(Delta::Bookmark(version)),
        }
    }

    fn pop(&mut self) -> Option<Delta<ConfigMap>> {
        let delta = self.deltas.pop_front()?;
        self.initial = self.initial.map(|left| left.saturating_sub(1));
        Some(delta)
    }

    fn len(&self) -> usize {
        self.deltas.len()
    }

    fn has_synced(&self) -> bool {
        self.initial == Some(0)
    }
}

#[tokio::test(start_paused = true)]
async fn an_informer_can_be_given_another_queue() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    fake.apply(&map("b"));
    let informer =
        informer(&fake).with_queue(|known| OneByOne { known: known.clone(), deltas: VecDeque::new(), initial: None });
    let diary = Diary::default();
    let registration =
        informer.add_handler_with(diary.clone(), HandlerOptions::default().resync(Duration::from_hours(1)));
    let run = Run::start(&informer);
    soon(registration.has_synced()).await.unwrap();
    assert_eq!(diary.take(), ["initial n/a@2", "initial n/b@3"]);
    fake.disconnect();
    fake.delete(&key("a"));
    fake.apply(&map("c"));
    fake.compact();
    sleep(Duration::from_mins(10)).await;
    assert_eq!(diary.take(), ["missed n/a@2", "added n/c@5"]);
    assert_eq!(informer.store().version().as_u64(), Some(5));
    sleep(Duration::from_hours(1)).await;
    let mut resynced = diary.take();
    resynced.sort();
    assert_eq!(resynced, ["updated n/b@3 n/b@3", "updated n/c@5 n/c@5"]);
    run.stop().await;
}

/// What a handler must believe to be there, if every notification is a legal step from the one before.
#[derive(Clone, Default)]
struct Belief(Arc<Mutex<BTreeMap<String, Cached<ConfigMap>>>>);

impl Handler<ConfigMap> for Belief {
    fn handle(&mut self, notification: Notification<ConfigMap>) {
        let mut known = self.0.lock();
        let key = notification.key().to_string();
        match notification {
            Notification::Added { object, .. } => {
                assert!(known.insert(key, object).is_none(), "an object is added once");
            }
            Notification::Updated { old, new } => {
                let before = known.insert(key, new.clone()).expect("only a known object is updated");
                assert!(before.ptr_eq(&old), "an update goes on from what was told last: {before:?} {old:?}");
                let version = |object: &Cached<_>| object.meta().resource_version.as_u64();
                assert!(version(&new) >= version(&old), "never back: {old:?} {new:?}");
            }
            Notification::Deleted(deleted) => {
                let before = known.remove(&key).expect("only a known object is deleted");
                let is_before = before.ptr_eq(&deleted.object);
                assert_eq!(
                    deleted.state == DeletedState::Unknown,
                    is_before,
                    "a missed deletion has the last known state"
                );
            }
        }
    }
}

/// Any interleaving of changes, cut and refused connections, expired versions and handlers that come and go: each handler
/// is told a legal sequence, and in the end everybody knows what the server has.
#[tokio::test(start_paused = true)]
async fn whatever_happens_everybody_ends_up_with_what_the_server_has() {
    for seed in 0..60 {
        let entropy = Entropy::seeded(seed);
        let fake = FakeListWatch::new();
        if entropy.below(3) == 0 {
            fake.page_size(2);
        }
        let how = if entropy.below(3) == 0 { InitialSync::List } else { InitialSync::Watch };
        let options = InformerOptions::default().entropy(Entropy::seeded(seed)).initial_sync(how);
        let informer = Maps::new(Arc::new(fake.clone()), options.queue_capacity(3));
        let by_app = |name: &str| Index::on_meta(name, |meta| meta.label("app").map(str::to_owned));
        informer.add_index(by_app("app")).await.unwrap();
        let panics = Arc::new(AtomicUsize::new(0));
        let add_handler = || {
            let (belief, panics) = (Belief::default(), Arc::clone(&panics));
            let mut inner = belief.clone();
            let handler = move |notification: Notification<ConfigMap>| {
                let text = format!("{notification:?}");
                if let Err(panic) = crate::contained(|| inner.handle(notification)) {
                    panics.fetch_add(1, Ordering::Relaxed);
                    eprintln!("seed {seed}: {text}: {panic}");
                }
            };
            let resync = HandlerOptions::default().resync(Duration::from_secs(20));
            let options = if entropy.below(2) == 0 { HandlerOptions::default() } else { resync };
            (informer.add_handler_with(handler, options), belief)
        };
        let mut handlers = vec![add_handler()];
        let run = Run::start(&informer);
        let random_failure = || -> ListWatchError {
            match entropy.below(5) {
                0 => Status::expired("too old").into(),
                1 => Status::too_large_resource_version(9, 1).into(),
                2 => Status::too_many_requests("busy", 1).into(),
                3 => Status::internal("no").into(),
                _ => ListWatchError::Transport(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into()),
            }
        };
        for _ in 0..150 {
            let name = format!("m{}", entropy.below(5));
            match entropy.below(26) {
                0..=8 => {
                    let mut object = map(&name);
                    object["metadata"]["labels"] = json!({"app": format!("a{}", entropy.below(3))});
                    fake.apply(&object);
                }
                9..=12 => fake.delete(&key(&name)),
                13 => fake.disconnect(),
                14 => fake.break_connections(),
                15 => fake.compact(),
                16 => fake.send_error(&Status::expired("too old")),
                17 => fake.fail(Verb::List, random_failure()),
                18 => fake.fail(Verb::Watch, random_failure()),
                19 => fake.watch_list(if entropy.below(2) == 0 { WatchList::Refused } else { WatchList::Supported }),
                20 if entropy.below(2) == 0 => fake.hold_initial_end(),
                20 => fake.send_initial_end(),
                24 => fake.bookmark(),
                21 => fake.send(EventType::Added, "garbage"),
                22 => handlers.push(add_handler()),
                23 if handlers.len() > 1 => {
                    let (registration, _) = handlers.remove(0);
                    registration.remove();
                }
                _ => sleep(Duration::from_millis(entropy.below(30_000))).await,
            }
            if entropy.below(3) == 0 {
                settle().await;
            }
        }
        fake.watch_list(WatchList::Supported);
        fake.send_initial_end();
        handlers.push(add_handler());
        sleep(Duration::from_hours(3)).await;
        for (registration, _) in &handlers {
            soon(registration.has_synced()).await.unwrap();
        }
        settle().await;

        let expected = fake.objects();
        let name =
            |object: &Cached<ConfigMap>| (object.key().to_string(), object.meta().resource_version.as_u64().unwrap());
        let mut held: Vec<_> = informer.store().list().iter().map(name).collect();
        held.sort();
        assert_eq!(held, expected, "seed {seed}");
        for (_, belief) in &handlers {
            assert_eq!(belief.0.lock().values().map(name).collect::<Vec<_>>(), expected, "seed {seed}");
        }
        informer.add_index(by_app("again")).await.unwrap();
        for app in ["a0", "a1", "a2"] {
            let found = |index| informer.store().by_index(index, app).unwrap().iter().map(name).collect::<Vec<_>>();
            assert_eq!(found("app"), found("again"), "seed {seed}");
        }
        assert_eq!(panics.load(Ordering::Relaxed), 0, "seed {seed}: each step is legal");
        run.stop().await;
        assert_eq!(fake.open_streams(), 0);
    }
}

#[test]
fn an_informer_of_metadata_asks_for_no_more() {
    let fake = Arc::new(FakeListWatch::new());
    let resource = <ConfigMap as windlass_api::Resource>::api_resource();
    let partial = SharedInformer::<PartialObject>::for_resource(
        resource.clone(),
        Arc::clone(&fake) as _,
        InformerOptions::default(),
    );
    assert_eq!(partial.shared.options.content, Content::Metadata);
    let whole = Maps::for_resource(resource, fake, InformerOptions::default());
    assert_eq!(whole.shared.options.content, Content::Object);
}
