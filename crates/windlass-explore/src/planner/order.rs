//! The order of plans: new ones first, all kinds of effects in turn.

use std::collections::{BTreeMap, VecDeque};

use super::{Candidate, Rank};
use crate::plan::Plan;

/// The kinds of effects in the order of their turns.
const TURNS: [&str; 10] =
    ["crash", "rewind", "gap", "lag", "stalled", "lost-response", "conflict", "refused", "deposed", "delayed"];

/// Orders the plans. Within a kind, candidates whose content is new come first, then second ones, and so on; periodic
/// changes come last. The kinds take turns.
pub(super) fn round_robin(candidates: Vec<Candidate>) -> Vec<Plan> {
    let mut queues: BTreeMap<usize, Vec<(Rank, usize, Plan)>> = BTreeMap::new();
    let mut numbers: BTreeMap<(Rank, String), usize> = BTreeMap::new();
    for Candidate { plan, novelty, rank } in candidates {
        let name = plan.faults.first().map_or("", |fault| fault.effect.name());
        let turn = TURNS.iter().position(|turn| *turn == name).unwrap_or(TURNS.len());
        let number = numbers.entry((rank, novelty)).or_default();
        queues.entry(turn).or_default().push((rank, *number, plan));
        *number += 1;
    }
    let sorted = |mut queue: Vec<(Rank, usize, Plan)>| {
        queue.sort_by_key(|(rank, number, _)| (*rank, *number));
        VecDeque::from(queue)
    };
    let mut queues: Vec<_> = queues.into_values().map(sorted).collect();
    let mut plans = Vec::new();
    // Periodic changes of one kind come after the usual ones of all kinds.
    for rank in [Rank::Usual, Rank::Unlikely, Rank::Periodic] {
        loop {
            let before = plans.len();
            for queue in &mut queues {
                let next = queue.pop_front_if(|(of, ..)| *of == rank);
                plans.extend(next.map(|(_, _, plan)| plan));
            }
            if plans.len() == before {
                break;
            }
        }
    }
    plans
}
