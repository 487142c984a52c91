//! The requests of a phase, each with its intended start.

use std::time::Duration;

use windlass_api::Entropy;

use crate::{
    number::{float, seconds, whole},
    tracker::Key,
    workload::{Action, Count, Order, Phase, Scaled},
};

/// A request of a phase.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Task {
    Create(Key),
    /// Sets the replicas.
    Scale(Key, usize),
    Update(Key),
    Delete(Key),
    /// Deletes a random object, or creates another in the place of one that was deleted.
    Churn,
    /// The read of this index.
    Read(usize),
}

/// Returns the requests of a phase with their intended starts, in this order.
///
/// Writes are evenly distributed, in a random or in the listed order. Reads are at random times.
pub(crate) fn plan(
    scaled: &Scaled,
    phase: &Phase,
    is_namespaced: impl Fn(usize) -> bool,
    entropy: &Entropy,
) -> Vec<(Duration, Task)> {
    let mut objects: Vec<Key> = match phase.action {
        Action::Churn | Action::Read => Vec::new(),
        _ => phase.sets.iter().flat_map(|set| objects(scaled, *set, is_namespaced(*set))).collect(),
    };
    if phase.order == Order::Shuffled || phase.share < 1.0 {
        shuffle(&mut objects, entropy);
    }
    objects.truncate(whole((float(objects.len()) * phase.share).round()));
    if phase.order == Order::Listed {
        objects.sort_by_key(|key| phase.sets.iter().position(|set| *set == key.set));
    }
    let (writes, step) = phase.spread(objects.len());
    objects.truncate(writes);
    let at = |number: usize| step.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX));
    let mut plan: Vec<(Duration, Task)> = match &phase.action {
        Action::Churn => (0..writes).map(|number| (at(number), Task::Churn)).collect(),
        Action::Read => Vec::new(),
        action => {
            let task = |key: Key| match action {
                Action::Scale { min, max } => Task::Scale(key, replicas(scaled, key.set, *min, *max, entropy)),
                Action::Update(_) => Task::Update(key),
                Action::Delete => Task::Delete(key),
                _ => Task::Create(key),
            };
            objects.into_iter().enumerate().map(|(number, key)| (at(number), task(key))).collect()
        }
    };
    if phase.reads {
        let span = at(writes);
        for (index, read) in scaled.reads.iter().enumerate() {
            for _ in 0..whole((float(writes) * read.share).round()) {
                plan.push((seconds(span.as_secs_f64() * fraction(entropy)), Task::Read(index)));
            }
        }
        plan.sort_by_key(|(at, _)| *at);
    }
    plan
}

/// Returns the objects of a set that the phases of a workload create.
fn objects(scaled: &Scaled, set: usize, is_namespaced: bool) -> Vec<Key> {
    let namespaces = if is_namespaced { scaled.namespaces } else { 1 };
    match scaled.sets[set].count {
        Count::PerNamespace(count) => {
            let each = move |namespace| (0..count).map(move |index| Key { set, namespace, index });
            (0..namespaces).flat_map(each).collect()
        }
        Count::Total(total) => (0..total).map(|index| Key { set, namespace: index % namespaces, index }).collect(),
    }
}

/// Returns a random number of replicas between two factors of the set's.
fn replicas(scaled: &Scaled, set: usize, min: f64, max: f64, entropy: &Entropy) -> usize {
    let replicas = scaled.sets[set].replicas.unwrap_or(1.0);
    whole((replicas * (min + (max - min) * fraction(entropy))).round())
}

/// Returns a random number from 0 to 1.
fn fraction(entropy: &Entropy) -> f64 {
    const STEPS: u32 = 1 << 30;
    let step = u32::try_from(entropy.below(u64::from(STEPS))).unwrap_or_default();
    f64::from(step) / f64::from(STEPS)
}

fn shuffle(objects: &mut [Key], entropy: &Entropy) {
    for end in (1..objects.len()).rev() {
        let other = usize::try_from(entropy.below(end as u64 + 1)).unwrap_or_default();
        objects.swap(end, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Size, Workload};

    fn scaled(phases: &str) -> Scaled {
        let text = format!(
            "name: t\nnamespaces: 2\nobjects: {{a: {{count: 3, replicas: 10, template: {{apiVersion: v1, kind: A}}}}, \
             b: {{total: 3, template: {{apiVersion: v1, kind: B}}}}}}\nreads: [{{verb: get, share: 0.5}}]\nphases:\n{phases}"
        );
        Workload::parse("t", &text).unwrap().scale(&Size { nodes: 1, ..Size::default() }).unwrap()
    }

    fn plan_of(phase: &str, seed: u64) -> Vec<(Duration, Task)> {
        let scaled = scaled(phase);
        plan(&scaled, &scaled.phases[0], |set| set == 0, &Entropy::seeded(seed))
    }

    #[test]
    fn writes_are_evenly_distributed() {
        let plan = plan_of("- {name: c, create: [a, b], rate: 10, order: listed, reads: false}\n", 1);
        let times: Vec<u128> = plan.iter().map(|(at, _)| at.as_millis()).collect();
        assert_eq!(times, [0, 100, 200, 300, 400, 500, 600, 700, 800]);
        assert_eq!(plan[0].1, Task::Create(Key { set: 0, namespace: 0, index: 0 }));
        assert_eq!(plan[7].1, Task::Create(Key { set: 1, namespace: 0, index: 1 }), "b is cluster-scoped");
        let plan = plan_of("- {name: c, create: [a], duration: 3, reads: false}\n", 1);
        assert_eq!(plan.last().unwrap().0.as_millis(), 2500);
    }

    #[test]
    fn reads_are_added_by_their_share() {
        let plan = plan_of("- {name: c, create: [a], rate: 10}\n", 1);
        assert_eq!(plan.iter().filter(|(_, task)| *task == Task::Read(0)).count(), 3);
        assert!(plan.is_sorted_by_key(|(at, _)| *at) && plan.iter().all(|(at, _)| at.as_millis() < 600), "{plan:?}");
    }

    #[test]
    fn equal_seeds_have_equal_plans() {
        let phase = "- {name: s, scale: [a], factor: {min: 0.5, max: 1.5}, rate: 10}\n";
        assert_eq!(plan_of(phase, 5), plan_of(phase, 5));
        assert_ne!(plan_of(phase, 5), plan_of(phase, 6));
        let scaled = plan_of(phase, 5).into_iter().filter_map(|(_, task)| match task {
            Task::Scale(_, replicas) => Some(replicas),
            _ => None,
        });
        let scaled: Vec<usize> = scaled.collect();
        assert!(scaled.len() == 6 && scaled.iter().all(|replicas| (5..=15).contains(replicas)), "{scaled:?}");
    }

    #[test]
    fn share_limits_the_objects() {
        let plan = plan_of("- {name: d, delete: [a], share: 0.5, reads: false}\n", 1);
        assert_eq!(plan.len(), 3);
        let churn = plan_of("- {name: c, churn: [a], rate: 4, duration: 2, reads: false}\n", 1);
        assert_eq!(churn.len(), 8);
    }
}
