//! How the body of an object is held: the one place that decides it.
//!
//! A body is kept as the bytes that came, in an allocation of exactly its size: it never pins a network buffer. It is
//! decoded when somebody asks for the object, once, and the result is shared. A decoded body stays decoded for as long
//! as its entry lives, that is until the object's next event and the last handler's use of this one.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

pub(crate) type Decoded<K> = Result<Arc<K>, Arc<serde_json::Error>>;

#[derive(Debug)]
pub(crate) struct Body<K> {
    encoded: Bytes,
    /// `None` until somebody asked. The lock is held while decoding, so that two who ask at once decode once; only
    /// they wait for it, and a panic in `K`'s decoder leaves `None`.
    decoded: Mutex<Option<Decoded<K>>>,
}

impl<K> Body<K> {
    /// Takes the parts, in this order, into an allocation of their own.
    pub(crate) fn copied(parts: [&[u8]; 2]) -> Self {
        Self::owned(parts.concat())
    }

    /// Takes what was made for this body alone.
    pub(crate) fn owned(encoded: Vec<u8>) -> Self {
        Self { encoded: Bytes::from(encoded.into_boxed_slice()), decoded: Mutex::new(None) }
    }

    pub(crate) fn bytes(&self) -> Bytes {
        self.encoded.clone()
    }

    /// Runs `read` on the encoded body.
    pub(crate) fn with_bytes<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        read(&self.encoded)
    }

    /// The decoded object; `finish` completes it when it is decoded now.
    pub(crate) fn decode(&self, finish: impl FnOnce(&mut K)) -> Decoded<K>
    where
        K: DeserializeOwned,
    {
        let mut decoded = self.decoded.lock();
        if let Some(decoded) = &*decoded {
            return decoded.clone();
        }
        let result = match serde_json::from_slice::<K>(&self.encoded) {
            Ok(mut object) => {
                finish(&mut object);
                Ok(Arc::new(object))
            }
            Err(error) => Err(Arc::new(error)),
        };
        decoded.insert(result).clone()
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
        let body = Body::<Counted>::copied([b"{}", b""]);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| body.decode(|_| ()).unwrap());
            }
        });
        assert_eq!(DECODED.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_body_that_does_not_decode_fails_each_time_alike() {
        let body = Body::<u8>::copied([b"\"x", b"\""]);
        let first = body.decode(|_| ()).unwrap_err();
        assert!(Arc::ptr_eq(&first, &body.decode(|_| ()).unwrap_err()));
    }
}
