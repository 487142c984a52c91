//! A kube-rs client over a Windlass client.

use http::{Request, Response};
use tower::service_fn;
use windlass_api::BoxError;
use windlass_client::{Body, Client, Config, Error};

/// Returns a kube-rs client that sends its requests through a Windlass client.
///
/// It shares the connections, the credentials, the rate limit, the retries and the gate of `client`. With the client of
/// a `windlass_envtest::Environment`, requests go to the API server in this process, and the faults and recorders of the
/// environment apply to them.
///
/// Writes of the kube-rs client are not reported to the caches of a manager: a cached read may return an older state.
/// Exec, attach and port-forward need a WebSocket and fail; use the same verbs of the Windlass client.
///
/// # Panics
/// Panics if called outside of a tokio runtime, as `kube::Client::new` does.
#[must_use]
pub fn client(client: &Client) -> kube::Client {
    let sender = client.clone();
    let service = service_fn(move |request| send(sender.clone(), request));
    kube::Client::new(service, client.default_namespace())
}

/// Returns a kube-rs client for the server of a configuration, without a rate limit, as is usual in kube-rs.
///
/// It shares the connections and the credentials of all Windlass clients that are created from `config` or its clones.
///
/// # Panics
/// Panics if called outside of a tokio runtime, as `kube::Client::new` does.
pub fn client_from(config: &Config) -> Result<kube::Client, Error> {
    Ok(client(&Client::new(config.clone())?.without_rate_limit()))
}

/// Sends a request. Its body is collected first: the Windlass client can send it again only if it is in memory.
async fn send(client: Client, request: Request<kube::client::Body>) -> Result<Response<Body>, BoxError> {
    let (parts, body) = request.into_parts();
    let body = body.collect_bytes().await?;
    Ok(client.request(Request::from_parts(parts, body)).await?)
}
