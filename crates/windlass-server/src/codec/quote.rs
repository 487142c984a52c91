//! Go's `strconv.Quote`, which error messages go through.

use std::fmt::Write;

/// The text as a Go string literal in double quotes.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str(r"\\"),
            '\u{7}' => out.push_str(r"\a"),
            '\u{8}' => out.push_str(r"\b"),
            '\u{c}' => out.push_str(r"\f"),
            '\n' => out.push_str(r"\n"),
            '\r' => out.push_str(r"\r"),
            '\t' => out.push_str(r"\t"),
            '\u{b}' => out.push_str(r"\v"),
            ' '..='~' => out.push(character),
            '\u{0}'..='\u{7f}' => _ = write!(out, r"\x{:02x}", u32::from(character)),
            // Go prints what Unicode calls graphic; of the rest these are the ones that texts really contain.
            '\u{80}'..='\u{a0}'
            | '\u{ad}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202f}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}' => {
                let _ = write!(out, r"\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn control_characters_are_escaped_and_letters_are_not() {
        assert_eq!(quote("a\"\\\n\u{1}\u{7f}é\u{feff}"), r#""a\"\\\n\x01\x7fé\ufeff""#);
    }
}
