//! Leases for values with a lifetime, shared by several keys as in kube-apiserver.
//!
//! A lease is used for a minute, or for a twentieth of the lifetime if that is shorter, and for at most 1,000 keys. It is
//! granted for that much longer, so no value is deleted before its lifetime has passed, and each at most a minute later
//! (and by etcd's own delay: it checks leases twice a second, and their shortest duration is about two seconds).

use std::time::Duration;

use tokio::{sync::Mutex, time::Instant};
use windlass_server::storage::StorageError;

use crate::{
    cluster::{Cluster, LEASE_GRANT},
    messages::{LeaseGrantRequest, LeaseGrantResponse, signed},
};

/// The longest time for which a lease is used for further keys, in seconds.
const REUSED_FOR: u64 = 60;

/// The maximum number of keys of a lease.
const KEYS: u32 = 1000;

/// The longest lifetime, in seconds: etcd rejects leases of more than 9,000,000,000 s.
const LONGEST: u64 = 8_000_000_000;

/// The lease of the last value.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    last: Mutex<Option<Lease>>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    id: i64,
    /// A lower bound: the duration starts when etcd grants the lease.
    expires: Instant,
    keys: u32,
}

/// Returns the additional duration of a lease, in seconds.
fn extra(seconds: u64) -> u64 {
    (seconds / 20).min(REUSED_FOR)
}

impl Lease {
    fn fits(&self, seconds: u64, now: Instant) -> bool {
        let (earliest, latest) = (Duration::from_secs(seconds), Duration::from_secs(seconds + extra(seconds)));
        self.keys < KEYS && now + earliest <= self.expires && self.expires <= now + latest
    }
}

impl Leases {
    /// Returns a lease that lasts at least this long.
    pub(crate) async fn get(&self, cluster: &Cluster, lifetime: Duration) -> Result<i64, StorageError> {
        let seconds = lifetime.as_secs().min(LONGEST) + u64::from(lifetime.subsec_nanos() > 0);
        let mut last = self.last.lock().await;
        let now = Instant::now();
        if let Some(lease) = last.as_mut().filter(|lease| lease.fits(seconds, now)) {
            lease.keys += 1;
            return Ok(lease.id);
        }
        let duration = (seconds + extra(seconds)).max(1);
        let request = LeaseGrantRequest { ttl: signed(duration) };
        let granted: LeaseGrantResponse = cluster.call(|| "grant a lease".to_owned(), LEASE_GRANT, &request).await?;
        if !granted.error.is_empty() {
            return Err(StorageError::Unavailable(granted.error.into()));
        }
        let expires = now.checked_add(Duration::from_secs(duration)).unwrap_or(now);
        *last = Some(Lease { id: granted.id, expires, keys: 1 });
        Ok(granted.id)
    }

    /// Forgets a lease that no longer exists.
    pub(crate) async fn forget(&self, id: i64) {
        self.last.lock().await.take_if(|last| last.id == id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_is_shared_for_a_minute() {
        let (hour, now) = (3600, Instant::now());
        let lease = Lease { id: 1, expires: now + Duration::from_secs(hour + extra(hour)), keys: 1 };
        assert!(lease.fits(hour, now));
        assert!(lease.fits(hour, now + Duration::from_mins(1)));
        assert!(!lease.fits(hour, now + Duration::from_secs(61)), "the value would be deleted too early");
        assert!(!lease.fits(hour / 2, now), "the value would be deleted too late");
        assert!(!Lease { keys: KEYS, ..lease }.fits(hour, now));
        assert!(Lease { keys: KEYS - 1, ..lease }.fits(hour, now));
    }

    #[test]
    fn short_lifetimes_are_extended_by_a_twentieth() {
        assert_eq!([1, 19, 20, 600, 1200, 3600, u64::MAX].map(extra), [0, 0, 1, 30, 60, 60, 60]);
    }
}
