//! How the body of an object is held: the one place that decides it.
//!
//! A body is kept as the bytes that came, in an allocation of exactly its size, or compressed: it never pins a network
//! buffer. It is decoded when somebody asks for the object, and the result is shared for as long as it is kept beside the
//! bytes; [`Memory`](crate::memory::Memory) says how long that is.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use crate::{
    decoding::{self, Misfit},
    packing::{Damaged, Dictionary, Packer, Unpacker, unpacked_len},
};

pub(crate) type Decoded<K> = Result<Arc<K>, Arc<Misfit>>;

#[derive(Debug)]
pub(crate) struct Body<K> {
    /// Held while decoding, so that two who ask at once decode once; only they wait for it.
    state: Mutex<State<K>>,
}

#[derive(Debug)]
struct State<K> {
    bytes: Box<[u8]>,
    /// What `bytes` are compressed with; `None` when they are not.
    packing: Option<Arc<Dictionary>>,
    outcome: Outcome<K>,
}

/// What came of decoding it.
#[derive(Debug)]
enum Outcome<K> {
    /// Nobody has asked.
    Unknown,
    /// It was decoded, and given up.
    Forgotten,
    Object(Arc<K>),
    /// It was asked for again since this was last cleared.
    Touched(Arc<K>),
    Error(Arc<Misfit>),
}

/// How many bytes are held of a body, in each form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) plain: usize,
    pub(crate) packed: usize,
}

/// What came of asking for a decoded object.
pub(crate) struct Asked<K> {
    pub(crate) outcome: Decoded<K>,
    pub(crate) effort: Effort,
}

/// What becomes of an object that is decoded because it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// It is kept for those who ask next.
    Now,
    /// It is given away. If it is asked for once more, that one is kept.
    NextTime,
}

/// What it took to have a decoded object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// It was there.
    None,
    /// It was decoded, for the first time.
    First,
    /// It was decoded once more.
    Again,
}

/// What came of asking to give up the decoded object.
pub(crate) enum Cooled<K> {
    /// It was used lately, and is kept for once.
    Touched,
    /// To be dropped where no lock is held.
    Given(Option<Decoded<K>>),
}

impl<K> Body<K> {
    /// Takes the parts, in this order, into an allocation of their own.
    pub(crate) fn copied(parts: [&[u8]; 2]) -> Self {
        let bytes = parts.concat().into_boxed_slice();
        Self { state: Mutex::new(State { bytes, packing: None, outcome: Outcome::Unknown }) }
    }

    /// The encoded body.
    pub(crate) fn bytes(&self, unpacker: &Unpacker) -> Result<Vec<u8>, Damaged> {
        self.state.lock().unpacked(unpacker)
    }

    /// Runs `read` on the encoded body. `read` must be no user code: others who ask wait for it.
    pub(crate) fn with_bytes<T>(&self, unpacker: &Unpacker, read: impl FnOnce(&[u8]) -> T) -> Result<T, Damaged> {
        let state = self.state.lock();
        if state.packing.is_none() {
            return Ok(read(&state.bytes));
        }
        let bytes = state.unpacked(unpacker)?;
        drop(state);
        Ok(read(&bytes))
    }

    /// The size of the encoded body, uncompressed.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().len()
    }

    pub(crate) fn is_packed(&self) -> bool {
        self.state.lock().packing.is_some()
    }

    #[cfg(test)]
    pub(crate) fn has_decoded(&self) -> bool {
        !matches!(self.state.lock().outcome, Outcome::Unknown | Outcome::Forgotten)
    }

    /// What is held of it.
    pub(crate) fn held(&mut self) -> Held {
        self.state.get_mut().held()
    }

    /// Whether the decoded object is held.
    pub(crate) fn is_decoded(&mut self) -> bool {
        matches!(self.state.get_mut().outcome, Outcome::Object(_) | Outcome::Touched(_))
    }

    /// The decoded object; `finish` completes it when it is decoded now.
    pub(crate) fn decode(&self, keep: Keep, unpacker: &Unpacker, finish: impl FnOnce(&mut K)) -> Asked<K>
    where
        K: DeserializeOwned,
    {
        let mut state = self.state.lock();
        if let Some(outcome) = state.outcome.touch() {
            return Asked { outcome, effort: Effort::None };
        }
        let effort = if matches!(state.outcome, Outcome::Forgotten) { Effort::Again } else { Effort::First };
        let result = match &state.packing {
            None => decoding::decode(&state.bytes),
            Some(_) => state.unpacked(unpacker).map_err(Misfit::from).and_then(|bytes| decoding::decode::<K>(&bytes)),
        };
        let outcome = match result {
            Ok(mut object) => {
                finish(&mut object);
                Ok(Arc::new(object))
            }
            Err(error) => Err(Arc::new(error)),
        };
        state.outcome = match &outcome {
            Ok(_) if effort == Effort::First && keep == Keep::NextTime => Outcome::Forgotten,
            Ok(object) => Outcome::Object(Arc::clone(object)),
            Err(error) => Outcome::Error(Arc::clone(error)),
        };
        Asked { outcome, effort }
    }

    /// Gives up the decoded object, unless it was used since the last time.
    pub(crate) fn cool(&self) -> Cooled<K> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut state.outcome, Outcome::Forgotten) {
            Outcome::Touched(object) => {
                state.outcome = Outcome::Object(object);
                Cooled::Touched
            }
            Outcome::Object(object) => Cooled::Given(Some(Ok(object))),
            Outcome::Error(error) => Cooled::Given(Some(Err(error))),
            Outcome::Unknown | Outcome::Forgotten => Cooled::Given(None),
        }
    }

    /// Compresses the body, unless this packer has; gives what was held before and what is now, if that changed.
    pub(crate) fn repack(&self, packer: &mut Packer, unpacker: &Unpacker) -> Option<[Held; 2]> {
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
    /// What is known, if anything.
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
    fn a_body_is_decoded_once_however_many_ask() {
        let (body, unpacker) = (Body::<Counted>::copied([b"{}", b""]), Unpacker::new());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| body.decode(Keep::Now, &unpacker, |_| ()).outcome.unwrap());
            }
        });
        assert_eq!(DECODED.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn what_is_asked_for_once_is_the_callers_own_and_what_is_asked_for_again_is_shared() {
        let (body, unpacker) = (Body::<u8>::copied([b"7", b""]), Unpacker::new());
        let ask = || body.decode(Keep::NextTime, &unpacker, |_| ());
        let first = ask();
        assert_eq!((first.effort, Arc::strong_count(&first.outcome.unwrap())), (Effort::First, 1));
        assert!(!body.has_decoded());
        let (second, third) = (ask(), ask());
        assert_eq!((second.effort, third.effort), (Effort::Again, Effort::None));
        assert!(Arc::ptr_eq(&second.outcome.unwrap(), &third.outcome.unwrap()));
    }

    #[test]
    fn a_body_that_does_not_decode_fails_each_time_alike() {
        let (body, unpacker) = (Body::<u8>::copied([b"\"x", b"\""]), Unpacker::new());
        let first = body.decode(Keep::Now, &unpacker, |_| ()).outcome.unwrap_err();
        assert!(Arc::ptr_eq(&first, &body.decode(Keep::Now, &unpacker, |_| ()).outcome.unwrap_err()));
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
        assert_eq!((body.len(), body.decode(Keep::Now, &unpacker, |_| ()).outcome.unwrap().len()), (text.len(), 201));
    }
}
