//! Splitting of byte streams into objects while they arrive. The module does no I/O: its input are chunks and its
//! output are frames.
//!
//! This is the hot path of every cache. Objects are split, not parsed: [`watch`] finds the end of an event with one
//! search for a newline, and [`list`] counts brackets. [`protobuf`] follows lengths. A frame within one chunk is a slice of it. A frame
//! that spans chunks is copied, and so is each item of a list in protobuf, to add its envelope.
//!
//! Guarantees, each with a test:
//! - **Independent of chunking**: the boundaries of chunks do not affect the frames.
//! - **No silent loss**: a stream that ends within a frame, or a list that ends before its closing bracket, is an
//!   error.
//! - **Bounded**: at most `limit` bytes of a frame are buffered. A larger object is skipped without buffering it and
//!   reported as an error that names it; the next object follows.
//!
//! Not guaranteed: an object may be malformed inside; the parser reports this. A frame may share the memory of its
//! chunk, so copy it to retain it for long.

mod list;
mod protobuf;
mod watch;

use thiserror::Error;
use windlass_api::{ListWatchError, Meta, Oversize, Place};

pub(crate) use list::ListDecoder;
pub(crate) use protobuf::{ProtobufListDecoder, ProtobufWatchDecoder};
pub(crate) use watch::WatchDecoder;

/// The default maximum size of an object in a stream. Servers reject objects of a tenth of this size.
pub(crate) const OBJECT_LIMIT: usize = 16 << 20;

/// The error of a stream that cannot be split into objects.
#[derive(Debug, Error)]
pub(crate) enum FrameError {
    /// An object exceeds the size limit. The only error that does not end the stream.
    #[error(transparent)]
    Oversize(Box<Oversize>),
    #[error("{what} larger than {limit} bytes")]
    TooLarge { what: &'static str, limit: usize },
    #[error("the stream ended within {within}")]
    Truncated { within: &'static str },
    #[error("expected {expected}, found {found}")]
    Unexpected { expected: &'static str, found: String },
    #[error("{what} cannot be read")]
    Json { what: &'static str, source: serde_json::Error },
    #[error("{what} cannot be read")]
    Protobuf { what: &'static str, source: windlass_protobuf::Error },
}

/// An object above the size limit that is being skipped.
#[derive(Debug)]
struct Skipped {
    place: Place,
    /// The metadata found in its buffered start.
    meta: Option<Meta>,
    /// The number of its bytes so far.
    size: u64,
}

impl Skipped {
    fn more(&mut self, bytes: &[u8]) {
        self.size += bytes.len() as u64;
    }

    /// Returns the error for the object once it has been skipped.
    fn end(self, limit: usize) -> FrameError {
        let Self { place, meta, size } = self;
        FrameError::Oversize(Box::new(Oversize { place, meta, size, limit }))
    }
}

impl FrameError {
    fn unexpected(expected: &'static str, found: &[u8]) -> Self {
        let start = String::from_utf8_lossy(&found[..found.len().min(40)]);
        Self::Unexpected { expected, found: format!("{start:?}") }
    }
}

impl From<FrameError> for ListWatchError {
    fn from(error: FrameError) -> Self {
        match error {
            // The connection was lost without an error from the transport.
            FrameError::Truncated { .. } => Self::Transport(error.into()),
            FrameError::Oversize(oversize) => Self::Oversize(oversize),
            _ => Self::Decode(error.into()),
        }
    }
}
