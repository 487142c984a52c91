//! The resource versions of a controller's own writes, to detect a stale cache.

use std::cmp::Ordering;

use hashbrown::HashMap;
use parking_lot::Mutex;
use windlass_api::{ObjectExt, ObjectKey, Resource, ResourceVersion};

/// The last written version of each object.
#[derive(Debug, Default)]
pub(crate) struct Versions(Mutex<HashMap<ObjectKey, WrittenVersion>>);

#[derive(Debug)]
struct WrittenVersion {
    /// A recreated object has a new UID and is treated as a different object.
    uid: String,
    version: ResourceVersion,
}

impl Versions {
    /// Records an object as returned by a write.
    pub(crate) fn wrote<K: Resource>(&self, key: &ObjectKey, object: &K) {
        let (Some(uid), Some(version)) = (object.uid(), object.resource_version()) else { return };
        let written = WrittenVersion { uid: uid.to_owned(), version: ResourceVersion::new(version) };
        self.0.lock().insert(key.clone(), written);
    }

    /// Returns `true` if the cached object is at least as new as the last written one.
    pub(crate) fn caught_up<K: Resource>(&self, key: &ObjectKey, object: &K) -> bool {
        let mut known = self.0.lock();
        let Some(written) = known.get(key) else { return true };
        let shown = object.resource_version().map(ResourceVersion::new);
        let is_older = shown.is_some_and(|shown| shown.compare(&written.version).is_ok_and(Ordering::is_lt));
        if is_older && object.uid() == Some(&*written.uid) {
            return false;
        }
        known.remove(key);
        true
    }

    /// Drops the record of a deleted object.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    #[test]
    fn an_older_version_of_the_same_object_is_not_enough() {
        let pod = |uid: &str, version: &str| {
            let mut pod = Pod::default();
            pod.metadata.uid = Some(uid.to_owned());
            pod.metadata.resource_version = Some(version.to_owned());
            pod
        };
        let (versions, key) = (Versions::default(), ObjectKey::new("web"));
        assert!(versions.caught_up(&key, &pod("1", "4")));
        versions.wrote(&key, &pod("1", "10"));
        assert!(!versions.caught_up(&key, &pod("1", "9")));
        assert!(versions.caught_up(&key, &pod("2", "9")), "another object");
        versions.wrote(&key, &pod("1", "10"));
        assert!(versions.caught_up(&key, &pod("1", "10")));
    }
}
