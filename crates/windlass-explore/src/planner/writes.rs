//! Faults at writes of the program.

use std::collections::BTreeSet;

use super::{
    Candidates, content,
    context::{Context, is_by_program},
};
use crate::{
    plan::{Effect, Refusal},
    record::ChangeVerb,
};

/// Adds a crash, a lost response and a refusal at each write. Other refusals, delays and stalls are added once for writes
/// with the same content.
pub(super) fn add(context: &Context<'_>, candidates: &mut Candidates) {
    let mut seen = BTreeSet::new();
    for change in context.changes.iter().filter(|change| is_by_program(change)) {
        let is_new = seen.insert(content(&change.point));
        let mut effects = vec![Effect::Crash, Effect::LostResponse, Effect::Refused(Refusal::InternalError)];
        if is_new {
            let refusals = [Refusal::GatewayTimeout, Refusal::TooManyRequests].map(Effect::Refused);
            effects.extend(refusals.into_iter().chain([Effect::Delayed, Effect::Stalled]));
        }
        if change.verb == ChangeVerb::Update {
            effects.push(Effect::Conflict);
            effects.extend(is_new.then_some(Effect::Refused(Refusal::Conflict)));
        }
        if context.has_leases {
            effects.push(Effect::Deposed);
        }
        for effect in effects {
            candidates.add(context, effect, change);
        }
    }
}
