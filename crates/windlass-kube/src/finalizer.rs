//! The finalizer helper of kube-rs for reconcilers that return the [`Action`] of Windlass.
//!
//! It is for programs on their way from kube-rs: [`finalizer()`] has the signature and the contract of
//! `kube::runtime::finalizer`, so only the import changes. `windlass_runtime::finalizers::Finalizers` replaces it.

use std::{error::Error as StdError, fmt::Debug, future::Future, sync::Arc};

use kube::{
    Api, Resource, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::json;
use thiserror::Error as ThisError;
use windlass_runtime::Action;

/// The part of a reconcile to run.
#[derive(Debug)]
pub enum Event<K> {
    /// The object is live and has the finalizer.
    Apply(Arc<K>),
    /// The object is being deleted. The finalizer is removed after the clean-up has succeeded.
    Cleanup(Arc<K>),
}

/// The error of a reconcile with a finalizer.
#[derive(Debug, ThisError)]
pub enum Error<E: StdError + 'static> {
    /// The reconcile of a live object failed.
    #[error("applying the object")]
    ApplyFailed(#[source] E),
    /// The clean-up failed.
    #[error("cleaning up the object")]
    CleanupFailed(#[source] E),
    /// The finalizer could not be added.
    #[error("adding the finalizer")]
    AddFinalizer(#[source] kube::Error),
    /// The finalizer could not be removed.
    #[error("removing the finalizer")]
    RemoveFinalizer(#[source] kube::Error),
    /// The object has no name.
    #[error("the object has no name")]
    UnnamedObject,
}

/// Adds a finalizer to a live object before it is reconciled, and removes it after the clean-up of a deleted object.
///
/// While the finalizer is being added, `reconcile` is not called: the write causes the next reconcile. A write fails with
/// a conflict if the object has changed since. Clean-ups may run several times.
pub async fn finalizer<K, F, E>(
    api: &Api<K>,
    name: &str,
    object: Arc<K>,
    reconcile: impl FnOnce(Event<K>) -> F,
) -> Result<Action, Error<E>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
    F: Future<Output = Result<Action, E>>,
    E: StdError + 'static,
{
    let is_present = object.finalizers().iter().any(|other| other == name);
    match (is_present, object.meta().deletion_timestamp.is_some()) {
        (true, false) => reconcile(Event::Apply(object)).await.map_err(Error::ApplyFailed),
        (false, true) => Ok(Action::await_change()),
        (true, true) => {
            let action = reconcile(Event::Cleanup(Arc::clone(&object))).await.map_err(Error::CleanupFailed)?;
            let rest = object.finalizers().iter().filter(|other| *other != name).cloned().collect();
            write(api, &object, rest).await?.map_err(Error::RemoveFinalizer)?;
            Ok(action)
        }
        (false, false) => {
            let all = object.finalizers().iter().cloned().chain([name.to_owned()]).collect();
            write(api, &object, all).await?.map_err(Error::AddFinalizer)?;
            Ok(Action::await_change())
        }
    }
}

/// Writes the finalizers, unless the object has changed.
async fn write<K, E>(api: &Api<K>, object: &K, finalizers: Vec<String>) -> Result<Result<K, kube::Error>, Error<E>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
    E: StdError + 'static,
{
    let name = object.meta().name.as_deref().ok_or(Error::UnnamedObject)?;
    let metadata = json!({
        "uid": object.meta().uid, "resourceVersion": object.meta().resource_version, "finalizers": finalizers,
    });
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    Ok(api.patch(name, &PatchParams::default(), &patch).await)
}
