//! Finds the end of a JSON object or array by counting brackets outside of strings, 64 bytes at a time.
//!
//! Each block becomes four bit masks, one bit per byte: quotes, backslashes, opening and closing brackets. The prefix
//! parity of the quotes says which bytes lie in strings. That brackets match in kind is not checked.

/// How far into a value the scan has come. Resumable at any byte.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Skipper {
    /// Open brackets. 0 before the first, and again at the end.
    depth: u32,
    in_string: bool,
    /// Whether the next byte is escaped; only within strings.
    escaped: bool,
}

const BLOCK: usize = 64;

impl Skipper {
    /// Goes on through `bytes`. `Some(n)`: the value ended with the nth byte, and the skipper is ready for another.
    /// `None`: it goes on in the next chunk.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Option<usize> {
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

    /// The bytes that follow a backslash which is not itself escaped. Backslashes are rare: one step for each.
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

/// One bit per byte of a block, the first byte in the lowest bit.
struct Masks {
    quotes: u64,
    backslashes: u64,
    opening: u64,
    closing: u64,
}

impl Masks {
    fn of(block: &[u8; BLOCK]) -> Self {
        let mut masks = Self { quotes: 0, backslashes: 0, opening: 0, closing: 0 };
        let (words, _) = block.as_chunks::<8>();
        for (index, word) in words.iter().enumerate() {
            let word = u64::from_le_bytes(*word);
            // `[` and `{`, and `]` and `}`, differ in this bit only.
            let folded = word | u64::from_ne_bytes([0x20; 8]);
            let shift = index * 8;
            masks.quotes |= equal(word, b'"') << shift;
            masks.backslashes |= equal(word, b'\\') << shift;
            masks.opening |= equal(folded, b'{') << shift;
            masks.closing |= equal(folded, b'}') << shift;
        }
        masks
    }
}

/// One bit for each byte of `word` that is `byte`.
fn equal(word: u64, byte: u8) -> u64 {
    const LOW: u64 = u64::from_ne_bytes([0x7f; 8]);
    /// Multiplying by this gathers the lowest bit of each byte in the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let difference = word ^ u64::from_ne_bytes([byte; 8]);
    // The high bit of a byte is set iff the byte is not zero; no carry leaves its byte.
    let unequal = ((difference & LOW) + LOW) | difference;
    ((!unequal & !LOW) >> 7).wrapping_mul(GATHER) >> 56
}

/// Each bit is the parity of itself and the bits below.
fn prefix_parity(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the block-wise scan must agree with.
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
    fn blocks_and_bytes_agree_wherever_a_block_starts() {
        let dense = format!("{{{}}}", r#""k\\\"}":"v\\","#.repeat(40) + r#""z":[[{}],{"y":"\\\\\""}]"#);
        for pad in 0..BLOCK {
            let text = format!("{{\"{}\":{dense}}}", "p".repeat(pad));
            let more = format!("{text}}}]");
            assert_eq!(plain_end(more.as_bytes()), Some(text.len()), "{pad}");
            assert_eq!(Skipper::default().advance(more.as_bytes()), Some(text.len()), "{pad}");
        }
    }

    #[test]
    fn a_scan_goes_on_where_it_was_cut() {
        let text = format!("{{\"a\":\"{}\",\"b\":[{{\"c\":\"\\\\\"}}]}}", r#"\\\"}]"#.repeat(30));
        for cut in 0..text.len() {
            let mut skipper = Skipper::default();
            let (start, end) = text.as_bytes().split_at(cut);
            assert_eq!(skipper.advance(start), None, "{cut}");
            assert_eq!(skipper.advance(end), Some(text.len() - cut), "{cut}");
        }
    }

    #[test]
    fn a_byte_is_found_where_it_stands_and_nowhere_else() {
        for byte in 0..=u8::MAX {
            let found = equal(u64::from_le_bytes([b'"', byte, 0x80, 0x23, 0x21, 0xa2, 0x22, 0xff]), b'"');
            let expected = 0b0100_0001 | if byte == b'"' { 0b10 } else { 0 };
            assert_eq!(found, expected, "{byte}");
        }
    }
}
