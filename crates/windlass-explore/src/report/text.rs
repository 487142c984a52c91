//! The report for a terminal.

use super::{blocks, masked, notes, others, plural, replays, summary};
use crate::exploration::{Entry, EntryKind, FindingGroup, Results};

/// The maximum number of listed plans per finding, and of printed lines of the mask.
const PLANS: usize = 5;
const MASKED: usize = 20;
/// The number of entries of an event log before and after the fault.
const BEFORE: usize = 12;
const AFTER: usize = 40;

/// Returns the results as text for a terminal. The event log of the first finding is included, around its fault.
#[must_use]
pub fn text(results: &Results) -> String {
    let mut text = format!("{}.\n", summary(results));
    for block in blocks(results) {
        text.push('\n');
        findings(&mut text, &block);
    }
    if let Some(first) = results.findings.first() {
        text.push_str("\nThe event log of the first finding:\n");
        around_fault(&mut text, &first.timeline);
    }
    text.push('\n');
    for note in notes(results) {
        text.push_str(&format!("- {note}\n"));
    }
    let masked = masked(results);
    if !masked.is_empty() {
        text.push_str("\nNot compared, because the runs without faults differ there:\n");
        for line in masked.iter().take(MASKED) {
            text.push_str(&format!("- {line}\n"));
        }
        if masked.len() > MASKED {
            text.push_str(&format!("- and {} more\n", masked.len() - MASKED));
        }
    }
    text
}

fn findings(text: &mut String, block: &[&FindingGroup]) {
    for group in block {
        text.push_str(&format!("✗ {}\n", group.text));
    }
    let runs = block.first().map(|group| group.runs.as_slice()).unwrap_or_default();
    for run in runs.iter().take(PLANS) {
        text.push_str(&format!("    --plan '{}'\n", run.plan));
    }
    let more = runs.len().saturating_sub(PLANS);
    if more > 0 {
        text.push_str(&format!("    and {more} more {}\n", plural(more, "plan", "plans")));
    }
    if let Some(first) = runs.first() {
        text.push_str(&format!("    {}: {}\n", replays(first), first.plan.explained()));
    }
    for other in others(block) {
        text.push_str(&format!("    also: {other}\n"));
    }
}

/// Writes the entries around the fault, and the findings, which are the last ones.
fn around_fault(text: &mut String, timeline: &[Entry]) {
    let fault = timeline.iter().position(|entry| entry.kind == EntryKind::Fault).unwrap_or_default();
    let shown = fault.saturating_sub(BEFORE)..fault + AFTER;
    let mut left_out = 0;
    for (index, Entry { at, kind, actor, text: what }) in timeline.iter().enumerate() {
        if !shown.contains(&index) && *kind != EntryKind::Finding {
            left_out += 1;
            continue;
        }
        if left_out > 0 {
            text.push_str(&format!("              … {left_out} {}\n", plural(left_out, "entry", "entries")));
            left_out = 0;
        }
        let mark = match kind {
            EntryKind::Step => "──",
            EntryKind::Fault => "⚡",
            EntryKind::Finding => "✗ ",
            EntryKind::Log => "│ ",
            EntryKind::Process | EntryKind::Request | EntryKind::Change => "  ",
        };
        text.push_str(&format!("{at:>9.3} s {mark} {actor:<10} {what}\n"));
    }
}
