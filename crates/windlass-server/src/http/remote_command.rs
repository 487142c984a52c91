//! Commands in containers over an upgraded connection: the handshake, and the messages with the output and the result.
//!
//! Each message begins with the number of its channel, as in the WebSocket protocol of Kubernetes. Over SPDY, the
//! connection sends the rest as data of the stream with this number ([`server`](crate::server)). Input is ignored.

use std::{iter, time::Duration};

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{CONNECTION, UPGRADE},
};
use serde_json::{Value, json};
use windlass_api::{CommandResult, Status};

use super::{
    Exchange, Failure,
    body::{Body, BodyError},
    protocol::{Channels, ERROR, MessageType, STDERR, STDOUT, UpgradedProtocol},
    respond, websocket,
};
use crate::{
    authn,
    connect::container::{Command, Outcome, Streams},
    state::Stopping,
};

/// The maximum number of bytes of output in a message.
const PIECE: usize = 16 << 10;

const SPDY: &str = "SPDY/3.1";
/// The protocols that a client offers over SPDY, and those of a server that accepts none of them.
const OFFERED: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const ACCEPTED: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");

/// The versions of the protocol, the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    V1,
    V2,
    V3,
    V4,
    V5,
}

impl Version {
    const ALL: [Self; 5] = [Self::V5, Self::V4, Self::V3, Self::V2, Self::V1];
    /// The versions over SPDY, and over WebSockets.
    const SPDY: [Self; 4] = [Self::V4, Self::V3, Self::V2, Self::V1];
    const WEBSOCKET: [Self; 3] = [Self::V5, Self::V4, Self::V1];

    const fn name(self) -> &'static str {
        match self {
            Self::V1 => "channel.k8s.io",
            Self::V2 => "v2.channel.k8s.io",
            Self::V3 => "v3.channel.k8s.io",
            Self::V4 => "v4.channel.k8s.io",
            Self::V5 => "v5.channel.k8s.io",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.name() == name)
    }
}

/// Answers a request for a command.
pub(super) fn answer(exchange: &Exchange, command: Command) -> Result<Response<Body>, Failure> {
    let Exchange { headers, stopping, .. } = exchange;
    if exchange.is_upgradable && is_spdy(headers) {
        return Ok(answer_spdy(headers, command, stopping));
    }
    if !exchange.is_handshake() {
        return Err(Status::bad_request("Upgrade request required").into());
    }
    Ok(answer_websocket(headers, command, stopping))
}

/// Reports whether a request asks for SPDY.
pub(super) fn is_spdy(headers: &HeaderMap) -> bool {
    let is_spdy = headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(SPDY.as_bytes()));
    let is_upgrade =
        |value: &HeaderValue| value.as_bytes().to_ascii_lowercase().windows(7).any(|word| word == b"upgrade");
    is_spdy && headers.get_all(CONNECTION).iter().any(is_upgrade)
}

fn answer_websocket(headers: &HeaderMap, command: Command, stopping: &Stopping) -> Response<Body> {
    let offered: Vec<_> = authn::protocols(headers).collect();
    let versions = offered.iter().filter_map(|name| Version::named(name));
    let chosen = versions.filter(|version| Version::WEBSOCKET.contains(version)).max();
    if chosen.is_none() && !offered.is_empty() {
        return websocket::refused(StatusCode::FORBIDDEN, "");
    }
    let version = chosen.unwrap_or(Version::V1);
    let command = match command.outcome {
        // kube-apiserver connects to the kubelet after the handshake of the newest version, and before that of others.
        Outcome::Refused(code, text) if version < Version::V5 => return kubelet_error(code, text),
        Outcome::Refused(_, text) => {
            Command { outcome: Outcome::Refused(500, format!("unable to upgrade connection: {text}")), ..command }
        }
        _ => command,
    };
    let protocol = chosen.map(Version::name);
    websocket::switch(headers, protocol, body(command, version, stopping), MessageType::Binary)
}

fn answer_spdy(headers: &HeaderMap, command: Command, stopping: &Stopping) -> Response<Body> {
    if let Outcome::Refused(code, text) = command.outcome {
        return kubelet_error(code, text);
    }
    let offered = headers.get_all(OFFERED).iter().filter_map(|value| value.to_str().ok());
    let offered: Vec<_> = offered.flat_map(|value| value.split(',')).map(str::trim).collect();
    let chosen = offered.iter().filter_map(|name| Version::named(name)).find(|version| Version::SPDY.contains(version));
    if chosen.is_none() && !offered.is_empty() {
        let accepted = Version::SPDY.map(Version::name);
        let (offered, known) = (offered.join(" "), accepted.join(" "));
        let text = format!("unable to negotiate protocol: client supports [{offered}], server accepts [{known}]");
        let mut response = respond::text(StatusCode::FORBIDDEN, text);
        for name in accepted {
            response.headers_mut().append(ACCEPTED, HeaderValue::from_static(name));
        }
        return response;
    }
    let version = chosen.unwrap_or(Version::V1);
    let Streams { stdin, stdout, stderr, tty } = command.streams;
    let channels = Channels([stdin, stdout, stderr, true, tty && version >= Version::V3]);
    let mut response = Response::new(body(command, version, stopping));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.extensions_mut().insert(UpgradedProtocol::Spdy(channels));
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static(SPDY));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    if let Some(version) = chosen {
        headers.insert(OFFERED, HeaderValue::from_static(version.name()));
    }
    response
}

/// Returns the response of a kubelet that refuses a connection.
fn kubelet_error(code: u16, text: String) -> Response<Body> {
    respond::text(StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), text)
}

/// Returns the body with the messages of a command.
fn body(command: Command, version: Version, stopping: &Stopping) -> Body {
    let (streams, status) = (command.streams, status(&command, version));
    let result = match command.outcome {
        Outcome::Done(result) => result,
        Outcome::Refused(..) | Outcome::Failed(_) => CommandResult::default(),
    };
    let held = result.stdout.len() + result.stderr.len();
    Body::fallible(messages(streams, result, status, stopping.clone())).with_held_bytes(held)
}

/// Returns the messages of a command: an empty one as soon as it is connected, the output, and the status.
fn messages(
    streams: Streams,
    result: CommandResult,
    status: Option<Bytes>,
    mut stopping: Stopping,
) -> impl Stream<Item = Result<Bytes, BodyError>> + Send {
    let CommandResult { stdout, stderr, delay, .. } = result;
    let first = match streams {
        Streams { stdout: true, .. } => STDOUT,
        Streams { stderr: true, .. } => STDERR,
        _ => ERROR,
    };
    // A terminal has one output for both.
    let stderr_channel = if streams.tty { STDOUT } else { STDERR };
    let has_stderr = if streams.tty { streams.stdout } else { streams.stderr };
    let stdout = streams.stdout.then_some(stdout).into_iter().flat_map(|bytes| pieces(STDOUT, bytes));
    let stderr = has_stderr.then_some(stderr).into_iter().flat_map(move |bytes| pieces(stderr_channel, bytes));
    let status = status.into_iter().map(|status| message(ERROR, &status));
    let result = stdout.chain(stderr).chain(status);
    let result = stream::once(async move {
        tokio::select! {
            biased;
            // Without a status, the client would take the command for successful.
            () = stopping.requested() => Err(BodyError::new("the server stops")),
            () = wait(delay) => Ok(stream::iter(result.map(Ok))),
        }
    });
    stream::once(async move { Ok(message(first, &[])) }).chain(result.try_flatten())
}

async fn wait(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

/// Returns messages with an output.
fn pieces(channel: u8, mut output: Bytes) -> impl Iterator<Item = Bytes> + Send {
    iter::from_fn(move || {
        let piece = output.split_to(output.len().min(PIECE));
        (!piece.is_empty()).then(|| message(channel, &piece))
    })
}

fn message(channel: u8, content: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(1 + content.len());
    message.put_u8(channel);
    message.put_slice(content);
    message.freeze()
}

/// Returns the content of the error channel at the end. Before version 4, it is a text, and empty after success.
fn status(command: &Command, version: Version) -> Option<Bytes> {
    let status = match &command.outcome {
        Outcome::Done(CommandResult { exit_code: 0, .. }) => json!({"metadata": {}, "status": "Success"}),
        Outcome::Done(CommandResult { exit_code, .. }) => {
            // kube-apiserver translates the newest version to the one before.
            let why = if version == Version::V5 {
                format!("command terminated with exit code {exit_code}")
            } else {
                format!("error executing command [{}], exit code {exit_code}", command.command.join(" "))
            };
            json!({
                "metadata": {},
                "status": "Failure",
                "message": format!("command terminated with non-zero exit code: {why}"),
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": exit_code.to_string()}]},
            })
        }
        Outcome::Failed(why) => {
            let why = format!("error executing command in container: {why}");
            match version {
                Version::V5 => internal(&format!("Internal error occurred: {why}")),
                _ => internal(&why),
            }
        }
        Outcome::Refused(_, why) => internal(why),
    };
    if version >= Version::V4 {
        return Some(status.to_string().into());
    }
    status["message"].as_str().map(|message| Bytes::copy_from_slice(message.as_bytes()))
}

fn internal(why: &str) -> Value {
    json!({
        "metadata": {},
        "status": "Failure",
        "message": format!("Internal error occurred: {why}"),
        "reason": "InternalError",
        "details": {"causes": [{"message": why}]},
        "code": 500,
    })
}
