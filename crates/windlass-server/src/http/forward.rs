//! Requests for other API servers.

use std::sync::Arc;

use http::{Response, StatusCode};

use super::{Exchange, body::Body, failure::Failure, read::RequestBody, respond};
use crate::{
    aggregation::{self, Forwarded, RemoteService},
    state::State,
};

/// Forwards a request to another API server.
pub(super) async fn forward(
    server: &Arc<State>,
    exchange: &Exchange,
    remote: &RemoteService,
    body: RequestBody,
) -> Result<Response<Body>, Failure> {
    let registry = server.registry().await?;
    let forwarded = Forwarded {
        method: &exchange.method,
        path: &exchange.info.path,
        query: &exchange.query,
        headers: &exchange.headers,
        user: &exchange.user,
        front_proxy: server.authenticator().front_proxy(),
        client: exchange.remote,
        audit_id: &exchange.audit_id,
    };
    match aggregation::forward(registry, remote, &forwarded, body).await {
        Ok(response) => Ok(response.map(Body::received)),
        // The refusal of a redirect replaces the body of the response, without a line feed.
        Err(refusal) if refusal.code == StatusCode::BAD_GATEWAY => {
            Ok(respond::respond(refusal.code, respond::TEXT, Body::whole(refusal.text)))
        }
        Err(refusal) => Ok(respond::text(refusal.code, refusal.text + "\n")),
    }
}
