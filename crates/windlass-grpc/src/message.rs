//! Messages over HTTP/2: frames with a length, and the status in trailers.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use prost::Message;
use tokio::sync::mpsc;

use crate::status::{CallError, Status, code};

/// The bytes before each message: a flag for compression, and the length.
const PREFIX: usize = 5;

/// Returns a message with its prefix, as a call sends it.
#[must_use]
pub fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // Encoding only fails without space, and `BytesMut` grows.
    let _ = message.encode(&mut frame);
    frame.freeze()
}

/// The body of a request.
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// One frame.
    One(Option<Bytes>),
    /// Frames until the sender is dropped.
    Stream(mpsc::Receiver<Bytes>),
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = |bytes| Ok(Frame::data(bytes));
        match self.get_mut() {
            Self::One(bytes) => Poll::Ready(bytes.take().map(frame)),
            Self::Stream(frames) => frames.poll_recv(cx).map(|bytes| bytes.map(frame)),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::One(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::One(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// The messages of a response.
#[derive(Debug)]
pub struct Messages {
    body: Incoming,
    frames: Frames,
}

impl Messages {
    /// Reads the head of a response. A message longer than `longest` is an error.
    pub(crate) fn of(response: Response<Incoming>, longest: usize) -> Result<Self, CallError> {
        let (head, body) = response.into_parts();
        if head.status != StatusCode::OK {
            let why = format!("unexpected HTTP status {}, is this a gRPC server?", head.status);
            return Err(CallError::Lost(why.into()));
        }
        // A response without messages has its status in the head.
        if head.headers.contains_key("grpc-status") {
            status_of(&head.headers)?;
        }
        Ok(Self { body, frames: Frames::new(longest) })
    }

    /// Returns the next message; `None` after the last one of a successful call. Cancel-safe.
    ///
    /// # Errors
    /// If the call has failed, or its connection.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            if let Some(message) = self.frames.take()? {
                return Ok(Some(message));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.frames.put(data),
                    Err(frame) => {
                        let trailers = frame.into_trailers().unwrap_or_default();
                        status_of(&trailers)?;
                        return self.frames.end().map(|()| None);
                    }
                },
                Some(Err(error)) => return Err(CallError::Lost(error.into())),
                None => return Err(CallError::Lost("the response has no status".into())),
            }
        }
    }

    /// Returns the only message of a response.
    pub(crate) async fn only(mut self) -> Result<Bytes, CallError> {
        let message = self.next().await?;
        // Reads the status, which can be an error after the message.
        while self.next().await?.is_some() {}
        message.ok_or_else(|| CallError::Lost("the response has no message".into()))
    }
}

/// Divides the bytes of a body into messages.
#[derive(Debug)]
struct Frames {
    buffer: BytesMut,
    longest: usize,
}

/// The maximum size that is reserved for a message before it arrives.
const RESERVED: usize = 1 << 20;

impl Frames {
    fn new(longest: usize) -> Self {
        Self { buffer: BytesMut::new(), longest }
    }

    fn put(&mut self, data: Bytes) {
        self.buffer.extend_from_slice(&data);
    }

    fn take(&mut self) -> Result<Option<Bytes>, CallError> {
        let Some((prefix, rest)) = self.buffer.split_at_checked(PREFIX) else { return Ok(None) };
        let length = (&prefix[1..]).get_u32() as usize;
        if prefix[0] != 0 {
            return Err(CallError::Lost("the response is compressed, which was not requested".into()));
        }
        if length > self.longest {
            return Err(CallError::Lost(
                format!("a message of {length} bytes is too long, at most {} are permitted", self.longest).into(),
            ));
        }
        if rest.len() < length {
            // The rest is reserved as it arrives: the length is that of an unknown peer.
            self.buffer.reserve((length + PREFIX - self.buffer.len()).min(RESERVED));
            return Ok(None);
        }
        self.buffer.advance(PREFIX);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }

    /// Checks that there is no part of a message.
    fn end(&self) -> Result<(), CallError> {
        if self.buffer.is_empty() { Ok(()) } else { Err(CallError::Lost("the response ends within a message".into())) }
    }
}

/// Returns the status in trailers, or in the head of a response without messages, if it is an error.
fn status_of(headers: &HeaderMap) -> Result<(), CallError> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(code) = text("grpc-status").and_then(|code| code.parse().ok()) else {
        return Err(CallError::Lost("the response has no status".into()));
    };
    if code == code::OK {
        return Ok(());
    }
    let message = text("grpc-message").unwrap_or_default();
    let message = percent_encoding::percent_decode_str(message).decode_utf8_lossy().into_owned();
    Err(Status { code, message }.into())
}

/// Decodes a message.
///
/// # Errors
/// If it is not a message of this type.
pub fn decode<M: Message + Default>(bytes: Bytes) -> Result<M, CallError> {
    M::decode(bytes).map_err(|error| CallError::Lost(error.into()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[derive(Clone, PartialEq, prost::Message)]
    struct Number {
        #[prost(int64, tag = "1")]
        value: i64,
    }

    #[test]
    fn message_has_a_prefix_with_its_length() {
        assert_eq!(&frame(&Number { value: 300 })[..], [0, 0, 0, 0, 3, 0x08, 0xac, 2]);
        assert_eq!(&frame(&Number { value: 0 })[..], [0, 0, 0, 0, 0]);
    }

    #[test]
    fn messages_are_found_in_any_division_of_the_bytes() {
        let bytes = [&[0, 0, 0, 0, 3][..], b"abc", &[0, 0, 0, 0, 0], &[0, 0, 0, 0, 1], b"d"].concat();
        for size in 1..=bytes.len() {
            let mut frames = Frames::new(1 << 10);
            let mut found = Vec::new();
            for part in bytes.chunks(size) {
                frames.put(Bytes::copy_from_slice(part));
                while let Some(message) = frames.take().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, [&b"abc"[..], b"", b"d"]);
            frames.end().unwrap();
        }
    }

    #[test]
    fn incomplete_and_compressed_messages_are_errors() {
        let mut frames = Frames::new(1 << 10);
        frames.put(Bytes::from_static(&[0, 0, 0, 0, 2, 1]));
        assert_eq!(frames.take().unwrap(), None);
        assert!(matches!(frames.end(), Err(CallError::Lost(_))));
        let mut frames = Frames::new(1 << 10);
        frames.put(Bytes::from_static(&[1, 0, 0, 0, 0]));
        assert!(matches!(frames.take(), Err(CallError::Lost(_))));
    }

    #[test]
    fn length_above_the_limit_is_an_error_before_the_message() {
        let mut frames = Frames::new(3);
        frames.put(Bytes::from_static(&[0, 0, 0, 0, 3, 1, 2, 3]));
        assert_eq!(frames.take().unwrap().unwrap().len(), 3);
        frames.put(Bytes::from_static(&[0, 0, 0, 0, 4]));
        let Err(CallError::Lost(why)) = frames.take() else { panic!("the message is too long") };
        assert_eq!(why.to_string(), "a message of 4 bytes is too long, at most 3 are permitted");
    }

    #[test]
    fn status_is_read_from_trailers() {
        let mut trailers = HeaderMap::new();
        assert!(matches!(status_of(&trailers), Err(CallError::Lost(_))));
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        status_of(&trailers).unwrap();
        trailers.insert("grpc-status", HeaderValue::from_static("14"));
        trailers.insert("grpc-message", HeaderValue::from_static("no%20leader"));
        let Err(CallError::Status(status)) = status_of(&trailers) else { panic!("an error status") };
        assert_eq!((status.code, &*status.message), (14, "no leader"));
    }
}
