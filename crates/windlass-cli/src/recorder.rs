//! A service that counts the requests to an API server in this process and reports its writes.

use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde::Deserialize;
use tower::Service;
use windlass_api::BoxError;
use windlass_client::Body;

/// A service that records the requests that it forwards.
#[derive(Clone, Debug)]
pub(crate) struct Recorded<S> {
    inner: S,
    log: RequestLog,
}

/// A log of requests. Clones are handles of the same log.
#[derive(Clone)]
pub(crate) struct RequestLog(Arc<Inner>);

struct Inner {
    counts: Mutex<BTreeMap<&'static str, usize>>,
    on_write: Box<dyn Fn(&Write<'_>) + Send + Sync>,
}

/// A write request and its response.
#[derive(Debug)]
pub(crate) struct Write<'w> {
    /// The HTTP method.
    pub(crate) method: &'w Method,
    /// The path from the resource's name on: `pods/web-1/status`. For a created object, it includes the assigned name.
    pub(crate) target: &'w str,
    /// The response's status code.
    pub(crate) status: u16,
    /// The API's reason for a failure; empty on success.
    pub(crate) reason: &'w str,
}

/// The parsed fields of a response.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    metadata: Named,
    reason: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

impl RequestLog {
    /// Creates a log that calls `on_write` after each write request.
    pub(crate) fn new(on_write: impl Fn(&Write<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner { counts: Mutex::default(), on_write: Box::new(on_write) }))
    }

    /// Wraps a service.
    pub(crate) fn record<S>(&self, inner: S) -> Recorded<S> {
        Recorded { inner, log: self.clone() }
    }

    /// Returns the number of requests for each verb.
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
    S::Error: Into<BoxError> + 'static,
    R: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let verb = verb(&request);
        *self.log.0.counts.lock().entry(verb).or_default() += 1;
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let answer = self.inner.call(request);
        if method == Method::GET {
            return async move { Ok(answer.await.map_err(Into::into)?.map(Body::wrap)) }.boxed();
        }
        let log = self.log.clone();
        async move {
            // The response of a write is a single object, already in memory.
            let (head, body) = answer.await.map_err(Into::into)?.into_parts();
            let body = body.collect().await.map_err(Into::into)?.to_bytes();
            let Answer { metadata, reason } = serde_json::from_slice(&body).unwrap_or_default();
            let created = |collection: &str| format!("{collection}/{}", metadata.name);
            let target = match target(&path) {
                collection if method == Method::POST && !metadata.name.is_empty() && !collection.contains('/') => {
                    created(collection)
                }
                target => target.to_owned(),
            };
            let status = head.status.as_u16();
            (log.0.on_write)(&Write { method: &method, target: &target, status, reason: &reason });
            Ok(Response::from_parts(head, Body::from(body)))
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

/// Returns a path without its prefix: group, version and namespace are omitted to keep the output short.
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

    #[tokio::test]
    async fn request_log_shows_created_name_and_rejection_reason() {
        use windlass_api::k8s_openapi::api::core::v1::ConfigMap;
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = RequestLog::new({
            let told = Arc::clone(&told);
            move |write| {
                let Write { method, target, status, reason } = write;
                told.lock().push(format!("{method} {target} {status} {reason}"));
            }
        });
        let server = windlass_server::Server::builder().build();
        let client = windlass_client::Client::from_service(log.record(server.service()), "default");
        let mut map = ConfigMap::default();
        map.metadata.generate_name = Some("m-".to_owned());
        let made = client.create(&map).await.unwrap();
        let name = made.metadata.name.clone().unwrap();
        map.metadata.name = Some(name.clone());
        client.create(&map).await.unwrap_err();
        client.delete::<ConfigMap>(name.as_str()).await.unwrap();
        let expected = [
            format!("POST configmaps/{name} 201 "),
            "POST configmaps 409 AlreadyExists".to_owned(),
            format!("DELETE configmaps/{name} 200 "),
        ];
        assert_eq!(*told.lock(), expected);
        assert_eq!(log.counts(), BTreeMap::from([("create", 2), ("delete", 1)]));
    }

    #[test]
    fn watch_is_distinguished_from_read() {
        let get = |uri: &str| verb(&Request::get(uri).body(()).unwrap());
        assert_eq!(get("/api/v1/pods?watch=true&resourceVersion=1"), "watch");
        assert_eq!(get("/api/v1/pods?labelSelector=watch%3Dtrue"), "read");
    }
}
