//! The storage of an object's encoded body and of its decoded form.
//!
//! A body is stored as the bytes that the server sent, plain or compressed, in an allocation of exactly its size. It
//! never pins a network buffer. It is decoded on the first read, and the result is shared while it is retained next to
//! the bytes; [`Memory`](crate::memory::Memory) decides how long that is.

use std::{any::Any, sync::Arc};

use parking_lot::Mutex;

use crate::{
    decoding::DecodeFailure,
    packing::{Damaged, Dictionary, Unpacker, unpacked_len},
};

/// A decoded object of any type. A type parameter instead would make a program compile the whole informer once for
/// each kind.
pub(crate) type AnyObject = Arc<dyn Any + Send + Sync>;

pub(crate) type Decoded = Result<AnyObject, Arc<DecodeFailure>>;

#[derive(Debug)]
pub(crate) struct Body {
    /// Held while decoding, so that concurrent readers of one object decode it only once. Readers of other objects
    /// don't wait.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    bytes: Box<[u8]>,
    /// The dictionary that `bytes` are compressed with; `None` if they are not compressed.
    packing: Option<Arc<Dictionary>>,
    outcome: Outcome,
}

/// The result of decoding a body.
#[derive(Debug)]
enum Outcome {
    /// The body has not been decoded yet.
    Unknown,
    /// The body was decoded, and the result was dropped.
    Forgotten,
    Object(AnyObject),
    /// The object was read again since the last call of [`Body::evict_decoded`].
    Touched(AnyObject),
    Error(Arc<DecodeFailure>),
}

/// The number of bytes that a body takes, by form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) plain: usize,
    pub(crate) packed: usize,
}

/// The result of a request for a decoded object.
pub(crate) struct DecodeResult {
    pub(crate) outcome: Decoded,
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
pub(crate) enum EvictResult {
    /// The object was read recently and stays decoded until the next call.
    RecentlyUsed,
    /// The dropped object. The caller must drop it without holding a lock.
    Evicted(Option<Decoded>),
}

impl Body {
    /// Copies the parts, in this order, into one new allocation.
    pub(crate) fn copied(parts: &[&[u8]]) -> Self {
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

    /// Copies the encoded body, uncompressed, into an empty buffer.
    pub(crate) fn copy_to(&self, buffer: &mut Vec<u8>, unpacker: &Unpacker) -> Result<(), Damaged> {
        let state = self.state.lock();
        match &state.packing {
            None => {
                buffer.extend_from_slice(&state.bytes);
                Ok(())
            }
            Some(dictionary) => unpacker.unpack_into(buffer, &state.bytes, dictionary),
        }
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

    /// Returns the decoded object. `decode` decodes the uncompressed body if necessary.
    pub(crate) fn decode(
        &self,
        retention: Retention,
        unpacker: &Unpacker,
        decode: &dyn Fn(&[u8]) -> Result<AnyObject, DecodeFailure>,
    ) -> DecodeResult {
        let mut state = self.state.lock();
        if let Some(outcome) = state.outcome.touch() {
            return DecodeResult { outcome, work: DecodeWork::None };
        }
        let work = if matches!(state.outcome, Outcome::Forgotten) { DecodeWork::Again } else { DecodeWork::First };
        let result = match &state.packing {
            None => decode(&state.bytes),
            Some(_) => state.unpacked(unpacker).map_err(DecodeFailure::from).and_then(|bytes| decode(&bytes)),
        };
        let outcome = result.map_err(Arc::new);
        state.outcome = match &outcome {
            Ok(_) if work == DecodeWork::First && retention == Retention::NextTime => Outcome::Forgotten,
            Ok(object) => Outcome::Object(Arc::clone(object)),
            Err(error) => Outcome::Error(Arc::clone(error)),
        };
        DecodeResult { outcome, work }
    }

    /// Drops the decoded object, unless it was read since the last call.
    pub(crate) fn evict_decoded(&self) -> EvictResult {
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

impl State {
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

impl Outcome {
    /// Returns the result of an earlier decoding, if it is retained, and marks it as used.
    fn touch(&mut self) -> Option<Decoded> {
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

    use serde::de::DeserializeOwned;

    use super::*;
    use crate::{decoding, packing::Packer};

    fn decode<T: DeserializeOwned + Send + Sync + 'static>(body: &[u8]) -> Result<AnyObject, DecodeFailure> {
        decoding::decode::<T>(body).map(|object| Arc::new(object) as AnyObject)
    }

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
        let (body, unpacker) = (Body::copied(&[b"{}"]), Unpacker::new());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| body.decode(Retention::Now, &unpacker, &decode::<Counted>).outcome.unwrap());
            }
        });
        assert_eq!(DECODED.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn first_read_is_unshared_and_later_reads_share() {
        let (body, unpacker) = (Body::copied(&[b"7"]), Unpacker::new());
        let ask = || body.decode(Retention::NextTime, &unpacker, &decode::<u8>);
        let first = ask();
        assert_eq!((first.work, Arc::strong_count(&first.outcome.unwrap())), (DecodeWork::First, 1));
        assert!(!body.has_decoded());
        let (second, third) = (ask(), ask());
        assert_eq!((second.work, third.work), (DecodeWork::Again, DecodeWork::None));
        assert!(Arc::ptr_eq(&second.outcome.unwrap(), &third.outcome.unwrap()));
    }

    #[test]
    fn a_body_that_does_not_decode_fails_each_time_alike() {
        let (body, unpacker) = (Body::copied(&[b"\"x", b"\""]), Unpacker::new());
        let fail = || body.decode(Retention::Now, &unpacker, &decode::<u8>).outcome.unwrap_err();
        assert!(Arc::ptr_eq(&fail(), &fail()));
    }

    #[test]
    fn a_body_is_the_same_packed_repacked_and_decoded() {
        let (text, unpacker) = (format!("[{}0]", "1,".repeat(200)), Unpacker::new());
        let body = Body::copied(&[text.as_bytes()]);
        let mut packers = [Packer::trained([]), Packer::trained([])];
        let [before, after] = body.repack(&mut packers[0], &unpacker).unwrap();
        assert_eq!(before, Held { plain: text.len(), packed: 0 });
        assert!(after.plain == 0 && after.packed > 0 && after.packed < text.len(), "{after:?}");
        assert!(body.repack(&mut packers[0], &unpacker).is_none());
        assert_eq!(body.repack(&mut packers[1], &unpacker).unwrap()[0], after);
        drop(packers);
        assert_eq!(body.bytes(&unpacker).unwrap(), text.as_bytes());
        let mut copy = Vec::new();
        body.copy_to(&mut copy, &unpacker).unwrap();
        assert_eq!(copy, text.as_bytes());
        let decoded = body.decode(Retention::Now, &unpacker, &decode::<Vec<u8>>).outcome.unwrap();
        assert_eq!((body.len(), decoded.downcast::<Vec<u8>>().unwrap().len()), (text.len(), 201));
    }
}
