//! The members of a cluster: one connection at a time, and another member if that one fails.
//!
//! Guaranteed:
//! - A write is sent again only if no part of it was sent, or if the member rejected it before executing it. So it is
//!   executed at most once.
//! - A member that is down, paused, or has no leader delays a request only until another one has accepted a connection.
//!
//! Members are tried in the order of the endpoints, those that failed last at the end. The client stays with a member while
//! it works.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt as _, stream::FuturesUnordered};
use parking_lot::Mutex;
use prost::Message;
use tokio::time::{self, Instant};
use windlass_grpc::{CallError, chain, decode, frame};

use crate::{
    connection::{ConnectError, Connection},
    errors::{EtcdError, EtcdStatus as _},
    options::{Endpoint, Options},
};

/// The time after which the next member is tried, if one has not responded yet.
const STAGGER: Duration = Duration::from_millis(250);

/// The time for an attempt at a read, if there are other members.
const READ_ATTEMPT: Duration = Duration::from_secs(3);

/// The pause after all members have failed.
const PAUSE: Duration = Duration::from_millis(100);

/// A method of etcd's API.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rpc {
    path: &'static str,
    /// `true` if repeating the request has no effect.
    is_repeatable: bool,
}

pub(crate) const RANGE: Rpc = Rpc { path: "/etcdserverpb.KV/Range", is_repeatable: true };
pub(crate) const TXN: Rpc = Rpc { path: "/etcdserverpb.KV/Txn", is_repeatable: false };
pub(crate) const COMPACT: Rpc = Rpc { path: "/etcdserverpb.KV/Compact", is_repeatable: true };
/// A grant whose response is lost leaves a lease without keys behind, which expires.
pub(crate) const LEASE_GRANT: Rpc = Rpc { path: "/etcdserverpb.Lease/LeaseGrant", is_repeatable: true };
pub(crate) const WATCH: &str = "/etcdserverpb.Watch/Watch";

#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) options: Options,
    state: Mutex<State>,
    /// Held while connecting, so that waiting callers share the connection.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    current: Option<Arc<Connection>>,
    /// The time of the last failure of each endpoint.
    failures: Vec<Option<Instant>>,
}

/// The error if no member can be used.
#[derive(Debug, Clone)]
pub(crate) struct Unreachable {
    reasons: Vec<(Endpoint, Arc<ConnectError>)>,
}

impl Unreachable {
    /// Returns each endpoint with its error.
    pub(crate) fn reasons(&self) -> String {
        let reasons = self.reasons.iter().map(|(endpoint, reason)| format!("{endpoint}: {}", chain(&**reason)));
        reasons.collect::<Vec<_>>().join("; ")
    }

    /// Reports whether another attempt may succeed with one of the endpoints.
    pub(crate) fn is_temporary(&self) -> bool {
        self.reasons.iter().any(|(_, reason)| reason.is_temporary())
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no endpoint can be used: {}", self.reasons())
    }
}

impl StdError for Unreachable {}

/// The reaction to a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reaction {
    /// Try again.
    repeats: bool,
    /// Leave the member.
    abandons: bool,
}

impl Reaction {
    fn to(error: &CallError, rpc: Rpc) -> Self {
        match error {
            CallError::Unsent(_) => Self { repeats: true, abandons: true },
            CallError::Lost(_) | CallError::Timeout => Self { repeats: rpc.is_repeatable, abandons: true },
            CallError::Status(status) if status.is_no_leader() => Self { repeats: true, abandons: true },
            CallError::Status(status) if status.is_token_rejected() => Self { repeats: true, abandons: false },
            CallError::Status(status) if status.is_unavailable() => Self { repeats: rpc.is_repeatable, abandons: true },
            CallError::Status(_) => Self { repeats: false, abandons: false },
        }
    }
}

impl Cluster {
    pub(crate) fn new(options: Options) -> Self {
        let failures = vec![None; options.endpoints.len()];
        let state = Mutex::new(State { current: None, failures });
        Self { options, state, connecting: tokio::sync::Mutex::default() }
    }

    /// Sends a request and returns the response. `operation` is for errors: a verb and a key.
    pub(crate) async fn call<Q: Message, R: Message + Default>(
        &self,
        operation: impl Fn() -> String,
        rpc: Rpc,
        request: &Q,
    ) -> Result<R, EtcdError> {
        let result = self.call_bytes(rpc, frame(request)).await;
        let result = result.and_then(|bytes| decode(bytes).map_err(|error| (self.endpoints(), error)));
        result.map_err(|(endpoint, error)| EtcdError::new(operation(), endpoint, error))
    }

    /// Returns the bytes of the response, or the error of the last attempt with its endpoint.
    async fn call_bytes(&self, rpc: Rpc, frame: Bytes) -> Result<Bytes, (String, CallError)> {
        let deadline = Instant::now() + self.options.request_timeout;
        let mut failures = 0;
        let mut tokens = 0;
        loop {
            let (endpoint, error, reaction) = match time::timeout_at(deadline, self.connection()).await {
                Err(_) => return Err((self.endpoints(), CallError::Unsent("no connection in time".into()))),
                Ok(Err(unreachable)) => {
                    let error = CallError::Unsent(unreachable.into());
                    (self.endpoints(), error, Reaction { repeats: true, abandons: false })
                }
                Ok(Ok(connection)) => {
                    let error = match self.attempt(&connection, rpc, frame.clone(), deadline).await {
                        Ok(bytes) => return Ok(bytes),
                        Err(error) => error,
                    };
                    let mut reaction = Reaction::to(&error, rpc);
                    if let CallError::Status(status) = &error
                        && status.is_token_rejected()
                    {
                        tokens += 1;
                        reaction.repeats = tokens == 1 && connection.authenticate().await.is_ok();
                    }
                    if reaction.abandons {
                        self.abandon(&connection, &error);
                    }
                    (connection.endpoint.to_string(), error, reaction)
                }
            };
            failures += 1;
            if !reaction.repeats || Instant::now() + PAUSE >= deadline {
                return Err((endpoint, error));
            }
            if failures >= self.options.endpoints.len() {
                time::sleep(PAUSE).await;
            }
        }
    }

    async fn attempt(
        &self,
        connection: &Connection,
        rpc: Rpc,
        frame: Bytes,
        deadline: Instant,
    ) -> Result<Bytes, CallError> {
        let has_others = self.options.endpoints.len() > 1;
        let limit =
            if rpc.is_repeatable && has_others { deadline.min(Instant::now() + READ_ATTEMPT) } else { deadline };
        time::timeout_at(limit, connection.unary(rpc.path, frame)).await.unwrap_or(Err(CallError::Timeout))
    }

    /// Returns the current connection, or establishes another one.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, Unreachable> {
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let _connecting = self.connecting.lock().await;
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let connection = Arc::new(self.connect().await?);
        self.state.lock().current = Some(Arc::clone(&connection));
        Ok(connection)
    }

    fn current(&self) -> Option<Arc<Connection>> {
        self.state.lock().current.as_ref().filter(|current| current.is_usable()).cloned()
    }

    /// Connects to the first member that responds.
    async fn connect(&self) -> Result<Connection, Unreachable> {
        let mut untried = order(&self.state.lock().failures).into_iter();
        let mut attempts = FuturesUnordered::new();
        let mut reasons = Vec::new();
        let mut pending = Vec::new();
        let attempt = |index: usize| async move {
            (index, Connection::open(&self.options.endpoints[index], &self.options).await)
        };
        loop {
            if let Some(index) = untried.next() {
                pending.push(index);
                attempts.push(attempt(index));
            }
            let stagger = time::sleep(STAGGER);
            tokio::select! {
                ended = attempts.next() => match ended {
                    Some((index, Ok(connection))) => {
                        let mut state = self.state.lock();
                        // The others are slow, or do not respond at all.
                        for index in pending {
                            state.failures[index] = Some(Instant::now());
                        }
                        state.failures[index] = None;
                        return Ok(connection);
                    }
                    Some((index, Err(error))) => {
                        self.state.lock().failures[index] = Some(Instant::now());
                        pending.retain(|other| *other != index);
                        reasons.push((self.options.endpoints[index].clone(), Arc::new(error)));
                    }
                    None => return Err(Unreachable { reasons }),
                },
                () = stagger, if untried.len() > 0 => {}
            }
        }
    }

    /// Stops using a connection that has failed.
    pub(crate) fn abandon(&self, connection: &Connection, error: &CallError) {
        if connection.is_usable() {
            let endpoint = &connection.endpoint;
            tracing::warn!(%endpoint, error = error as &dyn StdError, "an etcd member failed, trying the next one");
        }
        connection.abandon();
        let mut state = self.state.lock();
        if let Some(index) = self.options.endpoints.iter().position(|endpoint| *endpoint == connection.endpoint) {
            state.failures[index] = Some(Instant::now());
        }
        state.current.take_if(|current| !current.is_usable());
    }

    /// Returns all endpoints, for errors.
    pub(crate) fn endpoints(&self) -> String {
        self.options.endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the indices of endpoints, starting with those that have not failed or whose failure is the oldest.
fn order(failures: &[Option<Instant>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..failures.len()).collect();
    order.sort_by_key(|index| failures[*index]);
    order
}

#[cfg(test)]
mod tests {
    use windlass_grpc::Status;

    use super::*;

    #[test]
    fn failed_endpoints_are_tried_last() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        assert_eq!(order(&[None, None, None]), [0, 1, 2]);
        assert_eq!(order(&[Some(later), None, Some(now)]), [1, 2, 0]);
    }

    #[test]
    fn writes_are_repeated_only_if_they_were_not_executed() {
        let status = |code, message: &str| CallError::Status(Status { code, message: message.into() });
        let cases = [
            (CallError::Unsent("x".into()), true, true),
            (CallError::Lost("x".into()), false, true),
            (CallError::Timeout, false, true),
            (status(14, "etcdserver: no leader"), true, true),
            (status(14, "etcdserver: request timed out"), false, true),
            (status(14, "etcdserver: leader changed"), false, true),
            (status(16, "etcdserver: invalid auth token"), true, false),
            (status(3, "etcdserver: request is too large"), false, false),
        ];
        for (error, repeats, abandons) in cases {
            assert_eq!(Reaction::to(&error, TXN), Reaction { repeats, abandons }, "{error:?}");
            let read = Reaction::to(&error, RANGE);
            assert_eq!(read, Reaction { repeats: repeats || abandons, abandons }, "{error:?}");
        }
    }
}
