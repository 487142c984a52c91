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
            Ok(Outcome { events, differences }) => {
                self.events += events;
                self.kinds += usize::from(events > 0);
                self.differences.extend(differences);
            }
            Err(error) => self.failures.push(error.to_string()),
        }
    }

    /// Reports whether events were compared, and all were equal and nothing failed.
    pub(crate) fn is_success(&self) -> bool {
        self.events > 0 && self.differences.is_empty() && self.failures.is_empty()
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
        writeln!(f, "{} events, {} kinds, {} differing", self.events, self.kinds, self.differences.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_without_events_is_no_success() {
        let mut report = Report::default();
        report.add_command(Ok(()));
        report.add(Ok(Outcome { events: 0, differences: Vec::new() }));
        assert!(!report.is_success());
        report.add(Ok(Outcome { events: 2, differences: Vec::new() }));
        assert!(report.is_success());
        assert_eq!(report.to_string(), "2 events, 1 kinds, 0 differing\n");
    }

    #[test]
    fn failed_command_is_no_success() {
        let mut report = Report::default();
        report.add(Ok(Outcome { events: 2, differences: Vec::new() }));
        report.add_command(Err("the suite failed".into()));
        assert!(!report.is_success());
        assert!(report.to_string().contains("the suite failed"));
    }

    #[test]
    fn failed_watch_is_no_success() {
        let mut report = Report::default();
        report.add(Ok(Outcome { events: 2, differences: Vec::new() }));
        report.add(Err("the watch of pods ended".into()));
        assert!(!report.is_success());
    }
}
