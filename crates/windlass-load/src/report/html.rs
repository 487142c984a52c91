//! The HTML report: one page without scripts or other files.

use std::fmt::Write as _;

use super::{
    plot::{self, Bar, Line, Scale},
    text,
};
use crate::{
    number::float,
    results::{Interval, Percentiles, Results},
};

const STYLE: &str = "\
:root { color-scheme: light dark; --back: #fff; --text: #222; --faint: #ddd; --axis: #888; --met: #1b6ca8; --missed: #c0392b; --limit: #c0792a;
  --c0: #1b6ca8; --c1: #c0792a; --c2: #2e8b57; --c3: #8e44ad; --c4: #7d7d7d; --c5: #c0392b; }
@media (prefers-color-scheme: dark) { :root { --back: #16181c; --text: #ddd; --faint: #333; --axis: #888; --met: #5aa9e6; --missed: #ff7b6b;
  --limit: #e0a458; --c0: #5aa9e6; --c1: #e0a458; --c2: #6fcf97; --c3: #c39bd3; --c4: #aaa; --c5: #ff7b6b; } }
body { background: var(--back); color: var(--text); font: 15px/1.5 sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto; }
th, td { padding: 2px 10px; border-bottom: 1px solid var(--faint); text-align: left; white-space: nowrap; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
td.missed { color: var(--missed); font-weight: bold; }
svg { width: 100%; max-width: 760px; font: 11px sans-serif; }
svg text { fill: var(--text); }
.grid { stroke: var(--faint); } .axis { stroke: var(--axis); } .line { fill: none; stroke-width: 1.6; } .limit { stroke: var(--limit); stroke-width: 2; }
rect.met { fill: var(--met); } rect.missed { fill: var(--missed); }
.c0 { stroke: var(--c0); } .c1 { stroke: var(--c1); } .c2 { stroke: var(--c2); } .c3 { stroke: var(--c3); } .c4 { stroke: var(--c4); } .c5 { stroke: var(--c5); }
";

/// Returns the results as a page.
#[must_use]
pub fn html(results: &Results) -> String {
    let title = format!("{} on {}", results.workload, results.server);
    let title = escaped(&title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    for line in text::summary(results) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(page, "<div>{}</div>", escaped(&line));
    }
    for (title, svg) in plots(results) {
        let _ = write!(page, "<h2>{}</h2>\n{svg}", escaped(title));
    }
    for (title, rows) in text::tables(results) {
        let _ = writeln!(page, "<h2>{}</h2>", escaped(title));
        table(&mut page, &rows);
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn plots(results: &Results) -> Vec<(&'static str, String)> {
    let mut plots = Vec::new();
    let bars: Vec<Bar> = results
        .requests
        .iter()
        .filter_map(|row| {
            let name = format!("{} {} ({})", row.verb, row.resource, row.scope);
            let Percentiles { p50, p99, .. } = row.latency?;
            Some(Bar { name, p50, p99, limit: row.limit, met: row.met })
        })
        .collect();
    if !bars.is_empty() {
        plots.push(("Latency from p50 to p99, and the limit of p99", plot::bars(&bars)));
        plots.push((
            "99th percentile over time",
            plot::lines(&over_time(results, |values| values.p99), Scale::Durations),
        ));
        plots.push(("Median over time", plot::lines(&over_time(results, |values| values.p50), Scale::Durations)));
        let rate = |count: fn(&Interval) -> usize| {
            let points = results.intervals.iter();
            points.map(|interval| (middle(interval), float(count(interval)) / interval.seconds)).collect()
        };
        let throughput = [
            Line { name: "requests".to_owned(), points: rate(|interval| interval.requests) },
            Line { name: "started pods".to_owned(), points: rate(|interval| interval.pods) },
            Line { name: "failures".to_owned(), points: rate(|interval| interval.failed) },
        ];
        plots.push(("Requests, failures and started pods per second", plot::lines(&throughput, Scale::Linear("/s"))));
    }
    plots
}

/// Returns a line for each verb.
fn over_time(results: &Results, value: fn(&Percentiles) -> f64) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for interval in &results.intervals {
        for (verb, latency) in &interval.latency {
            let point = (middle(interval), value(latency));
            match lines.iter_mut().find(|line| line.name == *verb) {
                Some(line) => line.points.push(point),
                None => lines.push(Line { name: verb.clone(), points: vec![point] }),
            }
        }
    }
    lines.sort_by(|left, right| left.name.cmp(&right.name));
    lines
}

fn middle(interval: &Interval) -> f64 {
    interval.start + interval.seconds / 2.0
}

fn table(page: &mut String, rows: &[Vec<String>]) {
    page.push_str("<table>\n");
    for (number, row) in rows.iter().enumerate() {
        page.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let class = if cell == "missed" {
                " class=\"missed\""
            } else if column > 0 && cell.starts_with(|c: char| c.is_ascii_digit()) {
                " class=\"number\""
            } else {
                ""
            };
            let tag = if number == 0 { "th" } else { "td" };
            let _ = write!(page, "<{tag}{class}>{}</{tag}>", escaped(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

/// Replaces the characters with a meaning in HTML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
