//! What the objects of one informer may cost: the budget, and which of them stay decoded.
//!
//! A body is held as it came while the budget has room for it, else compressed. An object that was decoded stays decoded
//! while it is among those used last that fit into a quarter of the budget. What is decoded counts six times its encoding.
//!
//! Most states are asked for once: by the reconcile that they lead to. So what was decoded for the first time gets a small
//! part of that room, and is given up when others come, unless it was asked for again meanwhile. What has to be decoded a
//! second time is kept with those.
//!
//! Whatever the budget, the [`FLOOR`] objects decoded last stay decoded: several handlers that decode the same event one
//! after the other decode it once.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use windlass_api::ApiResource;

use crate::{
    body::{Body, Cooled, Decoded, Effort, Held},
    cached::{Cached, Entry},
    metrics::CacheMetrics,
    options::{Decoding, InformerOptions},
    packing::{Packer, Unpacker},
    status::MemoryUse,
};

/// How much larger a decoded object is than its encoding.
const DECODED: usize = 6;

/// What part of the budget decoded objects may take.
const HOT_SHARE: usize = 4;

/// What part of that those may take that were asked for once.
const FRESH_SHARE: usize = 32;

/// So many decoded objects are kept, whatever they cost.
const FLOOR: usize = 16;

/// What the entries of one informer share.
pub(crate) struct Memory<K> {
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) metrics: Arc<dyn CacheMetrics>,
    pub(crate) unpacker: Unpacker,
    /// Decodes an object as it comes, where that is asked for. Then nothing is given up.
    pub(crate) decode_early: Option<fn(&Cached<K>)>,
    budget: usize,
    /// Bytes of the bodies that are held uncompressed.
    plain: AtomicUsize,
    /// Bytes of the bodies that are held compressed.
    packed: AtomicUsize,
    /// What the decoded objects count.
    hot: AtomicUsize,
    order: Mutex<Order<K>>,
}

/// The entries with decoded objects, in the order in which they were last looked at; some are gone.
struct Order<K> {
    /// Decoded for the first time, as far as known asked for once; with what they count.
    fresh: VecDeque<(Weak<Entry<K>>, usize)>,
    /// What those count, gone ones included.
    fresh_size: usize,
    /// The others.
    entries: VecDeque<Weak<Entry<K>>>,
    /// The length at which those of `entries` are taken out that are gone.
    sweep_at: usize,
}

/// What is given up, and the entry that had it.
type Given<K> = (Option<Decoded<K>>, Arc<Entry<K>>);

impl<K> Memory<K> {
    pub(crate) fn new(resource: Arc<ApiResource>, options: &InformerOptions, early: fn(&Cached<K>)) -> Self {
        Self {
            resource,
            metrics: Arc::clone(&options.metrics),
            unpacker: Unpacker::new(),
            decode_early: (options.decoding == Decoding::Early).then_some(early),
            budget: options.budget,
            plain: AtomicUsize::new(0),
            packed: AtomicUsize::new(0),
            hot: AtomicUsize::new(0),
            order: Mutex::new(Order::default()),
        }
    }

    /// Whether less should be held uncompressed.
    pub(crate) fn is_beyond_budget(&self) -> bool {
        self.plain.load(Ordering::Relaxed).saturating_add(self.hot.load(Ordering::Relaxed)) > self.budget
    }

    pub(crate) fn add_plain(&self, bytes: usize) {
        self.plain.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Compresses a body, or compresses it anew.
    pub(crate) fn repack(&self, body: &Body<K>, packer: &mut Packer) {
        if let Some([before, after]) = body.repack(packer, &self.unpacker) {
            self.packed.fetch_add(after.packed, Ordering::Relaxed);
            self.remove(before);
        }
    }

    /// What is held at this moment; not a state that there was if it changes meanwhile.
    pub(crate) fn in_use(&self) -> MemoryUse {
        let of = |bytes: &AtomicUsize| bytes.load(Ordering::Relaxed);
        let Self { plain, packed, hot, .. } = self;
        MemoryUse { encoded: of(plain), compressed: of(packed), decoded: of(hot), budget: self.budget }
    }

    fn remove(&self, Held { plain, packed }: Held) {
        self.plain.fetch_sub(plain, Ordering::Relaxed);
        self.packed.fetch_sub(packed, Ordering::Relaxed);
    }

    /// The object of this entry has been decoded. Gives up others that are too many.
    pub(crate) fn decoded(&self, entry: &Arc<Entry<K>>, effort: Effort) {
        if self.decode_early.is_some() {
            return;
        }
        let limit = self.budget / HOT_SHARE;
        let size = DECODED * entry.body.len();
        self.hot.fetch_add(size, Ordering::Relaxed);
        let mut given = Vec::new();
        let mut order = self.order.lock();
        match effort {
            Effort::Again => order.entries.push_back(Arc::downgrade(entry)),
            Effort::First | Effort::None => order.push_fresh(entry, size),
        }
        while order.fresh_size > limit / FRESH_SHARE && order.fresh.len() > FLOOR {
            let Some(oldest) = order.pop_fresh() else { break };
            self.cool(oldest, &mut order, &mut given);
        }
        let mut looks = 2 * order.entries.len();
        while self.hot.load(Ordering::Relaxed) > limit && order.entries.len() > FLOOR && looks > 0 {
            looks -= 1;
            let Some(oldest) = order.entries.pop_front() else { break };
            self.cool(oldest, &mut order, &mut given);
        }
        if order.entries.len() >= order.sweep_at {
            order.entries.retain(|entry| entry.strong_count() > 0);
            order.sweep_at = (order.entries.len() * 2).max(8 * FLOOR);
        }
        drop(order);
        drop(given); // … without the lock: dropping an object may be user code.
    }

    /// Keeps what was asked for again, and gives up what was not.
    fn cool(&self, oldest: Weak<Entry<K>>, order: &mut Order<K>, given: &mut Vec<Given<K>>) {
        let Some(entry) = oldest.upgrade() else { return };
        match entry.body.cool() {
            Cooled::Touched => order.entries.push_back(oldest),
            Cooled::Given(object) => {
                if matches!(object, Some(Ok(_))) {
                    self.hot.fetch_sub(DECODED * entry.body.len(), Ordering::Relaxed);
                }
                given.push((object, entry));
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn is_unused(&self) -> bool {
        [&self.plain, &self.packed, &self.hot].iter().all(|bytes| bytes.load(Ordering::Relaxed) == 0)
    }

    /// An entry is about to be dropped.
    pub(crate) fn dropped(&self, held: Held, decoded: Option<usize>) {
        self.remove(held);
        if self.decode_early.is_none() {
            self.hot.fetch_sub(decoded.map_or(0, |bytes| DECODED * bytes), Ordering::Relaxed);
        }
    }
}

impl<K> Order<K> {
    fn push_fresh(&mut self, entry: &Arc<Entry<K>>, size: usize) {
        self.fresh.push_back((Arc::downgrade(entry), size));
        self.fresh_size += size;
    }

    fn pop_fresh(&mut self) -> Option<Weak<Entry<K>>> {
        let (entry, size) = self.fresh.pop_front()?;
        self.fresh_size -= size;
        Some(entry)
    }
}

impl<K> Default for Order<K> {
    fn default() -> Self {
        Self { fresh: VecDeque::new(), fresh_size: 0, entries: VecDeque::new(), sweep_at: 8 * FLOOR }
    }
}

impl<K> fmt::Debug for Memory<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("budget", &self.budget)
            .field("plain", &self.plain)
            .field("packed", &self.packed)
            .field("hot", &self.hot)
            .finish_non_exhaustive()
    }
}
