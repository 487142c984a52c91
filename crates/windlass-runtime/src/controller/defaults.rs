//! Defaults for the controllers of a manager.

use std::{num::NonZeroUsize, time::Duration};

use windlass_api::{ApiResource, GroupKind};

use super::{Choices, Order};

/// The default time that a controller waits for its caches.
const SYNC_TIMEOUT: Duration = Duration::from_mins(2);

/// Defaults for the settings that controllers of a manager do not set themselves. Pass them to
/// [`ManagerBuilder::controllers`](crate::ManagerBuilder::controllers).
///
/// ```
/// use windlass_api::GroupKind;
/// use windlass_runtime::ControllerDefaults;
///
/// let defaults = ControllerDefaults::new().concurrency(2).concurrency_of(GroupKind::new("apps", "Deployment"), 8);
/// # let _ = defaults;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "defaults do nothing until they are passed to a `ManagerBuilder`"]
pub struct ControllerDefaults {
    concurrency: Option<NonZeroUsize>,
    /// At most one entry per kind.
    by_kind: Vec<(GroupKind, NonZeroUsize)>,
    sync_timeout: Option<Duration>,
    reconcile_timeout: Option<Duration>,
    order: Option<Order>,
}

/// The resulting settings of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) concurrency: NonZeroUsize,
    pub(super) sync_timeout: Duration,
    /// `None`: no time limit.
    pub(super) reconcile_timeout: Option<Duration>,
    pub(super) order: Order,
}

impl ControllerDefaults {
    /// Creates the built-in defaults: one worker, 2 minutes for caches, no time limit of reconciles, keys in order of
    /// arrival.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of concurrent reconciles of a controller. The value 0 means 1.
    pub fn concurrency(mut self, workers: usize) -> Self {
        self.concurrency = Some(at_least_one(workers));
        self
    }

    /// Sets the maximum number of concurrent reconciles for controllers of one kind, in any version.
    /// controller-runtime's `GroupKindConcurrency`.
    pub fn concurrency_of(mut self, kind: GroupKind, workers: usize) -> Self {
        self.by_kind.retain(|(known, _)| *known != kind);
        self.by_kind.push((kind, at_least_one(workers)));
        self
    }

    /// Sets how long controllers wait for their caches before they fail.
    pub fn sync_timeout(mut self, timeout: Duration) -> Self {
        self.sync_timeout = Some(timeout);
        self
    }

    /// Sets the time limit of a reconcile, see [`Controller::reconcile_timeout`](crate::Controller::reconcile_timeout).
    pub fn reconcile_timeout(mut self, limit: Duration) -> Self {
        self.reconcile_timeout = Some(limit);
        self
    }

    /// Takes keys of changed objects before keys of initial lists, see
    /// [`Controller::by_priority`](crate::Controller::by_priority).
    pub fn by_priority(mut self) -> Self {
        self.order = Some(Order::Priority);
        self
    }

    /// Combines the settings. The controller's own settings take precedence over those of its kind, which take
    /// precedence over the defaults.
    pub(super) fn settle(&self, chosen: &Choices, root: &ApiResource) -> Settings {
        let of_kind = || {
            let named = |kind: &GroupKind| kind.kind == root.kind && kind.group == root.group;
            self.by_kind.iter().find(|(kind, _)| named(kind)).map(|(_, workers)| *workers)
        };
        Settings {
            concurrency: chosen.concurrency.or_else(of_kind).or(self.concurrency).unwrap_or(NonZeroUsize::MIN),
            sync_timeout: chosen.sync_timeout.or(self.sync_timeout).unwrap_or(SYNC_TIMEOUT),
            reconcile_timeout: chosen.reconcile_timeout.or(self.reconcile_timeout),
            order: chosen.order.or(self.order).unwrap_or(Order::Arrival),
        }
    }
}

fn at_least_one(workers: usize) -> NonZeroUsize {
    NonZeroUsize::new(workers).unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use windlass_api::{Resource, k8s_openapi::api::apps::v1::Deployment};

    use super::*;

    #[test]
    fn controller_settings_override_kind_and_manager() {
        let own = |workers| Choices { concurrency: NonZeroUsize::new(workers), ..Choices::default() };
        let of_kind = ControllerDefaults::new().concurrency_of(GroupKind::new("apps", "Deployment"), 3);
        let of_other = ControllerDefaults::new().concurrency_of(GroupKind::new("", "Deployment"), 3);
        let unset = own(0);
        for (defaults, chosen, expected) in [
            (ControllerDefaults::new(), unset, 1),
            (ControllerDefaults::new().concurrency(2), unset, 2),
            (ControllerDefaults::new().concurrency(0), unset, 1),
            (of_kind.clone().concurrency(2), unset, 3),
            (of_kind.clone().concurrency_of(GroupKind::new("apps", "Deployment"), 4), unset, 4),
            (of_other.concurrency(2), unset, 2),
            (of_kind.concurrency(2), own(5), 5),
        ] {
            let settings = defaults.settle(&chosen, &Deployment::api_resource());
            assert_eq!(settings.concurrency.get(), expected, "{defaults:?} {chosen:?}");
        }
    }

    #[test]
    fn controller_settings_fall_back_to_manager_and_builtin() {
        let second = Duration::from_secs(1);
        let root = Deployment::api_resource();
        let plain = ControllerDefaults::new().settle(&Choices::default(), &root);
        assert_eq!(plain.sync_timeout, Duration::from_mins(2));
        assert_eq!((plain.reconcile_timeout, plain.order), (None, Order::Arrival));

        let defaults = ControllerDefaults::new().sync_timeout(second).reconcile_timeout(second).by_priority();
        let settings = defaults.settle(&Choices::default(), &root);
        assert_eq!((settings.sync_timeout, settings.reconcile_timeout), (second, Some(second)));
        assert_eq!(settings.order, Order::Priority);
        let own = Choices { sync_timeout: Some(2 * second), reconcile_timeout: Some(3 * second), ..Choices::default() };
        let settings = defaults.settle(&own, &root);
        assert_eq!((settings.sync_timeout, settings.reconcile_timeout), (2 * second, Some(3 * second)));
    }
}
