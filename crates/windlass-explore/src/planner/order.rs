//! The order of plans: new ones first, all kinds of effects in turn.

use std::collections::{BTreeMap, VecDeque};

use super::{Candidate, Rank};
use crate::plan::Plan;

/// The kinds of effects in the order of their turns. Those that reveal most defects have several turns.
const TURNS: [&str; 16] = [
    "crash",
    "rewind",
    "gap",
    "lag",
    "crash",
    "rewind",
    "stalled",
    "lost-response",
    "crash",
    "rewind",
    "gap",
    "conflict",
    "refused",
    "crash",
    "deposed",
    "delayed",
];

/// Orders the plans. Within a kind, candidates whose content is new come first, then second ones, and so on; among them,
/// promising ones come first. Periodic changes come last. The kinds take turns.
pub(super) fn round_robin(candidates: Vec<Candidate>) -> Vec<Plan> {
    let mut queues: BTreeMap<&'static str, Vec<(Rank, usize, bool, Plan)>> = BTreeMap::new();
    let mut numbers: BTreeMap<(Rank, String), usize> = BTreeMap::new();
    for Candidate { plan, novelty, rank, is_promising } in candidates {
        let name = plan.faults().first().map_or(TURNS[0], |fault| fault.effect.name());
        let number = numbers.entry((rank, novelty)).or_default();
        queues.entry(name).or_default().push((rank, *number, !is_promising, plan));
        *number += 1;
    }
    let sorted = |(name, mut queue): (&'static str, Vec<(Rank, usize, bool, Plan)>)| {
        queue.sort_by_key(|(rank, number, is_late, _)| (*rank, *number, *is_late));
        (name, VecDeque::from(queue))
    };
    let mut queues: BTreeMap<_, _> = queues.into_iter().map(sorted).collect();
    let mut plans = Vec::new();
    // Periodic changes of one kind come after the usual ones of all kinds.
    for rank in [Rank::Usual, Rank::Unlikely, Rank::Periodic] {
        loop {
            let before = plans.len();
            for turn in TURNS {
                let next = queues.get_mut(turn).and_then(|queue| queue.pop_front_if(|(of, ..)| *of == rank));
                plans.extend(next.map(|(.., plan)| plan));
            }
            if plans.len() == before {
                break;
            }
        }
    }
    // An effect without a turn comes last.
    plans.extend(queues.into_values().flatten().map(|(.., plan)| plan));
    plans
}
