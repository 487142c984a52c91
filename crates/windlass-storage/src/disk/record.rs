//! The encoding of the stored records, with their checksums.
//!
//! The checksums are those of the records, independent of the database's own, so a damaged record is never served.

use std::sync::Arc;

use bytes::Bytes;
use windlass_server::storage::Revision;

use super::tally::Tally;

/// The version of the encoding. Increase it with every change, and add a migration.
pub(super) const FORMAT: u32 = 1;

/// A commit without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) revision: Revision,
    pub(super) key: Arc<str>,
    pub(super) kind: RecordKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    Put {
        /// The revision of the put that created the key.
        created: Revision,
        /// The end of the value's lifetime, in milliseconds since 1970.
        expires: Option<u64>,
        /// The length of the body.
        length: u32,
    },
    Delete,
}

/// The record cannot be decoded, or its checksum differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged(pub(super) Revision);

/// The length of a record before its key: checksum, kind, created, expires, length.
const HEAD: usize = 4 + 1 + 8 + 8 + 4;
const CHECKSUM: usize = 4;
/// Stands for a value without a lifetime.
const NEVER: u64 = 0;

impl Record {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + self.key.len());
        bytes.extend([0; CHECKSUM]);
        let (kind, created, expires, length) = match self.kind {
            RecordKind::Put { created, expires, length } => (0, created, expires.unwrap_or(NEVER), length),
            RecordKind::Delete => (1, Revision(0), NEVER, 0),
        };
        bytes.push(kind);
        bytes.extend(created.0.to_be_bytes());
        bytes.extend(expires.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(self.key.as_bytes());
        let checksum = checksum(Part::Record, self.revision, &bytes[CHECKSUM..]);
        bytes[..CHECKSUM].copy_from_slice(&checksum);
        bytes
    }

    pub(super) fn decode(revision: Revision, bytes: &[u8]) -> Result<Self, Damaged> {
        Self::checked(revision, bytes).ok_or(Damaged(revision))
    }

    fn checked(revision: Revision, bytes: &[u8]) -> Option<Self> {
        let (expected, bytes) = bytes.split_first_chunk::<CHECKSUM>()?;
        if *expected != checksum(Part::Record, revision, bytes) {
            return None;
        }
        let (kind, bytes) = bytes.split_first()?;
        let (created, bytes) = bytes.split_first_chunk()?;
        let (expires, bytes) = bytes.split_first_chunk()?;
        let (length, key) = bytes.split_first_chunk()?;
        let expires = Some(u64::from_be_bytes(*expires)).filter(|expires| *expires != NEVER);
        let kind = match kind {
            0 => RecordKind::Put {
                created: Revision(u64::from_be_bytes(*created)),
                expires,
                length: u32::from_be_bytes(*length),
            },
            1 => RecordKind::Delete,
            _ => return None,
        };
        Some(Self { revision, key: str::from_utf8(key).ok()?.into(), kind })
    }
}

/// The numbers that describe the stored records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// The oldest readable revision.
    pub(super) oldest: Revision,
    pub(super) tally: Tally,
}

impl State {
    pub(super) fn encode(&self) -> Vec<u8> {
        let numbers = [self.oldest.0, self.tally.count, self.tally.sum].map(u64::to_be_bytes).concat();
        [&checksum(Part::State, self.oldest, &numbers), &*numbers].concat()
    }

    /// Returns `None` if the state is damaged.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (expected, numbers) = bytes.split_first_chunk::<CHECKSUM>()?;
        let (oldest, rest) = numbers.split_first_chunk()?;
        let (count, sum) = rest.split_first_chunk()?;
        let oldest = Revision(u64::from_be_bytes(*oldest));
        let tally = Tally { count: u64::from_be_bytes(*count), sum: u64::from_be_bytes(sum.try_into().ok()?) };
        (*expected == checksum(Part::State, oldest, numbers)).then_some(Self { oldest, tally })
    }
}

/// Returns a body with its checksum.
pub(super) fn encode_body(revision: Revision, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(CHECKSUM + body.len());
    bytes.extend(checksum(Part::Body, revision, body));
    bytes.extend(body);
    bytes
}

/// Returns the body without its checksum.
pub(super) fn decode_body(revision: Revision, mut bytes: Bytes) -> Result<Bytes, Damaged> {
    if bytes.len() < CHECKSUM {
        return Err(Damaged(revision));
    }
    let expected = bytes.split_to(CHECKSUM);
    if *expected == checksum(Part::Body, revision, &bytes) { Ok(bytes) } else { Err(Damaged(revision)) }
}

/// The kinds of checksums.
#[derive(Clone, Copy, Debug)]
enum Part {
    Record = 1,
    Body = 2,
    State = 3,
}

/// The part and the revision are included, so a record or body in the place of another one is detected.
fn checksum(part: Part, revision: Revision, bytes: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[part as u8]);
    hasher.update(&revision.0.to_be_bytes());
    hasher.update(bytes);
    hasher.finalize().to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> [Record; 2] {
        let put = RecordKind::Put { created: Revision(7), expires: Some(1_700_000_000_000), length: 9 };
        [
            Record { revision: Revision(9), key: "/registry/a".into(), kind: put },
            Record { revision: Revision(10), key: "ä".into(), kind: RecordKind::Delete },
        ]
    }

    #[test]
    fn record_is_decoded_as_it_was_encoded() {
        for record in records() {
            assert_eq!(Record::decode(record.revision, &record.encode()), Ok(record));
        }
    }

    #[test]
    fn each_flipped_bit_of_a_record_is_detected() {
        for record in records() {
            let bytes = record.encode();
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Record::decode(record.revision, &damaged), Err(Damaged(record.revision)), "bit {bit}");
            }
            for length in 0..bytes.len() {
                assert_eq!(Record::decode(record.revision, &bytes[..length]), Err(Damaged(record.revision)));
            }
        }
    }

    #[test]
    fn record_of_another_revision_is_damaged() {
        let [record, _] = records();
        assert_eq!(Record::decode(Revision(8), &record.encode()), Err(Damaged(Revision(8))));
    }

    #[test]
    fn each_flipped_bit_of_a_body_is_detected() {
        let bytes = encode_body(Revision(3), b"{\"a\":1}");
        assert_eq!(decode_body(Revision(3), bytes.clone().into()), Ok(Bytes::from_static(b"{\"a\":1}")));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_body(Revision(3), damaged.into()), Err(Damaged(Revision(3))), "bit {bit}");
        }
        assert_eq!(decode_body(Revision(4), bytes.into()), Err(Damaged(Revision(4))));
        assert_eq!(decode_body(Revision(4), Bytes::new()), Err(Damaged(Revision(4))));
    }
}
