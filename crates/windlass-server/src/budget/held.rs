//! Bytes that a response keeps in memory, which become fewer while it is sent.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// The number of bytes that the owner of a response keeps in memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldBytes(Arc<AtomicUsize>);

impl HeldBytes {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Relaxed)
    }

    pub(crate) fn set(&self, bytes: usize) {
        self.0.store(bytes, Relaxed);
    }
}
