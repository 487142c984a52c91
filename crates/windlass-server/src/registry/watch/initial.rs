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
    /// The size of the bodies that only the watch keeps in memory.
    bodies: usize,
    /// `true` if only the watch keeps the bodies in memory.
    is_loaded: bool,
    /// The bytes that the values occupy; `None` without values.
    held: Option<HeldBytes>,
}

impl Initial {
    pub(super) fn new(values: Vec<CompactValue>, is_loaded: bool) -> Self {
        let held = (!values.is_empty()).then(HeldBytes::default);
        let bodies = if is_loaded { size(&values) } else { 0 };
        let initial = Self { slots: values.capacity(), values: values.into_iter(), bodies, is_loaded, held };
        initial.report();
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
        let values = self.values.as_slice();
        if self.is_loaded {
            self.bodies -= size(&values[..values.len().min(count)]);
        }
        self.values.by_ref().take(count).for_each(drop);
        if self.values.as_slice().is_empty() {
            // An iterator keeps the allocation of all its values.
            (self.values, self.slots) = (Vec::new().into_iter(), 0);
        }
        self.report();
    }

    fn report(&self) {
        if let Some(held) = &self.held {
            held.set(self.slots * size_of::<CompactValue>() + self.bodies);
        }
    }
}

/// Returns the size of the bodies of values.
fn size(values: &[CompactValue]) -> usize {
    values.iter().map(|value| value.body.size()).sum()
}

impl Drop for Initial {
    fn drop(&mut self) {
        if let Some(held) = &self.held {
            held.set(0);
        }
    }
}
