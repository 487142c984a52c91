//! The wire format: tags, varints and lengths, read forwards and written backwards.

const UNEXPECTED_END: &str = "unexpected EOF";

/// The wire types: the encoding of the value after a field's tag.
pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const BYTES: u8 = 2;
const START_GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED32: u8 = 5;

/// A reader of a message.
pub(super) struct Reader<'a> {
    /// The unread bytes of the message.
    pub(super) data: &'a [u8],
    /// The message's name, for errors.
    pub(super) owner: &'static str,
}

/// A writer that starts at the end of a message, as Go's generated code does, so that each length is known when it is
/// written.
#[derive(Default)]
pub(super) struct Writer {
    /// The written bytes are those from `at`.
    buffer: Vec<u8>,
    at: usize,
    /// The number of bytes after those, which the caller writes.
    behind: usize,
}

// === impl Reader ===

impl<'a> Reader<'a> {
    /// Reads the next field's number and wire type; `None` at the end.
    pub(super) fn tag(&mut self) -> Result<Option<(u32, u8)>, String> {
        if self.data.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        #[allow(clippy::cast_possible_truncation)] // as Go does: the number is what fits, and then it must be positive
        let (number, wire) = ((tag >> 3) as i32, (tag & 7) as u8);
        if wire == END_GROUP {
            return Err(format!("proto: {}: wiretype end group for non-group", self.owner));
        }
        match u32::try_from(number) {
            Ok(number @ 1..) => Ok(Some((number, wire))),
            _ => Err(format!("proto: {}: illegal tag {number} (wire type {tag})", self.owner)),
        }
    }

    pub(super) fn varint(&mut self) -> Result<u64, String> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("proto: integer overflow".into())
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (head, rest) = self.data.split_at_checked(count).ok_or(UNEXPECTED_END)?;
        self.data = rest;
        Ok(head)
    }

    pub(super) fn number(&mut self, wire: u8, name: &str) -> Result<u64, String> {
        expect(wire, VARINT, name)?;
        self.varint()
    }

    pub(super) fn float(&mut self, wire: u8, name: &str) -> Result<f64, String> {
        expect(wire, FIXED64, name)?;
        let bytes = self.take(8)?;
        Ok(f64::from_le_bytes(bytes.try_into().map_err(|_| UNEXPECTED_END)?))
    }

    pub(super) fn bytes(&mut self, wire: u8, name: &str) -> Result<&'a [u8], String> {
        expect(wire, BYTES, name)?;
        let length = self.varint()?;
        if length > i64::MAX.cast_unsigned() {
            return Err("proto: negative length found during unmarshaling".into());
        }
        self.take(usize::try_from(length).map_err(|_| UNEXPECTED_END)?)
    }

    /// Skips a field. Groups, which are deprecated, are counted by depth instead of recursion.
    pub(super) fn skip(&mut self, wire: u8) -> Result<(), String> {
        let mut wire = wire;
        let mut groups = 0usize;
        loop {
            match wire {
                VARINT => drop(self.varint()?),
                FIXED64 => drop(self.take(8)?),
                BYTES => drop(self.bytes(BYTES, "")?),
                START_GROUP => groups += 1,
                END_GROUP if groups > 0 => groups -= 1,
                END_GROUP => return Err("proto: unexpected end of group".into()),
                FIXED32 => drop(self.take(4)?),
                other => return Err(format!("proto: illegal wireType {other}")),
            }
            if groups == 0 {
                return Ok(());
            }
            wire = (self.varint()? & 7) as u8;
        }
    }
}

fn expect(wire: u8, expected: u8, name: &str) -> Result<(), String> {
    if wire == expected {
        return Ok(());
    }
    let name = if name == "metadata" { "objectMeta" } else { name };
    let mut letters = name.chars();
    let field: String = letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect();
    Err(format!("proto: wrong wireType = {wire} for field {field}"))
}

// === impl Writer ===

impl Writer {
    /// Creates a writer for about this many bytes.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { buffer: vec![0; capacity], at: capacity, behind: 0 }
    }

    /// Creates a writer for the part of a message that comes before `behind` bytes.
    pub(super) fn before(behind: usize) -> Self {
        Self { behind, ..Self::default() }
    }

    /// Returns the written bytes.
    pub(super) fn written(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    /// Returns the position where the next written message ends, counted from the end of the output; for
    /// [`Self::close`].
    pub(super) fn end(&self) -> usize {
        self.behind + self.buffer.len() - self.at
    }

    /// Writes the length and the tag of a message that was written since `end`.
    pub(super) fn close(&mut self, number: u32, end: usize) {
        self.varint((self.end() - end) as u64);
        self.tag(number, BYTES);
    }

    pub(super) fn bytes(&mut self, number: u32, bytes: &[u8]) {
        let end = self.end();
        self.raw(bytes);
        self.close(number, end);
    }

    pub(super) fn number(&mut self, number: u32, value: u64) {
        self.varint(value);
        self.tag(number, VARINT);
    }

    pub(super) fn float(&mut self, number: u32, value: f64) {
        self.raw(&value.to_le_bytes());
        self.tag(number, FIXED64);
    }

    /// Writes bytes without a tag.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len()).copy_from_slice(bytes);
    }

    fn tag(&mut self, number: u32, wire: u8) {
        self.varint(u64::from(number) << 3 | u64::from(wire));
    }

    #[inline]
    fn varint(&mut self, value: u64) {
        // Most varints have one byte.
        if let Ok(byte @ ..0x80) = u8::try_from(value) {
            self.reserve(1)[0] = byte;
            return;
        }
        let to = self.reserve((64 - value.leading_zeros() as usize).div_ceil(7));
        let (mut rest, last) = (value, to.len() - 1);
        for byte in &mut *to {
            *byte = (rest & 0x7F) as u8 | 0x80;
            rest >>= 7;
        }
        to[last] &= 0x7F;
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
        let old = self.buffer.len();
        let more = old.max(length).max(64);
        self.buffer.resize(old + more, 0);
        self.buffer.copy_within(self.at..old, self.at + more);
        self.at += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_written_backwards_are_read_forwards() {
        let mut writer = Writer::default();
        writer.float(4, -0.5);
        let end = writer.end();
        writer.number(1, 300);
        writer.close(3, end);
        writer.bytes(2, b"abc");
        writer.number(1, u64::MAX);
        let mut reader = Reader { data: writer.written(), owner: "T" };
        assert_eq!(reader.tag().unwrap(), Some((1, VARINT)));
        assert_eq!(reader.varint().unwrap(), u64::MAX);
        assert_eq!(reader.tag().unwrap(), Some((2, BYTES)));
        assert_eq!(reader.bytes(BYTES, "").unwrap(), b"abc");
        assert_eq!(reader.tag().unwrap(), Some((3, BYTES)));
        assert_eq!(reader.bytes(BYTES, "").unwrap(), b"\x08\xac\x02");
        assert_eq!(reader.tag().unwrap(), Some((4, FIXED64)));
        assert!((reader.float(FIXED64, "").unwrap() + 0.5).abs() < f64::EPSILON);
        assert_eq!(reader.tag().unwrap(), None);
    }

    #[test]
    fn numbers_of_every_length_are_written_and_read() {
        for value in (0..64).flat_map(|bits| [1u64 << bits, (1u64 << bits) - 1]) {
            let mut writer = Writer::default();
            writer.varint(value);
            let mut reader = Reader { data: writer.written(), owner: "T" };
            assert_eq!(reader.varint().unwrap(), value);
            assert!(reader.data.is_empty());
        }
    }
}
