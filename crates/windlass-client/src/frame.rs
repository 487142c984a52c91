//! Cuts streams of bytes into objects while they arrive. No I/O here: chunks go in, frames come out.
//!
//! This is the hot path of every cache. Objects are cut out, not parsed: [`watch`] finds the end of an event with one
//! search for a newline, [`list`] counts brackets. A frame that lies within one chunk is a slice of it; only one that
//! spans chunks is copied.
//!
//! Guarantees, each with a test:
//! - **Cut anywhere**: how the stream is cut into chunks makes no difference to what comes out.
//! - **Nothing silent**: a stream that ends within a frame, or a list that ends before its closing bracket, is an error.
//! - **Bounded**: no more of a frame is held than the limit says. An object that is larger is passed over as it streams by,
//!   and is an error that names it; the next object comes after it.
//!
//! Not guaranteed: that an object is well-formed within. Whoever parses it finds out. And a frame may share the memory of
//! the chunk that it came in: who keeps it for long should copy it.

mod list;
mod watch;

use thiserror::Error;
use windlass_api::{ListWatchError, Meta, Oversize, Place};

pub(crate) use list::ListDecoder;
pub(crate) use watch::WatchDecoder;

/// The largest object that is read from a stream, unless the client has another limit. Servers refuse to store a tenth of
/// this.
pub(crate) const OBJECT_LIMIT: usize = 16 << 20;

/// A stream that cannot be cut into objects.
#[derive(Debug, Error)]
pub(crate) enum FrameError {
    /// The only one that is not the end of the stream.
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
}

/// An object that is being passed over, because it is larger than the limit.
#[derive(Debug)]
struct Passing {
    place: Place,
    /// What its start, as much as was held of it, said.
    meta: Option<Meta>,
    /// How much of it has come.
    size: u64,
}

impl Passing {
    fn more(&mut self, bytes: &[u8]) {
        self.size += bytes.len() as u64;
    }

    /// It has gone by.
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
            // The connection was lost where nothing below noticed.
            FrameError::Truncated { .. } => Self::Transport(error.into()),
            FrameError::Oversize(oversize) => Self::Oversize(oversize),
            _ => Self::Decode(error.into()),
        }
    }
}
