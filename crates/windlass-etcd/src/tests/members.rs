//! A cluster of three members whose members are killed and paused.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicUsize, Ordering},
};

use tokio::{sync::watch, task::JoinHandle};

use super::*;

const COMMITS: usize = 20;

/// The fate of the commits of a writer. Each commit of the writer has another body.
#[derive(Debug, Default)]
struct Fates {
    acknowledged: BTreeMap<String, Revision>,
    /// They may have been executed.
    unknown: BTreeSet<String>,
    /// Conflicts with the writer's own commit, which would be one that was sent twice.
    own_conflicts: Vec<String>,
}

/// Updates a key of its own, again and again until the end.
fn writer(
    storage: EtcdStorage,
    name: &'static str,
    acknowledged: Arc<AtomicUsize>,
    end: watch::Receiver<bool>,
) -> JoinHandle<Fates> {
    tokio::spawn(async move {
        let (key, mut fates, mut expect) = (format!("/registry/{name}"), Fates::default(), Expect::Absent);
        for number in 0.. {
            if *end.borrow() {
                break;
            }
            let body = format!("{name}-{number}");
            match storage.commit(&key, expect, put(&body)).await {
                Ok(committed) => {
                    fates.acknowledged.insert(body, committed.revision);
                    expect = Expect::Unchanged(committed.revision);
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
                Err(CommitError::Conflict { current }) => {
                    let current = current.expect("the key exists");
                    if current.body == body {
                        fates.own_conflicts.push(body);
                    }
                    expect = Expect::Unchanged(current.modified);
                }
                Err(CommitError::Storage(_)) => drop(fates.unknown.insert(body)),
            }
            time::sleep(Duration::from_millis(2)).await;
        }
        fates
    })
}

/// Collects the events until one has this body.
fn reader(mut events: EventStream, last: &'static str) -> JoinHandle<Vec<(Revision, String)>> {
    tokio::spawn(async move {
        let mut seen = Vec::new();
        loop {
            let event = next_event(&mut events).await.expect("the watch continues").unwrap();
            let body = text(&event).to_owned();
            seen.push((event.revision, body.clone()));
            if body == last {
                return seen;
            }
        }
    })
}

/// Writes and watches during a disturbance, and then checks that no event is missing or repeated, and that each commit
/// has the fate that its writer saw.
async fn check(members: &mut [Etcd; 3], order: [usize; 3], disturbance: impl AsyncFnOnce(&mut [Etcd; 3])) {
    let storage = etcd::connect_to(&order.map(|member| &members[member])).await;
    let last = etcd::connect_to(&[order[2], order[1]].map(|member| &members[member])).await;
    let start = storage.revision().await.unwrap();
    let readers = [
        reader(storage.watch("", start).await.unwrap(), "end"),
        reader(storage.watch("/registry/", start).await.unwrap(), "end"),
    ];
    let (end, ended) = watch::channel(false);
    let counts = [(); 2].map(|()| Arc::<AtomicUsize>::default());
    let writers = [("first", &counts[0]), ("second", &counts[1])];
    let writers = writers.map(|(name, count)| writer(storage.clone(), name, Arc::clone(count), ended.clone()));
    // Each writer makes this many commits before and after the disturbance.
    let progress = async || {
        let targets = counts.each_ref().map(|count| count.load(Ordering::SeqCst) + COMMITS);
        let is_reached = || counts.iter().zip(targets).all(|(count, target)| count.load(Ordering::SeqCst) >= target);
        until(async || is_reached().then_some(())).await;
    };
    progress().await;
    disturbance(members).await;
    progress().await;
    end.send_replace(true);
    let mut fates = Vec::new();
    for writer in writers {
        fates.push(within(writer).await.unwrap());
    }
    // Once, by another member, so that it has no unknown fate.
    until(async || last.commit("/registry/last", Expect::Absent, put("end")).await.ok()).await;
    let [one, two] = readers;
    let (seen, also) = (within(one).await.unwrap(), within(two).await.unwrap());
    assert_eq!(seen, also);
    let other = etcd::connect_to(&[&members[order[2]]]).await;
    let mut history = other.watch("", start).await.unwrap();
    for expected in &seen {
        let event = event(&mut history).await;
        assert_eq!((event.revision, text(&event).to_owned()), *expected, "the history of another member");
    }
    let executed: BTreeMap<&str, Revision> = seen.iter().map(|(revision, body)| (&**body, *revision)).collect();
    assert_eq!(executed.len(), seen.len(), "no commit was executed twice");
    for fates in &fates {
        assert!(fates.acknowledged.len() >= 2 * COMMITS);
        assert!(fates.own_conflicts.is_empty(), "a commit was sent twice: {:?}", fates.own_conflicts);
        for (body, revision) in &fates.acknowledged {
            assert_eq!(executed.get(&**body), Some(revision), "{body}");
        }
    }
    let known: usize = fates.iter().map(|fates| fates.acknowledged.len() + fates.unknown.len()).sum();
    assert!(seen.len() <= known + 1);
}

async fn cluster() -> ([Etcd; 3], usize) {
    let members = Etcd::cluster();
    let leader = etcd::leader(&members).await;
    (members, leader)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn watch_continues_when_its_member_is_killed() {
    let (mut members, leader) = cluster().await;
    let follower = (leader + 1) % 3;
    check(&mut members, [follower, leader, (leader + 2) % 3], async |members| {
        members[follower].kill();
        time::sleep(Duration::from_secs(1)).await;
        members[follower].restart();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn watch_continues_when_the_leader_is_killed() {
    let (mut members, leader) = cluster().await;
    check(&mut members, [leader, (leader + 1) % 3, (leader + 2) % 3], async |members| {
        members[leader].kill();
        time::sleep(Duration::from_secs(4)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn watch_continues_when_the_leader_is_paused() {
    let (mut members, leader) = cluster().await;
    check(&mut members, [leader, (leader + 1) % 3, (leader + 2) % 3], async |members| {
        members[leader].pause();
        // Longer than an operation may take, so that the writers leave the member.
        time::sleep(Duration::from_secs(14)).await;
        members[leader].resume();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn requests_and_watches_leave_a_paused_member() {
    let (members, leader) = cluster().await;
    let follower = (leader + 1) % 3;
    let storage = etcd::connect_to(&[follower, leader].map(|member| &members[member])).await;
    let start = create(&storage, "/registry/a", "1").await;
    let mut events = storage.watch("", start).await.unwrap();
    members[follower].pause();
    let began = time::Instant::now();
    // The connection stays open, so only the missing answer shows that the member is paused.
    assert_eq!(storage.revision().await.unwrap(), start);
    let revision = update(&storage, "/registry/a", start, "2").await.unwrap().revision;
    assert_eq!(event(&mut events).await.revision, revision);
    assert!(began.elapsed() < Duration::from_secs(15), "before the timeout of the connection: {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn follower_serves_while_the_leader_is_paused() {
    let (mut members, leader) = cluster().await;
    check(&mut members, [(leader + 1) % 3, (leader + 2) % 3, leader], async |members| {
        members[leader].pause();
        time::sleep(Duration::from_secs(4)).await;
        members[leader].resume();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn member_without_a_majority_is_left() {
    let (members, leader) = cluster().await;
    let [first, second] = [(leader + 1) % 3, (leader + 2) % 3];
    let storage = etcd::connect_to(&[&members[first], &members[second], &members[leader]]).await;
    let start = create(&storage, "/registry/a", "1").await;
    let mut events = storage.watch("", start).await.unwrap();
    // The first member has no leader any more.
    members[leader].pause();
    members[second].pause();
    until(async || storage.check().await.err()).await;
    members[first].pause();
    members[leader].resume();
    members[second].resume();
    let revision = until(async || match update(&storage, "/registry/a", start, "2").await {
        Ok(committed) => Some(committed.revision),
        // An earlier attempt, whose result was unknown, was executed.
        Err(CommitError::Conflict { current: Some(current) }) if &*current.body == b"2" => Some(current.modified),
        Err(_) => None,
    });
    let revision = revision.await;
    assert_eq!(event(&mut events).await.revision, revision);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn watch_that_resumes_in_compacted_history_ends_with_an_error() {
    let mut etcd = Etcd::start();
    let storage = etcd::connect_to(&[&etcd]).await;
    let mut modified = create(&storage, "/registry/a", "1").await;
    let mut events = storage.watch("", modified).await.unwrap();
    etcd.kill();
    etcd.restart();
    modified = until(async || update(&storage, "/registry/a", modified, "2").await.ok()).await.revision;
    assert_eq!(event(&mut events).await.revision, modified, "a restart keeps the history");
    // The storage cannot reach etcd, while another client compacts the history.
    etcd.kill();
    let place = etcd.client_port();
    etcd.restart_elsewhere();
    let other = etcd::connect_to(&[&etcd]).await;
    for body in ["3", "4"] {
        modified = update(&other, "/registry/a", modified, body).await.unwrap().revision;
    }
    other.compact(modified).await.unwrap();
    etcd.kill();
    etcd.restart_at(place);
    let error = within(next_event(&mut events)).await.unwrap().unwrap_err();
    assert!(matches!(error, StorageError::Compacted { oldest } if oldest == modified), "{error}");
    assert!(within(events.next()).await.is_none());
}
