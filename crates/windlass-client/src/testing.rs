//! A fake server made from a closure, for tests of this crate.

#[cfg(feature = "websockets")]
pub(crate) mod kubelet;

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tower::Service;

use crate::{Client, body::Body};

type Answer = dyn Fn(&Request<Bytes>) -> Response<Body> + Send + Sync;

/// Answers each request with a closure and records the requests.
#[derive(Clone)]
pub(crate) struct Fake {
    answer: Arc<Answer>,
    seen: Arc<Mutex<Vec<Request<Bytes>>>>,
}

impl Fake {
    pub(crate) fn new(answer: impl Fn(&Request<Bytes>) -> Response<Body> + Send + Sync + 'static) -> Self {
        Self { answer: Arc::new(answer), seen: Arc::default() }
    }

    /// Returns the same JSON for every request.
    pub(crate) fn json(json: &'static str) -> Self {
        Self::new(move |_| Response::new(json.into()))
    }

    /// Returns the same failure for every request.
    pub(crate) fn failure(code: u16, body: &'static str) -> Self {
        Self::new(move |_| Response::builder().status(code).body(body.into()).unwrap())
    }

    pub(crate) fn client(&self) -> Client {
        Client::from_service(self.clone(), "home")
    }

    /// Returns the recorded requests, each as `METHOD path?query`.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().iter().map(|request| format!("{} {}", request.method(), request.uri())).collect()
    }

    /// Returns the last request.
    pub(crate) fn last(&self) -> Request<Bytes> {
        self.seen.lock().last().expect("a request").clone()
    }
}

impl Service<Request<Body>> for Fake {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.expect("bodies of requests are whole").to_bytes();
            let request = Request::from_parts(head, body);
            let response = (this.answer)(&request);
            this.seen.lock().push(request);
            Ok(response)
        })
    }
}

/// Returns a body of these chunks, which then ends or breaks.
pub(crate) fn chunks(chunks: Vec<&'static str>, end: End) -> Body {
    Body::wrap(Chunks { chunks: chunks.into(), end })
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Clean,
    Broken,
}

struct Chunks {
    chunks: std::collections::VecDeque<&'static str>,
    end: End,
}

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(match (self.chunks.pop_front(), self.end) {
            (Some(chunk), _) => Some(Ok(http_body::Frame::data(Bytes::from_static(chunk.as_bytes())))),
            (None, End::Clean) => None,
            (None, End::Broken) => Some(Err(std::io::ErrorKind::ConnectionReset.into())),
        })
    }
}

/// A temporary folder for a test, removed on drop.
pub(crate) struct Folder(std::path::PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("windlass-client-{}-{test}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.0
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> std::path::PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
