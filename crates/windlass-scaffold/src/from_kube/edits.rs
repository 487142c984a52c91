//! Replacements of byte ranges in a text.

use std::ops::Range;

/// The edits of one file. No two overlap: an edit inside of another one is dropped, and an outer one drops
/// those inside of it.
#[derive(Debug, Default)]
pub(super) struct Edits(Vec<(Range<usize>, String)>);

impl Edits {
    /// Replaces a range.
    pub(super) fn replace(&mut self, range: Range<usize>, text: impl Into<String>) {
        if self.covers(&range) {
            return;
        }
        self.0.retain(|(inner, _)| {
            let is_at_edge = inner.is_empty() && (inner.start == range.start || inner.end == range.end);
            is_at_edge || inner.start < range.start || range.end < inner.end
        });
        self.0.push((range, text.into()));
    }

    /// Inserts text.
    pub(super) fn insert(&mut self, place: usize, text: impl Into<String>) {
        if !self.0.iter().any(|(outer, _)| outer.start < place && place < outer.end) {
            self.0.push((place..place, text.into()));
        }
    }

    /// Reports whether a range is replaced as part of an edit.
    pub(super) fn covers(&self, range: &Range<usize>) -> bool {
        self.0.iter().any(|(outer, _)| !outer.is_empty() && outer.start <= range.start && range.end <= outer.end)
    }

    /// Returns a part of the text with the edits inside of it.
    pub(super) fn applied_to(&self, text: &str, part: Range<usize>) -> String {
        let is_inside = |range: &Range<usize>| part.start <= range.start && range.end <= part.end;
        let mut ordered: Vec<_> = self.0.iter().filter(|(range, _)| is_inside(range)).collect();
        ordered.sort_by_key(|(range, _)| (range.start, range.end));
        let (mut after, mut place) = (String::new(), part.start);
        for (range, replacement) in ordered {
            after.push_str(&text[place..range.start]);
            after.push_str(replacement);
            place = range.end;
        }
        after.push_str(&text[place..part.end]);
        after
    }

    /// Returns the text with all edits.
    pub(super) fn apply(&self, text: &str) -> String {
        self.applied_to(text, 0..text.len())
    }
}

/// Extends the range of an item or statement over the rest of its line, to remove it without a gap.
pub(super) fn whole_lines(text: &str, range: Range<usize>) -> Range<usize> {
    let start = text[..range.start].rfind('\n').map_or(0, |end| end + 1);
    let end = text[range.end..].find('\n').map_or(text.len(), |end| range.end + end + 1);
    let is_alone = text[start..range.start].trim().is_empty() && text[range.end..end].trim().is_empty();
    if is_alone { start..end } else { range }
}
