//! Namespace: deletes the content of a terminating namespace, and removes its finalizer when the namespace is empty.
//!
//! Guaranteed: a namespace is finalized only after a pass that could check every resource and found no object. That pass
//! discovers the resources again, so that custom resources are included. Passes before that only check the resources
//! that had objects left. Not guaranteed: an order of deletion, except that pods are deleted first.

mod conditions;
mod content;

use std::{sync::Arc, time::Duration};

use hashbrown::HashMap;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use parking_lot::Mutex;
use windlass_api::ObjectExt;
use windlass_cache::Cached;
use windlass_runtime::{Action, Context, Controller, Manager, Predicate, Watch};

use self::content::Unfinished;
use crate::error::ReconcileError;

/// The number of namespaces emptied at the same time.
const WORKERS: usize = 4;
/// This controller's finalizer in the namespace's spec.
const FINALIZER: &str = "kubernetes";
/// The range of pauses between two passes over the same namespace.
const PAUSES: std::ops::RangeInclusive<Duration> = Duration::from_millis(200)..=Duration::from_secs(10);

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    let terminating = Watch::<Namespace>::all().filter(Terminating);
    let memory = Memory::default();
    manager.add(Controller::watching(terminating).named("namespace").concurrency(WORKERS).reconcile(
        move |namespace, cx| {
            let memory = Arc::clone(&memory);
            async move { reconcile(namespace, cx, &memory).await }
        },
    ));
}

/// The resources with remaining objects after the last pass, by the namespace's UID. Without an entry, a pass checks
/// all resources.
type Memory = Arc<Mutex<HashMap<String, Unfinished>>>;

/// The namespaces that are being deleted.
#[derive(Debug)]
struct Terminating;

impl Predicate<Namespace> for Terminating {
    fn added(&self, object: &Cached<Namespace>) -> bool {
        object.meta().is_deleting()
    }

    fn updated(&self, _: &Cached<Namespace>, new: &Cached<Namespace>) -> bool {
        new.meta().is_deleting()
    }

    fn deleted(&self, _: &Cached<Namespace>) -> bool {
        false
    }
}

async fn reconcile(namespace: Arc<Namespace>, cx: Context, memory: &Memory) -> Result<Action, ReconcileError> {
    let client = cx.live();
    let uid = namespace.uid().unwrap_or_default();
    // Removed first, so that no entry of a finished namespace is left behind.
    let before = memory.lock().remove(uid).unwrap_or_default();
    let live = client.get_opt::<Namespace>(namespace.object_ref()).await?;
    let Some(live) = live.filter(|live| live.uid() == namespace.uid() && is_ours(live)) else {
        return Ok(Action::await_change());
    };

    let (progress, left) = content::delete(client, live.name(), before).await;

    let now = cx.clock().now();
    let before = live.status.clone().unwrap_or_default();
    let mut after = before.clone();
    after.conditions = Some(progress.conditions(before.conditions.as_deref().unwrap_or_default(), now));
    let mut live = live;
    if after != before {
        live.status = Some(after);
        live = match client.update_status(&live).await {
            Ok(updated) => updated,
            Err(error) => return after_write(error),
        };
    }
    if !progress.is_complete() {
        memory.lock().insert(uid.to_owned(), left);
        return Ok(Action::requeue_after(pause(&live, now)));
    }
    if let Some(finalizers) = live.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    match client.resources::<Namespace>().update(&live).subresource("finalize").await {
        Ok(_) => Ok(Action::await_change()),
        Err(error) => after_write(error),
    }
}

/// The namespace was changed by another client, or it is gone; neither is an error.
fn after_write(error: windlass_client::Error) -> Result<Action, ReconcileError> {
    if error.is_conflict() {
        Ok(Action::requeue_after(*PAUSES.start()))
    } else if error.is_not_found() {
        Ok(Action::await_change())
    } else {
        Err(error.into())
    }
}

/// Reports whether the namespace is being deleted and still has this controller's finalizer.
fn is_ours(namespace: &Namespace) -> bool {
    let finalizers = namespace.spec.iter().flat_map(|spec| spec.finalizers.iter().flatten());
    namespace.is_deleting() && finalizers.into_iter().any(|finalizer| finalizer == FINALIZER)
}

/// Returns the pause until the next pass: a quarter of the time since the deletion, within [`PAUSES`].
fn pause(namespace: &Namespace, now: Timestamp) -> Duration {
    let since = namespace.metadata.deletion_timestamp.as_ref().map_or(now, |at| at.0);
    let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    (elapsed / 4).clamp(*PAUSES.start(), *PAUSES.end())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{api::core::v1::NamespaceSpec, apimachinery::pkg::apis::meta::v1::Time};

    use super::*;

    fn namespace(deleted_at: Option<i64>, finalizers: &[&str]) -> Namespace {
        let finalizers = finalizers.iter().map(|finalizer| (*finalizer).to_owned()).collect();
        let mut namespace =
            Namespace { spec: Some(NamespaceSpec { finalizers: Some(finalizers) }), ..Namespace::default() };
        namespace.metadata.deletion_timestamp = deleted_at.map(|at| Time(Timestamp::from_second(at).unwrap()));
        namespace
    }

    #[test]
    fn only_terminating_namespaces_with_finalizer_are_emptied() {
        assert!(is_ours(&namespace(Some(1), &["example.com/x", FINALIZER])));
        assert!(!is_ours(&namespace(Some(1), &["example.com/x"])));
        assert!(!is_ours(&namespace(None, &[FINALIZER])));
    }

    #[test]
    fn namespace_recheck_interval_grows() {
        let at = |second| pause(&namespace(Some(100), &[]), Timestamp::from_second(second).unwrap());
        assert_eq!(at(90), Duration::from_millis(200), "a clock that is behind does no harm");
        assert_eq!(at(100), Duration::from_millis(200));
        assert_eq!(at(104), Duration::from_secs(1));
        assert_eq!(at(1_000), Duration::from_secs(10));
    }
}
