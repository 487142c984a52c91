//! Attribution of write requests to reconciles.
//!
//! A reconcile and the requests that it awaits run on one task. Requests of spawned tasks, or requests delegated to
//! other tasks, are not attributed to it.

use std::{future::Future, sync::Arc};

use futures::future::Either;
use windlass_api::ObjectKey;
use windlass_client::{
    Client, Verb,
    metrics::{Attempt, ClientMetrics},
};

use crate::{
    observer::{ReconcileEvent, ReconcileWrote},
    reporter::Reporter,
};

/// A running reconcile.
#[derive(Clone, Debug)]
pub(crate) struct CurrentReconcile {
    pub(crate) reporter: Reporter,
    pub(crate) controller: Arc<str>,
    pub(crate) key: ObjectKey,
    pub(crate) id: Arc<str>,
}

/// Receives the requests of a controller's client.
#[derive(Debug)]
struct WriteReporter;

tokio::task_local! {
    static CURRENT: CurrentReconcile;
}

/// Reports the writes of a future to the observers, if there are any. The future must send them through a client
/// returned by [`reporting_client`].
pub(crate) fn during<F: Future, C: FnOnce() -> CurrentReconcile>(
    reporter: &Reporter,
    current: C,
    reconcile: F,
) -> impl Future<Output = F::Output> + use<F, C> {
    if reporter.is_observed() { Either::Left(CURRENT.scope(current(), reconcile)) } else { Either::Right(reconcile) }
}

/// Returns a controller's client that reports its writes to observers, or the same client if there are none.
pub(crate) fn reporting_client(client: Client, reporter: &Reporter) -> Client {
    if reporter.is_observed() { client.with_metrics(WriteReporter) } else { client }
}

impl ClientMetrics for WriteReporter {
    fn attempted(&self, attempt: &Attempt<'_>) {
        let &Attempt { operation, status, took, .. } = attempt;
        if matches!(operation.verb, Verb::Get | Verb::List | Verb::Watch | Verb::Connect) || attempt.method.is_safe() {
            return;
        }
        // Writes outside of a reconcile are not attributed.
        let _ = CURRENT.try_with(|CurrentReconcile { reporter, controller, key, id }| {
            let status = status.map(|status| status.as_u16());
            reporter.observe(&ReconcileEvent::Wrote(ReconcileWrote { controller, key, id, operation, status, took }));
        });
    }
}
