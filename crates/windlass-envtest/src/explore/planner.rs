//! Derives the plans from a recorded run.

use std::collections::BTreeSet;

use windlass_api::Entropy;

use super::{
    plan::{EventFault, Perturbation, Plan, WriteFault},
    run::Run,
    scenario::Scenario,
};

/// Returns a plan for each possible fault of the recorded run, and for some pairs.
pub(crate) fn plans(scenario: &Scenario, recorded: &Run) -> Vec<Plan> {
    let single = singles(scenario, recorded);
    let entropy = Entropy::seeded(scenario.seed);
    let mut plans: Vec<Plan> = single.iter().cloned().map(Plan::of).collect();
    let mut pairs = BTreeSet::new();
    // More draws than pairs, because the same pair may be drawn twice.
    for _ in 0..scenario.pairs.saturating_mul(4) {
        if pairs.len() == scenario.pairs || single.len() < 2 {
            break;
        }
        let draw = || single[below(&entropy, single.len())].clone();
        let (one, other) = (draw(), draw());
        if place(&one) != place(&other) {
            let mut pair = vec![one, other];
            pair.sort();
            pairs.insert(Plan(pair));
        }
    }
    plans.extend(pairs);
    while plans.len() > scenario.max_runs {
        plans.remove(below(&entropy, plans.len()));
    }
    plans
}

fn singles(scenario: &Scenario, recorded: &Run) -> Vec<Perturbation> {
    let last = scenario.steps.len();
    let mut single = Vec::new();
    for (index, write) in recorded.writes.iter().enumerate() {
        let faults = WriteFault::ALL.into_iter().filter(|fault| match fault {
            WriteFault::Conflict => write.is_update,
            WriteFault::Rewind => write.step > 0,
            _ => true,
        });
        single.extend(faults.map(|fault| Perturbation::Write(fault, index + 1)));
    }
    for event in recorded.events.iter().filter(|event| event.step > 0) {
        let faults = EventFault::ALL.into_iter().filter(|fault| match fault {
            EventFault::Lag => event.step < last,
            // A new object that is deleted unseen leaves no trace in any cache.
            EventFault::Miss => event.step < last && !event.is_new,
            _ => true,
        });
        single.extend(faults.map(|fault| Perturbation::Event(fault, event.resource.clone(), event.n)));
    }
    single
}

/// Returns the place of a fault. Of two faults in the same place, one would hide the other.
fn place(perturbation: &Perturbation) -> (&str, usize) {
    match perturbation {
        Perturbation::Write(_, n) => ("", *n),
        Perturbation::Event(_, resource, n) => (resource, *n),
    }
}

fn below(entropy: &Entropy, bound: usize) -> usize {
    usize::try_from(entropy.below(bound as u64)).unwrap_or_default()
}
