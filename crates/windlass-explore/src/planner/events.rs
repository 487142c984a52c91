//! Faults at events that the program watches.

use super::{
    Candidates, Rank,
    context::{Context, begins_deletion, is_by_program, reverts},
};
use crate::{
    plan::Effect,
    record::{Change, ChangeVerb},
};

/// Adds a lag at each change of a watched object, and a gap for each that a later change of the step cancels.
pub(super) fn add(context: &Context<'_>, candidates: &mut Candidates) {
    for (index, change) in context.changes.iter().enumerate() {
        if !context.is_watched(change) {
            continue;
        }
        candidates.add(context, Effect::Lag, change);
        let mut later = context.changes[index + 1..].iter().filter(|later| later.object == change.object);
        let Some(second) = later.find(|later| cancels(change, later)) else { continue };
        if second.step != change.step {
            // The program sees the events before the next step at the latest.
            candidates.skip("gaps that end in a later step than they begin", 1);
            continue;
        }
        // A program that does not see the first change often does not make the second one.
        let rank = if is_by_program(second) { Rank::Unlikely } else { Rank::Usual };
        candidates.add_ranked(context, Effect::Gap { until: second.point.clone() }, change, rank);
    }
}

/// Returns `true` if a program that sees only the state after the later change cannot know the earlier one.
fn cancels(change: &Change, later: &Change) -> bool {
    match (change.verb, later.verb) {
        (ChangeVerb::Create, ChangeVerb::Delete) | (ChangeVerb::Delete, ChangeVerb::Create) => true,
        (ChangeVerb::Update, ChangeVerb::Delete) => begins_deletion(change),
        (ChangeVerb::Update, ChangeVerb::Update) => reverts(change, later),
        _ => false,
    }
}
