//! A cache of verified service account tokens.
//!
//! Verifying a signature costs more than most requests do, so results are cached for a short time. Only the signature
//! is cached. The expiry of the token and the objects it is bound to are checked with each request, so a token becomes
//! invalid with its account. Rejections are not cached.

use std::{collections::HashMap, fmt, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::{Identity, token::Claims};

/// The lifetime of a result: `--token-success-cache-ttl` of kube-apiserver, which caches the result of all checks.
const REMEMBERED: SignedDuration = SignedDuration::from_secs(10);

/// The maximum number of cached tokens. kube-apiserver has no limit.
const CAPACITY: usize = 32 << 10;

/// The maximum number of audiences of a cached result. This limits the memory that one request can occupy.
const MOST_AUDIENCES: usize = 16;

/// A hash of the token and the requested audiences. Tokens themselves are not stored.
type Key = [u8; 32];

/// A token with a valid signature.
#[derive(Debug)]
pub(super) struct Verified {
    pub(super) claims: Claims,
    pub(super) identity: Identity,
}

#[derive(Default)]
pub(super) struct Remembered(Mutex<State>);

#[derive(Default)]
struct State {
    /// The tokens with the time of their verification.
    tokens: HashMap<Key, (Timestamp, Arc<Verified>)>,
    /// The time when expired results were last removed.
    swept: Timestamp,
}

impl Remembered {
    /// Returns the cached result for a token.
    pub(super) fn recall(&self, key: &Key, now: Timestamp) -> Option<Arc<Verified>> {
        let remembered = self.0.lock();
        let (since, verified) = remembered.tokens.get(key)?;
        is_fresh(*since, now).then(|| Arc::clone(verified))
    }

    /// Caches a result.
    pub(super) fn keep(&self, key: Key, now: Timestamp, verified: Arc<Verified>) {
        if verified.identity.audiences.len() > MOST_AUDIENCES {
            return;
        }
        let mut remembered = self.0.lock();
        if !is_fresh(remembered.swept, now) {
            remembered.tokens.retain(|_, (since, _)| is_fresh(*since, now));
            remembered.swept = now;
        }
        // If the cache is full of valid results, new tokens are verified each time.
        if remembered.tokens.len() < CAPACITY {
            remembered.tokens.insert(key, (now, verified));
        }
    }
}

/// Reports whether a result is still valid. Results are invalid if the clock was set back.
fn is_fresh(since: Timestamp, now: Timestamp) -> bool {
    now >= since && now.duration_since(since) < REMEMBERED
}

/// Returns the cache key of a token and the requested audiences.
pub(super) fn key(sent: &[u8], audiences: &[String]) -> Key {
    let mut digest = Sha256::new();
    for part in audiences.iter().map(String::as_bytes).chain([sent]) {
        // The length makes the encoding of the list unambiguous.
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

impl fmt::Debug for Remembered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remembered").field("tokens", &self.0.lock().tokens.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use crate::authn::token_cache::*;

    /// Returns a token for this number of audiences.
    fn verified(audiences: usize) -> Arc<Verified> {
        let claims = Claims::of_account("default", "robot", vec!["us".to_owned(); audiences]);
        Arc::new(Verified { identity: claims.identity(), claims })
    }

    #[test]
    fn a_token_is_remembered_for_ten_seconds_and_for_those_audiences() {
        let remembered = Remembered::default();
        let at = |seconds: i64| Timestamp::from_second(1_000_000 + seconds).unwrap();
        let for_us = key(b"token", &["us".to_owned()]);
        remembered.keep(for_us, at(0), verified(1));
        let known = |key: &Key, seconds| {
            let verified = remembered.recall(key, at(seconds))?;
            Some(verified.identity.user.name.clone())
        };
        assert_eq!(known(&for_us, 0).as_deref(), Some("system:serviceaccount:default:robot"));
        assert_eq!(known(&for_us, 9).as_deref(), Some("system:serviceaccount:default:robot"));
        assert_eq!(known(&for_us, 10), None);
        assert_eq!(known(&for_us, -1), None);
        assert_eq!(known(&key(b"token", &[]), 0), None);
        assert_ne!(key(b"c", &["a".to_owned(), "b".to_owned()]), key(b"c", &["ab".to_owned()]));
    }

    #[test]
    fn what_is_over_makes_room() {
        let remembered = Remembered::default();
        let at = |seconds: i64| Timestamp::from_second(1_000_000 + seconds).unwrap();
        for token in 0..=CAPACITY {
            remembered.keep(key(&token.to_le_bytes(), &[]), at(0), verified(1));
        }
        let last = key(&CAPACITY.to_le_bytes(), &[]);
        assert!(remembered.recall(&last, at(0)).is_none(), "the cache is full");
        remembered.keep(last, at(20), verified(1));
        assert!(remembered.recall(&last, at(20)).is_some());
        assert_eq!(remembered.0.lock().tokens.len(), 1);
    }

    #[test]
    fn what_was_asked_for_many_audiences_is_not_kept() {
        let remembered = Remembered::default();
        let audiences = vec!["a".to_owned(); MOST_AUDIENCES + 1];
        let (key, now) = (key(b"token", &audiences), Timestamp::from_second(1_000_000).unwrap());
        remembered.keep(key, now, verified(audiences.len()));
        assert!(remembered.recall(&key, now).is_none());
    }
}
