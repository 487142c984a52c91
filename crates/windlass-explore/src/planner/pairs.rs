//! Plans with two faults.

use std::collections::BTreeSet;

use super::{content, context::Context};
use crate::plan::{Effect, Plan};

/// Returns pairs of a crash or a lag with a later crash of the same step. Of changes with equal content, only the first
/// is used.
pub(super) fn of(context: &Context<'_>, singles: &[Plan]) -> Vec<Plan> {
    let mut seen = BTreeSet::new();
    let mut faults = Vec::new();
    for fault in singles.iter().flat_map(Plan::faults) {
        let is_paired = matches!(fault.effect, Effect::Crash | Effect::Lag);
        if is_paired && seen.insert((fault.effect.name(), fault.point.step, content(&fault.point))) {
            let position = context.changes.iter().position(|change| change.point == fault.point);
            faults.extend(position.map(|position| (position, fault)));
        }
    }
    let mut pairs = Vec::new();
    for (second_at, second) in faults.iter().filter(|(_, fault)| fault.effect == Effect::Crash) {
        for (first_at, first) in &faults {
            if first_at < second_at && first.point.step == second.point.step {
                let distance = second_at - first_at;
                pairs.push((distance, Plan::Faults(vec![(*first).clone(), (*second).clone()])));
            }
        }
    }
    // Faults close to each other probably concern the same work.
    pairs.sort_by_key(|(distance, _)| *distance);
    pairs.into_iter().map(|(_, plan)| plan).collect()
}
