//! Lists and maps that are read in place.

use super::{
    FIRST, Result, SECOND,
    found::{reader, value, wire_of},
};
use crate::{
    Error,
    table::Field,
    wire::{self, Malformed},
};

/// A list or a map that is read in place.
#[derive(Clone, Copy, Debug)]
pub struct ListNode<'a> {
    pub(super) field: &'static Field,
    /// The part of the outer message with all items.
    pub(super) bytes: &'a [u8],
    pub(super) depth: u8,
}

/// The items of a list, or the entries of a map.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    pub(super) list: ListNode<'a>,
    /// The rest of a packed list.
    packed: &'a [u8],
}

impl<'a> ListNode<'a> {
    /// Returns the part of the outer message with all items.
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Reads an entry of a map.
    pub(super) fn pair(&self, entry: &'a [u8]) -> Result<(&'a [u8], Option<&'a [u8]>)> {
        let (mut key, mut found) = (&[][..], None);
        let mut reader = reader(entry);
        let read = (|| {
            while !reader.is_at_end() {
                let (number, wire) = reader.tag()?;
                match number {
                    FIRST if wire == wire::BYTES => key = value(&mut reader, wire, entry)?,
                    SECOND if wire == self.field.item.wire() => found = Some(value(&mut reader, wire, entry)?),
                    FIRST | SECOND => return Err(reader.wrong_wire(wire)),
                    _ => reader.skip(wire)?,
                }
            }
            Ok(())
        })();
        read.map(|()| (key, found)).map_err(|error| self.malformed(error))
    }

    /// Returns the entries of a map in the order of their keys. Of equal keys, the last one counts.
    pub(super) fn sorted(self) -> Result<Vec<u8>> {
        let (mut elements, mut entries) = (Elements::new(self), Vec::new());
        while let Some(entry) = elements.next_span()? {
            entries.push((self.pair(entry)?.0, entry));
        }
        entries.sort_by_key(|(key, _)| *key);
        let mut out = wire::Writer::with_capacity(self.bytes.len());
        // Backwards, as the writer does.
        let mut last = None;
        for (key, entry) in entries.into_iter().rev() {
            if last != Some(key) {
                out.bytes(self.field.number, entry);
            }
            last = Some(key);
        }
        Ok(out.finish())
    }

    fn malformed(&self, error: Malformed) -> Error {
        let Malformed { offset, problem } = error;
        Error::Protobuf { message: "object", field: Some(self.field.name), offset, problem }
    }
}

impl<'a> Elements<'a> {
    pub(super) fn new(list: ListNode<'a>) -> Self {
        Self { list, packed: &[] }
    }

    /// Returns the content of the next element.
    pub(super) fn next_span(&mut self) -> Result<Option<&'a [u8]>> {
        let ListNode { field, .. } = self.list;
        let list = self.list;
        let failed = |error| list.malformed(error);
        loop {
            if !self.packed.is_empty() {
                let mut reader = reader(self.packed);
                let item = value(&mut reader, field.item.wire(), self.packed).map_err(failed)?;
                self.packed = &self.packed[reader.position() as usize..];
                return Ok(Some(item));
            }
            let bytes = self.list.bytes;
            let mut reader = reader(bytes);
            if reader.is_at_end() {
                return Ok(None);
            }
            let (number, wire) = reader.tag().map_err(failed)?;
            let value = value(&mut reader, wire, bytes).map_err(failed)?;
            self.list.bytes = &bytes[reader.position() as usize..];
            if number != field.number {
                continue;
            }
            if wire == wire_of(field) {
                return Ok(Some(value));
            }
            self.packed = value;
        }
    }
}
