//! Random interleavings of changes and failures: no change is lost, and no state goes back.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::AtomicUsize,
};

use windlass_api::{EventType, ListWatchError};

use super::*;
use crate::{Transform, testing::WatchList};

/// The objects as seen by a handler, and a check that each notification is a legal step.
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
                assert!(before.ptr_eq(&old), "an update starts from the last delivered state: {before:?} {old:?}");
                let version = |object: &Cached<_>| object.meta().resource_version().as_u64();
                // A replaced storage restarts the versions, and its objects have other UIDs.
                let is_same = old.meta().uid() == new.meta().uid();
                assert!(!is_same || version(&new) >= version(&old), "versions never decrease: {old:?} {new:?}");
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

/// The size above which objects are not read.
const LIMIT: usize = 1_000;

/// One interleaving: a server, an informer, and handlers that are added and removed.
struct Play {
    seed: u64,
    entropy: Entropy,
    fake: FakeListWatch,
    informer: Maps,
    handlers: Vec<(Registration, Belief)>,
    /// The objects that are currently too large for the informer to read.
    large: BTreeSet<String>,
    /// The number of illegal notifications.
    illegal: Arc<AtomicUsize>,
}

fn by_app(name: &str) -> Index<ConfigMap> {
    Index::on_meta(name, |meta| meta.label("app").map(str::to_owned))
}

fn state(object: &Cached<ConfigMap>) -> (String, u64) {
    (object.key().to_string(), object.meta().resource_version().as_u64().unwrap())
}

impl Play {
    /// Chooses the initial sync, the queue and the transform at random.
    fn new(seed: u64) -> Self {
        let entropy = Entropy::seeded(seed);
        let fake = FakeListWatch::new();
        if entropy.below(3) == 0 {
            fake.page_size(2);
        }
        let how = if entropy.below(3) == 0 { InitialSync::List } else { InitialSync::Watch };
        let mut options = InformerOptions::default().entropy(Entropy::seeded(seed)).initial_sync(how).queue_capacity(3);
        if entropy.below(3) == 0 {
            options = options.transform(Transform::without(["/data"]));
        }
        let informer = Maps::new(Arc::new(fake.clone()), options);
        let informer = match entropy.below(3) {
            0 => informer,
            1 => informer.with_queue(OneByOne::new),
            _ => informer.with_queue(DeltaFifo::new),
        };
        fake.object_limit(LIMIT);
        let (handlers, large) = (Vec::new(), BTreeSet::new());
        Self { seed, entropy, fake, informer, handlers, large, illegal: Arc::default() }
    }

    fn add_handler(&mut self) {
        let (seed, belief, illegal) = (self.seed, Belief::default(), Arc::clone(&self.illegal));
        let mut inner = belief.clone();
        let handler = move |notification: Notification<ConfigMap>| {
            let text = format!("{notification:?}");
            if let Err(panic) = crate::panics::catch_panic(|| inner.handle(notification)) {
                illegal.fetch_add(1, Ordering::Relaxed);
                eprintln!("seed {seed}: {text}: {panic}");
            }
        };
        let options = match self.entropy.below(3) {
            0 => HandlerOptions::default(),
            1 => HandlerOptions::default().bounded(2),
            _ => HandlerOptions::default().resync(Duration::from_secs(20)),
        };
        self.handlers.push((self.informer.add_handler_with(handler, options), belief));
    }

    fn failure(&self) -> ListWatchError {
        match self.entropy.below(6) {
            0 => Status::expired("too old").into(),
            1 => Status::too_large_resource_version(9, 1).into(),
            2 => Status::too_many_requests("busy", 1).into(),
            3 => Status::internal("no").into(),
            4 => ListWatchError::Decode("garbage".into()),
            _ => ListWatchError::Transport(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into()),
        }
    }

    async fn step(&mut self) {
        let name = format!("m{}", self.entropy.below(5));
        match self.entropy.below(30) {
            0..=8 => {
                let mut object = map(&name);
                object["metadata"]["labels"] = json!({"app": format!("a{}", self.entropy.below(3))});
                self.fake.apply(&object);
                self.large.remove(&name);
            }
            9..=12 => self.fake.delete(&key(&name)),
            13 => self.fake.disconnect(),
            14 => self.fake.break_connections(),
            15 => self.fake.compact(),
            16 => self.fake.send_error(&Status::expired("too old")),
            17 => self.fake.fail(Verb::List, self.failure()),
            18 => self.fake.fail(Verb::Watch, self.failure()),
            19 => {
                let is_refused = self.entropy.below(2) == 0;
                self.fake.watch_list(if is_refused { WatchList::Refused } else { WatchList::Supported });
            }
            20 if self.entropy.below(2) == 0 => self.fake.hold_initial_end(),
            20 => self.fake.send_initial_end(),
            21 => self.fake.send(EventType::Added, "garbage"),
            22 => self.add_handler(),
            23 if self.handlers.len() > 1 => self.handlers.remove(0).0.remove(),
            24 => self.fake.bookmark(),
            25 => self.fake.send_garbage(),
            26 | 27 => {
                let mut object = map(&name);
                object["data"] = json!({"large": "x".repeat(LIMIT)});
                self.fake.apply(&object);
                self.large.insert(name);
            }
            28 if self.entropy.below(3) == 0 => self.lose_everything().await,
            _ => sleep(Duration::from_millis(self.entropy.below(30_000))).await,
        }
        if self.entropy.below(3) == 0 {
            settle().await;
        }
    }

    /// Replaces the storage and waits until the informer has noticed. Once the new versions reach the old ones, it
    /// could not be detected.
    async fn lose_everything(&mut self) {
        self.fake.lose_everything();
        self.large.clear();
        sleep(Duration::from_hours(1)).await;
    }

    /// Ends all failures and gives every handler the time to catch up.
    async fn calm_down(&mut self) {
        for name in std::mem::take(&mut self.large) {
            self.fake.apply(&map(&name));
        }
        self.fake.watch_list(WatchList::Supported);
        self.fake.send_initial_end();
        self.add_handler();
        sleep(Duration::from_hours(3)).await;
        for (registration, _) in &self.handlers {
            soon(registration.has_synced()).await.unwrap();
        }
        settle().await;
    }

    async fn check(&self) {
        let (seed, expected) = (self.seed, self.fake.objects());
        let mut held: Vec<_> = self.informer.store().list().iter().map(state).collect();
        held.sort();
        assert_eq!(held, expected, "seed {seed}");
        for (_, belief) in &self.handlers {
            assert_eq!(belief.0.lock().values().map(state).collect::<Vec<_>>(), expected, "seed {seed}");
        }
        self.informer.add_index(by_app("again")).await.unwrap();
        for app in ["a0", "a1", "a2"] {
            let found =
                |index| self.informer.store().by_index(index, app).unwrap().iter().map(state).collect::<Vec<_>>();
            assert_eq!(found("app"), found("again"), "seed {seed}");
        }
        let version = self.fake.apply(&map("last"));
        soon(self.informer.wait_for(&version.into())).await.unwrap();
        assert!(self.informer.store().get(&ObjectRef::new("last").within("n")).is_some(), "seed {seed}");
        assert_eq!(self.illegal.load(Ordering::Relaxed), 0, "seed {seed}: each step is legal");
    }
}

/// Random interleavings, with each queue, of changes, objects that are too large, cut and refused connections, garbage,
/// expired versions, lost storages, resyncs, and handlers that are added and removed. Each handler receives a legal
/// sequence, and in the end the store and all handlers have the server's state.
#[tokio::test(start_paused = true)]
async fn all_interleavings_end_with_the_servers_state() {
    for seed in 0..60 {
        let mut play = Play::new(seed);
        play.informer.add_index(by_app("app")).await.unwrap();
        play.add_handler();
        let run = Run::start(&play.informer);
        for _ in 0..150 {
            play.step().await;
        }
        play.calm_down().await;
        play.check().await;
        run.stop().await;
        assert_eq!(play.fake.open_streams(), 0);
    }
}
