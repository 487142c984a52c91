//! Maps: repeated messages with a key and a value.

use super::{Decoder, Entries, Result};
use crate::{
    occurrences::{Entry, Pair},
    table::{Field, Message},
};

impl Decoder<'_> {
    /// Writes a map in the order of its keys.
    pub(super) fn map(
        &mut self,
        message: &'static Message,
        field: &'static Field,
        found: Entries,
        depth: usize,
    ) -> Result<()> {
        let base = self.found.map(message, field, found)?;
        self.out.push(b'{');
        for at in base..self.found.pairs.len() {
            if at > base {
                self.out.push(b',');
            }
            let Pair { key, value } = self.found.pairs[at];
            self.string(key);
            self.out.push(b':');
            let first = self.found.entries.len();
            self.found.entries.extend(value.map(|span| Entry { field: 0, span }));
            self.value(message, field, first..self.found.entries.len(), depth)?;
            self.found.entries.truncate(first);
        }
        self.out.push(b'}');
        self.found.pairs.truncate(base);
        Ok(())
    }
}
