//! Creation of cache entries from objects that did not come from an informer.

use std::sync::Arc;

use windlass_api::{ApiResource, MetaError, Object, Resource};

use crate::{ManagedFieldsMode, cached::Cached, error::UnreadableObject, ingest::Ingest};

impl<K: Object> Cached<K> {
    /// Encodes an object and creates a cache entry for it, as if it came from a server. Returns an error if it has no
    /// name.
    pub fn of(object: &K) -> Result<Self, UnreadableObject>
    where
        K: Resource,
    {
        Self::of_resource(K::api_resource(), object)
    }

    /// Like [`Self::of`], for a resource that is known only at run time.
    pub fn of_resource(resource: impl Into<Arc<ApiResource>>, object: &K) -> Result<Self, UnreadableObject> {
        let body = serde_json::to_vec(object).map_err(|error| UnreadableObject::Meta(MetaError::from(error)))?;
        Ingest::alone(resource, ManagedFieldsMode::Keep).read(&body)
    }
}
