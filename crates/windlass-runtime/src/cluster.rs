//! One cluster as a manager sees it: a client, and the caches that everything in the manager shares.

use std::{
    fmt::{self, Debug},
    sync::Arc,
    time::Duration,
};

use futures::FutureExt;
use windlass_api::{ApiResource, Clock, Entropy, ListWatch, Object, Resource, Scope};
use windlass_cache::{Index, InformerFactory, InformerOptions, InformerStatus, Informers, Selection, WriteJournals};
use windlass_client::Client;

use crate::{
    CacheOptions, CachedClient, Error, Result, Watch,
    caches::{Caches, Share},
    events::{Outlet, Recorder},
    own_writes,
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
    caches: Arc<Kept>,
    own_writes_timeout: Duration,
    clock: Clock,
    entropy: Entropy,
    events: Outlet,
}

/// The caches of all kinds.
struct Kept {
    /// Of the kinds that are not in `chosen`.
    usual: OfKind,
    /// Of the kinds whose caches are kept otherwise.
    chosen: Vec<(ApiResource, OfKind)>,
}

/// How the caches of a kind are kept.
struct OfKind {
    /// Of a namespaced kind, those that hold together all that is wanted of it. At least one.
    parts: Vec<Part>,
    /// Of a kind without namespaces, and of a watch in a namespace that no part is for.
    whole: InformerFactory,
}

/// A part of a kind, with an informer for each type and each selection.
struct Part {
    /// `None`: of all, or of those that are not in `except`.
    namespace: Option<String>,
    /// Which namespaces are other parts', as a field selector.
    except: Option<String>,
    /// The field selector of the part's options.
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
        events: Outlet,
    ) -> Self {
        let journals = WriteJournals::default();
        let client = own_writes::recorded(client, &journals);
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
        let of_kind = |options: &CacheOptions| OfKind {
            parts: options.shares(&caches.usual).into_iter().map(|share| Part::new(share, factory)).collect(),
            whole: factory(options.whole(&caches.usual).informer),
        };
        let usual = of_kind(&caches.usual);
        let chosen = caches.chosen.iter().map(|(resource, options)| (resource.clone(), of_kind(options))).collect();
        let caches = Arc::new(Kept { usual, chosen });
        Self { client, caches, own_writes_timeout, clock, entropy, events }
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns how long a read waits until the cache shows the manager's own writes.
    pub(crate) fn own_writes_timeout(&self) -> Duration {
        self.own_writes_timeout
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

    /// The informers of a watch (its predicate does not matter here), started if this is the first to ask: one, or one for
    /// each of the namespaces that the manager's caches are of. They may not be synced yet, and never will be after the
    /// manager has stopped.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn informer<T: Object>(&self, watch: &Watch<T>) -> Informers<T> {
        let mut parts = self.caches.parts_of(watch).into_iter().map(|(factory, selection)| {
            let informer = factory.for_resource(watch.resource.clone(), selection);
            factory.start();
            informer
        });
        let first = parts.next().expect("a kind has one part at least");
        Informers::new(first, parts)
    }

    /// Whether the caches of a kind are to hold what is in a namespace.
    pub(crate) fn holds(&self, resource: &ApiResource, namespace: &str) -> bool {
        resource.scope == Scope::Cluster || self.caches.of(resource).part_with(namespace).is_some()
    }

    /// Ends the informers of a watch and waits until they have; their memory is free once nobody reads them any more: for
    /// kinds that a program has found at run time and is done with. Says whether there was one.
    ///
    /// Controllers that still watch it, or hold its store, see no further change; whoever asks for it anew, as reads of a
    /// [`CachedClient`] do, gets a new one. controller-runtime's `RemoveInformer`.
    pub async fn forget<T: Object>(&self, watch: &Watch<T>) -> bool {
        let mut found = false;
        for (factory, selection) in self.caches.parts_of(watch) {
            found |= factory.remove::<T>(watch.resource.clone(), selection).await;
        }
        found
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

    /// Asks how each cache is, without keeping the caches alive.
    pub(crate) fn cache_statuses(&self) -> impl Fn() -> Vec<InformerStatus> + Send + Sync + 'static {
        let observers: Vec<_> = self.caches.factories().map(InformerFactory::observer).collect();
        move || observers.iter().flat_map(|statuses| statuses()).collect()
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
        for informers in self.caches.factories() {
            informers.shutdown().await;
        }
    }

    /// Ends all informers without waiting.
    pub(crate) fn abort(&self) {
        // The first poll takes the tasks; dropped, they are aborted.
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

// === impl Kept ===

impl Kept {
    fn of(&self, resource: &ApiResource) -> &OfKind {
        let chosen = self.chosen.iter().find(|(of, _)| of == resource);
        chosen.map_or(&self.usual, |(_, chosen)| chosen)
    }

    /// Whose informers a watch is of, and what each of them selects. At least one.
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

impl Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.factories()).finish()
    }
}

// === impl OfKind ===

impl OfKind {
    /// The part that holds what is in a namespace.
    fn part_with(&self, namespace: &str) -> Option<&Part> {
        let named = self.parts.iter().find(|part| part.namespace.as_deref() == Some(namespace));
        named.or_else(|| self.parts.iter().find(|part| part.namespace.is_none()))
    }
}

// === impl Part ===

impl Part {
    fn new(share: Share, factory: impl Fn(InformerOptions) -> InformerFactory) -> Self {
        let Share { namespace, except, informer } = share;
        let except = except.iter().map(|namespace| format!("metadata.namespace!={namespace}"));
        let except = except.reduce(|all, one| format!("{all},{one}"));
        let fields = informer.selectors().fields.map(str::to_owned);
        Self { namespace, except, fields, informers: factory(informer) }
    }

    /// What a watch of all namespaces selects in this part.
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
