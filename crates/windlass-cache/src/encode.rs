//! Cache entries of objects that the program made, or got by another way than an informer.

use std::sync::Arc;

use windlass_api::{ApiResource, MetaError, Object, Resource};

use crate::{ManagedFields, cached::Cached, error::UnreadableObject, ingest::Ingest};

impl<K: Object> Cached<K> {
    /// A cache entry of an object, as if it had come from a server; it is encoded for that. Fails when it has no name.
    pub fn of(object: &K) -> Result<Self, UnreadableObject>
    where
        K: Resource,
    {
        Self::of_resource(K::api_resource(), object)
    }

    /// As [`Self::of`], of a resource that is known only at run time.
    pub fn of_resource(resource: impl Into<Arc<ApiResource>>, object: &K) -> Result<Self, UnreadableObject> {
        let body = serde_json::to_vec(object).map_err(|error| UnreadableObject::Meta(MetaError::from(error)))?;
        Ingest::alone(resource, ManagedFields::Keep).read(&body)
    }
}
