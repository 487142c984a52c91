//! Go's `strconv.Quote`, which error messages use.

use std::fmt::Write;

/// Returns the text as a Go string literal in double quotes.
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
            _ if is_printable(character) => out.push(character),
            '\u{80}'..='\u{ffff}' => _ = write!(out, r"\u{:04x}", u32::from(character)),
            _ => _ = write!(out, r"\U{:08x}", u32::from(character)),
        }
    }
    out.push('"');
    out
}

/// Go's `unicode.IsPrint`: Unicode's graphic characters, and of the spaces only U+0020. Unassigned characters count as
/// printable here.
pub(crate) fn is_printable(character: char) -> bool {
    let is_format = matches!(
        character,
        '\u{ad}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    );
    let is_private = matches!(character, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..);
    character == ' ' || !(character.is_control() || character.is_whitespace() || is_format || is_private)
}

#[cfg(test)]
mod tests {
    use super::{is_printable, quote};

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(quote("a\"\\\n\u{1}\u{7f}é\u{feff}"), r#""a\"\\\n\x01\x7fé\ufeff""#);
        assert_eq!(quote("\u{3000}\u{e000}\u{10ffff}"), r#""\u3000\ue000\U0010ffff""#);
    }

    #[test]
    fn visible_characters_are_printable() {
        assert!(" aé世\u{301}😀".chars().all(is_printable));
        assert!(!"\t\u{a0}\u{ad}\u{200b}\u{2003}\u{2028}\u{e0001}".chars().any(is_printable));
    }
}
