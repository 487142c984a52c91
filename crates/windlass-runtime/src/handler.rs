//! From an object to the keys of those who care about it.

use std::sync::Arc;

use windlass_api::{ApiResource, ErrorChain, Object, ObjectRef, Scope};
use windlass_cache::Cached;

/// Appends the keys that an object leads to.
pub(crate) type Mapper<T, K> = Arc<dyn Fn(&Cached<T>, &mut Vec<ObjectRef<K>>) + Send + Sync>;

/// Which owners of an object an event of it concerns, of those that are of the controller's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    /// The one that manages it: `controller: true`.
    Controller,
    /// Every one: for what several objects own together. controller-runtime's `MatchEveryOwner`.
    Every,
}

/// The object itself.
pub(crate) fn enqueue_self<K: Object>() -> Mapper<K, K> {
    Arc::new(|object, keys| keys.push(object.key().clone().into()))
}

/// Those of the object's owners that are of the resource's group and kind, in whatever version.
///
/// Reads metadata only. Whether an owner exists, with that uid, is for the reconciler to see.
pub(crate) fn enqueue_owners<T: Object, K: Object>(owner: &ApiResource, which: Owners) -> Mapper<T, K> {
    let owner = owner.clone();
    Arc::new(move |object, keys| {
        let meta = object.meta();
        let references = match which {
            Owners::Controller => meta.controller().map_or(&[][..], std::slice::from_ref),
            Owners::Every => meta.owner_references(),
        };
        let ours = references.iter().filter(|reference| *reference.kind == *owner.kind);
        for reference in ours.filter(|reference| reference.group() == owner.group) {
            let key = ObjectRef::new(Arc::clone(&reference.name));
            keys.push(match (meta.namespace(), owner.scope) {
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
