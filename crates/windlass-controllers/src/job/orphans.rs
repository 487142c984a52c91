//! Removes the tracking finalizer of pods that no job counts any more: their job is finished or gone, or they have no
//! job.

use std::sync::Arc;

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use windlass_api::{ObjectExt, ObjectRef};
use windlass_cache::{Cached, Lister};
use windlass_runtime::{Action, Context, Controller, Manager, Predicate, Watch};

use super::{spec, tracking};
use crate::error::{ReconcileError, await_newer_state};

/// Selects pods with the tracking finalizer.
#[derive(Debug)]
struct Tracked;

impl Predicate<Pod> for Tracked {
    fn added(&self, pod: &Cached<Pod>) -> bool {
        is_tracked(pod)
    }

    fn updated(&self, _: &Cached<Pod>, new: &Cached<Pod>) -> bool {
        is_tracked(new)
    }

    fn deleted(&self, _: &Cached<Pod>) -> bool {
        false
    }
}

/// Adds the controller to a manager.
pub(super) fn add_to(manager: &mut Manager) {
    let pods = manager.cluster().informer::<Pod>(&Watch::all()).store();
    let jobs = manager.cluster().informer::<Job>(&Watch::all()).store();
    manager.add(
        Controller::watching(Watch::<Pod>::all().filter(Tracked))
            .named("job-orphans")
            .watches_with(Watch::<Job>::all(), move |job| pods_of(&pods, &jobs, job))
            .reconcile(async |pod: Arc<Pod>, cx: Context| await_newer_state(reconcile(&pod, &cx).await)),
    );
}

/// Returns the pods of a finished or deleted job that still have the finalizer. The last known state of a job that is gone
/// may not show its deletion.
fn pods_of(pods: &Lister<Pod>, jobs: &Lister<Job>, job: &Cached<Job>) -> Vec<ObjectRef<Pod>> {
    let meta = job.meta();
    let is_gone = jobs.get(&job.object_ref()).is_none_or(|current| current.meta().uid() != meta.uid());
    if !is_gone && job.get().is_ok_and(|job| spec::end(&job).is_none() && !job.is_deleting()) {
        return Vec::new();
    }
    let is_of =
        |pod: &Cached<Pod>| is_tracked(pod) && pod.meta().controller().is_some_and(|owner| *meta.uid() == *owner.uid);
    let within = pods.within(meta.namespace().cloned().unwrap_or_default()).list();
    within.iter().filter(|pod| is_of(pod)).map(Cached::object_ref).collect()
}

fn is_tracked(pod: &Cached<Pod>) -> bool {
    pod.meta().finalizers().iter().any(|finalizer| &**finalizer == spec::TRACKING)
}

async fn reconcile(pod: &Pod, cx: &Context) -> Result<Action, ReconcileError> {
    if spec::is_tracked(pod) && is_orphan(pod, cx).await? {
        tracking::release(cx, pod).await?;
    }
    Ok(Action::await_change())
}

async fn is_orphan(pod: &Pod, cx: &Context) -> Result<bool, ReconcileError> {
    let Some(owner) = pod.controller() else { return Ok(true) };
    if owner.kind != "Job" || owner.api_version != "batch/v1" {
        return Ok(false);
    }
    let key = ObjectRef::<Job>::new(owner.name.clone()).within(pod.namespace().unwrap_or_default());
    let known = cx.store::<Job>().get(&key).map(|job| job.get()).transpose()?;
    let job = match known.filter(|job| job.uid() == Some(&owner.uid)) {
        Some(job) => Some((*job).clone()),
        // The cache of jobs may lag behind that of pods.
        None => cx.live().get_opt::<Job>(key).await?.filter(|job| job.uid() == Some(&owner.uid)),
    };
    Ok(job.is_none_or(|job| spec::end(&job).is_some() && !spec::is_managed_elsewhere(&job)))
}

#[cfg(test)]
mod tests {
    use std::future;

    use serde_json::{Value, json};
    use windlass_api::{ListWatch, Object, Resource};
    use windlass_cache::{InformerOptions, SharedInformer, testing::FakeListWatch};

    use super::*;

    /// Returns a cache of these objects.
    async fn cache<K: Object + Resource>(objects: &[Value]) -> Lister<K> {
        let server = FakeListWatch::new();
        for object in objects {
            server.apply(object);
        }
        let server: Arc<dyn ListWatch> = Arc::new(server);
        let informer = SharedInformer::<K>::new(server, InformerOptions::default());
        let (store, synced) = (informer.store(), informer.has_synced());
        tokio::select! {
            () = informer.run(future::pending()) => {}
            result = synced => result.unwrap(),
        }
        store
    }

    #[tokio::test(start_paused = true)]
    async fn pods_of_a_job_that_is_gone_are_selected() {
        let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": true}]);
        let metadata =
            json!({"name": "j-0", "namespace": "n", "finalizers": [spec::TRACKING], "ownerReferences": owner});
        let pods = cache::<Pod>(&[json!({"metadata": metadata})]).await;
        let job = |uid: &str| json!({"metadata": {"name": "j", "namespace": "n", "uid": uid}});
        let selected = async |current: &[Value]| {
            let jobs = cache::<Job>(current).await;
            let known = windlass_cache::testing::cached(Job::api_resource(), &job("1")).unwrap();
            pods_of(&pods, &jobs, &known).len()
        };
        assert_eq!(selected(&[job("1")]).await, 0, "the job runs");
        assert_eq!(selected(&[]).await, 1, "the job is gone");
        assert_eq!(selected(&[job("2")]).await, 1, "another job has the name");
    }
}
