//! Regular expressions. Rust and Go read nearly the same ones: what they read differently is translated ([`translated`]), and
//! what they cannot read is told in Go's words.

use regex::{Regex, RegexBuilder};

use crate::pattern_size::check_repeats;

/// Compiles a regular expression, in bounded memory.
///
/// # Errors
/// What is wrong with it, as Go says it.
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

/// The same expression for Rust: classes of letters, and where words end, are of ASCII alone; what begins a class or joins two
/// has no meaning inside of one.
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
                    // A class within a class, so that what stands beside it makes no range with its last letter.
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
                // The first of a class does not end it.
                if rest[length..].starts_with(']') {
                    (length, out) = (length + 1, out + "\\]");
                }
            }
            ']' => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => out.extend(['\\', letter]),
            // Two of them: the first is a letter where the class begins, and makes a range up to the second elsewhere.
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

/// Letters that stand for classes after a backslash, and what is in those.
const ASCII: [(char, &str); 6] = [
    ('d', "[0-9]"),
    ('D', "[^0-9]"),
    ('s', r"[\t\n\f\r ]"),
    ('S', r"[^\t\n\f\r ]"),
    ('w', "[0-9A-Za-z_]"),
    ('W', "[^0-9A-Za-z_]"),
];

/// The memory of one.
const MOST_BYTES: usize = 1 << 20;

/// What Go shows of a pattern.
enum Part {
    Whole,
    /// From the class on that has no end.
    Class,
}

/// How Rust names a problem, and how Go does.
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
