//! Values in the form in which a backend keeps them, which can be compressed.

use std::{fmt, sync::Arc};

use bytes::Bytes;

use super::{Range, Revision, StoredValue};

/// A value as a backend keeps it. Clones share key and body.
#[derive(Clone, Debug)]
pub struct CompactValue {
    /// The complete key.
    pub key: Arc<str>,
    /// The stored bytes, or their compressed form.
    pub body: CompactBody,
    /// As in [`StoredValue::created`].
    pub created: Revision,
    /// As in [`StoredValue::modified`].
    pub modified: Revision,
    /// As in [`StoredValue::is_stale`].
    pub is_stale: bool,
}

/// A body as a backend keeps it.
#[derive(Clone, Debug)]
pub enum CompactBody {
    /// The stored bytes.
    Plain(Bytes),
    /// Their compressed form.
    Compressed(CompressedBody),
}

/// A body that a backend has compressed. Clones share it.
#[derive(Clone)]
pub struct CompressedBody {
    bytes: Arc<[u8]>,
    size: usize,
    codec: Arc<dyn Decompress>,
}

/// The decompression of a backend.
pub trait Decompress: Send + Sync + 'static {
    /// Returns the body whose compressed form is `bytes`. The backend has compressed it itself, so this cannot fail.
    fn decompress(&self, bytes: &[u8]) -> Bytes;
}

/// The result of a range of [`CompactValue`]s.
#[derive(Clone, Debug)]
pub struct CompactRange {
    /// The revision at which the values were read.
    pub revision: Revision,
    /// The values in key order.
    pub values: Vec<CompactValue>,
    /// The number of further values after the limit, at the same revision.
    pub remaining: u64,
}

impl CompactValue {
    /// Returns the value with the stored bytes.
    #[must_use]
    pub fn into_stored(self) -> StoredValue {
        let Self { key, body, created, modified, is_stale } = self;
        StoredValue { key, body: body.into_bytes(), created, modified, is_stale }
    }

    /// Reports whether the body is compressed.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        matches!(self.body, CompactBody::Compressed(_))
    }
}

impl From<StoredValue> for CompactValue {
    fn from(value: StoredValue) -> Self {
        let StoredValue { key, body, created, modified, is_stale } = value;
        Self { key, body: CompactBody::Plain(body), created, modified, is_stale }
    }
}

impl CompactBody {
    /// Returns the size of the stored bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Plain(bytes) => bytes.len(),
            Self::Compressed(body) => body.size,
        }
    }

    /// Returns the stored bytes.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Compressed(body) => body.codec.decompress(&body.bytes),
        }
    }
}

impl CompressedBody {
    /// Creates a body from its compressed form and the size of its stored bytes.
    pub fn new(bytes: Arc<[u8]>, size: usize, codec: Arc<dyn Decompress>) -> Self {
        Self { bytes, size, codec }
    }
}

impl fmt::Debug for CompressedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompressedBody({} bytes of {})", self.bytes.len(), self.size)
    }
}

impl From<Range> for CompactRange {
    fn from(range: Range) -> Self {
        let Range { revision, values, remaining } = range;
        Self { revision, values: values.into_iter().map(Into::into).collect(), remaining }
    }
}
