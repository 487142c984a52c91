//! The results so far.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{FindingGroup, FindingRun, Replays, Results, state::Finished};
use crate::{findings::Finding, normal::Mask, plan::Plan};

/// The number of plans of a finding that are replayed until one is confirmed.
const REPLAYED: usize = 3;

/// Collects finished runs into results.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) results: Results,
    /// The time since the beginning of the exploration.
    pub(super) elapsed: Duration,
    /// The groups by the key of their finding.
    groups: BTreeMap<String, usize>,
    /// The finished replays of plans.
    replayed: BTreeMap<Plan, usize>,
}

impl Tally {
    /// Adds a finished run, or a replay.
    pub(super) fn add(&mut self, finished: &Finished) {
        if finished.is_replay { self.add_replay(finished) } else { self.add_run(finished) }
    }

    fn add_run(&mut self, finished: &Finished) {
        let Finished { plan, is_reached, rejected, findings, timeline, .. } = finished;
        self.results.finished += 1;
        *self.results.effects.entry(plan.effects()).or_default() += 1;
        if let Some(error) = rejected {
            self.results.rejected.insert(plan.to_string(), error.clone());
        } else if !is_reached {
            self.results.not_reached.push(plan.clone());
        } else if findings.is_empty() {
            self.results.passed.push(plan.clone());
        }
        let texts: Vec<_> = findings.iter().map(ToString::to_string).collect();
        for finding in findings {
            let run = FindingRun { plan: plan.clone(), findings: texts.clone(), replays: Replays::default() };
            if let Some(group) = self.groups.get(&group_of(plan, finding)) {
                let runs = &mut self.results.findings[*group].runs;
                // A single fault explains more than a pair.
                let is_simpler = runs.first().is_some_and(|first| plan.faults().len() < first.plan.faults().len());
                runs.insert(if is_simpler { 0 } else { runs.len() }, run);
                if is_simpler {
                    self.results.findings[*group].timeline.clone_from(timeline);
                }
                continue;
            }
            self.groups.insert(group_of(plan, finding), self.results.findings.len());
            self.results.findings.push(FindingGroup {
                finding: finding.clone(),
                text: finding.to_string(),
                found_after_seconds: self.elapsed.as_secs_f64(),
                runs: vec![run],
                timeline: timeline.clone(),
            });
        }
    }

    fn add_replay(&mut self, finished: &Finished) {
        *self.replayed.entry(finished.plan.clone()).or_default() += 1;
        let keys: Vec<_> = finished.findings.iter().map(Finding::key).collect();
        for group in &mut self.results.findings {
            let has_finding = keys.contains(&group.finding.key());
            let Some(at) = group.runs.iter().position(|run| run.plan == finished.plan) else { continue };
            let replays = &mut group.runs[at].replays;
            replays.of += 1;
            replays.reproduced += usize::from(has_finding);
            if has_finding && at > 0 && group.runs[0].replays.reproduced == 0 {
                let run = group.runs.remove(at);
                group.runs.insert(0, run);
                group.timeline.clone_from(&finished.timeline);
            }
        }
    }

    /// Removes the findings that a run without faults has as well, and the fields that differ without faults.
    pub(super) fn withdraw(&mut self, usual: &[Finding], mask: &Mask) {
        let usual: BTreeSet<_> = usual.iter().map(Finding::key).collect();
        let Results { findings, withdrawn, .. } = &mut self.results;
        findings.retain_mut(|group| {
            let remains = if let Some((object, fields)) = group.finding.fields_mut() {
                let before = fields.len();
                fields.retain(|field| !mask.covers(object, &field.path));
                let remains = !fields.is_empty();
                if remains && fields.len() < before {
                    group.text = group.finding.to_string();
                }
                remains
            } else {
                !usual.contains(&group.finding.key())
            };
            if !remains {
                withdrawn.push(std::mem::take(&mut group.text));
            }
            remains
        });
        let key = |group: &FindingGroup| group.runs.first().map(|run| group_of(&run.plan, &group.finding));
        let keys = findings.iter().enumerate().filter_map(|(index, group)| Some((key(group)?, index)));
        self.groups = keys.collect();
    }

    /// Returns the number of plans that were replayed.
    pub(super) fn replayed(&self) -> usize {
        self.replayed.len()
    }

    /// Returns a plan that is to be replayed, and the number of replays: the first plan of each finding, and the next
    /// one if no replay had the finding. `planned` counts the replays of a plan that are running or waiting.
    pub(super) fn next_replay(&self, replays: usize, planned: &BTreeMap<Plan, usize>) -> Option<Plan> {
        let of = |plan: &Plan| {
            let running = planned.get(plan).copied().unwrap_or_default();
            (self.replayed.get(plan).copied().unwrap_or_default(), running)
        };
        for group in &self.results.findings {
            for run in group.runs.iter().take(REPLAYED) {
                let (done, running) = of(&run.plan);
                if done + running < replays {
                    return Some(run.plan.clone());
                }
                if running > 0 || run.replays.reproduced > 0 {
                    break;
                }
            }
        }
        None
    }

    /// Returns the number of replays that are running or to come, as far as it is known.
    pub(super) fn replays_left(&self, replays: usize, planned: &BTreeMap<Plan, usize>) -> usize {
        let mut left = BTreeMap::new();
        for group in &self.results.findings {
            let done = |run: &&FindingRun| self.replayed.get(&run.plan).copied().unwrap_or_default();
            let next = group.runs.iter().take(REPLAYED).find(|run| done(run) < replays || run.replays.reproduced > 0);
            if let Some(run) = next {
                left.insert(&run.plan, replays.saturating_sub(done(&run)));
            }
        }
        for (plan, running) in planned {
            let number = left.entry(plan).or_default();
            *number = (*number).max(*running);
        }
        left.values().sum()
    }

    /// Returns the single faults of the pair with a new finding that have not run yet.
    pub(super) fn smaller(&self, plan: &Plan, has_run: impl Fn(&Plan) -> bool) -> Vec<Plan> {
        let is_new = self.results.findings.iter().any(|group| group.runs.first().is_some_and(|run| run.plan == *plan));
        if plan.faults().len() < 2 || !is_new {
            return Vec::new();
        }
        let singles = plan.faults().iter().map(|fault| Plan::Faults(vec![fault.clone()]));
        singles.filter(|single| !has_run(single)).collect()
    }

    /// Returns the results, with confirmed findings first.
    pub(super) fn finish(mut self) -> Results {
        self.results.findings.sort_by_key(|group| !group.is_confirmed());
        self.results
    }
}

/// Returns the key of the group of a finding. Faults reveal a defect at different points of a run, but each field that a
/// program handles badly is a defect of its own.
fn group_of(plan: &Plan, finding: &Finding) -> String {
    let Some(mutation) = plan.mutation() else { return finding.key() };
    let fields = match (finding, finding.paths()) {
        (_, Some(paths)) => paths.into_iter().collect(),
        (Finding::NotSettled { .. } | Finding::Exited { .. } | Finding::StepFailed { .. }, None) => {
            mutation.path.clone()
        }
        _ => Vec::new(),
    };
    format!("{} {}", finding.key(), fields.join(" "))
}
