//! Overrides of a controller's settings by the operator of the program.

use std::{collections::BTreeMap, num::NonZeroUsize, time::Duration};

use super::defaults::Settings;
use crate::{Error, Result};

/// Overrides of a controller's settings, for
/// [`ManagerBuilder::override_controller`](crate::ManagerBuilder::override_controller). A field with `None` keeps the
/// controller's setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "a map")
)]
pub struct ControllerOverride {
    /// The maximum number of concurrent reconciles.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub concurrency: Option<NonZeroUsize>,
    /// How long to wait for the caches at the start before the controller fails.
    #[cfg_attr(
        feature = "config",
        serde(
            rename = "cacheSyncTimeout",
            skip_serializing_if = "Option::is_none",
            with = "crate::units::optional_duration"
        )
    )]
    pub sync_timeout: Option<Duration>,
    /// The time limit of a reconcile.
    #[cfg_attr(
        feature = "config",
        serde(skip_serializing_if = "Option::is_none", with = "crate::units::optional_duration")
    )]
    pub reconcile_timeout: Option<Duration>,
}

/// The overrides by controller name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides(BTreeMap<String, ControllerOverride>);

impl Overrides {
    pub(crate) fn insert(&mut self, name: String, of: ControllerOverride) {
        self.0.insert(name, of);
    }

    /// Checks that each override names one of these controllers.
    pub(crate) fn check_names<'a>(&self, existing: impl Iterator<Item = &'a str>) -> Result<()> {
        let existing: Vec<_> = existing.map(str::to_owned).collect();
        match self.0.keys().find(|name| !existing.contains(name)) {
            None => Ok(()),
            Some(name) => Err(Error::NoSuchController { name: name.clone(), existing }),
        }
    }

    /// Applies the overrides of the controller with this name.
    pub(crate) fn apply(&self, name: &str, settings: Settings) -> Settings {
        let of = self.0.get(name).copied().unwrap_or_default();
        Settings {
            concurrency: of.concurrency.unwrap_or(settings.concurrency),
            sync_timeout: of.sync_timeout.unwrap_or(settings.sync_timeout),
            reconcile_timeout: of.reconcile_timeout.or(settings.reconcile_timeout),
            order: settings.order,
        }
    }
}
