//! Tests of paged lists whose revision is compacted in between.

use super::{
    super::pins::{AFTER_LAST_PAGE, BETWEEN_PAGES, LONGEST},
    *,
};

/// Retains history for paged lists only.
const FORGETFUL: Retention =
    Retention { age: Duration::MAX, events: 0, bytes: 0, percent_of_live: 0, pages: usize::MAX };

const KEYS: usize = 6;

async fn store(retention: Retention) -> MemoryStorage {
    let storage = MemoryStorage::with_retention(retention);
    for n in 0..KEYS {
        write(&storage, &format!("/a/{n}"), b"old", 1).await;
    }
    write(&storage, "/b/1", b"old", 1).await;
    storage
}

/// Replaces all values, and deletes some of them.
async fn churn(storage: &MemoryStorage) {
    for value in storage.range(RangeQuery::default()).await.unwrap().values {
        let modified =
            storage.commit(&value.key, Expect::Unchanged(value.modified), put(b"new")).await.unwrap().revision;
        storage.commit(&value.key, Expect::Unchanged(modified), Change::Delete).await.unwrap();
        if !value.key.ends_with('3') {
            write(storage, &value.key, b"newer", 2).await;
        }
    }
}

fn page(at: Revision, start: usize, limit: usize) -> RangeQuery {
    RangeQuery::prefix("/a/").start(format!("/a/{start}")).limit(limit).at(at)
}

fn is_compacted(answer: &Result<Range, StorageError>) -> bool {
    matches!(answer, Err(StorageError::Compacted { .. }))
}

#[tokio::test]
async fn page_can_be_continued_after_compaction() {
    let storage = store(FORGETFUL).await;
    let first = storage.range(RangeQuery::prefix("/a/").limit(2)).await.unwrap();
    assert_eq!(first.remaining, 4);
    churn(&storage).await;
    churn(&storage).await;
    let second = storage.range(page(first.revision, 2, 2)).await.unwrap();
    assert_eq!((second.revision, second.remaining), (first.revision, 2));
    churn(&storage).await;
    let last = storage.range(page(first.revision, 4, 2)).await.unwrap();
    let values: Vec<_> = [first.values, second.values, last.values].concat();
    assert!(values.iter().all(|value| value.body == "old" && value.modified <= first.revision));
    assert_eq!(
        values.iter().map(|value| &*value.key).collect::<Vec<_>>(),
        ["/a/0", "/a/1", "/a/2", "/a/3", "/a/4", "/a/5"]
    );
}

#[tokio::test]
async fn page_contains_only_keys_under_its_prefix() {
    let storage = store(FORGETFUL).await;
    let first = storage.range(RangeQuery::prefix("/a/").limit(2)).await.unwrap();
    churn(&storage).await;
    assert!(is_compacted(&storage.range(RangeQuery::prefix("/b/").at(first.revision)).await));
    assert!(is_compacted(&storage.range(RangeQuery::default().at(first.revision)).await));
    assert!(is_compacted(&storage.range(page(first.revision.next(), 2, 2)).await));
    assert!(storage.get("/a/0", Some(first.revision)).await.is_err());
    assert!(storage.watch("", first.revision).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn page_that_is_not_continued_expires() {
    let storage = store(FORGETFUL).await;
    let at = storage.range(RangeQuery::prefix("/a/").limit(2)).await.unwrap().revision;
    churn(&storage).await;
    time::advance(BETWEEN_PAGES.checked_sub(Duration::from_secs(1)).unwrap()).await;
    churn(&storage).await;
    storage.range(page(at, 2, 2)).await.unwrap();
    time::advance(BETWEEN_PAGES).await;
    let live = storage.range(RangeQuery::default()).await.unwrap().values.len();
    write(&storage, "/b/2", b"1", 1).await;
    assert!(is_compacted(&storage.range(page(at, 2, 2)).await));
    assert_eq!(versions(&storage), live + 1);
}

#[tokio::test(start_paused = true)]
async fn list_that_takes_too_long_expires() {
    let storage = store(FORGETFUL).await;
    let first = RangeQuery::prefix("/a/").limit(2);
    let at = storage.range(first.clone()).await.unwrap().revision;
    time::advance(Duration::from_mins(1)).await;
    // Another list of the same revision begins.
    assert_eq!(storage.range(first.clone()).await.unwrap().revision, at);
    let begun = time::Instant::now();
    churn(&storage).await;
    while begun.elapsed() < LONGEST {
        // Neither a page that is read again nor one that has no start is the begin of a list.
        for query in [page(at, 2, 2), first.clone().at(at)] {
            storage.range(query).await.unwrap();
        }
        time::advance(Duration::from_secs(20)).await;
        churn(&storage).await;
    }
    assert!(is_compacted(&storage.range(page(at, 2, 2)).await));
}

#[tokio::test(start_paused = true)]
async fn end_of_a_list_does_not_end_another_of_the_same_revision() {
    let storage = store(FORGETFUL).await;
    let at = storage.range(RangeQuery::prefix("/a/").limit(2)).await.unwrap().revision;
    churn(&storage).await;
    storage.range(page(at, 4, 10)).await.unwrap();
    storage.range(page(at, 2, 2)).await.unwrap();
    time::advance(2 * AFTER_LAST_PAGE).await;
    churn(&storage).await;
    storage.range(page(at, 4, 2)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn last_page_can_be_repeated_for_a_while() {
    let storage = store(FORGETFUL).await;
    let at = storage.range(RangeQuery::prefix("/a/").limit(2)).await.unwrap().revision;
    storage.range(page(at, 2, 10)).await.unwrap();
    churn(&storage).await;
    time::advance(AFTER_LAST_PAGE.checked_sub(Duration::from_secs(1)).unwrap()).await;
    storage.range(page(at, 2, 10)).await.unwrap();
    time::advance(Duration::from_secs(1)).await;
    write(&storage, "/b/2", b"1", 1).await;
    assert!(is_compacted(&storage.range(page(at, 2, 10)).await));
}

#[tokio::test]
async fn oldest_pages_are_evicted_above_the_byte_limit() {
    let storage = store(Retention { pages: 20, ..FORGETFUL }).await;
    let old = storage.range(RangeQuery::prefix("/a/").limit(2)).await.unwrap().revision;
    write(&storage, "/b/2", b"1", 1).await;
    let new = storage.range(RangeQuery::prefix("/b/").limit(1)).await.unwrap().revision;
    churn(&storage).await;
    // Six bodies of three bytes, and two more.
    assert!(is_compacted(&storage.range(page(old, 2, 2)).await));
    assert_eq!(storage.range(RangeQuery::prefix("/b/").at(new)).await.unwrap().values.len(), 2);
}

#[tokio::test]
async fn number_of_kept_pages_is_limited() {
    let storage = store(FORGETFUL).await;
    let mut at = Vec::new();
    for n in 0..300 {
        at.push(storage.range(RangeQuery::prefix("/a/").limit(2)).await.unwrap().revision);
        write(&storage, &format!("/c/{n}"), b"1", 1).await;
    }
    churn(&storage).await;
    assert!(is_compacted(&storage.range(page(at[0], 2, 2)).await));
    assert!(storage.range(page(at[299], 2, 2)).await.is_ok());
}

#[tokio::test]
async fn explicit_compaction_ends_lists_in_pages() {
    let storage = store(Retention::default()).await;
    let at = storage.range(RangeQuery::prefix("/a/").limit(2)).await.unwrap().revision;
    churn(&storage).await;
    let live = storage.range(RangeQuery::default()).await.unwrap();
    storage.compact(live.revision).await.unwrap();
    assert!(is_compacted(&storage.range(page(at, 2, 2)).await));
    assert_eq!(versions(&storage), live.values.len());
}

/// Each page shows the state of its revision during concurrent writes and compactions.
#[tokio::test(start_paused = true)]
async fn pages_under_random_churn_show_the_state_of_their_revision() {
    let storage = store(Retention { events: 3, ..FORGETFUL }).await;
    let entropy = windlass_api::Entropy::seeded(7);
    let below = |most: usize| usize::try_from(entropy.below(most as u64)).unwrap();
    let mut lists: Vec<Range> = Vec::new();
    for _ in 0..5_000 {
        let key = format!("/a/{}", below(8));
        match storage.get(&key, None).await.unwrap().1 {
            Some(value) => {
                let change = if below(3) == 0 { Change::Delete } else { put(b"again") };
                storage.commit(&key, Expect::Unchanged(value.modified), change).await.unwrap();
            }
            None => drop(write(&storage, &key, b"new", 1).await),
        }
        if below(20) == 0 {
            let whole = storage.range(RangeQuery::prefix("/a/")).await.unwrap();
            let paged = storage.range(RangeQuery::prefix("/a/").limit(1)).await.unwrap();
            if paged.remaining > 0 {
                lists.push(whole);
            }
        }
        if let Some(list) = lists.last() {
            let list = if below(2) == 0 { list } else { &lists[below(lists.len())] };
            let again = storage.range(RangeQuery::prefix("/a/").limit(100).at(list.revision)).await.unwrap();
            assert_eq!(again.values, list.values);
        }
        if lists.len() > 50 {
            lists.remove(0);
        }
    }
}
