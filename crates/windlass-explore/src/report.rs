//! Reports of the results: text, JSON, JUnit XML and a self-contained HTML page.

mod html;
mod json;
mod junit;
mod text;

pub use html::html;
pub use json::json;
pub use junit::junit;
pub use text::text;

use std::collections::BTreeSet;

use crate::exploration::{FindingGroup, FindingRun, Results};

/// Returns one sentence about the exploration.
fn summary(results: &Results) -> String {
    let Results { planned, finished, findings, seconds, .. } = results;
    let confirmed = findings.iter().filter(|group| group.is_confirmed()).count();
    let mut summary = format!(
        "{finished} of {planned} plans have run in {}; {confirmed} {}",
        duration(*seconds),
        plural(confirmed, "finding", "findings"),
    );
    let unconfirmed = findings.len() - confirmed;
    if unconfirmed > 0 {
        summary.push_str(&format!(", and {unconfirmed} that no replay has confirmed"));
    }
    if results.interrupted {
        summary.push_str("; the exploration was interrupted");
    } else if !results.left.is_empty() {
        summary.push_str("; the time limit was reached");
    }
    summary
}

/// Returns the facts about the exploration that are not findings, each as a sentence.
fn notes(results: &Results) -> Vec<String> {
    let mut notes = Vec::new();
    let runs = results.clean_runs.len();
    if let Some(first) = results.clean_runs.first() {
        notes.push(format!(
            "{runs} {} without faults; the first one had {} changes, {} of them by the program, and {} requests",
            plural(runs, "run", "runs"),
            first.changes,
            first.changes_by_program,
            first.requests,
        ));
        notes.push(format!("a run has settled after {:.1} s without a change", results.quiet_seconds));
    }
    if results.controls > 0 {
        let runs = plural(results.controls, "run", "runs");
        notes.push(format!("{} more {runs} without faults, to check the findings", results.controls));
    }
    for text in &results.withdrawn {
        notes.push(format!("withdrawn, because a run without faults has it, too: {text}"));
    }
    if !results.effects.is_empty() {
        let effects: Vec<_> = results.effects.iter().map(|(effect, number)| format!("{number} {effect}")).collect();
        notes.push(format!("plans by effect: {}", effects.join(", ")));
    }
    if results.resumed > 0 {
        notes.push(format!("{} plans had run in an earlier exploration", results.resumed));
    }
    let rejected = results.rejected.len();
    if rejected > 0 {
        notes.push(format!(
            "{rejected} {} rejected by the server or a webhook",
            plural(rejected, "change was", "changes were")
        ));
    }
    let not_reached = results.not_reached.len();
    if not_reached > 0 {
        notes.push(format!("{not_reached} plans did not reach the point of their fault"));
    }
    for (effect, number) in &results.left {
        notes.push(format!("{number} plans with {effect} are left"));
    }
    for (reason, number) in &results.skipped {
        notes.push(format!("not planned: {number} {reason}"));
    }
    for (plan, error) in &results.failed {
        notes.push(format!("{plan} could not be run: {error}"));
    }
    notes
}

/// Returns the lines of the mask.
fn masked(results: &Results) -> Vec<String> {
    let objects = results.mask.objects.iter().map(|object| format!("{object}: the number of objects"));
    let fields = results.mask.fields.iter();
    let fields = fields.flat_map(|(object, paths)| paths.iter().map(move |path| format!("{object}: {path}")));
    objects.chain(fields).collect()
}

/// Returns the findings in blocks. The findings of a block have the same plans, so they probably have the same cause.
fn blocks(results: &Results) -> Vec<Vec<&FindingGroup>> {
    let mut blocks: Vec<Vec<&FindingGroup>> = Vec::new();
    let plans = |group: &FindingGroup| group.runs.iter().map(|run| run.plan.clone()).collect::<BTreeSet<_>>();
    for group in &results.findings {
        let is_alike =
            |other: &FindingGroup| other.is_confirmed() == group.is_confirmed() && plans(other) == plans(group);
        match blocks.iter_mut().find(|block| is_alike(block[0])) {
            Some(block) => block.push(group),
            None => blocks.push(vec![group]),
        }
    }
    blocks
}

/// Returns the other findings of the first run of a block.
fn others<'r>(block: &[&'r FindingGroup]) -> Vec<&'r String> {
    let first = block.first().and_then(|group| group.runs.first());
    let findings = first.map(|run| run.findings.as_slice()).unwrap_or_default();
    findings.iter().filter(|text| block.iter().all(|group| group.text != **text)).collect()
}

/// Returns the outcome of the replays of a run.
fn replays(run: &FindingRun) -> String {
    match run.replays.of {
        0 => "not replayed".to_owned(),
        of => format!("reproduced in {} of {of} replays", run.replays.reproduced),
    }
}

fn plural(number: usize, one: &'static str, many: &'static str) -> &'static str {
    if number == 1 { one } else { many }
}

fn duration(seconds: f64) -> String {
    if seconds < 120.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) }
}

/// Escapes text for HTML and XML. Control characters that XML does not allow are replaced.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(character),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            character if character.is_control() => escaped.push('\u{fffd}'),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
