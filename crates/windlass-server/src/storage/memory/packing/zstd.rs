//! Compression with zstd.

use std::{cell::RefCell, fmt};

use bytes::Bytes;
use zstd_safe::{CCtx, CDict, DCtx, DDict};

/// The fastest level. With a dictionary, higher levels gain little.
const LEVEL: i32 = 1;

/// The limits of the size of a dictionary. A dictionary pays off with a tenth of its few samples' size.
const SMALLEST: usize = 4 << 10;
const LARGEST: usize = 16 << 10;

/// The common content of similar values.
pub(in super::super) struct Dictionary {
    encoder: CDict<'static>,
    decoder: DDict<'static>,
}

thread_local! {
    static ENCODING: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    static DECODING: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

impl Dictionary {
    /// Trains a dictionary. It is empty if the samples have nothing in common.
    #[allow(clippy::unnecessary_wraps, reason = "without the feature `compression`, there is no dictionary")]
    pub(super) fn trained<'b>(samples: impl Iterator<Item = &'b [u8]>) -> Option<Self> {
        let (mut texts, mut sizes) = (Vec::new(), Vec::new());
        for sample in samples {
            sizes.push(sample.len());
            texts.extend_from_slice(sample);
        }
        let mut dictionary = Vec::with_capacity((texts.len() / 10).clamp(SMALLEST, LARGEST));
        if zstd_safe::train_from_buffer(&mut dictionary, &texts, &sizes).is_err() {
            dictionary.clear();
        }
        Some(Self { encoder: CDict::create(&dictionary, LEVEL), decoder: DDict::create(&dictionary) })
    }

    /// Returns `head` and the compressed body.
    pub(super) fn compress(&self, head: &[u8], body: &[u8]) -> Option<Vec<u8>> {
        let mut packed = Vec::with_capacity(zstd_safe::compress_bound(body.len()));
        ENCODING.with_borrow_mut(|context| context.compress_using_cdict(&mut packed, body, &self.encoder)).ok()?;
        Some([head, &packed].concat())
    }

    pub(super) fn unpack(&self, frame: &[u8]) -> Bytes {
        let size = zstd_safe::get_frame_content_size(frame).ok().flatten();
        let mut body = Vec::with_capacity(size.and_then(|size| usize::try_from(size).ok()).unwrap_or_default());
        DECODING
            .with_borrow_mut(|context| context.decompress_using_ddict(&mut body, frame, &self.decoder))
            .expect("this process has compressed the body");
        body.into()
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary").field("bytes", &self.decoder.sizeof()).finish_non_exhaustive()
    }
}
