//! Connections after an upgrade: the messages of a response, with the protocol that the handshake has agreed on.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    time,
};
use windlass_api::BoxError;
use windlass_serve::Upgrade;

use super::{outgoing::Outgoing, spdy::Spdy, websocket::WebSocket};
use crate::{
    budget::{Account, OverBudget},
    http::{Body, UpgradedProtocol},
};

/// The time for which a client can read the last frames and close the connection.
const LINGER: Duration = Duration::from_secs(2);

/// Sends the messages of a response after its upgrade. Returns an error if the connection already holds too much.
pub(super) fn run(
    protocol: UpgradedProtocol,
    messages: Body,
    upgrade: Upgrade,
    account: &Arc<Account>,
) -> Result<(), OverBudget> {
    match protocol {
        UpgradedProtocol::WebSocket(kind) => {
            let socket = WebSocket::new(messages, kind, account)?;
            upgrade.run(|stream| socket.serve(stream));
        }
        UpgradedProtocol::Spdy(channels) => {
            let spdy = Spdy::new(messages, channels, account)?;
            upgrade.run(|stream| spdy.serve(stream));
        }
    }
    Ok(())
}

/// Sends frames until their end, and then closes the connection.
pub(super) async fn send(mut frames: Outgoing, mut to: impl AsyncWrite + Unpin) -> Result<(), BoxError> {
    use http_body_util::BodyExt as _;
    while let Some(frame) = frames.frame().await {
        let mut data = frame?.into_data().unwrap_or_default();
        to.write_all_buf(&mut data).await?;
        to.flush().await?;
    }
    Ok(to.shutdown().await?)
}

/// Waits until the client closes the connection. Otherwise a frame that it has sent meanwhile would reset the connection
/// before it has read everything.
pub(super) async fn linger(mut from: impl AsyncRead + Unpin) {
    let skip = async { tokio::io::copy(&mut from, &mut tokio::io::sink()).await };
    if let Ok(Err(error)) = time::timeout(LINGER, skip).await {
        tracing::trace!(%error, "a connection was closed after its last frame");
    }
}
