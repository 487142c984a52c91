//! The settings of controllers: their own, the manager's defaults, and overrides by the operator of the program.

mod defaults;
mod overrides;

use std::{num::NonZeroUsize, time::Duration};

pub use self::{defaults::ControllerDefaults, overrides::ControllerOverride};
pub(crate) use self::{defaults::Settings, overrides::Overrides};

/// Settings of one controller that override the manager's [`ControllerDefaults`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ControllerOptions {
    pub(crate) concurrency: Option<NonZeroUsize>,
    pub(crate) sync_timeout: Option<Duration>,
    pub(crate) reconcile_timeout: Option<Duration>,
    pub(crate) order: Option<Order>,
    /// The time from the first change of an object to its reconcile.
    pub(crate) debounce: Duration,
}

/// The order in which workers take keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The key that has been ready for longest.
    Arrival,
    /// Keys of changed objects first, then keys from lists and resyncs.
    Priority,
}
