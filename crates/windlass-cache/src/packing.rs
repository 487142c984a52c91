//! Compression of bodies with a dictionary trained on similar bodies.
//!
//! A dictionary holds the common content of the bodies of one kind, so that each compressed body only has to store the
//! differences. A compressed body holds a reference to its dictionary, which exists as long as a body uses it.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use zstd_safe::{CCtx, CDict, DCtx, DDict};

/// The fastest level. With level 3, bodies are a tenth smaller and an update takes two microseconds more; with a
/// dictionary, higher levels gain nothing.
const LEVEL: i32 = 1;

/// The limits of a dictionary's size. A dictionary pays off with a hundredth of its samples' size.
const SMALLEST: usize = 4 << 10;
const LARGEST: usize = 64 << 10;

/// The dictionary that a body was compressed with.
pub(crate) struct Dictionary(DDict<'static>);

/// A compressor for one body at a time.
pub(crate) struct Packer {
    context: CCtx<'static>,
    encoder: CDict<'static>,
    dictionary: Arc<Dictionary>,
    out: Vec<u8>,
}

/// A decompressor for several threads at once.
pub(crate) struct Unpacker {
    idle: Mutex<Vec<DCtx<'static>>>,
}

/// The number of idle contexts that are retained; each takes 100 KB.
const IDLE: usize = 2;

/// A compressed body could not be decompressed because its memory was damaged.
#[derive(Debug, thiserror::Error)]
#[error("the compressed body cannot be read: {0}")]
pub(crate) struct Damaged(&'static str);

// === impl Packer ===

impl Packer {
    /// Trains a dictionary. If the samples are too few or too small, the dictionary is empty.
    pub(crate) fn trained(samples: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let (mut texts, mut sizes) = (Vec::new(), Vec::new());
        for sample in samples {
            sizes.push(sample.len());
            texts.extend_from_slice(&sample);
        }
        let mut dictionary = Vec::with_capacity((texts.len() / 100).clamp(SMALLEST, LARGEST));
        if zstd_safe::train_from_buffer(&mut dictionary, &texts, &sizes).is_err() {
            dictionary.clear();
        }
        Self {
            context: CCtx::create(),
            encoder: CDict::create(&dictionary, LEVEL),
            dictionary: Arc::new(Dictionary(DDict::create(&dictionary))),
            out: Vec::new(),
        }
    }

    /// Returns the current dictionary.
    pub(crate) fn dictionary(&self) -> &Arc<Dictionary> {
        &self.dictionary
    }

    /// Compresses a body; `None` if the result would not be smaller.
    pub(crate) fn pack(&mut self, body: &[u8]) -> Option<Box<[u8]>> {
        self.out.clear();
        self.out.reserve(zstd_safe::compress_bound(body.len()));
        self.context.compress_using_cdict(&mut self.out, body, &self.encoder).ok()?;
        (self.out.len() < body.len()).then(|| self.out.as_slice().into())
    }
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packer").finish_non_exhaustive()
    }
}

// === impl Unpacker ===

impl Unpacker {
    pub(crate) const fn new() -> Self {
        Self { idle: Mutex::new(Vec::new()) }
    }

    pub(crate) fn unpack(&self, packed: &[u8], dictionary: &Dictionary) -> Result<Vec<u8>, Damaged> {
        let mut body = Vec::new();
        self.unpack_into(&mut body, packed, dictionary).map(|()| body)
    }

    /// Replaces the content of `body`.
    pub(crate) fn unpack_into(
        &self,
        body: &mut Vec<u8>,
        packed: &[u8],
        dictionary: &Dictionary,
    ) -> Result<(), Damaged> {
        body.clear();
        body.reserve_exact(unpacked_len(packed));
        let mut context = self.idle.lock().pop().unwrap_or_else(DCtx::create);
        let outcome = context.decompress_using_ddict(body, packed, &dictionary.0);
        let mut idle = self.idle.lock();
        if idle.len() < IDLE {
            idle.push(context);
        }
        drop(idle);
        outcome.map(|_| ()).map_err(|code| Damaged(zstd_safe::get_error_name(code)))
    }
}

/// Returns the uncompressed size of a body.
pub(crate) fn unpacked_len(packed: &[u8]) -> usize {
    let len = zstd_safe::get_frame_content_size(packed).ok().flatten();
    len.and_then(|len| usize::try_from(len).ok()).unwrap_or(0)
}

impl fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpacker").finish_non_exhaustive()
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary").field("bytes", &self.0.sizeof()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(number: usize) -> Vec<u8> {
        let own = (number * 0x9e37_79b9 % 99_991).to_string().repeat(3);
        format!(r#"{{"metadata":{{"name":"pod-{number}","uid":"{own}"}},"spec":{{"containers":[{{"name":"app","image":"registry.example/app:1","imagePullPolicy":"IfNotPresent"}}]}}}}"#)
            .into_bytes()
    }

    #[test]
    fn packed_data_is_unpacked_with_its_dictionary() {
        let samples: Vec<_> = (0..300).map(body).collect();
        let unpacker = Unpacker::new();
        let (mut first, mut second) = (Packer::trained(samples.clone()), Packer::trained(samples[..40].to_vec()));
        for packer in [&mut first, &mut second] {
            let packed = packer.pack(&body(1_000)).unwrap();
            assert_eq!(unpacked_len(&packed), body(1_000).len());
            assert_eq!(unpacker.unpack(&packed, packer.dictionary()).unwrap(), body(1_000));
        }
    }

    #[test]
    fn dictionary_halves_the_compressed_size() {
        let samples: Vec<_> = (0..300).map(body).collect();
        let with = Packer::trained(samples).pack(&body(1_000)).unwrap().len();
        let without = Packer::trained([]).pack(&body(1_000)).unwrap().len();
        assert!(with * 2 < without, "{with} of {without}");
    }

    #[test]
    fn incompressible_data_is_stored_unchanged() {
        assert_eq!(Packer::trained([]).pack(b"{}"), None);
    }

    #[test]
    fn a_damaged_body_is_an_error() {
        let mut packer = Packer::trained([]);
        let mut packed = packer.pack(&[b'a'; 500]).unwrap();
        packed[0] ^= 1;
        assert!(Unpacker::new().unpack(&packed, packer.dictionary()).is_err());
    }
}
