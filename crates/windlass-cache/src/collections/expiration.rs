//! A store whose objects expire.

use std::{collections::BTreeMap, fmt, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Keyed, ObjectStore};

/// A store whose objects expire some time after they were inserted. Inserting an object again restarts its time.
///
/// Expired objects are invisible; the next read or list that finds one frees its memory. The store has no indices. It
/// uses tokio's clock, which tests can pause.
///
/// ```
/// use std::time::Duration;
/// use windlass_cache::collections::{ExpirationCache, ObjectStore};
/// # use windlass_api::{ObjectKey, k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta}};
/// # fn pod(name: &str) -> Pod {
/// #     Pod { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..Pod::default() }
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(async {
///
/// let cache = ExpirationCache::new(Duration::from_mins(1));
/// cache.insert(pod("a"));
/// tokio::time::sleep(Duration::from_secs(59)).await;
/// assert!(cache.get(&ObjectKey::new("a")).is_some());
/// tokio::time::sleep(Duration::from_secs(2)).await;
/// assert!(cache.get(&ObjectKey::new("a")).is_none());
/// # });
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct ExpirationCache<T: Keyed> {
    is_expired: Box<Policy<T>>,
    objects: Mutex<BTreeMap<T::Key, Stamped<T>>>,
}

type Policy<T> = dyn Fn(&T, Duration) -> bool + Send + Sync;

struct Stamped<T> {
    object: T,
    since: Instant,
}

impl<T: Keyed + Clone> ExpirationCache<T> {
    /// Creates a store whose objects expire when they are older than `ttl`. If `ttl` is zero, they never expire.
    #[must_use]
    pub fn new(ttl: Duration) -> Self {
        Self::with_policy(move |_, age| !ttl.is_zero() && age > ttl)
    }

    /// Creates a store with a custom policy: `is_expired` receives an object and its age. It must not use the store.
    pub fn with_policy(is_expired: impl Fn(&T, Duration) -> bool + Send + Sync + 'static) -> Self {
        Self { is_expired: Box::new(is_expired), objects: Mutex::default() }
    }

    fn is_fresh(&self, stamped: &Stamped<T>) -> bool {
        !(self.is_expired)(&stamped.object, stamped.since.elapsed())
    }
}

impl<T: Keyed + Clone> ObjectStore<T> for ExpirationCache<T> {
    fn insert(&self, object: T) {
        let stamped = Stamped { object, since: Instant::now() };
        self.objects.lock().insert(stamped.object.key(), stamped);
    }

    fn remove(&self, key: &T::Key) {
        self.objects.lock().remove(key);
    }

    fn replace(&self, replacement: Vec<T>) {
        let since = Instant::now();
        let stamped = replacement.into_iter().map(|object| (object.key(), Stamped { object, since }));
        *self.objects.lock() = stamped.collect();
    }

    fn get(&self, key: &T::Key) -> Option<T> {
        let mut objects = self.objects.lock();
        let stamped = objects.get(key)?;
        if self.is_fresh(stamped) {
            return Some(stamped.object.clone());
        }
        objects.remove(key);
        None
    }

    fn list(&self) -> Vec<T> {
        let mut objects = self.objects.lock();
        objects.retain(|_, stamped| self.is_fresh(stamped));
        objects.values().map(|stamped| stamped.object.clone()).collect()
    }
}

impl<T: Keyed> fmt::Debug for ExpirationCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpirationCache").field("held", &self.objects.lock().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::collections::tests::Item;

    type Cache = ExpirationCache<Item>;

    const MINUTE: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn objects_expire_after_their_ttl_and_not_before() {
        let cache = Cache::new(MINUTE);
        cache.insert(Item("a", 1));
        sleep(MINUTE).await;
        assert_eq!(cache.get(&"a"), Some(Item("a", 1)), "an object of exactly this age has not expired");
        sleep(Duration::from_millis(1)).await;
        assert_eq!((cache.get(&"a"), cache.objects.lock().len()), (None, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn putting_it_in_again_begins_its_time_anew() {
        let cache = Cache::new(MINUTE);
        cache.insert(Item("a", 1));
        cache.replace(vec![Item("a", 2), Item("b", 2)]);
        sleep(MINUTE).await;
        cache.insert(Item("a", 3));
        sleep(MINUTE).await;
        assert_eq!((cache.list(), cache.keys()), (vec![Item("a", 3)], vec!["a"]));
        assert_eq!(cache.objects.lock().len(), 1, "a list frees expired objects");
        cache.remove(&"a");
        assert_eq!(cache.get(&"a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn no_time_is_no_end_and_a_policy_decides_by_the_object() {
        let forever = Cache::new(Duration::ZERO);
        let odd = Cache::with_policy(|item, age| item.1 % 2 == 1 && age > MINUTE);
        for cache in [&forever, &odd] {
            cache.replace(vec![Item("a", 1), Item("b", 2)]);
        }
        sleep(Duration::from_hours(1000)).await;
        assert_eq!((forever.list().len(), odd.keys()), (2, vec!["b"]));
    }
}
