//! The names in the generated code.

pub(crate) use std::any::Any;

pub(crate) use crate::{
    decode_kind,
    value::{Limits, Place, State, Value, fill, keep, list, map, omit},
    wire::{BYTES, Field, Fields, Result, Unusual, VARINT},
};
