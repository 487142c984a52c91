//! The comparison: all rows exist, every claim of Windlass names its tests, and the counts in README are correct.

use std::{fs, ops::RangeInclusive, path::Path};

use crate::{Result, upstream::root};

/// The page with the rows. README has the counts.
const PAGE: &str = "docs/comparison.md";

/// The required rows, by area.
const ROWS: &[RangeInclusive<u32>] = &[
    1..=30,
    40..=65,
    70..=94,
    100..=111,
    120..=148,
    150..=158,
    160..=167,
    170..=192,
    200..=218,
    220..=232,
    240..=249,
    260..=288,
];

/// The columns, in order.
const COLUMNS: [&str; 4] = ["Windlass", "client-go", "controller-runtime", "kube-rs"];

/// The extent to which a project has a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Yes,
    Partly,
    No,
    /// Belongs to another project's scope.
    Elsewhere,
}

/// A line of the comparison.
#[derive(Debug)]
struct Row<'t> {
    number: u32,
    /// The answers in the order of [`COLUMNS`].
    answers: [Answer; COLUMNS.len()],
    /// The tests that show Windlass' answer, together.
    shown_by: Vec<ClaimTest<'t>>,
}

/// A test for a claim of Windlass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClaimTest<'t> {
    file: &'t str,
    test: &'t str,
}

/// Reads both pages and returns an error that lists the problems.
pub(crate) fn check() -> Result {
    let read = |page: &str| fs::read_to_string(root().join(page)).map_err(|error| format!("{page}: {error}"));
    let (page, readme) = (read(PAGE)?, read("README.md")?);
    let rows = lines_of_rows(&page).map(Row::parse).collect::<Result<Vec<_>>>()?;
    let mut wrong = numbering(&rows);
    wrong.extend(lines_of_rows(&readme).map(|line| format!("README.md has a row that belongs to {PAGE}: {line}")));
    wrong.extend(rows.iter().filter_map(|row| row.unfounded(root())));
    wrong.extend(miscounted(&rows, &readme));
    if wrong.is_empty() {
        println!("comparison: {} rows, every yes is shown by tests", rows.len());
        return Ok(());
    }
    Err(format!("the comparison, {PAGE}:\n  {}", wrong.join("\n  ")).into())
}

fn lines_of_rows(page: &str) -> impl Iterator<Item = &str> {
    page.lines().filter(|line| line.starts_with("| F-"))
}

/// Returns missing, unexpected and misplaced rows.
fn numbering(rows: &[Row<'_>]) -> Vec<String> {
    let expected: Vec<u32> = ROWS.iter().cloned().flatten().collect();
    let found: Vec<u32> = rows.iter().map(|row| row.number).collect();
    if found == expected {
        return Vec::new();
    }
    let mut wrong: Vec<_> = expected
        .iter()
        .filter(|number| !found.contains(number))
        .map(|number| format!("F-{number} is missing"))
        .collect();
    wrong
        .extend(found.iter().filter(|number| !expected.contains(number)).map(|number| format!("F-{number} is no row")));
    if wrong.is_empty() {
        wrong.push("rows are duplicated or out of order".to_owned());
    }
    wrong
}

/// Returns the missing lines of the summary.
fn miscounted(rows: &[Row<'_>], readme: &str) -> Vec<String> {
    let count = |column: usize, answer: Answer| rows.iter().filter(|row| row.answers[column] == answer).count();
    let summary = COLUMNS.iter().enumerate().map(|(column, name)| {
        let of = |answer| count(column, answer);
        format!("| {name} | {} | {} | {} |", of(Answer::Yes), of(Answer::Partly), of(Answer::No))
    });
    summary
        .filter(|line| !readme.lines().any(|found| found == line))
        .map(|line| format!("README.md lacks the line {line}"))
        .collect()
}

/// Returns the names of the tests in a source file.
pub(crate) fn tests_in(source: &str) -> impl Iterator<Item = &str> {
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    (0..lines.len()).filter_map(move |at| {
        let (_, declared) = lines[at].split_once("fn ")?;
        let (name, _) = declared.split_once('(')?;
        let mut above = lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        above.any(|line| line.starts_with("#[") && line.contains("test")).then_some(name)
    })
}

// === impl Row ===

impl<'t> Row<'t> {
    fn parse(line: &'t str) -> Result<Self> {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [row, _, ours, go, runtime, rust, _] = cells[..] else {
            return Err(format!("{PAGE}: a row has seven cells: {line}").into());
        };
        let number = row.trim_start_matches("F-").parse().map_err(|error| format!("{PAGE}: {row}: {error}"))?;
        let (ours, shown_by) = claim(ours).ok_or_else(|| format!("{PAGE}: {row}: {ours} is no claim"))?;
        let answer = |text| Answer::parse(text).ok_or_else(|| format!("{PAGE}: {row}: {text:?} is no answer"));
        Ok(Self { number, answers: [answer(ours)?, answer(go)?, answer(runtime)?, answer(rust)?], shown_by })
    }

    /// Returns the problem with a claim of Windlass, if any.
    fn unfounded(&self, root: &Path) -> Option<String> {
        let wrong = match (self.answers[0], &*self.shown_by) {
            (Answer::Yes | Answer::Partly, []) => "no test shows it".to_owned(),
            (Answer::Yes | Answer::Partly, tests) => tests.iter().find_map(|test| test.missing(root))?,
            (Answer::No | Answer::Elsewhere, []) => return None,
            (Answer::No | Answer::Elsewhere, _) => "a test shows what is not there".to_owned(),
        };
        Some(format!("F-{}: {wrong}", self.number))
    }
}

/// Parses the cell of Windlass: the answer, which is the text of the link to the first test, and numbered links to
/// further tests. Returns `None` if the numbers are not consecutive or a link is invalid.
fn claim(cell: &str) -> Option<(&str, Vec<ClaimTest<'_>>)> {
    let Some(mut rest) = cell.strip_prefix('[') else { return Some((cell, Vec::new())) };
    let (answer, _) = rest.split_once(']')?;
    let mut tests = Vec::new();
    loop {
        let (text, link) = rest.split_once("](")?;
        if !tests.is_empty() && text.parse() != Ok(tests.len() + 1) {
            return None;
        }
        let (link, after) = link.split_once(')')?;
        tests.push(ClaimTest::parse(link)?);
        if after.is_empty() {
            return Some((answer, tests));
        }
        rest = after.strip_prefix(" [")?;
    }
}

// === impl ClaimTest ===

impl<'t> ClaimTest<'t> {
    /// Parses the target of a link, relative to [`PAGE`]: `../path "test"`.
    fn parse(link: &'t str) -> Option<Self> {
        let (file, test) = link.strip_prefix("../")?.strip_suffix('"')?.split_once(" \"")?;
        Some(Self { file, test })
    }

    /// Returns an error text if the test does not exist.
    fn missing(self, root: &Path) -> Option<String> {
        let Self { file, test } = self;
        match fs::read_to_string(root.join(file)) {
            Ok(source) if tests_in(&source).any(|name| name == test) => None,
            Ok(_) => Some(format!("{file} has no test {test}")),
            Err(error) => Some(format!("{file}: {error}")),
        }
    }
}

// === impl Answer ===

impl Answer {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "yes" => Self::Yes,
            "partly" => Self::Partly,
            "no" => Self::No,
            "–" => Self::Elsewhere,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(line: &str) -> Row<'_> {
        Row::parse(line).unwrap()
    }

    #[test]
    fn a_claim_leads_to_a_test() {
        let linked = |link: &str| format!("| F-1 | files | {link} | yes | yes | no | |");
        let unfounded = |link: &str| row(&linked(link)).unfounded(root());
        let here = r#"(../xtask/src/rows.rs "a_claim_leads_to_a_test")"#;
        assert_eq!(unfounded(&format!("[yes]{here}")), None);
        assert_eq!(unfounded("no"), None);
        assert_eq!(unfounded("yes").unwrap(), "F-1: no test shows it");
        assert_eq!(unfounded(&format!("[no]{here}")).unwrap(), "F-1: a test shows what is not there");
        let other = r#"(../xtask/src/rows.rs "check")"#;
        assert_eq!(unfounded(&format!("[partly]{other}")).unwrap(), "F-1: xtask/src/rows.rs has no test check");
        assert_eq!(unfounded(&format!("[yes]{here} [2]{here} [3]{here}")), None);
        assert!(unfounded(&format!("[yes]{here} [2]{other}")).unwrap().ends_with("has no test check"));
        assert!(unfounded(r#"[yes](../nowhere.rs "a")"#).unwrap().starts_with("F-1: nowhere.rs: "));
        assert!(Row::parse(&linked("[yes](../xtask/src/rows.rs)")).is_err());
        assert!(Row::parse(&linked(r#"[yes](xtask/src/rows.rs "a_claim_leads_to_a_test")"#)).is_err());
        assert!(Row::parse(&linked(&format!("[yes]{here} [3]{here}"))).is_err());
        assert!(Row::parse(&linked(&format!("[yes]{here}, [2]{here}"))).is_err());
        assert!(Row::parse(&linked("perhaps")).is_err());
    }

    #[test]
    fn every_row_exists_once() {
        let lines: Vec<_> =
            ROWS.iter().cloned().flatten().map(|number| format!("| F-{number} | a | no | yes | yes | – | |")).collect();
        let mut rows: Vec<_> = lines.iter().map(|line| row(line)).collect();
        assert!(numbering(&rows).is_empty());
        rows.swap(0, 1);
        assert_eq!(numbering(&rows), ["rows are duplicated or out of order"]);
        rows.remove(0);
        rows.push(row("| F-99 | a | no | no | no | no | |"));
        assert_eq!(numbering(&rows), ["F-2 is missing", "F-99 is no row"]);
    }

    #[test]
    fn the_counts_are_those_of_the_rows() {
        let rows = [row("| F-1 | a | no | yes | yes | partly | |"), row("| F-2 | a | no | – | no | yes | |")];
        let summary = "| Windlass | 0 | 0 | 2 |\n| client-go | 1 | 0 | 0 |\n| controller-runtime | 1 | 0 | 1 |\n\
                       | kube-rs | 2 | 0 | 0 |";
        assert_eq!(miscounted(&rows, summary), ["README.md lacks the line | kube-rs | 1 | 1 | 0 |"]);
    }
}
