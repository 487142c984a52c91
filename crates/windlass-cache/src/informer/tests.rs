mod api;
mod interleavings;
mod protobuf;
mod trouble;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::oneshot,
    task::{JoinHandle, yield_now},
    time::{Instant, sleep, timeout},
};
use windlass_api::{Content, Entropy, EventType, LabelSelector, ObjectKey, ObjectRef, PartialObject, Status};

use super::*;
use crate::{
    error::InformerError,
    event_queue::{DeltaFifo, OneByOne},
    handler::{Deleted, DeletedState, InitialList},
    options::InitialSync,
    reflector::Reflector,
    testing::{FakeListWatch, Verb, soon},
};

type Maps = SharedInformer<ConfigMap>;

/// A running informer.
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

/// A handler that records its notifications.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Handler<ConfigMap> for Diary {
    fn handle(&mut self, notification: Notification<ConfigMap>) {
        let name = |object: &Cached<ConfigMap>| format!("{}@{}", object.key(), object.meta().resource_version());
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

/// Lets all tasks run that don't wait for time to pass.
async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn handlers_get_existing_objects_and_then_changes() {
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
async fn fast_handler_processes_all_pending_in_one_turn() {
    const OBJECTS: usize = 1_000;
    let fake = FakeListWatch::new();
    for number in 0..OBJECTS {
        fake.apply(&map(&number.to_string()));
    }
    let informer = informer(&fake);
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&seen);
    let _registration = informer.add_handler(move |_: Notification<ConfigMap>| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let run = Run::start(&informer);
    soon(async {
        while informer.store().len() < OBJECTS {
            yield_now().await;
        }
    })
    .await;
    yield_now().await;
    assert_eq!(seen.load(Ordering::Relaxed), OBJECTS);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn store_shows_a_change_before_its_notification() {
    let fake = FakeListWatch::new();
    let informer = informer(&fake);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (lister, sink) = (informer.store(), Arc::clone(&seen));
    let _registration = informer.add_handler(move |notification: Notification<ConfigMap>| {
        let held =
            lister.get(&notification.object().object_ref()).map(|object| object.meta().resource_version().clone());
        sink.lock().push((notification.object().meta().resource_version().clone(), held));
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
async fn late_handler_gets_each_existing_object_once() {
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
async fn handler_has_synced_after_the_initial_list() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    fake.apply(&map("b"));
    let informer = informer(&fake);
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let registration = informer.add_handler(move |_: Notification<ConfigMap>| gate.recv().unwrap());
    let run = Run::synced(&informer).await;
    release.send(()).unwrap();
    assert!(!registration.has_synced().is_synced(), "the second object has not been processed");
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
async fn slow_handler_blocks_neither_store_nor_other_handlers() {
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
    .expect("the fast handler receives every notification");
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
        assert_ne!(&*notification.key().name, "bad", "expected panic of the test");
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
async fn removed_handler_gets_no_more_notifications() {
    let fake = FakeListWatch::new();
    let informer = informer(&fake);
    let never = informer.add_handler(Diary::default());
    never.remove();
    soon(never.shut_down()).await;
    assert!(soon(never.has_synced()).await.is_err());

    let (diary, other) = (Diary::default(), Diary::default());
    let registration = informer.add_handler(diary.clone());
    let _other = informer.add_handler(other.clone());
    let run = Run::synced(&informer).await;
    fake.apply(&map("a"));
    settle().await;
    soon(registration.shut_down()).await;
    registration.remove();
    fake.apply(&map("a"));
    settle().await;
    assert_eq!(diary.take(), ["added n/a@2"]);
    assert_eq!(other.take(), ["added n/a@2", "updated n/a@2 n/a@3"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn relist_delivers_missed_changes_only() {
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
async fn deletion_of_an_unknown_object_is_not_delivered() {
    let fake = FakeListWatch::new();
    let informer = informer(&fake);
    let diary = Diary::default();
    let _registration = informer.add_handler(diary.clone());
    let run = Run::synced(&informer).await;
    let mut gone = map("gone");
    gone["metadata"]["resourceVersion"] = json!("7");
    fake.send(EventType::Deleted, gone.to_string());
    soon(informer.wait_for(&"7".into())).await.unwrap();
    settle().await;
    assert_eq!(diary.take(), [""; 0]);
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
    assert!((59..=61).contains(&fast.len()), "at most once a second, but {} times", fast.len());
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn stopped_informer_has_no_task_and_a_readable_store() {
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
    soon(registration.shut_down()).await;

    let late = informer.add_handler(Diary::default());
    assert_eq!(soon(late.has_synced()).await, Err(Stopped));
    let index = Index::on_meta("i", |_| [""]);
    assert!(matches!(soon(informer.add_index(index)).await, Err(AddIndexError::Stopped(_))));
    timeout(Duration::from_secs(1), informer.run(std::future::pending()))
        .await
        .expect("a second run returns immediately");
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
    assert_eq!(soon(informer.has_synced()).await, Err(Stopped));
    assert_eq!(soon(registration.has_synced()).await, Err(Stopped));
    soon(registration.shut_down()).await;
}

#[tokio::test(start_paused = true)]
async fn indices_can_be_added_before_and_after_the_start() {
    let fake = FakeListWatch::new();
    let mut labeled = map("a");
    labeled["metadata"]["labels"] = json!({"app": "x"});
    fake.apply(&labeled);
    let informer = informer(&fake);
    let by_app = |name: &str| Index::on_meta(name, |meta| meta.label("app").map(str::to_owned));
    soon(informer.add_index(by_app("before"))).await.unwrap();
    let run = Run::synced(&informer).await;
    let after = by_app("after");
    soon(informer.add_index(after.clone())).await.unwrap();
    assert_eq!(soon(informer.add_index(after)).await, Ok(()), "adding a clone of an index succeeds");
    assert_eq!(soon(informer.add_index(by_app("before"))).await, Err(AddIndexError::Conflict("before".to_owned())));
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
async fn undecodable_object_is_cached_and_fails_on_use() {
    let fake = FakeListWatch::new();
    let mut odd = map("odd");
    odd["data"] = json!("no map");
    fake.apply(&odd);
    fake.apply(&map("a"));
    let informer = informer(&fake);
    let run = Run::synced(&informer).await;
    let get = |name: &str| informer.store().get(&ObjectRef::new(name).within("n")).unwrap();
    let error = get("odd").get().unwrap_err();
    assert_eq!(error.to_string(), "decoding data of ConfigMap n/odd");
    assert!(Arc::ptr_eq(&get("a").get().unwrap(), &get("a").get().unwrap()), "decoded once");
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn changing_a_cached_object_changes_a_copy() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let informer = informer(&fake);
    let run = Run::synced(&informer).await;
    let cached = informer.store().get(&ObjectRef::new("a").within("n")).unwrap();
    let mut mine = cached.get().unwrap();
    assert!(Arc::ptr_eq(&mine, &cached.get().unwrap()));
    Arc::make_mut(&mut mine).metadata.name = Some("mine".to_owned());
    assert_eq!(cached.get().unwrap().metadata.name.as_deref(), Some("a"));
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
async fn day_of_bookmarks_needs_one_list_and_few_watches() {
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

#[tokio::test(start_paused = true)]
async fn an_informer_can_be_given_another_queue() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    fake.apply(&map("b"));
    let informer = informer(&fake).with_queue(OneByOne::new);
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

#[tokio::test(start_paused = true)]
async fn recreated_object_is_an_update_after_missed_deletion() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let informer = informer(&fake);
    let uids = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&uids);
    let _registration = informer.add_handler(move |news: Notification<ConfigMap>| {
        if let Notification::Updated { old, new } = news {
            log.lock().push((old.meta().uid().clone(), new.meta().uid().clone()));
        }
    });
    let run = Run::synced(&informer).await;
    fake.disconnect();
    fake.delete(&key("a"));
    fake.apply(&map("a"));
    fake.compact();
    sleep(Duration::from_mins(1)).await;
    assert_eq!(*uids.lock(), [("uid-0-2".into(), "uid-0-4".into())]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_run_beside_the_first_returns_at_once() {
    let fake = FakeListWatch::new();
    let informer = informer(&fake);
    let run = Run::synced(&informer).await;
    timeout(Duration::from_secs(1), informer.clone().run(std::future::pending())).await.expect("it returns");
    fake.apply(&map("a"));
    settle().await;
    assert_eq!((informer.store().len(), informer.is_stopped()), (1, false), "the first run continues");
    run.stop().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "the queue of an informer must be set before it is started")]
async fn the_queue_of_a_running_informer_cannot_be_changed() {
    let informer = informer(&FakeListWatch::new());
    let _run = Run::synced(&informer).await;
    drop(informer.with_queue(OneByOne::new));
}

#[tokio::test(start_paused = true)]
async fn store_shows_the_initial_list_only_when_synced() {
    let fake = FakeListWatch::new();
    fake.page_size(2);
    (0..7).for_each(|index| _ = fake.apply(&map(&format!("m{index}"))));
    let informer = Maps::new(Arc::new(fake.clone()), InformerOptions::default().initial_sync(InitialSync::List));
    let (lengths, store) = (Arc::new(Mutex::new(Vec::new())), informer.store());
    let log = Arc::clone(&lengths);
    let _registration = informer.add_handler(move |_: Notification<ConfigMap>| log.lock().push(store.len()));
    let run = Run::synced(&informer).await;
    assert_eq!(informer.store().len(), 7);
    settle().await;
    assert_eq!(*lengths.lock(), [7; 7]);
    run.stop().await;
}
