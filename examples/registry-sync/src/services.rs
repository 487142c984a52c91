//! The controller of services, which handles new, changed and deleted ones.

use std::time::Duration;

use futures::Stream;
use windlass::{
    Cached, ObjectRef, PartialObject, Runnable, Watch,
    cache::Index,
    k8s::{
        core::v1::{Pod, Service},
        discovery::v1::EndpointSlice,
    },
    prelude::*,
    runtime::events::Note,
};

use crate::{Entry, sync::Shared, sync_state::SyncState};

/// The label of a slice with the name of its service.
const OF_SERVICE: &str = "kubernetes.io/service-name";
/// The index of slices by namespace and name of their service.
const BY_SERVICE: &str = "by-service";

/// Returns the controller. Its reconciler gets keys, and is also called for deleted services. It remembers the synced
/// services, so no finalizer is needed.
pub(crate) fn controller(
    shared: Arc<Shared>,
    patience: Duration,
    unconfirmed: impl Stream<Item = ObjectRef<Service>> + Send + 'static,
) -> impl Runnable {
    let slices = Watch::<EndpointSlice>::all().index(Index::on_meta(BY_SERVICE, |meta| {
        let (namespace, service) = (meta.namespace()?, meta.label(OF_SERVICE)?);
        Some(format!("{namespace}/{service}"))
    }));
    let relabeled = Watch::metadata_of::<Pod>().filter_updates(|old, new| old.meta().labels() != new.meta().labels());
    let known = Arc::clone(&shared);
    Controller::<Service>::new()
        .named("registry-services")
        .watches_with(slices, service_of)
        .watches_with(relabeled, move |pod| served_by(&known, pod))
        .triggered_by(unconfirmed)
        .reconcile_timeout(patience)
        .concurrency(4)
        .reconcile_keys(move |key, cx| sync(key, cx, Arc::clone(&shared)))
}

fn service_of(slice: &Cached<EndpointSlice>) -> Option<ObjectRef<Service>> {
    let meta = slice.meta();
    Some(ObjectRef::new(meta.label(OF_SERVICE)?).within(meta.namespace()?.clone()))
}

/// Returns the synced services with this pod as an instance. A new pod of a service causes an event of its slice
/// instead.
fn served_by(shared: &Shared, pod: &Cached<PartialObject>) -> Vec<ObjectRef<Service>> {
    let (name, namespace) = (pod.meta().name(), pod.meta().namespace());
    let keys = shared.services.which(|key, entry| key.namespace.as_ref() == namespace && entry.has_pod(name));
    keys.into_iter().map(Into::into).collect()
}

async fn sync(key: ObjectRef<Service>, cx: Context, shared: Arc<Shared>) -> windlass::Result<Action> {
    let (registry, known) = (&shared.registry, &shared.services);
    let name = key.key();
    match (cx.store::<Service>().get(&key), known.get(name)) {
        // The service was never in the registry, or was already removed from it.
        (None, None) => {}
        (None, Some(_)) => {
            // After a restart the cache may be stale, and clients depend on the registry, so the server is asked.
            if cx.live().get_opt(key.clone()).await?.is_some() {
                return Ok(Action::await_change());
            }
            known.mark_unconfirmed(name);
            registry.remove(name).await.map_err(windlass::Error::other)?;
            known.forget(name);
        }
        (Some(service), state) => {
            let wanted = wanted(&key, &cx)?;
            if state.as_ref() == Some(&SyncState::Synced(wanted.clone())) {
                return Ok(Action::await_change());
            }
            known.mark_unconfirmed(name);
            if let Err(error) = put(&shared, &key, &wanted).await {
                let why = windlass::api::ErrorChain(&error).to_string();
                cx.recorder()
                    .record(&*service.get().map_err(windlass::Error::other)?, Note::warning("RegistryFailed", why));
                return Err(error);
            }
            known.synced(name, wanted.clone());
            let reason = if state.is_none() { "Registered" } else { "RegistryUpdated" };
            let note = Note::normal(reason, format!("the registry has {wanted}"));
            cx.recorder().record(&*service.get().map_err(windlass::Error::other)?, note);
        }
    }
    Ok(Action::await_change())
}

/// Writes an entry, after its namespace if the registry has namespaces.
async fn put(shared: &Shared, key: &ObjectRef<Service>, wanted: &Entry) -> windlass::Result<()> {
    if shared.registry.has_namespaces() {
        let namespace = key.namespace().unwrap_or_default();
        shared.registry.add_namespace(namespace).await.map_err(windlass::Error::other)?;
    }
    shared.registry.put(key.key(), wanted).await.map_err(windlass::Error::other)
}

/// Computes the desired entry from the caches.
fn wanted(key: &ObjectRef<Service>, cx: &Context) -> windlass::Result<Entry> {
    let slices = cx.store::<EndpointSlice>().by_index(BY_SERVICE, &key.key().to_string());
    let slices = slices.map_err(windlass::Error::other)?;
    let slices = slices.iter().map(Cached::get).collect::<Result<Vec<_>, _>>().map_err(windlass::Error::other)?;
    let pods = cx.store::<PartialObject>();
    let pod = |name: &str| pods.get(&ObjectRef::new(name).within(key.namespace().unwrap_or_default()));
    Ok(Entry::of(slices.iter().map(|slice| &**slice), pod))
}
