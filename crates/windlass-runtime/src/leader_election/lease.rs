//! The content of a lease, and how a candidate interprets it. Pure values; the caller passes the time.

use std::time::Duration;

use tokio::time::Instant;
use windlass_api::k8s_openapi::{
    api::coordination::v1::LeaseSpec,
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::{Span, Timestamp},
};

/// An observed lease.
#[derive(Debug)]
pub(super) struct Seen {
    spec: LeaseSpec,
    /// When this content was first observed. For the candidate's own lease: when it was sent.
    at: Instant,
}

impl Seen {
    pub(super) fn new(spec: LeaseSpec, at: Instant) -> Self {
        Self { spec, at }
    }

    /// Only a change proves that the holder is alive.
    pub(super) fn again(self, spec: LeaseSpec, now: Instant) -> Self {
        if self.spec == spec { self } else { Self::new(spec, now) }
    }

    pub(super) fn spec(&self) -> &LeaseSpec {
        &self.spec
    }

    pub(super) fn holder(&self) -> &str {
        holder(&self.spec)
    }

    /// Returns when other candidates may acquire the lease. The holder's lease duration applies.
    pub(super) fn expires(&self) -> Instant {
        let seconds = self.spec.lease_duration_seconds.unwrap_or_default();
        self.at + Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    }

    /// Reports whether any candidate may acquire the lease.
    pub(super) fn is_free(&self, now: Instant) -> bool {
        self.holder().is_empty() || self.expires() <= now
    }
}

pub(super) fn holder(spec: &LeaseSpec) -> &str {
    spec.holder_identity.as_deref().unwrap_or_default()
}

/// Returns the content to write in order to acquire or renew a lease.
pub(crate) fn claimed(old: Option<&LeaseSpec>, identity: &str, duration: Duration, now: Timestamp) -> LeaseSpec {
    let mut renewed = micro_time(now);
    let transitions = old.and_then(|old| old.lease_transitions).unwrap_or_default();
    let (acquired, transitions) = match old {
        Some(old) if holder(old) == identity => {
            // Other candidates detect the holder by the change, so the time must advance even if the holder's clock
            // stops or is set back.
            let after = |time: &MicroTime| time.0.checked_add(Span::new().microseconds(1)).ok();
            renewed.0 = old.renew_time.as_ref().and_then(after).map_or(renewed.0, |after| after.max(renewed.0));
            (old.acquire_time.clone(), transitions)
        }
        Some(_) => (Some(renewed.clone()), transitions.saturating_add(1)),
        None => (Some(renewed.clone()), 0),
    };
    // Rounded up, so that no candidate acquires the lease before its holder has stopped acting.
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
        acquire_time: acquired,
        renew_time: Some(renewed),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    }
}

/// Returns the content to write in order to release a lease.
pub(super) fn released(old: &LeaseSpec, now: Timestamp) -> LeaseSpec {
    let now = micro_time(now);
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: Some(now.clone()),
        renew_time: Some(now),
        lease_transitions: Some(old.lease_transitions.unwrap_or_default()),
        ..LeaseSpec::default()
    }
}

/// Truncates a time to the precision of the API.
fn micro_time(at: Timestamp) -> MicroTime {
    MicroTime(Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    const LEASE: Duration = Duration::from_secs(15);

    #[test]
    fn unchanged_lease_expires_by_the_readers_clock() {
        let start = Instant::now();
        // The holder's clock is far off, which must not matter.
        let first = claimed(None, "a", LEASE, at(0));
        let seen = Seen::new(first.clone(), start);
        assert!(!seen.is_free(start + LEASE - Duration::from_nanos(1)));
        let seen = seen.again(first.clone(), start + LEASE / 2);
        assert!(seen.is_free(start + LEASE), "an unchanged lease is not a renewal");
        let seen = seen.again(claimed(Some(&first), "a", LEASE, at(1)), start + LEASE);
        assert!(!seen.is_free(start + LEASE + LEASE / 2), "changed");
    }

    #[test]
    fn lease_counts_transitions_and_keeps_acquire_time() {
        let first = claimed(None, "a", LEASE, at(1));
        let renewed = claimed(Some(&first), "a", LEASE, at(2));
        assert_eq!((renewed.lease_transitions, &renewed.acquire_time), (Some(0), &first.acquire_time));
        assert_ne!(renewed.renew_time, first.renew_time);
        let taken = claimed(Some(&renewed), "b", LEASE, at(3));
        assert_eq!((taken.lease_transitions, &taken.acquire_time), (Some(1), &taken.renew_time));
        let given_up = released(&taken, at(4));
        assert_eq!(given_up.lease_transitions, Some(1), "an empty identity is not a holder");
        assert_eq!(claimed(Some(&given_up), "b", LEASE, at(5)).lease_transitions, Some(2));
    }

    #[test]
    fn renewal_changes_the_lease_despite_stopped_clock() {
        let first = claimed(None, "a", LEASE, at(10));
        let second = claimed(Some(&first), "a", LEASE, at(10));
        let third = claimed(Some(&second), "a", LEASE, at(5));
        assert!(first != second && second != third && first != third);
        assert_eq!(claimed(Some(&third), "b", LEASE, at(5)).renew_time, Some(MicroTime(at(5))), "of another holder");
    }

    #[test]
    fn lease_duration_is_rounded_up_to_seconds() {
        for (duration, seconds) in [(1_000, 1), (1_001, 2), (15_000, 15), (500, 1)] {
            let spec = claimed(None, "a", Duration::from_millis(duration), at(1));
            assert_eq!(spec.lease_duration_seconds, Some(seconds));
        }
    }

    #[test]
    fn released_lease_has_no_holder_and_is_free() {
        let now = Instant::now();
        let spec = released(&claimed(None, "a", LEASE, at(1)), at(2));
        assert_eq!((holder(&spec), spec.lease_duration_seconds), ("", Some(1)));
        assert_eq!(spec.acquire_time, spec.renew_time);
        assert!(Seen::new(spec, now).is_free(now));
    }
}
