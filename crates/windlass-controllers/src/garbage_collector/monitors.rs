//! The informers that feed the graph: one per collected resource, with metadata only.

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

/// The cache size per kind before compression, in bytes. Small, because metadata is rarely read after it has arrived.
const BUDGET: usize = 1 << 20;

/// The time that the collector waits for all informers to sync before it starts without the rest.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);

/// The running informers.
pub(crate) struct Monitors {
    collector: Arc<Collector>,
    entropy: Entropy,
    running: BTreeMap<ApiResource, Monitor>,
    tasks: JoinSet<()>,
    /// Notified when a CustomResourceDefinition changes.
    definitions: Arc<Notify>,
    /// `true` while no informer waits for its initial sync. Before that, an owner could seem to have no dependents.
    ready: watch::Sender<bool>,
}

struct Monitor {
    /// Stops the informer when dropped.
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

    /// Returns a receiver whose value is `true` while no informer waits for its initial sync.
    pub(crate) fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// Returns a notification of changed CustomResourceDefinitions.
    pub(crate) fn definitions(&self) -> Arc<Notify> {
        Arc::clone(&self.definitions)
    }

    /// Discovers the served resources, starts missing informers and stops those of removed resources. If discovery
    /// fails, nothing changes.
    pub(crate) async fn update(&mut self) {
        let discovery = match self.collector.client().discovery().await {
            Ok(discovery) => discovery,
            Err(error) => {
                tracing::warn!(error = error.chain(), "discovery failed; retrying later");
                return;
            }
        };
        for failed in &discovery.failed {
            tracing::warn!(version = %failed.group_version, "discovery of a group version failed; it is not collected");
        }
        let kinds = Arc::new(Kinds::of(&discovery));
        self.collector.learn(&kinds);
        // The results of ended informers are not needed.
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
            // An informer that stops before it has synced is removed.
            if timeout(SYNC_TIMEOUT, join_all(synced)).await.is_err() {
                tracing::warn!("some informers have not synced yet; the collector starts without their objects");
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
            // The sender is dropped without a value.
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
