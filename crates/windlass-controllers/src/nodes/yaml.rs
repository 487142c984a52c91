//! Reads YAML files of rules, with the lines of their fields.

use serde_saphyr::{Error, Options, Spanned};

pub(super) fn options() -> Options {
    serde_saphyr::options! { strict_booleans: true, with_snippet: false }
}

/// Returns the line of an error, if it is known, and its message without the position.
pub(super) fn problem(error: &Error) -> (Option<u64>, String) {
    let message = error.to_string();
    let Some(at) = error.location() else { return (None, message) };
    let position = format!(" at line {}, column {}", at.line(), at.column());
    let message = message.strip_suffix(&*position).map_or(message.clone(), str::to_owned);
    (Some(at.line()), message)
}

/// Returns the number of the line before the first one of a scalar. A block scalar begins on the line after its
/// indicator.
pub(super) fn lines_before(text: &str, scalar: &Spanned<String>) -> u64 {
    let at = scalar.referenced.line();
    let line = usize::try_from(at).ok().and_then(|at| text.lines().nth(at.saturating_sub(1)));
    let indicator = line.and_then(|line| line.split_whitespace().last()).unwrap_or_default();
    let is_block = indicator.starts_with(['|', '>']) && scalar.value.contains('\n');
    if is_block { at } else { at.saturating_sub(1) }
}
