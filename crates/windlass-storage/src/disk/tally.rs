//! A summary of the stored records, which reveals that the database lost or revived some of them.
//!
//! The checksum of a record shows that it is intact, but not that it is there. An engine can lose records without an
//! error, for example when the list of its files is damaged. The tally is changed in the transaction that changes the
//! records, and compared with all of them at the start.

use windlass_server::storage::Revision;

/// The number of records and the sum of their fingerprints, which does not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) count: u64,
    pub(super) sum: u64,
}

impl Tally {
    pub(super) fn add(&mut self, revision: Revision, record: &[u8]) {
        self.count = self.count.wrapping_add(1);
        self.sum = self.sum.wrapping_add(fingerprint(revision, record));
    }

    pub(super) fn remove(&mut self, revision: Revision, record: &[u8]) {
        self.count = self.count.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(fingerprint(revision, record));
    }
}

/// Mixes the revision and the checksum of a record, so that the sums of different sets differ.
fn fingerprint(revision: Revision, record: &[u8]) -> u64 {
    // The finalizer of SplitMix64, a permutation of the 64-bit numbers.
    let mut mixed = revision.0 ^ u64::from(crc32fast::hash(record)).rotate_left(32);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tally_depends_on_the_set_and_not_on_the_order() {
        let records: Vec<_> = (1..100).map(|number| (Revision(number), number.to_string().into_bytes())).collect();
        let (mut forward, mut backward) = (Tally::default(), Tally::default());
        for ((first, one), (last, other)) in records.iter().zip(records.iter().rev()) {
            forward.add(*first, one);
            backward.add(*last, other);
        }
        assert_eq!(forward, backward);
        for (revision, record) in &records {
            let mut without = forward;
            without.remove(*revision, record);
            assert_ne!(without.sum, forward.sum, "{revision:?} is missing");
            without.add(Revision(revision.0 + 1000), record);
            assert_ne!(without, forward, "{revision:?} is elsewhere");
        }
        for (revision, record) in &records {
            forward.remove(*revision, record);
        }
        assert_eq!(forward, Tally::default());
    }
}
