//! The client of a manager: reads from the manager's caches, writes to the server.
//!
//! # Guarantees
//!
//! - A read waits until the cache of its kind has synced; after that it sends no request. The first read of a kind
//!   starts its cache, unless the kind is watched already. Typed, dynamic and metadata-only reads have separate caches.
//! - Objects returned by writes look like objects returned by reads: without managedFields, which are about half of
//!   most objects. The live client returns them.
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
//! - A read of a kind that the server does not serve waits until the caller gives up.

use std::{
    collections::HashSet,
    fmt::{self, Debug},
    future::IntoFuture,
    ops::Deref,
    sync::Arc,
};

use futures::{FutureExt, future::BoxFuture};
use windlass_api::{
    ApiResource, FieldSelector, LabelSelector, Object, ObjectRef, PartialObject, Resource, Scope, Status,
};
use windlass_cache::{AddIndexError, Cached, Index, Lister, Reads};
use windlass_client::{Client, Error, Operation, Verb, request::RequestError};

use crate::{
    Cluster, Watch,
    read_your_writes::{self, StaleRead},
};

/// Reads from a manager's caches and writes to the server.
///
/// All other operations (writes, subresources, watches) are those of the [live client](Client), to which this type
/// dereferences. Their responses contain no managedFields.
///
/// ```
/// # use windlass_api::k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// # use windlass_runtime::{Context, Result};
/// # async fn reconcile(cx: Context) -> Result<()> {
/// let config = cx.client().get::<ConfigMap>("colours").await?; // from the cache
/// let pods = cx.client().list::<Pod>().within("shop").labels("app=web").await?; // from the cache
/// cx.client().delete::<Pod>("web-0").await?; // a request
/// let fresh = cx.live().get::<ConfigMap>("colours").await?; // a request
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

/// A list of cached objects. It is read when it is awaited.
#[must_use = "a list does nothing until it is awaited"]
pub struct CachedList<K> {
    kind: CachedKind<K>,
    namespace: Option<String>,
    labels: Option<String>,
    fields: Option<String>,
    /// The owner's UID.
    owner: Option<String>,
    limit: usize,
}

/// The index of objects by the UIDs of their owners. The first list by owner adds it to a cache.
const OWNER_INDEX: &str = "windlass.dev/owner";

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

    /// Returns the live client, which sends each read to the server.
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
}

impl Deref for CachedClient {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.parts.writing
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
        CachedList { kind: self.clone(), namespace: None, labels: None, fields: None, owner: None, limit: usize::MAX }
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

// === impl CachedList ===

impl<K: Object> CachedList<K> {
    /// Lists only the objects in one namespace.
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Lists only the objects that match a label selector, in its string form.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Lists only the objects with these field values, for example `spec.nodeName=n1`. A cache supports
    /// `metadata.name`, `metadata.namespace`, and each index that is named after a field, see [`Cluster::index`].
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }

    /// Lists only the objects with an owner reference to this object. If the owner is namespaced, only its namespace is
    /// searched. Uses an index of the cache, which the first such list adds. An owner without a UID was never stored
    /// and owns nothing.
    ///
    /// ```
    /// # use windlass_api::k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
    /// # use windlass_runtime::{Context, Result};
    /// # async fn count(set: &ReplicaSet, cx: &Context) -> Result<usize> {
    /// Ok(cx.client().list::<Pod>().owned_by(set).await?.len())
    /// # }
    /// ```
    pub fn owned_by(mut self, owner: &impl Object) -> Self {
        let metadata = owner.metadata();
        self.owner = Some(metadata.uid.clone().unwrap_or_default());
        if let (Some(namespace), Scope::Namespaced) = (&metadata.namespace, self.kind.watch.resource.scope) {
            self.namespace.get_or_insert_with(|| namespace.clone());
        }
        self
    }

    /// Limits the number of listed objects. There is no paging: the remaining objects cannot be requested.
    pub const fn limit(mut self, objects: usize) -> Self {
        self.limit = objects;
        self
    }

    /// Lists without waiting until the cache shows the manager's own writes.
    pub fn stale(mut self) -> Self {
        self.kind = self.kind.stale();
        self
    }

    /// Returns the objects as they are cached. Access to their metadata needs no decoding.
    pub async fn cached(self) -> Result<Vec<Cached<K>>, Error> {
        let list = self.confined();
        let operation = list.operation();
        list.select(&operation).await
    }

    /// Adds the namespace that the client is confined to, if no namespace is set.
    fn confined(mut self) -> Self {
        if self.kind.watch.resource.scope == Scope::Namespaced
            && self.namespace.as_deref().unwrap_or_default().is_empty()
        {
            self.namespace = self.kind.client.live().confinement().map(str::to_owned);
        }
        self
    }

    fn operation(&self) -> Operation {
        self.kind.operation(Verb::List, self.namespace.as_deref(), None)
    }

    async fn select(self, operation: &Operation) -> Result<Vec<Cached<K>>, Error> {
        let bad = |why: String| refused(operation, Status::bad_request(why));
        let labels: LabelSelector =
            self.labels.as_deref().unwrap_or_default().parse().map_err(|e| bad(format!("{e}")))?;
        let fields: FieldSelector =
            self.fields.as_deref().unwrap_or_default().parse().map_err(|e| bad(format!("{e}")))?;
        let reads = match self.namespace.as_deref() {
            Some(namespace) if !namespace.is_empty() => Reads::Namespace(namespace),
            _ => Reads::All,
        };
        let lister = self.kind.lister(operation, reads).await?;
        let lister = match self.namespace {
            Some(namespace) if !namespace.is_empty() => lister.within(namespace),
            _ => lister,
        };
        let mut found: Option<Vec<Cached<K>>> = match &self.owner {
            Some(owner) => Some(owned(&self.kind, &lister, owner, operation).await?),
            None => None,
        };
        for requirement in fields.requirements() {
            let (field, value) = (&*requirement.field, &*requirement.value);
            if !requirement.equal {
                return Err(bad(format!(
                    "cached lists support only equality in field selectors, not {field}!={value}"
                )));
            }
            found = Some(match (field, found) {
                ("metadata.name", found) => kept(found.unwrap_or_else(|| lister.list()), |key| &*key.name == value),
                ("metadata.namespace", found) => {
                    kept(found.unwrap_or_else(|| lister.list()), |key| key.namespace.as_deref() == Some(value))
                }
                (index, found) => {
                    let indexed = lister.by_index(index, value);
                    let indexed = indexed.map_err(|error| bad(error.to_string()))?;
                    match found {
                        None => indexed,
                        Some(found) => {
                            let keys: HashSet<_> = indexed.iter().map(Cached::key).collect();
                            kept(found, |key| keys.contains(key))
                        }
                    }
                }
            });
        }
        let mut found = match found {
            Some(mut found) => {
                found.retain(|object| labels.matches(|key| object.meta().label(key)));
                found
            }
            None => lister.select(&labels),
        };
        found.truncate(self.limit);
        Ok(found)
    }
}

impl<K: Object> IntoFuture for CachedList<K> {
    type Output = Result<Vec<Arc<K>>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move {
            let list = self.confined();
            let operation = list.operation();
            let found = list.select(&operation).await?;
            found.iter().map(|cached| decoded(cached, &operation)).collect()
        }
        .boxed()
    }
}

impl<K> Debug for CachedList<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedList")
            .field("kind", &self.kind)
            .field("namespace", &self.namespace)
            .field("labels", &self.labels)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}

/// Returns the objects of an owner. Adds the owner index to the cache if it is missing.
async fn owned<K: Object>(
    kind: &CachedKind<K>,
    lister: &Lister<K>,
    owner: &str,
    operation: &Operation,
) -> Result<Vec<Cached<K>>, Error> {
    if owner.is_empty() {
        return Ok(Vec::new());
    }
    if let Ok(found) = lister.by_index(OWNER_INDEX, owner) {
        return Ok(found);
    }
    for informer in kind.client.cluster().informer(&kind.watch).each() {
        let index = Index::on_meta(OWNER_INDEX, |meta| {
            meta.owner_references().iter().map(|owner| Arc::clone(&owner.uid)).collect::<Vec<_>>()
        });
        match informer.add_index(index).await {
            // A concurrent list has added the index.
            Ok(()) | Err(AddIndexError::Conflict(_)) => {}
            Err(error) => {
                let operation = Box::new(operation.clone());
                return Err(Error::Transport { operation, source: Box::new(error) });
            }
        }
    }
    lister.by_index(OWNER_INDEX, owner).map_err(|error| refused(operation, Status::bad_request(error.to_string())))
}

fn kept<K>(mut found: Vec<Cached<K>>, wanted: impl Fn(&windlass_api::ObjectKey) -> bool) -> Vec<Cached<K>> {
    found.retain(|object| wanted(object.key()));
    found
}

fn decoded<K: Object>(cached: &Cached<K>, operation: &Operation) -> Result<Arc<K>, Error> {
    let failed = |error| Error::Decode { operation: Box::new(operation.clone()), source: Box::new(error) };
    cached.get().map_err(failed)
}

/// Creates the error that the server would return.
fn refused(operation: &Operation, status: Status) -> Error {
    Error::Status { operation: Box::new(operation.clone()), status: Box::new(status) }
}
