//! Restarts against an earlier state.
//!
//! A program that deletes an object because of an earlier state deletes the one that was created again. A program that
//! creates an object because of an earlier state creates one that was deleted on purpose.

use std::collections::BTreeSet;

use super::{
    Candidates,
    context::{Context, is_by_program, reverts},
};
use crate::{
    plan::{Effect, Point, Scope, Side},
    record::{Change, ChangeVerb},
};

/// Adds the rewinds.
pub(super) fn add(context: &Context<'_>, candidates: &mut Candidates) {
    let mut rewinds = Rewinds { context, candidates, seen: BTreeSet::new() };
    for (index, change) in context.changes.iter().enumerate().filter(|(_, change)| is_by_program(change)) {
        let later = &context.changes[index + 1..];
        let mut later = later.iter().enumerate().filter(|(_, later)| later.object == change.object);
        match change.verb {
            ChangeVerb::Create => {
                if let Some((at, deletion)) = later.find(|(_, later)| later.verb == ChangeVerb::Delete) {
                    rewinds.add(index, &[Side::After], deletion);
                    rewinds.add(index + 1 + at, &[Side::Before], deletion);
                }
            }
            ChangeVerb::Update if !change.begins_deletion() => {
                let is_spec = change.point.fields.iter().all(|field| field.starts_with("spec."));
                if let Some((_, second)) = later.find(|(_, later)| is_spec && reverts(change, later)) {
                    rewinds.add(index, &[Side::Before, Side::After], second);
                }
            }
            ChangeVerb::Update | ChangeVerb::Delete => {
                if let Some((_, creation)) = later.find(|(_, later)| later.verb == ChangeVerb::Create) {
                    rewinds.add(index, &[Side::Before, Side::After], creation);
                }
            }
        }
    }
}

struct Rewinds<'c, 'r> {
    context: &'c Context<'r>,
    candidates: &'c mut Candidates,
    seen: BTreeSet<(Effect, Point)>,
}

impl<'r> Rewinds<'_, 'r> {
    /// Adds rewinds to the event that caused the change with this index, striking at a later change.
    fn add(&mut self, index: usize, sides: &[Side], strike: &Change) {
        for cause in self.causes(index) {
            for side in sides {
                let resource = &cause.object.resource;
                let mut scopes = Vec::new();
                if self.context.can_be_stale(resource) {
                    scopes.push(Scope::Resource(resource.clone()));
                } else {
                    let reason = format!("rewinds of {resource}, which the program reads only consistently");
                    self.candidates.skip(&reason, 1);
                }
                if self.context.has_stale_reads() {
                    scopes.push(Scope::All);
                }
                for scope in scopes {
                    let effect = Effect::Rewind { scope, side: *side, to: cause.point.clone() };
                    if self.seen.insert((effect.clone(), strike.point.clone())) {
                        self.candidates.add(self.context, effect, strike);
                    }
                }
            }
        }
    }

    /// Returns the possible causes of the change with this index: the last change of a watched object before it, the last
    /// one by another client, and the first one by another client in the same step, which the step itself made.
    fn causes(&self, index: usize) -> Vec<&'r Change> {
        let changes = &self.context.changes;
        let step = changes[index].step;
        let watched = || changes[..index].iter().copied().filter(|change| self.context.is_watched(change));
        let others = || watched().filter(|change| !is_by_program(change));
        let mut causes: Vec<&'r Change> = Vec::new();
        for cause in [watched().next_back(), others().next_back(), others().find(|change| change.step == step)] {
            causes.extend(cause.filter(|cause| causes.iter().all(|known| known.point != cause.point)));
        }
        causes
    }
}
