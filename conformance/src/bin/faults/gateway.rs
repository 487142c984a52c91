//! A client of etcd that shares no code with windlass-etcd: the gateway that serves etcd's API as JSON.

use std::{error::Error, net::SocketAddr, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::{Buf as _, BytesMut};
use http::{Request, header};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpStream, task::JoinHandle, time::timeout};

use crate::{Result, network::Host};

/// The time for a request.
const LIMIT: Duration = Duration::from_secs(3);

/// The port of etcd for clients.
pub(crate) const PORT: u16 = 2379;

/// The first key, and as the end of a range all keys.
const ZERO: &[u8] = &[0];

/// A stream of JSON values. Dropping it closes the connection.
pub(crate) struct Values {
    body: Incoming,
    received: BytesMut,
    connection: JoinHandle<()>,
}

impl Values {
    async fn request(member: usize, path: &str, body: &Value) -> Result<Self> {
        let address = SocketAddr::from((Host::Member(member).address(), PORT));
        let stream = TcpStream::connect(address).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(async move { drop(connection.await) });
        let request = Request::post(path).header(header::HOST, address.to_string()).body(body.to_string())?;
        let response = sender.send_request(request).await;
        let response = response.inspect_err(|_| connection.abort())?;
        Ok(Self { body: response.into_body(), received: BytesMut::new(), connection })
    }

    /// Returns the next value, or `None` at the end. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Value>> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line = self.received.split_to(end);
                self.received.advance(1);
                if !line.is_empty() {
                    return Ok(Some(serde_json::from_slice(&line)?));
                }
                continue;
            }
            match self.body.frame().await {
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.received.extend_from_slice(&data);
                    }
                }
                None if self.received.is_empty() => return Ok(None),
                // A response that is not a stream ends without a line feed.
                None => return Ok(Some(serde_json::from_slice(&self.received.split())?)),
            }
        }
    }
}

impl Drop for Values {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// Sends a request to a member and returns the response.
async fn post(member: usize, path: &str, body: &Value) -> Result<Value> {
    let failed = |error: Box<dyn Error + Send + Sync>| format!("{path} of {}: {error}", Host::Member(member));
    let answer = timeout(LIMIT, async { Values::request(member, path, body).await?.next().await });
    let answer = answer.await.map_err(|_| failed("no response in time".into()))?.map_err(failed)?;
    let answer = answer.ok_or_else(|| failed("an empty response".into()))?;
    // Errors have a code and a message.
    if answer.get("code").is_some() { Err(failed(answer.to_string().into()).into()) } else { Ok(answer) }
}

/// Watches all keys from a revision on. Each response is the member `result` of a value.
pub(crate) async fn watch(member: usize, from: u64) -> Result<Values> {
    let all = STANDARD.encode(ZERO);
    let create = json!({"key": all, "range_end": all, "start_revision": from.to_string()});
    timeout(LIMIT, Values::request(member, "/v3/watch", &json!({"create_request": create}))).await?
}

/// Compacts the history before a revision.
pub(crate) async fn compact(member: usize, revision: u64, physical: bool) -> Result {
    let body = json!({"revision": revision.to_string(), "physical": physical});
    post(member, "/v3/kv/compaction", &body).await.map(drop)
}

/// Returns the oldest revision that a member can read, or 0 if its history is complete.
pub(crate) async fn compacted(member: usize) -> Result<u64> {
    let answer = timeout(LIMIT, async {
        let mut responses = watch(member, 1).await?;
        while let Some(value) = responses.next().await? {
            let result = &value["result"];
            if result["created"] != true {
                return Ok(number(&result["compact_revision"]));
            }
            if result["canceled"] == true {
                return Ok(number(&result["compact_revision"]));
            }
        }
        Err("the watch has ended".into())
    });
    answer.await?
}

/// Returns the current revision: that of a linearizable read.
pub(crate) async fn revision(member: usize) -> Result<u64> {
    let read = json!({"key": STANDARD.encode(ZERO), "count_only": true});
    Ok(number(&post(member, "/v3/kv/range", &read).await?["header"]["revision"]))
}

/// Reports whether a member is the leader.
pub(crate) async fn is_leader(member: usize) -> bool {
    let status = post(member, "/v3/maintenance/status", &json!({})).await;
    status.is_ok_and(|status| status["leader"].is_string() && status["leader"] == status["header"]["member_id"])
}

/// Reads a number. The gateway omits 0.
pub(crate) fn number(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Reads bytes. The gateway omits empty ones.
pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default()
}
