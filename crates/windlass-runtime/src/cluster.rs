//! One cluster as a manager sees it: a client, and the caches that everything in the manager shares.

use std::{
    fmt::{self, Debug},
    sync::Arc,
};

use futures::FutureExt;
use windlass_api::{ApiResource, Clock, Entropy, ListWatch, Object, Resource};
use windlass_cache::{Index, InformerFactory, InformerStatus, SharedInformer};
use windlass_client::Client;

use crate::{
    CacheOptions, CachedClient, Error, Result, Watch,
    caches::Caches,
    events::{Outlet, Recorder},
};

/// Makes the source of a cache: of a resource, in one namespace or in all.
pub(crate) type ListWatches = Arc<dyn Fn(&ApiResource, Option<&str>) -> Arc<dyn ListWatch> + Send + Sync>;

/// A client and its caches. Clones are handles to the same.
///
/// There is one cache per type, resource, namespace and selectors, however many ask for it. It is started by the first
/// and ends with the manager.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    /// Of the kinds that are not in `chosen`.
    informers: InformerFactory,
    /// Of the kinds whose caches are kept otherwise.
    chosen: Arc<[(ApiResource, InformerFactory)]>,
    clock: Clock,
    entropy: Entropy,
    events: Outlet,
}

impl Cluster {
    pub(crate) fn new(
        client: Client,
        list_watches: Option<ListWatches>,
        caches: Caches,
        clock: Clock,
        entropy: Entropy,
        events: Outlet,
    ) -> Self {
        let list_watches = list_watches.unwrap_or_else(|| {
            let client = client.clone();
            Arc::new(move |resource: &ApiResource, namespace: Option<&str>| {
                Arc::new(client.list_watch(resource, namespace)) as Arc<dyn ListWatch>
            })
        });
        let factory = |CacheOptions { namespace, informer }: CacheOptions| {
            let list_watches = Arc::clone(&list_watches);
            let list_watch = move |resource: &ApiResource, namespace: Option<&str>| list_watches(resource, namespace);
            InformerFactory::new(list_watch, informer.entropy(entropy.clone())).within(namespace.unwrap_or_default())
        };
        let informers = factory(caches.usual);
        let chosen = caches.chosen.into_iter().map(|(resource, options)| (resource, factory(options))).collect();
        Self { client, informers, chosen, clock, entropy, events }
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
        let informers = self.factory_of(&watch.resource);
        let informer = informers.for_resource(watch.resource.clone(), watch.selection.clone());
        informers.start();
        informer
    }

    /// Ends the informer of a watch and waits until it has, and its memory is free once nobody reads it any more: for kinds
    /// that a program has found at run time and is done with. Says whether there was one.
    ///
    /// Controllers that still watch it, or hold its store, see no further change; whoever asks for it anew, as reads of a
    /// [`CachedClient`] do, gets a new one. controller-runtime's `RemoveInformer`.
    pub async fn forget<T: Object>(&self, watch: &Watch<T>) -> bool {
        self.factory_of(&watch.resource).remove::<T>(watch.resource.clone(), watch.selection.clone()).await
    }

    /// The client that reads from the caches.
    #[must_use]
    pub fn cached_client(&self) -> CachedClient {
        CachedClient::new(self.client.clone(), self.clone())
    }

    /// Adds an index to the cache of all objects of a type, which begins with this if it has not. Named after a field, it
    /// answers to [`CachedList::fields`](crate::client::CachedList::fields). A name that is taken is an error.
    ///
    /// ```
    /// # use windlass_api::k8s_openapi::api::core::v1::Pod;
    /// # use windlass_runtime::{Manager, Result};
    /// # use windlass_cache::Index;
    /// # async fn prepare(manager: &Manager) -> Result<()> {
    /// manager.cluster().index::<Pod>(Index::on_path("spec.nodeName", ["spec", "nodeName"])).await
    /// # }
    /// ```
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn index<K: Resource>(&self, index: Index<K>) -> Result<()> {
        let added = self.informer(&Watch::<K>::all()).add_index(index).await;
        added.map_err(|source| Error::Index { resource: Box::new(K::api_resource()), source })
    }

    fn factory_of(&self, resource: &ApiResource) -> &InformerFactory {
        let chosen = self.chosen.iter().find(|(of, _)| of == resource);
        chosen.map_or(&self.informers, |(_, informers)| informers)
    }

    /// Asks how each cache is, without keeping the caches alive.
    pub(crate) fn cache_statuses(&self) -> impl Fn() -> Vec<InformerStatus> + Send + Sync + 'static {
        let observers: Vec<_> = self.factories().map(InformerFactory::observer).collect();
        move || observers.iter().flat_map(|statuses| statuses()).collect()
    }

    fn factories(&self) -> impl Iterator<Item = &InformerFactory> {
        std::iter::once(&self.informers).chain(self.chosen.iter().map(|(_, informers)| informers))
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
        for informers in self.factories() {
            informers.shutdown().await;
        }
    }

    /// Ends all informers without waiting.
    pub(crate) fn abort(&self) {
        // The first poll takes the tasks; dropped, they are aborted.
        for informers in self.factories() {
            let _ = informers.shutdown().now_or_never();
        }
    }
}

impl Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("informers", &self.informers).finish_non_exhaustive()
    }
}
