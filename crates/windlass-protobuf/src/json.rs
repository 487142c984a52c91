//! Writes JSON as Go does.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use crate::tape;

/// Base64 with padding. Like Go's decoder, ignores the unused bits of the last character.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Characters in strings that are not copied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Plain,
    Escaped,
    /// Part of a character that is not ASCII.
    Multibyte,
}

static CLASSES: [Class; 256] = {
    let mut table = [Class::Plain; 256];
    let mut byte = 0;
    while byte < 256 {
        if byte < b' ' as usize {
            table[byte] = Class::Escaped;
        } else if byte >= 0x80 {
            table[byte] = Class::Multibyte;
        }
        byte += 1;
    }
    table[b'"' as usize] = Class::Escaped;
    table[b'\\' as usize] = Class::Escaped;
    table[b'<' as usize] = Class::Escaped;
    table[b'>' as usize] = Class::Escaped;
    table[b'&' as usize] = Class::Escaped;
    table
};

/// Writes a string. Each byte that is not UTF-8 becomes U+FFFD, as with Go's encoder.
pub(crate) fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    content(out, bytes);
    out.push(b'"');
}

fn content(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut at = 0;
    let mut is_checked = false;
    while at < bytes.len() {
        let plain = bytes[at..].iter().position(|byte| CLASSES[usize::from(*byte)] != Class::Plain);
        let end = plain.map_or(bytes.len(), |plain| at + plain);
        out.extend_from_slice(&bytes[at..end]);
        let Some(byte) = bytes.get(end) else { break };
        at = end + 1;
        if byte.is_ascii() {
            escape(out, *byte);
            continue;
        }
        if !is_checked {
            if std::str::from_utf8(&bytes[end..]).is_err() {
                replaced(out, &bytes[end..]);
                break;
            }
            is_checked = true;
        }
        if bytes[end..].starts_with(b"\xE2\x80\xA8") || bytes[end..].starts_with(b"\xE2\x80\xA9") {
            out.extend_from_slice(if bytes[end + 2] == 0xA8 { b"\\u2028" } else { b"\\u2029" });
            at = end + 3;
        } else {
            out.push(*byte);
        }
    }
}

/// Writes the rest of a string that is not UTF-8.
fn replaced(out: &mut Vec<u8>, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        content(out, chunk.valid().as_bytes());
        for _ in chunk.invalid() {
            out.extend_from_slice(b"\\ufffd");
        }
    }
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0C => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            out.extend_from_slice(b"\\u00");
            out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            return;
        }
    };
    out.extend([b'\\', short]);
}

/// Writes bytes as base64.
pub(crate) fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    let start = out.len();
    // The length in base64 is 4/3 of that of bytes in memory, so it fits.
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = BASE64.encode_slice(bytes, &mut out[start..]).unwrap_or_default();
    out.truncate(start + written);
    out.push(b'"');
}

/// Decodes base64. Line breaks are ignored, as in Go.
pub(crate) fn decode_bytes(text: &str) -> Option<Vec<u8>> {
    if text.contains(['\r', '\n']) {
        return BASE64.decode(text.replace(['\r', '\n'], "")).ok();
    }
    BASE64.decode(text).ok()
}

/// Writes an integer.
pub(crate) fn integer(out: &mut Vec<u8>, number: i64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Writes a number in Go's format. Returns `false` if JSON has no such number.
pub(crate) fn float(out: &mut Vec<u8>, number: f64) -> bool {
    if !number.is_finite() {
        return false;
    }
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let sign = if exponent.starts_with('-') { "" } else { "+" };
        out.extend_from_slice(format!("{digits}e{sign}{exponent}").as_bytes());
    } else {
        out.extend_from_slice(number.to_string().as_bytes());
    }
    true
}

/// Writes JSON without the spaces between its tokens and with the escapes of [`string`], as Go does with the results of
/// `MarshalJSON`. Returns the position of an error and the problem.
pub(crate) fn compact(out: &mut Vec<u8>, json: &[u8]) -> Result<(), (usize, &'static str)> {
    let text = std::str::from_utf8(json).map_err(|error| (error.valid_up_to(), "invalid UTF-8"))?;
    tape::check(text).map_err(|error| match error {
        crate::Error::Syntax { offset, problem } => (offset, problem),
        _ => (0, "not JSON"),
    })?;
    let mut in_string = false;
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        match byte {
            b' ' | b'\n' | b'\t' | b'\r' if !in_string => {}
            b'"' => {
                in_string = !in_string;
                out.push(b'"');
            }
            b'\\' => {
                out.extend_from_slice(&json[at..at + 2]);
                at += 1;
            }
            b'<' | b'>' | b'&' => escape(out, *byte),
            0xE2 if json[at..].starts_with(b"\xE2\x80\xA8") || json[at..].starts_with(b"\xE2\x80\xA9") => {
                out.extend_from_slice(if json[at + 2] == 0xA8 { b"\\u2028" } else { b"\\u2029" });
                at += 2;
            }
            _ => out.push(*byte),
        }
        at += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strings_are_escaped_as_in_go() {
        for (value, expected) in [
            ("", r#""""#),
            ("aé😀", r#""aé😀""#),
            ("a\"\\\u{8}\u{c}\n\r\t\u{1}\u{7f}", "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\u{7f}\""),
            ("<a>&", r#""\u003ca\u003e\u0026""#),
            ("é\u{2028}\u{2029}\u{2030}<", "\"é\\u2028\\u2029\u{2030}\\u003c\""),
        ] {
            assert_eq!(written(|out| string(out, value.as_bytes())), expected);
        }
        assert_eq!(written(|out| string(out, b"ab\xc3")), r#""ab\ufffd""#);
        assert_eq!(written(|out| string(out, b"a\xc3\xa9\"\xff\xfeb")), r#""aé\"\ufffd\ufffdb""#);
    }

    #[test]
    fn numbers_have_the_format_of_go() {
        for (number, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1e-6, "0.000001"),
            (1.25e-7, "1.25e-7"),
            (-1e100, "-1e+100"),
            (0.1, "0.1"),
        ] {
            assert_eq!(written(|out| assert!(float(out, number))), expected);
        }
        assert!(!float(&mut Vec::new(), f64::NAN));
        for number in [0, 7, -10, i64::MAX, i64::MIN] {
            assert_eq!(written(|out| integer(out, number)), number.to_string());
        }
    }

    #[test]
    fn bytes_are_base64_as_in_go() {
        assert_eq!(written(|out| bytes(out, b"")), r#""""#);
        assert_eq!(written(|out| bytes(out, b"a\xff")), r#""Yf8=""#);
        assert_eq!(decode_bytes("Yf8=").unwrap(), b"a\xff");
        assert_eq!(decode_bytes("Yf9=").unwrap(), b"a\xff");
        assert_eq!(decode_bytes("Y\r\nf8=\n").unwrap(), b"a\xff");
        assert_eq!(decode_bytes("Yf8"), None);
        assert_eq!(decode_bytes("Y_8="), None);
    }

    #[test]
    fn json_is_compacted_as_in_go() {
        assert_eq!(
            written(|out| compact(out, " {\"a b\" :\t[1, \"<\\\" \u{2028}\"] } ".as_bytes()).unwrap()),
            r#"{"a b":[1,"\u003c\" \u2028"]}"#
        );
        assert_eq!(compact(&mut Vec::new(), b"[1"), Err((2, "unexpected end of the data")));
        assert_eq!(compact(&mut Vec::new(), b"\"\xff\""), Err((1, "invalid UTF-8")));
    }
}
