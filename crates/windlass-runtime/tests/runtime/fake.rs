//! A simulated cluster in memory for lists and watches, and test helpers.

use std::{
    collections::{BTreeMap, HashSet},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};
use windlass_api::{
    ApiResource, EventType, InitialEvents, ListItem, ListMeta, ListOptions, ListWatch, ListWatchError, ObjectExt,
    RawEvent, Resource, WatchOptions,
    k8s_openapi::{
        api::{apps::v1::Deployment, core::v1::ConfigMap},
        apimachinery::pkg::apis::meta::v1::OwnerReference,
    },
};
use windlass_client::Client;
use windlass_runtime::{Manager, ManagerBuilder};

pub(crate) const MS: Duration = Duration::from_millis(1);

/// The objects of a cluster. Clones are the same cluster.
#[derive(Clone, Debug)]
pub(crate) struct Fake(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Resources (plural) whose lists and watches get no response.
    held: watch::Sender<HashSet<String>>,
}

#[derive(Debug, Default)]
struct State {
    version: u64,
    /// By plural and `namespace/name`.
    objects: BTreeMap<(String, String), Value>,
    log: Vec<(u64, String, RawEvent)>,
    /// By plural and namespace.
    watchers: Vec<((String, Option<String>), mpsc::UnboundedSender<RawEvent>)>,
    /// The opened watches: plural, namespace, label selector.
    opened: Vec<(String, Option<String>, Option<String>)>,
    /// The field selectors of the opened watches, at the same positions.
    fields: Vec<Option<String>>,
}

#[derive(Debug)]
struct FakeResource {
    fake: Fake,
    plural: String,
    namespace: Option<String>,
}

impl Fake {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner { state: Mutex::default(), held: watch::Sender::new(HashSet::new()) }))
    }

    /// Returns a builder of managers whose caches read from this cluster. The client's requests fail.
    pub(crate) fn manager(&self) -> ManagerBuilder {
        let nobody = tower::service_fn(|_| async {
            let response = http::Response::builder().status(500).body(http_body_util::Empty::<Bytes>::new());
            Ok::<_, Infallible>(response.unwrap())
        });
        self.manager_of(Client::from_service(nobody, "default"))
    }

    /// Returns a builder of managers with this client, whose caches read from this cluster.
    pub(crate) fn manager_of(&self, client: Client) -> ManagerBuilder {
        let fake = self.clone();
        Manager::builder(client).list_watch(move |resource, namespace| fake.list_watch(resource, namespace))
    }

    pub(crate) fn list_watch(&self, resource: &ApiResource, namespace: Option<&str>) -> Arc<dyn ListWatch> {
        let (plural, namespace) = (resource.plural.to_string(), namespace.map(str::to_owned));
        Arc::new(FakeResource { fake: self.clone(), plural, namespace })
    }

    /// Creates or replaces an object.
    pub(crate) fn put<K: Resource>(&self, object: &K) {
        let key = (K::api_resource().plural.into_owned(), object.object_ref().to_string());
        let mut state = self.0.state.lock();
        state.version += 1;
        let mut value = serde_json::to_value(object).unwrap();
        value["metadata"]["resourceVersion"] = json!(state.version.to_string());
        let event_type = if state.objects.contains_key(&key) { EventType::Modified } else { EventType::Added };
        state.objects.insert(key.clone(), value.clone());
        state.publish(&key.0, event_type, &value);
    }

    pub(crate) fn delete<K: Resource>(&self, object: &K) {
        let key = (K::api_resource().plural.into_owned(), object.object_ref().to_string());
        let mut state = self.0.state.lock();
        state.version += 1;
        let mut value = state.objects.remove(&key).expect("only existing objects can be deleted");
        value["metadata"]["resourceVersion"] = json!(state.version.to_string());
        state.publish(&key.0, EventType::Deleted, &value);
    }

    /// Blocks lists and watches of a resource until `release`.
    pub(crate) fn hold(&self, plural: &str) {
        self.0.held.send_modify(|held| {
            held.insert(plural.to_owned());
        });
    }

    pub(crate) fn release(&self, plural: &str) {
        self.0.held.send_modify(|held| {
            held.remove(plural);
        });
    }

    /// Returns the watches opened so far: plural, namespace, label selector.
    pub(crate) fn opened(&self) -> Vec<(String, Option<String>, Option<String>)> {
        self.0.state.lock().opened.clone()
    }

    /// Returns the field selectors of the watches opened so far.
    pub(crate) fn fields(&self) -> Vec<Option<String>> {
        self.0.state.lock().fields.clone()
    }

    /// Returns the number of open watches.
    pub(crate) fn open(&self) -> usize {
        let mut state = self.0.state.lock();
        state.watchers.retain(|(_, watcher)| !watcher.is_closed());
        state.watchers.len()
    }
}

impl State {
    fn publish(&mut self, plural: &str, event_type: EventType, value: &Value) {
        let event = raw(event_type, value);
        self.log.push((self.version, plural.to_owned(), event.clone()));
        let is_of = |(of, namespace): &(String, Option<String>)| of == plural && is_within(value, namespace.as_deref());
        self.watchers.retain(|(watched, watcher)| !is_of(watched) || watcher.send(event.clone()).is_ok());
    }

    fn of(&self, plural: &str, namespace: Option<&str>) -> Vec<Value> {
        let all = self.objects.iter().filter(|((of, _), _)| of == plural).map(|(_, value)| value);
        all.filter(|value| is_within(value, namespace)).cloned().collect()
    }
}

fn is_within(value: &Value, namespace: Option<&str>) -> bool {
    namespace.is_none_or(|namespace| value["metadata"]["namespace"] == namespace)
}

impl FakeResource {
    async fn answer(&self) {
        let mut held = self.fake.0.held.subscribe();
        held.wait_for(|held| !held.contains(&self.plural)).await.unwrap();
    }
}

impl ListWatch for FakeResource {
    fn list(
        &self,
        _: ListOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<ListItem, ListWatchError>>, ListWatchError>> {
        async {
            self.answer().await;
            let state = self.fake.0.state.lock();
            let objects = state.of(&self.plural, self.namespace.as_deref());
            let items = objects.iter().map(|value| ListItem::Object(value.to_string().into()));
            let end = ListMeta { resource_version: state.version.into(), ..ListMeta::default() };
            let items: Vec<_> = items.chain([ListItem::End(end)]).map(Ok).collect();
            Ok(stream::iter(items).boxed())
        }
        .boxed()
    }

    fn watch(
        &self,
        options: WatchOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<RawEvent, ListWatchError>>, ListWatchError>> {
        async move {
            self.answer().await;
            let mut state = self.fake.0.state.lock();
            state.opened.push((self.plural.clone(), self.namespace.clone(), options.labels));
            state.fields.push(options.fields);
            let mut first = Vec::new();
            if options.initial_events == InitialEvents::Send {
                let objects = state.of(&self.plural, self.namespace.as_deref());
                first.extend(objects.iter().map(|value| raw(EventType::Added, value)));
                let bookmark = json!({"metadata": {
                    "resourceVersion": state.version.to_string(),
                    "annotations": {"k8s.io/initial-events-end": "true"},
                }});
                first.push(raw(EventType::Bookmark, &bookmark));
            } else {
                let from: u64 = options.resource_version.as_deref().unwrap_or("0").parse().unwrap();
                let missed = state.log.iter().filter(|(version, of, _)| *version > from && *of == self.plural);
                first.extend(missed.map(|(_, _, event)| event.clone()));
            }
            let (sender, receiver) = mpsc::unbounded_channel();
            state.watchers.push(((self.plural.clone(), self.namespace.clone()), sender));
            let live = stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) });
            Ok(stream::iter(first).chain(live).map(Ok).boxed())
        }
        .boxed()
    }
}

fn raw(event_type: EventType, value: &Value) -> RawEvent {
    RawEvent { event_type, body: value.to_string().into() }
}

// === objects ===

pub(crate) fn config(name: &str) -> ConfigMap {
    let mut config = ConfigMap::default();
    config.metadata.name = Some(name.into());
    config.metadata.namespace = Some("ns".into());
    config.metadata.uid = Some(format!("uid-{name}"));
    config
}

/// Creates a deployment whose controller is `owner`.
pub(crate) fn deployment(name: &str, owner: Option<OwnerReference>) -> Deployment {
    let mut deployment = Deployment::default();
    deployment.metadata.name = Some(name.into());
    deployment.metadata.namespace = Some("ns".into());
    deployment.metadata.uid = Some(format!("uid-{name}"));
    deployment.metadata.owner_references = owner.map(|owner| vec![owner]);
    deployment
}

// === waiting ===

/// Waits until `condition` holds; panics after a minute (with paused time: immediately).
#[track_caller]
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) -> impl Future<Output = ()> {
    let what = what.to_owned();
    async move {
        let waiting = async {
            while !condition() {
                tokio::time::sleep(MS).await;
            }
        };
        assert!(timeout(Duration::from_mins(1), waiting).await.is_ok(), "never: {what}");
    }
}

/// A manager that runs in a task until it is stopped.
pub(crate) struct Run {
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<windlass_runtime::Result<()>>,
}

impl Run {
    pub(crate) fn start(manager: Manager) -> Self {
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(manager.run(async move {
            let _ = stopped.await;
        }));
        Self { stop: Some(stop), task }
    }

    pub(crate) fn ask_to_stop(&mut self) {
        self.stop.take();
    }

    pub(crate) async fn result(self) -> windlass_runtime::Result<()> {
        let Self { stop: _still_open, task } = self;
        timeout(Duration::from_hours(1), task).await.expect("the manager ends").unwrap()
    }

    pub(crate) async fn stop(mut self) -> windlass_runtime::Result<()> {
        self.ask_to_stop();
        self.result().await
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    pub(crate) fn drop_future(&self) {
        self.task.abort();
    }
}
