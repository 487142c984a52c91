//! The layer between the clients of a test and its server, which records, delays and drops requests.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::BodyExt as _;
use parking_lot::RwLock;
use tokio::sync::watch;
use tower::{Service, ServiceExt as _};
use windlass_api::{BoxError, Status};
use windlass_client::{Body, Transport};

use crate::{
    faults::{Effect, Rule},
    recorder::{Recorded, Tape},
    requests::Sent,
};

/// The recorders and faults of an environment, shared by all of its clients.
#[derive(Default)]
pub(crate) struct Taps {
    /// The faults in the order of their creation: the first that matches applies.
    rules: RwLock<Vec<Arc<Rule>>>,
    tapes: RwLock<Vec<Arc<Tape>>>,
}

/// A service that applies recorders and faults to requests.
#[derive(Clone)]
pub(crate) struct Wire {
    transport: Transport,
    taps: Arc<Taps>,
}

/// A broken connection, from the client's point of view.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("connection lost (injected by the test)")]
struct Lost;

impl Taps {
    pub(crate) fn add_rule(&self, rule: Arc<Rule>) {
        self.rules.write().push(rule);
    }

    pub(crate) fn remove_rule(&self, rule: &Arc<Rule>) {
        self.rules.write().retain(|other| !Arc::ptr_eq(other, rule));
    }

    pub(crate) fn add_tape(&self, tape: Arc<Tape>) {
        self.tapes.write().push(tape);
    }

    pub(crate) fn remove_tape(&self, tape: &Arc<Tape>) {
        self.tapes.write().retain(|other| !Arc::ptr_eq(other, tape));
    }

    fn is_idle(&self) -> bool {
        self.rules.read().is_empty() && self.tapes.read().is_empty()
    }

    /// Returns the effect on a request, if a fault applies.
    fn effect(&self, sent: &Sent) -> Option<Effect> {
        self.rules.read().iter().find_map(|rule| rule.effect_on(sent))
    }

    /// Notifies all recorders. `status` is `None` if the client got no response.
    fn record(&self, sent: &Sent, status: Option<StatusCode>) {
        for tape in self.tapes.read().iter().filter(|tape| tape.wants(sent)) {
            tape.add(Recorded { sent: sent.clone(), status });
        }
    }
}

impl fmt::Debug for Taps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rules, tapes) = (self.rules.read().len(), self.tapes.read().len());
        f.debug_struct("Taps").field("rules", &rules).field("tapes", &tapes).finish()
    }
}

impl Wire {
    pub(crate) const fn new(transport: Transport, taps: Arc<Taps>) -> Self {
        Self { transport, taps }
    }

    async fn carry(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let sent = Sent::new(&head, body.clone());
        let send = self.transport.oneshot(Request::from_parts(head, body.into()));
        let answer = match self.taps.effect(&sent) {
            None => send.await,
            Some(Effect::Answer(status)) => Ok(answer(&status)),
            Some(Effect::LoseRequest) => Err(Lost.into()),
            Some(Effect::LoseAnswer) => match send.await {
                Ok(_) => Err(Lost.into()),
                failed => failed,
            },
            Some(Effect::Delay(by)) => {
                pause(by).await;
                send.await
            }
            Some(Effect::Hold(held)) => {
                released(held).await;
                send.await
            }
        };
        self.taps.record(&sent, answer.as_ref().ok().map(Response::status));
        answer
    }
}

async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

async fn released(mut held: watch::Receiver<bool>) {
    // A dropped fault no longer holds the request.
    let _ = held.wait_for(|held| !held).await;
}

/// Returns a status as a server's response.
pub(crate) fn answer(status: &Status) -> Response<Body> {
    let body = serde_json::to_vec(status).expect("a status is plain data");
    let mut answer = Response::new(Body::from(body));
    *answer.status_mut() = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    if let Some(after) = status.retry_after() {
        answer.headers_mut().insert(http::header::RETRY_AFTER, after.as_secs().into());
    }
    answer
}

impl Service<Request<Body>> for Wire {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        if this.taps.is_idle() { Box::pin(this.transport.oneshot(request)) } else { Box::pin(this.carry(request)) }
    }
}
