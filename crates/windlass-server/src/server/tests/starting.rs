//! The start of the server, and of the objects that the first requests need.

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, poll};

use super::*;
use crate::{
    extension::ExtensionApi,
    storage::{
        Change, CommitError, Committed, EventStream, Expect, MemoryStorage, Revision, Storage, StorageError, suite,
    },
};

const TICK: Duration = Duration::from_millis(10);
const DEFINITIONS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";

/// A storage with slow commits, which delivers the events of definitions late.
#[derive(Debug)]
struct Slow(Arc<MemoryStorage>);

impl suite::Forward for Slow {
    fn below(&self) -> &dyn Storage {
        &*self.0
    }

    fn commit<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        change: Change,
    ) -> BoxFuture<'a, Result<Committed, CommitError>> {
        async move {
            time::sleep(TICK).await;
            self.0.commit(key, expect, change).await
        }
        .boxed()
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<EventStream, StorageError>> {
        async move {
            let events = self.0.watch(prefix, after).await?;
            if prefix != DEFINITIONS {
                return Ok(events);
            }
            Ok(events.then(|delivery| time::sleep(10 * TICK).map(|()| delivery)).boxed())
        }
        .boxed()
    }
}

fn slow(storage: &Arc<MemoryStorage>) -> Arc<dyn Storage> {
    Arc::new(Slow(Arc::clone(storage)))
}

#[tokio::test(start_paused = true)]
async fn request_that_is_not_polled_does_not_keep_others_from_the_first_objects() {
    let server = Server::builder().token("TOKEN").storage(slow(&Arc::default())).build();
    let service = server.service();
    let review = || {
        let spec = json!({"resourceAttributes": {"verb": "get", "resource": "pods"}});
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let request = request("POST", path).header(header::CONTENT_TYPE, "application/json");
        let request = request.header("impersonate-user", "jane");
        request.body(json!({"spec": spec}).to_string()).unwrap()
    };
    // The first one begins the start of the server, the second one the creation of the roles.
    let mut unpolled = Vec::new();
    for _ in 0..40 {
        let mut first = Box::pin(send(&service, review()));
        assert!(poll!(&mut first).is_pending());
        unpolled.push(first);
        time::sleep(10 * TICK).await;
        let done = time::timeout(DEADLINE, send(&service, review())).await;
        let done = done.expect("a request waits for one that is not polled");
        if done.code == 201 {
            break;
        }
    }
    for first in unpolled {
        assert_eq!(first.await.code, 201);
    }
}

/// A storage whose commits fail after a while, as often as given. Counts the attempts.
#[derive(Debug)]
struct Failing {
    below: MemoryStorage,
    failures: usize,
    attempts: AtomicUsize,
}

impl suite::Forward for Failing {
    fn below(&self) -> &dyn Storage {
        &self.below
    }

    fn commit<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        change: Change,
    ) -> BoxFuture<'a, Result<Committed, CommitError>> {
        async move {
            time::sleep(TICK).await;
            if self.attempts.fetch_add(1, Ordering::SeqCst) < self.failures {
                return Err(StorageError::Unavailable("the storage is away".into()).into());
            }
            self.below.commit(key, expect, change).await
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_requests_share_a_failed_start() {
    let storage = Arc::new(Failing { below: MemoryStorage::default(), failures: 1, attempts: AtomicUsize::new(0) });
    let server = Server::builder().storage(Arc::clone(&storage) as Arc<dyn Storage>).build();
    let service = server.service();
    let answers = futures::future::join_all((0..20).map(|_| get(&service, CONFIG_MAPS))).await;
    assert!(answers.iter().all(|answer| answer.code == 500), "{}", answers[0].body);
    assert_eq!(storage.attempts.load(Ordering::SeqCst), 1);
    let later = get(&service, CONFIG_MAPS).await;
    assert_eq!(later.code, 200, "{}", later.body);
}

pub(super) fn api(field: &str) -> ExtensionApi {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        field: {"type": "string"}}}}});
    ExtensionApi::new().definition(json!({
        "metadata": {"name": "foos.ex.io"},
        "spec": {"group": "ex.io", "scope": "Cluster", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    }))
}

#[tokio::test(start_paused = true)]
async fn extension_server_starts_with_changed_definitions_over_kept_storage() {
    let storage = Arc::<MemoryStorage>::default();
    for field in ["first", "second", "second"] {
        let server = Server::builder().token("TOKEN").storage(slow(&storage)).extension(api(field)).build();
        server.start().await.unwrap();
        let object = json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"generateName": "a-"},
            "spec": {"first": "x", "second": "x"}});
        let created = post(&server.service(), "/apis/ex.io/v1/foos", object).await;
        assert_eq!(created.json()["spec"], json!({field: "x"}), "{}", created.body);
    }
}
