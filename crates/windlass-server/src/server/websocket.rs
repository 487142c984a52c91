//! Watches and commands over WebSockets (RFC 6455): the messages of a response on a connection after its handshake.
//!
//! The frames are sent like a response body ([`Outgoing`]): charged to the connection until they are written, and in turns
//! if they are many. Messages of the client are skipped, so a connection needs no memory for them.

use std::{future, io, sync::Arc};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader},
    sync::mpsc,
};
use windlass_serve::UpgradedStream;

use super::{
    outgoing::Outgoing,
    upgraded::{linger, send},
};
use crate::{
    budget::{Account, OverBudget},
    http::{Body, BodyError, Frames, MessageType},
};

/// The size of the buffer for received bytes. Messages of clients are skipped.
const RECEIVED: usize = 512;

/// The maximum length of the payload of a control frame.
const MAX_CONTROL: u64 = 125;

/// The bits of a frame's first two bytes.
const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const OPCODE: u8 = 0x0f;
const MASKED: u8 = 0x80;
const LENGTH: u8 = 0x7f;

const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;

/// The codes of a close frame.
const NORMAL: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;

/// The messages of a response and the answers to the client's control frames.
pub(super) struct WebSocket {
    frames: Outgoing,
    /// Has room for one answer: no frame is received while a client does not read its answers.
    answers: mpsc::Sender<Answer>,
}

/// The answer to a control frame.
#[derive(Debug)]
enum Answer {
    Pong(Bytes),
    /// The last frame, with its code.
    Close(u16),
}

/// A frame from the client.
#[derive(Debug, PartialEq, Eq)]
enum Received {
    Ping(Bytes),
    Close,
    /// A frame without an effect.
    Other,
    /// A frame that the protocol does not allow.
    Invalid,
}

impl WebSocket {
    /// Creates the messages of a body, one for each of its frames. Returns an error if the connection already holds too
    /// much.
    pub(super) fn new(messages: Body, kind: MessageType, account: &Arc<Account>) -> Result<Self, OverBudget> {
        let (answers, received) = mpsc::channel(1);
        let frames = messages.map_frames(|messages| frames(messages, kind, received));
        Ok(Self { frames: Outgoing::new(frames, account)?, answers })
    }

    /// Sends the messages until they end, or until the client closes the WebSocket or its connection.
    pub(super) async fn serve(self, stream: UpgradedStream) {
        let (mut from, to) = tokio::io::split(stream);
        let ended = tokio::select! {
            ended = send(self.frames, to) => ended,
            ended = receive(&mut from, self.answers) => ended.map_err(Into::into),
        };
        match ended {
            Ok(()) => linger(from).await,
            Err(error) => tracing::debug!(error = &*error, "a WebSocket has ended without a close frame"),
        }
    }
}

/// Returns the frames of messages and answers, and a close frame at the end.
fn frames(
    messages: Frames,
    kind: MessageType,
    answers: mpsc::Receiver<Answer>,
) -> impl Stream<Item = Result<Bytes, BodyError>> + Send {
    let opcode = match kind {
        MessageType::Text => TEXT,
        MessageType::Binary => BINARY,
    };
    let frames = stream::unfold(Some((messages, answers)), move |open| async move {
        let (mut messages, mut answers) = open?;
        let answer = tokio::select! {
            biased;
            Some(answer) = answers.recv() => answer,
            message = messages.next() => match message {
                Some(Ok(message)) => return Some((Ok(frame(opcode, message)), Some((messages, answers)))),
                Some(Err(error)) => return Some((Err(error), None)),
                None => Answer::Close(NORMAL),
            },
        };
        match answer {
            Answer::Pong(payload) => Some((Ok(frame(PONG, payload)), Some((messages, answers)))),
            Answer::Close(code) => Some((Ok(frame(CLOSE, Bytes::copy_from_slice(&code.to_be_bytes()))), None)),
        }
    });
    frames.map_ok(|parts| stream::iter(parts.map(Ok))).try_flatten()
}

/// Returns the head of a frame, and its payload without a copy.
fn frame(opcode: u8, payload: Bytes) -> [Bytes; 2] {
    let mut head = vec![FINAL | opcode];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(short @ ..=125), _) => head.push(short),
        (_, Ok(medium)) => {
            head.push(126);
            head.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            head.push(127);
            head.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    [head.into(), payload]
}

/// Answers control frames until the connection ends. After a close frame, it is the sender that ends the connection.
async fn receive(from: impl AsyncRead + Unpin, answers: mpsc::Sender<Answer>) -> io::Result<()> {
    let mut from = BufReader::with_capacity(RECEIVED, from);
    loop {
        if from.fill_buf().await?.is_empty() {
            return Ok(());
        }
        let answer = match next(&mut from).await? {
            Received::Other => continue,
            Received::Ping(payload) => Answer::Pong(payload),
            Received::Close => Answer::Close(NORMAL),
            Received::Invalid => Answer::Close(PROTOCOL_ERROR),
        };
        let is_last = matches!(answer, Answer::Close(_));
        // After the end of the messages, no answer is sent.
        let is_sent = answers.send(answer).await.is_ok();
        if is_last || !is_sent {
            future::pending::<()>().await;
        }
    }
}

/// Reads the next frame.
async fn next(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Received> {
    let (first, second) = (from.read_u8().await?, from.read_u8().await?);
    let length = match second & LENGTH {
        126 => from.read_u16().await?.into(),
        127 => from.read_u64().await?,
        short => short.into(),
    };
    if first & RESERVED != 0 || second & MASKED == 0 {
        return Ok(Received::Invalid);
    }
    let mut mask = [0; 4];
    from.read_exact(&mut mask).await?;
    match first & OPCODE {
        CONTINUATION | TEXT | BINARY | PONG => {
            let skipped = tokio::io::copy_buf(&mut from.take(length), &mut tokio::io::sink()).await?;
            if skipped < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(Received::Other) }
        }
        PING if length <= MAX_CONTROL => {
            let mut payload = Vec::new();
            from.take(length).read_to_end(&mut payload).await?;
            let unmasked = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
            Ok(Received::Ping(unmasked.collect()))
        }
        CLOSE => Ok(Received::Close),
        _ => Ok(Received::Invalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn received(mut bytes: &[u8]) -> io::Result<Received> {
        next(&mut bytes).await
    }

    #[test]
    fn length_of_a_payload_has_three_forms() {
        let head = |length: usize| frame(TEXT, Bytes::from(vec![b'x'; length]))[0].to_vec();
        assert_eq!(head(0), [0x81, 0]);
        assert_eq!(head(125), [0x81, 125]);
        assert_eq!(head(126), [0x81, 126, 0, 126]);
        assert_eq!(head(65_535), [0x81, 126, 0xff, 0xff]);
        assert_eq!(head(65_536), [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
    }

    #[tokio::test]
    async fn received_frames_are_answered_skipped_or_invalid() {
        let mask = [1, 2, 3, 4];
        let sent = |first: u8, payload: &[u8]| {
            let length = u8::try_from(payload.len()).unwrap();
            let masked = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
            [first, MASKED | length].into_iter().chain(mask).chain(masked).collect::<Vec<u8>>()
        };
        assert_eq!(received(&sent(FINAL | PING, b"hello")).await.unwrap(), Received::Ping("hello".into()));
        assert_eq!(received(&sent(FINAL | CLOSE, &[3, 232])).await.unwrap(), Received::Close);
        for opcode in [TEXT, FINAL | CONTINUATION, FINAL | BINARY, FINAL | PONG] {
            assert_eq!(received(&sent(opcode, b"ignored")).await.unwrap(), Received::Other);
        }
        for first in [0x90 | TEXT | 0x40, FINAL | 0x3, FINAL | 0xb] {
            assert_eq!(received(&sent(first, b"")).await.unwrap(), Received::Invalid);
        }
        assert_eq!(received(&[FINAL | TEXT, 0]).await.unwrap(), Received::Invalid, "it is not masked");
        let long = [&[FINAL | PING, 0xfe, 0, 126][..], &mask].concat();
        assert_eq!(received(&long).await.unwrap(), Received::Invalid);
        let truncated = [&[FINAL | TEXT, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0][..], &mask, b"much more"].concat();
        assert_eq!(received(&truncated).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
