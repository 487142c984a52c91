//! The results by fault.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{
    fault::Fault,
    follower::Counts,
    operation::{Outcome, Request},
    workload::Executed,
};

/// The results of the rounds with one fault.
#[derive(Debug, Default)]
pub(crate) struct Row {
    rounds: usize,
    operations: usize,
    unknown: u64,
    conflicts: u64,
    increments: u64,
    watched: Counts,
    gaps: Vec<Duration>,
    violations: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Report(BTreeMap<Fault, Row>);

impl Row {
    /// Returns the results of one round.
    pub(crate) fn of(executed: &Executed, watched: Counts, violations: usize) -> Self {
        let count = |matches: fn(&Outcome) -> bool| {
            executed.operations.iter().filter(|operation| matches(&operation.outcome)).count() as u64
        };
        let writes = executed.operations.iter().filter(|operation| !matches!(operation.request, Request::Read));
        let unknown = writes.filter(|operation| matches!(operation.outcome, Outcome::Unknown(_))).count() as u64;
        let increments = executed.increments;
        Self {
            rounds: 1,
            operations: executed.operations.len(),
            unknown: unknown + increments.unknown,
            conflicts: count(|outcome| matches!(outcome, Outcome::Conflict)) + increments.conflicts,
            increments: increments.acknowledged,
            watched,
            gaps: vec![executed.longest_gap],
            violations,
        }
    }

    fn add(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.operations += other.operations;
        self.unknown += other.unknown;
        self.conflicts += other.conflicts;
        self.increments += other.increments;
        self.watched += other.watched;
        self.gaps.extend(other.gaps);
        self.violations += other.violations;
    }

    /// Returns the median and the longest time without an answer, in milliseconds.
    fn gaps(&self) -> (u128, u128) {
        let mut sorted = self.gaps.clone();
        sorted.sort();
        let median = sorted.get(sorted.len() / 2).map_or(0, Duration::as_millis);
        (median, sorted.last().map_or(0, Duration::as_millis))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, operations, unknown, conflicts, increments, watched, violations, .. } = self;
        let (median, longest) = self.gaps();
        let Counts { events, resumed, lists, .. } = watched;
        write!(
            f,
            "{rounds:6} {operations:10} {unknown:7} {conflicts:9} {increments:10} {events:12} {resumed:8} {lists:5} \
             {median:9} {longest:10} {violations:10}"
        )
    }
}

impl Report {
    pub(crate) fn add(&mut self, fault: Fault, row: Row) {
        self.0.entry(fault).or_default().add(row);
    }

    pub(crate) fn violations(&self) -> usize {
        self.0.values().map(|row| row.violations).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:14} {:>6} {:>10} {:>7} {:>9} {:>10} {:>12} {:>8} {:>5} {:>9} {:>10} {:>10}",
            "",
            "rounds",
            "operations",
            "unknown",
            "conflicts",
            "increments",
            "watch events",
            "resumed",
            "lists",
            "median ms",
            "longest ms",
            "violations"
        )?;
        let mut total = Row::default();
        for (fault, row) in &self.0 {
            writeln!(f, "{:14} {row}", fault.name())?;
            total.add(Row { gaps: row.gaps.clone(), ..*row });
        }
        write!(f, "{:14} {total}", "all")
    }
}
