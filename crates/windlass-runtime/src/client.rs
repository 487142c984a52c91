//! The client of a manager: reads from its caches, writes to the server.
//!
//! # What is guaranteed
//!
//! - A read waits until the cache of its kind is complete, and then costs no request. The first read of a kind begins its
//!   cache, unless somebody watches the kind already; typed, dynamic and metadata-only reads have a cache each.
//! - What a write answers is as what is read: without managedFields, which are half of most objects. The live client has them.
//! - What was read can be kept and passed on, but not changed: it is shared.
//!
//! - **Own writes are read**: after a create, update, patch, apply or delete by a client of the same manager, a read of that
//!   object, or a list that may contain it, shows that write or something newer; a deleted object is gone or terminating. The
//!   read waits for the cache, for 10 seconds at most ([`ManagerBuilder::own_writes_timeout`](crate::ManagerBuilder::own_writes_timeout)),
//!   and fails with [`Error::Stale`] then: a reconcile that fails is repeated with back-off,
//!   while one that acts on an old state may create an object twice. [`CachedClient::stale`] reads without waiting.
//! - The object that a reconciler is called with is read in the same way.
//!
//! # What is not
//!
//! - These writes are not waited for: those whose answer was lost; requests that the caller has built; bindings and evictions;
//!   those of other clients of the same program; and those that are older than 5 minutes. [`Context::store`](crate::Context::store)
//!   shows what the cache has at that moment.
//! - In a cache that is selected by fields other than name and namespace, a created object may not be shown yet.
//! - A namespace that the manager's caches are not of is refused, see [`CacheOptions`](crate::CacheOptions); the live client
//!   has it.
//! - A kind that the server does not have is waited for, as long as whoever asks has patience.

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
    own_writes::{self, Unseen},
};

/// Reads from the caches of a manager and writes to the server.
///
/// Everything that is not here is the [live client's](Client), which it can be used as: writes, subresources, watches. What
/// that answers is without managedFields.
///
/// ```
/// # use windlass_api::k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// # use windlass_runtime::{Context, Result};
/// # async fn reconcile(cx: Context) -> Result<()> {
/// let config = cx.client().get::<ConfigMap>("colours").await?; // cached
/// let pods = cx.client().list::<Pod>().within("shop").labels("app=web").await?; // cached
/// cx.client().delete::<Pod>("web-0").await?; // sent
/// let fresh = cx.live().get::<ConfigMap>("colours").await?; // sent
/// # let _ = (config, pods, fresh);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CachedClient {
    parts: Arc<Parts>,
    freshness: Freshness,
}

/// How fresh reads are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Freshness {
    /// They show the manager's own writes.
    #[default]
    OwnWrites,
    /// They show what the cache has.
    Stale,
}

#[derive(Debug)]
struct Parts {
    live: Client,
    /// The live one, but for managedFields in what it answers.
    writing: Client,
    cluster: Cluster,
}

/// The cached objects of one resource, as `K`. Made by [`CachedClient::kind`] and [`CachedClient::kind_of`].
pub struct CachedKind<K> {
    client: CachedClient,
    watch: Watch<K>,
}

/// A list of cached objects: awaited, it is read.
#[must_use = "a list is read when it is awaited"]
pub struct CachedList<K> {
    kind: CachedKind<K>,
    namespace: Option<String>,
    labels: Option<String>,
    fields: Option<String>,
    /// The uid of an owner.
    owner: Option<String>,
    limit: usize,
}

/// The index of objects by the uids of their owners, which the first list by owner adds to a cache.
const OWNER_INDEX: &str = "windlass.dev/owner";

// === impl CachedClient ===

impl CachedClient {
    pub(crate) fn new(live: Client, cluster: Cluster) -> Self {
        let parts = Parts { writing: live.clone().without_managed_fields(), live, cluster };
        Self { parts: Arc::new(parts), freshness: Freshness::default() }
    }

    /// The same client, whose reads do not wait until the cache shows the manager's own writes.
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

    /// The client that asks the server.
    #[must_use]
    pub fn live(&self) -> &Client {
        &self.parts.live
    }

    /// The cluster, whose caches are read.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.parts.cluster
    }

    /// The same client, its live one changed: to one that is [confined](Client::confined_to) to a namespace, as reads from
    /// the caches are then, or whose writes are [dry runs](Client::with_dry_run).
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

    /// The cached objects of a type.
    #[must_use]
    pub fn kind<K: Resource>(&self) -> CachedKind<K> {
        self.kind_of(K::api_resource())
    }

    /// The cached objects of a resource that is known only at run time, as
    /// [`DynamicObject`](windlass_api::DynamicObject), or as [`PartialObject`] where metadata is
    /// enough: then no more is cached.
    #[must_use]
    pub fn kind_of<K: Object>(&self, resource: ApiResource) -> CachedKind<K> {
        CachedKind { client: self.clone(), watch: Watch::dynamic(resource) }
    }

    /// The cached metadata of the objects of a type: no more is cached for it.
    #[must_use]
    pub fn metadata_of<K: Resource>(&self) -> CachedKind<PartialObject> {
        self.kind_of(K::api_resource())
    }

    /// The cached object of that name.
    pub async fn get<K: Resource>(&self, key: impl Into<ObjectRef<K>>) -> Result<Arc<K>, Error> {
        self.kind().get(key).await
    }

    /// The cached object of that name, if there is one.
    pub async fn get_opt<K: Resource>(&self, key: impl Into<ObjectRef<K>>) -> Result<Option<Arc<K>>, Error> {
        self.kind().get_opt(key).await
    }

    /// The cached objects of a type.
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
    /// The object of that name; a namespaced one without a namespace is in the client's.
    pub async fn get(&self, key: impl Into<ObjectRef<K>>) -> Result<Arc<K>, Error> {
        let (key, operation) = self.target(key.into());
        let cached = self.lister(&operation, Reads::Object(key.key())).await?.require(&key);
        let cached = cached.map_err(|status| refused(&operation, *status))?;
        decoded(&cached, &operation)
    }

    /// The object of that name, if there is one.
    pub async fn get_opt(&self, key: impl Into<ObjectRef<K>>) -> Result<Option<Arc<K>>, Error> {
        let (key, operation) = self.target(key.into());
        let cached = self.lister(&operation, Reads::Object(key.key())).await?.get(&key);
        cached.map(|cached| decoded(&cached, &operation)).transpose()
    }

    /// The same objects, whose reads do not wait until the cache shows the manager's own writes.
    #[must_use]
    pub fn stale(mut self) -> Self {
        self.client.freshness = Freshness::Stale;
        self
    }

    /// The objects.
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

    /// Returns the cache, once it is complete and shows the manager's own writes.
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
            // Nothing found would look like nothing there.
            let why = format!("the cache of {} is not of namespace {namespace}", resource.group_resource());
            return Err(refused(operation, Status::bad_request(why)));
        }
        let informers = self.client.cluster().informer(&self.watch);
        let stopped = |stopped| Error::Transport { operation: Box::new(operation.clone()), source: Box::new(stopped) };
        informers.has_synced().await.map_err(stopped)?;
        if self.client.freshness == Freshness::OwnWrites {
            let limit = self.client.cluster().own_writes_timeout();
            own_writes::wait(&informers, reads, limit).await.map_err(|unseen| match unseen {
                Unseen::Stopped(source) => stopped(source),
                Unseen::Late { object, limit } => {
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
    /// Only those in one namespace.
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only those that match a label selector, in its string form.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Only those whose fields have these values: `spec.nodeName=n1`. A cache finds by `metadata.name`, by
    /// `metadata.namespace`, and by each index that it has under the name of the field, see [`Cluster::index`].
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }

    /// Only those that name this object among their owners; of an owner in a namespace, the objects in that namespace. Found by an
    /// index of the cache, which the first such list adds. An owner without a uid, which was never stored, owns nothing.
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

    /// Only so many. There are no pages: what is left out is not to be had otherwise.
    pub const fn limit(mut self, objects: usize) -> Self {
        self.limit = objects;
        self
    }

    /// Without waiting until the cache shows the manager's own writes.
    pub fn stale(mut self) -> Self {
        self.kind = self.kind.stale();
        self
    }

    /// The objects as they are cached: their metadata costs nothing.
    pub async fn cached(self) -> Result<Vec<Cached<K>>, Error> {
        let list = self.confined();
        let operation = list.operation();
        list.select(&operation).await
    }

    /// What names no namespace is about the one that the client is confined to.
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
                return Err(bad(format!("caches find by equal fields only, not by {field}!={value}")));
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

/// Returns the objects of an owner; the cache gets an index of them if it has none.
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
            // Another list has added it meanwhile.
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

/// As the server would have refused it.
fn refused(operation: &Operation, status: Status) -> Error {
    Error::Status { operation: Box::new(operation.clone()), status: Box::new(status) }
}
