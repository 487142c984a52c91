//! The format of the differences between the tables of two versions.
//!
//! A table is a sequence of pieces, which end at separators. A section of a file rebuilds one table from the pieces of
//! the base:
//!
//! ```text
//! @openapi 262062 255010   the table, the length of the base, the length of the result in bytes
//! =120                     copies 120 pieces
//! -2                       skips 2 pieces
//! +"atomic",               inserts this text; `\n` is a line feed, `\\` a backslash
//! ```
//!
//! Trailing pieces are copied. `cargo xtask record --minor` writes the files.

use std::{borrow::Cow, fmt};

/// The characters that end a piece.
const SEPARATORS: [char; 7] = ['\n', '\t', ',', '}', ';', '|', ' '];

/// The reason why a difference cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// The base, or the result, does not have the recorded length.
    Length { recorded: String, found: usize },
    /// A line has no known form.
    Line(&'static str),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { recorded, found } => write!(f, "{found} bytes instead of the recorded {recorded}"),
            Self::Line(line) => write!(f, "cannot read the line {line:?}"),
        }
    }
}

/// Returns a table: the base with the differences of its section. Without a section it is the base.
pub(super) fn apply(text: &'static str, name: &str, base: &'static str) -> Result<Cow<'static, str>, Mismatch> {
    let mut lines = text.lines().skip_while(|line| !is_head(line, name));
    let Some(head) = lines.next() else { return Ok(base.into()) };
    let mut lengths = head.split(' ').skip(1);
    check_length(lengths.next(), base.len())?;
    let mut result = String::with_capacity(base.len());
    let mut pieces = base.split_inclusive(SEPARATORS);
    for line in lines.take_while(|line| !line.starts_with('@')) {
        let count = || line[1..].parse::<usize>().map_err(|_| Mismatch::Line(line));
        match line.as_bytes().first() {
            Some(b'=') => result.extend(pieces.by_ref().take(count()?)),
            Some(b'-') => pieces.by_ref().take(count()?).for_each(drop),
            Some(b'+') => unescape(&line[1..], &mut result),
            _ => return Err(Mismatch::Line(line)),
        }
    }
    result.extend(pieces);
    check_length(lengths.next(), result.len())?;
    result.shrink_to_fit();
    Ok(result.into())
}

fn is_head(line: &str, name: &str) -> bool {
    line.strip_prefix('@').and_then(|head| head.strip_prefix(name)).is_some_and(|rest| rest.starts_with(' '))
}

fn check_length(recorded: Option<&str>, found: usize) -> Result<(), Mismatch> {
    let recorded = recorded.unwrap_or_default();
    if recorded == found.to_string() { Ok(()) } else { Err(Mismatch::Length { recorded: recorded.to_owned(), found }) }
}

fn unescape(text: &str, out: &mut String) {
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => out.push(if characters.next() == Some('n') { '\n' } else { '\\' }),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# a comment\n@a 12 12\n=1\n-1\n+x\\n\\\\,\n=1\n@b 1 1\n";

    #[test]
    fn differences_copy_skip_and_insert_pieces() {
        assert_eq!(apply(TEXT, "a", "one,two,3,4,"), Ok("one,x\n\\,3,4,".into()));
        assert_eq!(apply(TEXT, "c", "same"), Ok("same".into()));
    }

    #[test]
    fn differences_of_another_base_are_rejected() {
        let mismatch = Mismatch::Length { recorded: "12".to_owned(), found: 4 };
        assert_eq!(apply(TEXT, "a", "one,"), Err(mismatch));
        assert_eq!(apply("@a 1 1\n?\n", "a", "x"), Err(Mismatch::Line("?")));
    }
}
