//! Randomness as a value that is passed in.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rand::{
    Rng, SeedableRng,
    rngs::{ChaCha20Rng, SysRng},
};

/// The alphabet of generated name suffixes: without vowels, to avoid words, and without similar characters.
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

const HEX: &[u8; 16] = b"0123456789abcdef";

/// A source of random numbers for UIDs, name suffixes and jitter.
///
/// Clones share one stream, so a run with a given seed can be replayed. Don't use a seeded source for secrets.
#[derive(Clone)]
pub struct Entropy(Arc<Mutex<ChaCha20Rng>>);

impl Entropy {
    /// Creates a source seeded by the operating system.
    ///
    /// # Panics
    /// Panics if the operating system has no random source, in which case TLS would not work either.
    #[must_use]
    pub fn os() -> Self {
        let rng = ChaCha20Rng::try_from_rng(&mut SysRng).expect("the operating system has a random source");
        Self(Arc::new(Mutex::new(rng)))
    }

    /// Creates a source that returns the same stream for the same seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(ChaCha20Rng::seed_from_u64(seed))))
    }

    /// Returns the next 64 random bits.
    #[must_use]
    pub fn next_u64(&self) -> u64 {
        self.0.lock().next_u64()
    }

    /// Returns an evenly distributed number below `bound`; 0 if `bound` is 0.
    #[must_use]
    pub fn below(&self, bound: u64) -> u64 {
        // The high half of a 128-bit product avoids a division. Its bias is below 2^-40 for every bound used here.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a version 4 UUID in its usual form.
    #[must_use]
    pub fn uuid(&self) -> String {
        let bytes = {
            let mut bytes = [0; 16];
            self.0.lock().fill_bytes(&mut bytes);
            bytes
        };
        let bits = (u128::from_be_bytes(bytes) & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
        // Avoids `format!`, because every reconcile creates a UUID.
        let mut text = String::with_capacity(36);
        for (index, byte) in bits.to_be_bytes().into_iter().enumerate() {
            if let 4 | 6 | 8 | 10 = index {
                text.push('-');
            }
            for digit in [byte >> 4, byte & 0xf] {
                text.push(char::from(HEX[usize::from(digit)]));
            }
        }
        text
    }

    /// Returns `len` characters, as appended to a `generateName`.
    #[must_use]
    pub fn name_suffix(&self, len: usize) -> String {
        #[expect(clippy::cast_possible_truncation, reason = "below 27")]
        let letter = |_| char::from(SUFFIX_ALPHABET[self.below(SUFFIX_ALPHABET.len() as u64) as usize]);
        (0..len).map(letter).collect()
    }

    /// Returns a duration between `base` and `base * (1 + factor)`, limited to the maximum duration.
    #[must_use]
    pub fn jitter(&self, base: Duration, factor: f64) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
        let part = (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        Duration::try_from_secs_f64(base.as_secs_f64() * (1.0 + part * factor.max(0.0))).unwrap_or(Duration::MAX)
    }
}

impl Default for Entropy {
    fn default() -> Self {
        Self::os()
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_run() {
        let (a, b) = (Entropy::seeded(7), Entropy::seeded(7));
        assert_eq!(a.uuid(), b.uuid());
        assert_eq!(a.name_suffix(5), b.name_suffix(5));
        assert_ne!(a.uuid(), a.uuid());
    }

    #[test]
    fn uuid_has_version_4_and_variant_1() {
        let uuid = Entropy::seeded(1).uuid();
        assert_eq!(uuid.len(), 36);
        assert_eq!(&uuid[14..15], "4");
        assert_eq!(uuid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(uuid.bytes().all(|byte| byte == b'-' || HEX.contains(&byte)), "{uuid}");
        assert!("89ab".contains(&uuid[19..20]), "{uuid}");
    }

    #[test]
    fn jitter_stays_within_its_factor() {
        let entropy = Entropy::seeded(3);
        for _ in 0..1_000 {
            let jittered = entropy.jitter(Duration::from_secs(10), 0.5);
            assert!((10.0..=15.0).contains(&jittered.as_secs_f64()));
        }
    }
}
