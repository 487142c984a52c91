//! The scores: the preference among the nodes that a pod can run on, each from 0 to 100, with the weights of
//! kube-scheduler. Images are not considered, and there are no default spread constraints.

use k8s_openapi::api::core::v1::Taint;

use super::{
    super::fit::{term_matches, tolerates},
    affinity::Preferences,
    profile::Profile,
    snapshot::{NodeInfo, Slot, Snapshot, Usage},
    spread::{SpreadState, states},
};

/// The highest score.
const MOST: f64 = 100.0;

/// Returns the best of these nodes; of equal ones, the first.
pub(super) fn best(snapshot: &mut Snapshot, pod: &Profile, nodes: &[Slot]) -> Option<Slot> {
    if let [only] = nodes {
        return Some(*only);
    }
    let spread = states(snapshot, pod, &pod.soft_spread);
    let preferences = Preferences::of(snapshot, pod);
    let snapshot = &*snapshot;
    let mut scores: Vec<f64> = nodes.iter().map(|slot| resources(pod, snapshot.node(*slot))).collect();
    let mut add = |weight: f64, parts: Vec<f64>| {
        for (score, part) in scores.iter_mut().zip(parts) {
            *score += weight * part;
        }
    };
    if nodes.iter().any(|slot| !snapshot.node(*slot).taints.is_empty()) {
        let of_node = |slot: &Slot| avoided_taints(pod, snapshot.node(*slot));
        add(3.0, reversed(nodes.iter().map(of_node).collect()));
    }
    if !pod.preferred.is_empty() {
        let of_node = |slot: &Slot| preferred_nodes(pod, snapshot.node(*slot));
        add(2.0, normalized(nodes.iter().map(of_node).collect()));
    }
    if !spread.is_empty() {
        add(2.0, spread_scores(&spread, nodes));
    }
    if !preferences.is_empty() {
        add(2.0, between(nodes.iter().map(|slot| as_float(preferences.weight(*slot))).collect()));
    }
    let mut best: Option<(f64, Slot)> = None;
    for (score, slot) in scores.into_iter().zip(nodes) {
        if best.is_none_or(|(highest, _)| score > highest) {
            best = Some((score, *slot));
        }
    }
    best.map(|(_, slot)| slot)
}

/// Prefers nodes with much CPU and memory left, and those that use both to the same degree.
fn resources(pod: &Profile, node: &NodeInfo) -> f64 {
    let Usage { assumed, demand, .. } = &node.usage;
    let mut free = 0.0;
    let mut counted = 0.0;
    let mut fractions = [0.0_f64; 2];
    let allocatable = node.allocatable.cpu_and_memory();
    let (used_now, requested) = (demand.cpu_and_memory(), pod.demand.cpu_and_memory());
    for (position, allocatable) in allocatable.into_iter().enumerate() {
        let used = assumed[position].plus(pod.assumed[position]).ratio(allocatable);
        if let Some(used) = used {
            free += (1.0 - used).max(0.0) * MOST;
            counted += 1.0;
        }
        let requested = used_now[position].plus(requested[position]);
        fractions[position] = requested.ratio(allocatable).unwrap_or(0.0).min(1.0);
    }
    let least_allocated = if counted > 0.0 { free / counted } else { 0.0 };
    // A pod without requests does not change the balance.
    let balanced = if pod.demand.is_empty() { 0.0 } else { (1.0 - (fractions[0] - fractions[1]).abs() / 2.0) * MOST };
    least_allocated + balanced
}

/// Counts the taints with the effect `PreferNoSchedule` that the pod does not tolerate.
fn avoided_taints(pod: &Profile, node: &NodeInfo) -> f64 {
    let is_tolerated = |taint: &&Taint| pod.tolerations.iter().any(|toleration| tolerates(toleration, taint));
    let soft = node.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
    soft.filter(|taint| !is_tolerated(taint)).map(|_| 1.0).sum()
}

/// Adds the weights of the preferred node affinity terms that match.
fn preferred_nodes(pod: &Profile, node: &NodeInfo) -> f64 {
    let matching = pod.preferred.iter().filter(|term| term_matches(&term.preference, node));
    matching.map(|term| f64::from(term.weight)).sum()
}

/// Prefers domains with few pods. A node that lacks the label of a constraint gets nothing.
fn spread_scores(constraints: &[SpreadState], nodes: &[Slot]) -> Vec<f64> {
    let cost = |slot: &Slot| constraints.iter().map(|constraint| constraint.cost(*slot)).sum::<Option<f64>>();
    let costs: Vec<_> = nodes.iter().map(cost).collect();
    let known = || costs.iter().flatten().copied();
    let (least, most) = (known().fold(f64::INFINITY, f64::min), known().fold(0.0, f64::max));
    let score = |cost: &Option<f64>| match cost {
        None => 0.0,
        Some(_) if most == 0.0 => MOST,
        Some(cost) => MOST * (most + least - cost) / most,
    };
    costs.iter().map(score).collect()
}

/// Scales so that the highest value becomes the highest score.
fn normalized(values: Vec<f64>) -> Vec<f64> {
    let most = values.iter().copied().fold(0.0, f64::max);
    if most == 0.0 { values } else { values.into_iter().map(|value| value * MOST / most).collect() }
}

/// Scales so that the lowest cost becomes the highest score.
fn reversed(costs: Vec<f64>) -> Vec<f64> {
    normalized(costs).into_iter().map(|cost| MOST - cost).collect()
}

/// Scales between the lowest and the highest value, which may be negative.
fn between(values: Vec<f64>) -> Vec<f64> {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let range = values.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least;
    let score = |value: f64| if range > 0.0 { MOST * (value - least) / range } else { 0.0 };
    values.into_iter().map(score).collect()
}

/// Weights are far below the limit of exact floats.
#[allow(clippy::cast_precision_loss, reason = "weights are small")]
fn as_float(weight: i64) -> f64 {
    weight as f64
}
