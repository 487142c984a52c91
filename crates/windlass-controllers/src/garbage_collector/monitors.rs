//! The informers that feed the graph: one for each resource that is collected, with metadata only.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::join_all;
use tokio::{
    sync::{Notify, oneshot, watch},
    task::JoinSet,
    time::timeout,
};
use windlass_api::{ApiResource, Entropy, PartialObject};
use windlass_cache::{HandlerOptions, HasSynced, InformerOptions, Notification, Registration, SharedInformer};

use super::{collector::Collector, kinds::Kinds};

/// What the metadata of a kind may take uncompressed: it is read when it comes, and hardly again.
const BUDGET: usize = 1 << 20;

/// How long the collector waits for all informers before it works with those that it has.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);

/// The running informers.
pub(crate) struct Monitors {
    collector: Arc<Collector>,
    entropy: Entropy,
    running: BTreeMap<ApiResource, Monitor>,
    tasks: JoinSet<()>,
    /// Told when a CustomResourceDefinition changes.
    definitions: Arc<Notify>,
    /// Whether the graph shows all that was there when the informers were started. Without that, an owner would seem to
    /// have no dependents.
    ready: watch::Sender<bool>,
}

struct Monitor {
    /// Ends the informer by being dropped.
    _stop: oneshot::Sender<()>,
    registration: Registration,
}

impl Monitors {
    pub(crate) fn new(collector: Arc<Collector>, entropy: Entropy) -> Self {
        Self {
            collector,
            entropy,
            running: BTreeMap::new(),
            tasks: JoinSet::new(),
            definitions: Arc::new(Notify::new()),
            ready: watch::Sender::new(false),
        }
    }

    /// Tells whether it is time to work.
    pub(crate) fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// Told when there may be other resources than before.
    pub(crate) fn definitions(&self) -> Arc<Notify> {
        Arc::clone(&self.definitions)
    }

    /// Asks the server what there is, starts what is missing and stops what is gone. Without an answer all stays.
    pub(crate) async fn update(&mut self) {
        let discovery = match self.collector.client().discovery().await {
            Ok(discovery) => discovery,
            Err(error) => {
                tracing::warn!(error = error.chain(), "cannot ask the server what it serves; asking again later");
                return;
            }
        };
        for failed in &discovery.failed {
            tracing::warn!(version = %failed.group_version, "a part of the API does not answer; it is not collected");
        }
        let kinds = Arc::new(Kinds::of(&discovery));
        self.collector.learn(&kinds);
        // Ended informers have nothing to say.
        while self.tasks.try_join_next().is_some() {}

        let stays = |resource: &ApiResource| kinds.collected().contains(resource) || kinds.is_unknown(resource);
        let gone: Vec<_> = self.running.keys().filter(|resource| !stays(resource)).cloned().collect();
        for resource in gone {
            tracing::info!(resource = %resource.gvr(), "no longer collected");
            self.running.remove(&resource);
            self.collector.forget_kind(&resource.api_version(), &resource.kind);
        }
        let fresh: Vec<_> =
            kinds.collected().iter().filter(|resource| !self.running.contains_key(*resource)).cloned().collect();
        if !fresh.is_empty() {
            self.ready.send_replace(false);
            let synced: Vec<_> = fresh.into_iter().map(|resource| self.start(resource)).collect();
            // One that stops before it has synced is gone again.
            if timeout(SYNC_TIMEOUT, join_all(synced)).await.is_err() {
                tracing::warn!("some informers have not synced yet; the collector goes on without their objects");
            }
            tracing::debug!(resources = self.running.len(), objects = self.collector.len(), "the graph is complete");
        }
        self.ready.send_replace(true);
    }

    fn start(&mut self, resource: ApiResource) -> HasSynced {
        let list_watch = Arc::new(self.collector.client().list_watch(&resource, None).metadata_only());
        let options = InformerOptions::default().budget(BUDGET).entropy(self.entropy.clone());
        let informer = SharedInformer::<PartialObject>::for_resource(resource.clone(), list_watch, options);

        let collector = Arc::clone(&self.collector);
        let (api_version, kind): (Arc<str>, Arc<str>) = (resource.api_version().into(), (&*resource.kind).into());
        let defines = resource.group == "apiextensions.k8s.io" && resource.kind == "CustomResourceDefinition";
        let definitions = defines.then(|| Arc::clone(&self.definitions));
        let notified = move |change: Notification<PartialObject>| {
            collector.notified(&api_version, &kind, &change);
            if let Some(definitions) = &definitions {
                definitions.notify_one();
            }
        };
        let registration = informer.add_handler_with(notified, HandlerOptions::default().quick());

        let synced = registration.has_synced();
        let (stop, stopped) = oneshot::channel();
        self.tasks.spawn(informer.run(async move {
            // Nothing is ever sent: the other end is dropped.
            let _ = stopped.await;
        }));
        self.running.insert(resource, Monitor { _stop: stop, registration });
        synced
    }

    /// Stops all informers and waits until they have ended.
    pub(crate) async fn stop(mut self) {
        self.running.clear();
        while self.tasks.join_next().await.is_some() {}
    }
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitor").field("registration", &self.registration).finish_non_exhaustive()
    }
}
