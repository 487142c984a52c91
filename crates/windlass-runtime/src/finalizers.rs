//! What must be done before an object may go: finalizers, in order.
//!
//! # What is guaranteed
//!
//! - A live object is reconciled only when it has all finalizers: what its reconcile makes will be cleaned up.
//! - Of an object that is being deleted, one after the other is cleaned up, and each finalizer is removed when its clean-up
//!   has succeeded. What comes later waits for what comes earlier.
//! - Finalizers of others stay as they are, whoever writes at the same time: a conflict is an error, and tried again.
//!
//! # What is not
//!
//! - A clean-up may run several times, and must not mind: its finalizer is removed afterwards.

use std::{
    fmt::{self, Debug},
    future::Future,
    sync::Arc,
};

use futures::{FutureExt, future::BoxFuture};
use serde_json::json;
use windlass_api::{BoxError, ObjectExt as _, Patch, Resource};

use crate::{Context, Error, Result};

/// The clean-ups of a kind, by the names of their finalizers.
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
///     // … what is to be done for a live object.
///     # drop(object);
///     Ok(Action::await_change())
/// }
/// ```
#[must_use = "finalizers do nothing until they are asked to finalize an object"]
pub struct Finalizers<K> {
    in_order: Vec<Finalizer<K>>,
}

struct Finalizer<K> {
    name: String,
    clean_up: Box<dyn Fn(Arc<K>, Context) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>,
}

/// How far it is with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "only live objects are to be reconciled"]
pub enum Finalized<K> {
    /// It is live, and has all finalizers.
    Live(Arc<K>),
    /// It is being deleted, and all is cleaned up: nothing is left to be done.
    CleanedUp,
}

impl<K: Resource> Finalizers<K> {
    /// None yet.
    pub fn new() -> Self {
        Self { in_order: Vec::new() }
    }

    /// One more, which is cleaned up after those before. The name is like `example.com/bucket`.
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

    /// Gives a live object the finalizers that it lacks; cleans up for one that is being deleted.
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
                // With the last finalizer it goes, whoever has removed it.
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

/// Writes the finalizers of an object that nobody else has changed.
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
