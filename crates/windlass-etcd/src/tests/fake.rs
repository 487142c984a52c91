//! A member that is simulated in the process. It answers each request as its script says.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use prost::Message;
use tokio::{net::TcpListener, task::JoinSet};
use windlass_grpc::frame;

use crate::{Endpoint, messages::StatusResponse};

/// The answer to a request.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Message(Bytes),
    Error(u32, &'static str),
    /// Messages, and an error. Without an error, the stream stays open.
    Stream(Vec<Bytes>, Option<(u32, &'static str)>),
    /// The connection is closed without an answer.
    Disconnect,
    /// Never.
    Nothing,
}

impl Answer {
    pub(super) fn message(message: &impl Message) -> Self {
        Self::Message(frame(message))
    }
}

/// Counts as another request, for each one that a member without a leader would not reject.
pub(super) const WITHOUT_LEADER: &str = "without hasleader";

type Script = dyn Fn(&str, usize) -> Answer + Send + Sync;

/// A member with a leader. Its script gets the name of the method, and the number of earlier requests with that name.
pub(super) struct Fake {
    endpoint: Endpoint,
    requests: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Fake {
    pub(super) async fn start(script: impl Fn(&str, usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let script: Arc<Script> = Arc::new(script);
        let mut tasks = JoinSet::new();
        let seen = Arc::clone(&requests);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (seen, script) = (Arc::clone(&seen), Arc::clone(&script));
                connections.spawn(async move {
                    let (close, closed) = tokio::sync::watch::channel(false);
                    let service = service_fn(|request: Request<Incoming>| {
                        answer(request, Arc::clone(&seen), Arc::clone(&script), close.clone())
                    });
                    let serving =
                        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service);
                    let mut closed = closed;
                    tokio::select! {
                        _ = serving => {}
                        _ = closed.wait_for(|closed| *closed) => {}
                    }
                });
            }
        });
        Self { endpoint, requests, _tasks: tasks }
    }

    pub(super) fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }

    /// Returns the number of requests of a method.
    pub(super) fn count(&self, method: &str) -> usize {
        self.requests.lock().iter().filter(|request| *request == method).count()
    }
}

async fn answer(
    request: Request<Incoming>,
    seen: Arc<Mutex<Vec<String>>>,
    script: Arc<Script>,
    close: tokio::sync::watch::Sender<bool>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let earlier = {
        let mut seen = seen.lock();
        seen.push(method.clone());
        if method != "Status" && !request.headers().contains_key("hasleader") {
            seen.push(WITHOUT_LEADER.into());
        }
        seen.iter().filter(|request| **request == method).count() - 1
    };
    let answer = match script(&method, earlier) {
        Answer::Nothing if method == "Status" => {
            Answer::message(&StatusResponse { version: "3.6.0".into(), leader: 1, is_learner: false })
        }
        answer => answer,
    };
    let (messages, end) = match answer {
        Answer::Message(message) => (vec![message], Some((0, ""))),
        Answer::Error(code, text) => (Vec::new(), Some((code, text))),
        Answer::Stream(messages, end) => (messages, end),
        Answer::Disconnect => {
            close.send_replace(true);
            return std::future::pending().await;
        }
        Answer::Nothing => return std::future::pending().await,
    };
    let trailers = end.map(|(status, text)| {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", status.into());
        trailers.insert("grpc-message", HeaderValue::from_static(text));
        Frame::trailers(trailers)
    });
    let stays_open = trailers.is_none();
    let frames: Vec<_> = messages.into_iter().map(Frame::data).chain(trailers).map(Ok).collect();
    let rest = stream::pending().take(usize::from(stays_open));
    Ok(Response::new(BodyExt::boxed(StreamBody::new(stream::iter(frames).chain(rest)))))
}
