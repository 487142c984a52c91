//! Maps: repeated messages with a key and a value.

use super::{Decoder, Entries, Entry, Result, malformed};
use crate::{
    table::{Field, Message},
    wire::{self, Reader, Span},
};

/// The numbers of an entry's fields.
const KEY: u32 = 1;
const VALUE: u32 = 2;

/// An entry; without a value, Go's zero value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    key: Span,
    value: Option<Span>,
}

impl Decoder<'_> {
    /// Writes a map in the order of its keys. The last one of equal keys counts.
    pub(super) fn map(
        &mut self,
        message: &'static Message,
        field: &'static Field,
        found: Entries,
        depth: usize,
    ) -> Result<()> {
        let base = self.pairs.len();
        // Encoders write the entries in this order.
        let mut is_sorted = true;
        for entry in found {
            let pair = self.pair(message, field, self.entries[entry].span)?;
            if let Some(last) = self.pairs[base..].last() {
                is_sorted &= last.key.of(self.input) < pair.key.of(self.input);
            }
            self.pairs.push(pair);
        }
        if !is_sorted {
            self.sort(base);
        }
        self.out.push(b'{');
        for at in base..self.pairs.len() {
            if at > base {
                self.out.push(b',');
            }
            let Pair { key, value } = self.pairs[at];
            self.string(key);
            self.out.push(b':');
            let first = self.entries.len();
            self.entries.extend(value.map(|span| Entry { field: 0, span }));
            self.value(message, field, first..self.entries.len(), depth)?;
            self.entries.truncate(first);
        }
        self.out.push(b'}');
        self.pairs.truncate(base);
        Ok(())
    }

    /// Sorts the entries from `base`, and removes all but the last one of each key.
    fn sort(&mut self, base: usize) {
        let input = self.input;
        self.pairs[base..].sort_by_key(|pair| pair.key.of(input));
        let mut kept = base;
        for at in base..self.pairs.len() {
            let pair = self.pairs[at];
            if kept > base && self.pairs[kept - 1].key.of(input) == pair.key.of(input) {
                kept -= 1;
            }
            self.pairs[kept] = pair;
            kept += 1;
        }
        self.pairs.truncate(kept);
    }

    /// Reads an entry.
    fn pair(&self, message: &'static Message, field: &'static Field, span: Span) -> Result<Pair> {
        let mut reader = Reader::new(self.input, span);
        let mut pair = Pair { key: Span::default(), value: None };
        while !reader.is_at_end() {
            let read = (|| {
                let (number, wire) = reader.tag()?;
                match number {
                    KEY if wire == wire::BYTES => pair.key = reader.bytes()?,
                    VALUE if wire == field.item.wire() => pair.value = Some(super::value(&mut reader, wire)?),
                    KEY | VALUE => return Err(reader.wrong_wire(wire)),
                    _ => reader.skip(wire)?,
                }
                Ok(())
            })();
            read.map_err(|error| malformed(message, Some(field), error))?;
        }
        Ok(pair)
    }
}
