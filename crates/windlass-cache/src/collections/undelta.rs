//! A store that passes on its whole content after each change.

use std::{collections::BTreeMap, fmt};

use parking_lot::{Mutex, RwLock};

use super::{Keyed, ObjectStore};

/// A store for consumers that need the whole state after each change, not the change itself.
///
/// `push` is called after every write, even if nothing changed, and never for reads. Calls happen one at a time, in the
/// order of the changes. `push` may read the store, but deadlocks if it changes it.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use windlass_cache::collections::{ObjectStore, UndeltaStore};
/// # use windlass_api::{ObjectKey, k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta}};
/// # fn pod(name: &str) -> Pod {
/// #     Pod { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..Pod::default() }
/// # }
///
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let log = Arc::clone(&seen);
/// let store = UndeltaStore::new(move |pods: Vec<Pod>| log.lock().unwrap().push(pods.len()));
/// store.insert(pod("a"));
/// store.insert(pod("b"));
/// store.remove(&ObjectKey::new("a"));
/// store.replace(Vec::new());
/// assert_eq!(*seen.lock().unwrap(), [1, 2, 1, 0]);
/// ```
pub struct UndeltaStore<T: Keyed> {
    push: Box<dyn Fn(Vec<T>) + Send + Sync>,
    objects: RwLock<BTreeMap<T::Key, T>>,
    /// Held from a change until `push` has returned. Locked before `objects`.
    telling: Mutex<()>,
}

impl<T: Keyed + Clone> UndeltaStore<T> {
    /// Creates an empty store. `push` receives every object, in the order of the keys.
    pub fn new(push: impl Fn(Vec<T>) + Send + Sync + 'static) -> Self {
        Self { push: Box::new(push), objects: RwLock::default(), telling: Mutex::new(()) }
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<T::Key, T>)) {
        let telling = self.telling.lock();
        change(&mut self.objects.write());
        (self.push)(self.list());
        drop(telling);
    }
}

impl<T: Keyed + Clone> ObjectStore<T> for UndeltaStore<T> {
    fn insert(&self, object: T) {
        self.change(|objects| _ = objects.insert(object.key(), object));
    }

    fn remove(&self, key: &T::Key) {
        self.change(|objects| _ = objects.remove(key));
    }

    fn replace(&self, replacement: Vec<T>) {
        self.change(|objects| *objects = replacement.into_iter().map(|object| (object.key(), object)).collect());
    }

    fn get(&self, key: &T::Key) -> Option<T> {
        self.objects.read().get(key).cloned()
    }

    fn list(&self) -> Vec<T> {
        self.objects.read().values().cloned().collect()
    }

    fn keys(&self) -> Vec<T::Key> {
        self.objects.read().keys().cloned().collect()
    }
}

impl<T: Keyed> fmt::Debug for UndeltaStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UndeltaStore").field("objects", &self.objects.read().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, OnceLock};

    use super::*;
    use crate::collections::tests::Item;

    type Store = UndeltaStore<Item>;

    #[test]
    fn each_change_pushes_all_objects_and_reads_none() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&told);
        let store = Store::new(move |all| log.lock().push(all));
        store.insert(Item("b", 1));
        store.insert(Item("a", 1));
        store.insert(Item("b", 2));
        store.remove(&"a");
        store.remove(&"a");
        store.replace(vec![Item("c", 1)]);
        assert_eq!((store.get(&"c"), store.list(), store.keys()), (Some(Item("c", 1)), vec![Item("c", 1)], vec!["c"]));
        let expected: [&[_]; 6] = [
            &[Item("b", 1)],
            &[Item("a", 1), Item("b", 1)],
            &[Item("a", 1), Item("b", 2)],
            &[Item("b", 2)],
            &[Item("b", 2)],
            &[Item("c", 1)],
        ];
        assert_eq!(*told.lock(), expected);
    }

    #[test]
    fn push_callback_can_read_the_store() {
        let store = Arc::new(OnceLock::<Store>::new());
        let reader = Arc::clone(&store);
        let lengths = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&lengths);
        store.get_or_init(|| Store::new(move |all| log.lock().push((all.len(), reader.get().unwrap().list().len()))));
        store.get().unwrap().insert(Item("a", 1));
        assert_eq!(*lengths.lock(), [(1, 1)]);
    }
}
