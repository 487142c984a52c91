//! The table of keys: each key is stored once and addressed by a small number.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashTable};
use tokio::time::Instant;

/// The position of a key in the slab, fixed as long as the key is stored.
pub(crate) type Slot = u32;

/// The `heap` value of an entry without a delay.
pub(crate) const NOT_WAITING: u32 = u32::MAX;

/// The state of a key, apart from a possible delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The key is only delayed. Becomes `Queued`.
    Idle,
    /// The key is dirty and ready. Becomes `Processing` when a worker gets it.
    Queued,
    /// A worker has the key. On `done`, the entry is removed or becomes `Idle`.
    Processing,
    /// A worker has the key, and it is dirty again. On `done`, it becomes `Queued`.
    Reprocess,
}

#[derive(Debug)]
pub(crate) struct Entry<T> {
    /// `None` if and only if the slot is free.
    item: Option<T>,
    pub(crate) phase: Phase,
    /// The index in the heap of delayed entries, or `NOT_WAITING`.
    pub(crate) heap: u32,
}

/// Times that only metrics need, stored separately to keep entries small.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// When the entry became dirty. `Some` if and only if it is dirty.
    pub(crate) added: Option<Instant>,
    /// When a worker got the entry. `Some` if and only if a worker has it.
    pub(crate) started: Option<Instant>,
}

/// A slab of entries with a hash index.
#[derive(Debug)]
pub(crate) struct Entries<T> {
    /// The slots in use.
    table: HashTable<Slot>,
    slab: Vec<Entry<T>>,
    free: Vec<Slot>,
    /// As long as `slab` if there are metrics, else empty.
    times: Vec<Times>,
    timed: bool,
}

impl<T: Eq + Hash> Entries<T> {
    pub(crate) fn new(timed: bool) -> Self {
        Self { table: HashTable::new(), slab: Vec::new(), free: Vec::new(), times: Vec::new(), timed }
    }

    pub(crate) fn find(&self, hash: u64, item: &T) -> Option<Slot> {
        let slab = &self.slab;
        self.table.find(hash, |&slot| slab[slot as usize].item.as_ref() == Some(item)).copied()
    }

    /// Adds a new item as `Idle`. `find` must have returned nothing for it.
    pub(crate) fn insert(&mut self, hash: u64, item: T, hasher: &DefaultHashBuilder) -> Slot {
        let entry = Entry { item: Some(item), phase: Phase::Idle, heap: NOT_WAITING };
        let slot = if let Some(slot) = self.free.pop() {
            self.slab[slot as usize] = entry;
            slot
        } else {
            self.slab.push(entry);
            if self.timed {
                self.times.push(Times::default());
            }
            Slot::try_from(self.slab.len() - 1).expect("there are fewer than 2^32 keys")
        };
        let slab = &self.slab;
        self.table.insert_unique(hash, slot, |&other| {
            hasher.hash_one(slab[other as usize].item.as_ref().expect("the table holds slots in use"))
        });
        slot
    }

    /// Removes the entry and returns its item, to be dropped after the lock is released.
    pub(crate) fn remove(&mut self, slot: Slot, hasher: &DefaultHashBuilder) -> Option<T> {
        let item = self.slab[slot as usize].item.take()?;
        if let Ok(occupied) = self.table.find_entry(hasher.hash_one(&item), |&other| other == slot) {
            occupied.remove();
        }
        if self.timed {
            self.times[slot as usize] = Times::default();
        }
        self.free.push(slot);
        Some(item)
    }

    pub(crate) fn get(&self, slot: Slot) -> &Entry<T> {
        &self.slab[slot as usize]
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Entry<T> {
        &mut self.slab[slot as usize]
    }

    /// Returns the times of an entry, if there are metrics.
    pub(crate) fn times_mut(&mut self, slot: Slot) -> Option<&mut Times> {
        self.times.get_mut(slot as usize)
    }

    pub(crate) fn times(&self) -> &[Times] {
        &self.times
    }
}

impl<T> Entry<T> {
    pub(crate) fn item(&self) -> &T {
        self.item.as_ref().expect("a slot is only reached while it is in use")
    }
}
