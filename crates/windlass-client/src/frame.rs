//! Cuts streams of bytes into objects while they arrive. No I/O here: chunks go in, frames come out.
//!
//! This is the hot path of every cache. Objects are cut out, not parsed: [`watch`] finds the end of an event with one
//! search for a newline, [`list`] counts brackets. A frame that lies within one chunk is a slice of it; only one that
//! spans chunks is copied.
//!
//! Guarantees, each with a test:
//! - **Cut anywhere**: how the stream is cut into chunks makes no difference to what comes out.
//! - **Nothing silent**: a stream that ends within a frame, or a list that ends before its closing bracket, is an error.
//! - **Bounded**: a frame larger than the limit is an error before it is held.
//!
//! Not guaranteed: that an object is well-formed within. Whoever parses it finds out. And a frame may share the memory of
//! the chunk that it came in: who keeps it for long should copy it.

mod list;
mod watch;

use thiserror::Error;
use windlass_api::ListWatchError;

pub(crate) use list::ListDecoder;
pub(crate) use watch::WatchDecoder;

/// The largest object that is read from a stream. Servers refuse to store a tenth of this.
pub(crate) const FRAME_LIMIT: usize = 16 << 20;

/// A stream that cannot be cut into objects.
#[derive(Debug, Error)]
pub(crate) enum FrameError {
    #[error("an object larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the stream ended within {within}")]
    Truncated { within: &'static str },
    #[error("expected {expected}, found {found}")]
    Unexpected { expected: &'static str, found: String },
    #[error("{what} cannot be read")]
    Json { what: &'static str, source: serde_json::Error },
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
            _ => Self::Decode(error.into()),
        }
    }
}
