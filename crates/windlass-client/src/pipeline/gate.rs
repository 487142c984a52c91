//! A gate that decides whether requests may be sent.

use std::{
    fmt::Debug,
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};

use bytes::Bytes;
use http::Method;
use serde_json::Value;
use thiserror::Error;
use tokio::time::{Instant, sleep_until};
use windlass_api::BoxError;

use crate::{codec, operation::Operation};

/// Checked before and during each attempt to send a request.
///
/// Use it for programs that may act only for a limited time, such as replicas that hold a lease.
pub trait Gate: Debug + Send + Sync + 'static {
    /// Returns an error if a request must not be sent. The call then fails with this error, without a retry.
    fn admit(&self, request: &Outgoing<'_>) -> Result<(), BoxError>;

    /// Returns the time until which attempts may continue; `None` if the gate is closed. An attempt without a response
    /// by then is dropped, so data that is not sent yet is never sent. The method is called again whenever the attempt
    /// makes progress, so the time may move.
    fn open_until(&self) -> Option<Instant>;
}

/// A request that is about to be sent.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Outgoing<'r> {
    /// The operation.
    pub operation: &'r Operation,
    /// The method.
    pub method: &'r Method,
    /// The body, in JSON, protobuf or CBOR. `None` if it is a stream, or empty.
    pub body: Option<&'r Bytes>,
}

impl Outgoing<'_> {
    /// Returns the body as a value, whatever its encoding. Returns `None` if there is no body or if it cannot be parsed.
    #[must_use]
    pub fn value(&self) -> Option<Value> {
        let body = self.body?;
        if windlass_cbor::is_cbor(body) {
            return codec::decode(&windlass_cbor::to_json(body).ok()?).ok();
        }
        codec::decode(body).ok()
    }
}

/// The error of an attempt during which the gate closed. The server may have carried out the request.
#[derive(Clone, Copy, Debug, Error)]
#[error("the gate closed before the response arrived")]
struct Closed;

/// Polls an attempt while the gate is open.
pub(super) async fn pass<T>(
    gate: Option<&dyn Gate>,
    mut attempt: Pin<&mut (impl Future<Output = Result<T, BoxError>> + Send)>,
) -> Result<T, BoxError> {
    let Some(gate) = gate else { return attempt.await };
    // Boxed, because most clients have no gate.
    let mut end = Box::pin(sleep_until(Instant::now()));
    poll_fn(|cx| {
        loop {
            // Check the clock in addition to the timer, which is late if the process was suspended.
            let Some(until) = gate.open_until().filter(|until| Instant::now() < *until) else {
                return Poll::Ready(Err(Closed.into()));
            };
            if until != end.deadline() {
                end.as_mut().reset(until);
            }
            // The closing time may have been extended meanwhile.
            if end.as_mut().poll(cx).is_pending() {
                return attempt.as_mut().poll(cx);
            }
        }
    })
    .await
}
