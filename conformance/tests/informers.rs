//! Informers over sockets: with each server, over broken connections, and with servers that restart with all, less or
//! no data.

mod garbage;
mod large;
mod restarts;

use std::{
    collections::BTreeMap,
    sync::{Arc, mpsc},
    time::Duration,
};

use conformance::{Target, eventually, on_each_target, unique};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{sync::oneshot, task::JoinHandle};
use windlass_api::{Backoff, ObjectExt, Patch, Resource};
use windlass_cache::{
    Cached, Deleted, DeletedState, Index, InformerOptions, InitialSync, Notification, OwnWrites, SharedInformer,
};
use windlass_client::Client;

use crate::wire::Wire;

type Maps = SharedInformer<ConfigMap>;

/// Short delays for fast tests.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100)).limit(Duration::from_secs(1)).factor(2.0);

/// A running informer.
struct Run {
    informer: Maps,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Run {
    /// Starts an informer for ConfigMaps of the tests in a namespace.
    fn start(client: &Client, namespace: &str, options: InformerOptions) -> Self {
        let list_watch = Arc::new(client.list_watch(&ConfigMap::api_resource(), Some(namespace)));
        Self::of(Maps::new(list_watch, options.labels("app=test").backoff(BACKOFF)))
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

/// The state that a handler derives from its notifications. Every notification must be a valid transition.
#[derive(Clone, Default)]
struct HandlerState(Arc<Mutex<BTreeMap<String, String>>>);

impl HandlerState {
    fn of(informer: &Maps) -> Self {
        let handler_state = Self::default();
        let known = Arc::clone(&handler_state.0);
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
                // A panic would be contained, so the comparison reports this.
                known.insert("illegal".to_owned(), format!("{news:?}"));
            }
        });
        drop(registration); // … which does not remove the handler.
        handler_state
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

/// Waits until the informer's store and the handler's state equal the server's state.
async fn until_equal(client: &Client, namespace: &str, informer: &Maps, handler_state: &HandlerState) {
    eventually("the informer has what the server has", || async {
        let expected = on_server(client, namespace).await;
        let held = informer.store().list().iter().map(|map| (map.key().to_string(), version(map))).collect();
        let believed = handler_state.0.lock().clone();
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
            let handler_state = HandlerState::of(&run.informer);
            let names = Index::on_meta("name", |meta| [Arc::clone(meta.name())]);
            run.informer.add_index(names).await.unwrap();
            run.informer.has_synced().await.unwrap();
            until_equal(&client, &namespace, &run.informer, &handler_state).await;
            client.create(&map(&namespace, "new")).await.unwrap();
            touch(&client, &namespace, "a").await;
            until_equal(&client, &namespace, &run.informer, &handler_state).await;
            assert_eq!(run.informer.store().by_index("name", "new").unwrap().len(), 1);
            client.delete::<ConfigMap>("new").within(&namespace).await.unwrap();
            until_equal(&client, &namespace, &run.informer, &handler_state).await;
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
        let handler_state = HandlerState::of(&run.informer);
        run.informer.has_synced().await.unwrap();
        for round in 0..5 {
            let name = format!("m{round}");
            client.create(&map(&namespace, &name)).await.unwrap();
            wire.cut().await;
            touch(&client, &namespace, &name).await;
            client.create(&map(&namespace, &format!("x{round}"))).await.unwrap();
            client.delete::<ConfigMap>(format!("x{round}")).within(&namespace).await.unwrap();
        }
        until_equal(&client, &namespace, &run.informer, &handler_state).await;
        run.stop().await;
        client.delete::<Namespace>(&*namespace).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn cache_serves_reads_during_outage_and_catches_up() {
    on_each_target(|target| async {
        let namespace = make_namespace(&target).await;
        let (client, wire) = (target.client.clone(), Wire::to(&target.config).await);
        client.create(&map(&namespace, "a")).await.unwrap();
        client.create(&map(&namespace, "b")).await.unwrap();
        let run = Run::start(&wire.client(&target.config), &namespace, InformerOptions::default());
        let handler_state = HandlerState::of(&run.informer);
        run.informer.has_synced().await.unwrap();
        let before = on_server(&client, &namespace).await;
        wire.go_down().await;
        touch(&client, &namespace, "a").await;
        client.delete::<ConfigMap>("b").within(&namespace).await.unwrap();
        client.create(&map(&namespace, "c")).await.unwrap();
        for object in run.informer.store().list() {
            assert_eq!(before[&object.key().to_string()], version(&object), "as it was before");
            assert!(object.get().is_ok());
        }
        assert_eq!(run.informer.store().len(), 2);
        wire.come_up().await;
        until_equal(&client, &namespace, &run.informer, &handler_state).await;
        run.stop().await;
        client.delete::<Namespace>(&*namespace).await.unwrap();
        target
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_handler_blocks_no_other_over_sockets() {
    on_each_target(|target| async {
        let namespace = make_namespace(&target).await;
        let client = target.client.clone();
        let run = Run::start(&client, &namespace, InformerOptions::default());
        let (release, gate) = mpsc::channel::<()>();
        let slow = run.informer.add_handler(move |_: Notification<ConfigMap>| _ = gate.recv());
        let handler_state = HandlerState::of(&run.informer);
        run.informer.has_synced().await.unwrap();
        for index in 0..20 {
            client.create(&map(&namespace, &format!("m{index}"))).await.unwrap();
        }
        until_equal(&client, &namespace, &run.informer, &handler_state).await;
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
