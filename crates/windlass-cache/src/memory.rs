//! The memory budget of one informer, and the choice of the objects that stay decoded.
//!
//! A body is stored as the server sent it while the budget has room for it, and compressed otherwise. The most recently
//! used decoded objects that fit into a quarter of the budget stay decoded. A decoded object counts as six times its
//! encoded size.
//!
//! Most states are read once: by the reconcile that they trigger. So objects decoded for the first time share a small
//! part of that room. They are dropped when newer ones arrive, unless they were read again in the meantime. Objects
//! decoded for the second time get the rest of the room.
//!
//! The last [`FLOOR`] decoded objects always stay decoded: several handlers that decode the same event one after the
//! other decode it once.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use windlass_api::{ApiResource, Meta};

use crate::{
    body::{Body, DecodeWork, Decoded, EvictResult, Held},
    metrics::CacheMetrics,
    options::{Decoding, InformerOptions},
    packing::Unpacker,
    status::MemoryUse,
};

/// The estimated size of a decoded object, as a multiple of its encoded size.
const DECODED: usize = 6;

/// The divisor of the budget for decoded objects.
const HOT_SHARE: usize = 4;

/// The divisor of the room for decoded objects that is available to objects read only once.
const FRESH_SHARE: usize = 32;

/// The maximum room for objects read only once. With more of them, each would have left the processor's cache before it
/// is dropped, and the next one would be decoded into memory outside of it.
const FRESH: usize = 512 << 10;

/// The number of decoded objects that are retained regardless of their size.
const FLOOR: usize = 16;

/// The state shared by the entries of one informer.
pub(crate) struct Memory {
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) metrics: Arc<dyn CacheMetrics>,
    pub(crate) unpacker: Unpacker,
    pub(crate) decoding: Decoding,
    budget: usize,
    /// The bytes of uncompressed bodies.
    plain: AtomicUsize,
    /// The bytes of compressed bodies.
    packed: AtomicUsize,
    /// The estimated size of the decoded objects.
    hot: AtomicUsize,
    order: Mutex<Order>,
}

/// One state of one object, with the memory that it counts toward.
pub(crate) struct Entry {
    pub(crate) meta: Meta,
    pub(crate) memory: Arc<Memory>,
    pub(crate) body: Body,
}

/// The entries with decoded objects, in the order of their last use. Some entries may have been dropped.
struct Order {
    /// Objects decoded for the first time and not known to be read again, with their estimated sizes.
    fresh: VecDeque<(Weak<Entry>, usize)>,
    /// The total size of `fresh`, including dropped entries.
    fresh_size: usize,
    /// The other decoded objects.
    entries: VecDeque<Weak<Entry>>,
    /// The length of `entries` at which dropped ones are removed.
    sweep_at: usize,
}

/// A dropped decoded object and its entry.
type Evicted = (Option<Decoded>, Arc<Entry>);

impl Memory {
    pub(crate) fn new(resource: Arc<ApiResource>, options: &InformerOptions) -> Self {
        Self {
            resource,
            metrics: Arc::clone(&options.metrics),
            unpacker: Unpacker::new(),
            decoding: options.decoding,
            budget: options.budget,
            plain: AtomicUsize::new(0),
            packed: AtomicUsize::new(0),
            hot: AtomicUsize::new(0),
            order: Mutex::new(Order::default()),
        }
    }

    /// Reports whether the uncompressed bodies and decoded objects exceed the budget.
    #[cfg(feature = "compression")]
    pub(crate) fn is_beyond_budget(&self) -> bool {
        self.plain.load(Ordering::Relaxed).saturating_add(self.hot.load(Ordering::Relaxed)) > self.budget
    }

    pub(crate) fn add_plain(&self, bytes: usize) {
        self.plain.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Compresses a body, or compresses it again with a new dictionary.
    #[cfg(feature = "compression")]
    pub(crate) fn repack(&self, body: &Body, packer: &mut crate::packing::Packer) {
        if let Some([before, after]) = body.repack(packer, &self.unpacker) {
            self.packed.fetch_add(after.packed, Ordering::Relaxed);
            self.remove(before);
        }
    }

    /// Returns the current memory use. The values may be inconsistent if they change during the call.
    pub(crate) fn in_use(&self) -> MemoryUse {
        let of = |bytes: &AtomicUsize| bytes.load(Ordering::Relaxed);
        let Self { plain, packed, hot, .. } = self;
        MemoryUse { encoded: of(plain), compressed: of(packed), decoded: of(hot), budget: self.budget }
    }

    fn remove(&self, Held { plain, packed }: Held) {
        self.plain.fetch_sub(plain, Ordering::Relaxed);
        self.packed.fetch_sub(packed, Ordering::Relaxed);
    }

    /// Records that the object of this entry was decoded, and drops other decoded objects if there are too many.
    pub(crate) fn decoded(&self, entry: &Arc<Entry>, work: DecodeWork) {
        if self.decoding == Decoding::Early {
            return;
        }
        let limit = self.budget / HOT_SHARE;
        let size = DECODED * entry.body.len();
        self.hot.fetch_add(size, Ordering::Relaxed);
        let mut evicted = Vec::new();
        let mut order = self.order.lock();
        match work {
            DecodeWork::Again => order.entries.push_back(Arc::downgrade(entry)),
            DecodeWork::First | DecodeWork::None => order.push_fresh(entry, size),
        }
        while order.fresh_size > (limit / FRESH_SHARE).min(FRESH) && order.fresh.len() > FLOOR {
            let Some(oldest) = order.pop_fresh() else { break };
            self.evict_decoded(oldest, &mut order, &mut evicted);
        }
        let mut looks = 2 * order.entries.len();
        while self.hot.load(Ordering::Relaxed) > limit && order.entries.len() > FLOOR && looks > 0 {
            looks -= 1;
            let Some(oldest) = order.entries.pop_front() else { break };
            self.evict_decoded(oldest, &mut order, &mut evicted);
        }
        if order.entries.len() >= order.sweep_at {
            order.entries.retain(|entry| entry.strong_count() > 0);
            order.sweep_at = (order.entries.len() * 2).max(8 * FLOOR);
        }
        drop(order);
        drop(evicted); // After the lock is released: dropping an object may run user code.
    }

    /// Drops the oldest decoded object. If it was read again, moves it to the end of the order instead.
    fn evict_decoded(&self, oldest: Weak<Entry>, order: &mut Order, evicted: &mut Vec<Evicted>) {
        let Some(entry) = oldest.upgrade() else { return };
        match entry.body.evict_decoded() {
            EvictResult::RecentlyUsed => order.entries.push_back(oldest),
            EvictResult::Evicted(object) => {
                if matches!(object, Some(Ok(_))) {
                    self.hot.fetch_sub(DECODED * entry.body.len(), Ordering::Relaxed);
                }
                evicted.push((object, entry));
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn is_unused(&self) -> bool {
        [&self.plain, &self.packed, &self.hot].iter().all(|bytes| bytes.load(Ordering::Relaxed) == 0)
    }

    /// Subtracts an entry that is being dropped.
    pub(crate) fn dropped(&self, held: Held, decoded: Option<usize>) {
        self.remove(held);
        if self.decoding == Decoding::OnUse {
            self.hot.fetch_sub(decoded.map_or(0, |bytes| DECODED * bytes), Ordering::Relaxed);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let decoded = self.body.is_decoded().then(|| self.body.len());
        self.memory.dropped(self.body.held(), decoded);
    }
}

impl Order {
    fn push_fresh(&mut self, entry: &Arc<Entry>, size: usize) {
        self.fresh.push_back((Arc::downgrade(entry), size));
        self.fresh_size += size;
    }

    fn pop_fresh(&mut self) -> Option<Weak<Entry>> {
        let (entry, size) = self.fresh.pop_front()?;
        self.fresh_size -= size;
        Some(entry)
    }
}

impl Default for Order {
    fn default() -> Self {
        Self { fresh: VecDeque::new(), fresh_size: 0, entries: VecDeque::new(), sweep_at: 8 * FLOOR }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("budget", &self.budget)
            .field("plain", &self.plain)
            .field("packed", &self.packed)
            .field("hot", &self.hot)
            .finish_non_exhaustive()
    }
}
