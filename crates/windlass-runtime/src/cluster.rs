//! One cluster as a manager sees it: a client, and the caches that everything in the manager shares.

use std::{
    fmt::{self, Debug},
    sync::Arc,
};

use futures::FutureExt;
use windlass_api::{ApiResource, Clock, Entropy, ListWatch, Object};
use windlass_cache::{InformerFactory, InformerOptions, SharedInformer};
use windlass_client::Client;

use crate::{
    Watch,
    events::{Outlet, Recorder},
};

/// Makes the source of a cache: of a resource, in one namespace or in all.
pub(crate) type ListWatches = Box<dyn Fn(&ApiResource, Option<&str>) -> Arc<dyn ListWatch> + Send + Sync>;

/// A client and its caches. Clones are handles to the same.
///
/// There is one cache per type, resource, namespace and selectors, however many ask for it. It is started by the first
/// and ends with the manager.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    informers: InformerFactory,
    clock: Clock,
    entropy: Entropy,
    events: Outlet,
}

impl Cluster {
    pub(crate) fn new(
        client: Client,
        list_watches: Option<ListWatches>,
        clock: Clock,
        entropy: Entropy,
        events: Outlet,
    ) -> Self {
        let list_watches = list_watches.unwrap_or_else(|| {
            let client = client.clone();
            Box::new(move |resource: &ApiResource, namespace: Option<&str>| {
                Arc::new(client.list_watch(resource, namespace)) as Arc<dyn ListWatch>
            })
        });
        let options = InformerOptions::default().entropy(entropy.clone());
        Self { client, informers: InformerFactory::new(list_watches, options), clock, entropy, events }
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The wall clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The source of randomness.
    pub fn entropy(&self) -> &Entropy {
        &self.entropy
    }

    /// Tells people what `component` does. What is recorded is written while the manager runs.
    #[must_use]
    pub fn recorder(&self, component: impl Into<Arc<str>>) -> Recorder {
        self.events.recorder(component)
    }

    /// The informer of a watch (its predicate does not matter here), started if this is the first to ask. It may not be
    /// synced yet, and never will be after the manager has stopped.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn informer<T: Object>(&self, watch: &Watch<T>) -> SharedInformer<T> {
        let informer = self.informers.for_resource(watch.resource.clone(), watch.selection.clone());
        self.informers.start();
        informer
    }

    /// The client as a controller uses it: it writes in the controller's name, unless the program has chosen one.
    pub(crate) fn client_for(&self, controller: &Arc<str>) -> Client {
        match self.client.field_owner() {
            Some(_) => self.client.clone(),
            None => self.client.clone().with_field_owner(Arc::clone(controller)),
        }
    }

    /// Stops all informers and waits until they have ended.
    pub(crate) async fn stop(&self) {
        self.informers.shutdown().await;
    }

    /// Ends all informers without waiting.
    pub(crate) fn abort(&self) {
        // The first poll takes the tasks; dropped, they are aborted.
        let _ = self.informers.shutdown().now_or_never();
    }
}

impl Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("informers", &self.informers).finish_non_exhaustive()
    }
}
