//! Which reconcile a write belongs to.
//!
//! A reconcile runs on one task, and so do the requests that it awaits. What it has spawned, or left to somebody else to
//! send, is not taken for its own.

use std::{future::Future, sync::Arc};

use futures::future::Either;
use windlass_api::ObjectKey;
use windlass_client::{
    Client, Verb,
    metrics::{Attempt, ClientMetrics},
};

use crate::{
    manager::Reporter,
    observer::{ReconcileEvent, ReconcileWrote},
};

/// A reconcile that is being done.
#[derive(Clone, Debug)]
pub(crate) struct Acting {
    pub(crate) reporter: Reporter,
    pub(crate) controller: Arc<str>,
    pub(crate) key: ObjectKey,
    pub(crate) id: Arc<str>,
}

/// Hears of the requests of a controller's client.
#[derive(Debug)]
struct Writes;

tokio::task_local! {
    static ACTING: Acting;
}

/// What the future writes is told to the observers, if there are any, as long as it goes through a client that is [`told`].
pub(crate) fn during<F: Future, A: FnOnce() -> Acting>(
    reporter: &Reporter,
    acting: A,
    reconcile: F,
) -> impl Future<Output = F::Output> + use<F, A> {
    if reporter.is_observed() { Either::Left(ACTING.scope(acting(), reconcile)) } else { Either::Right(reconcile) }
}

/// The client of a controller, whose writes are told to observers; the same if there are none.
pub(crate) fn told(client: Client, reporter: &Reporter) -> Client {
    if reporter.is_observed() { client.with_metrics(Writes) } else { client }
}

impl ClientMetrics for Writes {
    fn attempted(&self, attempt: &Attempt<'_>) {
        let &Attempt { operation, status, took, .. } = attempt;
        if matches!(operation.verb, Verb::Get | Verb::List | Verb::Watch | Verb::Connect) || attempt.method.is_safe() {
            return;
        }
        // Outside of a reconcile it is nobody's.
        let _ = ACTING.try_with(|Acting { reporter, controller, key, id }| {
            let status = status.map(|status| status.as_u16());
            reporter.observe(&ReconcileEvent::Wrote(ReconcileWrote { controller, key, id, operation, status, took }));
        });
    }
}
