//! The channel protocol: several byte streams over one WebSocket. Each message starts with the number of its channel.
//!
//! Pings keep a connection alive. It is closed when the other side has sent nothing for [`SILENCE`], not even pongs,
//! which detects half-open connections. The time counts only while this side reads, so a slow consumer does not close
//! the connection.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use http::{HeaderMap, HeaderValue, Request, Response, header};
use thiserror::Error;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::{client::generate_key, derive_accept_key},
        protocol::{Role, WebSocketConfig},
    },
};
use windlass_api::{BoxError, ListWatchError};

use crate::{Error, Result, connect::ConnectRequest, operation::Operation, transport::Upgraded};

/// The interval of pings.
pub(crate) const PING_INTERVAL: Duration = Duration::from_secs(5);
/// The maximum time without a message from the other side.
pub(crate) const SILENCE: Duration = Duration::from_secs(61);
/// The maximum size of a received message. Servers send up to 32 KiB at once.
const MESSAGE_LIMIT: usize = 4 << 20;
/// The channel of version 5 of the protocol whose messages close other channels.
const CLOSE: u8 = 255;

/// A version of the channel protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The version of kubelets. Single channels cannot be closed.
    V4,
    /// The version of API servers since 1.30. The sender of a channel can close it.
    V5,
}

/// The receiving side of a connection.
pub(crate) struct Receiver(SplitStream<Socket>);

/// The sending side of a connection.
pub(crate) struct Sender {
    sink: SplitSink<Socket, Message>,
    protocol: Protocol,
}

type Socket = WebSocketStream<Upgraded>;

/// A message from the other side.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) channel: u8,
    pub(crate) data: Bytes,
}

/// The reason why a connection failed.
#[derive(Debug, Error)]
pub(crate) enum ConnectionError {
    #[error("the server does not switch to WebSocket: {0}")]
    Handshake(&'static str),
    #[error("the server chose the protocol {0:?}, which was not offered")]
    Protocol(String),
    #[error("the other side has been silent for {} seconds", SILENCE.as_secs())]
    Silent,
    #[error("the other side closed the connection before it was done{}", .0)]
    Closed(String),
    #[error("received a message that is not binary")]
    Text,
    #[error("the connection broke")]
    Socket(#[from] tokio_tungstenite::tungstenite::Error),
}

impl Protocol {
    const fn name(self) -> &'static str {
        match self {
            Self::V4 => "v4.channel.k8s.io",
            Self::V5 => "v5.channel.k8s.io",
        }
    }
}

/// Opens a connection with the first of the protocols that the server supports.
pub(crate) async fn open(
    connect: &ConnectRequest,
    query: Vec<(&'static str, String)>,
    protocols: &[Protocol],
) -> Result<(Sender, Receiver)> {
    let operation = connect.operation();
    let mut request = connect.request(http::Method::GET, "", query, Bytes::new())?;
    let key = generate_key();
    ask_for_upgrade(&mut request, &key, protocols);
    let opened = match connect.client().switch(request.map(Into::into), &operation).await {
        Ok((head, connection)) => {
            accept(&head, connection, &key, protocols).await.map_err(|error| ListWatchError::Transport(error.into()))
        }
        Err(error) => Err(error),
    };
    opened.map_err(|error| Error::new(operation, error))
}

fn ask_for_upgrade(request: &mut Request<Bytes>, key: &str, protocols: &[Protocol]) {
    let offered: Vec<_> = protocols.iter().map(|protocol| protocol.name()).collect();
    let value = |text: &str| HeaderValue::from_str(text).expect("keys and protocols are plain text");
    let headers = request.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    headers.insert(header::SEC_WEBSOCKET_KEY, value(key));
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, value(&offered.join(", ")));
}

async fn accept(
    head: &Response<()>,
    connection: Upgraded,
    key: &str,
    protocols: &[Protocol],
) -> Result<(Sender, Receiver), ConnectionError> {
    check_handshake(head.headers(), key)?;
    let protocol = chosen(head.headers(), protocols)?;
    let config = WebSocketConfig::default().max_message_size(Some(MESSAGE_LIMIT)).max_frame_size(Some(MESSAGE_LIMIT));
    let socket = WebSocketStream::from_raw_socket(connection, Role::Client, Some(config)).await;
    let (sink, stream) = socket.split();
    Ok((Sender { sink, protocol }, Receiver(stream)))
}

fn check_handshake(headers: &HeaderMap, key: &str) -> Result<(), ConnectionError> {
    let has = |name: header::HeaderName, token: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(token))
    };
    if !has(header::UPGRADE, "websocket") || !has(header::CONNECTION, "upgrade") {
        return Err(ConnectionError::Handshake("it switches to something else"));
    }
    let accepted = headers.get(header::SEC_WEBSOCKET_ACCEPT).map(HeaderValue::as_bytes);
    if accepted != Some(derive_accept_key(key.as_bytes()).as_bytes()) {
        return Err(ConnectionError::Handshake("its answer is to another request"));
    }
    Ok(())
}

/// Returns the protocol that the server chose. No current API server uses the protocol without a name.
fn chosen(headers: &HeaderMap, offered: &[Protocol]) -> Result<Protocol, ConnectionError> {
    let name = headers.get(header::SEC_WEBSOCKET_PROTOCOL).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let protocol = offered.iter().copied().find(|protocol| protocol.name() == name);
    protocol.ok_or_else(|| ConnectionError::Protocol(name.to_owned()))
}

impl Receiver {
    /// Returns the next message with a channel. `None` after the other side has closed the connection properly.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, ConnectionError> {
        loop {
            let message = match tokio::time::timeout(SILENCE, self.0.next()).await {
                Err(_) => return Err(ConnectionError::Silent),
                Ok(None) => return Err(ConnectionError::Closed(String::new())),
                Ok(Some(message)) => message?,
            };
            match message {
                Message::Binary(mut data) if !data.is_empty() => {
                    let channel = data.split_to(1)[0];
                    return Ok(Some(Frame { channel, data }));
                }
                // Some servers open each channel with an empty message.
                Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
                Message::Text(_) => return Err(ConnectionError::Text),
                Message::Close(None) => return Ok(None),
                Message::Close(Some(close)) if u16::from(close.code) == 1000 => return Ok(None),
                Message::Close(Some(close)) => {
                    return Err(ConnectionError::Closed(format!(" ({}: {})", close.code, close.reason)));
                }
            }
        }
    }
}

impl Sender {
    /// Sends bytes on a channel. Waits while the connection's buffer is full.
    pub(crate) async fn send(&mut self, channel: u8, data: &[u8]) -> Result<(), ConnectionError> {
        let mut message = BytesMut::with_capacity(data.len() + 1);
        message.put_u8(channel);
        message.put_slice(data);
        Ok(self.sink.send(Message::Binary(message.freeze())).await?)
    }

    /// Ends a channel. Has no effect in protocol versions that cannot express this.
    pub(crate) async fn finish(&mut self, channel: u8) -> Result<(), ConnectionError> {
        match self.protocol {
            Protocol::V4 => Ok(()),
            Protocol::V5 => Ok(self.sink.send(Message::Binary(Bytes::copy_from_slice(&[CLOSE, channel]))).await?),
        }
    }

    /// Sends a ping.
    pub(crate) async fn ping(&mut self) -> Result<(), ConnectionError> {
        Ok(self.sink.send(Message::Ping(Bytes::new())).await?)
    }

    /// Sends a close message; its receipt is not certain.
    pub(crate) async fn close(&mut self) {
        if let Err(error) = self.sink.send(Message::Close(None)).await {
            tracing::trace!(%error, "the connection was already closed");
        }
    }
}

impl ConnectionError {
    pub(crate) fn during(self, operation: &Operation) -> Error {
        Error::new(operation.clone(), ListWatchError::Transport(BoxError::from(self)))
    }
}
