//! The fields of messages, in the order of the input.
//!
//! Unlike the reader of windlass-protobuf, this one reports no place of an error: a value with an error is decoded again
//! by windlass-protobuf.

/// The wire types: the encoding of the value after a field's tag.
pub(crate) const VARINT: u8 = 0;
pub(crate) const FIXED64: u8 = 1;
pub(crate) const BYTES: u8 = 2;
const FIXED32: u8 = 5;

/// A value that the generated decoders do not read: damaged, or encoded in another way than by API servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unusual;

pub(crate) type Result<T> = std::result::Result<T, Unusual>;

/// An occurrence of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) number: u32,
    pub(crate) wire: u8,
    /// The value of a number.
    pub(crate) value: u64,
    /// The value of a string, bytes or a message.
    pub(crate) content: &'a [u8],
}

/// The fields of a message that are not read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(&'a [u8]);

// === impl Field ===

impl<'a> Field<'a> {
    /// Returns the field of a message.
    pub(crate) const fn message(content: &'a [u8]) -> Self {
        Self { number: 0, wire: BYTES, value: 0, content }
    }

    /// Returns a field with Go's zero value.
    pub(crate) const fn zero(wire: u8) -> Self {
        Self { number: 0, wire, value: 0, content: &[] }
    }

    /// Checks the wire type.
    #[inline]
    pub(crate) const fn expect(&self, wire: u8) -> Result<()> {
        if self.wire == wire { Ok(()) } else { Err(Unusual) }
    }

    pub(crate) fn text(&self) -> Result<&'a str> {
        self.expect(BYTES)?;
        std::str::from_utf8(self.content).map_err(|_| Unusual)
    }

    /// Returns a number of 32 bits: the low ones, as in Go.
    #[expect(clippy::cast_possible_truncation, reason = "Go ignores the other bits")]
    pub(crate) const fn int(&self) -> i32 {
        self.value as i32
    }
}

// === impl Fields ===

impl<'a> Fields<'a> {
    /// Returns the fields of a message.
    pub(crate) const fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// Reads the next field.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Field<'a>>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        // The low three bits are the wire type. A number has at most 29 bits.
        let wire = (tag & 7) as u8;
        let Ok(number @ 1..=0x1FFF_FFFF) = u32::try_from(tag >> 3) else { return Err(Unusual) };
        let mut field = Field { number, wire, value: 0, content: &[] };
        match wire {
            VARINT => field.value = self.varint()?,
            BYTES => {
                let length = usize::try_from(self.varint()?).map_err(|_| Unusual)?;
                (field.content, self.0) = self.0.split_at_checked(length).ok_or(Unusual)?;
            }
            FIXED64 => {
                let (bytes, rest) = self.0.split_first_chunk().ok_or(Unusual)?;
                (field.value, self.0) = (u64::from_le_bytes(*bytes), rest);
            }
            FIXED32 => self.0 = self.0.get(4..).ok_or(Unusual)?,
            _ => return Err(Unusual),
        }
        Ok(Some(field))
    }

    /// Reads the next field if it has this number.
    #[inline]
    pub(crate) fn next_of(&mut self, number: u32) -> Result<Option<Field<'a>>> {
        let mut rest = *self;
        let field = rest.next()?.filter(|field| field.number == number);
        if field.is_some() {
            *self = rest;
        }
        Ok(field)
    }

    /// Counts the next fields with this number.
    pub(crate) fn count_of(mut self, number: u32) -> Result<usize> {
        let mut count = 0;
        while self.next_of(number)?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    #[inline]
    fn varint(&mut self) -> Result<u64> {
        // Most varints have one byte.
        if let [byte @ ..0x80, rest @ ..] = self.0 {
            self.0 = rest;
            return Ok((*byte).into());
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for (index, byte) in self.0.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7F) << (7 * index);
            if *byte < 0x80 {
                self.0 = &self.0[index + 1..];
                return Ok(value);
            }
        }
        Err(Unusual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_wire_type_are_read() {
        let bytes = b"\x08\xac\x02\x12\x03abc\x12\x00\x19\x01\0\0\0\0\0\0\0\x25\0\0\0\0\xa8\x3e\x07";
        let mut fields = Fields::new(bytes);
        let number = fields.next().unwrap().unwrap();
        assert_eq!((number.number, number.value, number.int()), (1, 300, 300));
        assert_eq!(fields.count_of(2).unwrap(), 2);
        assert_eq!(fields.next().unwrap().unwrap().text().unwrap(), "abc");
        assert!(fields.next_of(3).unwrap().is_none());
        assert!(fields.next_of(2).unwrap().unwrap().content.is_empty());
        let fixed = fields.next().unwrap().unwrap();
        assert_eq!((fixed.number, fixed.wire, fixed.value), (3, FIXED64, 1));
        assert_eq!(fields.next().unwrap().unwrap().number, 4);
        assert_eq!(fields.next().unwrap().unwrap().number, 1000 - 3);
        assert!(fields.next().unwrap().is_none());
    }

    #[test]
    fn damaged_fields_are_errors() {
        let all: [&[u8]; 8] =
            [b"\x08", b"\x08\x80", b"\x12\x02a", b"\x19\0\0", b"\x25\0", b"\x0b", b"\x00\x01", &[0x80; 11]];
        for bytes in all {
            assert!(Fields::new(bytes).next().is_err(), "{bytes:?}");
        }
    }
}
