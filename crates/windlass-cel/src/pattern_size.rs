//! The size of a regular expression before compilation.
//!
//! Go rejects expressions whose nested repetitions multiply to more than a thousand. This module makes the same check,
//! with Go's message. The weight is about the number of states of the compiled expression. The patterns of a CRD share
//! a weight budget.

/// The maximum product of nested repetitions.
const MAX_REPEAT: usize = 1_000;
/// The weight of a Unicode class or a negated class.
const CLASS: usize = 100;

/// The size of an expression, group or alternative, as far as it has been parsed.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    weight: usize,
    /// The product of nested repetitions.
    repeats: usize,
}

/// Estimates the number of states of a compiled expression.
#[must_use]
pub fn pattern_weight(pattern: &str) -> usize {
    measure(pattern).map_or(0, |extent| extent.weight)
}

/// Returns an error for repetitions that Go rejects.
pub(crate) fn check_repeats(pattern: &str) -> Result<(), String> {
    measure(pattern).map(drop)
}

fn measure(pattern: &str) -> Result<Extent, String> {
    // The open groups, each with its last atom.
    let mut open: Vec<(Extent, Extent)> = Vec::new();
    let (mut whole, mut last) = (Extent::default(), Extent::default());
    let mut rest = pattern;
    while let Some(letter) = rest.chars().next() {
        let mut length = letter.len_utf8();
        let atom = |weight| Extent { weight, repeats: 1 };
        match letter {
            '\\' => {
                let escaped = rest[1..].chars().next();
                length += escaped.map_or(0, char::len_utf8);
                if matches!(escaped, Some('p' | 'P')) && rest[length..].starts_with('{') {
                    length += rest[length..].find('}').map_or(0, |end| end + 1);
                }
                whole.close(&mut last, atom(if matches!(escaped, Some('p' | 'P')) { CLASS } else { 1 }));
            }
            '[' => {
                let (end, weight) = class(rest);
                length = end;
                whole.close(&mut last, atom(weight));
            }
            '.' => whole.close(&mut last, atom(8)),
            '(' => {
                whole.close(&mut last, Extent::default());
                open.push((whole, last));
                (whole, last) = (Extent::default(), Extent::default());
            }
            ')' => {
                whole.close(&mut last, Extent::default());
                let group = Extent { weight: whole.weight + 1, repeats: whole.repeats.max(1) };
                (whole, last) = open.pop().unwrap_or_default();
                whole.close(&mut last, group);
            }
            '{' => match repetition(rest) {
                Some((end, least, most)) => {
                    length = end;
                    let count = most.unwrap_or(least);
                    let invalid = || format!("error parsing regexp: invalid repeat count: `{}`", &rest[..length]);
                    if least > MAX_REPEAT || count > MAX_REPEAT || most.is_some_and(|most| least > most) {
                        return Err(invalid());
                    }
                    let repeats = if count == 0 { 1 } else { count.saturating_mul(last.repeats.max(1)) };
                    if count >= 2 && repeats > MAX_REPEAT {
                        return Err(invalid());
                    }
                    last = Extent { weight: last.weight.saturating_mul(count.max(1)), repeats };
                }
                None => whole.close(&mut last, atom(1)),
            },
            _ => whole.close(&mut last, atom(1)),
        }
        rest = &rest[length..];
    }
    whole.close(&mut last, Extent::default());
    Ok(whole)
}

impl Extent {
    /// Adds the last atom and starts the next one.
    fn close(&mut self, last: &mut Self, next: Self) {
        self.weight = self.weight.saturating_add(last.weight);
        self.repeats = self.repeats.max(last.repeats);
        *last = next;
    }
}

/// Returns the length of a class in brackets, and its weight.
fn class(text: &str) -> (usize, usize) {
    let negated = text[1..].starts_with('^');
    let begin = 1 + usize::from(negated);
    let mut weight = if negated { 8 } else { 1 };
    let mut letters = text[begin..].char_indices();
    let mut first = true;
    while let Some((at, letter)) = letters.next() {
        match letter {
            ']' if !first => return (begin + at + 1, weight),
            '\\' => weight += if matches!(letters.next(), Some((_, 'p' | 'P'))) { CLASS } else { 0 },
            letter if !letter.is_ascii() => weight += 4,
            _ => {}
        }
        first = false;
    }
    (text.len(), weight)
}

/// Returns the length of a repetition in braces, its minimum and its maximum. The maximum is `None` if it is unbounded.
fn repetition(text: &str) -> Option<(usize, usize, Option<usize>)> {
    let end = text.find('}')?;
    // A number that overflows exceeds every limit.
    let number = |digits: &str| {
        let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        valid.then(|| digits.parse().unwrap_or(usize::MAX))
    };
    let inner = &text[1..end];
    let (least, most) = match inner.split_once(',') {
        None => (number(inner)?, Some(number(inner)?)),
        Some((least, "")) => (number(least)?, None),
        Some((least, most)) => (number(least)?, Some(number(most)?)),
    };
    let lazy = usize::from(text[end + 1..].starts_with('?'));
    Some((end + 1 + lazy, least, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_above_gos_limit_have_gos_error() {
        for (pattern, count) in [
            ("a{1001}", "{1001}"),
            ("(a{1000}){1000}", "{1000}"),
            ("((a{100}){100}){100}", "{100}"),
            ("(a{100}){11}", "{11}"),
            ("(a{2,1001}b)", "{2,1001}"),
            ("a{99999999999999999999}", "{99999999999999999999}"),
            ("a{3,2}", "{3,2}"),
        ] {
            let expected = Err(format!("error parsing regexp: invalid repeat count: `{count}`"));
            assert_eq!(check_repeats(pattern), expected, "{pattern}");
        }
        for pattern in [
            "a{1000}",
            "((a{10}){10}){10}",
            "(a{100}){10}",
            "(a{1000})(b{1000})",
            r"\p{L}{1000}",
            "a{,5}",
            "[{}]{2}",
            r"(a{1000})\{5}",
            "x{y",
            "(a{1000}){0}",
        ] {
            assert_eq!(check_repeats(pattern), Ok(()), "{pattern}");
        }
    }

    #[test]
    fn pattern_weight_approximates_its_states() {
        assert_eq!(pattern_weight("abc"), 3);
        assert_eq!(pattern_weight("[a-z]{63}"), 63);
        assert_eq!(pattern_weight("(ab){100}"), 300);
        assert_eq!(pattern_weight(r"[\pL]{1000}"), 101_000);
        assert_eq!(pattern_weight(r"\p{L}{2}x"), 201);
    }
}
