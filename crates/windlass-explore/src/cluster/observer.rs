//! The observer: a watch of each resource, as the administrator.
//!
//! Resources of CustomResourceDefinitions are watched as soon as their definition is established.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future;
use http::{Request, StatusCode};
use http_body_util::Full;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::{sync::oneshot, task::JoinSet, time};
use tower::Service as _;
use windlass_api::ApiResource;
use windlass_client::Client;
use windlass_server::Service;

use crate::{
    error::{Error, Result},
    gateway::{Frames, Gateway},
    history::{History, is_election, is_recorded, revision_of, text},
};

/// The resource of CustomResourceDefinitions.
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The pause after a failed watch.
const PAUSE: Duration = Duration::from_millis(100);

/// The tasks that observe all resources.
#[derive(Clone, Debug)]
pub(super) struct Observer {
    service: Service,
    history: Arc<History>,
    gateway: Arc<Gateway>,
    tasks: Arc<Mutex<Tasks>>,
}

#[derive(Debug, Default)]
struct Tasks {
    running: JoinSet<()>,
    /// The watched custom resources: UIDs of their definitions, with the version.
    custom: BTreeSet<(String, String)>,
}

/// An observed resource.
#[derive(Debug)]
struct Watched {
    /// The resource with its group.
    resource: String,
    /// The path of all its objects.
    path: String,
    /// `true` if objects at the beginning of the watch are changes.
    is_new: bool,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}

impl Observer {
    /// Observes all resources. Their objects are known on return.
    pub(super) async fn start(
        client: &Client,
        service: Service,
        history: Arc<History>,
        gateway: Arc<Gateway>,
    ) -> Result<Self> {
        let observer = Self { service, history, gateway, tasks: Arc::default() };
        let discovery = client.discovery().await.map_err(|error| Error::Cluster(format!("discovery: {error}")))?;
        let found = discovery.preferred_resources().filter(|found| found.supports("list") && found.supports("watch"));
        let watched: Vec<_> = found.map(|found| Watched::of(&found.resource)).collect();
        let synced =
            watched.into_iter().filter(|watched| is_recorded(&watched.resource)).map(|watched| observer.watch(watched));
        future::join_all(synced.collect::<Vec<_>>()).await;
        Ok(observer)
    }

    /// Ends all watches without waiting. Their tasks refer to this value, so dropping it does not end them.
    pub(super) fn abort(&self) {
        self.tasks.lock().running.abort_all();
    }

    /// Ends all watches.
    pub(super) async fn stop(self) {
        let mut running = std::mem::take(&mut self.tasks.lock().running);
        running.shutdown().await;
    }

    /// Watches a resource in a task of its own. The returned receiver is closed once its objects are known.
    fn watch(&self, watched: Watched) -> oneshot::Receiver<()> {
        let (sender, synced) = oneshot::channel();
        let observer = self.clone();
        self.tasks.lock().running.spawn(async move { observer.follow(watched, sender).await });
        synced
    }

    async fn follow(self, watched: Watched, synced: oneshot::Sender<()>) {
        let mut synced = Some(synced);
        let mut version = None;
        loop {
            let from = match &version {
                None => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
                Some(version) => format!("resourceVersion={version}"),
            };
            let target = format!("{}?watch=true&allowWatchBookmarks=true&{from}", watched.path);
            let request = Request::get(target).body(Full::<Bytes>::default());
            let request = request.expect("the path comes from discovery");
            let Ok(response): Result<_, Infallible> = self.service.clone().call(request).await;
            match response.status() {
                StatusCode::OK => {}
                // The definition was deleted.
                StatusCode::NOT_FOUND => return,
                _ => {
                    version = None;
                    time::sleep(PAUSE).await;
                    continue;
                }
            }
            let mut frames = Frames::new(response.into_body());
            while let Some(frame) = frames.next().await {
                let Ok(Event { kind, object }) = serde_json::from_slice(&frame) else { continue };
                if kind == "ERROR" {
                    version = None;
                    break;
                }
                version = Some(text(&object, "/metadata/resourceVersion").to_owned());
                let is_first = synced.is_some() && !watched.is_new;
                self.apply(&watched.resource, &kind, object, is_first);
                // The first bookmark ends the initial events.
                if kind == "BOOKMARK" {
                    synced = None;
                }
            }
            // An ended watch begins again at once; one that fails does not spin.
            time::sleep(PAUSE).await;
        }
    }

    /// Applies an event to the history.
    fn apply(&self, resource: &str, kind: &str, mut object: Value, is_first: bool) {
        let revision = revision_of(&object).unwrap_or_default();
        if kind != "BOOKMARK" && !is_election(&object) {
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
            if resource == DEFINITIONS && kind != "DELETED" {
                self.define(&object);
            }
            if is_first {
                self.history.add_existing(resource, object);
            } else if let Some(change) = self.history.record(resource, object, kind == "DELETED") {
                self.gateway.observed(&change);
            }
        }
        self.history.advance(resource, revision);
    }

    /// Watches the resource of a definition, if it is established and not watched yet.
    fn define(&self, definition: &Value) {
        let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
        let is_established = conditions
            .into_iter()
            .flatten()
            .any(|condition| text(condition, "/type") == "Established" && text(condition, "/status") == "True");
        let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
        let served = |version: &&Value| version["served"] == true;
        let mut served: Vec<_> = versions.into_iter().flatten().filter(served).collect();
        served.sort_by_key(|version| version["storage"] != true);
        let Some(version) = served.first().map(|version| text(version, "/name")).filter(|_| is_established) else {
            return;
        };
        let key = (text(definition, "/metadata/uid").to_owned(), version.to_owned());
        let group = text(definition, "/spec/group");
        let plural = text(definition, "/spec/names/plural");
        if self.tasks.lock().custom.insert(key) {
            let path = format!("/apis/{group}/{version}/{plural}");
            drop(self.watch(Watched { resource: format!("{plural}.{group}"), path, is_new: true }));
        }
    }
}

impl Watched {
    fn of(resource: &ApiResource) -> Self {
        let ApiResource { group, version, plural, .. } = resource;
        let (name, path) = if group.is_empty() {
            (plural.to_string(), format!("/api/{version}/{plural}"))
        } else {
            (format!("{plural}.{group}"), format!("/apis/{group}/{version}/{plural}"))
        };
        Self { resource: name, path, is_new: false }
    }
}
