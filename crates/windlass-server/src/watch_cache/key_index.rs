//! The keys of a resource by the value of its indexed field.
//!
//! An index is built from one range on its first use, and kept current by the events that the watch cache dispatches.
//! It needs a reference per object, in a tree. The caller reads the values at the revision of the index, from the storage.

use std::{
    collections::BTreeSet,
    mem,
    ops::Bound::{Included, Unbounded},
    sync::Arc,
    time::Duration,
};

use hashbrown::HashMap;
use tokio::time;

use super::{
    Shared, WatchCache,
    field::{EventValues, FieldValue, IndexedField},
};
use crate::{
    offload::{PART, offload},
    storage::{CompactValue, RangeQuery, Revision, StorageError, StorageEvent},
};

/// The time that a reader waits until the events up to the current revision are dispatched.
const PATIENCE: Duration = Duration::from_secs(1);

/// The keys of the objects with each value.
///
/// Guaranteed: the key of each object with a value that is not empty is among the keys of that value. A key can be
/// there although its object has another value or was deleted, so the caller must check the object.
#[derive(Debug)]
pub(super) struct KeyIndex {
    field: IndexedField,
    keys: Keys,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The changes since the build of the index began.
    Building(Vec<Change>),
    /// The guarantee holds as soon as the events up to this revision are applied.
    Complete(Revision),
}

/// The sorted keys of each value. Trees, because one value can have the keys of all objects.
#[derive(Debug, Default)]
pub(super) struct Keys(HashMap<Box<str>, BTreeSet<Arc<str>>>);

/// A change of a key's value. Empty values are omitted.
#[derive(Debug)]
struct Change {
    revision: Revision,
    key: Arc<str>,
    before: Option<Box<str>>,
    after: Option<Box<str>>,
}

/// The keys that can have a value at a revision, in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FoundKeys {
    pub(crate) revision: Revision,
    pub(crate) keys: Vec<Arc<str>>,
}

impl<D: Default + Send + Sync + 'static> WatchCache<D> {
    /// Returns the keys below `topic` whose objects have a value, at the current revision or a later one. Returns `None` if
    /// there are more than `limit`, or if the index cannot be used. `resource` is the prefix of all keys of the resource.
    pub(crate) async fn keys_with(
        &self,
        resource: &str,
        topic: &str,
        selected: &FieldValue,
        limit: usize,
    ) -> Result<Option<FoundKeys>, StorageError> {
        self.ensure_running().await?;
        if !self.shared.has_index(resource) && !self.build_index(resource, selected.field).await? {
            return Ok(None);
        }
        let current = self.storage.revision().await?;
        self.shared.dispatch_up_to(current);
        match time::timeout(PATIENCE, self.wait_for_revision(current)).await {
            Ok(reached) => reached?,
            Err(_) => return Ok(None),
        }
        let fan_out = self.shared.fan_out.lock();
        let revision = *self.shared.position.borrow();
        let index = fan_out.indexes.get(resource).filter(|index| index.is_complete_at(revision));
        let Some(index) = index else { return Ok(None) };
        let keys = index.keys.0.get(&*selected.value).into_iter();
        let keys = keys.flat_map(|keys| keys.range::<str, _>((Included(topic), Unbounded)));
        let keys: Vec<_> = keys.take_while(|key| key.starts_with(topic)).take(limit + 1).cloned().collect();
        Ok((keys.len() <= limit).then_some(FoundKeys { revision, keys }))
    }

    /// Builds the index of a resource. Returns `false` if this failed because a value is damaged or the pump has ended.
    async fn build_index(&self, resource: &str, field: IndexedField) -> Result<bool, StorageError> {
        let _building = self.indexing.lock().await;
        if self.shared.has_index(resource) {
            return Ok(true);
        }
        let Some(unfinished) = self.shared.begin_index(resource, field) else { return Ok(false) };
        let range = self.storage.range_compact(RangeQuery::prefix(resource)).await?;
        let mut keys = Keys::default();
        let mut values = range.values.into_iter().peekable();
        while values.peek().is_some() {
            let mut bytes = 0;
            let part: Vec<CompactValue> = std::iter::from_fn(|| {
                values.next_if(|value| {
                    let is_within = bytes < PART;
                    bytes += value.body.size();
                    is_within
                })
            })
            .collect();
            let add = move || {
                let is_readable = part.into_iter().all(|value| {
                    let text = field.read(&value.body.into_bytes());
                    keys.insert(&value.key, text.as_deref());
                    text.is_some()
                });
                is_readable.then_some(keys)
            };
            let Ok(Some(added)) = offload(add).await else { return Ok(false) };
            keys = added;
        }
        Ok(unfinished.finish(keys, range.revision))
    }
}

/// An index that is being built. Dropping it removes the index.
pub(super) struct Unfinished<'s, D> {
    shared: &'s Shared<D>,
    resource: &'s str,
}

impl<D> Shared<D> {
    fn has_index(&self, resource: &str) -> bool {
        self.fan_out.lock().indexes.get(resource).is_some_and(KeyIndex::is_complete)
    }

    /// Records the changes of a resource from now on. Returns `None` if the pump does not run.
    pub(super) fn begin_index<'s>(&'s self, resource: &'s str, field: IndexedField) -> Option<Unfinished<'s, D>> {
        let mut fan_out = self.fan_out.lock();
        if !fan_out.running {
            return None;
        }
        let index = KeyIndex { field, keys: Keys::default(), state: State::Building(Vec::new()) };
        fan_out.indexes.insert(resource.into(), index);
        Some(Unfinished { shared: self, resource })
    }
}

impl<D> Unfinished<'_, D> {
    /// Completes the index with the keys at a revision. Returns `false` if it was removed meanwhile.
    pub(super) fn finish(self, keys: Keys, revision: Revision) -> bool {
        let mut fan_out = self.shared.fan_out.lock();
        let Some(index) = fan_out.indexes.get_mut(self.resource) else { return false };
        index.keys = keys;
        if let State::Building(missed) = mem::replace(&mut index.state, State::Complete(revision)) {
            for change in missed.into_iter().filter(|change| change.revision > revision) {
                index.keys.apply(change);
            }
        }
        true
    }
}

impl<D> Drop for Unfinished<'_, D> {
    fn drop(&mut self) {
        let mut fan_out = self.shared.fan_out.lock();
        if fan_out.indexes.get(self.resource).is_some_and(|index| !index.is_complete()) {
            fan_out.indexes.remove(self.resource);
        }
    }
}

impl KeyIndex {
    pub(super) fn field(&self) -> IndexedField {
        self.field
    }

    fn is_complete(&self) -> bool {
        matches!(self.state, State::Complete(_))
    }

    /// Reports whether the index has the keys of a revision up to which events are applied.
    fn is_complete_at(&self, position: Revision) -> bool {
        matches!(self.state, State::Complete(built) if built <= position)
    }

    /// Applies an event. Returns `false` if the index must be removed, because the new value is unknown.
    pub(super) fn apply(&mut self, event: &StorageEvent, values: &EventValues) -> bool {
        let EventValues::Read { before, after } = values else { return false };
        if before == after {
            return true;
        }
        let text = |value: &Option<Box<str>>| value.clone().filter(|value| !value.is_empty());
        let (revision, key) = (event.revision, Arc::clone(&event.key));
        let change = Change { revision, key, before: text(before), after: text(after) };
        match &mut self.state {
            State::Building(missed) => missed.push(change),
            State::Complete(_) => self.keys.apply(change),
        }
        true
    }
}

#[cfg(test)]
impl FromIterator<(Arc<str>, Box<str>)> for Keys {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Box<str>)>>(entries: I) -> Self {
        let mut keys = Self::default();
        entries.into_iter().for_each(|(key, value)| keys.insert(&key, Some(&value)));
        keys
    }
}

impl Keys {
    fn insert(&mut self, key: &Arc<str>, value: Option<&str>) {
        let Some(value) = value.filter(|value| !value.is_empty()) else { return };
        match self.0.get_mut(value) {
            Some(keys) => drop(keys.insert(Arc::clone(key))),
            None => drop(self.0.insert(value.into(), BTreeSet::from([Arc::clone(key)]))),
        }
    }

    fn apply(&mut self, change: Change) {
        let Change { key, before, after, .. } = change;
        if let Some(before) = before
            && let Some(keys) = self.0.get_mut(&before)
        {
            keys.remove(&key);
            if keys.is_empty() {
                self.0.remove(&before);
            }
        }
        self.insert(&key, after.as_deref());
    }
}
