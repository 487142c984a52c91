//! From an object to the keys of those who care about it.

use std::sync::Arc;

use windlass_api::{ApiResource, ErrorChain, Object, ObjectRef, Scope};
use windlass_cache::Cached;

/// Appends the keys that an object leads to.
pub(crate) type Mapper<T, K> = Arc<dyn Fn(&Cached<T>, &mut Vec<ObjectRef<K>>) + Send + Sync>;

/// The object itself.
pub(crate) fn enqueue_self<K: Object>() -> Mapper<K, K> {
    Arc::new(|object, keys| keys.push(object.key().clone().into()))
}

/// The owner that manages the object, if it is of the resource's group and kind, in whatever version.
///
/// Reads metadata only. Whether the owner exists, with that uid, is for the reconciler to see.
pub(crate) fn enqueue_owner<T: Object, K: Object>(owner: &ApiResource) -> Mapper<T, K> {
    let owner = owner.clone();
    Arc::new(move |object, keys| {
        let Some(reference) = object.meta().controller() else { return };
        if *reference.kind == *owner.kind && reference.group() == owner.group {
            let key = ObjectRef::new(Arc::clone(&reference.name));
            keys.push(match (object.meta().namespace(), owner.scope) {
                (Some(namespace), Scope::Namespaced) => key.within(Arc::clone(namespace)),
                _ => key,
            });
        }
    })
}

/// What a function of the encoded object says.
pub(crate) fn enqueue_mapped<T, K, I, F>(map: F) -> Mapper<T, K>
where
    T: Object,
    K: Object,
    I: IntoIterator<Item = ObjectRef<K>>,
    F: Fn(&Cached<T>) -> I + Send + Sync + 'static,
{
    Arc::new(move |object, keys| keys.extend(map(object)))
}

/// What a function of the decoded object says. An object that cannot be decoded leads nowhere, and is logged.
pub(crate) fn enqueue_mapped_decoded<T, K, I, F>(map: F) -> Mapper<T, K>
where
    T: Object,
    K: Object,
    I: IntoIterator<Item = ObjectRef<K>>,
    F: Fn(&T) -> I + Send + Sync + 'static,
{
    Arc::new(move |object, keys| match object.get() {
        Ok(decoded) => keys.extend(map(&decoded)),
        Err(error) => {
            tracing::error!(object = %object.key(), error = %ErrorChain(&error), "cannot map an object to keys");
        }
    })
}
