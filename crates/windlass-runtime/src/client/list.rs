//! Lists of cached objects.

use std::{
    collections::HashSet,
    fmt::{self, Debug},
    future::IntoFuture,
    sync::Arc,
};

use futures::{FutureExt, future::BoxFuture};
use windlass_api::{FieldSelector, LabelSelector, Object, Scope, Status};
use windlass_cache::{AddIndexError, Cached, Index, Lister, Reads};
use windlass_client::{Error, Operation, Verb};

use super::{CachedKind, decoded, refused};

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

impl<K: Object> CachedList<K> {
    pub(super) const fn new(kind: CachedKind<K>) -> Self {
        Self { kind, namespace: None, labels: None, fields: None, owner: None, limit: usize::MAX }
    }

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
    /// `metadata.name`, `metadata.namespace`, and each index that is named after a field. See
    /// [`Cluster::index`](crate::Cluster::index).
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
