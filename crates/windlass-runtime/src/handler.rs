//! Event handlers: functions from a changed object to the keys to reconcile.

use std::sync::Arc;

use windlass_api::{ApiResource, ErrorChain, Object, ObjectRef, Scope};
use windlass_cache::{Cached, DecodeError};
use windlass_views::HasView;

/// Appends the keys for an object.
pub(crate) type Mapper<T, K> = Arc<dyn Fn(&Cached<T>, &mut Vec<ObjectRef<K>>) + Send + Sync>;

/// Selects the owners of the controller's kind that are reconciled after an event of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    /// The controller owner: the reference with `controller: true`.
    Controller,
    /// Every owner, for objects shared by several owners. controller-runtime's `MatchEveryOwner`.
    Every,
}

/// Returns a mapper to the object's own key.
pub(crate) fn enqueue_self<K: Object>() -> Mapper<K, K> {
    Arc::new(|object, keys| keys.push(object.key().clone().into()))
}

/// Returns a mapper to the object's owners of the resource's group and kind, in any version.
///
/// Reads metadata only. The reconciler must check that the owner exists and has the UID of the reference.
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

/// Returns a mapper that calls a function with the encoded object.
pub(crate) fn enqueue_mapped<T, K, I, F>(map: F) -> Mapper<T, K>
where
    T: Object,
    K: Object,
    I: IntoIterator<Item = ObjectRef<K>>,
    F: Fn(&Cached<T>) -> I + Send + Sync + 'static,
{
    Arc::new(move |object, keys| keys.extend(map(object)))
}

/// Returns a mapper that calls a function with a view of the object. Objects that cannot be read are logged and lead to
/// no keys.
pub(crate) fn enqueue_mapped_view<T, K, I, F>(map: F) -> Mapper<T, K>
where
    T: Object + HasView,
    K: Object,
    I: IntoIterator<Item = ObjectRef<K>>,
    F: for<'a> Fn(T::View<'a>) -> I + Send + Sync + 'static,
{
    Arc::new(move |object, keys| {
        // A list, because the keys of an object that cannot be read are dropped.
        match object.view(|view| map(view).into_iter().collect::<Vec<_>>()) {
            Ok(mapped) => keys.extend(mapped),
            Err(error) => unmapped(object, &error),
        }
    })
}

/// Returns a mapper that calls a function with the decoded object. Objects that cannot be decoded are logged and lead
/// to no keys.
pub(crate) fn enqueue_mapped_decoded<T, K, I, F>(map: F) -> Mapper<T, K>
where
    T: Object,
    K: Object,
    I: IntoIterator<Item = ObjectRef<K>>,
    F: Fn(&T) -> I + Send + Sync + 'static,
{
    Arc::new(move |object, keys| match object.get() {
        Ok(decoded) => keys.extend(map(&decoded)),
        Err(error) => unmapped(object, &error),
    })
}

fn unmapped<T>(object: &Cached<T>, error: &DecodeError) {
    tracing::error!(object = %object.key(), error = %ErrorChain(error), "cannot map an object to keys");
}
