//! A mapper that runs discovery on demand.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use windlass_api::{GroupKind, GroupVersionKind, GroupVersionResource};

use super::{MappingError, RestMapper, Result};
use crate::{CachedDiscovery, DiscoveredResource, Discovery};

/// The age of a discovery result from which an unknown name causes a new discovery.
const RELOAD_AFTER: Duration = Duration::from_secs(10);

/// A [`RestMapper`] that is created from discovery on first use, and again when a name is not found. So it also
/// finds custom resources that were installed in the meantime.
///
/// An unknown name causes a new discovery only if the cached one is from disk, is partial, or is older than ten
/// seconds. Clones share the cache.
#[derive(Clone, Debug)]
pub struct DeferredRestMapper {
    discovery: CachedDiscovery,
    reload_after: Duration,
    cached: Arc<Mutex<Option<CachedMapper>>>,
}

/// A mapper and the discovery that it was created from.
#[derive(Clone, Debug)]
struct CachedMapper {
    from: Arc<Discovery>,
    mapper: Arc<RestMapper>,
}

impl DeferredRestMapper {
    /// Creates a mapper from cached discovery.
    #[must_use]
    pub fn new(discovery: CachedDiscovery) -> Self {
        Self { discovery, reload_after: RELOAD_AFTER, cached: Arc::default() }
    }

    /// Sets the age of a discovery result from which an unknown name causes a new discovery. Defaults to ten seconds.
    #[must_use]
    pub fn with_reload_after(mut self, age: Duration) -> Self {
        self.reload_after = age;
        self
    }

    /// Returns the mapper of the cached discovery, running discovery if there is none.
    pub async fn mapper(&self) -> Result<Arc<RestMapper>> {
        // Boxed, because the result is mostly cached: this keeps the callers' futures small.
        let from = Box::pin(self.discovery.get()).await?;
        let mut cached = self.cached.lock();
        if let Some(cached) = cached.as_ref().filter(|cached| Arc::ptr_eq(&cached.from, &from)) {
            return Ok(Arc::clone(&cached.mapper));
        }
        let mapper = Arc::new(RestMapper::new(&from));
        *cached = Some(CachedMapper { from, mapper: Arc::clone(&mapper) });
        Ok(mapper)
    }

    /// Clears the cache. The next call runs discovery.
    pub fn reset(&self) {
        self.discovery.invalidate();
    }

    /// Like [`RestMapper::resource_for`].
    pub async fn resource_for(&self, partial: &GroupVersionResource) -> Result<DiscoveredResource> {
        self.find(|mapper| mapper.resource_for(partial).cloned()).await
    }

    /// Like [`RestMapper::kind_for`].
    pub async fn kind_for(&self, partial: &GroupVersionResource) -> Result<GroupVersionKind> {
        self.find(|mapper| mapper.kind_for(partial)).await
    }

    /// Like [`RestMapper::mapping`].
    pub async fn mapping(&self, kind: &GroupKind, versions: &[&str]) -> Result<DiscoveredResource> {
        self.find(|mapper| mapper.mapping(kind, versions).cloned()).await
    }

    /// Like [`RestMapper::resolve`].
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
