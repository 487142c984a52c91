//! Whether requests may be sent at all, at this moment.

use std::{
    fmt::Debug,
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};

use bytes::Bytes;
use http::Method;
use thiserror::Error;
use tokio::time::{Instant, sleep_until};
use windlass_api::BoxError;

use crate::error::Operation;

/// Is asked before each attempt to send a request, and while that is under way.
///
/// For programs that may act for a time only, such as replicas that hold a lease.
pub trait Gate: Debug + Send + Sync + 'static {
    /// Whether a request may be sent. If not, the call fails with the reason, and is not tried again.
    fn admit(&self, request: &Outgoing<'_>) -> Result<(), BoxError>;

    /// Until when attempts may go on, as far as is known by now; `None`: not any more. An attempt that has no answer by
    /// then is dropped: what has not left yet is not sent. It is asked again whenever something happens to an attempt.
    fn open_until(&self) -> Option<Instant>;
}

/// A request that is about to be sent.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Outgoing<'r> {
    /// What is being done.
    pub operation: &'r Operation,
    /// The method.
    pub method: &'r Method,
    /// The body; `None` where it is a stream, or there is none.
    pub body: Option<&'r Bytes>,
}

/// The gate has closed while an answer was waited for. What was asked for may be carried out.
#[derive(Clone, Copy, Debug, Error)]
#[error("the request may not be waited for any longer")]
struct Closed;

/// Goes on with an attempt as long as the gate is open.
pub(super) async fn pass<T>(
    gate: Option<&dyn Gate>,
    mut attempt: Pin<&mut (impl Future<Output = Result<T, BoxError>> + Send)>,
) -> Result<T, BoxError> {
    let Some(gate) = gate else { return attempt.await };
    // In a place of its own: most clients have no gate.
    let mut end = Box::pin(sleep_until(Instant::now()));
    poll_fn(|cx| {
        loop {
            // The clock is asked, and not the timer alone: that is late when the process has stood still.
            let Some(until) = gate.open_until().filter(|until| Instant::now() < *until) else {
                return Poll::Ready(Err(Closed.into()));
            };
            if until != end.deadline() {
                end.as_mut().reset(until);
            }
            // It may have been put off meanwhile.
            if end.as_mut().poll(cx).is_pending() {
                return attempt.as_mut().poll(cx);
            }
        }
    })
    .await
}
