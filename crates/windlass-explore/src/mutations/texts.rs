//! Other strings for a field, by format and pattern.

use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::Value;
use windlass_cel::compile_pattern;

/// The maximum number of strings, and the maximum length to which a string is extended.
const STRINGS: usize = 3;
const LONGEST: usize = 300;
/// The maximum number of repetitions of a part of a pattern beyond the required ones.
const REPEATED: u32 = 2;
/// The number of variants that are generated for a pattern.
const VARIANTS: u32 = 6;

/// Returns strings that a schema accepts, without `current`: first those that are like `current`, then those that the
/// format or the pattern describes.
pub(super) fn others(schema: &Value, current: Option<&str>) -> Vec<String> {
    let patterns = patterns(schema);
    let mut candidates = Vec::new();
    if let Some(current) = current {
        candidates.extend(incremented(current));
    }
    let format = schema["format"].as_str().map(of_format).unwrap_or_default();
    candidates.extend(format.iter().map(|text| (*text).to_owned()));
    if patterns.is_empty() && format.is_empty() {
        candidates.push(current.map_or_else(|| "a".to_owned(), |current| format!("{current}-a")));
        candidates.push(String::new());
        // Only if the others are too short or too long.
        candidates.push(lengthened(schema));
    }
    for pattern in &patterns {
        candidates.extend((0..VARIANTS).filter_map(|variant| matching(pattern, variant)));
    }
    let mut found: Vec<String> = Vec::new();
    for text in candidates {
        if Some(text.as_str()) != current && fits(schema, &patterns, &text) && !found.contains(&text) {
            found.push(text);
        }
    }
    found.truncate(STRINGS);
    found
}

/// Returns the patterns of a schema, also those that all or one of several alternatives require.
fn patterns(schema: &Value) -> Vec<&str> {
    let lists = ["allOf", "anyOf", "oneOf"].iter().flat_map(|name| schema[name].as_array().into_iter().flatten());
    std::iter::once(schema).chain(lists).filter_map(|schema| schema["pattern"].as_str()).collect()
}

/// Returns `true` if a text has the right length, and matches the pattern of the schema, or one of the alternatives.
fn fits(schema: &Value, patterns: &[&str], text: &str) -> bool {
    let length = text.chars().count() as u64;
    let matches = |pattern: &str| compile_pattern(pattern).is_ok_and(|pattern| pattern.is_match(text));
    schema["minLength"].as_u64().is_none_or(|least| length >= least)
        && schema["maxLength"].as_u64().is_none_or(|most| length <= most)
        && schema["pattern"].as_str().is_none_or(matches)
        && (patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern)))
}

/// Returns a text whose last number is one more: another version, size, duration or port.
fn incremented(text: &str) -> Option<String> {
    let is_digit = |character: char| character.is_ascii_digit();
    let end = text.rfind(is_digit)? + 1;
    let start = text[..end]
        .rfind(|character: char| !is_digit(character))
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    let number: u64 = text[start..end].parse().ok()?;
    Some(format!("{}{:0width$}{}", &text[..start], number.checked_add(1)?, &text[end..], width = end - start))
}

/// Returns a text of the minimum length.
fn lengthened(schema: &Value) -> String {
    let least = schema["minLength"].as_u64().and_then(|least| usize::try_from(least).ok());
    "b".repeat(least.unwrap_or(1).clamp(1, LONGEST))
}

/// Returns valid texts of a format.
fn of_format(format: &str) -> &'static [&'static str] {
    match format {
        "date-time" => &["2020-01-02T03:04:05Z", "2030-01-02T03:04:05Z"],
        "date" => &["2020-01-02", "2030-01-02"],
        "duration" => &["1m", "1h30m"],
        "byte" => &["YWJj", "YQ=="],
        "uri" => &["https://example.com/a", "https://example.com/b"],
        "email" => &["a@example.com", "b@example.com"],
        "hostname" => &["a.example.com", "b.example.com"],
        "ipv4" => &["192.0.2.1", "192.0.2.2"],
        "ipv6" => &["2001:db8::1", "2001:db8::2"],
        "cidr" => &["192.0.2.0/24", "198.51.100.0/24"],
        "mac" => &["00:00:5e:00:53:01", "00:00:5e:00:53:02"],
        "uuid" | "uuid4" => &["0a1b2c3d-0000-4000-8000-0123456789ab", "0a1b2c3d-0000-4000-8000-0123456789ac"],
        _ => &[],
    }
}

/// Returns a text that matches a pattern. Each variant is another one, if the pattern permits it.
fn matching(pattern: &str, variant: u32) -> Option<String> {
    let hir = regex_syntax::parse(pattern).ok()?;
    let mut text = String::new();
    write(&hir, variant, &mut text);
    Some(text)
}

fn write(hir: &Hir, variant: u32, text: &mut String) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(class) => text.extend(character(class, variant)),
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(u32::MAX);
            // An optional part is left out first, except if it may be repeated.
            let times = (repetition.min + (variant / 2).min(REPEATED)).min(most);
            (0..times).for_each(|_| write(&repetition.sub, variant, text));
        }
        HirKind::Capture(capture) => write(&capture.sub, variant, text),
        HirKind::Concat(parts) => parts.iter().for_each(|part| write(part, variant, text)),
        HirKind::Alternation(parts) => {
            let index = usize::try_from(variant).unwrap_or_default() % parts.len().max(1);
            if let Some(part) = parts.get(index) {
                write(part, variant, text);
            }
        }
    }
}

/// Returns a character of a class: a small letter, a digit other than 0, another readable one, or the first one.
fn character(class: &Class, variant: u32) -> Option<char> {
    let ranges: Vec<(u32, u32)> = match class {
        Class::Unicode(class) => {
            class.ranges().iter().map(|range| (range.start().into(), range.end().into())).collect()
        }
        Class::Bytes(class) => class.ranges().iter().map(|range| (range.start().into(), range.end().into())).collect(),
    };
    let within = |character: &char| ranges.iter().any(|(start, end)| (*start..=*end).contains(&u32::from(*character)));
    let readable = ('a'..='z').chain('1'..='9').chain('A'..='Z').chain(' '..='~').filter(within);
    let first = readable.clone().next().or_else(|| char::from_u32(ranges.first()?.0));
    readable.clone().nth(usize::try_from(variant % 2).unwrap_or_default()).or(first)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn last_number_is_incremented() {
        let texts = ["nginx:1.25", "1Gi", "5m30s", "10.0.0.0/16", "*/5 * * * *", "a-099", "é7é", "none"];
        let incremented: Vec<_> = texts.iter().map(|text| incremented(text).unwrap_or_default()).collect();
        assert_eq!(incremented, ["nginx:1.26", "2Gi", "5m31s", "10.0.0.0/17", "*/6 * * * *", "a-100", "é8é", ""]);
    }

    #[test]
    fn texts_match_patterns_and_lengths() {
        let patterns = [
            r"^([0-9]+(s|ms|m|h))+$",
            r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
            r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
            r"^\S+$",
            "^(cron|@every .*)$",
        ];
        for pattern in patterns {
            let schema = json!({"type": "string", "pattern": pattern});
            let texts = others(&schema, None);
            assert!(!texts.is_empty(), "{pattern}");
            assert!(texts.iter().all(|text| compile_pattern(pattern).unwrap().is_match(text)), "{texts:?}");
        }
        let schema = json!({"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 3});
        assert_eq!(others(&schema, Some("aa")), ["bb", "aaa", "bbb"]);
    }

    #[test]
    fn texts_without_a_pattern_are_like_the_current_one() {
        assert_eq!(others(&json!({"type": "string"}), Some("v1")), ["v2", "v1-a", ""]);
        assert_eq!(others(&json!({"type": "string", "minLength": 3, "maxLength": 3}), Some("abc")), ["bbb"]);
        assert_eq!(others(&json!({"type": "string", "minLength": 3}), None), ["bbb"]);
        assert_eq!(others(&json!({"type": "string"}), None), ["a", "", "b"]);
        assert_eq!(others(&json!({"type": "string", "format": "ipv4"}), Some("192.0.2.1")), ["192.0.2.2"]);
    }
}
