//! The writes of other servers to objects of which a strategy keeps state, such as the IP addresses of services.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tokio::{task::JoinSet, time};

use crate::{
    resource::{Item, Strategy},
    storage::{RangeQuery, Revision, Storage, StorageError, StoredValue, next_event},
};

/// The pause after a failure of the storage.
const PAUSE: Duration = Duration::from_secs(1);

/// The objects of a resource, and the strategy that keeps state of them.
pub(super) struct Followed {
    pub(super) prefix: String,
    pub(super) strategy: Arc<dyn Strategy>,
}

impl Followed {
    /// Follows the changes after a revision, until the returned task is dropped.
    pub(super) fn start(self, storage: Arc<dyn Storage>, mut after: Revision) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let ended = match self.changes(&*storage, &mut after).await {
                    Err(StorageError::Compacted { .. }) => self.again(&*storage, &mut after).await,
                    ended => ended,
                };
                if let Err(error) = ended {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(self.prefix, error, "the writes of other servers cannot be followed");
                }
                time::sleep(PAUSE).await;
            }
        });
        tasks
    }

    /// Follows the changes until the watch ends.
    async fn changes(&self, storage: &dyn Storage, after: &mut Revision) -> Result<(), StorageError> {
        let mut events = storage.watch(&self.prefix, *after).await?;
        while let Some(event) = next_event(&mut events).await {
            match event {
                Ok(event) => {
                    // Other events of the same revision may follow. To repeat one after a failure changes nothing.
                    *after = event.revision.previous().max(*after);
                    let (previous, current) = (object(event.previous.as_ref()), object(event.current.as_ref()));
                    self.strategy.follow(previous.as_ref(), current.as_ref());
                }
                // The values of other objects can be decoded.
                Err(StorageError::Unreadable { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads all objects after their history was compacted.
    async fn again(&self, storage: &dyn Storage, after: &mut Revision) -> Result<(), StorageError> {
        let range = storage.range(RangeQuery::prefix(self.prefix.clone())).await?;
        let objects: Vec<_> = range.values.iter().filter_map(|value| object(Some(value))).collect();
        self.strategy.follow_all(&objects);
        *after = range.revision;
        Ok(())
    }
}

/// Returns an object, unless it is damaged.
fn object(value: Option<&StoredValue>) -> Option<Value> {
    Item::stored(value?).ok().map(|item| item.value())
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;
    use crate::{
        encoded::{Encoded, Style},
        resource::Rules,
        storage::{Change, Expect, MemoryStorage, suite::PATIENCE},
    };

    /// Records the labels of the objects that it follows.
    #[derive(Debug, Default)]
    struct Recorder(Mutex<Vec<Received>>);

    #[derive(Debug, PartialEq, Eq)]
    enum Received {
        Change(Option<String>, Option<String>),
        All(Vec<String>),
    }

    fn label(object: &Value) -> String {
        object["metadata"]["labels"]["a"].as_str().unwrap_or_default().to_owned()
    }

    impl Strategy for Recorder {
        fn rules(&self) -> &Rules {
            unreachable!("not used here")
        }

        fn follow(&self, previous: Option<&Value>, current: Option<&Value>) {
            self.0.lock().push(Received::Change(previous.map(label), current.map(label)));
        }

        fn follow_all(&self, objects: &[Value]) {
            self.0.lock().push(Received::All(objects.iter().map(label).collect()));
        }
    }

    fn put(label: &str) -> Change {
        let object = json!({"kind": "A", "apiVersion": "v1", "metadata": {"labels": {"a": label}}});
        Change::Put(Encoded::new(&object, Style::BuiltIn).storage_bytes())
    }

    #[tokio::test]
    async fn changes_by_others_are_followed_also_after_a_compaction() {
        let storage = Arc::new(MemoryStorage::default());
        let first = storage.commit("/a/1", Expect::Absent, put("one")).await.unwrap().revision;
        storage.commit("/b/1", Expect::Absent, put("other prefix")).await.unwrap();
        let now = storage.commit("/a/2", Expect::Absent, put("two")).await.unwrap().revision;
        storage.compact(now).await.unwrap();
        let recorder = Arc::new(Recorder(Mutex::default()));
        let followed = Followed { prefix: "/a/".to_owned(), strategy: Arc::clone(&recorder) as Arc<dyn Strategy> };
        tokio::time::pause();
        // Version 1 is compacted, so all objects are read again.
        let _task = followed.start(Arc::clone(&storage) as Arc<dyn Storage>, Revision(1));
        let seen = async |count| {
            while recorder.0.lock().len() < count {
                time::sleep(PAUSE).await;
            }
        };
        time::timeout(PATIENCE, seen(1)).await.unwrap();
        let changed = storage.commit("/a/1", Expect::Unchanged(first), put("changed")).await.unwrap().revision;
        storage.commit("/a/1", Expect::Unchanged(changed), Change::Delete).await.unwrap();
        time::timeout(PATIENCE, seen(3)).await.unwrap();
        let text = |label: &str| Some(label.to_owned());
        let expected = [
            Received::All(vec!["one".to_owned(), "two".to_owned()]),
            Received::Change(text("one"), text("changed")),
            Received::Change(text("changed"), None),
        ];
        assert_eq!(*recorder.0.lock(), expected);
    }
}
