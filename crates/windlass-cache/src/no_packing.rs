//! The counterpart of compression in builds without the feature `compression`: no body is compressed.

use std::convert::Infallible;

/// A dictionary that does not exist.
#[derive(Debug)]
pub(crate) enum Dictionary {}

/// Reads bodies, none of which is compressed.
#[derive(Debug)]
pub(crate) struct Unpacker;

/// The error of a damaged body, which does not occur.
pub(crate) type Damaged = Infallible;

impl Unpacker {
    pub(crate) const fn new() -> Self {
        Self
    }

    pub(crate) fn unpack(&self, _: &[u8], dictionary: &Dictionary) -> Result<Vec<u8>, Damaged> {
        let Self = self;
        match *dictionary {}
    }

    pub(crate) fn unpack_into(&self, _: &mut Vec<u8>, _: &[u8], dictionary: &Dictionary) -> Result<(), Damaged> {
        let Self = self;
        match *dictionary {}
    }
}

/// Returns the size of a body.
pub(crate) const fn unpacked_len(body: &[u8]) -> usize {
    body.len()
}
