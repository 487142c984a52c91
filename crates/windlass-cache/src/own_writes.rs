//! Read-your-writes consistency for programs that write the objects they cache.

use std::{fmt, sync::Arc};

use windlass_api::{Object, ObjectExt, ResourceVersion, Uid};

use crate::{
    informer::SharedInformer,
    journal_reader::{JournalReader, Reads},
    lister::Lister,
    synced::Stopped,
    write_journal::WriteJournal,
};

/// An informer's lister for a program that also writes: reads always include the program's own writes.
///
/// Informers lag behind the server by some milliseconds. Without this type, a controller that creates an object and
/// runs again before the informer shows it would create a second one. Send writes through [`Self::write`] and
/// [`Self::delete`], with any client. [`Self::read`] waits until the informer shows all of them. Clones share the
/// recorded writes. To see own writes immediately, without waiting, use
/// [`MutationCache`](crate::collections::MutationCache).
///
/// # What is not guaranteed
///
/// - Writes of other clients, and failed writes that the server nevertheless carried out, appear when the informer
///   receives them.
/// - Reads don't wait for an object that the store does not have and the informer may not select. That is unknown for a
///   field selector on fields other than name and namespace.
/// - Reads wait while the server is unreachable. Set a timeout.
///
/// ```
/// # use windlass_api::{ObjectExt, k8s_openapi::api::core::v1::ConfigMap};
/// # use windlass_cache::SharedInformer;
/// use windlass_cache::OwnWrites;
///
/// # async fn send(map: &ConfigMap) -> Result<ConfigMap, std::io::Error> { Ok(map.clone()) }
/// # async fn example(informer: SharedInformer<ConfigMap>, map: ConfigMap) -> Result<(), Box<dyn std::error::Error>> {
/// let maps = OwnWrites::new(informer);
/// maps.write(send(&map)).await?; // for example `client.create(&map)`
/// assert!(maps.read().await?.get(&map.object_ref()).is_some());
/// # Ok(())
/// # }
/// ```
pub struct OwnWrites<K> {
    informer: SharedInformer<K>,
    reader: Arc<JournalReader>,
}

impl<K: Object> OwnWrites<K> {
    /// Creates a lister without recorded writes.
    #[must_use]
    pub fn new(informer: SharedInformer<K>) -> Self {
        let reader = JournalReader::new(WriteJournal::default(), None, informer.selectors());
        Self { informer, reader: Arc::new(reader) }
    }

    /// Sends a write whose response is the object, and records it for later reads.
    pub async fn write<E>(&self, request: impl IntoFuture<Output = Result<K, E>>) -> Result<K, E> {
        let written = request.await?;
        self.wrote(&written);
        Ok(written)
    }

    /// Sends the deletion of `object`, and records that the object must be absent or terminating in later reads.
    pub async fn delete<T, E>(&self, object: &K, request: impl IntoFuture<Output = Result<T, E>>) -> Result<T, E> {
        let answer = request.await?;
        let uid = Uid::new(object.uid().unwrap_or_default());
        self.reader.journal().removed(object.object_ref().into_key(), uid);
        Ok(answer)
    }

    /// Records the response to a write that was sent without [`Self::write`].
    pub fn wrote(&self, written: &K) {
        let version = ResourceVersion::from(written.resource_version().unwrap_or_default());
        let labels = written.metadata().labels.clone().unwrap_or_default();
        self.reader.journal().stored(written.object_ref().into_key(), version, Some(labels));
    }

    /// Returns the lister once it shows all writes recorded so far.
    pub async fn read(&self) -> Result<Lister<K>, Stopped> {
        self.informer.follow(&self.reader, Reads::All).await?;
        Ok(self.informer.store())
    }

    /// Returns the informer.
    #[must_use]
    pub fn informer(&self) -> &SharedInformer<K> {
        &self.informer
    }
}

impl<K> Clone for OwnWrites<K> {
    fn clone(&self) -> Self {
        Self { informer: self.informer.clone(), reader: Arc::clone(&self.reader) }
    }
}

impl<K> fmt::Debug for OwnWrites<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnWrites").field("informer", &self.informer).field("reader", &self.reader).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;
    use tokio::time::timeout;
    use windlass_api::{ObjectKey, ObjectRef};

    use super::*;
    use crate::{
        InformerOptions,
        testing::{FakeListWatch, soon},
    };

    type Answer = Result<ConfigMap, &'static str>;

    fn map(name: &str, version: u64) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": name, "uid": name, "resourceVersion": version.to_string()}}))
            .unwrap()
    }

    fn rig(fake: &FakeListWatch) -> (OwnWrites<ConfigMap>, tokio::task::JoinHandle<()>) {
        let informer = SharedInformer::new(Arc::new(fake.clone()), InformerOptions::default());
        (OwnWrites::new(informer.clone()), tokio::spawn(informer.run(std::future::pending())))
    }

    async fn is_ready(maps: &OwnWrites<ConfigMap>) -> bool {
        timeout(Duration::from_secs(1), maps.read()).await.is_ok_and(|read| read.is_ok())
    }

    #[tokio::test(start_paused = true)]
    async fn read_after_write_returns_the_write_or_newer() {
        let fake = FakeListWatch::new();
        let (maps, run) = rig(&fake);
        assert!(is_ready(&maps).await, "there is no pending write");
        // The server has stored the object; its event has not arrived yet.
        maps.write(async { Answer::Ok(map("a", fake.version() + 1)) }).await.unwrap();
        assert!(!is_ready(&maps).await);
        maps.write(async { Answer::Err("refused") }).await.unwrap_err();
        maps.wrote(&map("old", 1));
        fake.apply(&map("a", 0));
        assert!(soon(maps.clone().read()).await.unwrap().get(&ObjectRef::new("a")).is_some());
        run.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn read_after_delete_is_missing_or_terminating() {
        let fake = FakeListWatch::new();
        for name in ["gone", "going", "again"] {
            fake.apply(&map(name, 0));
        }
        let (maps, run) = rig(&fake);
        for (name, happens) in [
            ("gone", (|fake| fake.delete(&ObjectKey::new("gone"))) as fn(&FakeListWatch)),
            ("going", |fake| {
                _ = fake.apply(&json!({"metadata": {"name": "going", "uid": "going", "deletionTimestamp": "2026-01-01T00:00:00Z"}}));
            }),
            ("again", |fake| _ = fake.apply(&json!({"metadata": {"name": "again", "uid": "another"}}))),
        ] {
            soon(maps.informer().has_synced()).await.unwrap();
            maps.delete(&map(name, 0), async { Ok::<_, &str>(()) }).await.unwrap();
            assert!(!is_ready(&maps).await, "{name}");
            happens(&fake);
            assert!(is_ready(&maps).await, "{name}");
        }
        run.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn stopped_informer_fails_the_wait_for_a_write() {
        let fake = FakeListWatch::new();
        let (maps, run) = rig(&fake);
        soon(maps.informer().has_synced()).await.unwrap();
        maps.write(async { Answer::Ok(map("a", 99)) }).await.unwrap();
        run.abort();
        assert!(soon(maps.read()).await.is_err());
    }
}
