//! JSON → CBOR, in one pass over the text. The head of a map or list contains its length, which is only known at its end, so
//! heads are inserted in a second pass over the output.

use std::borrow::Cow;

use crate::{
    SELF_DESCRIBED,
    error::Error,
    head::{self, Major},
    number,
};

/// A head that is not written yet.
struct Pending {
    /// Its position in the output without heads.
    at: usize,
    major: Major,
    /// The number of elements or pairs.
    length: u64,
}

/// The tokens that are valid at a position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    /// A value, or the end of a list that has just begun.
    ValueOrEnd,
    Key,
    /// A key, or the end of a map that has just begun.
    KeyOrEnd,
    /// A comma or the end of the innermost map or list.
    CommaOrEnd,
    /// Nothing but white space.
    Nothing,
}

struct Encoder<'j> {
    json: &'j [u8],
    at: usize,
    /// The output without the heads of maps and lists.
    body: Vec<u8>,
    heads: Vec<Pending>,
    /// The open maps and lists, as positions in `heads`.
    open: Vec<usize>,
}

/// Converts a JSON document to CBOR, with the tag of self-described CBOR.
pub fn from_json(json: &[u8]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(SELF_DESCRIBED.len() + json.len());
    out.extend_from_slice(&SELF_DESCRIBED);
    append_json(json, &mut out)?;
    Ok(out)
}

/// Appends a JSON document as CBOR, without a tag.
pub fn append_json(json: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let body = Vec::with_capacity(json.len());
    let mut encoder = Encoder { json, at: 0, body, heads: Vec::new(), open: Vec::new() };
    encoder.document()?;
    encoder.write(out);
    Ok(())
}

/// Appends the start of a map with this number of pairs.
pub fn append_map(pairs: usize, out: &mut Vec<u8>) {
    head::push(Major::Map, pairs as u64, out);
}

/// Appends the start of a list with this number of elements.
pub fn append_list(elements: usize, out: &mut Vec<u8>) {
    head::push(Major::List, elements as u64, out);
}

/// Appends a string. Like Go, it is a byte string.
pub fn append_text(text: &str, out: &mut Vec<u8>) {
    head::push(Major::Bytes, text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

impl<'j> Encoder<'j> {
    fn document(&mut self) -> Result<(), Error> {
        let mut expect = Expect::Value;
        loop {
            while self.peek().is_some_and(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')) {
                self.at += 1;
            }
            let Some(byte) = self.peek() else {
                return if expect == Expect::Nothing { Ok(()) } else { Err(self.error("the text ends too early")) };
            };
            expect = match (expect, byte) {
                (Expect::KeyOrEnd | Expect::CommaOrEnd, b'}') => self.close(Major::Map)?,
                (Expect::ValueOrEnd | Expect::CommaOrEnd, b']') => self.close(Major::List)?,
                (Expect::CommaOrEnd, b',') => {
                    self.at += 1;
                    if self.is_in_map() { Expect::Key } else { Expect::Value }
                }
                (Expect::Key | Expect::KeyOrEnd, b'"') => {
                    self.count();
                    self.string()?;
                    self.colon()?;
                    Expect::Value
                }
                (Expect::Value | Expect::ValueOrEnd, _) => {
                    if !self.open.is_empty() && !self.is_in_map() {
                        self.count();
                    }
                    self.value(byte)?
                }
                _ => return Err(self.error("unexpected character")),
            };
        }
    }

    /// Reads the start of a value, or a whole scalar.
    fn value(&mut self, first: u8) -> Result<Expect, Error> {
        match first {
            b'{' => return Ok(self.open(Major::Map, Expect::KeyOrEnd)),
            b'[' => return Ok(self.open(Major::List, Expect::ValueOrEnd)),
            b'"' => self.string()?,
            b't' => self.literal(b"true", 0xf5)?,
            b'f' => self.literal(b"false", 0xf4)?,
            b'n' => self.literal(b"null", 0xf6)?,
            _ => self.number()?,
        }
        Ok(self.after_value())
    }

    fn open(&mut self, major: Major, expect: Expect) -> Expect {
        self.at += 1;
        self.open.push(self.heads.len());
        self.heads.push(Pending { at: self.body.len(), major, length: 0 });
        expect
    }

    fn close(&mut self, major: Major) -> Result<Expect, Error> {
        let closed = self.open.last().and_then(|at| self.heads.get(*at));
        if closed.is_none_or(|head| head.major != major) {
            return Err(self.error("unexpected closing bracket"));
        }
        self.open.pop();
        self.at += 1;
        Ok(self.after_value())
    }

    fn after_value(&self) -> Expect {
        if self.open.is_empty() { Expect::Nothing } else { Expect::CommaOrEnd }
    }

    fn innermost(&mut self) -> Option<&mut Pending> {
        self.heads.get_mut(*self.open.last()?)
    }

    fn is_in_map(&self) -> bool {
        self.open.last().and_then(|at| self.heads.get(*at)).is_some_and(|head| head.major == Major::Map)
    }

    /// Counts an element or a pair of the innermost map or list.
    fn count(&mut self) {
        if let Some(head) = self.innermost() {
            head.length += 1;
        }
    }

    fn colon(&mut self) -> Result<(), Error> {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
        if self.peek() != Some(b':') {
            return Err(self.error("missing colon"));
        }
        self.at += 1;
        Ok(())
    }

    fn literal(&mut self, literal: &[u8], byte: u8) -> Result<(), Error> {
        if !self.rest().starts_with(literal) {
            return Err(self.error("unexpected character"));
        }
        self.at += literal.len();
        self.body.push(byte);
        Ok(())
    }

    fn number(&mut self) -> Result<(), Error> {
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let rest = self.rest();
        let length = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        let text = std::str::from_utf8(&rest[..length]).unwrap_or_default();
        if text.is_empty() || text.starts_with('+') {
            return Err(self.error("unexpected character"));
        }
        match text.parse::<i64>() {
            Ok(integer) if integer >= 0 && text != "-0" => {
                head::push(Major::Unsigned, integer.unsigned_abs(), &mut self.body);
            }
            Ok(integer) if integer < 0 => head::push(Major::Negative, (!integer).unsigned_abs(), &mut self.body),
            // Integers that do not fit are floats, as in Go.
            _ => match text.parse::<f64>() {
                Ok(float) if float.is_finite() => number::push_cbor(float, &mut self.body),
                _ => return Err(self.error("invalid number")),
            },
        }
        self.at += length;
        Ok(())
    }

    fn string(&mut self) -> Result<(), Error> {
        self.at += 1;
        let rest = self.rest();
        let special = |text: &[u8]| text.iter().position(|byte| matches!(byte, b'"' | b'\\'));
        let mut end = special(rest).ok_or_else(|| self.error("the text ends too early"))?;
        while rest[end] == b'\\' {
            let next = rest.get(end + 2..).and_then(special).ok_or_else(|| self.error("the text ends too early"))?;
            end += 2 + next;
        }
        let text = unescape(&rest[..end]).ok_or_else(|| self.error("invalid string"))?;
        append_text(&text, &mut self.body);
        self.at += end + 1;
        Ok(())
    }

    /// Appends the output with all heads.
    fn write(self, out: &mut Vec<u8>) {
        out.reserve(self.body.len() + self.heads.len() * 2);
        let mut written = 0;
        for head in &self.heads {
            out.extend_from_slice(&self.body[written..head.at]);
            written = head.at;
            head::push(head.major, head.length, out);
        }
        out.extend_from_slice(&self.body[written..]);
    }

    fn rest(&self) -> &'j [u8] {
        &self.json[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    fn error(&self, problem: &'static str) -> Error {
        Error::Json { offset: self.at, problem }
    }
}

/// Returns the text of a string without its quotes; `None` if it is invalid.
fn unescape(raw: &[u8]) -> Option<Cow<'_, str>> {
    let raw = std::str::from_utf8(raw).ok()?;
    if !raw.contains('\\') {
        return Some(raw.into());
    }
    let mut text = String::with_capacity(raw.len());
    let mut parts = raw.split('\\');
    text.push_str(parts.next()?);
    while let Some(part) = parts.next() {
        let mut rest = part.chars();
        match rest.next() {
            // An escaped backslash: the next part follows it unchanged.
            None => {
                text.push('\\');
                text.push_str(parts.next()?);
                continue;
            }
            Some(plain @ ('"' | '/')) => text.push(plain),
            Some('b') => text.push('\u{8}'),
            Some('f') => text.push('\u{c}'),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('t') => text.push('\t'),
            Some('u') => {
                let (mut unit, mut after) = unit(part)?;
                let mut units = vec![unit];
                if (0xd800..0xdc00).contains(&unit) {
                    // The second half of a character.
                    (unit, after) = self::unit(parts.next()?)?;
                    units.push(unit);
                }
                text.push(char::decode_utf16(units).next()?.ok()?);
                text.push_str(after);
                continue;
            }
            Some(_) => return None,
        }
        text.push_str(rest.as_str());
    }
    Some(text.into())
}

/// Splits `uXXXX` and the rest of a string.
fn unit(escape: &str) -> Option<(u16, &str)> {
    let (digits, rest) = escape.strip_prefix('u')?.split_at_checked(4)?;
    let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some((u16::from_str_radix(digits, 16).ok().filter(|_| is_hexadecimal)?, rest))
}

#[cfg(test)]
mod tests;
