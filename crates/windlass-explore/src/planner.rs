//! Chooses plans from the records of runs without faults.

use std::collections::BTreeMap;

use crate::{
    plan::{Effect, Plan, Point},
    record::{Change, ChangeVerb, Record},
};

mod context;
mod events;
mod order;
mod pairs;
mod rewinds;
mod target;
mod writes;

use context::Context;

/// The plans of an exploration, in the order in which they run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planned {
    pub(crate) plans: Vec<Plan>,
    /// The number of possible plans that were not planned, by reason.
    pub(crate) skipped: BTreeMap<String, usize>,
}

/// A plan with the facts by which it is ordered.
#[derive(Clone, Debug)]
struct Candidate {
    plan: Plan,
    /// Candidates with the same text are alike; the first one is new.
    novelty: String,
    rank: Rank,
    /// `true` if it comes before others that are as new.
    is_promising: bool,
}

/// The usefulness of a candidate before novelty is considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Usual,
    /// The fault probably prevents the second change that it needs.
    Unlikely,
    /// The change is one of many of the same content, such as a heartbeat.
    Periodic,
}

/// Candidates, and the number of those that were skipped.
#[derive(Debug, Default)]
struct Candidates {
    all: Vec<Candidate>,
    skipped: BTreeMap<String, usize>,
}

/// Chooses the plans. `pairs` adds plans with two faults at the end.
pub(crate) fn plans(clean: &[Record], pairs: bool) -> Planned {
    let Some(context) = Context::new(clean) else { return Planned::default() };
    let mut candidates = Candidates::default();
    if context.uncommon > 0 {
        candidates.skip("changes that are not in all runs without faults", context.uncommon);
    }
    writes::add(&context, &mut candidates);
    events::add(&context, &mut candidates);
    rewinds::add(&context, &mut candidates);
    let Candidates { all, skipped } = candidates;
    let mut plans = order::round_robin(all);
    if pairs {
        let mut two = pairs::of(&context, &plans);
        plans.append(&mut two);
    }
    Planned { plans, skipped }
}

impl Candidates {
    fn add(&mut self, context: &Context<'_>, effect: Effect, change: &Change) {
        self.add_ranked(context, effect, change, Rank::Usual);
    }

    fn add_ranked(&mut self, context: &Context<'_>, effect: Effect, change: &Change, rank: Rank) {
        let rank = if context.is_periodic(change) { Rank::Periodic } else { rank };
        let novelty = format!("{} {}", novelty(&effect), content(&change.point));
        let plan = Plan::of(effect, change.point.clone());
        let is_promising = is_promising(change, &plan.faults()[0].effect);
        self.all.push(Candidate { plan, novelty, rank, is_promising });
    }

    fn skip(&mut self, reason: &str, number: usize) {
        *self.skipped.entry(reason.to_owned()).or_default() += number;
    }
}

/// Returns `true` if programs often handle the fault badly: an interrupted deletion, a state that a later step replaces, or
/// an earlier custom resource beside objects that were created since, which the program then deletes. Creations are
/// usually repeated without harm.
fn is_promising(change: &Change, effect: &Effect) -> bool {
    match effect {
        Effect::Gap { until } => until.step > change.step,
        Effect::Rewind { scope, .. } => scope.is_custom() && change.verb == ChangeVerb::Create,
        _ => change.verb == ChangeVerb::Delete || change.begins_deletion(),
    }
}

/// Returns the content of a change without the name of the object.
fn content(point: &Point) -> String {
    format!("{} {} {}", point.resource, point.verb.as_str(), point.fields.join("+"))
}

/// Returns the part of an effect that makes it different from others of its kind.
fn novelty(effect: &Effect) -> String {
    match effect {
        Effect::Rewind { scope, side, to } => format!("rewind {scope} {} {}", side.as_str(), content(to)),
        Effect::Refused(refusal) => format!("refused {}", refusal.code()),
        effect => effect.name().to_owned(),
    }
}

#[cfg(test)]
mod tests;
