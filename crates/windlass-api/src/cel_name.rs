//! Field names in CEL expressions.

use std::borrow::Cow;

/// The reserved words of CEL. Fields of these names are written with two underscores on each side.
pub const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Returns the name of a property in expressions; `None` if it cannot be written in one.
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(next) = rest.chars().next() {
        let (taken, written) = match next {
            '_' if rest.starts_with("__") => (2, "__underscores__"),
            '.' => (1, "__dot__"),
            '-' => (1, "__dash__"),
            '/' => (1, "__slash__"),
            '_' | 'a'..='z' | 'A'..='Z' | '0'..='9' => (1, &rest[..1]),
            _ => return None,
        };
        escaped.push_str(written);
        rest = &rest[taken..];
    }
    Some(escaped)
}

/// Returns the property of a name in an expression; `None` if the name contains an unknown escape sequence.
///
/// An unescaped reserved word stands for the property of that name.
pub fn unescape(name: &str) -> Option<Cow<'_, str>> {
    if !name.contains("__") {
        return Some(Cow::Borrowed(name));
    }
    let mut plain = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(next) = rest.chars().next() {
        let sequence = rest.strip_prefix("__").and_then(|after| {
            let end = after.find('_').filter(|end| *end > 0)?;
            after[end..].starts_with("__").then(|| &after[..end])
        });
        let Some(sequence) = sequence else {
            plain.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        };
        plain.push_str(match sequence {
            "underscores" => "__",
            "dot" => ".",
            "dash" => "-",
            "slash" => "/",
            word if RESERVED.contains(&word) && word.len() + 4 == name.len() => word,
            _ => return None,
        });
        rest = &rest[sequence.len() + 4..];
    }
    Some(Cow::Owned(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_return_from_their_escaped_form() {
        for name in ["a", "a-b.c/d", "a__b", "namespace", "in", "_a_", "a___b"] {
            let escaped = escape(name).unwrap();
            assert_eq!(unescape(&escaped).as_deref(), Some(name), "{escaped}");
        }
        assert_eq!(unescape("namespace").as_deref(), Some("namespace"));
        assert_eq!(unescape("___dot__").as_deref(), Some("_."));
        for unknown in ["__a__", "x__namespace__", "a__dash_b__x__"] {
            assert_eq!(unescape(unknown), None, "{unknown}");
        }
    }
}
