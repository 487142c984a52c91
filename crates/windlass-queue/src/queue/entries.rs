//! The table of known keys: each is stored once and addressed by a small number.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashTable};
use tokio::time::Instant;

/// Where a key is in the slab, for as long as it is known.
pub(crate) type Slot = u32;

/// An entry's `heap` when it waits for no time.
pub(crate) const NOT_WAITING: u32 = u32::MAX;

/// What is the matter with a key, apart from whether it also waits for a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Only waiting for a moment. Becomes `Queued`.
    Idle,
    /// Dirty and ready, once. Becomes `Processing` when a worker gets it.
    Queued,
    /// In a worker's hands. On `done`, it leaves or becomes `Idle`.
    Processing,
    /// In a worker's hands and dirty again. On `done`, it becomes `Queued`.
    Reprocess,
}

#[derive(Debug)]
pub(crate) struct Entry<T> {
    /// `None` iff the slot is free.
    item: Option<T>,
    pub(crate) phase: Phase,
    /// Index in the heap of waiting entries, or `NOT_WAITING`.
    pub(crate) heap: u32,
}

/// Moments that only metrics need, kept beside the entries so that those stay small.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// When the entry became dirty. `Some` iff it is.
    pub(crate) added: Option<Instant>,
    /// When a worker got it. `Some` iff one has it.
    pub(crate) started: Option<Instant>,
}

/// A slab of entries with a hash table over it.
#[derive(Debug)]
pub(crate) struct Entries<T> {
    /// Exactly the slots in use.
    table: HashTable<Slot>,
    slab: Vec<Entry<T>>,
    free: Vec<Slot>,
    /// As long as `slab` if metrics are wanted, else empty.
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

    /// Adds an item that `find` did not find, as `Idle`.
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
            Slot::try_from(self.slab.len() - 1).expect("memory ends before 2^32 keys do")
        };
        let slab = &self.slab;
        self.table.insert_unique(hash, slot, |&other| {
            hasher.hash_one(slab[other as usize].item.as_ref().expect("the table holds slots in use"))
        });
        slot
    }

    /// Forgets the entry and returns its item, to be dropped after the lock.
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

    /// The moments of an entry, unless nobody wants to know.
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
