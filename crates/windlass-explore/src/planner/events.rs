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

/// Returns `true` if both are updates of a desired state by another client, in different steps. A program that is slow
/// sees only the later one. A creation is not superseded: without it, the program creates its objects in their last
/// state at once, and rightly has no trace of the way there, such as the result of an upgrade in a status.
fn supersedes(change: &Change, later: &Change) -> bool {
    let is_desired = |field: &String| field.starts_with("spec") || field.starts_with("data");
    let mut desired = change.point.fields.iter().filter(|field| is_desired(field));
    let is_replaced = (change.verb, later.verb) == (ChangeVerb::Update, ChangeVerb::Update)
        && change.uid == later.uid
        && desired.any(|field| later.point.fields.contains(field));
    is_replaced && later.step != change.step && !is_by_program(change) && !is_by_program(later)
}

/// Returns `true` if a program that sees only the state after the later change cannot know the earlier one. A life over
/// several steps is not hidden: without it, the program rightly does not create what outlives the object, such as a volume.
fn cancels(change: &Change, later: &Change) -> bool {
    match (change.verb, later.verb) {
        (ChangeVerb::Create, ChangeVerb::Delete) => change.step == later.step,
        (ChangeVerb::Delete, ChangeVerb::Create) => true,
        (ChangeVerb::Update, ChangeVerb::Delete) => change.begins_deletion(),
        // An object that was created again is another one.
        (ChangeVerb::Update, ChangeVerb::Update) => change.uid == later.uid && reverts(change, later),
        _ => false,
    }
}
