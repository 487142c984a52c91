use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use futures::future::{BoxFuture, FutureExt as _};

use super::*;
use crate::storage::{Range, RangeQuery, StorageError, StoredValue, suite};

/// A storage that counts the pods that are read.
#[derive(Debug, Default)]
struct Counting {
    storage: Arc<MemoryStorage>,
    pods: AtomicUsize,
}

impl suite::Forward for Counting {
    fn below(&self) -> &dyn Storage {
        &*self.storage
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        at: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Revision, Option<StoredValue>), StorageError>> {
        self.pods.fetch_add(usize::from(key.starts_with("/registry/pods/")), SeqCst);
        self.storage.get(key, at)
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<Range, StorageError>> {
        async move {
            let is_of_pods = query.prefix.starts_with("/registry/pods/");
            let range = self.storage.range(query).await?;
            if is_of_pods {
                self.pods.fetch_add(range.values.len(), SeqCst);
            }
            Ok(range)
        }
        .boxed()
    }
}

const NODES: usize = 10;
const PODS_PER_NODE: usize = 6;

async fn counted() -> (Fixture, Arc<Counting>) {
    let counting = Arc::new(Counting::default());
    let storage = Arc::clone(&counting.storage);
    (Fixture::behind(counting.clone(), storage, RegistryOptions::default()).await, counting)
}

/// Creates pods on the nodes `n0` to `n9`.
async fn create_pods(f: &Fixture) {
    for number in 0..NODES * PODS_PER_NODE {
        f.create("pods", pod_on(&format!("p{number:02}"), &format!("n{}", number % NODES))).await.unwrap();
    }
}

fn pod_on(name: &str, node: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = node.into();
    pod
}

fn selecting(fields: &str) -> ListParams {
    ListParams { fields: Some(fields.to_owned()), ..ListParams::default() }
}

fn watching(fields: &str, revision: Revision) -> WatchParams {
    let (fields, resource_version) = (Some(fields.to_owned()), Some(revision.0.to_string()));
    WatchParams { fields, resource_version, ..WatchParams::default() }
}

async fn bind(f: &Fixture, name: &str, node: &str) {
    let target = f.object("pods", name).subresource("binding");
    let binding = json!({"metadata": {"name": name}, "target": {"name": node}});
    f.registry.create(&target, Body::Value(binding), WriteParams::default()).await.unwrap();
}

async fn delete_now(f: &Fixture, name: &str) {
    let now = DeleteParams { grace_period: Some(0), ..DeleteParams::default() };
    f.delete("pods", name, now).await.unwrap();
}

#[tokio::test]
async fn list_by_node_reads_only_the_pods_of_the_node() {
    let (f, counting) = counted().await;
    create_pods(&f).await;
    let read = async |params| {
        let before = counting.pods.load(SeqCst);
        let list = f.list("pods", params).await.unwrap();
        (names(&list.items), counting.pods.load(SeqCst) - before)
    };
    // The first list builds the index.
    assert_eq!(read(selecting("spec.nodeName=n9")).await.0, ["p09", "p19", "p29", "p39", "p49", "p59"]);
    let (found, looked_at) = read(selecting("spec.nodeName=n3")).await;
    assert_eq!((found, looked_at), (["p03", "p13", "p23", "p33", "p43", "p53"].map(str::to_owned).to_vec(), 6));
    assert_eq!(read(selecting("spec.nodeName=none")).await, (Vec::new(), 0));
    assert_eq!(read(selecting("spec.nodeName=n3,metadata.name!=p13")).await.1, 6);
    let labels = Some("app in (p13, p14)".to_owned());
    assert_eq!(
        read(ListParams { labels, ..selecting("spec.nodeName=n3,status.phase=Pending") }).await,
        (vec!["p13".to_owned()], 6)
    );
    let recent = Some("1".to_owned());
    assert_eq!(read(ListParams { resource_version: recent, ..selecting("spec.nodeName=n3") }).await.1, 6);
    assert_eq!(read(ListParams { limit: 500, ..selecting("spec.nodeName=n3") }).await.1, 6);
    assert_eq!(read(selecting("spec.nodeName!=n3")).await.1, 60, "an index does not help here");
}

#[tokio::test]
async fn list_by_node_follows_writes() {
    let (f, _) = counted().await;
    create_pods(&f).await;
    let on =
        async |node: &str| names(&f.list("pods", selecting(&format!("spec.nodeName={node}"))).await.unwrap().items);
    assert_eq!(on("n1").await.len(), PODS_PER_NODE);
    f.create("pods", pod("new")).await.unwrap();
    bind(&f, "new", "n1").await;
    assert_eq!(on("n1").await.len(), PODS_PER_NODE + 1);
    assert!(!on("").await.contains(&"new".to_owned()));
    delete_now(&f, "p01").await;
    assert_eq!(on("n1").await, ["new", "p11", "p21", "p31", "p41", "p51"]);
    f.create("pods", pod_on("p01", "n2")).await.unwrap();
    assert!(on("n2").await.contains(&"p01".to_owned()) && !on("n1").await.contains(&"p01".to_owned()));
    f.create("pods", pod("other")).await.unwrap();
    assert_eq!(on("").await, ["other"], "pods without a node are found, too");
}

#[tokio::test]
async fn pages_of_a_list_by_node_are_complete() {
    let (f, _) = counted().await;
    create_pods(&f).await;
    f.list("pods", selecting("spec.nodeName=n3")).await.unwrap();
    let mut params = ListParams { limit: 4, ..selecting("spec.nodeName=n3") };
    let first = f.list("pods", params.clone()).await.unwrap();
    assert_eq!(names(&first.items), ["p03", "p13", "p23", "p33"]);
    assert_eq!(first.scope.map(|scope| scope.count), Some(60));
    delete_now(&f, "p43").await;
    params.continue_token = first.continue_token;
    let second = f.list("pods", params).await.unwrap();
    assert_eq!((names(&second.items), second.revision), (vec!["p43".to_owned(), "p53".to_owned()], first.revision));
    let whole = f.list("pods", selecting("spec.nodeName=n3")).await.unwrap();
    assert_eq!((whole.items.len(), whole.scope), (5, None), "the index does not count all pods");
}

#[tokio::test]
async fn initial_events_of_a_node_read_only_its_pods() {
    let (f, counting) = counted().await;
    create_pods(&f).await;
    f.list("pods", selecting("spec.nodeName=n3")).await.unwrap();
    let before = counting.pods.load(SeqCst);
    let params = WatchParams {
        fields: Some("spec.nodeName=n3".to_owned()),
        send_initial_events: Some(true),
        version_match: Some("NotOlderThan".to_owned()),
        bookmarks: true,
        ..WatchParams::default()
    };
    let mut session = f.watch("pods", params).await;
    assert_eq!(counting.pods.load(SeqCst) - before, PODS_PER_NODE);
    f.create("pods", pod_on("new", "n3")).await.unwrap();
    let mut events = Vec::new();
    while events.len() < PODS_PER_NODE + 2 {
        events.push(match session.next().await.unwrap() {
            WatchItem::Event(event) => event.item.encoded.meta().unwrap().name().to_string(),
            WatchItem::Bookmark { initial_end, .. } => format!("{initial_end}"),
            WatchItem::Error(status) => panic!("{status:?}"),
        });
    }
    assert_eq!(events, ["p03", "p13", "p23", "p33", "p43", "p53", "true", "new"]);
}

#[tokio::test(start_paused = true)]
async fn event_reaches_only_the_watches_of_its_old_and_new_node() {
    let (f, _) = counted().await;
    let start = f.storage.revision().await.unwrap();
    let mut sessions = Vec::new();
    for node in ["", "n1", "n2"] {
        sessions.push(f.watch("pods", watching(&format!("spec.nodeName={node}"), start)).await);
    }
    let [unbound, first, second] = &mut sessions[..] else { unreachable!() };
    let kind = async |session: &mut WatchSession| match session.next().await {
        Some(WatchItem::Event(event)) => event.kind,
        other => panic!("{other:?}"),
    };
    f.create("pods", pod("p")).await.unwrap();
    // The session has received an event only if it is ready, selected or not.
    assert!(!first.is_event_ready() && !second.is_event_ready());
    assert_eq!(kind(unbound).await, EventType::Added);
    bind(&f, "p", "n1").await;
    assert!(!second.is_event_ready());
    assert_eq!((kind(unbound).await, kind(first).await), (EventType::Deleted, EventType::Added));
    f.merge(&f.object("pods", "p"), json!({"metadata": {"labels": {"a": "b"}}})).await.unwrap();
    assert!(!unbound.is_event_ready() && !second.is_event_ready());
    assert_eq!(kind(first).await, EventType::Modified);
    delete_now(&f, "p").await;
    assert!(!unbound.is_event_ready() && !second.is_event_ready());
    assert_eq!((kind(first).await, kind(first).await), (EventType::Modified, EventType::Deleted));
    let mut late = f.watch("pods", watching("spec.nodeName=n1", start)).await;
    for expected in [EventType::Added, EventType::Modified, EventType::Modified, EventType::Deleted] {
        assert_eq!(kind(&mut late).await, expected, "history is replayed");
    }
    assert!(!late.is_event_ready());
}

/// Compares lists from the index with filtered lists of the same revision, while pods come, move and go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_by_node_equals_the_filtered_list_of_its_revision() {
    let (f, _) = counted().await;
    let f = Arc::new(f);
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            let f = Arc::clone(&f);
            tokio::spawn(async move {
                for round in 0..60 {
                    let name = format!("w{writer}-{}", round % 7);
                    if round >= 7 {
                        delete_now(&f, &name).await;
                    }
                    f.create("pods", pod_on(&name, &format!("n{}", (round * 5 + writer) % 3))).await.unwrap();
                }
            })
        })
        .collect();
    let mut is_last = false;
    while !is_last {
        is_last = writers.iter().all(tokio::task::JoinHandle::is_finished);
        for node in ["n0", "n1", "n2"] {
            let params = selecting(&format!("spec.nodeName={node}"));
            let found = f.list("pods", params.clone()).await.unwrap();
            assert_eq!(found.scope, None, "the index is used");
            let (resource_version, version_match) = (Some(found.revision.0.to_string()), Some("Exact".to_owned()));
            let exact = f.list("pods", ListParams { resource_version, version_match, ..params }).await.unwrap();
            assert_eq!((names(&found.items), found.revision), (names(&exact.items), exact.revision));
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
}
