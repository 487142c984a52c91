//! Formatting of generated code with rustfmt: line breaks depend on the inserted names.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

/// Returns the source formatted by rustfmt, or unchanged if rustfmt is not installed.
pub(crate) fn formatted(source: String) -> String {
    run(&source).unwrap_or(source)
}

/// Formats the new text with rustfmt if the old text was formatted.
pub(crate) fn as_formatted(before: &str, after: String) -> String {
    if formatted(before.to_owned()) == before { formatted(after) } else { after }
}

fn run(source: &str) -> Option<String> {
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--edition", "2024", "--quiet", "--config", "max_width=120,use_small_heuristics=Max"]);
    let mut child = rustfmt.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    child.stdin.take()?.write_all(source.as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.is_empty()).then_some(text)
}
