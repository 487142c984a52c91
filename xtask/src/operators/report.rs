//! The findings of an operator, compared with its published bugs.

use std::{collections::BTreeSet, fmt};

use super::manifest::{self, Bug, Operator, Verdict};
use crate::explorations::{Finding, Report, Run};

/// An explored workload.
#[derive(Clone, Debug)]
pub(super) struct Explored {
    workload: String,
    report: Report,
}

/// The outcome of the exploration of an operator.
pub(super) struct Outcome<'o> {
    operator: &'o Operator,
    explored: Vec<Explored>,
    /// The bugs of the explored workloads, with the first finding that matches.
    bugs: Vec<(&'o Bug, Option<Match>)>,
    /// The bugs of other versions that this one must not have.
    silent: Vec<Silence<'o>>,
}

/// A bug of another version, in this one.
struct Silence<'o> {
    /// The name with the directory of the other version.
    name: &'o str,
    bug: &'o Bug,
    /// The number of plans that can reveal the bug, and whose fault struck.
    plans: usize,
    found: Option<Match>,
}

/// A finding that matches a bug.
#[derive(Clone, Debug, PartialEq)]
struct Match {
    text: String,
    plan: String,
    /// Of the finding: replays that reproduced it, and all. Another of its plans may have been replayed.
    replays: (usize, usize),
    seconds: f64,
}

impl Explored {
    pub(super) fn new(workload: &str, report: Report) -> Self {
        Self { workload: workload.to_owned(), report }
    }

    /// Returns the finding that a bug explains. Reproduced findings come first.
    fn find(&self, bug: &Bug) -> Option<Match> {
        let matching = self.report.findings.iter().filter(|finding| bug.explains(finding));
        let matches = matching.filter_map(|finding| {
            let run = finding.runs.iter().find(|run| bug.is_planned(run))?;
            Some(Match {
                text: finding.text.clone(),
                plan: run.plan.clone(),
                replays: finding.replays(),
                seconds: finding.found_after_seconds,
            })
        });
        matches.max_by(|one, other| one.replays.0.cmp(&other.replays.0).then(other.seconds.total_cmp(&one.seconds)))
    }
}

impl Bug {
    fn explains(&self, finding: &Finding) -> bool {
        self.finding.iter().all(|part| finding.text.contains(part))
            && finding.runs.iter().any(|run| self.is_planned(run))
    }

    fn is_planned(&self, run: &Run) -> bool {
        self.is_revealed_by(&run.plan)
    }

    fn is_revealed_by(&self, plan: &str) -> bool {
        self.plan.iter().all(|part| plan.contains(part))
    }
}

impl<'o> Silence<'o> {
    /// Returns the silence of an explored workload about a bug.
    fn new(name: &'o str, bug: &'o Bug, explored: &Explored) -> Self {
        let report = &explored.report;
        let runs = report.findings.iter().flat_map(|finding| &finding.runs);
        let struck: BTreeSet<_> = runs.map(|run| &run.plan).chain(&report.passed).collect();
        let plans = struck.into_iter().filter(|plan| bug.is_revealed_by(plan)).count();
        Self { name, bug, plans, found: explored.find(bug).filter(|found| found.replays.0 > 0) }
    }

    /// Returns an error if the bug was found, or if no plan would have found it.
    fn failure(&self) -> Option<String> {
        match &self.found {
            Some(found) => Some(format!("{} was found: {}", self.name, found.text)),
            None if self.plans == 0 => Some(format!("no plan that reveals {} was run", self.name)),
            None => None,
        }
    }
}

impl<'o> Outcome<'o> {
    /// Compares the explored workloads with the bugs of the operator, and with those of `all` that it must not have.
    pub(super) fn new(operator: &'o Operator, all: &'o [Operator], explored: Vec<Explored>) -> Self {
        let of_workload = |bug: &Bug| explored.iter().find(|explored| explored.workload == bug.workload);
        let bugs = operator.manifest.bugs.iter().filter_map(|bug| Some((bug, of_workload(bug)?.find(bug)))).collect();
        let silent = operator.manifest.silent.iter().filter_map(|name| {
            let bug = manifest::find(all, name)?;
            Some(Silence::new(name, bug, of_workload(bug)?))
        });
        Self { operator, silent: silent.collect(), bugs, explored }
    }

    /// Returns the outcome without bugs: a mutation injects no fault that reveals them.
    pub(super) const fn of_mutations(operator: &'o Operator, explored: Vec<Explored>) -> Self {
        Self { operator, explored, bugs: Vec::new(), silent: Vec::new() }
    }

    /// Returns an error for each bug without a reproduced finding, and for each bug about which the version is not silent.
    pub(super) fn failures(&self) -> Vec<String> {
        let name = &self.operator.name;
        let missed = self.bugs.iter().filter_map(|(bug, found)| match found {
            None => Some((bug, "found")),
            Some(found) if found.replays.0 == 0 => Some((bug, "reproduced")),
            Some(_) => None,
        });
        let mut failures: Vec<String> =
            missed.map(|(bug, verb)| format!("{name}: {} was not {verb} ({})", bug.name, bug.published)).collect();
        failures.extend(self.silent.iter().filter_map(Silence::failure).map(|failure| format!("{name}: {failure}")));
        failures
    }
}

impl fmt::Display for Outcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let manifest = &self.operator.manifest;
        writeln!(f, "\n## {}\n", self.operator.name)?;
        if !self.bugs.is_empty() {
            writeln!(f, "| bug | published as | found by | replays | seconds |\n|---|---|---|---|---|")?;
        }
        for (Bug { name, published, .. }, found) in &self.bugs {
            match found {
                Some(Match { plan, replays: (reproduced, of), seconds, .. }) => {
                    writeln!(f, "| {name} | {published} | `{plan}` | {reproduced} of {of} | {seconds:.0} |")?;
                }
                None => writeln!(f, "| {name} | {published} | not found | | |")?,
            }
        }
        if !self.silent.is_empty() {
            writeln!(f, "| fixed bug | published as | plans that reveal it | |\n|---|---|---|---|")?;
        }
        for silence @ Silence { name, bug: Bug { published, .. }, plans, .. } in &self.silent {
            let failure = silence.failure();
            let outcome = failure.as_deref().unwrap_or("silent");
            writeln!(f, "| {name} | {published} | {plans} | {outcome} |")?;
        }
        for Explored { workload, report } in &self.explored {
            let Report { planned, finished, seconds, .. } = report;
            writeln!(f, "\n{workload}: {finished} of {planned} plans in {seconds:.0} s\n")?;
            let is_bug = |finding: &&Finding| {
                self.bugs.iter().any(|(bug, _)| bug.workload == *workload && bug.explains(finding))
            };
            for finding in report.findings.iter().filter(|finding| !is_bug(finding)) {
                let (reproduced, of) = finding.replays();
                let examined = manifest.examined.iter().find(|examined| finding.text.contains(&examined.finding));
                let verdict = match examined {
                    Some(examined) if examined.verdict == Verdict::Defect => format!("a defect: {}", examined.reason),
                    Some(examined) => format!("a false finding: {}", examined.reason),
                    None => "not examined".to_owned(),
                };
                let plans: BTreeSet<_> = finding.runs.iter().map(|run| run.plan.as_str()).collect();
                let plan = finding.plan();
                writeln!(
                    f,
                    "- {} ({reproduced} of {of} replays, {} plans, `{plan}`): {verdict}",
                    finding.text,
                    plans.len()
                )?;
            }
        }
        for missing in &manifest.not_found {
            writeln!(f, "- {} ({}) is out of reach: {}", missing.name, missing.published, missing.reason)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;

    fn operator(silent: &[&str]) -> Operator {
        let manifest = json!({
            "module": "m", "program": "m/p", "crds": [], "nodes": 1, "jobs": 1, "silent": silent,
            "bugs": [{"name": "b1", "published": "url1", "workload": "w", "finding": ["data-0", "deleted"], "plan": ["rewind"]},
                {"name": "b2", "published": "url2", "workload": "w", "finding": ["pods"]},
                {"name": "b3", "published": "url3", "workload": "another", "finding": ["pods"]}],
            "examined": [{"finding": "services", "verdict": "a defect", "reason": "it leaks."}],
        });
        let manifest = serde_json::from_value(manifest).unwrap();
        Operator { name: "test".to_owned(), directory: PathBuf::new(), manifest }
    }

    fn explored() -> Explored {
        let finding = |text: &str, plan: &str, reproduced: usize, seconds: f64| {
            let replays = json!({"reproduced": reproduced, "of": 3});
            json!({"text": text, "foundAfterSeconds": seconds, "runs": [{"plan": plan, "replays": replays}]})
        };
        let findings = [
            finding("data-0 is still being deleted", "crash@1", 3, 5.0),
            finding("data-0 is still being deleted", "rewind@1", 0, 10.0),
            finding("data-0 was deleted twice", "rewind@2", 2, 20.0),
            finding("services/a is left over", "lag@1", 3, 30.0),
        ];
        let report = json!({"planned": 9, "finished": 8, "seconds": 60.0, "findings": findings,
            "passed": ["rewind@9"]});
        Explored::new("w", Report::read("w", report.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn reproduced_findings_match_bugs_first() {
        let operator = operator(&[]);
        let outcome = Outcome::new(&operator, &[], vec![explored()]);
        let found = outcome.bugs[0].1.as_ref().unwrap();
        assert_eq!((found.plan.as_str(), found.replays, found.seconds), ("rewind@2", (2, 3), 20.0));
        assert_eq!(outcome.bugs.len(), 2, "the other workload was not explored");
        assert_eq!(outcome.failures(), ["test: b2 was not found (url2)"]);
    }

    #[test]
    fn finding_without_a_reproducing_replay_does_not_suffice() {
        let operator = operator(&[]);
        let mut explored = explored();
        for finding in &mut explored.report.findings {
            finding.runs[0].replays.reproduced = 0;
        }
        let failures = Outcome::new(&operator, &[], vec![explored]).failures();
        assert_eq!(failures, ["test: b1 was not reproduced (url1)", "test: b2 was not found (url2)"]);
    }

    #[test]
    fn version_is_silent_if_plans_that_reveal_the_bug_find_nothing() {
        let silence = |reproduced: usize, plan: &str, passed: &[&str]| {
            let all = [operator(&[])];
            let fixed = operator(&["test/b1", "test/b3"]);
            let mut explored = explored();
            explored.report.passed = passed.iter().map(|&plan| plan.to_owned()).collect();
            explored.report.findings.retain(|finding| finding.text.contains("twice"));
            explored.report.findings[0].runs[0].replays.reproduced = reproduced;
            plan.clone_into(&mut explored.report.findings[0].runs[0].plan);
            let outcome = Outcome { bugs: Vec::new(), ..Outcome::new(&fixed, &all, vec![explored]) };
            assert_eq!(outcome.silent.len(), 1, "the workload of b3 was not explored");
            (outcome.failures(), outcome.to_string())
        };
        let (failures, text) = silence(0, "rewind@2", &["rewind@9", "lag@1"]);
        assert!(failures.is_empty(), "{failures:?}");
        assert!(text.lines().any(|line| line == "| test/b1 | url1 | 2 | silent |"), "{text}");
        let (failures, _) = silence(1, "rewind@2", &["rewind@9"]);
        assert_eq!(failures, ["test: test/b1 was found: data-0 was deleted twice"]);
        let (failures, text) = silence(1, "crash@2", &["lag@1"]);
        assert_eq!(failures, ["test: no plan that reveals test/b1 was run"]);
        assert!(
            text.lines().any(|line| line == "| test/b1 | url1 | 0 | no plan that reveals test/b1 was run |"),
            "{text}"
        );
    }

    #[test]
    fn mutations_reveal_no_bugs() {
        let operator = operator(&[]);
        let outcome = Outcome::of_mutations(&operator, vec![explored()]);
        assert!(outcome.failures().is_empty());
        let text = outcome.to_string();
        assert!(!text.contains("url1") && text.contains("\n- data-0 was deleted twice (2 of 3"), "{text}");
    }

    #[test]
    fn tables_list_bugs_and_other_findings() {
        let operator = operator(&[]);
        let text = Outcome::new(&operator, &[], vec![explored()]).to_string();
        for line in [
            "| b1 | url1 | `rewind@2` | 2 of 3 | 20 |",
            "| b2 | url2 | not found | | |",
            "w: 8 of 9 plans in 60 s",
            "- data-0 is still being deleted (3 of 3 replays, 1 plans, `crash@1`): not examined",
            "- services/a is left over (3 of 3 replays, 1 plans, `lag@1`): a defect: it leaks.",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
        }
    }
}
