//! Faults at events that the program watches.

use super::{
    Candidates, Rank,
    context::{Context, is_by_program, reverts},
};
use crate::{
    plan::Effect,
    record::{Change, ChangeVerb},
};

/// Adds a lag at each change of a watched object, and a gap for each that a later change hides.
pub(super) fn add(context: &Context<'_>, candidates: &mut Candidates) {
    for (index, change) in context.changes.iter().enumerate() {
        if !context.is_watched(change) {
            continue;
        }
        candidates.add(context, Effect::Lag, change);
        let mut later = context.changes[index + 1..].iter().filter(|later| later.object == change.object);
        let Some(second) = later.find(|later| cancels(change, later) || supersedes(change, later)) else { continue };
        // The program does not make changes that belong to states that it does not see.
        if second.step != change.step && (is_by_program(change) || is_by_program(second)) {
            candidates.skip("gaps over the end of a step between changes by the program", 1);
            continue;
        }
        // A program that does not see the first change often does not make the second one.
        let rank = if is_by_program(second) { Rank::Unlikely } else { Rank::Usual };
        candidates.add_ranked(context, Effect::Gap { until: second.point.clone() }, change, rank);
    }
}

/// Returns `true` if both are desired states of another client, of different steps. A program that is slow sees only the
/// later one.
fn supersedes(change: &Change, later: &Change) -> bool {
    let is_desired = |field: &String| field.starts_with("spec") || field.starts_with("data");
    let fields = &later.point.fields;
    let is_replaced = match (change.verb, later.verb) {
        (ChangeVerb::Create, ChangeVerb::Update) => fields.iter().any(is_desired),
        (ChangeVerb::Update, ChangeVerb::Update) => {
            change.point.fields.iter().filter(|field| is_desired(field)).any(|field| fields.contains(field))
        }
        _ => false,
    };
    is_replaced && later.step != change.step && !is_by_program(change) && !is_by_program(later)
}

/// Returns `true` if a program that sees only the state after the later change cannot know the earlier one.
fn cancels(change: &Change, later: &Change) -> bool {
    match (change.verb, later.verb) {
        (ChangeVerb::Create, ChangeVerb::Delete) | (ChangeVerb::Delete, ChangeVerb::Create) => true,
        (ChangeVerb::Update, ChangeVerb::Delete) => change.begins_deletion(),
        (ChangeVerb::Update, ChangeVerb::Update) => reverts(change, later),
        _ => false,
    }
}
