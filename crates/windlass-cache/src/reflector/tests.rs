//! Tests of the driver with a fake server; the state machine has its own tests.

use futures::FutureExt;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass_api::{Backoff, Resource};

use super::*;
use crate::{
    event_queue::InOrder,
    options::InitialSync,
    pipe::{Feed, Pipe},
    store::StoreWriter,
    testing::{FakeListWatch, Request, Verb, WatchList},
};

struct Rig {
    fake: FakeListWatch,
    pipe: Arc<Pipe<ConfigMap>>,
    errors: Arc<Mutex<Vec<String>>>,
    writer: StoreWriter<ConfigMap>,
    task: tokio::task::JoinHandle<()>,
}

impl Rig {
    fn new(fake: &FakeListWatch, options: InformerOptions) -> Self {
        Self::over(fake, Arc::new(fake.clone()), options)
    }

    /// Sends requests through `list_watch` instead of directly to the fake server.
    fn over(fake: &FakeListWatch, list_watch: Arc<dyn ListWatch>, options: InformerOptions) -> Self {
        let errors = Arc::new(Mutex::new(Vec::new()));
        let hook = Arc::clone(&errors);
        let options = options
            .entropy(Entropy::seeded(1))
            .on_error(move |error| hook.lock().push(format!("{error}: {}", crate::error::causes(error))));
        let writer = StoreWriter::new(|_, _, _| ());
        let pipe = Arc::new(Pipe::new(Box::new(InOrder::new()), 100));
        let store = writer.store().clone();
        let feed = Feed { pipe: Arc::clone(&pipe), store };
        let reflector = Reflector::new(list_watch, ConfigMap::api_resource(), feed, options);
        Self { fake: fake.clone(), pipe, errors, writer, task: tokio::spawn(reflector.run()) }
    }

    /// Returns the next delta as text. Fails if none arrives within an hour.
    async fn next(&mut self) -> String {
        let popped = tokio::time::timeout(Duration::from_hours(1), self.pipe.pop()).await.expect("a delta arrives");
        let name = |object: &Cached<ConfigMap>| format!("{}@{}", object.key(), object.meta().resource_version());
        match popped.delta {
            Delta::Added(object) => format!("added {}", name(&object)),
            Delta::Updated(object) => format!("updated {}", name(&object)),
            Delta::Deleted(deleted) => format!("deleted {}", name(&deleted.object)),
            Delta::ReplacedAll { objects, version } => {
                let names: Vec<_> = objects.iter().map(name).collect();
                self.writer.replace(objects, version.clone());
                format!("all [{}] @{version}", names.join(" "))
            }
            Delta::Bookmark(version) => format!("at {version}"),
            other => format!("{other:?}"),
        }
    }

    fn lists(&self) -> Vec<ListOptions> {
        let lists = self.fake.requests().into_iter();
        lists.filter_map(|request| if let Request::List(options) = request { Some(options) } else { None }).collect()
    }

    fn watches(&self) -> Vec<WatchOptions> {
        let watches = self.fake.requests().into_iter();
        watches.filter_map(|request| if let Request::Watch(options) = request { Some(options) } else { None }).collect()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn map(name: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "namespace": "n"}})
}

fn by_list() -> InformerOptions {
    InformerOptions::default().initial_sync(InitialSync::List)
}

fn refused() -> ListWatchError {
    ListWatchError::Transport(io::Error::from(io::ErrorKind::ConnectionRefused).into())
}

#[tokio::test(start_paused = true)]
async fn watch_list_delivers_the_initial_objects() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let mut rig = Rig::new(&fake, InformerOptions::default());
    assert_eq!(rig.next().await, "all [n/a@2] @2");
    fake.apply(&map("b"));
    fake.apply(&map("a"));
    fake.delete(&"n/b".parse().unwrap());
    fake.bookmark();
    assert_eq!(rig.next().await, "added n/b@3");
    assert_eq!(rig.next().await, "updated n/a@4");
    assert_eq!(rig.next().await, "deleted n/b@5");
    assert_eq!(rig.next().await, "at 5");
    assert_eq!((rig.lists().len(), rig.watches().len()), (0, 1));
    assert!(rig.errors.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn server_without_watch_list_is_listed_without_error() {
    let fake = FakeListWatch::new();
    fake.watch_list(WatchList::Refused);
    fake.apply(&map("a"));
    let start = Instant::now();
    let mut rig = Rig::new(&fake, InformerOptions::default());
    assert_eq!(rig.next().await, "all [n/a@2] @2");
    assert_eq!(start.elapsed(), Duration::ZERO);
    fake.apply(&map("b"));
    assert_eq!(rig.next().await, "added n/b@3");
    assert!(rig.errors.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn watches_last_5_to_10_minutes_and_follow_at_once() {
    let fake = FakeListWatch::new();
    let mut rig = Rig::new(&fake, by_list());
    assert_eq!(rig.next().await, "all [] @1");
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_mins(10)).await;
    }
    let watches = rig.watches();
    let timeouts: Vec<_> = watches.iter().map(|options| options.timeout.unwrap().as_secs_f64()).collect();
    assert!(timeouts.iter().all(|timeout| (300.0..=600.0).contains(timeout)), "{timeouts:?}");
    assert!(timeouts.iter().any(|timeout| (timeout - timeouts[0]).abs() > 10.0), "random: {timeouts:?}");
    assert!((20..=40).contains(&watches.len()), "{}", watches.len());
    assert!(watches.iter().all(|options| options.resource_version.as_deref() == Some("1")));
    assert_eq!(rig.lists().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_does_not_end_when_it_should_counts_as_dead() {
    #[derive(Debug)]
    struct Dead(FakeListWatch);
    type Stream<T> = BoxStream<'static, Result<T, ListWatchError>>;
    impl ListWatch for Dead {
        fn list(
            &self,
            options: ListOptions,
        ) -> futures::future::BoxFuture<'_, Result<Stream<ListItem>, ListWatchError>> {
            self.0.list(options)
        }
        fn watch(
            &self,
            mut options: WatchOptions,
        ) -> futures::future::BoxFuture<'_, Result<Stream<RawEvent>, ListWatchError>> {
            options.timeout = None;
            self.0.watch(options)
        }
    }
    let fake = FakeListWatch::new();
    let writer = StoreWriter::<ConfigMap>::new(|_, _, _| ());
    let pipe = Arc::new(Pipe::new(Box::new(InOrder::new()), 100));
    let feed = Feed { pipe, store: writer.store().clone() };
    let reflector = Reflector::new(Arc::new(Dead(fake.clone())), ConfigMap::api_resource(), feed, by_list());
    let start = Instant::now();
    let second_watch = async {
        while fake.requests().iter().filter(|request| matches!(request, Request::Watch(_))).count() < 2 {
            sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = reflector.run() => panic!("the reflector ended"),
        () = second_watch => {}
    }
    // The timeout of the first watch is between 5 and 10 minutes, and 30 seconds are added to it.
    let waited = start.elapsed().as_secs();
    assert!((330..=635).contains(&waited), "{waited} s");
    let asked: Vec<_> = fake.requests().iter().map(|request| matches!(request, Request::Watch(_))).collect();
    assert_eq!(asked, [false, true, false, true], "a list, a watch, a probe, and the next watch");
    assert_eq!(fake.open_streams(), 0, "dropping the reflector ends the requests");
}

#[tokio::test(start_paused = true)]
async fn broken_watch_resumes_from_the_last_bookmark() {
    let fake = FakeListWatch::new();
    let mut rig = Rig::new(&fake, by_list().labels("app=web").fields("metadata.name=a"));
    rig.next().await;
    fake.advance();
    fake.bookmark();
    assert_eq!(rig.next().await, "at 2");
    fake.break_connections();
    fake.fail(Verb::Watch, refused());
    fake.fail(Verb::Watch, refused());
    fake.apply(&map("a"));
    assert_eq!(rig.next().await, "added n/a@3");
    let from: Vec<_> = rig.watches().into_iter().map(|options| options.resource_version.unwrap()).collect();
    assert_eq!(from, ["1", "2", "2", "2"]);
    let probes = rig.lists().split_off(1);
    assert_eq!(probes.len(), 3);
    assert!(probes.iter().all(|options| (options.limit, &options.resource_version) == (Some(1), &None)), "{probes:?}");
    let selected = |options: &ListOptions| (options.labels.clone(), options.fields.clone());
    let allowed = (Some("app=web".to_owned()), Some("metadata.name=a".to_owned()));
    assert!(probes.iter().all(|options| selected(options) == allowed), "only the selected objects: {probes:?}");
    assert_eq!(rig.errors.lock().len(), 3);
    assert_eq!(rig.errors.lock()[1], "watching configmaps: the connection to the server failed: connection refused");
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_leads_to_a_list_that_does_not_go_back() {
    for options in [by_list(), InformerOptions::default()] {
        let fake = FakeListWatch::new();
        let mut rig = Rig::new(&fake, options);
        assert_eq!(rig.next().await, "all [] @1");
        fake.disconnect();
        fake.apply(&map("a"));
        fake.apply(&map("a"));
        fake.compact();
        assert_eq!(rig.next().await, "all [n/a@3] @3");
        for error in rig.errors.lock().iter() {
            assert!(error.starts_with("watching configmaps: the server answered 410"), "{error}");
        }
        fake.apply(&map("b"));
        assert_eq!(rig.next().await, "added n/b@4");
    }
}

#[tokio::test(start_paused = true)]
async fn storage_that_was_replaced_is_read_from_scratch() {
    for options in [by_list(), InformerOptions::default()] {
        let fake = FakeListWatch::new();
        for _ in 0..10 {
            fake.apply(&map("a"));
        }
        let mut rig = Rig::new(&fake, options);
        assert_eq!(rig.next().await, "all [n/a@11] @11");
        // The watch continues on another storage.
        let mut older = map("b");
        older["metadata"]["resourceVersion"] = json!("3");
        fake.send(EventType::Added, older.to_string());
        assert_eq!(rig.next().await, "all [n/a@11] @11");
        let lists = rig.lists().pop().map(|options| options.resource_version);
        let watches = rig.watches().pop().map(|options| options.resource_version);
        assert!(lists.or(watches) == Some(None), "the most recent state, whatever its version");
    }
}

#[tokio::test(start_paused = true)]
async fn replaced_storage_is_relisted_at_once() {
    for how in [FakeListWatch::break_connections, FakeListWatch::disconnect] {
        for options in [by_list(), InformerOptions::default()] {
            let fake = FakeListWatch::new();
            for _ in 0..10 {
                fake.apply(&map("a"));
            }
            let mut rig = Rig::new(&fake, options);
            assert_eq!(rig.next().await, "all [n/a@11] @11");
            sleep(Duration::from_secs(10)).await;
            how(&fake);
            fake.lose_everything();
            let start = Instant::now();
            assert_eq!(rig.next().await, "all [] @1");
            assert!(start.elapsed() < Duration::from_secs(1), "this requires neither a bookmark nor an event");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_back_off_with_jitter() {
    let fake = FakeListWatch::new();
    for _ in 0..8 {
        fake.fail(Verb::List, Status::internal("no").into());
    }
    let start = Instant::now();
    let mut rig = Rig::new(&fake, by_list());
    rig.next().await;
    // 0.8 + 1.6 + 3.2 + 6.4 + 12.8 + 25.6 + 30 + 30 s, each up to twice as long.
    let waited = start.elapsed().as_secs_f64();
    assert!((110.4..=220.8).contains(&waited), "{waited}");
    assert_eq!(
        rig.errors.lock()[0],
        "listing configmaps: the server answered 500 InternalError: Internal error occurred: no"
    );
}

#[tokio::test(start_paused = true)]
async fn custom_back_off_and_timeout_replace_the_defaults() {
    let fake = FakeListWatch::new();
    for _ in 0..4 {
        fake.fail(Verb::List, Status::internal("no").into());
    }
    let start = Instant::now();
    let backoff = Backoff::new(Duration::from_secs(7)).factor(1.0);
    let mut rig = Rig::new(&fake, by_list().backoff(backoff).min_watch_timeout(Duration::from_mins(30)));
    rig.next().await;
    assert_eq!(start.elapsed(), Duration::from_secs(28));
    let timeout = rig.watches()[0].timeout.unwrap();
    assert!((30..=60).contains(&(timeout.as_secs() / 60)), "{timeout:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_busy_is_given_the_time_it_asks_for() {
    let fake = FakeListWatch::new();
    fake.fail(Verb::List, Status::too_many_requests("busy", 77).into());
    let start = Instant::now();
    Rig::new(&fake, by_list()).next().await;
    assert_eq!(start.elapsed(), Duration::from_secs(77));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_backs_off_and_lists() {
    let fake = FakeListWatch::new();
    let mut rig = Rig::new(&fake, by_list());
    rig.next().await;
    let start = Instant::now();
    tokio::task::yield_now().await;
    fake.disconnect();
    assert_eq!(rig.next().await, "all [] @1");
    assert!(start.elapsed() >= Duration::from_millis(800));
    assert_eq!(rig.lists()[1].resource_version.as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn pages_are_joined_and_expired_ones_become_a_full_list() {
    /// Deletes an object after the first page, so that the next has expired.
    #[derive(Debug)]
    struct Shrinking(FakeListWatch);
    type Stream<T> = BoxStream<'static, Result<T, ListWatchError>>;
    impl ListWatch for Shrinking {
        fn list(
            &self,
            options: ListOptions,
        ) -> futures::future::BoxFuture<'_, Result<Stream<ListItem>, ListWatchError>> {
            let first = self.0.requests().is_empty();
            let items = self.0.list(options);
            if first {
                self.0.delete(&"n/a".parse().unwrap());
            }
            items
        }
        fn watch(
            &self,
            options: WatchOptions,
        ) -> futures::future::BoxFuture<'_, Result<Stream<RawEvent>, ListWatchError>> {
            self.0.watch(options)
        }
    }
    let filled = || {
        let fake = FakeListWatch::new();
        fake.page_size(2);
        for name in ["a", "b", "c", "d", "e"] {
            fake.apply(&map(name));
        }
        fake
    };
    let fake = filled();
    let mut rig = Rig::new(&fake, by_list());
    assert_eq!(rig.next().await, "all [n/a@2 n/b@3 n/c@4 n/d@5 n/e@6] @6");
    assert_eq!(rig.lists().len(), 3);

    let fake = filled();
    let mut rig = Rig::over(&fake, Arc::new(Shrinking(fake.clone())), by_list());
    assert_eq!(rig.next().await, "all [n/b@3 n/c@4 n/d@5 n/e@6] @7");
    assert_eq!(rig.lists().len(), 3, "a page, an expired page, and the whole list");
}

#[tokio::test(start_paused = true)]
async fn truncated_list_is_requested_again() {
    #[derive(Debug)]
    struct Cut(FakeListWatch);
    type Stream<T> = BoxStream<'static, Result<T, ListWatchError>>;
    impl ListWatch for Cut {
        fn list(
            &self,
            options: ListOptions,
        ) -> futures::future::BoxFuture<'_, Result<Stream<ListItem>, ListWatchError>> {
            let first = self.0.requests().is_empty();
            Box::pin(async move {
                let items = self.0.list(options).await?;
                Ok(if first { items.take(1).boxed() } else { items })
            })
        }
        fn watch(
            &self,
            options: WatchOptions,
        ) -> futures::future::BoxFuture<'_, Result<Stream<RawEvent>, ListWatchError>> {
            self.0.watch(options)
        }
    }
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    fake.apply(&map("b"));
    let writer = StoreWriter::<ConfigMap>::new(|_, _, _| ());
    let pipe = Arc::new(Pipe::new(Box::new(InOrder::new()), 100));
    let feed = Feed { pipe: Arc::clone(&pipe), store: writer.store().clone() };
    let reflector = Reflector::new(Arc::new(Cut(fake.clone())), ConfigMap::api_resource(), feed, by_list());
    let popped = tokio::select! { () = reflector.run() => unreachable!(), popped = pipe.pop() => popped };
    assert!(
        matches!(popped.delta, Delta::ReplacedAll { objects, .. } if objects.len() == 2),
        "never a part of the list"
    );
}

#[tokio::test(start_paused = true)]
async fn undecodable_object_is_reported_and_skipped() {
    let fake = FakeListWatch::new();
    let mut rig = Rig::new(&fake, InformerOptions::default());
    rig.next().await;
    fake.send(EventType::Added, "garbage");
    fake.send(EventType::Modified, r#"{"metadata":{"namespace":"n"}}"#);
    fake.send(EventType::Added, r#"{"kind":"Table","metadata":{"name":"t"}}"#);
    fake.apply(&map("a"));
    assert_eq!(rig.next().await, "added n/a@2");
    let errors: Vec<_> = rig.errors.lock().iter().map(|error| error.split(": ").nth(1).unwrap().to_owned()).collect();
    assert_eq!(
        errors,
        ["the metadata cannot be read", "the object has no name", "the object is a Table, not a ConfigMap"]
    );
}

fn grown(name: &str) -> Value {
    let mut map = map(name);
    map["metadata"]["uid"] = json!(name);
    map["data"] = json!({"large": "x".repeat(2_000)});
    map
}

#[tokio::test(start_paused = true)]
async fn oversized_object_is_reported_and_skipped() {
    for options in [by_list(), InformerOptions::default()] {
        let fake = FakeListWatch::new();
        fake.object_limit(1_000);
        fake.apply(&map("a"));
        fake.apply(&grown("b"));
        fake.apply(&map("c"));
        let mut rig = Rig::new(&fake, options);
        assert_eq!(rig.next().await, "all [n/a@2 n/c@4] @4");
        let is_told = |rig: &Rig, place: &str, name: &str| {
            let error = rig.errors.lock().pop().unwrap();
            let told = format!("reading one of configmaps: the object is too large: {place}, n/{name}, has 2");
            assert!(error.starts_with(&told) && error.contains("no more than 1000 are read"), "{error}");
        };
        is_told(&rig, if rig.lists().is_empty() { "event 2 of the watch (ADDED)" } else { "item 2 of the list" }, "b");
        let lists = rig.lists().len();
        fake.apply(&grown("d"));
        assert_eq!(rig.next().await, "at 5", "the next watch starts after it");
        is_told(&rig, if lists == 0 { "event 5 of the watch (ADDED)" } else { "event 1 of the watch (ADDED)" }, "d");
        fake.apply(&map("e"));
        assert_eq!(rig.next().await, "added n/e@6");
        assert_eq!((rig.lists().len(), rig.watches().len(), rig.errors.lock().len()), (lists, 1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn oversized_update_keeps_the_old_object_until_deleted() {
    for options in [by_list(), InformerOptions::default()] {
        let fake = FakeListWatch::new();
        fake.object_limit(1_000);
        let mut small = map("a");
        small["metadata"]["uid"] = json!("a");
        fake.apply(&small);
        fake.apply(&map("b"));
        let mut rig = Rig::new(&fake, options);
        assert_eq!(rig.next().await, "all [n/a@2 n/b@3] @3");
        fake.apply(&grown("a"));
        assert_eq!(rig.next().await, "at 4");
        fake.send_error(&Status::internal("no"));
        assert_eq!(rig.next().await, "all [n/a@2 n/b@3] @4", "a list again leaves it as it is");
        fake.delete(&"n/a".parse().unwrap());
        assert_eq!(rig.next().await, "all [n/b@3] @5", "a list tells that it is gone");
        fake.apply(&grown("b"));
        assert_eq!(rig.next().await, "at 6");
        rig.errors.lock().clear();
        fake.send_error(&Status::internal("no"));
        assert_eq!(rig.next().await, "all [] @6", "another object of the same name is left out");
        assert!(rig.errors.lock().iter().any(|error| error.contains("n/b, has 2")));
    }
}

#[tokio::test(start_paused = true)]
async fn probe_and_comparison_ignore_oversized_objects() {
    let fake = FakeListWatch::new();
    fake.object_limit(1_000);
    fake.apply(&grown("a"));
    fake.apply(&map("b"));
    let mut rig = Rig::new(&fake, InformerOptions::default().verification(Verification::Compare));
    assert_eq!(rig.next().await, "all [n/b@3] @3");
    fake.break_connections();
    settle().await;
    fake.apply(&map("c"));
    assert_eq!(rig.next().await, "added n/c@4");
    let errors = rig.errors.lock().clone();
    let told = ["the object is too large", "the connection to the server failed"];
    assert_eq!(errors.iter().map(|error| error.split(": ").nth(1).unwrap()).collect::<Vec<_>>(), told);
}

#[tokio::test(start_paused = true)]
async fn undecodable_bookmark_or_error_causes_a_relist() {
    for event_type in [EventType::Bookmark, EventType::Error] {
        let fake = FakeListWatch::new();
        let mut rig = Rig::new(&fake, by_list());
        rig.next().await;
        fake.send(event_type, "garbage");
        assert_eq!(rig.next().await, "all [] @1");
        assert_eq!(rig.errors.lock()[0].split(": ").nth(1), Some("the response of the server cannot be decoded"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_again_reuses_the_entries_that_did_not_change() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    fake.apply(&map("b"));
    for options in [by_list(), InformerOptions::default()] {
        let mut rig = Rig::new(&fake, options);
        rig.next().await;
        let before = rig.writer.store().list();
        fake.apply(&map("b"));
        rig.next().await;
        fake.send_error(&Status::expired("too old"));
        assert!(rig.next().await.starts_with("all [n/a@2 n/b@"));
        let after = rig.writer.store().list();
        assert!(after[0].ptr_eq(&before[0]) && !after[1].ptr_eq(&before[1]));
    }
}

#[tokio::test(start_paused = true)]
async fn changes_during_the_initial_events_are_included() {
    let fake = FakeListWatch::new();
    for name in ["a", "b", "c"] {
        fake.apply(&map(name));
    }
    fake.hold_initial_end();
    let mut rig = Rig::new(&fake, InformerOptions::default());
    sleep(Duration::from_secs(1)).await;
    fake.delete(&"n/a".parse().unwrap());
    fake.apply(&map("b"));
    fake.apply(&map("d"));
    sleep(Duration::from_mins(1)).await;
    fake.send_initial_end();
    assert_eq!(rig.next().await, "all [n/b@6 n/c@4 n/d@7] @7");
}

#[tokio::test(start_paused = true)]
async fn a_present_state_that_breaks_off_leaves_nothing_behind() {
    let fake = FakeListWatch::new();
    let mut rig = Rig::new(&fake, InformerOptions::default());
    assert_eq!(rig.next().await, "all [] @1");
    for broken in [Status::expired("too old"), Status::too_many_requests("busy", 1)] {
        fake.apply(&map("a"));
        assert!(rig.next().await.starts_with("added"));
        fake.hold_initial_end();
        fake.send_error(&Status::expired("too old"));
        sleep(Duration::from_secs(10)).await;
        assert_eq!(fake.open_streams(), 1, "a watch with an initial event but without its end");
        fake.send_error(&broken);
        fake.delete(&"n/a".parse().unwrap());
        sleep(Duration::from_secs(10)).await;
        fake.send_initial_end();
        assert_eq!(rig.next().await, format!("all [] @{}", fake.version()));
    }
}

#[tokio::test(start_paused = true)]
async fn first_attempt_is_immediate_and_delays_share_a_back_off() {
    let fake = FakeListWatch::new();
    fake.fail(Verb::List, Status::internal("no").into());
    fake.fail(Verb::List, Status::internal("no").into());
    fake.fail(Verb::Watch, refused());
    let start = Instant::now();
    let mut rig = Rig::new(&fake, by_list());
    settle().await;
    assert_eq!((rig.lists().len(), start.elapsed() < Duration::from_millis(2)), (1, true));
    assert_eq!(rig.next().await, "all [] @1");
    let listed = start.elapsed().as_secs_f64();
    assert!((2.4..=4.8).contains(&listed), "0.8 + 1.6 s, each up to twice as long: {listed}");
    fake.apply(&map("a"));
    assert_eq!(rig.next().await, "added n/a@2");
    let watched = start.elapsed().as_secs_f64() - listed;
    assert!((3.2..=6.4).contains(&watched), "the next delay, not the first again: {watched}");
}

#[tokio::test(start_paused = true)]
async fn future_version_is_given_up_at_once() {
    for unreached in [Status::too_large_resource_version(1, 0), Status::expired("gone")] {
        let fake = FakeListWatch::new();
        let mut rig = Rig::new(&fake, by_list());
        rig.next().await;
        fake.send_error(&Status::internal("no"));
        fake.fail(Verb::List, unreached.into());
        assert_eq!(rig.next().await, "all [] @1");
        let asked: Vec<_> = rig.lists().into_iter().map(|options| options.resource_version).collect();
        assert_eq!(asked, [Some("0".to_owned()), Some("1".to_owned()), None]);
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_annotated_bookmark_ends_initial_events() {
    let fake = FakeListWatch::new();
    fake.hold_initial_end();
    let mut rig = Rig::new(&fake, InformerOptions::default());
    settle().await;
    fake.bookmark();
    let annotated = |value: &str| {
        json!({"metadata": {"resourceVersion": "5", "annotations": {"k8s.io/initial-events-end": value}}}).to_string()
    };
    fake.send(EventType::Bookmark, annotated("false"));
    settle().await;
    assert!(
        rig.pipe.pop().now_or_never().is_none(),
        "neither a bookmark without the annotation nor one with another value"
    );
    fake.send(EventType::Bookmark, annotated("true"));
    assert_eq!(rig.next().await, "all [] @5");
}

#[tokio::test(start_paused = true)]
async fn any_error_event_ends_the_watch() {
    for status in [Status::internal("no"), Status::bad_request("no"), Status::expired("old")] {
        let fake = FakeListWatch::new();
        let mut rig = Rig::new(&fake, by_list());
        rig.next().await;
        // The stream stays open after the error.
        fake.send(EventType::Error, serde_json::to_vec(&status).unwrap());
        settle().await;
        assert_eq!(fake.open_streams(), 0, "the stream was dropped");
        assert_eq!(rig.next().await, "all [] @1");
    }
}

#[tokio::test(start_paused = true)]
async fn standalone_reflector_syncs_any_store() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let store = Arc::new(crate::collections::ThreadSafeMap::<ConfigMap>::new());
    let sink = Mirror(Arc::clone(&store));
    let changes = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&changes);
    let closure = move |delta: Delta<ConfigMap>| log.lock().push(format!("{delta:?}"));
    let resource = ConfigMap::api_resource();
    let following = [
        tokio::spawn(Reflector::new(Arc::new(fake.clone()), resource.clone(), sink, by_list()).run()),
        tokio::spawn(Reflector::new(Arc::new(fake.clone()), resource, closure, by_list()).run()),
    ];
    settle().await;
    fake.apply(&map("b"));
    fake.delete(&"n/a".parse().unwrap());
    settle().await;
    let names = |store: &crate::collections::ThreadSafeMap<ConfigMap>| {
        store.list().iter().map(|object| object.key().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&store), ["n/b"]);
    let added = "Added(Cached(ConfigMap n/b @3))";
    let deleted = "Deleted(Deleted { object: Cached(ConfigMap n/a @4), state: Final })";
    assert_eq!(changes.lock()[1..], [added, deleted]);
    fake.disconnect();
    fake.delete(&"n/b".parse().unwrap());
    fake.compact();
    sleep(Duration::from_mins(1)).await;
    assert_eq!(names(&store), [""; 0], "a list removes deleted objects");
    following.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn watch_start_with_410_causes_a_relist() {
    let fake = FakeListWatch::new();
    fake.fail(Verb::Watch, Status::expired("too old").into());
    let mut rig = Rig::new(&fake, by_list());
    assert_eq!([rig.next().await, rig.next().await], ["all [] @1"; 2]);
    fake.apply(&map("a"));
    assert_eq!(rig.next().await, "added n/a@2");
    assert_eq!((rig.lists().len(), rig.watches().len()), (2, 2));
}

/// Captures the log of this thread while the guards exist.
///
/// While only one dispatcher exists, `tracing` disables a log statement for the whole process if a thread without a
/// subscriber reaches it first. The second dispatcher prevents this.
fn logged() -> (Arc<Mutex<Vec<u8>>>, (tracing::Dispatch, tracing::subscriber::DefaultGuard)) {
    struct Log(Arc<Mutex<Vec<u8>>>);
    impl io::Write for Log {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(text);
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let text = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&text);
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || Log(Arc::clone(&log))).finish();
    let second = tracing::Dispatch::new(tracing_subscriber::registry());
    (text, (second, tracing::subscriber::set_default(subscriber)))
}

#[tokio::test(start_paused = true)]
async fn missing_bookmark_is_reported_every_ten_seconds() {
    let (log, _guard) = logged();
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    fake.hold_initial_end();
    let mut rig = Rig::new(&fake, InformerOptions::default());
    let warned = || {
        let log = String::from_utf8(log.lock().clone()).unwrap();
        log.lines().filter(|line| line.contains("WARN") && line.contains("still waiting for the bookmark")).count()
    };
    for (seconds, times) in [(9, 0), (10, 1), (10, 2), (10, 3)] {
        sleep(Duration::from_secs(seconds)).await;
        assert_eq!(warned(), times);
    }
    fake.send_initial_end();
    assert_eq!(rig.next().await, "all [n/a@2] @2");
    sleep(Duration::from_mins(1)).await;
    assert_eq!(warned(), 3, "the wait is over");
}

/// A server whose initial events omit one of the listed objects.
#[derive(Debug)]
struct Forgetful(FakeListWatch);

impl ListWatch for Forgetful {
    fn list(
        &self,
        options: ListOptions,
    ) -> futures::future::BoxFuture<'_, Result<BoxStream<'static, Result<ListItem, ListWatchError>>, ListWatchError>>
    {
        self.0.list(options)
    }

    fn watch(
        &self,
        options: WatchOptions,
    ) -> futures::future::BoxFuture<'_, Result<BoxStream<'static, Result<RawEvent, ListWatchError>>, ListWatchError>>
    {
        Box::pin(async move { Ok(self.0.watch(options).await?.skip(1).boxed()) })
    }
}

#[tokio::test(start_paused = true)]
async fn consistency_check_detects_watch_list_differences() {
    for (verification, found) in [(Verification::Trust, 0), (Verification::Compare, 1)] {
        let fake = FakeListWatch::new();
        fake.apply(&map("a"));
        fake.apply(&map("b"));
        let errors = Arc::new(Mutex::new(Vec::new()));
        for server in [Arc::new(fake.clone()) as Arc<dyn ListWatch>, Arc::new(Forgetful(fake.clone()))] {
            let log = Arc::clone(&errors);
            let options = InformerOptions::default().verification(verification);
            let options = options.on_error(move |error| log.lock().push(error.to_string()));
            let (sender, mut changes) = tokio::sync::mpsc::unbounded_channel();
            let sink = move |delta: Delta<ConfigMap>| _ = sender.send(delta);
            let run = tokio::spawn(Reflector::new(server, ConfigMap::api_resource(), sink, options).run());
            assert!(
                matches!(changes.recv().await, Some(Delta::ReplacedAll { .. })),
                "the difference is reported, and the reflector continues"
            );
            run.abort();
        }
        let message = "the initial events of configmaps differ from a list at version 3, first at n/a";
        assert_eq!(*errors.lock(), vec![message; found]);
    }
}

async fn settle() {
    sleep(Duration::from_millis(1)).await;
}
