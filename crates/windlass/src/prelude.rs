//! Common imports for controllers: `use windlass::prelude::*;`
//!
//! Traits are imported as `_`, for their methods only.

pub use std::sync::Arc;

pub use crate::client::Tolerate as _;
pub use crate::{
    Action, Context, Controller, Manager, Object as _, ObjectExt as _, ObjectRef, Resource as _, shutdown,
};
