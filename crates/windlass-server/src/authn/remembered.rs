//! Tokens of service accounts whose signature was right a moment ago.
//!
//! To verify a signature costs more than most requests do, so a result is kept for a while. It says nothing of time or of
//! what the token is bound to: both are checked with each request, and so a token ends with its account. What was refused is
//! not kept.

use std::{collections::HashMap, fmt, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::{Identity, token::Claims};

/// The lifetime of a result: `--token-success-cache-ttl` of the real server, where the answer of a whole check is kept.
const REMEMBERED: SignedDuration = SignedDuration::from_secs(10);

/// How many tokens at most; the real server has no bound.
const CAPACITY: usize = 32 << 10;

/// Who asks for more audiences than that is verified each time, so that nobody fills the memory with them.
const MOST_AUDIENCES: usize = 16;

/// What was sent, and for whom it was to be meant; the tokens themselves are not kept.
type Key = [u8; 32];

/// A token whose signature is right.
#[derive(Debug)]
pub(super) struct Verified {
    pub(super) claims: Claims,
    pub(super) identity: Identity,
}

#[derive(Default)]
pub(super) struct Remembered(Mutex<State>);

#[derive(Default)]
struct State {
    /// With the time at which they were verified.
    tokens: HashMap<Key, (Timestamp, Arc<Verified>)>,
    /// When those that are over were last taken out.
    swept: Timestamp,
}

impl Remembered {
    /// Returns what was verified of the token a moment ago.
    pub(super) fn recall(&self, key: &Key, now: Timestamp) -> Option<Arc<Verified>> {
        let remembered = self.0.lock();
        let (since, verified) = remembered.tokens.get(key)?;
        is_fresh(*since, now).then(|| Arc::clone(verified))
    }

    /// Keeps what was verified now.
    pub(super) fn keep(&self, key: Key, now: Timestamp, verified: Arc<Verified>) {
        if verified.identity.audiences.len() > MOST_AUDIENCES {
            return;
        }
        let mut remembered = self.0.lock();
        if !is_fresh(remembered.swept, now) {
            remembered.tokens.retain(|_, (since, _)| is_fresh(*since, now));
            remembered.swept = now;
        }
        // With so many in use at once those that come now are verified each time.
        if remembered.tokens.len() < CAPACITY {
            remembered.tokens.insert(key, (now, verified));
        }
    }
}

/// A clock that was set back makes nothing last longer.
fn is_fresh(since: Timestamp, now: Timestamp) -> bool {
    now >= since && now.duration_since(since) < REMEMBERED
}

/// Of a token and the audiences that were asked for.
pub(super) fn key(sent: &[u8], audiences: &[String]) -> Key {
    let mut digest = Sha256::new();
    for part in audiences.iter().map(String::as_bytes).chain([sent]) {
        // With its length, so that no two lists have the same bytes.
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
    use super::*;

    /// A token for so many audiences.
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
        assert!(remembered.recall(&last, at(0)).is_none(), "there was no room");
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
