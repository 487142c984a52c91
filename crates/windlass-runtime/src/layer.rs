//! Layers: middleware around each reconcile of a controller, for timing, auditing, tracing or rejection.

use std::fmt::{self, Debug};

use futures::future::BoxFuture;
use windlass_api::{BoxError, ObjectKey};

use crate::{Action, Retry};

/// Wraps the reconciles of a controller. Closures with these two arguments are layers.
///
/// ```
/// # use futures::FutureExt;
/// # use windlass_api::k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_runtime::{Controller, layer::{ReconcileCall, ReconcileFuture}};
/// # fn layered() -> Controller<ConfigMap> {
/// Controller::<ConfigMap>::new().layer(|call: ReconcileCall<'_>, inner: ReconcileFuture| {
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
    /// Returns the future that runs in place of `inner`. `inner` runs only when it is awaited.
    fn around(&self, call: ReconcileCall<'_>, inner: ReconcileFuture) -> ReconcileFuture;
}

/// The future of a reconcile. It returns `Ok(None)` if the object does not exist.
pub type ReconcileFuture = BoxFuture<'static, Result<Option<Action>, Failure>>;

/// The identity of a reconcile.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ReconcileCall<'c> {
    /// The controller's name.
    pub controller: &'c str,
    /// The key of the reconciled object.
    pub key: &'c ObjectKey,
    /// The reconcile ID, as in the log.
    pub id: &'c str,
}

/// A reconcile that failed.
pub struct Failure {
    /// The error.
    pub error: BoxError,
    /// The retry policy for this error.
    pub retry: Retry,
}

impl<F: Fn(ReconcileCall<'_>, ReconcileFuture) -> ReconcileFuture + Send + Sync + 'static> Layer for F {
    fn around(&self, call: ReconcileCall<'_>, inner: ReconcileFuture) -> ReconcileFuture {
        self(call, inner)
    }
}

impl Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure").field("error", &self.error).field("retry", &self.retry).finish()
    }
}
