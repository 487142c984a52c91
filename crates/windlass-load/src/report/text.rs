//! The text report.

use std::fmt::Write as _;

use crate::results::{Percentiles, Results};

/// Returns the results as tables.
#[must_use]
pub fn text(results: &Results) -> String {
    let mut out = String::new();
    for line in summary(results) {
        out.push_str(&line);
        out.push('\n');
    }
    for (title, rows) in tables(results) {
        // Writing to a `String` cannot fail.
        let _ = write!(out, "\n{title}\n");
        out.push_str(&aligned(&rows));
    }
    let missed: Vec<&str> = results.slos.iter().filter(|slo| !slo.met).map(|slo| slo.subject.as_str()).collect();
    out.push('\n');
    if missed.is_empty() {
        let _ = writeln!(out, "All {} objectives are met.", results.slos.len());
    } else {
        let _ =
            writeln!(out, "{} of {} objectives are missed: {}.", missed.len(), results.slos.len(), missed.join(", "));
    }
    if !results.remaining.is_empty() {
        let _ = writeln!(out, "Not deleted: {}.", results.remaining.join(", "));
        let _ = writeln!(
            out,
            "Delete the namespaces with: kubectl delete namespace -l load.windlass.dev/run={}",
            results.run
        );
    }
    out
}

/// Returns the facts about a run, one a line.
pub(super) fn summary(results: &Results) -> Vec<String> {
    let variable = |name: &str| results.variables.get(name).copied().unwrap_or_default();
    let counted = |plural: &str| {
        let count = variable(plural);
        format!("{count} {}", if (count - 1.0).abs() < 1e-9 { plural.trim_end_matches('s') } else { plural })
    };
    let requests: usize = results.requests.iter().map(|row| row.count).sum();
    let rate = if results.seconds > 0.0 { crate::number::float(requests) / results.seconds } else { 0.0 };
    let mut lines = vec![
        format!(
            "{} on {}: {} in {}, rate {}, seed {}",
            results.workload,
            counted("nodes"),
            counted("pods"),
            counted("namespaces"),
            variable("rate"),
            results.seed
        ),
        format!("server {}, run {}, started {}", results.server, results.run, results.started),
        format!("{requests} requests in {:.1} s, {rate:.1} per second", results.seconds),
    ];
    if results.interrupted {
        lines.push("The run was stopped before its end.".to_owned());
    }
    if results.relists > 0 {
        lines.push(format!("{} watches broke and listed again.", results.relists));
    }
    lines
}

/// Returns the tables with their titles. The first row is the heading.
pub(super) fn tables(results: &Results) -> Vec<(&'static str, Vec<Vec<String>>)> {
    let heading = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    let mut phases =
        vec![heading(&["phase", "action", "start", "seconds", "requests", "failed", "skipped", "waiting"])];
    phases.extend(results.phases.iter().map(|phase| {
        vec![
            phase.name.clone(),
            phase.action.clone(),
            format!("{:.1}", phase.start),
            format!("{:.1}", phase.seconds),
            phase.requests.to_string(),
            phase.failed.to_string(),
            phase.skipped.to_string(),
            phase.pending.to_string(),
        ]
    }));
    let mut requests = vec![heading(&[
        "verb", "resource", "scope", "count", "failed", "p50", "p90", "p99", "max", "limit", "verdict",
    ])];
    requests.extend(results.requests.iter().map(|row| {
        let mut cells = vec![
            row.verb.clone(),
            row.resource.clone(),
            row.scope.clone(),
            row.count.to_string(),
            row.failed.to_string(),
        ];
        cells.extend(percentiles(row.latency));
        cells.extend([time(row.limit), verdict(row.met)]);
        cells
    }));
    let mut tables = vec![("Phases", phases), ("Latency of requests, from the intended start", requests)];
    let mut failures = vec![heading(&["verb", "resource", "scope", "reason", "count"])];
    for row in &results.requests {
        failures.extend(row.failures.iter().map(|(reason, count)| {
            vec![row.verb.clone(), row.resource.clone(), row.scope.clone(), reason.clone(), count.to_string()]
        }));
    }
    if failures.len() > 1 {
        tables.push(("Failures", failures));
    }
    if let Some(pods) = &results.pod_startup {
        let mut rows = vec![heading(&["pods", "count", "p50", "p90", "p99", "max", "limit", "verdict"])];
        let slo = results.slos.iter().find(|slo| slo.subject == "pod startup");
        let verdict = slo.map_or_else(String::new, |slo| verdict(slo.met));
        for (name, values, limit, verdict) in [
            ("startup", pods.total, time(results.limits.pod_startup), verdict),
            ("- until scheduled", pods.scheduled, String::new(), String::new()),
            ("- then until started", pods.started, String::new(), String::new()),
            ("- then until watched", pods.watched, String::new(), String::new()),
            ("first event to start", pods.observed, String::new(), String::new()),
        ] {
            let mut row = vec![name.to_owned(), values.count.to_string()];
            row.extend(percentiles(Some(values)));
            row.extend([limit, verdict]);
            rows.push(row);
        }
        tables.push(("Startup of pods (the first four from whole seconds)", rows));
    }
    if !results.watch.is_empty() {
        let mut rows = vec![heading(&["resource", "count", "p50", "p90", "p99", "max"])];
        rows.extend(results.watch.iter().map(|(resource, values)| {
            let mut row = vec![resource.clone(), values.count.to_string()];
            row.extend(percentiles(Some(*values)));
            row
        }));
        tables.push(("Latency of watches, from the response of the write", rows));
    }
    tables
}

fn percentiles(values: Option<Percentiles>) -> [String; 4] {
    match values {
        Some(Percentiles { p50, p90, p99, max, .. }) => [p50, p90, p99, max].map(time),
        None => ["-", "-", "-", "-"].map(str::to_owned),
    }
}

pub(super) fn verdict(met: bool) -> String {
    if met { "met" } else { "missed" }.to_owned()
}

/// Formats seconds with three digits.
pub(super) fn time(seconds: f64) -> String {
    let (value, unit) = if seconds >= 1.0 {
        (seconds, "s")
    } else if seconds >= 0.001 || seconds == 0.0 {
        (seconds * 1e3, "ms")
    } else {
        (seconds * 1e6, "µs")
    };
    let digits = if value.fract() == 0.0 || value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

/// Aligns columns: texts left, numbers right.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let is_number = |column: usize| {
        let cells = rows.iter().skip(1).map(|row| &row[column]);
        cells.filter(|cell| !cell.is_empty()).all(|cell| cell.starts_with(|c: char| c.is_ascii_digit() || c == '-'))
    };
    let numeric: Vec<bool> = (0..columns).map(is_number).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let fill = " ".repeat(widths[column] - cell.chars().count());
            let (left, right) =
                if numeric[column] && column > 0 { (fill, String::new()) } else { (String::new(), fill) };
            let _ = write!(line, "{left}{cell}{right}  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let times = [0.0, 0.000_012_3, 0.001_234, 0.0123, 0.123_4, 1.0, 5.25, 30.0, 123.4].map(time);
        assert_eq!(times, ["0 ms", "12.3 µs", "1.23 ms", "12.3 ms", "123 ms", "1 s", "5.25 s", "30 s", "123 s"]);
    }

    #[test]
    fn numbers_are_aligned_right() {
        let rows = [["name", "count", "verdict"], ["a", "5", "met"], ["longer", "1000", "missed"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(aligned(&rows), "name    count  verdict\na           5  met\nlonger   1000  missed\n");
    }
}
