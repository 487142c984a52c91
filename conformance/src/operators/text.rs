//! Generation of texts that match a format or a pattern.

use regex_syntax::hir::{Class, Hir, HirKind};

use crate::seeded_random::SeededRandom;

/// The maximum number of repetitions of an unbounded part.
const REPEATED: u32 = 3;
/// The number of attempts to generate a matching text.
const ATTEMPTS: usize = 20;

/// Returns a valid text of a format.
pub(super) fn of_format(format: &str) -> Option<&'static str> {
    Some(match format {
        "date-time" => "2020-01-02T03:04:05Z",
        "date" => "2020-01-02",
        "duration" => "1h30m",
        "byte" => "YWJj",
        "uri" => "https://example.com/a",
        "email" => "a@example.com",
        "hostname" => "example.com",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "cidr" => "192.0.2.0/24",
        "mac" => "00:00:5e:00:53:01",
        "uuid" | "uuid4" => "0a1b2c3d-0000-4000-8000-0123456789ab",
        _ => return None,
    })
}

/// Returns a text that matches a pattern and has a length within bounds, if one is found.
pub(super) fn matching(pattern: &str, bounds: (usize, usize), random: &SeededRandom) -> Option<String> {
    let hir = regex_syntax::parse(pattern).ok()?;
    let mut attempts = (0..ATTEMPTS).map(|_| {
        let mut text = String::new();
        write(&hir, random, &mut text);
        text
    });
    let fits = |text: &String| (bounds.0..=bounds.1).contains(&text.chars().count());
    attempts.find(fits)
}

fn write(hir: &Hir, random: &SeededRandom, text: &mut String) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(class) => text.extend(letter(class, random)),
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(repetition.min + REPEATED).min(repetition.min + REPEATED);
            let spread = usize::try_from(most - repetition.min).unwrap_or_default();
            let times = repetition.min as usize + random.below(spread + 1);
            (0..times).for_each(|_| write(&repetition.sub, random, text));
        }
        HirKind::Capture(capture) => write(&capture.sub, random, text),
        HirKind::Concat(parts) => parts.iter().for_each(|part| write(part, random, text)),
        HirKind::Alternation(parts) => write(random.pick(parts), random, text),
    }
}

/// Returns a character of a class, preferably a readable one.
fn letter(class: &Class, random: &SeededRandom) -> Option<char> {
    let ranges: Vec<(u32, u32)> = match class {
        Class::Unicode(class) => {
            class.ranges().iter().map(|range| (range.start().into(), range.end().into())).collect()
        }
        Class::Bytes(class) => class.ranges().iter().map(|range| (range.start().into(), range.end().into())).collect(),
    };
    let within = |letter: &char| ranges.iter().any(|(start, end)| (*start..=*end).contains(&u32::from(*letter)));
    let readable: Vec<_> = (' '..='~').filter(within).collect();
    if readable.is_empty() { char::from_u32(ranges.first()?.0) } else { Some(*random.pick(&readable)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_match_their_patterns_and_keep_their_bounds() {
        let patterns = [
            r"^([0-9]+(s|ms|m|h))+$",
            r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
            r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))$",
            r"^\S+$",
        ];
        for (number, pattern) in patterns.iter().enumerate() {
            let found = matching(pattern, (2, 9), &SeededRandom::of(1, number as u64)).unwrap();
            let parsed = regex_syntax::parse(pattern).unwrap();
            assert!((2..=9).contains(&found.chars().count()), "{found}");
            assert!(!parsed.properties().is_literal() && !found.contains(' '), "{found}");
        }
        assert_eq!(matching("^abc$", (4, 9), &SeededRandom::of(1, 1)), None);
        assert_eq!(matching("(", (0, 9), &SeededRandom::of(1, 1)), None);
    }
}
