//! The controller of namespaces, for registries that have them.

use std::time::Duration;

use futures::Stream;
use windlass::{ObjectRef, Runnable, k8s::core::v1::Namespace, prelude::*};

use crate::{sync::Shared, sync_state::SyncState};

pub(crate) fn controller(
    shared: Arc<Shared>,
    patience: Duration,
    unconfirmed: impl Stream<Item = ObjectRef<Namespace>> + Send + 'static,
) -> impl Runnable {
    Controller::<Namespace>::new()
        .named("registry-namespaces")
        .triggered_by(unconfirmed)
        .reconcile_timeout(patience)
        .reconcile_keys(move |key, cx| sync(key, cx, Arc::clone(&shared)))
}

async fn sync(key: ObjectRef<Namespace>, cx: Context, shared: Arc<Shared>) -> windlass::Result<Action> {
    let (registry, known) = (&shared.registry, &shared.namespaces);
    match (cx.store::<Namespace>().get(&key), known.get(key.key())) {
        (None, None) | (Some(_), Some(SyncState::Synced(()))) => {}
        (Some(_), _) => {
            known.mark_unconfirmed(key.key());
            registry.add_namespace(key.name()).await.map_err(windlass::Error::other)?;
            known.synced(key.key(), ());
        }
        (None, Some(_)) => {
            // The registry rejects this as long as the namespace has services; then it is retried.
            known.mark_unconfirmed(key.key());
            registry.remove_namespace(key.name()).await.map_err(windlass::Error::other)?;
            known.forget(key.key());
        }
    }
    Ok(Action::await_change())
}
