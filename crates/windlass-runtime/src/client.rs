//! The client of a manager: reads from the manager's caches, writes to the server.
//!
//! | methods of [`CachedClient`] | destination |
//! |---|---|
//! | `get`, `get_opt`, `list`, and those of `kind`, `kind_of` and `metadata_of` | the manager's caches |
//! | `create`, `update`, `update_status`, `patch`, `apply`, `delete`, `delete_collection` | the server |
//! | `live()` returns the [`Client`], with these verbs and all others | the server |
//!
//! So a read needs the word `live` to send a request, and a write never reads a cache. Verbs that only the live client
//! has are watches, scales, evictions, bindings, tokens, logs and exec, and all writes of
//! [kinds known only at run time](Client::dynamic).
//!
//! # Guarantees
//!
//! - A read waits until the cache of its kind has synced; after that it sends no request. The first read of a kind
//!   starts its cache, unless the kind is watched already. Typed, dynamic and metadata-only reads have separate caches.
//! - Objects returned by writes look like objects returned by reads: without managedFields, which are about half of
//!   most objects. Those of the live client have managedFields.
//! - Objects returned by reads are shared. They can be stored and passed on, but not modified.
//! - **Read-your-writes**: after a create, update, patch, apply or delete by a client of the same manager, a read of
//!   that object, or a list that may contain it, shows that write or something newer. A deleted object is missing or
//!   terminating. The read waits for the cache, for 10 s by default
//!   ([`ManagerBuilder::own_writes_timeout`](crate::ManagerBuilder::own_writes_timeout)), then fails with
//!   [`Error::Stale`]. A failed reconcile is retried with back-off, while one that acts on a stale object may create a
//!   child twice. [`CachedClient::stale`] reads without waiting.
//! - The object passed to a reconciler is read in the same way.
//!
//! # Not guaranteed
//!
//! - Reads do not wait for these writes: writes whose response was lost; requests built by the caller; bindings and
//!   evictions; writes of other clients in the program; writes older than 5 minutes.
//!   [`Context::store`](crate::Context::store) shows the current content of the cache.
//! - If a cache is restricted by fields other than name and namespace, a created object may not be visible yet.
//! - A read of a namespace that the manager's caches do not cover is an error, see
//!   [`CacheOptions`](crate::CacheOptions). The live client can read it.
//! - With [`ManagerBuilder::declared_caches_only`](crate::ManagerBuilder::declared_caches_only), a read of objects
//!   without a cache is an error.
//! - A read of a kind that the server does not serve waits until the caller gives up.

mod list;

use std::{
    fmt::{self, Debug},
    sync::Arc,
};

use windlass_api::{ApiResource, ApplyConfiguration, Object, ObjectRef, PartialObject, Patch, Resource, Scope, Status};
use windlass_cache::{Cached, Lister, Reads};
use windlass_client::{
    Client, Error, Operation, Verb,
    request::RequestError,
    verbs::{Apply, Create, Delete, DeleteCollection, PatchOne, Update},
};

pub use self::list::CachedList;
use crate::{
    Cluster, Watch,
    read_your_writes::{self, StaleRead},
};

/// Reads from a manager's caches and writes to the server. [`live`](Self::live) returns the client for everything else.
///
/// Cheap to clone. See the [module](self) for the guarantees. It is not a [`Client`], so a function that takes one does not
/// read around the caches by mistake:
///
/// ```compile_fail,E0308
/// # use windlass_client::Client;
/// # use windlass_runtime::Context;
/// # fn example(cx: &Context) {
/// let client: &Client = cx.client(); // `cx.live()` compiles
/// # }
/// ```
///
/// ```
/// # use windlass_api::k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// # use windlass_runtime::{Context, Result};
/// # async fn reconcile(cx: Context) -> Result<()> {
/// let config = cx.client().get::<ConfigMap>("colors").await?; // from the cache
/// let pods = cx.client().list::<Pod>().within("shop").labels("app=web").await?; // from the cache
/// cx.client().delete::<Pod>("web-0").await?; // a request
/// let fresh = cx.live().get::<ConfigMap>("colors").await?; // a request
/// cx.live().resources::<Pod>().evict("web-1").await?; // a request
/// # let _ = (config, pods, fresh);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CachedClient {
    parts: Arc<Parts>,
    freshness: Freshness,
}

/// The freshness of reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Freshness {
    /// Reads show the manager's own writes.
    #[default]
    OwnWrites,
    /// Reads show the current content of the cache.
    Stale,
}

#[derive(Debug)]
struct Parts {
    live: Client,
    /// The live client, except that it removes managedFields from responses.
    writing: Client,
    cluster: Cluster,
}

/// The cached objects of one resource, as `K`. Created by [`CachedClient::kind`] and [`CachedClient::kind_of`].
pub struct CachedKind<K> {
    client: CachedClient,
    watch: Watch<K>,
}

// === impl Cluster ===

impl Cluster {
    /// Returns the client that reads from the caches.
    #[must_use]
    pub fn cached_client(&self) -> CachedClient {
        CachedClient::new(self.client().clone(), self.clone())
    }
}

// === impl CachedClient ===

impl CachedClient {
    pub(crate) fn new(live: Client, cluster: Cluster) -> Self {
        let parts = Parts { writing: live.clone().without_managed_fields(), live, cluster };
        Self { parts: Arc::new(parts), freshness: Freshness::default() }
    }

    /// Returns the same client with reads that do not wait until the cache shows the manager's own writes.
    ///
    /// ```
    /// # use windlass_api::k8s_openapi::api::core::v1::Pod;
    /// # use windlass_runtime::{Context, Result};
    /// # async fn reconcile(cx: Context) -> Result<()> {
    /// let pods = cx.client().stale().list::<Pod>().await?; // never waits for a write
    /// # let _ = pods;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn stale(&self) -> Self {
        Self { parts: Arc::clone(&self.parts), freshness: Freshness::Stale }
    }

    /// Returns this client with the connections and the credentials of another client of the same server. Reads come
    /// from the same caches.
    #[must_use]
    pub fn with_credentials_of(&self, client: &Client) -> Self {
        let Parts { live, writing, cluster } = &*self.parts;
        let parts = Parts {
            live: live.clone().with_credentials_of(client),
            writing: writing.clone().with_credentials_of(client),
            cluster: cluster.clone(),
        };
        Self { parts: Arc::new(parts), freshness: self.freshness }
    }

    /// Returns the client without caches, which sends each read to the server and has all verbs. Its responses contain
    /// managedFields.
    #[must_use]
    pub fn live(&self) -> &Client {
        &self.parts.live
    }

    /// Returns the cluster whose caches this client reads.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.parts.cluster
    }

    /// Returns the same client with a modified live client: [confined](Client::confined_to) to a namespace, or with
    /// writes as [dry runs](Client::with_dry_run). Reads from the caches are confined to the same namespace.
    ///
    /// ```
    /// # use windlass_runtime::Context;
    /// # fn example(cx: &Context) {
    /// let of_team = cx.client().clone().with(|live| live.confined_to("team"));
    /// # let _ = of_team;
    /// # }
    /// ```
    #[must_use]
    pub fn with(self, change: impl FnOnce(Client) -> Client) -> Self {
        let changed = Self::new(change(self.parts.live.clone()), self.parts.cluster.clone());
        Self { freshness: self.freshness, ..changed }
    }

    /// Returns the cached objects of a type.
    #[must_use]
    pub fn kind<K: Resource>(&self) -> CachedKind<K> {
        self.kind_of(K::api_resource())
    }

    /// Returns the cached objects of a resource that is known only at run time. Use
    /// [`DynamicObject`](windlass_api::DynamicObject), or [`PartialObject`] to cache metadata only.
    #[must_use]
    pub fn kind_of<K: Object>(&self, resource: ApiResource) -> CachedKind<K> {
        CachedKind { client: self.clone(), watch: Watch::dynamic(resource) }
    }

    /// Returns the cached metadata of the objects of a type. Only metadata is cached for it.
    #[must_use]
    pub fn metadata_of<K: Resource>(&self) -> CachedKind<PartialObject> {
        self.kind_of(K::api_resource())
    }

    /// Returns the cached object with this name, or an error if it does not exist.
    pub async fn get<K: Resource>(&self, key: impl Into<ObjectRef<K>>) -> Result<Arc<K>, Error> {
        self.kind().get(key).await
    }

    /// Returns the cached object with this name, or `None` if it does not exist.
    pub async fn get_opt<K: Resource>(&self, key: impl Into<ObjectRef<K>>) -> Result<Option<Arc<K>>, Error> {
        self.kind().get_opt(key).await
    }

    /// Lists the cached objects of a type.
    pub fn list<K: Resource>(&self) -> CachedList<K> {
        self.kind().list()
    }

    /// Creates an object. See [`Client::create`].
    pub fn create<K: Resource>(&self, object: &K) -> Create<K> {
        self.parts.writing.create(object)
    }

    /// Replaces an object. If the object has a `resourceVersion`, the update fails with a conflict unless this is the
    /// current version. See [`Client::update`].
    pub fn update<K: Resource>(&self, object: &K) -> Update<K> {
        self.parts.writing.update(object)
    }

    /// Replaces the status of an object and leaves its other fields unchanged. See [`Client::update_status`].
    pub fn update_status<K: Resource>(&self, object: &K) -> Update<K> {
        self.parts.writing.update_status(object)
    }

    /// Patches an object. See [`Client::patch`].
    pub fn patch<K: Resource>(&self, key: impl Into<ObjectRef<K>>, patch: Patch) -> PatchOne<K> {
        self.parts.writing.patch(key, patch)
    }

    /// Applies an object or an apply configuration (server-side apply). See [`Client::apply`].
    pub fn apply<C>(&self, configuration: &C) -> Apply<C::Object>
    where
        C: ApplyConfiguration<Object: Resource>,
    {
        self.parts.writing.apply(configuration)
    }

    /// Deletes an object. See [`Client::delete`].
    pub fn delete<K: Resource>(&self, key: impl Into<ObjectRef<K>>) -> Delete<K> {
        self.parts.writing.delete(key)
    }

    /// Deletes the objects of one namespace. See [`Client::delete_collection`].
    pub fn delete_collection<K: Resource>(&self) -> DeleteCollection<K> {
        self.parts.writing.delete_collection()
    }
}

// === impl CachedKind ===

impl<K: Object> CachedKind<K> {
    /// Returns the object with this name, or an error if it does not exist. The namespace defaults to the client's.
    pub async fn get(&self, key: impl Into<ObjectRef<K>>) -> Result<Arc<K>, Error> {
        let (key, operation) = self.target(key.into());
        let cached = self.lister(&operation, Reads::Object(key.key())).await?.require(&key);
        let cached = cached.map_err(|status| refused(&operation, *status))?;
        decoded(&cached, &operation)
    }

    /// Returns the object with this name, or `None` if it does not exist.
    pub async fn get_opt(&self, key: impl Into<ObjectRef<K>>) -> Result<Option<Arc<K>>, Error> {
        let (key, operation) = self.target(key.into());
        let cached = self.lister(&operation, Reads::Object(key.key())).await?.get(&key);
        cached.map(|cached| decoded(&cached, &operation)).transpose()
    }

    /// Returns the same objects with reads that do not wait until the cache shows the manager's own writes.
    #[must_use]
    pub fn stale(mut self) -> Self {
        self.client.freshness = Freshness::Stale;
        self
    }

    /// Lists the objects.
    pub fn list(&self) -> CachedList<K> {
        CachedList::new(self.clone())
    }

    fn target(&self, key: ObjectRef<K>) -> (ObjectRef<K>, Operation) {
        let key = match (key.namespace(), self.watch.resource.scope) {
            (None, Scope::Namespaced) => key.within(self.client.live().default_namespace()),
            _ => key,
        };
        let operation = self.operation(Verb::Get, key.namespace(), Some(key.name()));
        (key, operation)
    }

    /// Returns the cache after it has synced and shows the manager's own writes.
    async fn lister(&self, operation: &Operation, reads: Reads<'_>) -> Result<Lister<K>, Error> {
        let resource = &self.watch.resource;
        if let (Some(namespace), Some(own)) = (&operation.namespace, self.client.live().confinement())
            && namespace != own
            && resource.scope == Scope::Namespaced
        {
            let (namespace, own) = (namespace.clone(), own.to_owned());
            let source = RequestError::Confined { namespace, own };
            return Err(Error::Request { operation: Box::new(operation.clone()), source });
        }
        if let Some(namespace) = operation.namespace.as_deref().filter(|namespace| !namespace.is_empty())
            && !self.client.cluster().holds(resource, namespace)
        {
            // An empty result would look like a namespace without objects.
            let why = format!("the cache of {} does not cover namespace {namespace}", resource.group_resource());
            return Err(refused(operation, Status::bad_request(why)));
        }
        if !self.client.cluster().permits_read(&self.watch) {
            let why = format!("the manager has no cache of {}, and reads do not start one", resource.group_resource());
            return Err(refused(operation, Status::bad_request(why)));
        }
        let informers = self.client.cluster().informer(&self.watch);
        let stopped = |stopped| Error::Transport { operation: Box::new(operation.clone()), source: Box::new(stopped) };
        informers.has_synced().await.map_err(stopped)?;
        if self.client.freshness == Freshness::OwnWrites {
            let limit = self.client.cluster().own_writes_timeout();
            read_your_writes::wait(&informers, reads, limit).await.map_err(|unseen| match unseen {
                StaleRead::Stopped(source) => stopped(source),
                StaleRead::TimedOut { object, limit } => {
                    let (operation, object) = (Box::new(operation.clone()), object.to_string());
                    Error::Stale { operation, object, limit }
                }
            })?;
        }
        Ok(informers.store())
    }

    fn operation(&self, verb: Verb, namespace: Option<&str>, name: Option<&str>) -> Operation {
        Operation {
            verb,
            resource: self.watch.resource.group_resource().to_string(),
            subresource: None,
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
        }
    }
}

impl<K> Clone for CachedKind<K> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), watch: self.watch.clone() }
    }
}

impl<K> Debug for CachedKind<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedKind").field("watch", &self.watch).finish_non_exhaustive()
    }
}

fn decoded<K: Object>(cached: &Cached<K>, operation: &Operation) -> Result<Arc<K>, Error> {
    let failed = |error| Error::Decode { operation: Box::new(operation.clone()), source: Box::new(error) };
    cached.get().map_err(failed)
}

/// Creates the error that the server would return.
fn refused(operation: &Operation, status: Status) -> Error {
    Error::Status { operation: Box::new(operation.clone()), status: Box::new(status) }
}
