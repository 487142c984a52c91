//! A set of informers of one resource that is used like a single informer.

use std::{fmt, sync::Arc};

use windlass_api::{ApiResource, Object, ObjectKey};

use crate::{
    error::AddIndexError,
    handler::{Handler, HandlerOptions, Registration},
    indexer::Index,
    informer::SharedInformer,
    journal_reader::Reads,
    lister::Lister,
    synced::Stopped,
};

/// The informers that together hold the selected objects of a resource: usually one, or one for each of several
/// namespaces. Clones are handles of the same informers.
///
/// # What is guaranteed
///
/// - The guarantees of each informer. All guarantees about a single object hold, because it is in one informer.
///
/// # What is not guaranteed
///
/// - An order between the changes of objects in different informers, or a version that all of them have reached.
pub struct InformerSet<K> {
    /// Never empty. Each object is in only one of them.
    parts: Arc<[SharedInformer<K>]>,
}

/// The handle of a handler that was added to each of several informers. Dropping it does not remove the handler.
#[must_use = "only the registrations can remove the handler or wait for it"]
#[derive(Debug)]
pub struct Registrations(Vec<Registration>);

// === impl InformerSet ===

impl<K: Object> InformerSet<K> {
    /// Combines an informer with others that hold different objects of the same resource. Does not start them.
    pub fn new(first: SharedInformer<K>, others: impl IntoIterator<Item = SharedInformer<K>>) -> Self {
        Self { parts: std::iter::once(first).chain(others).collect() }
    }

    /// Iterates over the informers.
    pub fn each(&self) -> impl Iterator<Item = &SharedInformer<K>> {
        self.parts.iter()
    }

    /// Returns a lister of all informers' objects.
    #[must_use]
    pub fn store(&self) -> Lister<K> {
        let [first, others @ ..] = &*self.parts else { unreachable!("there is one at least") };
        first.store().and(others.iter().map(SharedInformer::store))
    }

    /// Adds a handler to each informer. `handler` creates them. Handlers of different informers run concurrently.
    pub fn add_handler<H: Handler<K>>(&self, handler: impl FnMut() -> H) -> Registrations {
        self.add_handler_with(handler, HandlerOptions::default())
    }

    /// Like [`Self::add_handler`], with options.
    pub fn add_handler_with<H: Handler<K>>(
        &self,
        mut handler: impl FnMut() -> H,
        options: HandlerOptions,
    ) -> Registrations {
        Registrations(self.each().map(|informer| informer.add_handler_with(handler(), options)).collect())
    }

    /// Adds an index to each informer. If this fails, some of them may already have the index.
    pub async fn add_index(&self, index: Index<K>) -> Result<(), AddIndexError> {
        for informer in self.each() {
            informer.add_index(index.clone()).await?;
        }
        Ok(())
    }

    /// Waits until each informer holds its first list. Returns an error if one stops before.
    pub async fn has_synced(&self) -> Result<(), Stopped> {
        for informer in self.each() {
            informer.has_synced().await?;
        }
        Ok(())
    }

    /// Waits until each informer shows the program's own writes; see [`SharedInformer::show_own_writes`].
    pub async fn show_own_writes(&self, reads: Reads<'_>) -> Result<(), Stopped> {
        for informer in self.each() {
            informer.show_own_writes(reads).await?;
        }
        Ok(())
    }

    /// Returns the first object whose last own write an informer does not show.
    #[must_use]
    pub fn unseen_own_write(&self, reads: Reads<'_>) -> Option<ObjectKey> {
        self.each().find_map(|informer| informer.unseen_own_write(reads))
    }

    /// Returns the resource of the objects.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        self.parts[0].resource()
    }
}

impl<K> Clone for InformerSet<K> {
    fn clone(&self) -> Self {
        Self { parts: Arc::clone(&self.parts) }
    }
}

impl<K> fmt::Debug for InformerSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&*self.parts).finish()
    }
}

// === impl Registrations ===

impl Registrations {
    /// Waits until the handlers have processed the initial lists. Returns an error if an informer stops before.
    pub async fn has_synced(&self) -> Result<(), Stopped> {
        for registration in &self.0 {
            registration.has_synced().await?;
        }
        Ok(())
    }

    /// Removes the handlers and waits until running notifications have completed.
    pub async fn shut_down(&self) {
        // Removes all of them first, so that none starts another notification meanwhile.
        self.0.iter().for_each(Registration::remove);
        for registration in &self.0 {
            registration.shut_down().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use parking_lot::Mutex;
    use serde_json::json;
    use windlass_api::{LabelSelector, ObjectRef};

    use super::*;
    use crate::{
        InformerOptions, Notification,
        testing::{FakeListWatch, soon},
    };

    /// Returns informers of two namespaces, each with its own server.
    fn two() -> (InformerSet<ConfigMap>, [FakeListWatch; 2]) {
        let servers = [FakeListWatch::new(), FakeListWatch::new()];
        let [first, second] = servers.clone().map(|server| {
            let options = InformerOptions::default();
            SharedInformer::<ConfigMap>::new(Arc::new(server), options)
        });
        (InformerSet::new(first, [second]), servers)
    }

    fn map(namespace: &str, name: &str, color: &str) -> serde_json::Value {
        json!({"metadata": {"name": name, "namespace": namespace, "labels": {"color": color}}})
    }

    #[tokio::test(start_paused = true)]
    async fn several_informers_are_read_indexed_and_handled_as_one() {
        let (informers, [first, second]) = two();
        first.apply(&map("a", "x", "blue"));
        second.apply(&map("b", "x", "red"));
        second.apply(&map("b", "y", "blue"));
        let by_color = || Index::on_meta("color", |meta| meta.label("color").map(str::to_owned));
        informers.add_index(by_color()).await.unwrap();
        assert!(informers.add_index(by_color()).await.is_err());
        let told = Arc::new(Mutex::new(Vec::new()));
        let registrations = informers.add_handler(|| {
            let told = Arc::clone(&told);
            move |notification: Notification<ConfigMap>| told.lock().push(notification.key().to_string())
        });
        let runs: Vec<_> =
            informers.each().cloned().map(|informer| tokio::spawn(informer.run(std::future::pending()))).collect();
        soon(informers.has_synced()).await.unwrap();
        soon(registrations.has_synced()).await.unwrap();
        told.lock().sort();
        assert_eq!(*told.lock(), ["a/x", "b/x", "b/y"]);

        let store = informers.store();
        let keys = |objects: Vec<crate::Cached<ConfigMap>>| {
            let mut keys: Vec<_> = objects.iter().map(|object| object.key().to_string()).collect();
            keys.sort();
            keys
        };
        assert_eq!((store.len(), store.within("b").len(), store.within("c").is_empty()), (3, 2, true));
        assert_eq!(keys(store.list()), ["a/x", "b/x", "b/y"]);
        assert_eq!(keys(store.select(&"color=blue".parse::<LabelSelector>().unwrap())), ["a/x", "b/y"]);
        assert_eq!(keys(store.by_index("color", "blue").unwrap()), ["a/x", "b/y"]);
        assert_eq!(keys(store.within("b").by_index("color", "blue").unwrap()), ["b/y"]);
        assert_eq!(store.index_values("color").unwrap(), [Arc::from("blue"), Arc::from("red")]);
        assert!(store.by_index("size", "1").is_err());
        assert!(store.get(&ObjectRef::new("y").within("b")).is_some());
        assert!(store.get(&ObjectRef::new("y").within("a")).is_none());
        assert_eq!(store.version().as_u64(), Some(2), "the version that both have reached; the servers start at 1");

        soon(registrations.shut_down()).await;
        first.apply(&map("a", "z", "red"));
        second.apply(&map("b", "z", "red"));
        soon(informers.each().next().unwrap().wait_until(|news| &*news.key().name == "z")).await.unwrap();
        assert_eq!(told.lock().len(), 3, "no handler is notified after the removal");
        runs.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
