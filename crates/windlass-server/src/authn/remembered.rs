//! Tokens of service accounts that were good a moment ago.
//!
//! To verify a signature costs more than most requests do. So a token that was good counts as good for a while, as on the
//! real server: that its account was deleted is noticed when that time is over, and not before. What was refused is not remembered.

use std::{collections::HashMap, fmt};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::Identity;

/// How long: `--token-success-cache-ttl` of the real server, as it is there.
const REMEMBERED: SignedDuration = SignedDuration::from_secs(10);

/// How many tokens at most; the real server has no bound.
const CAPACITY: usize = 32 << 10;

/// Who asks for more audiences than that is verified each time, so that nobody fills the memory with them.
const MOST_AUDIENCES: usize = 16;

/// What was sent, and for whom it was to be meant; the tokens themselves are not kept.
type Key = [u8; 32];

#[derive(Default)]
pub(super) struct Remembered(Mutex<State>);

#[derive(Default)]
struct State {
    /// Identities with the time at which they were found.
    tokens: HashMap<Key, (Timestamp, Identity)>,
    /// When those that are over were last taken out.
    swept: Timestamp,
}

impl Remembered {
    /// Whose the token is, if it was good a moment ago.
    pub(super) fn recall(&self, key: &Key, now: Timestamp) -> Option<Identity> {
        let remembered = self.0.lock();
        let (since, identity) = remembered.tokens.get(key)?;
        is_fresh(*since, now).then(|| identity.clone())
    }

    /// Keeps in mind that it is good now.
    pub(super) fn keep(&self, key: Key, now: Timestamp, identity: Identity) {
        if identity.audiences.len() > MOST_AUDIENCES {
            return;
        }
        let mut remembered = self.0.lock();
        if !is_fresh(remembered.swept, now) {
            remembered.tokens.retain(|_, (since, _)| is_fresh(*since, now));
            remembered.swept = now;
        }
        // With so many in use at once those that come now are verified each time.
        if remembered.tokens.len() < CAPACITY {
            remembered.tokens.insert(key, (now, identity));
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
    use crate::authn::User;

    #[test]
    fn a_token_is_remembered_for_ten_seconds_and_for_those_audiences() {
        let remembered = Remembered::default();
        let at = |seconds: i64| Timestamp::from_second(1_000_000 + seconds).unwrap();
        let for_us = key(b"token", &["us".to_owned()]);
        remembered.keep(for_us, at(0), Identity { user: User::new("robot").into(), audiences: Vec::new() });
        let known = |key: &Key, seconds| remembered.recall(key, at(seconds)).map(|identity| identity.user.name.clone());
        assert_eq!(known(&for_us, 0).as_deref(), Some("robot"));
        assert_eq!(known(&for_us, 9).as_deref(), Some("robot"));
        assert_eq!(known(&for_us, 10), None);
        assert_eq!(known(&for_us, -1), None);
        assert_eq!(known(&key(b"token", &[]), 0), None);
        assert_ne!(key(b"c", &["a".to_owned(), "b".to_owned()]), key(b"c", &["ab".to_owned()]));
    }

    #[test]
    fn what_is_over_makes_room() {
        let remembered = Remembered::default();
        let at = |seconds: i64| Timestamp::from_second(1_000_000 + seconds).unwrap();
        let robot = || Identity { user: User::new("robot").into(), audiences: Vec::new() };
        for token in 0..=CAPACITY {
            remembered.keep(key(&token.to_le_bytes(), &[]), at(0), robot());
        }
        let last = key(&CAPACITY.to_le_bytes(), &[]);
        assert!(remembered.recall(&last, at(0)).is_none(), "there was no room");
        remembered.keep(last, at(20), robot());
        assert!(remembered.recall(&last, at(20)).is_some());
        assert_eq!(remembered.0.lock().tokens.len(), 1);
    }

    #[test]
    fn what_was_asked_for_many_audiences_is_not_kept() {
        let remembered = Remembered::default();
        let audiences = vec!["a".to_owned(); MOST_AUDIENCES + 1];
        let (key, now) = (key(b"token", &audiences), Timestamp::from_second(1_000_000).unwrap());
        remembered.keep(key, now, Identity { user: User::new("robot").into(), audiences });
        assert!(remembered.recall(&key, now).is_none());
    }
}
