//! A client that gets the same response to every request.

use std::convert::Infallible;

use bytes::Bytes;
use futures::stream;
use http::{Request, Response};
use http_body_util::StreamBody;
use windlass_api::{ApiResource, GroupVersionKind};
use windlass_client::{Body, Client, ResourceListWatch};

/// Returns a `ListWatch` whose response is `body`, in pieces of this length.
pub fn answered(body: &Bytes, length: usize) -> ResourceListWatch {
    let pieces: Vec<_> =
        (0..body.len()).step_by(length).map(|at| body.slice(at..body.len().min(at + length))).collect();
    let answer = move |_: Request<Body>| {
        let frames = pieces.clone().into_iter().map(|piece| Ok::<_, Infallible>(http_body::Frame::data(piece)));
        async move { Ok::<_, Infallible>(Response::new(StreamBody::new(stream::iter(frames)))) }
    };
    let config_maps = ApiResource::namespaced(GroupVersionKind::new("", "v1", "ConfigMap"), "configmaps");
    Client::from_service(tower::service_fn(answer), "default").with_object_limit(1 << 10).list_watch(&config_maps, None)
}
