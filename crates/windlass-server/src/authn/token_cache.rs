//! A cache of verified tokens.
//!
//! Verifying a signature costs more than most requests do, so results are cached for a short time. For service accounts,
//! only the signature is cached. The expiry of the token and the objects it is bound to are checked with each request, so a
//! token becomes invalid with its account. Rejections are not cached.

use std::{collections::HashMap, fmt, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::{Identity, legacy_tokens::LegacyClaims, token::Claims};

/// The lifetime of a result: `--token-success-cache-ttl` of kube-apiserver, which caches the result of all checks.
const CACHE_TTL: SignedDuration = SignedDuration::from_secs(10);

/// The maximum number of cached tokens. kube-apiserver has no limit.
const CAPACITY: usize = 32 << 10;

/// The maximum number of audiences of a cached result. This limits the memory that one request can occupy.
const MAX_AUDIENCES: usize = 16;

/// A hash of the token and the requested audiences. Tokens themselves are not stored.
pub(super) type Key = [u8; 32];

/// A token with a valid signature.
#[derive(Debug)]
pub(super) struct Verified {
    pub(super) subject: Subject,
    pub(super) identity: Identity,
}

/// The part of a token that is checked with each request.
#[derive(Debug)]
pub(super) enum Subject {
    /// A token of a service account.
    Account(Claims),
    /// A token in a secret.
    Legacy(LegacyClaims),
    /// A token of another issuer. Its result is valid while it is cached, as in kube-apiserver.
    Foreign,
}

#[derive(Default)]
pub(super) struct TokenCache(Mutex<State>);

#[derive(Default)]
struct State {
    /// The tokens with the time of their verification.
    tokens: HashMap<Key, (Timestamp, Arc<Verified>)>,
    /// The time when expired results were last removed.
    last_cleanup: Timestamp,
}

impl TokenCache {
    /// Returns the cached result for a token.
    pub(super) fn get(&self, key: &Key, now: Timestamp) -> Option<Arc<Verified>> {
        let cache = self.0.lock();
        let (since, verified) = cache.tokens.get(key)?;
        is_fresh(*since, now).then(|| Arc::clone(verified))
    }

    /// Caches a result.
    pub(super) fn insert(&self, key: Key, now: Timestamp, verified: Arc<Verified>) {
        if verified.identity.audiences.len() > MAX_AUDIENCES {
            return;
        }
        let mut cache = self.0.lock();
        if !is_fresh(cache.last_cleanup, now) {
            cache.tokens.retain(|_, (since, _)| is_fresh(*since, now));
            cache.last_cleanup = now;
        }
        // If the cache is full of valid results, new tokens are verified each time.
        if cache.tokens.len() < CAPACITY {
            cache.tokens.insert(key, (now, verified));
        }
    }
}

/// Reports whether a result is still valid. Results are invalid if the clock was set back.
fn is_fresh(since: Timestamp, now: Timestamp) -> bool {
    now >= since && now.duration_since(since) < CACHE_TTL
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

impl fmt::Debug for TokenCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenCache").field("tokens", &self.0.lock().tokens.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use crate::authn::token_cache::*;

    /// Returns a token for this number of audiences.
    fn verified(audiences: usize) -> Arc<Verified> {
        let claims = Claims::of_account("default", "robot", vec!["us".to_owned(); audiences]);
        Arc::new(Verified { identity: claims.identity(), subject: Subject::Account(claims) })
    }

    #[test]
    fn token_is_cached_for_ten_seconds_and_its_audiences() {
        let cache = TokenCache::default();
        let at = |seconds: i64| Timestamp::from_second(1_000_000 + seconds).unwrap();
        let for_us = key(b"token", &["us".to_owned()]);
        cache.insert(for_us, at(0), verified(1));
        let known = |key: &Key, seconds| {
            let verified = cache.get(key, at(seconds))?;
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
    fn expired_entries_are_evicted_from_a_full_cache() {
        let cache = TokenCache::default();
        let at = |seconds: i64| Timestamp::from_second(1_000_000 + seconds).unwrap();
        for token in 0..=CAPACITY {
            cache.insert(key(&token.to_le_bytes(), &[]), at(0), verified(1));
        }
        let last = key(&CAPACITY.to_le_bytes(), &[]);
        assert!(cache.get(&last, at(0)).is_none(), "the cache is full");
        cache.insert(last, at(20), verified(1));
        assert!(cache.get(&last, at(20)).is_some());
        assert_eq!(cache.0.lock().tokens.len(), 1);
    }

    #[test]
    fn token_with_many_audiences_is_not_cached() {
        let cache = TokenCache::default();
        let audiences = vec!["a".to_owned(); MAX_AUDIENCES + 1];
        let (key, now) = (key(b"token", &audiences), Timestamp::from_second(1_000_000).unwrap());
        cache.insert(key, now, verified(audiences.len()));
        assert!(cache.get(&key, now).is_none());
    }
}
