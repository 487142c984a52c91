use std::{
    error::Error as _,
    fs,
    future::{Ready, ready},
    path::Path,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, future::join_all};
use tokio::time;
use windlass_server::storage::{
    Change, CommitError, Expect, RangeQuery, Revision, Storage, StorageError, StorageEvent, next_event, suite::PATIENCE,
};

use super::{DiskStorage, OpenError, Options, Retention};

fn temporary(budget: u64) -> Ready<Arc<dyn Storage>> {
    ready(Arc::new(DiskStorage::temporary(Options { budget, ..Options::default() }).unwrap()))
}

mod with_bodies_in_memory {
    windlass_server::storage_suite!(|| super::temporary(1 << 20));
}

mod with_bodies_on_disk {
    windlass_server::storage_suite!(|| super::temporary(0));
}

fn put(body: &str) -> Change {
    Change::Put(Bytes::copy_from_slice(body.as_bytes()))
}

async fn create(storage: &DiskStorage, key: &str, body: &str) -> Revision {
    storage.commit(key, Expect::Absent, put(body)).await.unwrap().revision
}

async fn contents(storage: &DiskStorage) -> (Revision, Vec<(String, String, Revision, Revision)>) {
    let range = storage.range(RangeQuery::default()).await.unwrap();
    let values = range.values.iter().map(|value| {
        let body = String::from_utf8(value.body.to_vec()).unwrap();
        (value.key.to_string(), body, value.created, value.modified)
    });
    (range.revision, values.collect())
}

async fn events(storage: &DiskStorage, after: Revision, count: usize) -> Vec<StorageEvent> {
    let stream = storage.watch("", after).await.unwrap();
    let events = stream.take(count).filter_map(async |delivery| delivery.unwrap().into_event()).collect::<Vec<_>>();
    time::timeout(PATIENCE, events).await.unwrap()
}

/// Makes some commits of every kind, and returns the last revision.
async fn write_some(storage: &DiskStorage) -> Revision {
    let first = create(storage, "/a", "1").await;
    create(storage, "/b", "1").await;
    let second = storage.commit("/a", Expect::Unchanged(first), put("2")).await.unwrap().revision;
    let gone = create(storage, "/c", "1").await;
    storage.commit("/c", Expect::Unchanged(gone), Change::Delete).await.unwrap();
    create(storage, "/c", "again").await;
    storage.commit("/a", Expect::Unchanged(second), put("3")).await.unwrap().revision
}

#[tokio::test]
async fn restart_preserves_values_history_and_watches() {
    let directory = tempfile::tempdir().unwrap();
    let (before, history) = {
        let storage = DiskStorage::open(directory.path()).unwrap();
        let last = write_some(&storage).await;
        assert_eq!(last, Revision(8));
        (contents(&storage).await, events(&storage, Revision(1), 7).await)
    };
    let storage = DiskStorage::open(directory.path()).unwrap();
    assert_eq!(contents(&storage).await, before);
    assert_eq!(events(&storage, Revision(1), 7).await, history);
    let old = storage.get("/a", Some(Revision(3))).await.unwrap().1.unwrap();
    assert_eq!((&*old.body, old.modified), (&b"1"[..], Revision(2)));
    assert!(storage.is_known_to_be_empty("/d") && !storage.is_known_to_be_empty("/c"));
    assert_eq!(create(&storage, "/d", "1").await, Revision(9), "revisions continue");
}

#[tokio::test]
async fn restart_preserves_what_was_compacted() {
    let directory = tempfile::tempdir().unwrap();
    let before = {
        let storage = DiskStorage::open(directory.path()).unwrap();
        write_some(&storage).await;
        storage.compact(Revision(7)).await.unwrap();
        contents(&storage).await
    };
    let storage = DiskStorage::open(directory.path()).unwrap();
    assert_eq!(contents(&storage).await, before);
    assert!(matches!(storage.watch("", Revision(6)).await, Err(StorageError::Compacted { oldest: Revision(7) })));
    assert_eq!(events(&storage, Revision(7), 1).await[0].revision, Revision(8));
    assert_eq!(storage.shared.view.read().versions(), 4, "a at 7 and 8, b, c");
}

#[tokio::test]
async fn revision_survives_the_removal_of_all_records() {
    let directory = tempfile::tempdir().unwrap();
    {
        let storage = DiskStorage::open(directory.path()).unwrap();
        let created = create(&storage, "/a", "1").await;
        let deleted = storage.commit("/a", Expect::Unchanged(created), Change::Delete).await.unwrap().revision;
        storage.compact(deleted).await.unwrap();
        assert_eq!(storage.shared.view.read().versions(), 0);
    }
    let storage = DiskStorage::open(directory.path()).unwrap();
    assert_eq!(storage.revision().await.unwrap(), Revision(3));
    assert_eq!(create(&storage, "/a", "1").await, Revision(4));
}

#[tokio::test]
async fn directory_is_used_by_one_storage_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let storage = DiskStorage::open(directory.path()).unwrap();
    let second = DiskStorage::open(directory.path()).unwrap_err();
    let expected = format!("another process uses the directory {}", directory.path().display());
    assert_eq!(second.to_string(), expected);
    drop(storage);
    DiskStorage::open(directory.path()).unwrap();
}

#[tokio::test]
async fn history_beyond_its_limit_is_compacted() {
    let directory = tempfile::tempdir().unwrap();
    let retention = Retention { age: Duration::from_mins(5), commits: 10 };
    let storage = DiskStorage::open_with(directory.path(), Options { retention, ..Options::default() }).unwrap();
    let mut modified = create(&storage, "/a", "0").await;
    for number in 1..100 {
        modified = storage.commit("/a", Expect::Unchanged(modified), put(&number.to_string())).await.unwrap().revision;
    }
    assert_eq!(modified, Revision(101));
    assert!(matches!(storage.watch("", Revision(90)).await, Err(StorageError::Compacted { oldest: Revision(91) })));
    assert_eq!(events(&storage, Revision(91), 10).await.len(), 10);
    assert_eq!(storage.shared.view.read().versions(), 11);
}

#[tokio::test]
async fn replay_in_progress_is_not_affected_by_compaction() {
    let directory = tempfile::tempdir().unwrap();
    let storage = DiskStorage::open_with(directory.path(), Options { budget: 0, ..Options::default() }).unwrap();
    let mut modified = create(&storage, "/a", "0").await;
    for number in 1..1500 {
        modified = storage.commit("/a", Expect::Unchanged(modified), put(&number.to_string())).await.unwrap().revision;
    }
    let mut watch = storage.watch("", Revision(1)).await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().progress(), Revision(2));
    storage.compact(modified).await.unwrap();
    for revision in 3..=modified.0 {
        let event = time::timeout(PATIENCE, next_event(&mut watch)).await.unwrap().unwrap().unwrap();
        assert_eq!(event.revision, Revision(revision));
        assert_eq!(event.current.unwrap().body, (revision - 2).to_string());
    }
    drop(watch);
    storage.compact(modified).await.unwrap();
    assert_eq!(storage.shared.view.read().versions(), 1, "nothing is held any more");
}

#[tokio::test]
async fn page_of_a_compacted_revision_continues_its_list() {
    let directory = tempfile::tempdir().unwrap();
    let retention = Retention { age: Duration::from_mins(5), commits: 1 };
    let storage = DiskStorage::open_with(directory.path(), Options { retention, ..Options::default() }).unwrap();
    for key in ["/a", "/b", "/c"] {
        create(&storage, key, "old").await;
    }
    let first = storage.range(RangeQuery::default().limit(1)).await.unwrap();
    assert_eq!(first.remaining, 2);
    for (key, modified) in [("/b", 3), ("/c", 4)] {
        storage.commit(key, Expect::Unchanged(Revision(modified)), put("new")).await.unwrap();
    }
    let rest = storage.range(RangeQuery::default().start("/b").limit(5).at(first.revision)).await.unwrap();
    assert!(rest.values.iter().all(|value| value.body == "old"), "{rest:?}");
    assert_eq!(rest.values.len(), 2);
    assert!(storage.get("/a", Some(Revision(3))).await.is_err(), "other old revisions are compacted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_commits_are_written_together() {
    let directory = tempfile::tempdir().unwrap();
    let storage = Arc::new(DiskStorage::open(directory.path()).unwrap());
    let commits = (0..500).map(|number| {
        let storage = Arc::clone(&storage);
        tokio::spawn(async move { create(&storage, &format!("/{number:03}"), "1").await })
    });
    let mut revisions: Vec<u64> = join_all(commits).await.into_iter().map(|revision| revision.unwrap().0).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, (2..502).collect::<Vec<_>>());
    assert!(storage.shared.queue.batches() < 250, "{} batches", storage.shared.queue.batches());
}

/// Replaces the contents of each file, one at a time, and returns the names with what `open` says.
fn damaged(directory: &Path, damage: impl Fn(&mut Vec<u8>)) -> Vec<(String, Result<DiskStorage, OpenError>)> {
    let mut files = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.metadata().unwrap().is_dir() {
                left.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    let mut results = Vec::new();
    for file in files {
        let original = fs::read(&file).unwrap();
        let mut bytes = original.clone();
        damage(&mut bytes);
        if bytes == original {
            continue;
        }
        let copy = tempfile::tempdir().unwrap();
        copy_all(directory, copy.path());
        fs::write(copy.path().join(file.strip_prefix(directory).unwrap()), &bytes).unwrap();
        let opened = DiskStorage::open(copy.path());
        results.push((file.strip_prefix(directory).unwrap().display().to_string(), opened));
    }
    results
}

fn copy_all(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.metadata().unwrap().is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy_all(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Every value that can be read must be the one that was written.
#[tokio::test]
async fn damaged_file_is_reported_or_harmless() {
    const PLACES: usize = 48;
    let directory = tempfile::tempdir().unwrap();
    let before = {
        let storage = DiskStorage::open(directory.path()).unwrap();
        write_some(&storage).await;
        contents(&storage).await
    };
    let mut errors = 0;
    for place in 0..PLACES {
        // Most of a small database is empty, so only bytes in use are damaged.
        let flip = |bytes: &mut Vec<u8>| {
            let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
            if let Some(at) = used.get(used.len() * place / PLACES) {
                bytes[*at] ^= 1 << (place % 8);
            }
        };
        let cut = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() * place / PLACES);
        let all = damaged(directory.path(), flip).into_iter().chain(damaged(directory.path(), cut));
        for (file, opened) in all {
            match opened {
                Err(_) => errors += 1,
                Ok(storage) => match storage.range(RangeQuery::default()).await {
                    Err(StorageError::Unavailable(_)) => errors += 1,
                    Err(error) => panic!("{file}: {error}"),
                    Ok(_) => assert_eq!(contents(&storage).await, before, "{file}, place {place}"),
                },
            }
        }
    }
    assert!(errors > PLACES, "{errors} of the damages are noticed");
}

#[tokio::test]
async fn interrupted_creation_is_repeated() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("database.new"), "half a database").unwrap();
    fs::write(directory.path().join("acknowledged"), "").unwrap();
    let storage = DiskStorage::open(directory.path()).unwrap();
    assert_eq!(create(&storage, "/a", "1").await, Revision(2));
}

#[tokio::test]
async fn older_database_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("database");
    {
        let storage = DiskStorage::open(directory.path()).unwrap();
        create(&storage, "/a", "1").await;
    }
    let older = fs::read(&path).unwrap();
    {
        let storage = DiskStorage::open(directory.path()).unwrap();
        create(&storage, "/b", "1").await;
        create(&storage, "/c", "1").await;
    }
    fs::write(&path, older).unwrap();
    let error = DiskStorage::open(directory.path()).unwrap_err();
    assert!(matches!(error, OpenError::Missing { after: Revision(2), upto: Revision(4), .. }), "{error}");
    fs::remove_file(directory.path().join("acknowledged")).unwrap();
    let error = DiskStorage::open(directory.path()).unwrap_err();
    assert!(matches!(error, OpenError::Unacknowledged { .. }), "{error}");
}

#[tokio::test]
async fn database_is_rewritten_after_a_failed_write() {
    let directory = tempfile::tempdir().unwrap();
    let before = {
        let storage = DiskStorage::open(directory.path()).unwrap();
        write_some(&storage).await;
        contents(&storage).await
    };
    let inode = || std::os::unix::fs::MetadataExt::ino(&fs::metadata(directory.path().join("database")).unwrap());
    let old = inode();
    fs::write(directory.path().join("failed"), "").unwrap();
    let storage = DiskStorage::open(directory.path()).unwrap();
    assert_eq!(contents(&storage).await, before);
    assert_ne!(inode(), old);
    assert!(!directory.path().join("failed").exists());
}

#[tokio::test]
async fn full_disk_fails_commits_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let acknowledged = {
        let storage = DiskStorage::open(directory.path()).unwrap();
        create(&storage, "/first", "1").await;
        storage.shared.database.limit_growth(20);
        let body = "x".repeat(1000);
        let mut acknowledged = 1;
        let error = loop {
            match storage.commit(&format!("/{acknowledged}"), Expect::Absent, put(&body)).await {
                Ok(_) => acknowledged += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, CommitError::Storage(StorageError::Unavailable(_))), "{error}");
        assert!((10..100).contains(&acknowledged), "{acknowledged}");
        assert!(storage.check().await.is_err(), "the health check reports it");
        let values = storage.range(RangeQuery::default()).await.unwrap().values;
        assert_eq!(values.len(), acknowledged, "reads continue");
        let again = storage.commit("/first", Expect::Unchanged(Revision(2)), Change::Delete).await.unwrap_err();
        let reason = again.source().unwrap().to_string();
        assert!(reason.contains("must be opened again"), "{reason}");
        acknowledged
    };
    assert!(!directory.path().join("failed").exists(), "a full disk has no space for a copy");
    let storage = DiskStorage::open(directory.path()).unwrap();
    assert_eq!(contents(&storage).await.1.len(), acknowledged);
    create(&storage, "/last", "1").await;
}

#[tokio::test]
async fn commits_are_synced() {
    let directory = tempfile::tempdir().unwrap();
    let storage = DiskStorage::open(directory.path()).unwrap();
    const FULL: &str = "2";
    assert_eq!(storage.shared.database.setting("journal_mode"), "wal");
    assert_eq!(storage.shared.database.setting("synchronous"), FULL);
}

/// Without the lock, another program that opens the database removes its log when it closes it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn database_is_locked_while_it_is_open() {
    let directory = tempfile::tempdir().unwrap();
    let storage = DiskStorage::open(directory.path()).unwrap();
    create(&storage, "/a", "1").await;
    assert_eq!(contents(&storage).await.1.len(), 1);
    let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(directory.path().join("database")).unwrap());
    let (owner, file) = (format!(" {} ", std::process::id()), format!(":{inode} "));
    let locks = fs::read_to_string("/proc/locks").unwrap();
    let held = locks.lines().any(|line| line.contains("POSIX") && line.contains(&owner) && line.contains(&file));
    assert!(held, "{locks}");
}

#[tokio::test]
async fn values_expire_while_the_storage_is_idle_or_closed() {
    let directory = tempfile::tempdir().unwrap();
    let put_for = |lifetime| Change::PutFor("1".into(), lifetime);
    let storage = DiskStorage::open(directory.path()).unwrap();
    let first = storage.commit("/idle", Expect::Absent, put_for(Duration::from_millis(50))).await.unwrap().revision;
    let deleted = &events(&storage, first, 1).await[0];
    assert_eq!((&*deleted.key, &deleted.current), ("/idle", &None), "no other commit wakes the writer");
    storage.commit("/long", Expect::Absent, put_for(Duration::from_hours(1))).await.unwrap();
    let short = storage.commit("/closed", Expect::Absent, put_for(Duration::from_millis(50))).await.unwrap().revision;
    drop(storage);
    let storage = DiskStorage::open(directory.path()).unwrap();
    assert_eq!(events(&storage, short, 1).await[0].current, None);
    let left = contents(&storage).await.1;
    assert_eq!(left.iter().map(|(key, ..)| &**key).collect::<Vec<_>>(), ["/long"]);
}

#[tokio::test]
async fn slow_watch_does_not_keep_the_history_forever() {
    let directory = tempfile::tempdir().unwrap();
    let retention = Retention { age: Duration::from_mins(5), commits: 10 };
    let storage = DiskStorage::open_with(directory.path(), Options { retention, budget: 0 }).unwrap();
    let large = "x".repeat(600 << 10);
    let mut modified = create(&storage, "/a", &large).await;
    for _ in 0..6 {
        modified = storage.commit("/a", Expect::Unchanged(modified), put(&large)).await.unwrap().revision;
    }
    let mut slow = storage.watch("", Revision(1)).await.unwrap();
    assert_eq!(slow.next().await.unwrap().unwrap().progress(), Revision(2));
    for _ in 0..20 {
        modified = storage.commit("/a", Expect::Unchanged(modified), put("small")).await.unwrap().revision;
    }
    assert!(storage.shared.view.read().versions() > 20, "the watch holds the history");
    storage.shared.view.read().age_holds(Duration::from_mins(6));
    for _ in 0..2 {
        modified = storage.commit("/a", Expect::Unchanged(modified), put("small")).await.unwrap().revision;
    }
    assert!(storage.shared.view.read().versions() <= 11, "for some minutes");
    let end = loop {
        match slow.next().await.unwrap() {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(end, StorageError::Compacted { .. }), "{end}");
}

#[tokio::test]
async fn paged_list_does_not_hold_an_unlimited_history() {
    let directory = tempfile::tempdir().unwrap();
    let retention = Retention { age: Duration::from_mins(5), commits: 10 };
    let storage = DiskStorage::open_with(directory.path(), Options { retention, budget: 0 }).unwrap();
    create(&storage, "/a", "1").await;
    let mut modified = create(&storage, "/b", "1").await;
    let page = storage.range(RangeQuery::default().limit(1)).await.unwrap();
    let rest = || storage.range(RangeQuery::default().start("/b").at(page.revision));
    let mut write = async |count| {
        for _ in 0..count {
            modified = storage.commit("/b", Expect::Unchanged(modified), put("2")).await.unwrap().revision;
        }
    };
    write(25).await;
    assert_eq!(rest().await.unwrap().values[0].body, "1", "the revision is compacted, except for this list");
    write(10).await;
    assert!(matches!(rest().await, Err(StorageError::Compacted { .. })));
    assert!(storage.shared.view.read().versions() <= 12);
}

#[tokio::test]
async fn missing_database_is_an_error_unless_it_was_empty() {
    let directory = tempfile::tempdir().unwrap();
    let remove = || fs::remove_file(directory.path().join("database")).unwrap();
    drop(DiskStorage::open(directory.path()).unwrap());
    remove();
    let storage = DiskStorage::open(directory.path()).unwrap();
    create(&storage, "/a", "1").await;
    drop(storage);
    remove();
    let error = DiskStorage::open(directory.path()).unwrap_err();
    assert!(matches!(error, OpenError::Vanished { .. }), "{error}");
    assert!(!directory.path().join("database").exists(), "nothing is created");
}

#[tokio::test]
async fn interrupted_rewriting_is_finished() {
    let directory = tempfile::tempdir().unwrap();
    let before = {
        let storage = DiskStorage::open(directory.path()).unwrap();
        write_some(&storage).await;
        contents(&storage).await
    };
    fs::rename(directory.path().join("database"), directory.path().join("database.copy")).unwrap();
    fs::write(directory.path().join("database"), "the rest of a failing disk").unwrap();
    fs::write(directory.path().join("database-wal"), "its log").unwrap();
    let storage = DiskStorage::open(directory.path()).unwrap();
    assert_eq!(contents(&storage).await, before);
    assert!(!directory.path().join("database.copy").exists());
}
