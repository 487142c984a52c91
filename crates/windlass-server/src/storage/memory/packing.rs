//! Compression of values that have not changed for a while.
//!
//! A value is cold when the event that wrote it leaves the history: then only the index holds its body. Beyond a budget
//! of uncompressed bodies, cold values are compressed, with a dictionary of similar values. The commits that make values
//! cold do this in small batches, after they have released their locks. Reads decompress a value, after they have
//! released their locks, too, and keep nothing.

use std::{
    collections::{HashMap, VecDeque},
    fmt, mem,
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::Mutex;

use super::{CompactBody, CompactValue, CompressedBody, Decompress, Delivery, Revision, StoredValue};

#[cfg_attr(feature = "compression", path = "packing/zstd.rs")]
#[cfg_attr(not(feature = "compression"), path = "packing/none.rs")]
mod codec;

pub(super) use self::codec::Dictionary;

/// The number of values that a commit compresses. It compresses none until as many are cold.
const BATCH: usize = 32;

/// The number of cold values of a collection on which its dictionary is trained, and their maximum size.
const SAMPLES: usize = 128;
const SAMPLE_BYTES: usize = 256 << 10;

/// The maximum number of collections with a dictionary. Each dictionary takes about 100 KB.
const COLLECTIONS: usize = 64;

/// The bytes before the compressed body of a packed one.
const HEAD: usize = 6;

/// A value in the index.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) key: Arc<str>,
    pub(super) created: Revision,
    pub(super) modified: Revision,
    body: Body,
    is_stale: bool,
}

#[derive(Clone)]
enum Body {
    Plain(Bytes),
    /// The number of the dictionary in two bytes, the size of the body in four, and the compressed body.
    Packed(Arc<[u8]>),
}

/// The dictionaries of packed values, by their number. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Dictionaries(Arc<[Arc<Dictionary>]>);

/// The values to compress, and the dictionaries to do it with.
#[derive(Debug, Default)]
pub(super) struct Packing {
    cold: Mutex<VecDeque<Cold>>,
    /// Locked by the task that compresses.
    collections: Mutex<Collections>,
}

/// A value that was cold if it is still the latest one of its key.
#[derive(Clone, Debug)]
pub(super) struct Cold {
    pub(super) key: Arc<str>,
    pub(super) modified: Revision,
}

/// A compressed value, to replace the uncompressed one.
pub(super) struct PackedValue {
    pub(super) cold: Cold,
    packed: Arc<[u8]>,
}

#[derive(Debug, Default)]
struct Collections {
    by_prefix: HashMap<Box<str>, Collection>,
    dictionaries: Dictionaries,
}

#[derive(Debug)]
enum Collection {
    Sampled { samples: Vec<(Cold, Bytes)>, bytes: usize },
    Trained(u16),
    Incompressible,
}

impl Dictionaries {
    /// Returns the dictionary of a packed body, the size of the body, and the compressed body.
    fn open<'p>(&self, packed: &'p [u8]) -> (&Arc<Dictionary>, usize, &'p [u8]) {
        let (head, frame) = packed.split_first_chunk().expect("a packed body has a head");
        let [n0, n1, s0, s1, s2, s3]: [u8; HEAD] = *head;
        let number = usize::from(u16::from_le_bytes([n0, n1]));
        (&self.0[number], u32::from_le_bytes([s0, s1, s2, s3]) as usize, frame)
    }
}

// === impl Value ===

impl Value {
    pub(super) fn stored(self, dictionaries: &Dictionaries) -> StoredValue {
        let Self { key, created, modified, body, is_stale } = self;
        StoredValue { key, body: body.into_bytes(dictionaries), created, modified, is_stale }
    }

    pub(super) fn compact(self, dictionaries: &Dictionaries) -> CompactValue {
        let Self { key, created, modified, body, is_stale } = self;
        let body = match body {
            Body::Plain(body) => CompactBody::Plain(body),
            Body::Packed(packed) => {
                let (dictionary, size, _) = dictionaries.open(&packed);
                let codec = Arc::clone(dictionary);
                CompactBody::Compressed(CompressedBody::new(packed, size, codec))
            }
        };
        CompactValue { key, body, created, modified, is_stale }
    }

    /// Returns the size of the body in memory.
    pub(super) fn bytes(&self) -> usize {
        match &self.body {
            Body::Plain(body) => body.len(),
            Body::Packed(packed) => packed.len(),
        }
    }

    /// Returns the body if it is not compressed.
    pub(super) fn plain(&self) -> Option<&Bytes> {
        match &self.body {
            Body::Plain(body) => Some(body),
            Body::Packed(_) => None,
        }
    }

    /// Replaces the body by the same one, compressed.
    pub(super) fn pack(&mut self, packed: PackedValue) {
        self.body = Body::Packed(packed.packed);
    }
}

impl From<StoredValue> for Value {
    fn from(value: StoredValue) -> Self {
        let StoredValue { key, body, created, modified, is_stale } = value;
        Self { key, created, modified, body: Body::Plain(body), is_stale }
    }
}

impl Body {
    fn into_bytes(self, dictionaries: &Dictionaries) -> Bytes {
        match self {
            Self::Plain(body) => body,
            Self::Packed(packed) => {
                let (dictionary, _, frame) = dictionaries.open(&packed);
                dictionary.unpack(frame)
            }
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(body) => write!(f, "Plain({} bytes)", body.len()),
            Self::Packed(packed) => write!(f, "Packed({} bytes)", packed.len()),
        }
    }
}

// === impl Packing ===

impl Packing {
    /// Adds the values that events have written, which leave the history. Returns a batch of cold values to compress if
    /// there are enough, and no other task compresses.
    pub(super) fn add_cold(&self, events: &[Arc<Delivery>]) -> Option<Batch<'_>> {
        let cold = events.iter().filter_map(|event| match &**event {
            Delivery::Event { event, .. } => {
                event.current.as_ref().map(|value| Cold { key: Arc::clone(&value.key), modified: value.modified })
            }
            Delivery::Progress(_) | Delivery::Unreadable { .. } => None,
        });
        let mut waiting = self.cold.lock();
        waiting.extend(cold);
        if waiting.len() < BATCH {
            return None;
        }
        let collections = self.collections.try_lock()?;
        let cold = waiting.drain(..BATCH).collect();
        if waiting.capacity() > 4 * waiting.len() + 16 * BATCH {
            waiting.shrink_to_fit();
        }
        Some(Batch { cold, collections })
    }
}

/// A batch of cold values. No other task compresses until it is dropped.
pub(super) struct Batch<'p> {
    pub(super) cold: Vec<Cold>,
    collections: parking_lot::MutexGuard<'p, Collections>,
}

impl Batch<'_> {
    /// Compresses values. Returns them with all dictionaries that they need. Values without a dictionary are retained
    /// until there are enough to train one.
    pub(super) fn pack(&mut self, values: Vec<(Cold, Bytes)>) -> (Vec<PackedValue>, Dictionaries) {
        let mut packed = Vec::new();
        for (cold, body) in values {
            self.collections.pack(cold, body, &mut packed);
        }
        (packed, self.collections.dictionaries.clone())
    }
}

impl Collections {
    fn pack(&mut self, cold: Cold, body: Bytes, packed: &mut Vec<PackedValue>) {
        let prefix = collection_of(&cold.key);
        if !self.by_prefix.contains_key(prefix) {
            if self.by_prefix.len() >= COLLECTIONS {
                return;
            }
            self.by_prefix.insert(prefix.into(), Collection::Sampled { samples: Vec::new(), bytes: 0 });
        }
        let Some(collection) = self.by_prefix.get_mut(prefix) else { return };
        match collection {
            Collection::Trained(number) => {
                let dictionary = &self.dictionaries.0[usize::from(*number)];
                packed.extend(dictionary.pack(*number, cold, &body));
            }
            Collection::Incompressible => {}
            Collection::Sampled { samples, bytes } => {
                *bytes += body.len();
                samples.push((cold, body));
                if samples.len() < SAMPLES && *bytes < SAMPLE_BYTES {
                    return;
                }
                let samples = mem::take(samples);
                let Some(dictionary) = Dictionary::trained(samples.iter().map(|(_, body)| &**body)) else {
                    *collection = Collection::Incompressible;
                    return;
                };
                let number = u16::try_from(self.dictionaries.0.len()).expect("the number of collections is limited");
                *collection = Collection::Trained(number);
                let dictionary = Arc::new(dictionary);
                packed.extend(samples.into_iter().filter_map(|(cold, body)| dictionary.pack(number, cold, &body)));
                self.dictionaries.0 = self.dictionaries.0.iter().cloned().chain([dictionary]).collect();
            }
        }
    }
}

impl Dictionary {
    /// Compresses a body; `None` if the result would not be smaller.
    fn pack(&self, number: u16, cold: Cold, body: &[u8]) -> Option<PackedValue> {
        let [n0, n1] = number.to_le_bytes();
        let [s0, s1, s2, s3] = u32::try_from(body.len()).ok()?.to_le_bytes();
        let packed = self.compress(&[n0, n1, s0, s1, s2, s3], body)?;
        (packed.len() < body.len()).then(|| PackedValue { cold, packed: packed.into() })
    }
}

impl Decompress for Dictionary {
    fn decompress(&self, packed: &[u8]) -> Bytes {
        self.unpack(&packed[HEAD..])
    }
}

/// Returns the start of a key, which the keys of similar values share: the first two segments.
fn collection_of(key: &str) -> &str {
    let end = key.match_indices('/').nth(2).map_or(0, |(at, _)| at);
    &key[..end]
}
