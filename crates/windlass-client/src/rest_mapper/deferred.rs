//! A mapper that asks the server when it has to.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use windlass_api::{GroupKind, GroupVersionKind, GroupVersionResource};

use super::{MappingError, RestMapper, Result};
use crate::{CachedDiscovery, DiscoveredResource, Discovery};

/// How old an answer has to be for an unknown name to be reason to ask again.
const RELOAD_AFTER: Duration = Duration::from_secs(10);

/// A [`RestMapper`] made of discovery when it is first needed, and anew when a name is not known: a custom resource that
/// has been installed since is found.
///
/// However often unknown names are asked for, the server is asked again only when what is known is from disk, is partial,
/// or is older than ten seconds. Clones share what they know.
#[derive(Clone, Debug)]
pub struct DeferredRestMapper {
    discovery: CachedDiscovery,
    reload_after: Duration,
    made: Arc<Mutex<Option<Made>>>,
}

/// A mapper and the discovery that it is made of.
#[derive(Clone, Debug)]
struct Made {
    from: Arc<Discovery>,
    mapper: Arc<RestMapper>,
}

impl DeferredRestMapper {
    /// Asks by this cache.
    #[must_use]
    pub fn new(discovery: CachedDiscovery) -> Self {
        Self { discovery, reload_after: RELOAD_AFTER, made: Arc::default() }
    }

    /// Takes what is known for good for this long, whatever names are not in it.
    #[must_use]
    pub fn with_reload_after(mut self, age: Duration) -> Self {
        self.reload_after = age;
        self
    }

    /// The mapper of what is known now.
    pub async fn mapper(&self) -> Result<Arc<RestMapper>> {
        // Boxed, as it is mostly there already: no caller needs room for what asking a server takes.
        let from = Box::pin(self.discovery.get()).await?;
        let mut made = self.made.lock();
        if let Some(made) = made.as_ref().filter(|made| Arc::ptr_eq(&made.from, &from)) {
            return Ok(Arc::clone(&made.mapper));
        }
        let mapper = Arc::new(RestMapper::new(&from));
        *made = Some(Made { from, mapper: Arc::clone(&mapper) });
        Ok(mapper)
    }

    /// Forgets: the next question goes to the server.
    pub fn reset(&self) {
        self.discovery.invalidate();
    }

    /// As [`RestMapper::resource_for`].
    pub async fn resource_for(&self, partial: &GroupVersionResource) -> Result<DiscoveredResource> {
        self.find(|mapper| mapper.resource_for(partial).cloned()).await
    }

    /// As [`RestMapper::kind_for`].
    pub async fn kind_for(&self, partial: &GroupVersionResource) -> Result<GroupVersionKind> {
        self.find(|mapper| mapper.kind_for(partial)).await
    }

    /// As [`RestMapper::mapping`].
    pub async fn mapping(&self, kind: &GroupKind, versions: &[&str]) -> Result<DiscoveredResource> {
        self.find(|mapper| mapper.mapping(kind, versions).cloned()).await
    }

    /// As [`RestMapper::resolve`].
    pub async fn resolve(&self, text: &str) -> Result<DiscoveredResource> {
        self.find(|mapper| mapper.resolve(text).cloned()).await
    }

    async fn find<T>(&self, find: impl Fn(&RestMapper) -> Result<T>) -> Result<T> {
        let found = find(&*self.mapper().await?);
        let unknown = matches!(found, Err(MappingError::NoResource(_) | MappingError::NoKind { .. }));
        if unknown && self.discovery.age().is_none_or(|age| age >= self.reload_after) {
            self.reset();
            return find(&*self.mapper().await?);
        }
        found
    }
}
