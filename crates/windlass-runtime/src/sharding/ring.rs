//! Rendezvous hashing: assigns each key to one member of a set. Pure values.
//!
//! Each member has a weight for each key, and the member with the highest weight owns it. When a member leaves, only
//! its keys move. When one joins, only the keys that it gains move. All replicas must use the same hash function, also
//! in different versions of a program. Therefore it never changes.

use std::{
    fmt::{self, Debug, Display},
    sync::Arc,
};

use windlass_api::{ApiResource, ObjectKey};

/// The hash of a key, equal for all controllers and members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Point(u64);

/// A set of members. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Ring(Arc<[Seat]>);

/// Sorted by name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seat {
    name: Arc<str>,
    hash: u64,
}

// === impl Point ===

impl Point {
    /// Returns the hash of an object, regardless of the version of its kind. Controllers that reconcile the same
    /// objects do so in the same process.
    pub(crate) fn of(resource: &ApiResource, key: &ObjectKey) -> Self {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let parts = [&*resource.group, &*resource.plural, namespace, &*key.name];
        Self(parts.into_iter().fold(FNV_OFFSET, |hash, part| fnv(fnv(hash, part.as_bytes()), b"/")))
    }
}

// === impl Ring ===

impl Ring {
    pub(crate) fn new(names: impl IntoIterator<Item = Arc<str>>) -> Self {
        let seat = |name: Arc<str>| Seat { hash: mix(fnv(FNV_OFFSET, name.as_bytes())), name };
        let mut seats: Vec<_> = names.into_iter().map(seat).collect();
        seats.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        seats.dedup();
        Self(seats.into())
    }

    /// Parses a ring from its display form.
    pub(crate) fn parse(text: &str) -> Self {
        Self::new(text.split(',').filter(|name| !name.is_empty()).map(Arc::from))
    }

    pub(crate) fn names(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.0.iter().map(|seat| &seat.name)
    }

    /// Returns the owner of a key, or `None` if there are no members.
    pub(crate) fn owner(&self, point: Point) -> Option<&Arc<str>> {
        // If two weights are equal, the later name wins, in all replicas.
        self.0.iter().max_by_key(|seat| mix(seat.hash ^ point.0)).map(|seat| &seat.name)
    }

    pub(crate) fn gives(&self, point: Point, name: &str) -> bool {
        self.owner(point).is_some_and(|owner| **owner == *name)
    }
}

impl Display for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.names().enumerate() {
            write!(f, "{}{name}", if at > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

// === hashing ===

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// The hash function FNV-1a.
fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

/// The finalizer of SplitMix64: each input bit affects half of the output bits.
const fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use windlass_api::{Entropy, Resource, k8s_openapi::api::core::v1::ConfigMap};

    use super::*;

    fn names(range: std::ops::Range<usize>) -> Vec<Arc<str>> {
        range.map(|n| format!("painter-web-{n}").into()).collect()
    }

    fn points(number: usize) -> Vec<Point> {
        let key = |n| ObjectKey::new(format!("object-{n}")).within("shop");
        (0..number).map(|n| Point::of(&ConfigMap::api_resource(), &key(n))).collect()
    }

    #[test]
    fn members_get_nearly_equal_shares() {
        for members in [2, 3, 5, 16] {
            let ring = Ring::new(names(0..members));
            let points = points(20_000);
            for name in ring.names() {
                let share = points.iter().filter(|point| ring.gives(**point, name)).count();
                let even = points.len() / members;
                assert!(share.abs_diff(even) < even / 8, "{name} of {members} has {share} keys, expected about {even}");
            }
        }
    }

    #[test]
    fn ring_moves_only_keys_of_joining_or_leaving_member() {
        let (few, many) = (Ring::new(names(0..4)), Ring::new(names(0..5)));
        let newcomer = "painter-web-4";
        let (mut moved, mut from) = (0_usize, std::collections::HashSet::new());
        for point in points(20_000) {
            let (before, after) = (few.owner(point).unwrap(), many.owner(point).unwrap());
            if before != after {
                assert_eq!(&**after, newcomer, "keys move only to the new member");
                moved += 1;
                from.insert(before.clone());
            }
        }
        assert!(moved.abs_diff(4_000) < 400, "expected a fifth to move, not {moved}");
        assert_eq!(from.len(), 4);
    }

    #[test]
    fn ring_is_independent_of_member_order() {
        let entropy = Entropy::seeded(3);
        let mut names = names(0..7);
        let ring = Ring::new(names.clone());
        for _ in 0..20 {
            names.sort_by_key(|_| entropy.next_u64());
            let other = Ring::new(names.iter().chain(&names[..2]).cloned());
            assert_eq!(other, ring);
            assert_eq!(Ring::parse(&other.to_string()), ring);
            assert!(points(500).iter().all(|point| other.owner(*point) == ring.owner(*point)));
        }
        assert_eq!(Ring::parse("").owner(points(1)[0]), None);
    }

    #[test]
    fn the_hash_is_the_same_in_each_version_of_a_program() {
        let ring = Ring::parse("a,b,c");
        let owners: Vec<_> = points(12).into_iter().map(|point| &**ring.owner(point).unwrap()).collect();
        assert_eq!(owners.join(""), "abababbbccba");
    }
}
