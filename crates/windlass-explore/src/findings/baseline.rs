//! The outcome of the runs without faults, and the comparison of other runs with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use windlass_api::difference::{Difference, differences, starred_path};

use super::{Finding, mutations, overwrites, programs};
use crate::{
    normal::{Derived, Mask, Names, Normal, is_ignored, normal},
    patterns::Patterns,
    plan::{Effect, Plan},
    record::{Actor, ChangeVerb, ObjectName, Outcome, Record},
};

/// The maximum number of fields of one finding.
const FIELDS: usize = 12;

/// The outcome of the runs without faults.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    /// The end state of the first run.
    reference: Normal,
    mask: Mask,
    patterns: Patterns,
    derived: Derived,
    runs: Vec<Summary>,
}

/// The numbers of one run.
#[derive(Debug, Default)]
struct Summary {
    /// The objects at the end.
    numbers: BTreeMap<ObjectName, usize>,
    /// Creations and deletions.
    churn: BTreeMap<(ObjectName, ChangeVerb), usize>,
    /// Those of objects that existed only because the program saw an earlier state.
    transient: BTreeMap<(ObjectName, ChangeVerb), usize>,
    /// The objects that the program created or deleted. Some wait for finalizers of others after the program's deletion.
    by_program: BTreeSet<ObjectName>,
    /// The objects that wait for their deletion at the end, with their finalizers.
    stuck: BTreeMap<ObjectName, (usize, Vec<String>)>,
    exits: usize,
    /// The keys of panics.
    panics: BTreeSet<String>,
}

impl Baseline {
    /// Learns from runs without faults. `derived` selects the derived resources that are compared.
    pub(crate) fn new(clean: &[Record], derived: Derived) -> Self {
        let mut baseline = Self { patterns: Patterns::learn(clean), derived, ..Self::default() };
        for record in clean {
            baseline.learn(record);
        }
        baseline
    }

    /// Learns from one more run without faults.
    pub(crate) fn learn(&mut self, record: &Record) {
        let names = Names::new(record, &self.patterns);
        let normal = normal(record, &names, &self.derived);
        self.runs.push(Summary::new(record, &names, &normal));
        if self.runs.len() == 1 {
            self.reference = normal;
        } else {
            self.mask.learn(&self.reference, &normal);
        }
    }

    /// Learns from a run with or without faults which objects keep a history in their conditions. Returns `true` if one is
    /// new.
    pub(crate) fn learn_histories(&mut self, record: &Record) -> bool {
        self.mask.learn_histories(record, &self.patterns)
    }

    /// Returns a baseline of other runs, with the same mask and patterns.
    pub(super) fn with_runs(&self, runs: &[Record]) -> Self {
        let (mask, patterns, derived) = (self.mask.clone(), self.patterns.clone(), self.derived.clone());
        let mut baseline = Self { mask, patterns, derived, ..Self::default() };
        for run in runs {
            baseline.learn(run);
        }
        baseline
    }

    pub(crate) fn mask(&self) -> &Mask {
        &self.mask
    }

    /// Returns the findings of a run.
    pub(crate) fn findings(&self, record: &Record) -> Vec<Finding> {
        let mut findings = self.failures(record);
        if record.outcome == Outcome::Completed {
            findings.extend(self.differences(record));
        }
        findings.extend(self.findings_of_fresh(record));
        let mut seen = BTreeSet::new();
        findings.retain(|finding| seen.insert(finding.key()));
        findings
    }

    /// Returns the findings that do not concern the end state.
    pub(super) fn failures(&self, record: &Record) -> Vec<Finding> {
        let mut findings = Vec::new();
        match &record.outcome {
            Outcome::Interrupted => return findings,
            Outcome::StepFailed { step, error } => {
                findings.push(Finding::StepFailed { step: *step, error: error.clone() });
            }
            Outcome::NotSettled { step } => findings.push(Finding::NotSettled { step: *step }),
            // It is no finding that the server does not accept a value.
            Outcome::Completed | Outcome::Rejected { .. } => {}
        }
        let mut panics = programs::panics(record);
        panics.retain(|panic| !self.runs.iter().any(|run| run.panics.contains(&panic.key())));
        let exits = programs::exits(record);
        let usual = self.range(|run| run.exits);
        // The exit after a panic is the same finding.
        let extra = exits.len().saturating_sub(*usual.end()).saturating_sub(panics.len());
        findings.append(&mut panics);
        findings.extend(exits.into_iter().rev().take(extra).map(Finding::from));
        let names = Names::new(record, &self.patterns);
        findings.extend(record.violations.iter().map(|violation| Finding::Violated {
            invariant: violation.invariant.clone(),
            object: violation.object.as_ref().map(|object| names.pattern(object)),
            error: violation.error.clone(),
        }));
        let overwritten = overwrites::overwrites(record).into_iter();
        findings.extend(overwritten.map(|object| Finding::Overwritten { object: names.pattern(&object) }));
        findings
    }

    /// Returns the differences of a completed run.
    pub(super) fn differences(&self, record: &Record) -> Vec<Finding> {
        let names = Names::new(record, &self.patterns);
        let normal = normal(record, &names, &self.derived);
        let run = Summary::new(record, &names, &normal);
        let mut findings = self.differences_of_end(&normal, record.plan.mutation().is_some());
        for (object, (found, finalizers)) in &run.stuck {
            let usual = self.range(|run| run.stuck.get(object).map_or(0, |(number, _)| *number));
            if found > usual.end() {
                findings.retain(|finding| finding.object() != Some(object));
                let (object, finalizers) = (object.clone(), finalizers.clone());
                findings.push(Finding::StuckInDeletion { object, finalizers });
            }
        }
        // A mutation and its end create and delete objects.
        let churn = record.plan.mutation().is_none().then(|| self.differences_of_churn(&run, &record.plan));
        let churn = churn.unwrap_or_default();
        // The number at the end implies the number of changes.
        let is_known = |churn: &Finding| {
            let same = |finding: &&Finding| {
                !matches!(finding, Finding::Different { .. }) && finding.object() == churn.object()
            };
            findings.iter().find(same).is_some()
        };
        let churn: Vec<_> = churn.into_iter().filter(|churn| !is_known(churn)).collect();
        findings.extend(churn);
        findings
    }

    /// Returns the differences of end states. After a mutation, the history of states and the status of built-in kinds,
    /// which follows from it, are left out.
    fn differences_of_end(&self, normal: &Normal, is_mutated: bool) -> Vec<Finding> {
        let known = self.runs.iter().flat_map(|run| run.numbers.keys());
        let objects: BTreeSet<_> = known.chain(normal.keys()).collect();
        let none = Vec::new();
        let mut findings = Vec::new();
        for object in objects {
            let alike = normal.get(object).unwrap_or(&none);
            let expected = self.range(|run| run.numbers.get(object).copied().unwrap_or_default());
            let (object, found) = (object.clone(), alike.len());
            if !expected.contains(&found) {
                let current = || alike.iter().filter(|state| !mutations::is_history(&object, state)).count();
                if is_mutated && found > *expected.end() && current() <= *expected.end() {
                    continue;
                }
                findings.push(match (*expected.start(), *expected.end(), found) {
                    (1, 1, 0) => Finding::Missing { object },
                    (0, 0, 1) => Finding::LeftOver { object },
                    _ => Finding::Number { object, expected, found },
                });
                continue;
            }
            let reference = self.reference.get(&object).unwrap_or(&none);
            if self.mask.objects.contains(&object) || reference.len() != found {
                continue;
            }
            let fields = reference.iter().zip(alike).flat_map(|(expected, found)| {
                if is_mutated {
                    differences(&mutations::without_traces(expected), &mutations::without_traces(found))
                } else {
                    differences(expected, found)
                }
            });
            let fields = fields.filter(|field| !self.mask.covers(&object, &field.path));
            let is_compared = |path: &str| !is_mutated || mutations::is_compared(&object, path);
            let fields: Vec<_> = fields.filter(|field| is_compared(&field.path)).take(FIELDS).collect();
            if !fields.is_empty() {
                findings.push(Finding::Different { object, fields });
            }
        }
        findings
    }

    fn differences_of_churn(&self, run: &Summary, plan: &Plan) -> Vec<Finding> {
        // A program that sees events late or not at all rightly skips the states in between.
        let may_skip = plan.faults().iter().any(|fault| matches!(fault.effect, Effect::Lag | Effect::Gap { .. }));
        let known = self.runs.iter().flat_map(|run| run.churn.keys());
        let keys: BTreeSet<_> = known.chain(run.churn.keys()).collect();
        let is_by_program = |object| self.runs.iter().chain([run]).any(|run| run.by_program.contains(object));
        let mut findings = Vec::new();
        for key in keys {
            let (object, verb) = key;
            // Built-in controllers create and delete objects with generated names as often as the timing of a rollout
            // requires.
            if object.name.contains('*') && !is_by_program(object) {
                continue;
            }
            let found = run.churn.get(key).copied().unwrap_or_default();
            let lasting = found - run.transient.get(key).copied().unwrap_or_default();
            let expected = self.range(|run| run.churn.get(key).copied().unwrap_or_default());
            if lasting > *expected.end() || (found < *expected.start() && !may_skip) {
                findings.push(Finding::Churn { object: object.clone(), verb: *verb, expected, found });
            }
        }
        findings
    }

    fn range(&self, number: impl Fn(&Summary) -> usize) -> RangeInclusive<usize> {
        let numbers = || self.runs.iter().map(&number);
        numbers().min().unwrap_or_default()..=numbers().max().unwrap_or_default()
    }
}

impl Summary {
    fn new(record: &Record, names: &Names, normal: &Normal) -> Self {
        let mut summary = Self {
            numbers: normal.iter().map(|(object, alike)| (object.clone(), alike.len())).collect(),
            exits: programs::exits(record).len(),
            panics: programs::panics(record).iter().map(Finding::key).collect(),
            ..Self::default()
        };
        let transient = transient(record);
        for change in &record.changes {
            let is_update = change.verb == ChangeVerb::Update;
            if is_update && !change.begins_deletion() || is_ignored(&change.object) {
                continue;
            }
            let object = names.pattern(&change.object);
            if change.actor != Actor::Other {
                summary.by_program.insert(object.clone());
            }
            // The cluster itself creates objects while the program starts. Whether they are recorded depends on the timing.
            if is_update || change.step == 0 && change.actor == Actor::Other {
                continue;
            }
            let key = (object, change.verb);
            if transient.contains(change.uid.as_str()) {
                *summary.transient.entry(key.clone()).or_default() += 1;
            }
            *summary.churn.entry(key).or_default() += 1;
        }
        for (object, state) in &record.end {
            let metadata = &state["metadata"];
            if metadata["deletionTimestamp"].is_string() && !is_ignored(object) {
                let finalizers = metadata["finalizers"].as_array().into_iter().flatten();
                let finalizers = finalizers.filter_map(|finalizer| finalizer.as_str().map(str::to_owned)).collect();
                summary.stuck.entry(names.pattern(object)).or_insert((0, finalizers)).0 += 1;
            }
        }
        summary
    }
}

/// Returns the UIDs of the objects that were created and deleted again because the program saw an earlier state: by the
/// program, or by controllers for its objects, in one step. No program can prevent this, and the end is the same. The
/// deletion of an object from before the fault is not excused.
fn transient(record: &Record) -> BTreeSet<&str> {
    let is_stale = |effect: &Effect| matches!(effect, Effect::Lag | Effect::Gap { .. } | Effect::Rewind { .. });
    let Some(fault) =
        record.injections.first().filter(|_| record.plan.faults().iter().all(|fault| is_stale(&fault.effect)))
    else {
        return BTreeSet::new();
    };
    let of = |verb| {
        let changes = record.changes.iter().filter(move |change| change.at > fault.at && change.verb == verb);
        changes.map(|change| (change.uid.as_str(), change.step))
    };
    let deleted: BTreeSet<_> = of(ChangeVerb::Delete).collect();
    of(ChangeVerb::Create).filter(|created| deleted.contains(created)).map(|(uid, _)| uid).collect()
}

impl Finding {
    /// Returns the object of the finding.
    pub(crate) fn object(&self) -> Option<&ObjectName> {
        match self {
            Self::Missing { object }
            | Self::LeftOver { object }
            | Self::Number { object, .. }
            | Self::Different { object, .. }
            | Self::Churn { object, .. }
            | Self::Overwritten { object }
            | Self::StuckInDeletion { object, .. } => Some(object),
            Self::UnlikeNew { difference } => difference.object(),
            _ => None,
        }
    }

    /// Returns the paths of the different fields of an object, without the indexes of list items.
    pub(crate) fn paths(&self) -> Option<BTreeSet<String>> {
        match self {
            Self::Different { fields, .. } => Some(fields.iter().map(|field| starred_path(&field.path)).collect()),
            Self::UnlikeNew { difference } => difference.paths(),
            _ => None,
        }
    }

    /// Returns the different fields of an object.
    pub(crate) fn fields_mut(&mut self) -> Option<(&ObjectName, &mut Vec<Difference>)> {
        match self {
            Self::Different { object, fields } => Some((object, fields)),
            Self::UnlikeNew { difference } => difference.fields_mut(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
