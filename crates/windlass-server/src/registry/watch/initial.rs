//! The initial state of a watch, and the bytes that it occupies until it is sent.

use crate::{budget::HeldBytes, storage::CompactValue};

/// The number of values that are processed and converted at a time.
const PAGE: usize = 500;

/// The initial state of a watch.
#[derive(Default)]
pub(super) struct Initial {
    /// The values in key order, without those that have been processed.
    values: std::vec::IntoIter<CompactValue>,
    /// The number of values that the allocation has room for.
    slots: usize,
    /// `true` if only the watch keeps the bodies in memory.
    is_loaded: bool,
    /// The bytes that the values occupy; `None` without values.
    held: Option<HeldBytes>,
}

impl Initial {
    pub(super) fn new(values: Vec<CompactValue>, is_loaded: bool) -> Self {
        let held = (!values.is_empty()).then(HeldBytes::default);
        let initial = Self { slots: values.capacity(), values: values.into_iter(), is_loaded, held };
        initial.count();
        initial
    }

    /// Returns the bytes that the values occupy. They become fewer with [`Self::remove`].
    pub(super) fn held(&self) -> Option<HeldBytes> {
        self.held.clone()
    }

    /// Returns the next values, which are processed and converted together.
    pub(super) fn page(&self) -> &[CompactValue] {
        let values = self.values.as_slice();
        &values[..values.len().min(PAGE)]
    }

    /// Removes the first values.
    pub(super) fn remove(&mut self, count: usize) {
        self.values.by_ref().take(count).for_each(drop);
        if self.values.as_slice().is_empty() {
            // An iterator keeps the allocation of all its values.
            (self.values, self.slots) = (Vec::new().into_iter(), 0);
        }
        self.count();
    }

    fn count(&self) {
        let Some(held) = &self.held else { return };
        let bodies = self.values.as_slice().iter().map(|value| value.body.size());
        let bodies: usize = if self.is_loaded { bodies.sum() } else { 0 };
        held.set(self.slots * size_of::<CompactValue>() + bodies);
    }
}

impl Drop for Initial {
    fn drop(&mut self) {
        if let Some(held) = &self.held {
            held.set(0);
        }
    }
}
