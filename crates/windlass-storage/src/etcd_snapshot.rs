//! Reads a snapshot of etcd, as `etcdctl snapshot save` writes it: a bbolt database with its SHA-256 at the end.
//!
//! The bucket `key` has all revisions of all keys, by revision; `lease` has the leases; `meta` the last compaction.
//!
//! Guaranteed:
//! - The checksum of the file is verified before anything is read.
//! - Only the newest state is read. Keys are in memory, values are not.
//!
//! Not guaranteed: the remaining time of a lease is not in a snapshot of etcd, unless etcd has stored it. Its whole
//! lifetime counts instead.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use sha2::{Digest as _, Sha256};
use windlass_server::storage::Revision;

use crate::bolt::{Bolt, BoltError, Bucket};

#[cfg(test)]
pub(crate) mod tests;

/// A snapshot of etcd.
#[derive(Debug)]
pub struct EtcdSnapshot {
    path: PathBuf,
    bolt: Bolt,
    keys: Bucket,
    /// The last revision that etcd had committed.
    revision: Revision,
    /// The newest revision of each key; `None` after a deletion.
    newest: HashMap<Box<[u8]>, Option<Place>>,
    leases: HashMap<i64, Duration>,
}

/// The current value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtcdValue<'s> {
    /// The key.
    pub key: &'s [u8],
    /// The stored bytes.
    pub value: &'s [u8],
    /// The revision that created the key.
    pub created: Revision,
    /// The revision of the last change.
    pub modified: Revision,
    /// The lifetime of the value's lease.
    pub lifetime: Option<Duration>,
}

/// The error for a file that is no intact snapshot of etcd.
#[derive(Debug, thiserror::Error)]
#[error("{} is no intact snapshot of etcd", file.display())]
pub struct InvalidEtcdSnapshot {
    file: PathBuf,
    source: Problem,
}

#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("it cannot be read")]
    Read(#[from] io::Error),
    #[error("it has no checksum; save it with \"etcdctl snapshot save\"")]
    Unchecked,
    #[error("its checksum differs")]
    Checksum,
    #[error(transparent)]
    Database(#[from] BoltError),
    #[error("it has no bucket {0:?}")]
    Bucket(&'static str),
    #[error("the value of revision {0} is damaged")]
    Value(Revision),
    #[error("it has the key {0:?}, which is no revision")]
    Key(String),
}

/// The position of a commit in the history: its revision, and its number among the changes of that revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    revision: u64,
    change: u64,
}

/// The key in the bucket `key`.
struct Commit {
    place: Place,
    is_deletion: bool,
}

/// The encoding of a value in the bucket `key`, `mvccpb.KeyValue`.
#[derive(Default)]
struct KeyValue<'s> {
    key: &'s [u8],
    value: &'s [u8],
    created: u64,
    modified: u64,
    lease: i64,
}

/// The size of a checksum. The size of the database before it is a multiple of the smallest page.
const CHECKSUM: usize = 32;
const SMALLEST_PAGE: u64 = 512;

impl EtcdSnapshot {
    /// Opens and verifies a snapshot.
    ///
    /// # Errors
    /// If the file cannot be read, or is no intact snapshot.
    pub fn open(path: &Path) -> Result<Self, InvalidEtcdSnapshot> {
        Self::verified(path).map_err(|source| InvalidEtcdSnapshot { file: path.to_owned(), source })
    }

    fn verified(path: &Path) -> Result<Self, Problem> {
        let file = File::open(path)?;
        let length = verify(&file)?;
        Self::of_database(path, file, length)
    }

    /// Reads the first `length` bytes of a file.
    fn of_database(path: &Path, file: File, length: u64) -> Result<Self, Problem> {
        let bolt = Bolt::open(file, length)?;
        let keys = bolt.bucket(b"key")?.ok_or(Problem::Bucket("key"))?;
        let mut snapshot = Self {
            path: path.to_owned(),
            bolt,
            keys,
            revision: Revision(1),
            newest: HashMap::new(),
            leases: HashMap::new(),
        };
        snapshot.leases()?;
        snapshot.compaction()?;
        snapshot.index()?;
        Ok(snapshot)
    }

    /// Returns the revision of the last commit.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Visits the current values, in the order of their revisions.
    ///
    /// # Errors
    /// If the file cannot be read, or has a damaged value. Errors of `visit` are passed on.
    pub fn each<E: From<InvalidEtcdSnapshot>>(
        &self,
        mut visit: impl FnMut(EtcdValue<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let invalid = |source: Problem| InvalidEtcdSnapshot { file: self.path.clone(), source };
        let visited = self.bolt.each(&self.keys, |commit, bytes| {
            let visited = Commit::decode(commit).and_then(|commit| {
                let value = KeyValue::decode(bytes).ok_or(Problem::Value(commit.place.at()))?;
                Ok((commit.place, value))
            });
            let (place, stored) = visited.map_err(|problem| Stop::Caller(invalid(problem).into()))?;
            if self.newest.get(stored.key).copied().flatten() != Some(place) {
                return Ok(());
            }
            let lifetime = self.leases.get(&stored.lease).copied();
            let KeyValue { key, value, created, modified, .. } = stored;
            let (created, modified) = (Revision(created), Revision(modified));
            visit(EtcdValue { key, value, created, modified, lifetime }).map_err(Stop::Caller)
        });
        visited.map_err(|stop| match stop {
            Stop::Database(error) => invalid(error.into()).into(),
            Stop::Caller(error) => error,
        })
    }

    /// Reads the lifetimes of the leases.
    fn leases(&mut self) -> Result<(), Problem> {
        let Some(bucket) = self.bolt.bucket(b"lease")? else { return Ok(()) };
        self.bolt.each(&bucket, |_, bytes| {
            let (mut id, mut granted, mut remaining) = (0, 0, 0);
            // leasepb.Lease
            for field in Fields(bytes) {
                match field {
                    Some((1, Field::Number(number))) => id = number.cast_signed(),
                    Some((2, Field::Number(number))) => granted = number,
                    Some((3, Field::Number(number))) => remaining = number,
                    Some(_) => {}
                    None => return Ok(()),
                }
            }
            self.leases.insert(id, Duration::from_secs(if remaining > 0 { remaining } else { granted }));
            Ok::<_, Problem>(())
        })
    }

    /// Reads the revision of the last compaction: the last commits may be deletions that were compacted.
    fn compaction(&mut self) -> Result<(), Problem> {
        let Some(bucket) = self.bolt.bucket(b"meta")? else { return Ok(()) };
        self.bolt.each(&bucket, |key, value| {
            if key == b"finishedCompactRev" {
                self.revision = self.revision.max(Commit::decode(value)?.place.at());
            }
            Ok(())
        })
    }

    /// Finds the newest commit of each key.
    fn index(&mut self) -> Result<(), Problem> {
        self.bolt.each(&self.keys, |commit, bytes| {
            let Commit { place, is_deletion } = Commit::decode(commit)?;
            let stored = KeyValue::decode(bytes).ok_or(Problem::Value(place.at()))?;
            // Commits are in the order of their revisions.
            self.revision = self.revision.max(place.at());
            self.newest.insert(stored.key.into(), (!is_deletion).then_some(place));
            Ok(())
        })
    }
}

/// The end of a traversal.
enum Stop<E> {
    Database(BoltError),
    Caller(E),
}

impl<E> From<BoltError> for Stop<E> {
    fn from(error: BoltError) -> Self {
        Self::Database(error)
    }
}

/// Compares the checksum at the end of a file. Returns the size of the database before it.
fn verify(file: &File) -> Result<u64, Problem> {
    let length = file.metadata()?.len();
    let length =
        length.checked_sub(CHECKSUM as u64).filter(|length| length % SMALLEST_PAGE == 0).ok_or(Problem::Unchecked)?;
    let mut hash = Sha256::new();
    io::copy(&mut file.take(length), &mut hash)?;
    let mut expected = [0; CHECKSUM];
    file.read_exact_at(&mut expected, length)?;
    if hash.finalize()[..] == expected { Ok(length) } else { Err(Problem::Checksum) }
}

impl Place {
    fn at(self) -> Revision {
        Revision(self.revision)
    }
}

impl Commit {
    /// Decodes a key: two numbers of eight bytes with `_` between them, and `t` after those of a deletion.
    fn decode(key: &[u8]) -> Result<Self, Problem> {
        let parts = || {
            let (revision, rest) = key.split_first_chunk()?;
            let (change, rest) = rest.strip_prefix(b"_")?.split_first_chunk()?;
            let place = Place { revision: u64::from_be_bytes(*revision), change: u64::from_be_bytes(*change) };
            let is_deletion = rest == b"t";
            (is_deletion || rest.is_empty()).then_some(Self { place, is_deletion })
        };
        parts().ok_or_else(|| Problem::Key(key.escape_ascii().to_string()))
    }
}

impl<'s> KeyValue<'s> {
    fn decode(bytes: &'s [u8]) -> Option<Self> {
        let mut decoded = Self::default();
        for field in Fields(bytes) {
            match field? {
                (1, Field::Bytes(bytes)) => decoded.key = bytes,
                (2, Field::Number(number)) => decoded.created = number,
                (3, Field::Number(number)) => decoded.modified = number,
                (5, Field::Bytes(bytes)) => decoded.value = bytes,
                (6, Field::Number(number)) => decoded.lease = number.cast_signed(),
                _ => {}
            }
        }
        Some(decoded)
    }
}

/// The fields of a protobuf message. `None` is a damaged one, the last.
struct Fields<'s>(&'s [u8]);

enum Field<'s> {
    Number(u64),
    Bytes(&'s [u8]),
}

impl<'s> Iterator for Fields<'s> {
    type Item = Option<(u64, Field<'s>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'s> Fields<'s> {
    fn field(&mut self) -> Option<(u64, Field<'s>)> {
        let tag = self.number()?;
        let field = match tag & 7 {
            0 => Field::Number(self.number()?),
            2 => {
                let length = usize::try_from(self.number()?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                Field::Bytes(bytes)
            }
            _ => return None,
        };
        Some((tag >> 3, field))
    }

    /// Reads a number in groups of seven bits, the lowest ones first.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}
