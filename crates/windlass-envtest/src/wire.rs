//! The layer between the clients of a test and its server, which records, delays and drops requests.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::BodyExt as _;
use tokio::sync::watch;
use tower::{Service, ServiceExt as _};
use windlass_api::{BoxError, Status};
use windlass_client::{Body, Transport};

use crate::{
    faults::{Effect, Rule},
    recorder::{Recorded, RequestLog},
    registry::Registry,
    requests::Sent,
};

/// The recorders and faults of an environment, shared by all of its clients.
#[derive(Debug, Default)]
pub(crate) struct Interceptors {
    /// The faults: the first that matches applies.
    pub(crate) rules: Arc<Registry<Rule>>,
    pub(crate) logs: Arc<Registry<RequestLog>>,
}

/// A service that applies recorders and faults to requests.
#[derive(Clone)]
pub(crate) struct Wire {
    transport: Transport,
    interceptors: Arc<Interceptors>,
}

/// A broken connection, from the client's point of view.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("connection lost (injected by the test)")]
struct Lost;

impl Interceptors {
    fn is_empty(&self) -> bool {
        self.rules.len() == 0 && self.logs.len() == 0
    }

    /// Returns the effect on a request, if a fault applies.
    fn effect(&self, sent: &Sent) -> Option<Effect> {
        self.rules.find_map(|rule| rule.effect_on(sent))
    }

    /// Notifies all recorders. `status` is `None` if the client got no response.
    fn record(&self, sent: &Sent, status: Option<StatusCode>) {
        self.logs.for_each(|log| {
            if log.wants(sent) {
                log.add(Recorded { sent: sent.clone(), status });
            }
        });
    }
}

impl Wire {
    pub(crate) const fn new(transport: Transport, interceptors: Arc<Interceptors>) -> Self {
        Self { transport, interceptors }
    }

    async fn carry(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let sent = Sent::new(&head, body.clone());
        let send = self.transport.oneshot(Request::from_parts(head, body.into()));
        let answer = match self.interceptors.effect(&sent) {
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
        self.interceptors.record(&sent, answer.as_ref().ok().map(Response::status));
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
        if this.interceptors.is_empty() {
            Box::pin(this.transport.oneshot(request))
        } else {
            Box::pin(this.carry(request))
        }
    }
}
