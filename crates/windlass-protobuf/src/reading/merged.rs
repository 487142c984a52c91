//! Parts of an object that are not in one piece in the input.

use std::cell::OnceCell;

/// A tree of buffers that only grows, so that its buffers can be borrowed. Each bit of a key's hash selects a branch, so
/// that an object with many such parts is not searched for each of them.
#[derive(Debug, Default)]
pub(super) struct Merged(OnceCell<Box<Part>>);

#[derive(Debug)]
struct Part {
    /// The address and the length of the bytes that were merged.
    at: (usize, usize),
    message: &'static str,
    bytes: Vec<u8>,
    branches: [Merged; 2],
}

impl Merged {
    /// Returns the merged form of bytes, which is created once.
    pub(super) fn get_or_insert<E>(
        &self,
        of: &[u8],
        message: &'static str,
        create: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<&[u8], E> {
        let at = (of.as_ptr().addr(), of.len());
        // The address and the length are in different bits, and a multiplication by an odd number keeps them different.
        let mut hash = ((at.0 as u64).rotate_left(32) ^ at.1 as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^= hash >> 32;
        let mut last = self;
        while let Some(part) = last.0.get() {
            if part.at == at && part.message == message {
                return Ok(&part.bytes);
            }
            last = &part.branches[usize::from(hash & 1 == 1)];
            hash >>= 1;
        }
        let bytes = create()?;
        Ok(&last.0.get_or_init(|| Box::new(Part { at, message, bytes, branches: Default::default() })).bytes)
    }
}
