//! Encoded words (RFC 2047), `=?utf-8?q?Gr=C3=BC=C3=9Fe?=`, which represent non-ASCII text in headers. Servers that
//! follow the older specification of warnings use them.

use base64::{Engine as _, prelude::BASE64_STANDARD};

const START: &str = "=?";
const END: &str = "?=";

/// Decodes the encoded words in a text. Malformed ones are left unchanged. Returns `None` for an unsupported character
/// set.
pub(super) fn decode(mut text: &str) -> Option<String> {
    let mut decoded = String::with_capacity(text.len());
    let mut after_word = false;
    while let Some((before, rest)) = text.split_once(START) {
        if let Some(word) = Word::parse(rest) {
            // White space between two encoded words is only a separator.
            if !after_word || !before.trim().is_empty() {
                decoded.push_str(before);
            }
            decoded.push_str(&word.text()?);
            (text, after_word) = (word.rest, true);
        } else {
            decoded.push_str(before);
            decoded.push_str(START);
            (text, after_word) = (rest, false);
        }
    }
    decoded.push_str(text);
    Some(decoded)
}

struct Word<'t> {
    charset: &'t str,
    bytes: Vec<u8>,
    /// The text after it.
    rest: &'t str,
}

impl<'t> Word<'t> {
    /// Parses an encoded word whose start was already removed.
    fn parse(text: &'t str) -> Option<Self> {
        let (charset, text) = text.split_once('?')?;
        let (encoding, text) = text.split_once('?')?;
        let (content, rest) = text.split_once(END)?;
        let bytes = match encoding {
            "b" | "B" => BASE64_STANDARD.decode(content).ok()?,
            "q" | "Q" => quoted_printable(content.as_bytes())?,
            _ => return None,
        };
        Some(Self { charset, bytes, rest })
    }

    fn text(&self) -> Option<String> {
        match self.charset.to_ascii_lowercase().as_str() {
            "utf-8" | "us-ascii" => Some(String::from_utf8_lossy(&self.bytes).into_owned()),
            // The characters of ISO 8859-1 are the first ones of Unicode.
            "iso-8859-1" => Some(self.bytes.iter().map(|&byte| char::from(byte)).collect()),
            _ => None,
        }
    }
}

fn quoted_printable(mut text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    while let Some((&first, rest)) = text.split_first() {
        text = rest;
        bytes.push(match first {
            b'_' => b' ',
            b'=' => {
                let (digits, rest) = text.split_at_checked(2)?;
                text = rest;
                u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
            }
            b' ' | b'\t' | b'!'..=b'~' => first,
            _ => return None,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_words_are_decoded_and_others_kept() {
        for (text, expected) in [
            ("plain", Some("plain")),
            ("=?utf-8?q?Gr=C3=BC=C3=9Fe_an_alle?=", Some("Grüße an alle")),
            ("=?UTF-8?B?R3LDvMOfZQ==?= und mehr", Some("Grüße und mehr")),
            ("=?iso-8859-1?Q?Gr=FC=DFe?=", Some("Grüße")),
            ("a =?utf-8?q?b?=  =?utf-8?q?c?= d", Some("a bc d")),
            ("=?utf-8?q?b?= and =?utf-8?q?c?=", Some("b and c")),
            ("=?utf-8?q?=FF?=", Some("\u{fffd}")),
            ("is a =? b ?= c", Some("is a =? b ?= c")),
            ("=?utf-8?q?=G1?=", Some("=?utf-8?q?=G1?=")),
            ("=?utf-8?x?abc?=", Some("=?utf-8?x?abc?=")),
            ("=?utf-8?b?%%?= =?utf-8?q?c?=", Some("=?utf-8?b?%%?= c")),
            ("=?utf-8?q?open", Some("=?utf-8?q?open")),
            ("=?koi8-r?q?a?=", None),
        ] {
            assert_eq!(decode(text).as_deref(), expected, "{text}");
        }
    }
}
