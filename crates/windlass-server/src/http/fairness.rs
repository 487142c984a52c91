//! The seats of requests.

use std::pin::pin;

use futures::TryFutureExt as _;
use http::{HeaderMap, HeaderName};
use tokio::time::Instant;

use super::{Exchange, failure::Failure, until};
use crate::{
    aggregation::Remotes,
    flow_control::{Outcome, Schema},
    identity::MASTERS,
    state::State,
};

/// The UIDs of the FlowSchema and the PriorityLevelConfiguration of a request.
const HEADERS: [HeaderName; 2] = [
    HeaderName::from_static("x-kubernetes-pf-flowschema-uid"),
    HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid"),
];

/// Waits until a request may run. The seats of the request are occupied until its response begins.
pub(super) async fn enter(server: &State, exchange: &Exchange) -> Outcome {
    let Exchange { info, query, user, deadline, .. } = exchange;
    // The mandatory schema for administrators is built in. A failure is reported by the authorization.
    if server.flow_control().fairness().is_some() && !user.is_in(MASTERS) {
        let ready = pin!(server.ensure_deferred().map_err(Failure::from));
        let _ = until(*deadline, ready).await;
    }
    let limit = exchange.time_limit(server).ok().flatten().unwrap_or(server.request_timeout);
    let limit = deadline.map_or(limit, |deadline| limit.min(deadline.saturating_duration_since(Instant::now())));
    let second = || u64::try_from(server.clock().now().as_second()).unwrap_or_default();
    server.flow_control().enter(info, query, user, limit, second).await
}

/// Reports whether a request occupies seats until its response begins. Another server may never begin its response to a
/// watch. As in kube-apiserver, it occupies none here.
pub(super) fn keeps_seats(exchange: &Exchange, remotes: &Remotes) -> bool {
    !exchange.info.is_long_running() || remotes.route(&exchange.info.path).is_none()
}

/// Adds the headers that name the schema and the level of a request.
pub(super) fn add_headers(schema: Option<&Schema>, headers: &mut HeaderMap) {
    if let Some(uids) = schema.and_then(Schema::uids) {
        headers.extend(HEADERS.into_iter().zip(uids.iter().cloned()));
    }
}
