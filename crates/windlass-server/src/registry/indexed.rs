//! Objects by the value of their kind's indexed field: the pods of a node.

use std::sync::Arc;

use super::{Registry, Selection};
use crate::{
    resource::ResourceInfo,
    storage::{CompactValue, Revision, StorageError},
    watch_cache::{FieldValue, FoundKeys, IndexedField},
};

/// The maximum number of objects that are read one by one. For more, the range is read and filtered.
const MAX_OBJECTS: usize = 1000;

impl Registry {
    /// Returns the values below a topic that a selection can select, at the current revision or a later one. They are
    /// found by the indexed field; the caller checks the rest of the selection. Returns `None` if the selection does not
    /// require a value of that field, if more than `limit` objects have it, or if the index cannot be used.
    pub(super) async fn find_indexed(
        &self,
        resource: &Arc<ResourceInfo>,
        topic: &str,
        selection: &Selection,
        limit: Option<usize>,
    ) -> Result<Option<(Revision, Vec<CompactValue>)>, StorageError> {
        // Unscheduled pods have no node. They are usually few or all, and are not indexed.
        let selected = selection.indexed(resource).filter(|selected| !selected.value.is_empty());
        let Some(selected) = selected.filter(|_| topic.ends_with('/')) else { return Ok(None) };
        let limit = limit.unwrap_or(MAX_OBJECTS).min(MAX_OBJECTS);
        let found = self.0.watches.keys_with(&resource.prefix, topic, &selected, limit).await?;
        let Some(FoundKeys { revision, keys }) = found else { return Ok(None) };
        let mut values = Vec::with_capacity(keys.len());
        for key in keys {
            match self.0.storage.get(&key, Some(revision)).await {
                Ok((_, value)) => values.extend(value.map(CompactValue::from)),
                // The storage has compacted the revision since.
                Err(StorageError::Compacted { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some((revision, values)))
    }
}

impl Selection {
    /// Returns the value that the selection requires in the indexed field of the stored objects.
    pub(super) fn indexed(&self, resource: &ResourceInfo) -> Option<FieldValue> {
        let rules = resource.strategy.rules();
        let label = rules.indexed_field.filter(|_| resource.conversion.is_none())?;
        let (value, path) = (self.required_field(label)?, rules.indexed_path(label)?);
        Some(FieldValue { field: IndexedField { path }, value: value.into() })
    }
}
