//! Creates a storage from a snapshot of etcd.

use std::path::Path;

use rusqlite::Connection;
use windlass_server::storage::Revision;

use super::{
    database::{self, DatabaseError, NEW},
    record::{Record, RecordKind, State},
    snapshot::{Contents, SnapshotError, after, place},
    view::Now,
};
use crate::etcd_snapshot::{EtcdSnapshot, EtcdValue};

/// The result of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The imported values.
    pub contents: Contents,
    /// The number of keys without the prefix, which were not imported.
    pub skipped: usize,
}

/// Creates the storage of a directory from the values of an etcd snapshot whose keys have a prefix.
///
/// The values stay as etcd had them: in protobuf, and encrypted if they were. As after a restore, the storage continues
/// at a later revision than the snapshot, and its history cannot be watched. The lifetimes of values begin anew.
///
/// # Errors
/// If the snapshot is damaged, a key cannot be stored, or the directory has a storage.
pub fn from_etcd(snapshot: &EtcdSnapshot, prefix: &str, directory: &Path) -> Result<Imported, SnapshotError> {
    let revision = snapshot.revision();
    let too_large = || SnapshotError::Key { key: prefix.to_owned(), revision, problem: "the revision is too large" };
    let first = after(revision).ok_or_else(too_large)?;
    place(directory, |new| {
        let failed = |error| database::load_error(directory, error);
        let mut import = Import::create(new).map_err(failed)?;
        snapshot.each(|value| import.add(&value, prefix, directory))?;
        let imported = import.finish(revision, first).map_err(failed)?;
        Ok((imported, first))
    })
}

/// A database that is being filled in one transaction.
struct Import {
    connection: Connection,
    state: State,
    now: Now,
    keys: usize,
    bytes: u64,
    skipped: usize,
    /// The last revision. Two keys cannot share one.
    last: Option<Revision>,
}

impl Import {
    fn create(path: &Path) -> Result<Self, DatabaseError> {
        let connection = database::create_tables(path)?;
        // An interrupted import begins anew, so nothing is rolled back.
        connection.pragma_update(None, "journal_mode", "OFF")?;
        connection.execute_batch("BEGIN")?;
        Ok(Self { connection, state: NEW, now: Now::read(), keys: 0, bytes: 0, skipped: 0, last: None })
    }

    fn add(&mut self, value: &EtcdValue<'_>, prefix: &str, directory: &Path) -> Result<(), SnapshotError> {
        let EtcdValue { key, value: body, created, modified, lifetime } = *value;
        if !key.starts_with(prefix.as_bytes()) {
            self.skipped += 1;
            return Ok(());
        }
        let problem = |problem| {
            let key = key.escape_ascii().to_string();
            SnapshotError::Key { key, revision: modified, problem }
        };
        let key = str::from_utf8(key).map_err(|_| problem("it is not UTF-8"))?;
        if self.last == Some(modified) {
            return Err(problem("another key was changed at the same revision"));
        }
        let length = u32::try_from(body.len()).map_err(|_| problem("its value is too large"))?;
        let expires = lifetime.map(|lifetime| self.now.millis_after(lifetime));
        let kind = RecordKind::Put { created, expires, length };
        let record = Record { revision: modified, key: key.into(), kind };
        database::insert(&self.connection, &mut self.state.tally, &record, Some(body))
            .map_err(|error| database::load_error(directory, error))?;
        self.last = Some(modified);
        self.keys += 1;
        self.bytes += u64::from(length);
        Ok(())
    }

    fn finish(self, revision: Revision, first: Revision) -> Result<Imported, DatabaseError> {
        database::set_state(&self.connection, State { oldest: first, ..self.state })?;
        self.connection.execute_batch("COMMIT")?;
        self.connection.close().map_err(|(_, error)| error)?;
        let contents = Contents { revision, keys: self.keys, bytes: self.bytes };
        Ok(Imported { contents, skipped: self.skipped })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use bytes::Bytes;
    use windlass_server::storage::{Change, Expect, RangeQuery, Storage as _, StorageError};

    use super::*;
    use crate::{DiskStorage, etcd_snapshot};

    fn snapshot(directory: &Path) -> EtcdSnapshot {
        let file = directory.join("etcd.snapshot");
        fs::write(&file, etcd_snapshot::tests::real()).unwrap();
        EtcdSnapshot::open(&file).unwrap()
    }

    #[tokio::test]
    async fn values_of_etcd_are_imported() {
        let directory = tempfile::tempdir().unwrap();
        let snapshot = snapshot(directory.path());
        let target = directory.path().join("new");
        let imported = from_etcd(&snapshot, "/registry/", &target).unwrap();
        assert_eq!((imported.contents.keys, imported.skipped), (123, 1), "compact_rev_key is not under the prefix");
        assert_eq!(imported.contents.revision, Revision(132));

        let storage = DiskStorage::open(&target).unwrap();
        let range = storage.range(RangeQuery::default()).await.unwrap();
        let bytes: usize = range.values.iter().map(|value| value.body.len()).sum();
        assert_eq!((range.values.len(), bytes as u64), (123, imported.contents.bytes));
        let (_, value) = storage.get("/registry/configmaps/default/changed", None).await.unwrap();
        let value = value.unwrap();
        assert_eq!((&*value.body, value.created, value.modified), (&b"second"[..], Revision(3), Revision(5)));

        // Clients of the old cluster list again, and the next commit is later than all that they have seen.
        let watch = storage.watch("", snapshot.revision()).await.err();
        assert!(matches!(watch, Some(StorageError::Compacted { .. })), "{watch:?}");
        let expect = Expect::Unchanged(value.modified);
        let commit = storage.commit(&value.key, expect, Change::Put(Bytes::from_static(b"third"))).await.unwrap();
        assert_eq!(commit.revision, after(snapshot.revision()).unwrap().next());
        drop(storage);
        assert_eq!(DiskStorage::open(&target).unwrap().revision().await.unwrap(), commit.revision);
    }

    #[tokio::test]
    async fn lifetimes_of_etcd_begin_anew() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("new");
        let before = Now::read().millis;
        from_etcd(&snapshot(directory.path()), "/registry/events/", &target).unwrap();
        let database = database::Database::open(&target, 0).unwrap();
        let mut ends = Vec::new();
        database
            .records(|record| {
                if let RecordKind::Put { expires, .. } = record.kind {
                    ends.extend(expires);
                }
            })
            .unwrap();
        let hour = 3_600_000;
        assert!(matches!(ends[..], [end] if (before + hour..=Now::read().millis + hour).contains(&end)), "{ends:?}");
    }

    #[test]
    fn existing_storage_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("new");
        drop(DiskStorage::open(&target).unwrap());
        let error = from_etcd(&snapshot(directory.path()), "/registry/", &target).unwrap_err();
        assert!(matches!(error, SnapshotError::Occupied { .. }), "{error}");
    }

    #[test]
    fn keys_that_cannot_be_stored_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        let new = directory.path().join("database");
        fs::write(&new, "").unwrap();
        let mut import = Import::create(&new).unwrap();
        let mut add = |key: &str, modified| {
            let (created, modified) = (Revision(2), Revision(modified));
            let value =
                EtcdValue { key: &key.bytes().collect::<Vec<u8>>(), value: b"x", created, modified, lifetime: None };
            import.add(&value, "/", directory.path()).map_err(|error| error.to_string())
        };
        assert_eq!(add("/a", 2), Ok(()));
        let error = "cannot import the key /b of revision 2: another key was changed at the same revision";
        assert_eq!(add("/b", 2), Err(error.to_owned()));
        assert_eq!(add("/c", 3), Ok(()));
        let value =
            EtcdValue { key: b"/\xff", value: b"", created: Revision(4), modified: Revision(4), lifetime: None };
        let error = import.add(&value, "/", directory.path()).unwrap_err().to_string();
        assert_eq!(error, "cannot import the key /\\xff of revision 4: it is not UTF-8");
    }
}
