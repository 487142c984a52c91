//! Forwards requests to the API server, and streams its responses back.

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, Request, Response, StatusCode, Uri, header,
    uri::{Authority, PathAndQuery},
};
use hyper_util::rt::TokioIo;
use windlass_api::ErrorChain;
use windlass_client::{Body, Client};
use windlass_serve::RequestBody;

use super::filter::{Filter, Refusal};

/// Headers that apply to a single connection and are not forwarded.
const HOP_BY_HOP: &[HeaderName] = &[
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

#[derive(Clone, Debug)]
pub(super) struct Forward {
    client: Client,
    /// Empty, or starts with a slash and ends without one.
    prefix: String,
    filter: Option<Filter>,
}

impl Forward {
    pub(super) fn new(client: Client, prefix: &str, filter: Option<Filter>) -> Self {
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("/{prefix}") };
        Self { client, prefix, filter }
    }

    pub(super) async fn answer(&self, request: Request<RequestBody>) -> Response<Body> {
        let Some(uri) = self.target(request.uri()) else {
            return refuse(StatusCode::NOT_FOUND, "nothing is served here".to_owned());
        };
        if let Some(filter) = &self.filter
            && let Err(refusal) = filter.check(request.method(), uri.path(), host(&request), request.headers())
        {
            let status = match refusal {
                Refusal::MalformedPath => StatusCode::BAD_REQUEST,
                Refusal::Filtered | Refusal::ForeignOrigin => StatusCode::FORBIDDEN,
            };
            return refuse(status, refusal.to_string());
        }
        let upgrade = request.headers().contains_key(header::UPGRADE);
        let answer = if upgrade { self.upgrade(request, uri).await } else { self.pass(request, uri).await };
        answer.unwrap_or_else(|error| refuse(StatusCode::BAD_GATEWAY, ErrorChain(&error).to_string()))
    }

    async fn pass(&self, request: Request<RequestBody>, uri: Uri) -> windlass_client::Result<Response<Body>> {
        let (mut head, body) = request.into_parts();
        head.uri = uri;
        strip(&mut head.headers);
        let mut response = self.client.request(Request::from_parts(head, Body::wrap(body))).await?;
        strip(response.headers_mut());
        Ok(response)
    }

    /// After both sides have upgraded, bytes are copied unchanged.
    async fn upgrade(&self, mut request: Request<RequestBody>, uri: Uri) -> windlass_client::Result<Response<Body>> {
        let near = hyper::upgrade::on(&mut request);
        let (mut head, _) = request.into_parts();
        head.uri = uri;
        head.headers.remove(header::HOST);
        let (head, mut far) = self.client.upgrade(Request::from_parts(head, Body::empty())).await?;
        tokio::spawn(async move {
            let carried = match near.await {
                Ok(near) => tokio::io::copy_bidirectional(&mut TokioIo::new(near), &mut far).await,
                Err(error) => Err(std::io::Error::other(error)),
            };
            if let Err(error) = carried {
                tracing::debug!(%error, "an upgraded connection broke");
            }
        });
        Ok(head.map(|()| Body::empty()))
    }

    /// Returns the URI for the server; `None` for paths outside the prefix.
    fn target(&self, uri: &Uri) -> Option<Uri> {
        let whole = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let path = whole.strip_prefix(&self.prefix)?;
        match path.chars().next() {
            Some('/') => path.parse().ok(),
            None | Some('?') => format!("/{path}").parse().ok(),
            Some(_) => None,
        }
    }
}

/// Returns the host of a request. With HTTP/2, it is in the URI.
fn host(request: &Request<RequestBody>) -> &str {
    let named = request.headers().get(header::HOST).map(|host| host.to_str().unwrap_or_default());
    named.or_else(|| request.uri().authority().map(Authority::as_str)).unwrap_or_default()
}

fn strip(headers: &mut HeaderMap) {
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    headers.remove(header::HOST);
}

fn refuse(status: StatusCode, why: String) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from(why + "\n")));
    *response.status_mut() = status;
    response
}
