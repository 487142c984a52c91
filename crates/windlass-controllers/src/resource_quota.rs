//! ResourceQuota: writes the limits and the usage of each quota into its status.
//!
//! The server adds the usage of new objects to the status when it admits them. This controller computes the usage from
//! all objects, and so subtracts what was deleted, has ended, or was charged for a write that failed. It does so when a
//! quota is created or its limits change, when an object that a quota counts is deleted or changes its usage, and
//! periodically.
//!
//! Guaranteed: a status is written only if the quota has not been charged since the usage was computed. Usage is only
//! reduced if the quota was not charged for [`GRACE`] before: an object is charged before it is stored, and stored before
//! the cache shows it. In a namespace with constant charges, the reduction waits for [`LONGEST_GRACE`] at most, and may
//! then miss an object until its namespace is computed again.
//!
//! ```text
//! monitors    the watches of the counted resources, started on demand
//! ```

mod monitors;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hashbrown::HashMap;
use k8s_openapi::{
    api::core::v1::{ResourceQuota, ResourceQuotaStatus},
    apimachinery::pkg::api::resource::Quantity as Text,
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;
use windlass_api::{
    ObjectExt, ObjectRef, Quantity,
    quota::{Amounts, ScopeRequirement},
};
use windlass_cache::Cached;
use windlass_runtime::{Action, Context, Controller, Manager, Watch};

use self::monitors::Monitors;
use crate::error::ReconcileError;

/// The number of quotas that are computed at the same time.
const WORKERS: usize = 5;
/// The interval between two computations of a quota without an event.
const RESYNC: Duration = Duration::from_mins(5);
/// The time after a change of the usage until it is computed again, because the cache may have been stale.
const VERIFICATION: Duration = Duration::from_secs(5);
/// The interval between two discoveries for a quota that limits an unknown resource.
const REDISCOVERY: Duration = Duration::from_secs(30);
/// The time without a charge after which usage may be reduced.
const GRACE: Duration = Duration::from_millis(200);
/// The time after which usage is reduced in spite of new charges.
const LONGEST_GRACE: Duration = Duration::from_secs(2);
/// The number of attempts with the quota that the server has, after a conflict. Further attempts have a back-off.
const LIVE_ATTEMPTS: usize = 3;

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    let quotas = Watch::<ResourceQuota>::all().filter_updates(changes_limits);
    let controller = Controller::watching(quotas).named("resourcequota").concurrency(WORKERS);
    let monitors = Arc::new(Monitors::new(manager.cluster().clone(), controller.handle()));
    let pending = Arc::new(Pending::default());
    manager.add(controller.reconcile_keys(move |key, cx| {
        let (monitors, pending) = (Arc::clone(&monitors), Arc::clone(&pending));
        async move { reconcile(&key, &cx, &monitors, &pending).await }
    }));
}

/// Reports whether an update changes the limits. Charges change the status only.
fn changes_limits(old: &Cached<ResourceQuota>, new: &Cached<ResourceQuota>) -> bool {
    let hard = |quota: &Cached<ResourceQuota>| quota.get().map(|quota| amounts(hard_of(&quota)));
    match (hard(old), hard(new)) {
        (Ok(old), Ok(new)) => old != new,
        _ => true,
    }
}

async fn reconcile(
    key: &ObjectRef<ResourceQuota>,
    cx: &Context,
    monitors: &Monitors,
    pending: &Pending,
) -> Result<Action, ReconcileError> {
    let quotas = cx.store::<ResourceQuota>();
    let Some(cached) = quotas.get(key) else {
        pending.forget(key);
        monitors.release(&quotas.list()).await;
        return Ok(Action::await_change());
    };
    let mut outcome = write_usage(&*cached.get()?, cx, monitors, pending).await;
    for _ in 0..LIVE_ATTEMPTS {
        match &outcome {
            Err(ReconcileError::Client(error)) if error.is_conflict() => {}
            _ => break,
        }
        // The quota was charged, or its cache is stale.
        let Some(live) = newest(key, cx).await? else { return Ok(Action::await_change()) };
        outcome = write_usage(&live, cx, monitors, pending).await;
    }
    outcome
}

/// Reads a quota from the server. The role of the controller permits lists only.
async fn newest(key: &ObjectRef<ResourceQuota>, cx: &Context) -> Result<Option<ResourceQuota>, ReconcileError> {
    let fields = format!("metadata.name={}", key.name());
    let found = cx.live().list::<ResourceQuota>().within(key.namespace().unwrap_or_default()).fields(fields).await?;
    Ok(found.items.into_iter().next())
}

/// Computes the usage of a quota and writes it, unless the quota was changed since it was read.
async fn write_usage(
    quota: &ResourceQuota,
    cx: &Context,
    monitors: &Monitors,
    pending: &Pending,
) -> Result<Action, ReconcileError> {
    let computed = compute(quota, cx, monitors).await?;
    let status = quota.status.clone().unwrap_or_default();
    let (hard, used) = (amounts(hard_of(quota)), &computed.used);
    let old = status.used.as_ref().map(amounts);
    let is_dirty = status.hard.as_ref().map(amounts).as_ref() != Some(&hard) || old.as_ref() != Some(used);
    if is_dirty {
        if old.is_some_and(|old| reduces(&old, used))
            && let Some(pause) = pending.pause(quota)
        {
            return Ok(Action::requeue_after(pause));
        }
        let texts = used.iter().map(|(name, amount)| (name.clone(), Text::from(amount))).collect();
        let status = ResourceQuotaStatus { hard: Some(hard_of(quota).clone()), used: Some(texts) };
        match cx.client().update_status(&ResourceQuota { status: Some(status), ..quota.clone() }).await {
            Ok(_) => {}
            Err(error) if error.is_not_found() => return Ok(Action::await_change()),
            Err(error) => return Err(error.into()),
        }
    }
    pending.forget(&quota.object_ref());
    match computed.failure {
        Some(failure) => Err(failure),
        None if is_dirty => Ok(Action::requeue_after(VERIFICATION)),
        None if computed.is_complete => Ok(Action::requeue_after(RESYNC)),
        None => Ok(Action::requeue_after(REDISCOVERY)),
    }
}

/// The usage of a quota.
struct Computed {
    used: Amounts,
    /// `false` if no served resource uses one of the limited amounts.
    is_complete: bool,
    /// The first error. The amounts that it concerns keep their last value.
    failure: Option<ReconcileError>,
}

async fn compute(quota: &ResourceQuota, cx: &Context, monitors: &Monitors) -> Result<Computed, ReconcileError> {
    let hard = hard_of(quota);
    let names: Vec<&str> = hard.keys().map(String::as_str).collect();
    let scopes = ScopeRequirement::of_quota(&json!({"spec": quota.spec}));
    let (counters, is_complete) = monitors.counters(cx.live(), &names).await?;
    let now = cx.clock().now();
    let (mut counted, mut failed, mut failure) = (Amounts::new(), Vec::new(), None);
    for counter in counters {
        let names = names.iter().copied().filter(|name| counter.evaluator.counts(name));
        match monitors.usage(&counter, quota.namespace().unwrap_or_default(), &scopes, now).await {
            Ok(mut usage) => {
                for name in names {
                    let amount = usage.remove(name).unwrap_or_default();
                    *counted.entry(name.to_owned()).or_default() += &amount;
                }
            }
            Err(error) => {
                failed.extend(names);
                failure.get_or_insert(error);
            }
        }
    }
    counted.retain(|name, _| !failed.contains(&name.as_str()));
    let mut used = quota.status.as_ref().and_then(|status| status.used.as_ref()).map(amounts).unwrap_or_default();
    used.extend(counted);
    used.retain(|name, _| hard.contains_key(name));
    Ok(Computed { used, is_complete, failure })
}

/// Reports whether an amount becomes smaller.
fn reduces(old: &Amounts, new: &Amounts) -> bool {
    new.iter().any(|(name, amount)| old.get(name).is_some_and(|old| amount < old))
}

fn hard_of(quota: &ResourceQuota) -> &BTreeMap<String, Text> {
    static EMPTY: BTreeMap<String, Text> = BTreeMap::new();
    quota.spec.as_ref().and_then(|spec| spec.hard.as_ref()).unwrap_or(&EMPTY)
}

fn amounts(texts: &BTreeMap<String, Text>) -> Amounts {
    texts.iter().filter_map(|(name, text)| Some((name.clone(), Quantity::try_from(text).ok()?))).collect()
}

/// The reductions that wait until their quota is not charged for a while.
#[derive(Debug, Default)]
struct Pending(Mutex<HashMap<ObjectRef<ResourceQuota>, Reduction>>);

#[derive(Debug)]
struct Reduction {
    since: Instant,
    /// The version of the quota, and the time at which it was first seen.
    version: String,
    seen: Instant,
}

impl Pending {
    /// Returns the time that a reduction must wait. Returns `None` if the quota can be written.
    fn pause(&self, quota: &ResourceQuota) -> Option<Duration> {
        let version = quota.metadata.resource_version.clone().unwrap_or_default();
        self.pause_at(quota.object_ref(), version, Instant::now())
    }

    fn pause_at(&self, key: ObjectRef<ResourceQuota>, version: String, now: Instant) -> Option<Duration> {
        let mut pending = self.0.lock();
        let reduction =
            pending.entry(key).or_insert_with(|| Reduction { since: now, version: version.clone(), seen: now });
        if reduction.version != version {
            (reduction.version, reduction.seen) = (version, now);
        }
        let left = GRACE.saturating_sub(now - reduction.seen);
        (!left.is_zero() && now - reduction.since < LONGEST_GRACE).then_some(left)
    }

    fn forget(&self, key: &ObjectRef<ResourceQuota>) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts_of(pairs: &[(&str, &str)]) -> Amounts {
        pairs.iter().map(|(name, amount)| ((*name).to_owned(), amount.parse().unwrap())).collect()
    }

    #[test]
    fn smaller_amount_is_a_reduction() {
        let old = amounts_of(&[("pods", "2"), ("cpu", "1000m")]);
        assert!(!reduces(&old, &amounts_of(&[("pods", "3"), ("cpu", "1")])));
        assert!(reduces(&old, &amounts_of(&[("pods", "3"), ("cpu", "999m")])));
        assert!(!reduces(&old, &amounts_of(&[("services", "0")])), "a new limit has no old usage");
    }

    #[test]
    fn reduction_waits_until_the_quota_is_not_charged() {
        let (pending, key) = (Pending::default(), || ObjectRef::new("q"));
        let start = Instant::now();
        let pause = |version: &str, after: Duration| pending.pause_at(key(), version.to_owned(), start + after);
        assert_eq!(pause("1", Duration::ZERO), Some(GRACE));
        assert_eq!(pause("1", GRACE / 2), Some(GRACE / 2));
        assert_eq!(pause("2", GRACE), Some(GRACE), "a charge starts the time again");
        assert_eq!(pause("2", GRACE * 2), None);
        assert_eq!(pause("3", LONGEST_GRACE), None, "constant charges do not block it");
        pending.forget(&key());
        assert_eq!(pause("3", LONGEST_GRACE), Some(GRACE));
    }
}
