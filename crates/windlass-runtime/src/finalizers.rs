//! Finalizers: ordered clean-up of an object before its deletion.
//!
//! # Guarantees
//!
//! - A live object is reconciled only after it has all finalizers, so everything that its reconcile creates will be
//!   cleaned up.
//! - The clean-ups of a deleted object run one after the other, in order. Each finalizer is removed after its clean-up
//!   has succeeded.
//! - Finalizers of other controllers are never changed. A concurrent write leads to a conflict error, which is retried.
//!
//! # Not guaranteed
//!
//! - A clean-up may run several times, because its finalizer is removed afterwards. It must be idempotent.

use std::{
    fmt::{self, Debug},
    future::Future,
    sync::Arc,
};

use futures::{FutureExt, future::BoxFuture};
use serde_json::json;
use windlass_api::{BoxError, ObjectExt as _, Patch, Resource};

use crate::{Context, Error, Result};

/// The finalizers of a kind, each with a clean-up function.
///
/// ```
/// # use windlass_api::k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_runtime::{Action, Context, Error, Result, finalizers::{Finalized, Finalizers}};
/// # use std::sync::Arc;
/// fn clean_ups() -> Finalizers<ConfigMap> {
///     Finalizers::new()
///         .then("example.com/paint", async |_: Arc<ConfigMap>, _: Context| Ok::<_, Error>(()))
///         .then("example.com/bucket", async |_: Arc<ConfigMap>, _: Context| Ok::<_, Error>(()))
/// }
///
/// async fn reconcile(object: Arc<ConfigMap>, cx: Context) -> Result<Action> {
///     let Finalized::Live(object) = clean_ups().finalize(object, &cx).await? else {
///         return Ok(Action::await_change());
///     };
///     // … reconcile the live object.
///     # drop(object);
///     Ok(Action::await_change())
/// }
/// ```
#[must_use = "finalizers do nothing until `finalize` is called"]
pub struct Finalizers<K> {
    in_order: Vec<Finalizer<K>>,
}

struct Finalizer<K> {
    name: String,
    clean_up: Box<dyn Fn(Arc<K>, Context) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>,
}

/// The state of an object after its finalizers were processed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "reconcile only live objects"]
pub enum Finalized<K> {
    /// The object is live and has all finalizers.
    Live(Arc<K>),
    /// The object is being deleted, and all clean-ups have succeeded.
    CleanedUp,
}

impl<K: Resource> Finalizers<K> {
    /// Creates an empty list of finalizers.
    pub fn new() -> Self {
        Self { in_order: Vec::new() }
    }

    /// Adds a finalizer, which is processed after the previous ones. The name has the form `example.com/bucket`.
    pub fn then<F, E>(
        mut self,
        name: impl Into<String>,
        clean_up: impl Fn(Arc<K>, Context) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let clean_up = move |object, cx| clean_up(object, cx).map(|result| result.map_err(Into::into)).boxed();
        self.in_order.push(Finalizer { name: name.into(), clean_up: Box::new(clean_up) });
        self
    }

    /// Adds missing finalizers to a live object, or runs the clean-ups of an object that is being deleted.
    pub async fn finalize(&self, object: Arc<K>, cx: &Context) -> Result<Finalized<K>> {
        if !object.is_deleting() {
            return self.complete(object, cx).await.map(Finalized::Live);
        }
        let mut object = object;
        for Finalizer { name, clean_up } in &self.in_order {
            if !object.finalizers().contains(name) {
                continue;
            }
            clean_up(Arc::clone(&object), cx.clone()).await.map_err(Error::other)?;
            let rest: Vec<_> = object.finalizers().iter().filter(|other| *other != name).cloned().collect();
            match write(&*object, &rest, cx).await {
                Ok(written) => object = Arc::new(written),
                // Removing the last finalizer deletes the object, whichever client removed it.
                Err(Error::Client(error)) if error.is_not_found() => return Ok(Finalized::CleanedUp),
                Err(error) => return Err(error),
            }
        }
        Ok(Finalized::CleanedUp)
    }

    async fn complete(&self, object: Arc<K>, cx: &Context) -> Result<Arc<K>> {
        let mut names = object.finalizers().to_vec();
        let missing = self.in_order.iter().filter(|finalizer| !object.finalizers().contains(&finalizer.name));
        names.extend(missing.map(|finalizer| finalizer.name.clone()));
        if names.len() == object.finalizers().len() {
            return Ok(object);
        }
        write(&*object, &names, cx).await.map(Arc::new)
    }
}

/// Writes the finalizers, and fails if the object was modified concurrently.
async fn write<K: Resource>(object: &K, finalizers: &[String], cx: &Context) -> Result<K> {
    let metadata = json!({
        "uid": object.uid(), "resourceVersion": object.resource_version(), "finalizers": finalizers,
    });
    Ok(cx.live().patch::<K>(object.object_ref(), Patch::Merge(json!({"metadata": metadata}))).await?)
}

impl<K: Resource> Default for Finalizers<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> Debug for Finalizers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.in_order.iter().map(|finalizer| &finalizer.name)).finish()
    }
}
