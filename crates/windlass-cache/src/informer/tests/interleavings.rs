//! Nothing is lost and nothing goes back, whatever happens in whichever order.

use std::{collections::BTreeMap, sync::atomic::AtomicUsize};

use windlass_api::{EventType, ListWatchError};

use super::*;
use crate::{Transform, testing::WatchList};

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

/// Any interleaving of changes, cut and refused connections, expired versions and handlers that come and go, over each of the
/// queues: each handler is told a legal sequence, and in the end everybody knows what the server has.
#[tokio::test(start_paused = true)]
async fn whatever_happens_everybody_ends_up_with_what_the_server_has() {
    for seed in 0..60 {
        let entropy = Entropy::seeded(seed);
        let fake = FakeListWatch::new();
        if entropy.below(3) == 0 {
            fake.page_size(2);
        }
        let how = if entropy.below(3) == 0 { InitialSync::List } else { InitialSync::Watch };
        let mut options = InformerOptions::default().entropy(Entropy::seeded(seed)).initial_sync(how);
        if entropy.below(3) == 0 {
            options = options.transform(Transform::without(["/data"]));
        }
        let informer = Maps::new(Arc::new(fake.clone()), options.queue_capacity(3));
        let informer = match entropy.below(3) {
            0 => informer,
            1 => informer.with_queue(OneByOne::new),
            _ => informer.with_queue(DeltaFifo::new),
        };
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
            let options = match entropy.below(3) {
                0 => HandlerOptions::default(),
                1 => HandlerOptions::default().bounded(2),
                _ => HandlerOptions::default().resync(Duration::from_secs(20)),
            };
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
        let version = fake.apply(&map("last"));
        soon(informer.wait_for(&version.into())).await.unwrap();
        assert!(informer.store().get(&ObjectRef::new("last").within("n")).is_some(), "seed {seed}");
        fake.delete(&key("last"));
        settle().await;
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
