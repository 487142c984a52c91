//! The ways to receive notifications and to wait.

use futures::StreamExt;

use windlass_api::EventType;

use super::*;
use crate::{CacheMetrics, Callbacks, DecodeError, Decoding, Filtered, Mirror, WaitError, collections::ThreadSafeMap};

fn labeled(name: &str, app: &str) -> Value {
    let mut object = map(name);
    object["metadata"]["labels"] = json!({ "app": app });
    object
}

#[tokio::test(start_paused = true)]
async fn filtered_handler_gets_adds_and_deletes_at_the_filter() {
    let fake = FakeListWatch::new();
    fake.apply(&labeled("in", "x"));
    fake.apply(&labeled("out", "y"));
    let informer = informer(&fake);
    let diary = Diary::default();
    let passes = |object: &Cached<ConfigMap>| object.meta().label("app") == Some("x");
    let registration = informer.add_handler(Filtered::new(passes, diary.clone()));
    let run = Run::synced(&informer).await;
    soon(registration.has_synced()).await.unwrap();
    assert_eq!(diary.take(), ["initial n/in@2"]);
    for (name, app) in [("in", "x"), ("in", "y"), ("in", "y"), ("in", "x"), ("out", "y"), ("new", "x")] {
        fake.apply(&labeled(name, app));
    }
    fake.delete(&key("in"));
    fake.delete(&key("out"));
    settle().await;
    assert_eq!(
        diary.take(),
        ["updated n/in@2 n/in@4", "missed n/in@4", "added n/in@7", "added n/new@9", "deleted n/in@10"]
    );
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn closures_are_called_each_for_its_kind_of_change() {
    let fake = FakeListWatch::new();
    let informer = informer(&fake);
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = |what: &'static str| {
        let told = Arc::clone(&told);
        move |object: &Cached<ConfigMap>| told.lock().push(format!("{what} {}", object.meta().resource_version()))
    };
    let (add, update, delete) = (log("add"), log("update"), log("delete"));
    let all = Callbacks::new()
        .on_add(move |object, _| add(&object))
        .on_update(move |_, new| update(&new))
        .on_delete(move |gone| delete(&gone.object));
    let _all = informer.add_handler(all);
    let _none = informer.add_handler(Callbacks::new());
    let run = Run::synced(&informer).await;
    fake.apply(&map("a"));
    fake.apply(&map("a"));
    fake.delete(&key("a"));
    settle().await;
    assert_eq!(*told.lock(), ["add 2", "update 3", "delete 4"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn notifications_are_a_stream_that_ends_with_the_informer() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let informer = informer(&fake);
    let run = Run::synced(&informer).await;
    let mut events = informer.events();
    fake.apply(&map("b"));
    assert!(matches!(soon(events.next()).await, Some(Notification::Added { initial: InitialList::Yes, .. })));
    assert_eq!(soon(events.next()).await.unwrap().key(), &key("b"));
    soon(events.has_synced()).await.unwrap();
    let dropped = informer.events();
    drop(dropped);
    run.stop().await;
    assert!(soon(events.next()).await.is_none());
    assert!(soon(informer.events().next()).await.is_none(), "a stopped informer has no events");
}

#[tokio::test(start_paused = true)]
async fn stream_of_objects_has_deletions_only_if_touched() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let informer = informer(&fake);
    let (mut applied, mut touched) = (informer.events().applied(), informer.events().touched());
    let run = Run::synced(&informer).await;
    fake.apply(&map("a"));
    fake.delete(&key("a"));
    fake.apply(&map("b"));
    settle().await;
    run.stop().await;
    let shown = |object: Cached<ConfigMap>| format!("{} {}", object.key(), object.meta().resource_version());
    let mut seen = (Vec::new(), Vec::new());
    while let Some(object) = soon(applied.next()).await {
        seen.0.push(shown(object));
    }
    while let Some(object) = soon(touched.next()).await {
        seen.1.push(shown(object));
    }
    assert_eq!(seen.0, ["n/a 2", "n/a 3", "n/b 5"]);
    assert_eq!(seen.1, ["n/a 2", "n/a 3", "n/a 4", "n/b 5"]);
}

#[tokio::test(start_paused = true)]
async fn wait_ends_at_once_later_or_with_a_timeout() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let informer = informer(&fake);
    let run = Run::synced(&informer).await;
    let named = |name: &'static str| move |news: &Notification<ConfigMap>| &*news.key().name == name;
    assert!(soon(informer.wait_until(named("a"))).await.is_ok());
    let waiting = tokio::spawn({
        let informer = informer.clone();
        async move { informer.wait_until(|news| matches!(news, Notification::Deleted(_))).await }
    });
    settle().await;
    fake.delete(&key("a"));
    assert_eq!(soon(waiting).await.unwrap().unwrap().key(), &key("a"));
    let never = tokio::spawn({
        let informer = informer.clone();
        async move { informer.wait_until(named("never")).await }
    });
    settle().await;
    run.stop().await;
    assert_eq!(soon(never).await.unwrap().unwrap_err(), Stopped);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_written_version_shows_the_write() {
    let fake = FakeListWatch::new();
    for queue in ["in order", "one by one", "per object"] {
        let informer = match queue {
            "in order" => informer(&fake),
            "one by one" => informer(&fake).with_queue(OneByOne::new),
            _ => informer(&fake).with_queue(DeltaFifo::new),
        };
        let run = Run::start(&informer);
        for _ in 0..3 {
            let version = fake.apply(&map("a")).into();
            soon(informer.wait_for(&version)).await.unwrap();
            let seen = informer.store().get(&ObjectRef::new("a").within("n")).unwrap();
            assert_eq!(*seen.meta().resource_version(), version, "{queue}");
        }
        fake.delete(&key("a"));
        soon(informer.wait_for(&fake.version().into())).await.unwrap();
        assert!(informer.store().is_empty(), "{queue}");
        let elsewhere = fake.advance().into();
        assert!(
            timeout(Duration::from_secs(1), informer.wait_for(&elsewhere)).await.is_err(),
            "no event or bookmark has this version"
        );
        fake.bookmark();
        soon(informer.wait_for(&elsewhere)).await.unwrap();
        assert!(matches!(soon(informer.wait_for(&"".into())).await, Err(WaitError::Version(_))));
        run.stop().await;
        let never = soon(informer.wait_for(&(fake.version() + 1).into())).await;
        assert_eq!(never, Err(WaitError::Stopped(Stopped)));
        assert_eq!(soon(informer.wait_for(&elsewhere)).await, Ok(()), "a version that was reached stays reached");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bounded_handler_holds_up_the_store_until_it_has_room() {
    let fake = FakeListWatch::new();
    let informer = informer(&fake);
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let handled = Arc::new(Mutex::new(0));
    let count = Arc::clone(&handled);
    let slow = move |_: Notification<ConfigMap>| {
        _ = gate.recv();
        *count.lock() += 1;
    };
    let registration = informer.add_handler_with(slow, HandlerOptions::default().bounded(3));
    let run = Run::synced(&informer).await;
    for index in 0..20 {
        fake.apply(&map(&format!("m{index}")));
    }
    let at_least = |objects: usize| {
        let store = informer.store();
        timeout(Duration::from_mins(1), async move {
            while store.len() < objects {
                tokio::task::yield_now().await;
            }
        })
    };
    at_least(3).await.expect("the bounded queue is full");
    assert!(timeout(Duration::from_millis(50), at_least(4)).await.is_err(), "the bound is not exceeded");
    for objects in 4..10 {
        release.send(()).unwrap();
        at_least(objects).await.expect("each processed notification makes room for another");
    }
    registration.remove();
    at_least(20).await.expect("a removed handler delays nothing");
    drop(release);
    soon(registration.shut_down()).await;
    assert!(*handled.lock() <= 10, "{}", *handled.lock());
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_may_exceed_the_bound_of_a_handler() {
    let fake = FakeListWatch::new();
    for index in 0..20 {
        fake.apply(&map(&format!("m{index}")));
    }
    let informer = informer(&fake);
    let diary = Diary::default();
    let registration = informer.add_handler_with(diary.clone(), HandlerOptions::default().bounded(1));
    let run = Run::synced(&informer).await;
    soon(registration.has_synced()).await.unwrap();
    fake.apply(&map("m0"));
    fake.apply(&map("m1"));
    settle().await;
    assert_eq!(diary.take().len(), 22);
    run.stop().await;
}

/// A receiver of metrics that records its calls.
#[derive(Debug, Default)]
struct Counted(Mutex<Vec<String>>);

impl Counted {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().push(what.into());
    }
}

impl CacheMetrics for Counted {
    fn listed(&self, objects: usize, _: Duration) {
        self.note(format!("listed {objects}"));
    }

    fn watch_opened(&self) {
        self.note("opened");
    }

    fn watch_ended(&self, events: u64, _: Duration) {
        self.note(format!("ended after {events}"));
    }

    fn event(&self, event_type: EventType) {
        self.note(format!("{event_type:?}"));
    }

    fn failed(&self, error: &InformerError) {
        self.note(error.to_string());
    }

    fn stored(&self, objects: usize) {
        self.note(format!("holds {objects}"));
    }

    fn decoding_failed(&self, error: &DecodeError) {
        self.note(error.to_string());
    }

    fn handler_panicked(&self) {
        self.note("panicked");
    }
}

#[tokio::test(start_paused = true)]
async fn informer_reports_metrics() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let metrics = Arc::new(Counted::default());
    let options = InformerOptions::default().initial_sync(InitialSync::List).metrics(Arc::clone(&metrics) as _);
    let informer = Maps::new(Arc::new(fake.clone()), options);
    let _registration = informer.add_handler(|_: Notification<ConfigMap>| panic!("expected panic of the test"));
    let run = Run::synced(&informer).await;
    settle().await;
    assert_eq!(std::mem::take(&mut *metrics.0.lock()), ["listed 1", "opened", "holds 1", "panicked"]);
    fake.send(EventType::Added, "garbage");
    fake.delete(&key("a"));
    settle().await;
    fake.break_connections();
    settle().await;
    let told = std::mem::take(&mut *metrics.0.lock());
    let expected = ["Added", "reading one of configmaps", "Deleted", "holds 0", "panicked", "watching configmaps"];
    assert_eq!(told[..6], expected);
    assert_eq!(told[6..], ["ended after 2", "opened"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn late_decode_errors_are_counted() {
    let fake = FakeListWatch::new();
    let mut odd = map("odd");
    odd["data"] = json!("no map");
    fake.apply(&odd);
    for (decoding, told_early) in [(Decoding::OnUse, 0), (Decoding::Early, 1)] {
        let metrics = Arc::new(Counted::default());
        let options = InformerOptions::default().decoding(decoding).metrics(Arc::clone(&metrics) as _);
        let informer = Maps::new(Arc::new(fake.clone()), options);
        let run = Run::synced(&informer).await;
        let failed = || metrics.0.lock().iter().filter(|told| **told == "decoding data of ConfigMap n/odd").count();
        assert_eq!(failed(), told_early);
        let object = informer.store().get(&ObjectRef::new("odd").within("n")).unwrap();
        assert!(object.get().is_err() && object.at::<Vec<u8>>(&["data"]).is_err());
        assert_eq!(failed(), told_early + 2);
        run.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn steps_are_counted_per_change_and_per_list() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    fake.apply(&map("b"));
    let metrics = Arc::new(Counted::default());
    let informer = Maps::new(Arc::new(fake.clone()), InformerOptions::default().metrics(Arc::clone(&metrics) as _));
    let run = Run::synced(&informer).await;
    for name in ["c", "d", "e"] {
        fake.apply(&map(name));
    }
    fake.delete(&key("a"));
    settle().await;
    let mut steps = std::mem::take(&mut *metrics.0.lock());
    steps.retain(|told| told.starts_with("holds"));
    assert_eq!(steps, ["holds 2", "holds 3", "holds 4", "holds 5", "holds 4"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn watched_objects_over_the_budget_are_compressed() {
    let (fake, object) = (FakeListWatch::new(), |name: &str| {
        let mut object = map(name);
        object["data"]["k"] = "the same again, ".repeat(40).into();
        object
    });
    fake.apply(&object("listed"));
    let options = || InformerOptions::default().entropy(Entropy::seeded(1)).budget(0);
    let informer = Maps::new(Arc::new(fake.clone()), options());
    let run = Run::synced(&informer).await;
    let mirrored = Arc::new(ThreadSafeMap::<ConfigMap>::new());
    let sink = Mirror(Arc::clone(&mirrored));
    let reflector = Reflector::new(Arc::new(fake.clone()), ConfigMap::api_resource(), sink, options());
    let reflecting = tokio::spawn(reflector.run());
    settle().await;
    fake.apply(&object("watched"));
    settle().await;
    for name in ["listed", "watched"] {
        let stored = informer.store().get(&ObjectRef::new(name).within("n")).unwrap();
        let reflected = mirrored.get(&key(name)).unwrap();
        assert!(stored.entry().body.is_packed() && reflected.entry().body.is_packed(), "{name}");
        assert_eq!(stored.get().unwrap().data.as_ref().unwrap()["k"].len(), 640);
    }
    reflecting.abort();
    run.stop().await;
}
