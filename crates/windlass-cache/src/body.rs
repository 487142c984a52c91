//! The storage of an object's encoded body and of its decoded form.
//!
//! A body is stored as the bytes that the server sent, plain or compressed, in an allocation of exactly its size. It
//! never pins a network buffer. It is decoded on the first read, and the result is shared while it is retained next to
//! the bytes; [`Memory`](crate::memory::Memory) decides how long that is.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use crate::{
    decoding::{self, DecodeFailure},
    packing::{Damaged, Dictionary, Unpacker, unpacked_len},
};

pub(crate) type Decoded<K> = Result<Arc<K>, Arc<DecodeFailure>>;

#[derive(Debug)]
pub(crate) struct Body<K> {
    /// Held while decoding, so that concurrent readers of one object decode it only once. Readers of other objects
    /// don't wait.
    state: Mutex<State<K>>,
}

#[derive(Debug)]
struct State<K> {
    bytes: Box<[u8]>,
    /// The dictionary that `bytes` are compressed with; `None` if they are not compressed.
    packing: Option<Arc<Dictionary>>,
    outcome: Outcome<K>,
}

/// The result of decoding a body.
#[derive(Debug)]
enum Outcome<K> {
    /// The body has not been decoded yet.
    Unknown,
    /// The body was decoded, and the result was dropped.
    Forgotten,
    Object(Arc<K>),
    /// The object was read again since the last call of [`Body::evict_decoded`].
    Touched(Arc<K>),
    Error(Arc<DecodeFailure>),
}

/// The number of bytes that a body takes, by form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) plain: usize,
    pub(crate) packed: usize,
}

/// The result of a request for a decoded object.
pub(crate) struct DecodeResult<K> {
    pub(crate) outcome: Decoded<K>,
    pub(crate) work: DecodeWork,
}

/// The retention of an object that is decoded by a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retention {
    /// The object is retained for later readers.
    Now,
    /// The object is not retained at its first decoding; if it is decoded again, that result is retained.
    NextTime,
}

/// The decoding work that a read caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeWork {
    /// The object was already decoded.
    None,
    /// The object was decoded for the first time.
    First,
    /// The object was decoded before, and had to be decoded again.
    Again,
}

/// The result of [`Body::evict_decoded`].
pub(crate) enum EvictResult<K> {
    /// The object was read recently and stays decoded until the next call.
    RecentlyUsed,
    /// The dropped object. The caller must drop it without holding a lock.
    Evicted(Option<Decoded<K>>),
}

impl<K> Body<K> {
    /// Copies the parts, in this order, into one new allocation.
    pub(crate) fn copied(parts: [&[u8]; 2]) -> Self {
        let bytes = parts.concat().into_boxed_slice();
        Self { state: Mutex::new(State { bytes, packing: None, outcome: Outcome::Unknown }) }
    }

    /// Returns the encoded body, uncompressed.
    pub(crate) fn bytes(&self, unpacker: &Unpacker) -> Result<Vec<u8>, Damaged> {
        self.state.lock().unpacked(unpacker)
    }

    /// Runs `read` on the encoded body. `read` must not run user code: other readers of the object may be waiting.
    pub(crate) fn with_bytes<T>(&self, unpacker: &Unpacker, read: impl FnOnce(&[u8]) -> T) -> Result<T, Damaged> {
        let state = self.state.lock();
        if state.packing.is_none() {
            return Ok(read(&state.bytes));
        }
        let bytes = state.unpacked(unpacker)?;
        drop(state);
        Ok(read(&bytes))
    }

    /// Returns the size of the encoded body, uncompressed.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().len()
    }

    #[cfg(feature = "compression")]
    pub(crate) fn is_packed(&self) -> bool {
        self.state.lock().packing.is_some()
    }

    #[cfg(test)]
    pub(crate) fn has_decoded(&self) -> bool {
        !matches!(self.state.lock().outcome, Outcome::Unknown | Outcome::Forgotten)
    }

    /// Returns the number of bytes that the body takes.
    pub(crate) fn held(&mut self) -> Held {
        self.state.get_mut().held()
    }

    /// Reports whether the decoded object is retained.
    pub(crate) fn is_decoded(&mut self) -> bool {
        matches!(self.state.get_mut().outcome, Outcome::Object(_) | Outcome::Touched(_))
    }

    /// Returns the decoded object. Calls `finish` on a newly decoded object.
    pub(crate) fn decode(
        &self,
        retention: Retention,
        unpacker: &Unpacker,
        finish: impl FnOnce(&mut K),
    ) -> DecodeResult<K>
    where
        K: DeserializeOwned,
    {
        let mut state = self.state.lock();
        if let Some(outcome) = state.outcome.touch() {
            return DecodeResult { outcome, work: DecodeWork::None };
        }
        let work = if matches!(state.outcome, Outcome::Forgotten) { DecodeWork::Again } else { DecodeWork::First };
        let result = match &state.packing {
            None => decoding::decode(&state.bytes),
            Some(_) => {
                state.unpacked(unpacker).map_err(DecodeFailure::from).and_then(|bytes| decoding::decode::<K>(&bytes))
            }
        };
        let outcome = match result {
            Ok(mut object) => {
                finish(&mut object);
                Ok(Arc::new(object))
            }
            Err(error) => Err(Arc::new(error)),
        };
        state.outcome = match &outcome {
            Ok(_) if work == DecodeWork::First && retention == Retention::NextTime => Outcome::Forgotten,
            Ok(object) => Outcome::Object(Arc::clone(object)),
            Err(error) => Outcome::Error(Arc::clone(error)),
        };
        DecodeResult { outcome, work }
    }

    /// Drops the decoded object, unless it was read since the last call.
    pub(crate) fn evict_decoded(&self) -> EvictResult<K> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut state.outcome, Outcome::Forgotten) {
            Outcome::Touched(object) => {
                state.outcome = Outcome::Object(object);
                EvictResult::RecentlyUsed
            }
            Outcome::Object(object) => EvictResult::Evicted(Some(Ok(object))),
            Outcome::Error(error) => EvictResult::Evicted(Some(Err(error))),
            Outcome::Unknown | Outcome::Forgotten => EvictResult::Evicted(None),
        }
    }

    /// Compresses the body with the packer's current dictionary. Returns the sizes before and after, or `None` if
    /// nothing changed.
    #[cfg(feature = "compression")]
    pub(crate) fn repack(&self, packer: &mut crate::packing::Packer, unpacker: &Unpacker) -> Option<[Held; 2]> {
        let mut state = self.state.lock();
        if state.packing.as_ref().is_some_and(|packing| Arc::ptr_eq(packing, packer.dictionary())) {
            return None;
        }
        let before = state.held();
        let packed = match &state.packing {
            None => packer.pack(&state.bytes),
            Some(_) => state.unpacked(unpacker).ok().and_then(|bytes| packer.pack(&bytes)),
        };
        state.bytes = packed?;
        state.packing = Some(Arc::clone(packer.dictionary()));
        Some([before, state.held()])
    }
}

impl<K> State<K> {
    fn held(&self) -> Held {
        let bytes = self.bytes.len();
        if self.packing.is_none() { Held { plain: bytes, packed: 0 } } else { Held { plain: 0, packed: bytes } }
    }

    fn len(&self) -> usize {
        if self.packing.is_none() { self.bytes.len() } else { unpacked_len(&self.bytes) }
    }

    fn unpacked(&self, unpacker: &Unpacker) -> Result<Vec<u8>, Damaged> {
        match &self.packing {
            None => Ok(self.bytes.to_vec()),
            Some(dictionary) => unpacker.unpack(&self.bytes, dictionary),
        }
    }
}

impl<K> Outcome<K> {
    /// Returns the result of an earlier decoding, if it is retained, and marks it as used.
    fn touch(&mut self) -> Option<Decoded<K>> {
        if matches!(self, Self::Unknown | Self::Forgotten) {
            return None;
        }
        let known = match std::mem::replace(self, Self::Unknown) {
            Self::Unknown | Self::Forgotten => return None,
            Self::Object(object) | Self::Touched(object) => {
                *self = Self::Touched(Arc::clone(&object));
                Ok(object)
            }
            Self::Error(error) => {
                *self = Self::Error(Arc::clone(&error));
                Err(error)
            }
        };
        Some(known)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::packing::Packer;

    static DECODED: AtomicUsize = AtomicUsize::new(0);

    #[derive(Debug)]
    struct Counted;

    impl<'de> serde::Deserialize<'de> for Counted {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            DECODED.fetch_add(1, Ordering::Relaxed);
            serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
        }
    }

    #[test]
    fn body_is_decoded_once_for_concurrent_readers() {
        let (body, unpacker) = (Body::<Counted>::copied([b"{}", b""]), Unpacker::new());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| body.decode(Retention::Now, &unpacker, |_| ()).outcome.unwrap());
            }
        });
        assert_eq!(DECODED.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn first_read_is_unshared_and_later_reads_share() {
        let (body, unpacker) = (Body::<u8>::copied([b"7", b""]), Unpacker::new());
        let ask = || body.decode(Retention::NextTime, &unpacker, |_| ());
        let first = ask();
        assert_eq!((first.work, Arc::strong_count(&first.outcome.unwrap())), (DecodeWork::First, 1));
        assert!(!body.has_decoded());
        let (second, third) = (ask(), ask());
        assert_eq!((second.work, third.work), (DecodeWork::Again, DecodeWork::None));
        assert!(Arc::ptr_eq(&second.outcome.unwrap(), &third.outcome.unwrap()));
    }

    #[test]
    fn a_body_that_does_not_decode_fails_each_time_alike() {
        let (body, unpacker) = (Body::<u8>::copied([b"\"x", b"\""]), Unpacker::new());
        let first = body.decode(Retention::Now, &unpacker, |_| ()).outcome.unwrap_err();
        assert!(Arc::ptr_eq(&first, &body.decode(Retention::Now, &unpacker, |_| ()).outcome.unwrap_err()));
    }

    #[test]
    fn a_body_is_the_same_packed_repacked_and_decoded() {
        let (text, unpacker) = (format!("[{}0]", "1,".repeat(200)), Unpacker::new());
        let body = Body::<Vec<u8>>::copied([text.as_bytes(), b""]);
        let mut packers = [Packer::trained([]), Packer::trained([])];
        let [before, after] = body.repack(&mut packers[0], &unpacker).unwrap();
        assert_eq!(before, Held { plain: text.len(), packed: 0 });
        assert!(after.plain == 0 && after.packed > 0 && after.packed < text.len(), "{after:?}");
        assert!(body.repack(&mut packers[0], &unpacker).is_none());
        assert_eq!(body.repack(&mut packers[1], &unpacker).unwrap()[0], after);
        drop(packers);
        assert_eq!(body.bytes(&unpacker).unwrap(), text.as_bytes());
        assert_eq!(
            (body.len(), body.decode(Retention::Now, &unpacker, |_| ()).outcome.unwrap().len()),
            (text.len(), 201)
        );
    }
}
