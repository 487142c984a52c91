//! What a controller needs in nearly every file: `use windlass::prelude::*;`
//!
//! Traits come without their names, for their methods only.

pub use std::sync::Arc;

pub use crate::client::Tolerate as _;
pub use crate::{
    Action, Context, Controller, Manager, Object as _, ObjectExt as _, ObjectRef, Resource as _, shutdown,
};
