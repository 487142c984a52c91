//! Snapshots of a [`DiskStorage`](super::DiskStorage): one file with the state at one revision, and with the retained
//! history.
//!
//! Guaranteed:
//! - A snapshot is consistent, also if the storage is open in another process and being written.
//! - It is complete and intact: all checksums are verified before the file gets its name, and again before a restore.
//! - Clients of the old cluster don't mistake a restored one for the same: the restored storage continues at a later
//!   revision, and its history cannot be watched. Their watches end, and they list again.
//!
//! Not guaranteed: that the writes of the last moments are included. A snapshot has all writes that were acknowledged
//! before it began.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OpenFlags};
use windlass_server::storage::Revision;

use super::{
    OpenError,
    database::{self, DatabaseError},
    files,
    record::{self, Damaged, RecordKind},
};
use crate::etcd_snapshot::InvalidEtcdSnapshot;

/// The contents of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The revision of the last commit.
    pub revision: Revision,
    /// The number of keys.
    pub keys: usize,
    /// The size of all values, with those of the history.
    pub bytes: u64,
}

/// The error of a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The source or the target cannot be opened, or is damaged.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is no storage in the directory.
    #[error("there is no storage in {}", directory.display())]
    Nothing {
        /// The directory.
        directory: PathBuf,
    },
    /// The directory has a storage already.
    #[error("there is a storage in {} already", directory.display())]
    Occupied {
        /// The directory.
        directory: PathBuf,
    },
    /// The file is no intact snapshot.
    #[error("{} is no intact snapshot", file.display())]
    Snapshot {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is no intact snapshot of etcd.
    #[error(transparent)]
    Etcd(#[from] InvalidEtcdSnapshot),
    /// A key of an etcd snapshot cannot be stored.
    #[error("cannot import the key {key} of revision {revision}: {problem}")]
    Key {
        /// The key.
        key: String,
        /// The revision of its last change.
        revision: Revision,
        /// The reason.
        problem: &'static str,
    },
    /// A file cannot be read or written.
    #[error("cannot use {}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// The distance between the last revision of a snapshot and the first one after a restore: more commits than a cluster
/// makes after a snapshot, as in `etcdutl`'s documentation.
const BUMP: u64 = 1_000_000_000;

/// Saves the storage of a directory to a file, which is replaced if it exists. The storage may be open.
///
/// # Errors
/// If there is no storage, it is damaged, or the file cannot be written.
pub fn save(directory: &Path, file: &Path) -> Result<Contents, SnapshotError> {
    let source = database::path(directory);
    if !exists(&source)? {
        return Err(SnapshotError::Nothing { directory: directory.to_owned() });
    }
    // Read before the database: later commits may be missing in the snapshot, but not these.
    let acknowledged = database::acknowledged_revision(directory);
    let new = beside(file);
    files::remove_database(&new).map_err(|source| used(&new, source))?;
    let saved = (|| -> Result<Contents, SnapshotError> {
        let failed = |error: rusqlite::Error| database::load_error(directory, error.into());
        let connection = Connection::open_with_flags(&source, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(failed)?;
        database::check_format(&connection, directory)?;
        files::create_private(&new).map_err(|source| used(&new, source))?;
        let name = files::utf8(&new).map_err(|source| used(&new, source))?;
        connection.execute("VACUUM INTO ?1", [name]).map_err(failed)?;
        database::without_journal(&new).map_err(|error| unreadable(file, error))?;
        let contents = verify(&new, file)?;
        if let Some(upto) = acknowledged.filter(|acknowledged| *acknowledged > contents.revision) {
            let after = contents.revision;
            return Err(OpenError::Missing { directory: directory.to_owned(), after, upto }.into());
        }
        files::rename(files::parent(file), &new, file).map_err(|source| used(file, source))?;
        Ok(contents)
    })();
    if saved.is_err() {
        // The first error counts.
        let _ = fs::remove_file(&new);
    }
    saved
}

/// Verifies a snapshot, and returns what it contains.
///
/// # Errors
/// If the file is no intact snapshot.
pub fn status(file: &Path) -> Result<Contents, SnapshotError> {
    fs::metadata(file).map_err(|source| used(file, source))?;
    verify(file, file)
}

/// Creates the storage of a directory from a snapshot.
///
/// # Errors
/// If the file is no intact snapshot, or if the directory has a storage.
pub fn restore(file: &Path, directory: &Path) -> Result<Contents, SnapshotError> {
    status(file)?;
    place(directory, |new| {
        fs::copy(file, new).map_err(|source| used(new, source))?;
        // The copy, because the file may have changed meanwhile.
        let contents = verify(new, file)?;
        let first = after(contents.revision).ok_or_else(|| SnapshotError::Snapshot {
            file: file.to_owned(),
            source: format!("its revision {} is too large", contents.revision).into(),
        })?;
        database::continue_at(new, first).map_err(|error| database::load_error(directory, error))?;
        Ok((contents, first))
    })
}

/// Returns the first revision after a restore.
pub(super) fn after(last: Revision) -> Option<Revision> {
    last.0.checked_add(BUMP).filter(|first| i64::try_from(*first).is_ok()).map(Revision)
}

/// Creates the storage of a directory. `write` fills a new private file, and returns the revision with which the storage
/// begins.
pub(super) fn place<T>(
    directory: &Path,
    write: impl FnOnce(&Path) -> Result<(T, Revision), SnapshotError>,
) -> Result<T, SnapshotError> {
    files::create_directory(directory).map_err(|source| used(directory, source))?;
    let _lock = files::lock_directory(directory)?;
    let path = database::path(directory);
    if exists(&path)? {
        return Err(SnapshotError::Occupied { directory: directory.to_owned() });
    }
    // A log that is left of a removed database does not belong to the restored one.
    let new = beside(&path);
    for stale in [&new, &path] {
        files::remove_database(stale).map_err(|source| used(stale, source))?;
    }
    files::create_private(&new).map_err(|source| used(&new, source))?;
    let (written, first) = write(&new)?;
    // First, so that a database without it never exists.
    database::write_acknowledged(directory, first).map_err(|source| used(directory, source))?;
    files::rename(directory, &new, &path).map_err(|source| used(&path, source))?;
    Ok(written)
}

/// Checks all records and bodies of a snapshot. `name` is the file in errors.
fn verify(file: &Path, name: &Path) -> Result<Contents, SnapshotError> {
    let damaged = |error: DatabaseError| SnapshotError::Snapshot { file: name.to_owned(), source: error.into() };
    let connection =
        Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(|error| unreadable(name, error))?;
    database::check_format(&connection, name)
        .map_err(|error| SnapshotError::Snapshot { file: name.to_owned(), source: error.into() })?;
    contents(&connection).map_err(damaged)
}

fn contents(connection: &Connection) -> Result<Contents, DatabaseError> {
    let state = database::stored_state(connection)?;
    let mut contents = Contents { revision: state.oldest, keys: 0, bytes: 0 };
    let mut keys = HashMap::new();
    let mut bodies = connection.prepare("SELECT body FROM bodies WHERE revision = ?1")?;
    database::each_record(connection, state.tally, |record| {
        contents.revision = contents.revision.max(record.revision);
        let is_put = matches!(record.kind, RecordKind::Put { .. });
        keys.insert(record.key, is_put);
        if is_put {
            let body: Vec<u8> = bodies.query_row([record.revision.0.cast_signed()], |row| row.get(0))?;
            let damaged = |_| DatabaseError::Damaged(Damaged(record.revision));
            contents.bytes += record::decode_body(record.revision, body.into()).map_err(damaged)?.len() as u64;
        }
        Ok(())
    })?;
    contents.keys = keys.values().filter(|is_put| **is_put).count();
    Ok(contents)
}

/// Returns the name of the incomplete file.
fn beside(file: &Path) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(".new");
    name.into()
}

fn exists(path: &Path) -> Result<bool, SnapshotError> {
    fs::exists(path).map_err(|source| used(path, source))
}

fn used(file: &Path, source: io::Error) -> SnapshotError {
    SnapshotError::File { file: file.to_owned(), source }
}

fn unreadable(file: &Path, error: rusqlite::Error) -> SnapshotError {
    SnapshotError::Snapshot { file: file.to_owned(), source: error.into() }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use windlass_server::storage::{Change, Expect, RangeQuery, Storage as _, StorageError};

    use super::*;
    use crate::DiskStorage;

    async fn create(storage: &DiskStorage, key: &str, body: &str) -> Revision {
        let change = Change::Put(Bytes::copy_from_slice(body.as_bytes()));
        storage.commit(key, Expect::Absent, change).await.unwrap().revision
    }

    async fn bodies(storage: &DiskStorage) -> Vec<(String, Bytes)> {
        let values = storage.range(RangeQuery::default()).await.unwrap().values;
        values.into_iter().map(|value| (value.key.to_string(), value.body)).collect()
    }

    /// A snapshot with the keys /a and /b, at revision 3.
    async fn saved(directory: &Path) -> PathBuf {
        let storage = DiskStorage::open(directory.join("old")).unwrap();
        create(&storage, "/a", "one").await;
        create(&storage, "/b", "two").await;
        let file = directory.join("snapshot");
        let contents = save(&directory.join("old"), &file).unwrap();
        assert_eq!(contents, Contents { revision: Revision(3), keys: 2, bytes: 6 });
        file
    }

    #[tokio::test]
    async fn open_storage_is_saved_and_restored_at_a_later_revision() {
        let directory = tempfile::tempdir().unwrap();
        let storage = DiskStorage::open(directory.path().join("old")).unwrap();
        let first = create(&storage, "/a", "one").await;
        let deleted = create(&storage, "/gone", "x").await;
        storage.commit("/gone", Expect::Unchanged(deleted), Change::Delete).await.unwrap();
        let file = directory.path().join("snapshot");
        let contents = save(&directory.path().join("old"), &file).unwrap();
        assert_eq!((contents.revision, contents.keys), (Revision(4), 1));
        create(&storage, "/later", "not in the snapshot").await;

        let new = directory.path().join("new");
        assert_eq!(restore(&file, &new).unwrap(), contents);
        let restored = DiskStorage::open(&new).unwrap();
        assert_eq!(bodies(&restored).await, [("/a".to_owned(), "one".into())]);
        let value = restored.get("/a", None).await.unwrap().1.unwrap();
        assert_eq!((value.created, value.modified), (first, first));
        let expired = restored.watch("", Revision(4)).await.err();
        let oldest = Revision(4 + BUMP);
        assert!(matches!(expired, Some(StorageError::Compacted { oldest: found }) if found == oldest), "{expired:?}");
        assert_eq!(create(&restored, "/b", "two").await, oldest.next());
        drop(restored);
        assert_eq!(bodies(&DiskStorage::open(&new).unwrap()).await.len(), 2, "the restored storage opens again");
    }

    #[tokio::test]
    async fn acknowledged_writes_are_in_a_snapshot_taken_under_load() {
        let directory = tempfile::tempdir().unwrap();
        let old = directory.path().join("old");
        let storage = std::sync::Arc::new(DiskStorage::open(&old).unwrap());
        let writer = {
            let storage = std::sync::Arc::clone(&storage);
            tokio::spawn(async move {
                for number in 0..500 {
                    create(&storage, &format!("/{number:04}"), &number.to_string()).await;
                }
            })
        };
        let file = directory.path().join("snapshot");
        while !writer.is_finished() {
            let acknowledged = bodies(&storage).await.len();
            let (old, file) = (old.clone(), file.clone());
            let contents = tokio::task::spawn_blocking(move || save(&old, &file).unwrap()).await.unwrap();
            assert!(contents.keys >= acknowledged, "{} of {acknowledged}", contents.keys);
            assert_eq!(contents.revision.0, contents.keys as u64 + 1, "a snapshot has no gaps");
        }
        writer.await.unwrap();
    }

    #[tokio::test]
    async fn flipped_bits_are_found_before_a_restore() {
        let directory = tempfile::tempdir().unwrap();
        let file = saved(directory.path()).await;
        let intact = fs::read(&file).unwrap();
        let used: Vec<usize> = (0..intact.len()).filter(|at| intact[*at] != 0).collect();
        let expected = status(&file).unwrap();
        let mut found = 0;
        for at in used {
            let mut bytes = intact.clone();
            bytes[at] ^= 1;
            fs::write(&file, &bytes).unwrap();
            let target = directory.path().join(at.to_string());
            if let Ok(contents) = restore(&file, &target) {
                assert_eq!(contents, expected, "byte {at}");
            } else {
                found += 1;
                assert!(!target.join("database").exists(), "byte {at}: nothing is restored");
            }
        }
        assert!(found > 100, "{found} flipped bits were found");
        fs::write(&file, &intact[..intact.len() / 2]).unwrap();
        let error = status(&file).unwrap_err().to_string();
        assert_eq!(error, format!("{} is no intact snapshot", file.display()));
    }

    #[tokio::test]
    async fn existing_storage_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let file = saved(directory.path()).await;
        let taken = directory.path().join("taken");
        let storage = DiskStorage::open(&taken).unwrap();
        assert!(matches!(restore(&file, &taken), Err(SnapshotError::Open(OpenError::Locked { .. }))));
        drop(storage);
        assert!(matches!(restore(&file, &taken), Err(SnapshotError::Occupied { directory }) if directory == taken));
    }

    #[tokio::test]
    async fn snapshot_file_is_replaced_and_private() {
        let directory = tempfile::tempdir().unwrap();
        let file = saved(directory.path()).await;
        fs::write(&file, "an older file").unwrap();
        save(&directory.path().join("old"), &file).unwrap();
        assert_eq!(status(&file).unwrap().keys, 2);
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        let empty = directory.path().join("empty");
        fs::create_dir(&empty).unwrap();
        let error = save(&empty, &file).unwrap_err().to_string();
        assert_eq!(error, format!("there is no storage in {}", empty.display()));
        assert_eq!(fs::read_dir(&empty).unwrap().count(), 0, "nothing is created");
    }

    #[tokio::test]
    async fn snapshot_without_acknowledged_commits_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        saved(directory.path()).await;
        let old = directory.path().join("old");
        database::write_acknowledged(&old, Revision(5)).unwrap();
        let error = save(&old, &directory.path().join("second")).unwrap_err().to_string();
        assert!(error.ends_with("the commits after revision 3 up to 5 are missing"), "{error}");
        assert!(!directory.path().join("second").exists());
    }

    #[tokio::test]
    async fn log_of_a_removed_database_does_not_affect_the_restored_one() {
        let directory = tempfile::tempdir().unwrap();
        let file = saved(directory.path()).await;
        let (other, target) = (directory.path().join("other"), directory.path().join("target"));
        let storage = DiskStorage::open(&other).unwrap();
        create(&storage, "/other", "x").await;
        fs::create_dir(&target).unwrap();
        for suffix in ["-wal", "-shm"] {
            fs::copy(other.join(format!("database{suffix}")), target.join(format!("database{suffix}"))).unwrap();
        }
        restore(&file, &target).unwrap();
        let keys: Vec<String> =
            bodies(&DiskStorage::open(&target).unwrap()).await.into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["/a", "/b"]);
    }
}
