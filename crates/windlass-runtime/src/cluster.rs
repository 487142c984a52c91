//! A cluster as a manager sees it: a client, and the caches shared by all runnables of the manager.

use std::{
    fmt::{self, Debug},
    sync::Arc,
    time::Duration,
};

use futures::FutureExt;
use windlass_api::{ApiResource, Clock, Entropy, ListWatch, Object, Resource, Scope};
use windlass_cache::{Index, InformerFactory, InformerOptions, InformerSet, Selection, WriteJournals};
use windlass_client::Client;

use crate::{
    CacheOptions, Error, Result, Watch,
    caches::{CachePart, Caches, UndeclaredReads},
    events::{EventSender, Recorder},
    read_your_writes,
};

/// Creates the list-watch source of a cache, for a resource in one namespace or in all.
pub(crate) type ListWatches = Arc<dyn Fn(&ApiResource, Option<&str>) -> Arc<dyn ListWatch> + Send + Sync>;

/// A client and its caches. Clones are handles to the same caches.
///
/// There is one cache per type, resource, namespace and selectors, shared by all users. The first use starts it; it
/// ends with the manager.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    caches: Arc<CacheSet>,
    own_writes_timeout: Duration,
    clock: Clock,
    entropy: Entropy,
    events: EventSender,
}

/// The caches of all kinds.
struct CacheSet {
    /// The caches of the kinds that are not in `chosen`.
    usual: KindCaches,
    /// The caches of the kinds with options of their own.
    chosen: Vec<(ApiResource, KindCaches)>,
    undeclared: UndeclaredReads,
}

/// The caches of one kind.
struct KindCaches {
    /// The parts of a namespaced kind, which together cover all selected namespaces. At least one.
    parts: Vec<Part>,
    /// Informers of cluster-scoped kinds, and of watches in a namespace that no part covers.
    whole: InformerFactory,
}

/// A part of a kind, with an informer for each type and selection.
struct Part {
    /// `None`: all namespaces, or all that are not in `except`.
    namespace: Option<String>,
    /// A field selector that excludes the namespaces of other parts.
    except: Option<String>,
    /// The field selector from the part's options.
    fields: Option<String>,
    informers: InformerFactory,
}

impl Cluster {
    pub(crate) fn new(
        client: Client,
        own_writes_timeout: Duration,
        list_watches: Option<ListWatches>,
        caches: Caches,
        clock: Clock,
        entropy: Entropy,
        events: EventSender,
    ) -> Self {
        let journals = WriteJournals::default();
        let client = read_your_writes::recorded(client, &journals);
        let list_watches = list_watches.unwrap_or_else(|| {
            let client = client.clone();
            Arc::new(move |resource: &ApiResource, namespace: Option<&str>| {
                Arc::new(client.list_watch(resource, namespace)) as Arc<dyn ListWatch>
            })
        });
        let factory = |options: InformerOptions| {
            let list_watches = Arc::clone(&list_watches);
            let list_watch = move |resource: &ApiResource, namespace: Option<&str>| list_watches(resource, namespace);
            InformerFactory::new(list_watch, options.entropy(entropy.clone()).own_writes(journals.clone()))
        };
        let of_kind = |options: &CacheOptions| KindCaches {
            parts: options.parts(&caches.usual).into_iter().map(|part| Part::new(part, factory)).collect(),
            whole: factory(options.whole(&caches.usual).informer),
        };
        let usual = of_kind(&caches.usual);
        let chosen = caches.chosen.iter().map(|(resource, options)| (resource.clone(), of_kind(options))).collect();
        let caches = Arc::new(CacheSet { usual, chosen, undeclared: caches.undeclared });
        Self { client, caches, own_writes_timeout, clock, entropy, events }
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns how long a read waits until the cache shows the manager's own writes.
    pub(crate) fn own_writes_timeout(&self) -> Duration {
        self.own_writes_timeout
    }

    /// Returns the wall clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the source of randomness.
    pub fn entropy(&self) -> &Entropy {
        &self.entropy
    }

    /// Returns a recorder of events, with `component` as their source. Events are written while the manager runs.
    #[must_use]
    pub fn recorder(&self, component: impl Into<Arc<str>>) -> Recorder {
        self.events.recorder(component)
    }

    /// Returns a view of this cluster that sends its requests with the connections and the credentials of another client
    /// of the same server. So do its recorders. The settings of the client stay, and the caches are shared, with the
    /// credentials of the manager. A read of the caches needs no permission.
    #[must_use]
    pub fn with_credentials_of(&self, client: &Client) -> Self {
        let events = self.events.clone().with_credentials_of(client);
        Self { client: self.client.clone().with_credentials_of(client), events, ..self.clone() }
    }

    /// Returns the informers of a watch, and starts them if they do not run yet. The watch's predicate is ignored.
    /// There is one informer, or one per namespace that the manager's caches cover. They may not have synced yet, and
    /// never sync after the manager has stopped.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub fn informer<T: Object>(&self, watch: &Watch<T>) -> InformerSet<T> {
        let mut parts = self.caches.parts_of(watch).into_iter().map(|(factory, selection)| {
            let informer = factory.for_resource(watch.resource.clone(), selection);
            factory.start();
            informer
        });
        let first = parts.next().expect("a kind has at least one part");
        InformerSet::new(first, parts)
    }

    /// Reports whether the caches of a kind cover a namespace.
    pub(crate) fn holds(&self, resource: &ApiResource, namespace: &str) -> bool {
        resource.scope == Scope::Cluster || self.caches.of(resource).part_with(namespace).is_some()
    }

    /// Reports whether a read may use the informers of a watch: they exist, or may be started.
    pub(crate) fn permits_read<T: Object>(&self, watch: &Watch<T>) -> bool {
        let exists = |(factory, selection): (&InformerFactory, Selection)| {
            factory.contains::<T>(watch.resource.clone(), selection)
        };
        match self.caches.undeclared {
            UndeclaredReads::StartCache => true,
            UndeclaredReads::Fail => self.caches.parts_of(watch).into_iter().all(exists),
        }
    }

    /// Stops the informers of a watch and waits until they have ended. Returns `true` if there was one. Their memory is
    /// freed when the last reader drops it. Use it for kinds that were discovered at run time and are no longer needed.
    ///
    /// Controllers that still watch the objects, or hold the store, see no further changes. A new use, such as a read
    /// of a [`CachedClient`](crate::CachedClient), starts a new informer. The counterpart of controller-runtime's
    /// `RemoveInformer`.
    pub async fn forget<T: Object>(&self, watch: &Watch<T>) -> bool {
        let mut found = false;
        for (factory, selection) in self.caches.parts_of(watch) {
            found |= factory.remove::<T>(watch.resource.clone(), selection).await;
        }
        found
    }

    /// Adds an index to the cache of all objects of a type, and starts the cache if it does not run yet. An index with
    /// the name of a field makes the field available to [`CachedList::fields`](crate::client::CachedList::fields).
    /// Returns an error if the name is in use.
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
    /// Panics outside of a tokio runtime.
    pub async fn index<K: Resource>(&self, index: Index<K>) -> Result<()> {
        let added = self.informer(&Watch::<K>::all()).add_index(index).await;
        added.map_err(|source| Error::Index { resource: Box::new(K::api_resource()), source })
    }

    /// Returns a function that reports the status of each cache without keeping the caches alive.
    #[cfg(any(feature = "console", feature = "metrics"))]
    pub(crate) fn cache_statuses(&self) -> impl Fn() -> Vec<windlass_cache::InformerStatus> + Send + Sync + 'static {
        let observers: Vec<_> = self.caches.factories().map(InformerFactory::observer).collect();
        move || observers.iter().flat_map(|statuses| statuses()).collect()
    }

    /// Returns the client of a controller. Its field manager is the name of the program and of the controller, unless the
    /// program has set another.
    pub(crate) fn client_for(&self, controller: &str) -> Client {
        self.client.clone().with_component(controller)
    }

    /// Stops all informers and waits until they have ended.
    pub(crate) async fn stop(&self) {
        for informers in self.caches.factories() {
            informers.shutdown().await;
        }
    }

    /// Stops all informers without waiting.
    pub(crate) fn abort(&self) {
        // The first poll takes the tasks. Dropping the future aborts them.
        for informers in self.caches.factories() {
            let _ = informers.shutdown().now_or_never();
        }
    }
}

impl Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("caches", &self.caches).finish_non_exhaustive()
    }
}

// === impl CacheSet ===

impl CacheSet {
    fn of(&self, resource: &ApiResource) -> &KindCaches {
        let chosen = self.chosen.iter().find(|(of, _)| of == resource);
        chosen.map_or(&self.usual, |(_, chosen)| chosen)
    }

    /// Returns the factories that hold the informers of a watch, each with its selection. At least one.
    fn parts_of<T>(&self, watch: &Watch<T>) -> Vec<(&InformerFactory, Selection)> {
        let (of_kind, selection) = (self.of(&watch.resource), &watch.selection);
        if watch.resource.scope == Scope::Cluster {
            return vec![(&of_kind.whole, selection.clone())];
        }
        match selection.namespace() {
            Some(namespace) => {
                let part = of_kind.part_with(namespace);
                vec![(part.map_or(&of_kind.whole, |part| &part.informers), selection.clone())]
            }
            None => of_kind.parts.iter().map(|part| (&part.informers, part.selection(selection))).collect(),
        }
    }

    fn factories(&self) -> impl Iterator<Item = &InformerFactory> {
        let of_kinds = std::iter::once(&self.usual).chain(self.chosen.iter().map(|(_, of_kind)| of_kind));
        of_kinds.flat_map(|of_kind| {
            let parts = of_kind.parts.iter().map(|part| &part.informers);
            parts.chain(std::iter::once(&of_kind.whole))
        })
    }
}

impl Debug for CacheSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.factories()).finish()
    }
}

// === impl KindCaches ===

impl KindCaches {
    /// Returns the part that covers a namespace.
    fn part_with(&self, namespace: &str) -> Option<&Part> {
        let named = self.parts.iter().find(|part| part.namespace.as_deref() == Some(namespace));
        named.or_else(|| self.parts.iter().find(|part| part.namespace.is_none()))
    }
}

// === impl Part ===

impl Part {
    fn new(part: CachePart, factory: impl Fn(InformerOptions) -> InformerFactory) -> Self {
        let CachePart { namespace, except, informer } = part;
        let except = except.iter().map(|namespace| format!("metadata.namespace!={namespace}"));
        let except = except.reduce(|all, one| format!("{all},{one}"));
        let fields = informer.selectors().fields.map(str::to_owned);
        Self { namespace, except, fields, informers: factory(informer) }
    }

    /// Returns the selection of this part for a watch of all namespaces.
    fn selection(&self, wanted: &Selection) -> Selection {
        let selection = wanted.clone();
        if let Some(namespace) = &self.namespace {
            return selection.within(namespace);
        }
        let Some(except) = &self.except else { return selection };
        let fields = wanted.field_selector().or(self.fields.as_deref()).filter(|fields| !fields.is_empty());
        selection.fields(fields.map_or_else(|| except.clone(), |fields| format!("{fields},{except}")))
    }
}
