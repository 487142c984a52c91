//! Informers over sockets: against each server, over connections that break, and against servers that come back with what they
//! had, with less, or with nothing.

mod large;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, mpsc},
};

use conformance::{Target, eventually, on_each_target, unique};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};
use windlass_api::{ObjectExt, Patch, Resource};
use windlass_cache::{
    Cached, Deleted, DeletedState, Index, InformerOptions, InitialSync, Notification, OwnWrites, SharedInformer,
};
use windlass_client::{Auth, Client, Config, config::TlsOptions};
use windlass_server::{
    Server, TlsIdentity,
    storage::{MemoryStorage, Revision, Storage},
};

use crate::wire::Wire;

type Maps = SharedInformer<ConfigMap>;

/// An informer that is being run.
struct Run {
    informer: Maps,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Run {
    /// Of the ConfigMaps that the tests make in a namespace.
    fn start(client: &Client, namespace: &str, options: InformerOptions) -> Self {
        let list_watch = Arc::new(client.list_watch(&ConfigMap::api_resource(), Some(namespace)));
        Self::of(Maps::new(list_watch, options.labels("app=test")))
    }

    fn of(informer: Maps) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(informer.clone().run(async move { drop(stopped.await) }));
        Self { informer, stop, task }
    }

    async fn stop(self) {
        drop(self.stop);
        self.task.await.expect("an informer does not panic");
    }
}

/// What a handler must believe to be there, if every notification is a legal step from the one before.
#[derive(Clone, Default)]
struct Belief(Arc<Mutex<BTreeMap<String, String>>>);

impl Belief {
    fn of(informer: &Maps) -> Self {
        let belief = Self::default();
        let known = Arc::clone(&belief.0);
        let registration = informer.add_handler(move |news: Notification<ConfigMap>| {
            let mut known = known.lock();
            let key = news.key().to_string();
            let legal = match &news {
                Notification::Added { object, .. } => known.insert(key, version(object)).is_none(),
                Notification::Updated { old, new } => known.insert(key, version(new)) == Some(version(old)),
                Notification::Deleted(Deleted { object, state }) => {
                    known.remove(&key).is_some_and(|before| *state == DeletedState::Final || before == version(object))
                }
            };
            if !legal {
                // A panic would be contained: this is found by whoever compares.
                known.insert("illegal".to_owned(), format!("{news:?}"));
            }
        });
        drop(registration); // … which does not remove the handler.
        belief
    }
}

fn version(object: &Cached<ConfigMap>) -> String {
    object.meta().resource_version().to_string()
}

fn map(namespace: &str, name: &str) -> ConfigMap {
    let metadata = json!({"name": name, "namespace": namespace, "labels": {"app": "test"}});
    serde_json::from_value(json!({"metadata": metadata, "data": {"k": "v"}})).unwrap()
}

async fn make_namespace(target: &Target) -> String {
    let name = unique("informers");
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    target.client.create(&namespace).await.unwrap();
    name
}

async fn touch(client: &Client, namespace: &str, name: &str) {
    let patch = Patch::Merge(json!({"data": {unique("k"): "v"}}));
    client.patch::<ConfigMap>(name, patch).within(namespace).await.unwrap();
}

async fn on_server(client: &Client, namespace: &str) -> BTreeMap<String, String> {
    let list = client.list::<ConfigMap>().within(namespace).labels("app=test").await.unwrap();
    list.into_iter().map(|map| (map.object_ref().to_string(), map.resource_version().unwrap().to_owned())).collect()
}

/// Waits until the informer's store, and what its handler believes, is what the server has.
async fn until_equal(client: &Client, namespace: &str, informer: &Maps, belief: &Belief) {
    eventually("the informer has what the server has", || async {
        let expected = on_server(client, namespace).await;
        let held = informer.store().list().iter().map(|map| (map.key().to_string(), version(map))).collect();
        let believed = belief.0.lock().clone();
        (expected == held && expected == believed).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_informer_follows_each_server() {
    on_each_target(|target| async {
        let namespace = make_namespace(&target).await;
        let client = target.client.clone();
        for name in ["a", "b", "c", "d", "e"] {
            client.create(&map(&namespace, name)).await.unwrap();
        }
        let by_list = InformerOptions::default().initial_sync(InitialSync::List);
        for options in [InformerOptions::default(), by_list.clone(), by_list.page_size(2)] {
            let run = Run::start(&client, &namespace, options);
            let belief = Belief::of(&run.informer);
            let names = Index::on_meta("name", |meta| [Arc::clone(meta.name())]);
            run.informer.add_index(names).await.unwrap();
            run.informer.has_synced().await.unwrap();
            until_equal(&client, &namespace, &run.informer, &belief).await;
            client.create(&map(&namespace, "new")).await.unwrap();
            touch(&client, &namespace, "a").await;
            until_equal(&client, &namespace, &run.informer, &belief).await;
            assert_eq!(run.informer.store().by_index("name", "new").unwrap().len(), 1);
            client.delete::<ConfigMap>("new").within(&namespace).await.unwrap();
            until_equal(&client, &namespace, &run.informer, &belief).await;
            assert!(run.informer.store().by_index("name", "new").unwrap().is_empty());
            run.stop().await;
        }
        client.delete::<Namespace>(&*namespace).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn connections_that_are_cut_lose_nothing() {
    on_each_target(|target| async {
        let namespace = make_namespace(&target).await;
        let (client, wire) = (target.client.clone(), Wire::to(&target.config).await);
        let run = Run::start(&wire.client(&target.config), &namespace, InformerOptions::default());
        let belief = Belief::of(&run.informer);
        run.informer.has_synced().await.unwrap();
        for round in 0..5 {
            let name = format!("m{round}");
            client.create(&map(&namespace, &name)).await.unwrap();
            wire.cut();
            touch(&client, &namespace, &name).await;
            client.create(&map(&namespace, &format!("x{round}"))).await.unwrap();
            client.delete::<ConfigMap>(format!("x{round}")).within(&namespace).await.unwrap();
        }
        until_equal(&client, &namespace, &run.informer, &belief).await;
        run.stop().await;
        client.delete::<Namespace>(&*namespace).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn reads_go_on_while_the_server_is_away_and_what_was_missed_comes_after() {
    on_each_target(|target| async {
        let namespace = make_namespace(&target).await;
        let (client, wire) = (target.client.clone(), Wire::to(&target.config).await);
        client.create(&map(&namespace, "a")).await.unwrap();
        client.create(&map(&namespace, "b")).await.unwrap();
        let run = Run::start(&wire.client(&target.config), &namespace, InformerOptions::default());
        let belief = Belief::of(&run.informer);
        run.informer.has_synced().await.unwrap();
        let before = on_server(&client, &namespace).await;
        wire.go_down();
        touch(&client, &namespace, "a").await;
        client.delete::<ConfigMap>("b").within(&namespace).await.unwrap();
        client.create(&map(&namespace, "c")).await.unwrap();
        for object in run.informer.store().list() {
            assert_eq!(before[&object.key().to_string()], version(&object), "as it was before");
            assert!(object.get().is_ok());
        }
        assert_eq!(run.informer.store().len(), 2);
        wire.come_up();
        until_equal(&client, &namespace, &run.informer, &belief).await;
        run.stop().await;
        client.delete::<Namespace>(&*namespace).await.unwrap();
        target
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_handler_holds_up_nobody_over_sockets_either() {
    on_each_target(|target| async {
        let namespace = make_namespace(&target).await;
        let client = target.client.clone();
        let run = Run::start(&client, &namespace, InformerOptions::default());
        let (release, gate) = mpsc::channel::<()>();
        let slow = run.informer.add_handler(move |_: Notification<ConfigMap>| _ = gate.recv());
        let belief = Belief::of(&run.informer);
        run.informer.has_synced().await.unwrap();
        for index in 0..20 {
            client.create(&map(&namespace, &format!("m{index}"))).await.unwrap();
        }
        until_equal(&client, &namespace, &run.informer, &belief).await;
        drop(release);
        slow.has_synced().await.unwrap();
        run.stop().await;
        client.delete::<Namespace>(&*namespace).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn a_program_reads_its_own_writes() {
    on_each_target(|target| async {
        let namespace = make_namespace(&target).await;
        let client = target.client.clone();
        let run = Run::start(&client, &namespace, InformerOptions::default());
        let maps = OwnWrites::new(run.informer.clone());
        for round in 0..10 {
            let mut own = maps.write(client.create(&map(&namespace, &format!("m{round}")))).await.unwrap();
            assert!(maps.read().await.unwrap().get(&own.object_ref()).is_some(), "created");
            own.data.get_or_insert_default().insert("round".to_owned(), round.to_string());
            let own = maps.write(client.update(&own)).await.unwrap();
            let seen = maps.read().await.unwrap().get(&own.object_ref()).unwrap();
            assert_eq!(Some(&*version(&seen)), own.resource_version(), "updated");
            maps.delete(&own, client.delete::<ConfigMap>(own.object_ref())).await.unwrap();
            assert!(maps.read().await.unwrap().get(&own.object_ref()).is_none(), "deleted");
        }
        run.stop().await;
        client.delete::<Namespace>(&*namespace).await.unwrap();
        target
    })
    .await;
}

/// The embedded server on one port, to be stopped and started again over one storage or another.
struct Restartable {
    address: SocketAddr,
    tls: TlsIdentity,
    config: Config,
}

struct Serving {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Restartable {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = TlsIdentity::generate(["localhost", "127.0.0.1"]).unwrap();
        let config = Config::new(format!("https://{address}").parse().unwrap())
            .with_auth(Auth::Bearer("restartable".into()))
            .with_tls(TlsOptions::trusting(tls.ca_pem()));
        Self { address, tls, config }
    }

    fn client(&self) -> Client {
        Client::new(self.config.clone()).unwrap().without_rate_limit()
    }

    async fn serve(&self, storage: &Arc<dyn Storage>) -> Serving {
        let listener = TcpListener::bind(self.address).await.unwrap();
        let server = Server::builder().token("restartable").storage(Arc::clone(storage)).build();
        let (stop, stopped) = oneshot::channel::<()>();
        let tls = self.tls.clone();
        let task = tokio::spawn(async move {
            server.serve(listener, tls, async { drop(stopped.await) }).await.unwrap();
        });
        Serving { stop, task }
    }
}

impl Serving {
    async fn stop(self) {
        drop(self.stop);
        self.task.await.unwrap();
    }
}

const NAMESPACE: &str = "default";

#[tokio::test]
async fn a_server_that_is_restarted_over_its_storage_is_followed_further() {
    let (server, storage) = (Restartable::new().await, Arc::new(MemoryStorage::default()) as Arc<dyn Storage>);
    let serving = server.serve(&storage).await;
    server.client().create(&map(NAMESPACE, "a")).await.unwrap();
    let run = Run::start(&server.client(), NAMESPACE, InformerOptions::default());
    let belief = Belief::of(&run.informer);
    run.informer.has_synced().await.unwrap();
    serving.stop().await;
    assert_eq!(run.informer.store().len(), 1);
    let serving = server.serve(&storage).await;
    touch(&server.client(), NAMESPACE, "a").await;
    server.client().create(&map(NAMESPACE, "b")).await.unwrap();
    until_equal(&server.client(), NAMESPACE, &run.informer, &belief).await;
    run.stop().await;
    serving.stop().await;
}

#[tokio::test]
async fn a_server_that_has_forgotten_the_watch_s_version_is_listed_again() {
    let (server, storage) = (Restartable::new().await, Arc::new(MemoryStorage::default()) as Arc<dyn Storage>);
    let serving = server.serve(&storage).await;
    for name in ["a", "b"] {
        server.client().create(&map(NAMESPACE, name)).await.unwrap();
    }
    let errors = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&errors);
    let options = InformerOptions::default().on_error(move |error| log.lock().push(format!("{error:?}")));
    let wire = Wire::to(&server.config).await;
    let run = Run::start(&wire.client(&server.config), NAMESPACE, options);
    let belief = Belief::of(&run.informer);
    run.informer.has_synced().await.unwrap();
    wire.go_down();
    touch(&server.client(), NAMESPACE, "a").await;
    server.client().delete::<ConfigMap>("b").within(NAMESPACE).await.unwrap();
    let last = server.client().create(&map(NAMESPACE, "c")).await.unwrap();
    storage.compact(Revision(last.resource_version().unwrap().parse().unwrap())).await.unwrap();
    serving.stop().await;
    let serving = server.serve(&storage).await;
    wire.come_up();
    until_equal(&server.client(), NAMESPACE, &run.informer, &belief).await;
    assert!(errors.lock().iter().any(|error| error.contains("Expired")), "{:?}", errors.lock());
    run.stop().await;
    serving.stop().await;
}

#[tokio::test]
async fn a_server_that_lost_its_storage_is_read_from_scratch() {
    let server = Restartable::new().await;
    let (full, empty) = (Arc::new(MemoryStorage::default()), Arc::new(MemoryStorage::default()));
    let serving = server.serve(&(full as Arc<dyn Storage>)).await;
    for index in 0..50 {
        server.client().create(&map(NAMESPACE, &format!("m{index}"))).await.unwrap();
    }
    let errors = Arc::new(Mutex::new(0));
    let count = Arc::clone(&errors);
    let options = InformerOptions::default().on_error(move |_| *count.lock() += 1);
    let run = Run::start(&server.client(), NAMESPACE, options);
    let belief = Belief::of(&run.informer);
    run.informer.has_synced().await.unwrap();
    serving.stop().await;
    eventually("the informer has noticed that the server is away", || async { (*errors.lock() > 0).then_some(()) })
        .await;
    let serving = server.serve(&(empty as Arc<dyn Storage>)).await;
    server.client().create(&map(NAMESPACE, "only")).await.unwrap();
    until_equal(&server.client(), NAMESPACE, &run.informer, &belief).await;
    assert_eq!(run.informer.store().len(), 1);
    run.stop().await;
    serving.stop().await;
}
