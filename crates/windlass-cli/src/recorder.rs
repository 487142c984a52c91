//! Counts the requests that reach an API server in this process.

use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{FutureExt, future::BoxFuture};
use http::{Method, Request, Response};
use parking_lot::Mutex;
use tower::Service;

/// A service that counts what passes through it.
#[derive(Clone, Debug)]
pub(crate) struct Recorded<S> {
    inner: S,
    log: RequestLog,
}

/// What passed. Clones are handles to the same log.
#[derive(Clone)]
pub(crate) struct RequestLog(Arc<Inner>);

struct Inner {
    counts: Mutex<BTreeMap<&'static str, usize>>,
    on_write: Box<dyn Fn(&Write<'_>) + Send + Sync>,
}

/// A request that was to change something, and its answer.
#[derive(Debug)]
pub(crate) struct Write<'w> {
    /// How.
    pub(crate) method: &'w Method,
    /// What, from the resource's name on: `pods/web-1/status`.
    pub(crate) target: &'w str,
    /// The answer.
    pub(crate) status: u16,
}

impl RequestLog {
    /// Calls `on_write` after each request that was to change something.
    pub(crate) fn new(on_write: impl Fn(&Write<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner { counts: Mutex::default(), on_write: Box::new(on_write) }))
    }

    /// Puts the log before a service.
    pub(crate) fn record<S>(&self, inner: S) -> Recorded<S> {
        Recorded { inner, log: self.clone() }
    }

    /// How many requests of each verb there were.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, usize> {
        self.0.counts.lock().clone()
    }
}

impl fmt::Debug for RequestLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RequestLog").field(&*self.0.counts.lock()).finish()
    }
}

impl<S, B, R> Service<Request<B>> for Recorded<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
    S::Error: 'static,
    R: 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<R>, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let verb = verb(&request);
        *self.log.0.counts.lock().entry(verb).or_default() += 1;
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let answer = self.inner.call(request);
        if method == Method::GET {
            return answer.boxed();
        }
        let log = self.log.clone();
        async move {
            let answer = answer.await?;
            (log.0.on_write)(&Write { method: &method, target: target(&path), status: answer.status().as_u16() });
            Ok(answer)
        }
        .boxed()
    }
}

fn verb<B>(request: &Request<B>) -> &'static str {
    let query = request.uri().query().unwrap_or_default();
    match *request.method() {
        Method::GET if query.split('&').any(|pair| pair == "watch=true" || pair == "watch=1") => "watch",
        Method::GET => "read",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

/// A path without its prefix: group, version and namespace are noise for a reader who follows pods.
fn target(path: &str) -> &str {
    let after = |marker: &str| path.find(marker).map(|at| &path[at + marker.len()..]);
    let in_namespace = after("/namespaces/").and_then(|rest| rest.split_once('/')).map(|(_, rest)| rest);
    let version =
        after("/api/").or_else(|| after("/apis/").and_then(|rest| rest.split_once('/')).map(|(_, rest)| rest));
    let in_cluster = version.and_then(|rest| rest.split_once('/')).map(|(_, rest)| rest);
    in_namespace.filter(|rest| !matches!(*rest, "status" | "finalize")).or(in_cluster).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_begin_at_the_resource() {
        assert_eq!(target("/api/v1/namespaces/default/pods/web-1/status"), "pods/web-1/status");
        assert_eq!(target("/apis/apps/v1/namespaces/default/replicasets"), "replicasets");
        assert_eq!(target("/api/v1/nodes/node-0"), "nodes/node-0");
        assert_eq!(target("/api/v1/namespaces/team"), "namespaces/team");
        assert_eq!(target("/api/v1/namespaces/team/finalize"), "namespaces/team/finalize");
        assert_eq!(target("/version"), "/version");
    }

    #[test]
    fn a_watch_is_told_from_a_read() {
        let get = |uri: &str| verb(&Request::get(uri).body(()).unwrap());
        assert_eq!(get("/api/v1/pods?watch=true&resourceVersion=1"), "watch");
        assert_eq!(get("/api/v1/pods?labelSelector=watch%3Dtrue"), "read");
    }
}
