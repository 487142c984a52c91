//! The database in the directory: the records and the bodies by revision, and a row that describes the records.
//!
//! The records of all commits are small, and are read completely at the start. The bodies are read one by one. A batch
//! of commits is one transaction that is on disk when [`Database::write`] returns.
//!
//! ```text
//! lock            held while the directory is open
//! database        the tables; SQLite adds database-wal and database-shm
//! database.new    a database that is being created or rewritten
//! database.copy   a complete copy that replaces the database
//! acknowledged    the revision of the last commit, see `acknowledged`
//! failed          exists after a failed write: what the database has in memory may not be on disk
//! ```

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, params};
use windlass_server::storage::Revision;

use super::{
    OpenError,
    acknowledged::{Acknowledged, Content},
    files::{create_directory, create_private, lock_directory, remove, remove_database, rename, sync, utf8},
    record::{self, Damaged, FORMAT, Record, State},
    tally::Tally,
};

/// `records` and `bodies` have the parts of the commits by revision; `state` has one row, which describes the records.
const SCHEMA: &str = "
    CREATE TABLE records (revision INTEGER PRIMARY KEY, record BLOB NOT NULL) STRICT;
    CREATE TABLE bodies (revision INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
    CREATE TABLE state (id INTEGER PRIMARY KEY, state BLOB NOT NULL) STRICT;
";

/// Changes the row of the table `state`.
const SET_STATE: &str = "INSERT OR REPLACE INTO state VALUES (0, ?1)";

/// A complete copy of the database that replaces it.
const COPY: &str = "database.copy";

/// The file with the revision of the last acknowledged commit.
const ACKNOWLEDGED: &str = "acknowledged";

/// Identifies the file, as SQLite provides for it.
const APPLICATION: i64 = 0x5749_4e44;

/// The revision of an empty database, as in etcd.
const FIRST: Revision = Revision(1);

/// The state of an empty database.
pub(super) const NEW: State = State { oldest: FIRST, tally: Tally { count: 0, sum: 0 } };

/// The number of threads that read at the same time, each with a connection.
pub(super) const READERS: usize = 8;

/// An open database. Only one process at a time can open it.
pub(super) struct Database {
    written: Mutex<Written>,
    /// Idle read-only connections.
    readers: Mutex<Vec<Connection>>,
    path: PathBuf,
    /// The memory for the pages of each connection, in KiB.
    cache: u64,
    /// The revision of the last commit that was acknowledged to a client before the start.
    acknowledged: Revision,
    failed: PathBuf,
    _lock: File,
}

/// The writing connection, and the state after its last batch.
struct Written {
    connection: Connection,
    state: State,
    acknowledged: Acknowledged,
}

/// The database failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum DatabaseError {
    #[error("the database failed")]
    Engine(#[from] rusqlite::Error),
    #[error("the record of revision {} is damaged", .0.0)]
    Damaged(Damaged),
    #[error("records are missing")]
    Missing,
    #[error("the state is damaged")]
    State,
    #[error("the revision of the last commit cannot be written")]
    Acknowledge(#[source] io::Error),
}

impl DatabaseError {
    /// Returns `true` if the disk is full.
    fn is_full(&self) -> bool {
        matches!(self, Self::Engine(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull))
    }
}

/// The changes of one transaction.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Commits in the order of their revisions, with the bodies of the puts.
    pub(super) commits: Vec<(Record, Option<Bytes>)>,
    /// Commits to remove.
    pub(super) garbage: Vec<Revision>,
    /// The oldest readable revision, if it has changed.
    pub(super) oldest: Option<Revision>,
}

impl Database {
    /// Opens or creates the database of a directory. `cache` is the memory for its pages in bytes.
    pub(super) fn open(directory: &Path, cache: u64) -> Result<Self, OpenError> {
        let failed = |source: io::Error| OpenError::Directory { directory: directory.to_owned(), source };
        let engine = |error: rusqlite::Error| load_error(directory, error.into());
        create_directory(directory).map_err(failed)?;
        let lock = lock_directory(directory)?;
        let path = path(directory);
        finish_rewriting(directory, &path).map_err(failed)?;
        if fs::exists(&path).map_err(failed)? {
            rewrite_after_failure(directory, &path)?;
        } else if acknowledged_revision(directory).is_some_and(|last| last > FIRST) {
            return Err(OpenError::Vanished { directory: directory.to_owned() });
        } else {
            create(directory, &path)?;
        }
        // Before SQLite opens the file: when a process closes a descriptor of a file, it loses its locks of that file,
        // those of SQLite included.
        prefetch(&path);
        let cache = cache >> 10;
        let connection = connect(&path, cache, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(engine)?;
        check_format(&connection, directory)?;
        let state = stored_state(&connection).map_err(|error| load_error(directory, error))?;
        let (file, acknowledged) = acknowledged(directory, state)?;
        Ok(Self {
            written: Mutex::new(Written { connection, state, acknowledged: file }),
            readers: Mutex::default(),
            path,
            cache: cache / READERS as u64,
            acknowledged,
            failed: directory.join("failed"),
            _lock: lock,
        })
    }

    /// Returns the oldest readable revision.
    pub(super) fn oldest(&self) -> Revision {
        self.written.lock().state.oldest
    }

    /// Returns the revision of the last commit that was acknowledged to a client before the start.
    pub(super) fn acknowledged(&self) -> Revision {
        self.acknowledged
    }

    /// Visits all records in the order of their revisions. Returns an error if any is damaged or missing.
    pub(super) fn records(&self, mut each: impl FnMut(Record)) -> Result<(), DatabaseError> {
        let written = self.written.lock();
        each_record(&written.connection, written.state.tally, |record| {
            each(record);
            Ok(())
        })
    }

    /// Returns the body of a commit. A missing one is damaged.
    pub(super) fn body(&self, revision: Revision) -> Result<Bytes, DatabaseError> {
        let idle = self.readers.lock().pop();
        let reader = match idle {
            Some(reader) => reader,
            None => connect(&self.path, self.cache, OpenFlags::SQLITE_OPEN_READ_ONLY)?,
        };
        let body: Option<Vec<u8>> = reader
            .prepare_cached("SELECT body FROM bodies WHERE revision = ?1")?
            .query_row([revision.0.cast_signed()], |row| row.get(0))
            .optional()?;
        let mut readers = self.readers.lock();
        if readers.len() < READERS {
            readers.push(reader);
        }
        drop(readers);
        let body = body.ok_or(DatabaseError::Damaged(Damaged(revision)))?;
        record::decode_body(revision, body.into()).map_err(DatabaseError::Damaged)
    }

    /// Writes a batch. When this returns, the batch is on disk completely. After an error, no further batch may be
    /// written, because it is unknown how much of this one is on disk.
    pub(super) fn write(&self, batch: &Batch) -> Result<(), DatabaseError> {
        if batch.commits.is_empty() && batch.garbage.is_empty() && batch.oldest.is_none() {
            return Ok(());
        }
        let mut written = self.written.lock();
        match written.commit(batch) {
            Ok(state) => written.state = state,
            Err(error) => {
                // On a full disk, SQLite has lost nothing, and there would be no space for a copy.
                if !error.is_full() {
                    // A best effort: the disk may be failing.
                    let _ = File::create(&self.failed).and_then(|file| file.sync_all());
                }
                return Err(error);
            }
        }
        if let Some((last, _)) = batch.commits.last() {
            written.acknowledged.write(last.revision).map_err(DatabaseError::Acknowledge)?;
        }
        Ok(())
    }
}

#[cfg(test)]
impl Database {
    /// Returns a setting of the writing connection.
    pub(super) fn setting(&self, name: &str) -> String {
        let read = |row: &rusqlite::Row<'_>| {
            row.get_ref(0)?
                .as_str()
                .map(str::to_owned)
                .or_else(|_| row.get::<_, i64>(0).map(|number| number.to_string()))
        };
        self.written.lock().connection.pragma_query_value(None, name, read).unwrap()
    }

    /// Lets the database grow by a number of pages only, like a disk that is almost full.
    pub(super) fn limit_growth(&self, pages: i64) {
        let connection = &self.written.lock().connection;
        let count: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        connection.pragma_update(None, "max_page_count", count + pages).unwrap();
    }
}

impl Written {
    /// Commits a batch, and returns the state after it.
    fn commit(&mut self, batch: &Batch) -> Result<State, DatabaseError> {
        let mut state = self.state;
        state.oldest = batch.oldest.unwrap_or(state.oldest);
        let transaction = self.connection.transaction()?;
        {
            for (record, body) in &batch.commits {
                insert(&transaction, &mut state.tally, record, body.as_deref())?;
            }
            let mut remove_record =
                transaction.prepare_cached("DELETE FROM records WHERE revision = ?1 RETURNING record")?;
            let mut remove_body = transaction.prepare_cached("DELETE FROM bodies WHERE revision = ?1")?;
            for revision in &batch.garbage {
                let number = revision.0.cast_signed();
                let removed: Option<Vec<u8>> = remove_record.query_row([number], |row| row.get(0)).optional()?;
                state.tally.remove(*revision, &removed.ok_or(DatabaseError::Damaged(Damaged(*revision)))?);
                remove_body.execute([number])?;
            }
            set_state(&transaction, state)?;
        }
        transaction.commit()?;
        Ok(state)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Only a power failure could lose this, and an older revision is harmless.
        let _ = self.written.get_mut().acknowledged.flush();
    }
}

/// Returns the path of the database in a directory.
pub(super) fn path(directory: &Path) -> PathBuf {
    directory.join("database")
}

/// Inserts a commit, and adds it to the tally.
pub(super) fn insert(
    connection: &Connection,
    tally: &mut Tally,
    record: &Record,
    body: Option<&[u8]>,
) -> Result<(), DatabaseError> {
    let bytes = record.encode();
    tally.add(record.revision, &bytes);
    let revision = record.revision.0.cast_signed();
    connection.prepare_cached("INSERT INTO records VALUES (?1, ?2)")?.execute(params![revision, bytes])?;
    if let Some(body) = body {
        let body = record::encode_body(record.revision, body);
        connection.prepare_cached("INSERT INTO bodies VALUES (?1, ?2)")?.execute(params![revision, body])?;
    }
    Ok(())
}

/// Sets the state of the records.
pub(super) fn set_state(connection: &Connection, state: State) -> Result<(), DatabaseError> {
    connection.prepare_cached(SET_STATE)?.execute([state.encode()])?;
    Ok(())
}

/// Visits all records in the order of their revisions. Returns an error if any is damaged, or if they differ from the
/// tally.
pub(super) fn each_record(
    connection: &Connection,
    expected: Tally,
    mut each: impl FnMut(Record) -> Result<(), DatabaseError>,
) -> Result<(), DatabaseError> {
    let mut tally = Tally::default();
    let mut statement = connection.prepare("SELECT revision, record FROM records ORDER BY revision")?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let revision = Revision(row.get::<_, i64>(0)?.cast_unsigned());
        let bytes = row.get_ref(1)?.as_blob().map_err(|_| DatabaseError::Damaged(Damaged(revision)))?;
        tally.add(revision, bytes);
        each(Record::decode(revision, bytes).map_err(DatabaseError::Damaged)?)?;
    }
    if tally == expected { Ok(()) } else { Err(DatabaseError::Missing) }
}

/// Returns the state of the records.
pub(super) fn stored_state(connection: &Connection) -> Result<State, DatabaseError> {
    let state: Option<Vec<u8>> =
        connection.query_row("SELECT state FROM state WHERE id = 0", (), |row| row.get(0)).optional()?;
    state.and_then(|state| State::decode(&state)).ok_or(DatabaseError::State)
}

/// Compacts a closed database up to a revision after its last commit, with which it continues.
pub(super) fn continue_at(path: &Path, revision: Revision) -> Result<(), DatabaseError> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let state = State { oldest: revision, ..stored_state(&connection)? };
    set_state(&connection, state)?;
    connection.close().map_err(|(_, error)| error.into())
}

/// Makes a closed database one file that can be read where nothing can be written.
pub(super) fn without_journal(path: &Path) -> Result<(), rusqlite::Error> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "journal_mode", "DELETE")?;
    connection.close().map_err(|(_, error)| error)
}

/// Opens an existing database. `cache` is in KiB.
fn connect(path: &Path, cache: u64, mode: OpenFlags) -> Result<Connection, rusqlite::Error> {
    // The pool hands each connection to one thread at a time, so SQLite need not lock it.
    let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    let cache = i64::try_from(cache).unwrap_or(i64::MAX);
    connection.pragma_update(None, "cache_size", -cache.max(1))?;
    connection.pragma_update(None, "cell_size_check", true)?;
    if mode.contains(OpenFlags::SQLITE_OPEN_READ_WRITE) {
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // Each commit is synced.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "journal_size_limit", JOURNAL)?;
    }
    Ok(connection)
}

/// The size to which the write-ahead log is cut after a checkpoint.
const JOURNAL: i64 = 16 << 20;

/// Reads the file once in order, so that it is in the page cache. The pages of the records are scattered between those
/// of the bodies, and a disk reads them one by one many times slower than the whole file.
fn prefetch(path: &Path) {
    let read = File::open(path).and_then(|file| io::copy(&mut file.take(PREFETCHED), &mut io::sink()));
    if let Err(error) = read {
        // Only the start is slower. A disk that cannot be read fails the reads that matter, too.
        tracing::debug!(%error, "cannot prefetch the database");
    }
}

/// The size of the part of a database that is prefetched. More may not fit into the page cache.
const PREFETCHED: u64 = 4 << 30;

pub(super) fn check_format(connection: &Connection, directory: &Path) -> Result<(), OpenError> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let read = || -> Result<_, rusqlite::Error> { Ok((pragma("application_id")?, pragma("user_version")?)) };
    let (application, format) = read().map_err(|error| load_error(directory, error.into()))?;
    if (application, format) == (APPLICATION, i64::from(FORMAT)) {
        return Ok(());
    }
    let found = (application == APPLICATION).then(|| u32::try_from(format).unwrap_or(u32::MAX));
    Err(OpenError::Format { directory: directory.to_owned(), found, supported: FORMAT })
}

/// Returns the revision of the last commit that was acknowledged to a client, if it is known.
pub(super) fn acknowledged_revision(directory: &Path) -> Option<Revision> {
    Acknowledged::last(&directory.join(ACKNOWLEDGED))
}

/// Writes the revision of the last acknowledged commit of a closed storage.
pub(super) fn write_acknowledged(directory: &Path, revision: Revision) -> io::Result<()> {
    let (mut file, _) = Acknowledged::open(&directory.join(ACKNOWLEDGED))?;
    // Both slots: the other one may have a later revision.
    file.write(revision)?;
    file.write(revision)?;
    file.flush()
}

/// Opens the file of the acknowledged revision. Creates it only for a database without commits.
fn acknowledged(directory: &Path, state: State) -> Result<(Acknowledged, Revision), OpenError> {
    let failed = |source: io::Error| OpenError::Directory { directory: directory.to_owned(), source };
    let path = directory.join(ACKNOWLEDGED);
    let (mut file, content) = Acknowledged::open(&path).map_err(failed)?;
    match content {
        Content::Revision(revision) => Ok((file, revision)),
        Content::New | Content::Unknown if state == NEW => {
            file.write(FIRST).and_then(|()| file.flush()).map_err(failed)?;
            sync(directory).map_err(failed)?;
            Ok((file, FIRST))
        }
        Content::New | Content::Unknown => Err(OpenError::Unacknowledged { path }),
    }
}

/// Creates an empty database. It has its name only when it is complete, so an interrupted creation is repeated.
fn create(directory: &Path, path: &Path) -> Result<(), OpenError> {
    let failed = |source: io::Error| OpenError::Directory { directory: directory.to_owned(), source };
    let new = directory.join("database.new");
    remove_database(&new).map_err(failed)?;
    // A log that is left of a removed database does not belong to the new one.
    remove_database(path).map_err(failed)?;
    create_private(&new).map_err(failed)?;
    let created = || -> Result<(), DatabaseError> { Ok(create_tables(&new)?.close().map_err(|(_, error)| error)?) };
    created().map_err(|error| load_error(directory, error))?;
    rename(directory, &new, path).map_err(failed)
}

/// Makes an existing empty file an empty database.
pub(super) fn create_tables(path: &Path) -> Result<Connection, DatabaseError> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "application_id", APPLICATION)?;
    connection.pragma_update(None, "user_version", FORMAT)?;
    connection.execute_batch(SCHEMA)?;
    set_state(&connection, NEW)?;
    Ok(connection)
}

/// Writes the whole database again if the last write failed: a system may have marked pages as written that never
/// reached the disk, so later syncs would not write them.
fn rewrite_after_failure(directory: &Path, path: &Path) -> Result<(), OpenError> {
    let failed = |source: io::Error| OpenError::Directory { directory: directory.to_owned(), source };
    let marker = directory.join("failed");
    if !fs::exists(&marker).map_err(failed)? {
        return Ok(());
    }
    let new = directory.join("database.new");
    remove_database(&new).map_err(failed)?;
    create_private(&new).map_err(failed)?;
    let name = utf8(&new).map_err(failed)?;
    let copied = || -> Result<(), rusqlite::Error> {
        let connection = Connection::open(path)?;
        connection.execute("VACUUM INTO ?1", [name])?;
        connection.close().map_err(|(_, error)| error)
    };
    copied().map_err(|error| load_error(directory, error.into()))?;
    rename(directory, &new, &directory.join(COPY)).map_err(failed)?;
    finish_rewriting(directory, path).and_then(|()| remove(&marker)).map_err(failed)
}

/// Replaces the database with its complete copy, if there is one. The log of the database is of no use to the copy.
fn finish_rewriting(directory: &Path, path: &Path) -> io::Result<()> {
    let copy = directory.join(COPY);
    if !fs::exists(&copy)? {
        return Ok(());
    }
    remove_database(path)?;
    sync(directory)?;
    rename(directory, &copy, path)
}

/// Removes all files of a directory.
pub(super) fn remove_all(directory: &Path) -> Result<(), OpenError> {
    let failed = |source: io::Error| OpenError::Directory { directory: directory.to_owned(), source };
    if !fs::exists(directory).map_err(failed)? {
        return Ok(());
    }
    let _lock = lock_directory(directory)?;
    for name in ["database", "database.new", COPY] {
        remove_database(&directory.join(name)).map_err(failed)?;
    }
    remove(&directory.join("failed")).and_then(|()| remove(&directory.join(ACKNOWLEDGED))).map_err(failed)
}

/// The error of a damaged database at the start.
pub(super) fn load_error(directory: &Path, error: DatabaseError) -> OpenError {
    let directory: PathBuf = directory.to_owned();
    match error {
        DatabaseError::Damaged(Damaged(revision)) => OpenError::Damaged { directory, revision },
        DatabaseError::Missing | DatabaseError::State => OpenError::Incomplete { directory },
        DatabaseError::Acknowledge(source) => OpenError::Directory { directory, source },
        DatabaseError::Engine(error) => OpenError::Database { directory, source: Box::new(error) },
    }
}
