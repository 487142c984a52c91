//! Parts of an object that are not in one piece in the input.

use std::cell::OnceCell;

/// A list of buffers that only grows, so that its buffers can be borrowed.
#[derive(Debug, Default)]
pub(super) struct Merged(OnceCell<Box<Part>>);

#[derive(Debug)]
struct Part {
    /// The address and the length of the bytes that were merged.
    at: (usize, usize),
    message: &'static str,
    bytes: Vec<u8>,
    next: Merged,
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
        let mut last = self;
        while let Some(part) = last.0.get() {
            if part.at == at && part.message == message {
                return Ok(&part.bytes);
            }
            last = &part.next;
        }
        let bytes = create()?;
        Ok(&last.0.get_or_init(|| Box::new(Part { at, message, bytes, next: Self::default() })).bytes)
    }
}

impl Drop for Merged {
    /// Without recursion, which a long list has no stack for.
    fn drop(&mut self) {
        let mut next = self.0.take();
        while let Some(mut part) = next {
            next = part.next.0.take();
        }
    }
}
