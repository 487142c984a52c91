//! The controller built on the informers: handlers that turn events into keys, a queue, and a worker.
//! `windlass::Controller` provides all of this; here it is written out.

use windlass::{
    Cached, Client, ObjectExt as _, ObjectRef, SharedInformer, WorkQueue,
    api::{BoxError, ResourceVersion},
    cache::Notification,
    k8s::core::v1::Pod,
};

use crate::work::{Difference, Workload};

/// Runs until the informers stop. The caller must run the informers.
pub(crate) async fn run<K: Workload>(
    client: &Client,
    asking: &SharedInformer<K>,
    pods: &SharedInformer<Pod>,
) -> Result<(), BoxError> {
    let queue = WorkQueue::new();
    let (changed, owners) = (queue.clone(), queue.clone());
    let _asking = asking.add_handler(move |event: Notification<K>| changed.add(event.object().object_ref()));
    let _pods = pods.add_handler(move |event: Notification<Pod>| {
        if let Some(owner) = owner(event.object()) {
            owners.add(owner);
        }
    });
    asking.has_synced().await?;
    pods.has_synced().await?;

    while let Some(key) = queue.get().await {
        match reconcile(client, asking, pods, &key).await {
            Ok(()) => queue.forget(&key),
            Err(_) => queue.add_rate_limited(key.clone()),
        }
        queue.done(&key);
    }
    Ok(())
}

/// Returns the controller of a pod, if it is of kind `K`. Reads only the metadata.
fn owner<K: Workload>(pod: &Cached<Pod>) -> Option<ObjectRef<K>> {
    let (meta, ours) = (pod.meta(), K::api_resource());
    let owner = meta.controller().filter(|owner| owner.group() == ours.group && *owner.kind == *ours.kind)?;
    Some(ObjectRef::new(owner.name.clone()).within(meta.namespace()?.clone()))
}

async fn reconcile<K: Workload>(
    client: &Client,
    asking: &SharedInformer<K>,
    pods: &SharedInformer<Pod>,
    key: &ObjectRef<K>,
) -> Result<(), BoxError> {
    // Deleted: the garbage collector deletes its pods.
    let Some(workload) = asking.store().get(key) else { return Ok(()) };
    let within = pods.store().within(key.namespace().unwrap_or_default());
    let there = within.list().iter().map(|pod| pod.get().map(|pod| Pod::clone(&pod))).collect::<Result<Vec<_>, _>>()?;
    let made = Difference::of(&*workload.get()?, there).settle(client).await?;
    // The next reconcile must see these pods. Otherwise it would try to create them again.
    if let Some(last) = made.last() {
        pods.wait_for(&ResourceVersion::new(last.resource_version().unwrap_or_default())).await?;
    }
    Ok(())
}
