//! The result of a comparison.

use std::fmt;

use crate::{Result, compare::Difference, watch::Outcome};

/// The number of differences that are printed.
const PRINTED: usize = 10;

/// The results of all resources.
#[derive(Debug, Default)]
pub(crate) struct Report {
    events: usize,
    /// The number of kinds with events.
    kinds: usize,
    /// The resources without events. The command should have written objects of all.
    without: Vec<String>,
    differences: Vec<Difference>,
    /// The messages of all failures.
    failures: Vec<String>,
}

impl Report {
    /// Adds the result of the command.
    pub(crate) fn add_command(&mut self, result: Result) {
        self.failures.extend(result.err().map(|error| error.to_string()));
    }

    /// Adds the result of a resource.
    pub(crate) fn add(&mut self, outcome: Result<Outcome>) {
        match outcome {
            Ok(Outcome { resource, events, differences }) => {
                self.events += events;
                self.kinds += usize::from(events > 0);
                self.without.extend(Some(resource).filter(|_| events == 0));
                self.differences.extend(differences);
            }
            Err(error) => self.failures.push(error.to_string()),
        }
    }

    /// Reports whether events of every kind were compared, and all were equal and nothing failed.
    pub(crate) fn is_success(&self) -> bool {
        self.events > 0 && self.without.is_empty() && self.differences.is_empty() && self.failures.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in self.differences.iter().take(PRINTED) {
            writeln!(f, "{difference}")?;
        }
        for failure in &self.failures {
            writeln!(f, "{failure}")?;
        }
        if !self.without.is_empty() {
            writeln!(f, "no events of {}", self.without.join(", "))?;
        }
        writeln!(f, "{} events, {} kinds, {} differing", self.events, self.kinds, self.differences.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(resource: &str, events: usize) -> Outcome {
        Outcome { resource: resource.into(), events, differences: Vec::new() }
    }

    #[test]
    fn report_without_events_of_a_kind_is_not_a_success() {
        let mut report = Report::default();
        report.add_command(Ok(()));
        assert!(!report.is_success());
        report.add(Ok(outcome("pods", 2)));
        assert!(report.is_success());
        assert_eq!(report.to_string(), "2 events, 1 kinds, 0 differing\n");
        report.add(Ok(outcome("nodes", 0)));
        assert!(!report.is_success());
        assert_eq!(report.to_string(), "no events of nodes\n2 events, 1 kinds, 0 differing\n");
    }

    #[test]
    fn failed_command_is_no_success() {
        let mut report = Report::default();
        report.add(Ok(outcome("pods", 2)));
        report.add_command(Err("the suite failed".into()));
        assert!(!report.is_success());
        assert!(report.to_string().contains("the suite failed"));
    }

    #[test]
    fn failed_watch_is_no_success() {
        let mut report = Report::default();
        report.add(Ok(outcome("pods", 2)));
        report.add(Err("the watch of pods ended".into()));
        assert!(!report.is_success());
    }
}
