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
        for value in &range.values {
            self.strategy.follow(None, object(Some(value)).as_ref());
        }
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

    /// Records the names of the objects that it follows.
    #[derive(Debug, Default)]
    struct Recorder(Mutex<Vec<(Option<String>, Option<String>)>>);

    impl Strategy for Recorder {
        fn rules(&self) -> &Rules {
            unreachable!("not used here")
        }

        fn follow(&self, previous: Option<&Value>, current: Option<&Value>) {
            let label = |object: &Value| object["metadata"]["labels"]["a"].as_str().unwrap_or_default().to_owned();
            self.0.lock().push((previous.map(label), current.map(label)));
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
        time::timeout(PATIENCE, seen(2)).await.unwrap();
        let changed = storage.commit("/a/1", Expect::Unchanged(first), put("changed")).await.unwrap().revision;
        storage.commit("/a/1", Expect::Unchanged(changed), Change::Delete).await.unwrap();
        time::timeout(PATIENCE, seen(4)).await.unwrap();
        let text = |label: &str| Some(label.to_owned());
        let expected =
            [(None, text("one")), (None, text("two")), (text("one"), text("changed")), (text("changed"), None)];
        assert_eq!(*recorder.0.lock(), expected);
    }
}
