//! The counterpart of the compressor in builds without the feature `compression`: it compresses nothing.

use std::{marker::PhantomData, sync::Arc};

use crate::{cached::Cached, memory::Memory};

/// Leaves all bodies as they are.
pub(crate) struct Compressor<K>(PhantomData<fn(K)>);

impl<K> Compressor<K> {
    pub(crate) fn new(_: Arc<Memory>) -> Self {
        Self(PhantomData)
    }

    pub(crate) fn compress(&mut self, _: &Cached<K>) {
        let Self(PhantomData) = self;
    }

    pub(crate) fn settle(&mut self, _: &[Cached<K>]) {
        let Self(PhantomData) = self;
    }
}
