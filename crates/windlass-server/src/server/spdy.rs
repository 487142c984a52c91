//! Commands over SPDY/3.1, the protocol of clients before WebSockets: streams of a connection after its handshake.
//!
//! The client opens one stream for each channel, and the messages of the response are sent on them. A message begins with
//! the number of its channel. They are sent like a response body ([`Outgoing`]): charged to the connection until they are
//! written, and in turns if they are many. Input is skipped, so a connection needs no memory for it. As in Kubernetes,
//! windows are ignored, because TCP limits the data.

mod dictionary;
mod headers;

use std::{future, io, sync::Arc, time::Duration};

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader},
    sync::mpsc,
    time::{self, Instant},
};
use windlass_serve::UpgradedStream;

use self::headers::Inflater;
use super::{
    outgoing::Outgoing,
    upgraded::{linger, send},
};
use crate::{
    budget::{Account, OverBudget},
    http::{Body, BodyError, Channels, Frames},
};

/// The time in which a client must open its streams, as in the kubelet.
const CREATION_LIMIT: Duration = Duration::from_secs(30);
/// The size of the buffer for received bytes.
const RECEIVED: usize = 1 << 10;
/// The maximum length of a control frame.
const MAX_CONTROL: u32 = 8 << 10;
/// The maximum number of streams that a client may try to open.
const MOST_STREAMS: u32 = 16;

const CONTROL: u32 = 0x8000_0000;
const VERSION: u32 = 3;
const ID: u32 = 0x7fff_ffff;
const FIN: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;
const HEADERS: u16 = 8;

/// The status of a stream that the server does not open.
const PROTOCOL_ERROR: u32 = 1;

/// The headers of a reply: the beginning of a compressed sequence, for the first one, and no headers, uncompressed and
/// flushed.
const BEGIN: [u8; 2] = [0x78, 0x01];
const NO_HEADERS: [u8; 14] = [0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// The messages of a response, and what the client opens.
pub(super) struct Spdy {
    frames: Outgoing,
    channels: Channels,
    /// Has room for one event: no frame is received while a client does not read the answers.
    events: mpsc::Sender<Event>,
}

/// A frame of the client that has an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The client opens a stream, of a channel if it is a requested one.
    Opened(u32, Option<u8>),
    Ping(u32),
}

/// A frame from the client.
#[derive(Debug, PartialEq, Eq)]
enum Received {
    /// A new stream with its type.
    Stream(u32, String),
    Ping(u32),
    /// A frame without an effect.
    Other,
}

/// The state of the frames that are sent.
struct Sending {
    messages: Frames,
    events: mpsc::Receiver<Event>,
    /// The streams of the channels.
    streams: [Option<u32>; 5],
    /// The number of streams that the client has not opened yet.
    missing: usize,
    has_replied: bool,
    deadline: Instant,
}

impl Spdy {
    /// Creates the messages of a body, one for each of its frames. Returns an error if the connection already holds too
    /// much.
    pub(super) fn new(messages: Body, channels: Channels, account: &Arc<Account>) -> Result<Self, OverBudget> {
        let (events, received) = mpsc::channel(1);
        let frames = messages.map_frames(|messages| {
            let missing = channels.count();
            let deadline = Instant::now() + CREATION_LIMIT;
            frames(Sending { messages, events: received, streams: [None; 5], missing, has_replied: false, deadline })
        });
        Ok(Self { frames: Outgoing::new(frames, account)?, channels, events })
    }

    /// Sends the messages until they end, or until the client closes the connection.
    pub(super) async fn serve(self, stream: UpgradedStream) {
        let (mut from, to) = tokio::io::split(stream);
        let ended = tokio::select! {
            ended = send(self.frames, to) => ended,
            ended = receive(&mut from, self.channels, self.events) => ended.map_err(Into::into),
        };
        match ended {
            Ok(()) => linger(from).await,
            Err(error) => tracing::debug!(error = &*error, "a SPDY connection has ended early"),
        }
    }
}

/// Returns the frames of the messages and of the answers to the client.
fn frames(sending: Sending) -> impl Stream<Item = Result<Bytes, BodyError>> + Send {
    let frames = stream::unfold(Some(sending), |sending| async move {
        let mut sending = sending?;
        match sending.next().await {
            Ok(Some(frames)) => Some((Ok(frames), Some(sending))),
            Ok(None) => Some((Ok(sending.end()), None)),
            Err(error) => Some((Err(error), None)),
        }
    });
    frames.map_ok(|frames| stream::iter(frames.into_iter().map(Ok))).try_flatten()
}

impl Sending {
    /// Returns the next frames; `None` after the last message.
    async fn next(&mut self) -> Result<Option<Vec<Bytes>>, BodyError> {
        let is_open = self.missing == 0;
        tokio::select! {
            biased;
            Some(event) = self.events.recv() => Ok(Some(vec![self.answer(event)])),
            message = self.messages.next(), if is_open => match message {
                Some(message) => Ok(Some(self.data(message?))),
                None => Ok(None),
            },
            () = time::sleep_until(self.deadline), if !is_open => {
                Err(BodyError::new("timed out waiting for client to create streams"))
            }
        }
    }

    fn answer(&mut self, event: Event) -> Bytes {
        match event {
            Event::Ping(id) => control(PING, &id.to_be_bytes()),
            Event::Opened(id, channel) => {
                let stream = channel.and_then(|channel| self.streams.get_mut(usize::from(channel)));
                let Some(stream) = stream.filter(|stream| stream.is_none()) else {
                    return control(RST_STREAM, &[id.to_be_bytes(), PROTOCOL_ERROR.to_be_bytes()].concat());
                };
                *stream = Some(id);
                self.missing = self.missing.saturating_sub(1);
                let begin = if self.has_replied { &[][..] } else { &BEGIN[..] };
                self.has_replied = true;
                control(SYN_REPLY, &[&id.to_be_bytes(), begin, &NO_HEADERS].concat())
            }
        }
    }

    /// Returns the frames of a message.
    fn data(&self, mut message: Bytes) -> Vec<Bytes> {
        let Some(channel) = message.first().copied() else { return Vec::new() };
        let content = message.split_off(1);
        match self.streams.get(usize::from(channel)).copied().flatten() {
            Some(stream) if !content.is_empty() => vec![head(stream, 0, content.len()), content],
            _ => Vec::new(),
        }
    }

    /// Returns the frames that end all streams and the connection.
    fn end(&self) -> Vec<Bytes> {
        let streams = self.streams.iter().flatten();
        let last = streams.clone().max().copied().unwrap_or_default();
        let ends = streams.map(|stream| head(*stream, FIN, 0));
        ends.chain([control(GO_AWAY, &[last.to_be_bytes(), [0; 4]].concat())]).collect()
    }
}

/// Returns a control frame.
fn control(kind: u16, content: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(8 + content.len());
    frame.put_u32(CONTROL | VERSION << 16 | u32::from(kind));
    // None of them is longer than a few bytes.
    frame.put_u32(u32::try_from(content.len()).unwrap_or_default());
    frame.put_slice(content);
    frame.freeze()
}

/// Returns the head of a frame with data. Its content is at most as long as a message.
fn head(stream: u32, flags: u8, length: usize) -> Bytes {
    let mut frame = BytesMut::with_capacity(8);
    frame.put_u32(stream & ID);
    frame.put_u32(u32::from(flags) << 24 | u32::try_from(length).unwrap_or_default() & 0x00ff_ffff);
    frame.freeze()
}

/// Receives frames until the connection ends.
async fn receive(from: impl AsyncRead + Unpin, channels: Channels, events: mpsc::Sender<Event>) -> io::Result<()> {
    let mut from = BufReader::with_capacity(RECEIVED, from);
    let mut inflater = Inflater::default();
    let (mut last, mut opened) = (0, 0);
    loop {
        if from.fill_buf().await?.is_empty() {
            return Ok(());
        }
        let event = match next(&mut from, &mut inflater).await? {
            Received::Other => continue,
            Received::Ping(id) => Event::Ping(id),
            Received::Stream(id, name) => {
                // The streams of clients have odd and increasing numbers.
                if id % 2 == 0 || id <= last || opened == MOST_STREAMS {
                    return Err(invalid("a stream has an invalid number, or there are too many"));
                }
                last = id;
                opened += 1;
                Event::Opened(id, channels.named(&name))
            }
        };
        if events.send(event).await.is_err() {
            // The last frame is being sent.
            future::pending::<()>().await;
        }
    }
}

/// Reads the next frame.
async fn next(from: &mut (impl AsyncBufRead + Unpin), inflater: &mut Inflater) -> io::Result<Received> {
    let (first, second) = (from.read_u32().await?, from.read_u32().await?);
    let length = second & 0x00ff_ffff;
    if first & CONTROL == 0 {
        return skip(from, length).await;
    }
    let kind = u16::try_from(first & 0xffff).unwrap_or_default();
    if first >> 16 & 0x7fff != VERSION || length > MAX_CONTROL {
        return Err(invalid("a control frame has another version, or is too long"));
    }
    match (kind, length) {
        (SYN_STREAM, 10..) => {
            let mut content = vec![0; length as usize];
            from.read_exact(&mut content).await?;
            let (fixed, headers) = content.split_at(10);
            let id = fixed.first_chunk().copied().map(u32::from_be_bytes).unwrap_or_default() & ID;
            let headers = inflater.inflate(headers).and_then(|headers| headers::value(&headers, "streamtype"));
            let name = headers.ok_or_else(|| invalid("the headers of a stream are invalid"))?;
            Ok(Received::Stream(id, name))
        }
        // All headers of a connection are one compressed sequence.
        (SYN_REPLY | HEADERS, 4..) => {
            let mut content = vec![0; length as usize];
            from.read_exact(&mut content).await?;
            let inflated = inflater.inflate(content.get(4..).unwrap_or_default());
            inflated.map(|_| Received::Other).ok_or_else(|| invalid("headers are invalid"))
        }
        (PING, 4) => match from.read_u32().await? {
            // Those of the server would be even.
            id if id % 2 == 1 => Ok(Received::Ping(id)),
            _ => Ok(Received::Other),
        },
        (SYN_STREAM | SYN_REPLY | HEADERS | PING, _) => Err(invalid("a control frame has an invalid length")),
        _ => skip(from, length).await,
    }
}

async fn skip(from: &mut (impl AsyncBufRead + Unpin), length: u32) -> io::Result<Received> {
    let length = u64::from(length);
    let skipped = tokio::io::copy_buf(&mut from.take(length), &mut tokio::io::sink()).await?;
    if skipped < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(Received::Other) }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests;
