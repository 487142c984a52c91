//! The wire format: tags, varints and lengths, read forwards and written backwards.

use std::borrow::Cow;

/// The wire types: the encoding of the value after a field's tag.
pub(crate) const VARINT: u8 = 0;
pub(crate) const FIXED64: u8 = 1;
pub(crate) const BYTES: u8 = 2;
pub(crate) const FIXED32: u8 = 5;

/// Malformed bytes: the position and the problem. The caller adds the message and the field.
#[derive(Debug)]
pub(crate) struct Malformed {
    pub(crate) offset: usize,
    pub(crate) problem: Cow<'static, str>,
}

type Result<T> = std::result::Result<T, Malformed>;

/// A part of the input.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// A reader of a part of the input. The input has at most `u32::MAX` bytes.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    /// The input up to the end of the part.
    input: &'a [u8],
    at: usize,
}

/// A writer that starts at the end of a message, as Go's generated code does, so that each length is known when it is
/// written.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// The written bytes are those from `at`.
    buffer: Vec<u8>,
    at: usize,
}

// === impl Span ===

impl Span {
    pub(crate) fn of(self, input: &[u8]) -> &[u8] {
        &input[self.start as usize..self.end as usize]
    }
}

// === impl Reader ===

impl<'a> Reader<'a> {
    pub(crate) fn new(input: &'a [u8], span: Span) -> Self {
        Self { input: &input[..span.end as usize], at: span.start as usize }
    }

    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.input.len()
    }

    /// Returns the position in the input.
    pub(crate) fn position(&self) -> u32 {
        narrow(self.at)
    }

    /// Reads the next field's number and wire type.
    #[inline]
    pub(crate) fn tag(&mut self) -> Result<(u32, u8)> {
        let start = self.at;
        let tag = self.varint()?;
        // The low three bits are the wire type. A number has at most 29 bits.
        let wire = (tag & 7) as u8;
        match u32::try_from(tag >> 3) {
            Ok(number @ 1..=0x1FFF_FFFF) => Ok((number, wire)),
            _ => Err(malformed(start, "a field number out of range")),
        }
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64> {
        // Most varints have one or two bytes.
        match self.input.get(self.at..).unwrap_or_default() {
            [low @ ..0x80, ..] => {
                self.at += 1;
                return Ok(u64::from(*low));
            }
            [low, high @ ..0x80, ..] => {
                self.at += 2;
                return Ok(u64::from(low & 0x7F) | u64::from(*high) << 7);
            }
            _ => {}
        }
        self.long_varint()
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Result<u64> {
        let start = self.at;
        let mut value = 0;
        for (index, byte) in self.input[start..].iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7F) << (7 * index);
            if *byte < 0x80 {
                self.at += index + 1;
                return Ok(value);
            }
        }
        let is_cut_off = self.input.len() - start < 10;
        Err(malformed(start, if is_cut_off { "the data ends in a number" } else { "a number of more than 64 bits" }))
    }

    /// Reads the length and the content of a value with the wire type [`BYTES`].
    #[inline]
    pub(crate) fn bytes(&mut self) -> Result<Span> {
        let length_at = self.at;
        let length = self.varint()?;
        let start = self.at;
        let rest = self.input.len() - start;
        match usize::try_from(length) {
            Ok(length) if length <= rest => {
                self.at += length;
                Ok(Span { start: narrow(start), end: narrow(self.at) })
            }
            _ => Err(too_long(length_at, length, rest)),
        }
    }

    /// Reads a value with the wire type [`FIXED64`].
    pub(crate) fn fixed64(&mut self) -> Result<u64> {
        let Some(bytes) = self.input[self.at..].first_chunk() else {
            return Err(malformed(self.at, "the data ends in a number"));
        };
        self.at += 8;
        Ok(u64::from_le_bytes(*bytes))
    }

    /// Reads the value of an unknown field.
    #[inline]
    pub(crate) fn skip(&mut self, wire: u8) -> Result<()> {
        let start = self.at;
        match wire {
            VARINT => self.varint().map(drop),
            FIXED64 => self.fixed64().map(drop),
            BYTES => self.bytes().map(drop),
            FIXED32 if self.input.len() - start >= 4 => {
                self.at += 4;
                Ok(())
            }
            FIXED32 => Err(malformed(start, "the data ends in a number")),
            _ => Err(self.wrong_wire(wire)),
        }
    }

    /// Skips fields up to one with the number, as long as tags have one byte, and lengths and numbers at most two. That is
    /// the encoding of most fields; the caller reads the field after them in any encoding.
    #[inline]
    pub(crate) fn skip_usual_fields(&mut self, number: u32) {
        let mut at = self.at;
        while let Some(&[tag @ ..0x80, low]) = self.input.get(at..).and_then(|rest| rest.first_chunk()) {
            if u32::from(tag >> 3) == number || tag < 1 << 3 {
                break;
            }
            let (value, size) = match self.input.get(at + 2) {
                _ if low < 0x80 => (usize::from(low), 2),
                Some(&high @ ..0x80) => (usize::from(low & 0x7F) | usize::from(high) << 7, 3),
                _ => break,
            };
            let content = match tag & 7 {
                BYTES => value,
                VARINT => 0,
                _ => break,
            };
            let next = at + size + content;
            if next > self.input.len() {
                break;
            }
            at = next;
        }
        self.at = at;
    }

    /// Returns the error of a field with the wrong wire type, after its tag.
    #[cold]
    pub(crate) fn wrong_wire(&self, wire: u8) -> Malformed {
        let name = match wire {
            VARINT => "0, a varint",
            FIXED64 => "1, 64 bits",
            BYTES => "2, a length",
            FIXED32 => "5, 32 bits",
            3 | 4 => "3 or 4, a group",
            _ => "6 or 7",
        };
        Malformed { offset: self.at, problem: format!("unexpected wire type {name}").into() }
    }
}

// Functions of their own, so that the methods that call them are small enough to be inlined.

#[cold]
fn malformed(offset: usize, problem: &'static str) -> Malformed {
    Malformed { offset, problem: problem.into() }
}

#[cold]
fn too_long(offset: usize, length: u64, rest: usize) -> Malformed {
    Malformed { offset, problem: format!("a length of {length}, with {rest} bytes left").into() }
}

/// Returns the low bits, as Go's generated code does for 32-bit numbers.
#[allow(clippy::cast_possible_truncation)]
pub(crate) const fn low(number: u64) -> i32 {
    number as i32
}

/// Returns the number of bytes of a varint.
#[inline]
pub(crate) const fn varint_length(value: u64) -> usize {
    // Zero has a byte, too.
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Writes a varint into exactly its bytes.
#[inline]
pub(crate) fn write_varint(to: &mut [u8], value: u64) {
    let mut rest = value;
    let last = to.len() - 1;
    for byte in &mut *to {
        *byte = (rest & 0x7F) as u8 | 0x80;
        rest >>= 7;
    }
    to[last] &= 0x7F;
}

/// Converts a position. Callers check the length of the input.
pub(crate) fn narrow(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// Returns a string. Each byte that is not UTF-8 becomes U+FFFD, as in JSON.
#[must_use]
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}

// === impl Writer ===

impl Writer {
    /// Creates a writer for about this many bytes.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { buffer: vec![0; capacity], at: capacity }
    }

    /// Returns the written bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.buffer.drain(..self.at);
        self.buffer
    }

    /// Returns the number of written bytes; for [`Self::close`].
    pub(crate) fn length(&self) -> usize {
        self.buffer.len() - self.at
    }

    /// Writes the length and the tag of a message that was written since `length`.
    pub(crate) fn close(&mut self, number: u32, length: usize) {
        self.head(number, self.length() - length);
    }

    /// Writes the length and the tag of a content.
    pub(crate) fn head(&mut self, number: u32, length: usize) {
        self.varint(length as u64);
        self.tag(number, BYTES);
    }

    pub(crate) fn bytes(&mut self, number: u32, bytes: &[u8]) {
        let length = self.length();
        self.raw(bytes);
        self.close(number, length);
    }

    pub(crate) fn number(&mut self, number: u32, value: u64) {
        self.varint(value);
        self.tag(number, VARINT);
    }

    pub(crate) fn float(&mut self, number: u32, value: f64) {
        self.raw(&value.to_le_bytes());
        self.tag(number, FIXED64);
    }

    /// Writes bytes without a tag.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let to = self.reserve(bytes.len());
        to.copy_from_slice(bytes);
    }

    #[inline]
    fn tag(&mut self, number: u32, wire: u8) {
        self.varint(u64::from(number) << 3 | u64::from(wire));
    }

    #[inline]
    pub(crate) fn varint(&mut self, value: u64) {
        let length = varint_length(value);
        write_varint(self.reserve(length), value);
    }

    /// Returns the space before the written bytes.
    #[inline]
    fn reserve(&mut self, length: usize) -> &mut [u8] {
        if self.at < length {
            self.grow(length);
        }
        self.at -= length;
        &mut self.buffer[self.at..self.at + length]
    }

    #[cold]
    fn grow(&mut self, length: usize) {
        let more = self.buffer.len().max(length).max(64);
        let old = self.buffer.len();
        self.buffer.resize(old + more, 0);
        self.buffer.copy_within(self.at..old, self.at + more);
        self.at += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &[u8]) -> Reader<'_> {
        Reader::new(bytes, Span { start: 0, end: narrow(bytes.len()) })
    }

    #[test]
    fn fields_written_backwards_are_read_forwards() {
        let mut writer = Writer::default();
        writer.float(4, -0.5);
        let end = writer.length();
        writer.number(1, 300);
        writer.close(3, end);
        writer.bytes(2, b"abc");
        writer.number(1, u64::MAX);
        let bytes = writer.finish();
        let mut reader = reader(&bytes);
        assert_eq!(reader.tag().unwrap(), (1, VARINT));
        assert_eq!(reader.varint().unwrap(), u64::MAX);
        assert_eq!(reader.tag().unwrap(), (2, BYTES));
        assert_eq!(reader.bytes().unwrap().of(&bytes), b"abc");
        assert_eq!(reader.tag().unwrap(), (3, BYTES));
        assert_eq!(reader.bytes().unwrap().of(&bytes), b"\x08\xac\x02");
        assert_eq!(reader.tag().unwrap(), (4, FIXED64));
        assert_eq!(f64::from_bits(reader.fixed64().unwrap()).to_bits(), (-0.5f64).to_bits());
        assert!(reader.is_at_end());
    }

    #[test]
    fn numbers_of_every_length_are_written_and_read() {
        for bits in 0..64 {
            for value in [1u64 << bits, (1u64 << bits) - 1] {
                let mut writer = Writer::default();
                writer.varint(value);
                let bytes = writer.finish();
                let mut reader = reader(&bytes);
                assert_eq!(reader.varint().unwrap(), value);
                assert!(reader.is_at_end());
            }
        }
    }

    #[test]
    fn malformed_numbers_and_lengths_are_errors() {
        assert!(reader(&[0x80; 9]).varint().unwrap_err().problem.contains("the data ends"));
        assert!(reader(&[0x80; 11]).varint().unwrap_err().problem.contains("more than 64 bits"));
        assert!(reader(&[5, 0]).bytes().unwrap_err().problem.contains("a length of 5, with 1 bytes left"));
        assert!(reader(&[0]).tag().unwrap_err().problem.contains("field number"));
        assert!(reader(&[1]).skip(3).unwrap_err().problem.contains("wire type 3 or 4, a group"));
        assert!(reader(&[1]).skip(5).unwrap_err().problem.contains("the data ends"));
    }
}
