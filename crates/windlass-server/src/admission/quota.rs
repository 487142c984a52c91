//! The plugin `ResourceQuota`: rejects writes that would exceed a quota of their namespace, and charges the others.
//!
//! The usage is in `status.used` of each quota. A write is charged before it is stored, by an update of that status
//! with the resourceVersion of the state that was checked. So concurrent writes are not charged for more than a quota
//! allows, on one server or on several. Usage that ends is subtracted by the controller `resourcequota`, which recomputes
//! the status. The same holds for a write that is charged and then fails.
//!
//! Not guaranteed: that the usage never exceeds a quota. An object that is stored long after its charge can be missing in
//! the computation of the controller, as in Kubernetes.
//!
//! Concurrent writes in one namespace are charged together: see [`line`].

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use tokio::time::timeout;
use windlass_api::{Status, quota::Evaluator};

pub(super) use self::charge::LimitedResource;
use self::{
    charge::{Charge, Outcome, Quota},
    line::Lines,
};
use crate::{
    identity::{MASTERS, User},
    object::object_mut,
    registry::{Admission, Attributes, Operation, Registry, WriteParams},
    resource::{Body, Target},
};

mod charge;
mod line;

/// The longest time that a write waits for its charge.
const PATIENCE: Duration = Duration::from_secs(10);
/// The number of attempts to update quotas that other servers or clients change at the same time.
const ATTEMPTS: usize = 50;

/// Rejects writes that exceed a quota.
#[derive(Debug)]
pub(crate) struct ResourceQuotas {
    /// The resources that can only be used in namespaces with a quota for them.
    limited: Arc<[LimitedResource]>,
    lines: Arc<Lines>,
    /// The user who updates quotas.
    user: Arc<User>,
}

/// The quotas of a namespace.
struct Namespace {
    registry: Registry,
    name: String,
    limited: Arc<[LimitedResource]>,
    user: Arc<User>,
}

impl Admission for ResourceQuotas {
    fn handles(&self, write: &Attributes) -> bool {
        matches!(write.operation, Operation::Create | Operation::Update) && write.resource.is_namespaced()
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(quotas) = quotas_of(registry, &write.namespace) else { return Ok(()) };
            let quotas = registry.peek_all(&quotas).await?;
            if quotas.is_empty() && self.limited.is_empty() {
                return Ok(());
            }
            let Some(charge) = charge_of(registry, write) else { return Ok(()) };
            let namespace = Arc::new(Namespace {
                registry: registry.clone(),
                name: write.namespace.clone(),
                limited: Arc::clone(&self.limited),
                user: Arc::clone(&self.user),
            });
            let serve = move |charges| Arc::clone(&namespace).serve(charges);
            match timeout(PATIENCE, self.lines.charge(&write.namespace, charge, serve)).await {
                Ok(result) => result,
                Err(_) => Err(Status::internal("resource quota evaluation timed out")),
            }
        })
    }
}

impl ResourceQuotas {
    pub(super) fn new(limited: Vec<LimitedResource>) -> Self {
        let user = Arc::new(User::new("system:apiserver").in_groups([MASTERS]));
        Self { limited: limited.into(), lines: Arc::default(), user }
    }
}

impl Namespace {
    /// Checks charges and adds them to the quotas. Returns a result for each charge.
    async fn serve(self: Arc<Self>, charges: Vec<Arc<Charge>>) -> Vec<Result<(), Status>> {
        let mut results = vec![None; charges.len()];
        let mut retried: Option<(Vec<String>, Status)> = None;
        for _ in 0..ATTEMPTS {
            let names = retried.as_ref().map(|(names, _)| names.as_slice());
            let mut quotas = match self.read(names).await {
                Ok(quotas) => quotas,
                Err(error) => return settled(results, || Err(error.clone())),
            };
            for (charge, result) in charges.iter().zip(&mut results).filter(|(_, result)| result.is_none()) {
                match charge.apply(&mut quotas, &self.limited) {
                    Ok(Outcome::Charged) => {}
                    Ok(Outcome::Unaffected) => *result = Some(Ok(())),
                    Err(refusal) => *result = Some(Err(refusal)),
                }
            }
            retried = None;
            for quota in quotas.into_iter().filter(Quota::is_charged) {
                let name = quota.name.clone();
                match self.update(quota).await {
                    Ok(()) => {}
                    Err(error) if error.is_conflict() || error.is_not_found() => {
                        let (names, last) = retried.get_or_insert_with(|| (Vec::new(), error.clone()));
                        names.push(name);
                        *last = error;
                    }
                    Err(error) => return settled(results, || Err(error.clone())),
                }
            }
            if retried.is_none() {
                break;
            }
        }
        settled(results, || match &retried {
            None => Ok(()),
            Some((_, error)) => Err(error.clone()),
        })
    }

    /// Reads the quotas. With `names`, reads the current state of the quotas with these names that still exist.
    async fn read(&self, names: Option<&[String]>) -> Result<Vec<Quota>, Status> {
        let Some(target) = quotas_of(&self.registry, &self.name) else { return Ok(Vec::new()) };
        let Some(names) = names else {
            return Ok(self.registry.peek_all(&target).await?.iter().map(|item| Quota::new(item.value())).collect());
        };
        let mut quotas = Vec::new();
        for name in names {
            let target = Target { name: Some(name.clone()), ..target.clone() };
            quotas.extend(self.registry.peek(&target).await?.map(|item| Quota::new(item.value())));
        }
        Ok(quotas)
    }

    /// Writes the usage of a quota, unless the quota has changed since it was read.
    async fn update(&self, quota: Quota) -> Result<(), Status> {
        let Some(target) = quotas_of(&self.registry, &self.name) else { return Ok(()) };
        let target = Target { name: Some(quota.name.clone()), ..target }.subresource("status");
        let params = WriteParams {
            field_manager: "kube-apiserver".to_owned(),
            user: Arc::clone(&self.user),
            ..WriteParams::default()
        };
        self.registry.update(&target, Body::Value(quota.into_object()), params).await.map(drop)
    }
}

/// Returns the collection of the quotas of a namespace.
fn quotas_of(registry: &Registry, namespace: &str) -> Option<Target> {
    let resources = registry.resources();
    Some(Target::collection(resources.get("", "v1", "resourcequotas")?, Some(namespace)))
}

/// Returns the charge for a write. Returns `None` if the write cannot change the usage.
fn charge_of(registry: &Registry, write: &Attributes) -> Option<Charge> {
    let evaluator = Evaluator::of(&write.resource.group, &write.resource.plural)?;
    let changes = write.old.as_ref().map(|old| (&write.object, old));
    if !evaluator.is_affected(write.subresource.as_deref(), changes) {
        return None;
    }
    let now = registry.clock().now();
    Some(Charge {
        usage: evaluator.measure(&write.object, now),
        previous: write.old.as_ref().map(|old| evaluator.measure(old, now)),
        evaluator,
        resource: write.resource.group_resource(),
        name: write.name.clone(),
        is_limited: write.subresource.as_deref() != Some("status"),
        is_dry_run: write.context.dry_run == windlass_api::DryRun::All,
    })
}

/// Returns the results, with a default for those that are still open.
fn settled(results: Vec<Option<Result<(), Status>>>, open: impl Fn() -> Result<(), Status>) -> Vec<Result<(), Status>> {
    results.into_iter().map(|result| result.unwrap_or_else(&open)).collect()
}

impl Quota {
    /// Returns the quota with its new usage.
    fn into_object(self) -> serde_json::Value {
        let mut object = self.object;
        let used = self.used.iter().map(|(name, amount)| (name.clone(), amount.to_string().into()));
        object_mut(&mut object, "status").insert("used".to_owned(), serde_json::Value::Object(used.collect()));
        object
    }
}
