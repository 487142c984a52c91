//! Regular expressions. Rust and Go read nearly the same ones; what they cannot read is told in Go's words.

use regex::{Regex, RegexBuilder};

/// Compiles a regular expression, in bounded memory.
///
/// # Errors
/// What is wrong with it, as Go says it.
pub fn compile_pattern(pattern: &str) -> Result<Regex, String> {
    let compiled = RegexBuilder::new(pattern).size_limit(MOST_BYTES).dfa_size_limit(MOST_BYTES).build();
    compiled.map_err(|error| {
        let ours = error.to_string();
        let (_, problem, part) = PROBLEMS.iter().find(|(text, ..)| ours.contains(text)).unwrap_or(&OTHER);
        let shown = match part {
            Part::Whole => pattern,
            Part::Class => pattern.rfind('[').map_or(pattern, |at| &pattern[at..]),
        };
        format!("error parsing regexp: {problem}: `{shown}`")
    })
}

/// The memory of one.
const MOST_BYTES: usize = 1 << 20;

/// What Go shows of a pattern.
enum Part {
    Whole,
    /// From the class on that has no end.
    Class,
}

/// How Rust names a problem, and how Go does.
const PROBLEMS: [(&str, &str, Part); 5] = [
    ("unclosed group", "missing closing )", Part::Whole),
    ("unopened group", "unexpected )", Part::Whole),
    ("unclosed character class", "missing closing ]", Part::Class),
    ("repetition operator missing", "missing argument to repetition operator", Part::Whole),
    ("unrecognized escape", "invalid escape sequence", Part::Whole),
];

const OTHER: (&str, &str, Part) = ("", "invalid syntax", Part::Whole);
