//! Regular expressions. Rust and Go have nearly the same syntax. Differences are translated ([`translated`]), and
//! syntax errors are reported in Go's words.

use regex::{Regex, RegexBuilder};

use crate::pattern_size::check_repeats;

/// Compiles a regular expression, in bounded memory.
///
/// # Errors
/// Returns Go's error message if the expression is invalid.
pub fn compile_pattern(pattern: &str) -> Result<Regex, String> {
    check_repeats(pattern)?;
    let compiled = RegexBuilder::new(&translated(pattern)).size_limit(MOST_BYTES).dfa_size_limit(MOST_BYTES).build();
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

/// Translates an expression from Go to Rust. Perl classes and word boundaries become ASCII-only. Nested classes and set
/// operations, which only Rust has, are escaped.
fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let (mut rest, mut in_class) = (pattern, false);
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        let mut length = letter.len_utf8();
        match letter {
            '\\' => {
                let escaped = after.chars().next();
                length += escaped.map_or(0, char::len_utf8);
                match ASCII.iter().find(|(name, _)| Some(*name) == escaped) {
                    // A nested class, so that an adjacent dash forms no range with its last character.
                    Some((_, class)) => out.push_str(class),
                    None if !in_class && escaped == Some('b') => out.push_str(r"(?-u:\b)"),
                    None if !in_class && escaped == Some('B') => out.push_str(r"(?-u:\B)"),
                    None => out.push_str(&rest[..length]),
                }
            }
            '[' if in_class => match after.strip_prefix(':').and_then(|name| name.find(":]")) {
                Some(end) => {
                    length += 1 + end + 2;
                    out.push_str(&rest[..length]);
                }
                None => out.push_str("\\["),
            },
            '[' => {
                in_class = true;
                out.push('[');
                if after.starts_with('^') {
                    (length, out) = (length + 1, out + "^");
                }
                // A bracket at the start of a class does not end it.
                if rest[length..].starts_with(']') {
                    (length, out) = (length + 1, out + "\\]");
                }
            }
            ']' => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => out.extend(['\\', letter]),
            // Two dashes: at the start of a class, the first is a literal. Elsewhere it forms a range up to the second.
            '-' if in_class && after.starts_with('-') => {
                if out.ends_with('[') || out.ends_with("[^") {
                    out.push_str(r"\-");
                } else {
                    (length, out) = (length + 1, out + r"-\-");
                }
            }
            _ => out.push(letter),
        }
        rest = &rest[length..];
    }
    out
}

/// The characters that denote classes after a backslash, with their content.
const ASCII: [(char, &str); 6] = [
    ('d', "[0-9]"),
    ('D', "[^0-9]"),
    ('s', r"[\t\n\f\r ]"),
    ('S', r"[^\t\n\f\r ]"),
    ('w', "[0-9A-Za-z_]"),
    ('W', "[^0-9A-Za-z_]"),
];

/// The memory limit of a compiled expression in bytes.
const MOST_BYTES: usize = 1 << 20;

/// The part of a pattern in Go's message.
enum Part {
    Whole,
    /// From the start of the unclosed class.
    Class,
}

/// Rust's and Go's names of problems.
const PROBLEMS: [(&str, &str, Part); 6] = [
    ("exceeds size limit", "expression too large", Part::Whole),
    ("unclosed group", "missing closing )", Part::Whole),
    ("unopened group", "unexpected )", Part::Whole),
    ("unclosed character class", "missing closing ]", Part::Class),
    ("repetition operator missing", "missing argument to repetition operator", Part::Whole),
    ("unrecognized escape", "invalid escape sequence", Part::Whole),
];

const OTHER: (&str, &str, Part) = ("", "invalid syntax", Part::Whole);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_go() {
        let matches = |pattern: &str, text: &str| compile_pattern(pattern).unwrap().is_match(text);
        assert!(matches(r"^[^a[\]&&]+$", "b") && !matches(r"^[^a[\]&&]+$", "&") && !matches(r"^[^a[\]&&]+$", "["));
        assert!(matches("^[]a]$", "]") && matches("^[[:alpha:]]$", "a") && !matches("^[^]a]$", "]"));
        assert!(matches(r"^\d$", "1") && !matches(r"^\d$", "\u{0661}") && !matches(r"^\w$", "\u{e9}"));
        assert!(matches(r"^[\w-.]+$", "a-b.c") && !matches(r"^[\w-~]+$", "{") && !matches(r"^[\s-_]+$", "A"));
        assert!(matches("^[+--]+$", "+,-") && matches("^[--/]+$", "-./") && !matches("^[+--]+$", "."));
        assert!(matches(r"\bb", "\u{e9}b") && !matches(r"a\Bb", "a b") && matches(r"a\Bb", "ab"));
        assert!(matches(r"^[\d-]+$", "1-2") && matches(r"^[^\S]$", " ") && matches(r"^\[\]$", "[]"));
        assert_eq!(compile_pattern("a[b").unwrap_err(), "error parsing regexp: missing closing ]: `[b`");
    }
}
