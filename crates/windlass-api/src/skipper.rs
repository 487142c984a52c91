//! Finds the end of a JSON object or array by counting brackets outside of strings, 64 bytes at a time.
//!
//! Each block becomes four bit masks with one bit per byte: quotes, backslashes, opening brackets and closing brackets.
//! The prefix parity of the quotes determines which bytes are in strings. Whether brackets match in type is not
//! checked.

use self::lane::{LANE, Lane};

mod lane;

/// The state of a search for the end of a JSON object or array. The search can be resumed at any byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct Skipper {
    /// The number of open brackets: 0 before the first bracket, and again at the end.
    depth: u32,
    in_string: bool,
    /// `true` if the next byte is escaped. Only used within strings.
    escaped: bool,
}

const BLOCK: usize = 64;

impl Skipper {
    /// Continues the search in `bytes`. Returns `Some(n)` if the value ended with the nth byte; the skipper is then
    /// ready for another value. Returns `None` if the value continues in the next chunk.
    #[must_use]
    pub fn advance(&mut self, bytes: &[u8]) -> Option<usize> {
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        for (index, block) in blocks.iter().enumerate() {
            if let Some(end) = self.block(block) {
                return Some(index * BLOCK + end);
            }
        }
        let end = self.bytewise(rest)?;
        Some(blocks.len() * BLOCK + end)
    }

    fn block(&mut self, block: &[u8; BLOCK]) -> Option<usize> {
        let masks = Masks::of(block);
        let quotes = masks.quotes & !self.escapes(masks.backslashes);
        let strings = prefix_parity(quotes) ^ if self.in_string { u64::MAX } else { 0 };
        let (opening, mut closing) = (masks.opening & !strings, masks.closing & !strings);
        if closing.count_ones() < self.depth {
            self.depth += opening.count_ones();
            self.depth -= closing.count_ones();
        } else {
            let mut closed = 0;
            while closing != 0 {
                let position = closing.trailing_zeros();
                let opened = (opening & ((1 << position) - 1)).count_ones();
                closed += 1;
                if self.depth + opened <= closed {
                    *self = Self::default();
                    return Some(position as usize + 1);
                }
                closing &= closing - 1;
            }
            self.depth = self.depth + opening.count_ones() - closed;
        }
        self.in_string = strings >> 63 == 1;
        None
    }

    /// Returns the bytes after an unescaped backslash. Backslashes are rare, so this takes one step for each.
    fn escapes(&mut self, mut backslashes: u64) -> u64 {
        let mut escaped = u64::from(self.escaped);
        self.escaped = false;
        backslashes &= !escaped;
        while backslashes != 0 {
            let first = backslashes & backslashes.wrapping_neg();
            let next = first << 1;
            self.escaped = next == 0;
            escaped |= next;
            backslashes &= !(first | next);
        }
        escaped
    }

    fn bytewise(&mut self, bytes: &[u8]) -> Option<usize> {
        for (index, &byte) in bytes.iter().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        *self = Self::default();
                        return Some(index + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// Masks with one bit per byte of a block, the first byte in the lowest bit.
struct Masks {
    quotes: u64,
    backslashes: u64,
    opening: u64,
    closing: u64,
}

impl Masks {
    fn of(block: &[u8; BLOCK]) -> Self {
        let mut masks = Self { quotes: 0, backslashes: 0, opening: 0, closing: 0 };
        let (lanes, _) = block.as_chunks::<LANE>();
        for (index, lane) in lanes.iter().enumerate() {
            let lane = Lane::new(*lane);
            // `[` and `{` differ only in this bit, and so do `]` and `}`.
            let folded = lane.with(0x20);
            let shift = index * LANE;
            masks.quotes |= lane.equal(b'"') << shift;
            masks.backslashes |= lane.equal(b'\\') << shift;
            masks.opening |= folded.equal(b'{') << shift;
            masks.closing |= folded.equal(b'}') << shift;
        }
        masks
    }
}

/// Returns, for each bit, the parity of the bit and all lower bits.
fn prefix_parity(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds the end byte by byte. The block-wise scan must agree with it.
    fn plain_end(bytes: &[u8]) -> Option<usize> {
        Skipper::default().bytewise(bytes)
    }

    #[test]
    fn strings_and_escapes_hide_brackets() {
        for text in [
            "{}",
            r#"{"a":"}"}"#,
            r#"{"a":"\"}"}"#,
            r#"{"a":"\\"}"#,
            r#"{"a":"\\\"}{[","b":[{"c":[]}]}"#,
            r#"[{"a":["]"]}]"#,
        ] {
            let with_more = format!("{text},{{}}");
            assert_eq!(Skipper::default().advance(with_more.as_bytes()), Some(text.len()), "{text}");
        }
    }

    #[test]
    fn block_and_byte_scan_agree_at_any_offset() {
        let dense = format!("{{{}}}", r#""k\\\"}":"v\\","#.repeat(40) + r#""z":[[{}],{"y":"\\\\\""}]"#);
        for pad in 0..BLOCK {
            let text = format!("{{\"{}\":{dense}}}", "p".repeat(pad));
            let more = format!("{text}}}]");
            assert_eq!(plain_end(more.as_bytes()), Some(text.len()), "{pad}");
            assert_eq!(Skipper::default().advance(more.as_bytes()), Some(text.len()), "{pad}");
        }
    }

    #[test]
    fn scan_resumes_at_any_cut() {
        let text = format!("{{\"a\":\"{}\",\"b\":[{{\"c\":\"\\\\\"}}]}}", r#"\\\"}]"#.repeat(30));
        for cut in 0..text.len() {
            let mut skipper = Skipper::default();
            let (start, end) = text.as_bytes().split_at(cut);
            assert_eq!(skipper.advance(start), None, "{cut}");
            assert_eq!(skipper.advance(end), Some(text.len() - cut), "{cut}");
        }
    }
}
