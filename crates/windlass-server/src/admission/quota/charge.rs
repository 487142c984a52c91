//! The charge of a write: the quotas that it concerns, and the amounts that it adds to them.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_api::{
    GroupResource, Status,
    quota::{Amounts, Evaluator, ScopeRequirement, Usage, add_amounts, read_amounts},
};

use crate::object::Tree;

/// A write that uses quota.
#[derive(Clone, Debug)]
pub(super) struct Charge {
    pub(super) evaluator: Evaluator,
    /// The usage after the write.
    pub(super) usage: Usage,
    /// The usage before an update.
    pub(super) previous: Option<Usage>,
    pub(super) resource: GroupResource,
    /// The name of the object.
    pub(super) name: String,
    /// `false` for a change that is charged even if it exceeds the quota.
    pub(super) is_limited: bool,
    pub(super) is_dry_run: bool,
}

/// A resource that can only be used in namespaces with a quota for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitedResource {
    pub(crate) group: String,
    pub(crate) plural: String,
    /// Parts of the names of limited amounts.
    pub(crate) match_contains: Vec<String>,
    /// The scopes of limited objects.
    pub(crate) match_scopes: Vec<ScopeRequirement>,
}

/// A quota with the usage that is charged to it.
#[derive(Clone, Debug)]
pub(super) struct Quota {
    pub(super) name: String,
    pub(super) object: Value,
    scopes: Vec<ScopeRequirement>,
    hard: Amounts,
    pub(super) used: Amounts,
    is_charged: bool,
}

/// The result of a charge that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A quota was charged.
    Charged,
    /// No quota has to be changed.
    Unaffected,
}

impl Quota {
    pub(super) fn new(object: Value) -> Self {
        Self {
            name: object.text(&["metadata", "name"]).to_owned(),
            scopes: ScopeRequirement::of_quota(&object),
            hard: read_amounts(&object, &["status", "hard"]),
            used: read_amounts(&object, &["status", "used"]),
            is_charged: false,
            object,
        }
    }

    /// Reports whether the usage has changed.
    pub(super) const fn is_charged(&self) -> bool {
        self.is_charged
    }

    /// Returns the limited amounts that the objects of an evaluator can use.
    fn counted<'q>(&'q self, evaluator: &'q Evaluator) -> impl Iterator<Item = &'q str> {
        self.hard.keys().map(String::as_str).filter(|name| evaluator.counts(name))
    }

    /// Reports whether an object is in all scopes of the quota.
    fn selects(&self, usage: &Usage) -> bool {
        self.scopes.iter().all(|scope| usage.is_in(scope))
    }
}

impl Charge {
    /// Adds the charge to the quotas, all or none. Returns the refusal if it exceeds one of them. A dry run changes
    /// nothing.
    pub(super) fn apply(&self, quotas: &mut [Quota], limited: &[LimitedResource]) -> Result<Outcome, Status> {
        let mut concerned = Vec::new();
        for (index, quota) in quotas.iter().enumerate() {
            if quota.selects(&self.usage) && quota.counted(&self.evaluator).next().is_some() {
                self.check_status(quota)?;
                concerned.push(index);
            }
        }
        let negative = names(self.usage.amounts.iter().filter(|(_, amount)| amount.is_negative()));
        if !negative.is_empty() {
            return Err(self.forbidden(&format!("quota usage is negative for resource(s): {negative}")));
        }
        let difference = self.difference();
        let mut added: Vec<(usize, &Amounts)> = concerned
            .iter()
            .map(|index| {
                let counts_previous = self.previous.as_ref().is_some_and(|previous| quotas[*index].selects(previous));
                (*index, if counts_previous { &difference } else { &self.usage.amounts })
            })
            .collect();
        added.retain(|(_, amounts)| amounts.values().any(|amount| !amount.is_zero()));
        let is_free = if concerned.is_empty() {
            difference.values().all(windlass_api::Quantity::is_zero)
        } else {
            added.is_empty()
        };
        if is_free {
            return Ok(Outcome::Unaffected);
        }
        self.check_coverage(quotas, &concerned, limited)?;
        let mut charged = Vec::new();
        for (index, amounts) in added {
            let quota = &quotas[index];
            let amounts = amounts.iter().filter(|(name, amount)| !amount.is_zero() && quota.hard.contains_key(*name));
            let requested: Amounts = amounts.map(|(name, amount)| (name.clone(), amount.clone())).collect();
            let mut used = quota.used.clone();
            add_amounts(&mut used, &requested);
            if self.is_limited {
                self.check_limits(quota, &requested, &used)?;
            }
            charged.push((index, used));
        }
        if self.is_dry_run {
            return Ok(Outcome::Unaffected);
        }
        let mut outcome = Outcome::Unaffected;
        for (index, used) in charged {
            if used != quotas[index].used {
                quotas[index].used = used;
                quotas[index].is_charged = true;
                outcome = Outcome::Charged;
            }
        }
        Ok(outcome)
    }

    /// Returns the amounts that the write adds. An update that reduces an amount adds none.
    fn difference(&self) -> Amounts {
        let mut difference = self.usage.amounts.clone();
        for (name, amount) in self.previous.iter().flat_map(|previous| &previous.amounts) {
            if let Some(sum) = difference.get_mut(name) {
                *sum -= amount;
                if sum.is_negative() {
                    *sum = windlass_api::Quantity::default();
                }
            }
        }
        difference
    }

    /// Checks that the object sets the amounts that a quota limits, and that the usage of the quota is known.
    fn check_status(&self, quota: &Quota) -> Result<(), Status> {
        let name = &quota.name;
        if let Some(missing) = self.usage.missing_amounts(quota.counted(&self.evaluator)) {
            return Err(self.forbidden(&format!("failed quota: {name}: {missing}")));
        }
        if quota.counted(&self.evaluator).any(|resource| !quota.used.contains_key(resource)) {
            let resources = quota.counted(&self.evaluator).collect::<Vec<_>>().join(",");
            return Err(self.forbidden(&format!("status unknown for quota: {name}, resources: {resources}")));
        }
        Ok(())
    }

    /// Checks that quotas cover the limited resources that the object uses.
    fn check_coverage(&self, quotas: &[Quota], concerned: &[usize], limited: &[LimitedResource]) -> Result<(), Status> {
        let is_same = |limited: &&LimitedResource| {
            limited.group == self.resource.group && limited.plural == self.resource.resource
        };
        let parts: Vec<&String> = limited.iter().filter(is_same).flat_map(|limited| &limited.match_contains).collect();
        let covered: BTreeSet<&str> =
            concerned.iter().flat_map(|index| quotas[*index].counted(&self.evaluator)).collect();
        let uncovered = self.usage.amounts.iter().filter(|(name, amount)| {
            let is_limited = !amount.is_zero() && parts.iter().any(|part| name.contains(part.as_str()));
            is_limited && !covered.contains(name.as_str())
        });
        let uncovered = names(uncovered);
        if !uncovered.is_empty() {
            return Err(self.forbidden(&format!("insufficient quota to consume: {uncovered}")));
        }
        let covered: BTreeSet<&str> = quotas
            .iter()
            .flat_map(|quota| &quota.scopes)
            .filter(|scope| self.usage.is_in(scope))
            .map(|scope| scope.scope.as_str())
            .collect();
        let scopes = limited.iter().flat_map(|limited| &limited.match_scopes);
        let uncovered = scopes.filter(|scope| self.usage.is_in(scope) && !covered.contains(scope.scope.as_str()));
        let uncovered: Vec<String> = uncovered.map(shown_scope).collect();
        if uncovered.is_empty() {
            return Ok(());
        }
        // In kube-apiserver this error has status 500 and no reason.
        Err(Status::unclassified(format!("insufficient quota to match these scopes: [{}]", uncovered.join(" "))))
    }

    fn check_limits(&self, quota: &Quota, requested: &Amounts, used: &Amounts) -> Result<(), Status> {
        let is_exceeded = |name: &str| match (used.get(name), quota.hard.get(name)) {
            (Some(used), Some(hard)) => used > hard,
            _ => false,
        };
        let exceeded: BTreeSet<&str> = requested.keys().map(String::as_str).filter(|name| is_exceeded(name)).collect();
        if exceeded.is_empty() {
            return Ok(());
        }
        let shown = |amounts: &Amounts| {
            let amounts = amounts.iter().filter(|(name, _)| exceeded.contains(name.as_str()));
            amounts.map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
        };
        let (requested, used, hard) = (shown(requested), shown(&quota.used), shown(&quota.hard));
        let name = &quota.name;
        Err(self.forbidden(&format!("exceeded quota: {name}, requested: {requested}, used: {used}, limited: {hard}")))
    }

    fn forbidden(&self, why: &str) -> Status {
        Status::forbidden(&self.resource, &self.name, why)
    }
}

/// Returns the names of amounts, separated by commas.
fn names<'a>(amounts: impl Iterator<Item = (&'a String, &'a windlass_api::Quantity)>) -> String {
    amounts.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(",")
}

/// Returns a requirement as Go prints the struct.
fn shown_scope(scope: &ScopeRequirement) -> String {
    format!("{{{} {} [{}]}}", scope.scope, scope.operator, scope.values.join(" "))
}

#[cfg(test)]
mod tests;
