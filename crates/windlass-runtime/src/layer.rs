//! What goes around every reconcile of a controller: timing, auditing, tracing, refusing.

use std::fmt::{self, Debug};

use futures::future::BoxFuture;
use windlass_api::{BoxError, ObjectKey};

use crate::{Action, Retry};

/// Wraps the reconciles of a controller. Closures of the two arguments are layers.
///
/// ```
/// # use futures::FutureExt;
/// # use windlass_api::k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_runtime::{Controller, layer::{Call, Reconciling}};
/// # fn layered() -> Controller<ConfigMap> {
/// Controller::<ConfigMap>::new().layer(|call: Call<'_>, inner: Reconciling| {
///     let key = call.key.clone();
///     async move {
///         let result = inner.await;
///         println!("{key}: {}", if result.is_ok() { "well" } else { "not well" });
///         result
///     }
///     .boxed()
/// })
/// # }
/// ```
pub trait Layer: Send + Sync + 'static {
    /// What is to be done in place of `inner`, which does nothing unless it is awaited.
    fn around(&self, call: Call<'_>, inner: Reconciling) -> Reconciling;
}

/// A reconcile that is to be done. `Ok(None)`: the object is gone.
pub type Reconciling = BoxFuture<'static, Result<Option<Action>, Failure>>;

/// Which reconcile it is.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Call<'c> {
    /// The controller's name.
    pub controller: &'c str,
    /// What is reconciled.
    pub key: &'c ObjectKey,
    /// The same as in the log.
    pub id: &'c str,
}

/// A reconcile that failed.
pub struct Failure {
    /// Why.
    pub error: BoxError,
    /// Whether to try again.
    pub retry: Retry,
}

impl<F: Fn(Call<'_>, Reconciling) -> Reconciling + Send + Sync + 'static> Layer for F {
    fn around(&self, call: Call<'_>, inner: Reconciling) -> Reconciling {
        self(call, inner)
    }
}

impl Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure").field("error", &self.error).field("retry", &self.retry).finish()
    }
}
