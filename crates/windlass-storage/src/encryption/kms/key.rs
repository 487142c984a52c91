//! The keys of values: derived from a seed, or used as they are.

use aes_gcm::aead::{OsRng, rand_core::RngCore as _};
use ring::hkdf::{HKDF_SHA256, Prk};

use super::super::cipher::{DecryptError, Gcm};

/// The size of a seed, of the random bytes of a value, and of the key that both result in.
pub(super) const SIZE: usize = 32;

/// A decrypted key, or the seed of keys.
pub(super) enum DataKey {
    /// Each value begins with random bytes. Its key is HKDF-SHA256 of the seed and these bytes, without extraction.
    Seed(Prk),
    /// The key of all values. kube-apiserver before 1.29 writes them.
    Key(Gcm),
}

impl DataKey {
    /// Returns `None` if the seed is too short.
    pub(super) fn from_seed(seed: &[u8]) -> Option<Self> {
        (seed.len() >= SIZE).then(|| Self::Seed(Prk::new_less_safe(HKDF_SHA256, seed)))
    }

    /// Returns `None` if the key has another size.
    pub(super) fn from_key(key: &[u8]) -> Option<Self> {
        Gcm::new(key).map(Self::Key)
    }

    pub(super) fn seal(&self, place: &str, body: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        match self {
            Self::Seed(seed) => {
                let mut info = [0; SIZE];
                OsRng.fill_bytes(&mut info);
                output.extend(info);
                derived(seed, &info).seal(place, body, &mut output);
            }
            Self::Key(key) => key.seal(place, body, &mut output),
        }
        output
    }

    pub(super) fn open(&self, place: &str, data: &[u8]) -> Result<Vec<u8>, DecryptError> {
        match self {
            Self::Seed(seed) => {
                let (info, sealed) = data.split_first_chunk::<SIZE>().ok_or(DecryptError::Short)?;
                derived(seed, info).open(place, sealed)
            }
            Self::Key(key) => key.open(place, data),
        }
    }
}

/// Returns the key of a value.
fn derived(seed: &Prk, info: &[u8; SIZE]) -> Gcm {
    let mut key = [0; SIZE];
    let info = [&info[..]];
    let expanded = seed.expand(&info, HKDF_SHA256).and_then(|expanded| expanded.fill(&mut key));
    expanded.expect("the key is as long as the output of the hash");
    Gcm::new(&key).expect("the size is one of AES")
}
