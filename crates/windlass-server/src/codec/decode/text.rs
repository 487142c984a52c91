//! Navigation in the text. The text is well-formed; at its end the functions read 0, which ends every loop.

use super::Decoder;
use crate::codec::json;

impl<'a> Decoder<'a> {
    /// Returns the first byte of the next value.
    pub(super) fn peek(&mut self) -> u8 {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.data.get(self.at) {
            self.at += 1;
        }
        self.data.get(self.at).copied().unwrap_or_default()
    }

    /// Skips an opening bracket.
    pub(super) fn open(&mut self) {
        self.peek();
        self.at += 1;
    }

    /// Reports whether a container has another element; skips the comma or the closing bracket.
    pub(super) fn more(&mut self) -> bool {
        match self.peek() {
            b',' => {
                self.at += 1;
                true
            }
            b']' | b'}' => {
                self.at += 1;
                false
            }
            0 => false,
            _ => true,
        }
    }

    /// Returns the next key of an object, or `None` after its end.
    pub(super) fn key(&mut self) -> Option<String> {
        if !self.more() {
            return None;
        }
        self.peek();
        let key = self.string();
        self.peek();
        self.at += 1;
        Some(key)
    }

    pub(super) fn string(&mut self) -> String {
        let start = self.at + 1;
        self.skip();
        json::unquote(self.data.get(start..self.at.saturating_sub(1)).unwrap_or_default())
    }

    /// Returns the text of a number.
    pub(super) fn literal(&mut self) -> &'a str {
        std::str::from_utf8(self.raw()).unwrap_or_default()
    }

    pub(super) fn raw(&mut self) -> &'a [u8] {
        self.peek();
        let start = self.at;
        self.skip();
        &self.data[start..self.at.min(self.data.len())]
    }

    /// Skips a value.
    pub(super) fn skip(&mut self) {
        let mut depth = 0usize;
        self.peek();
        while let Some(byte) = self.data.get(self.at) {
            match byte {
                b'"' => {
                    self.at += 1;
                    while let Some(byte) = self.data.get(self.at) {
                        match byte {
                            b'"' => break,
                            b'\\' => self.at += 2,
                            _ => self.at += 1,
                        }
                    }
                    self.at += 1;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    self.at += 1;
                }
                b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                _ => {
                    self.at += 1;
                    while let Some(b'a'..=b'z' | b'E' | b'0'..=b'9' | b'+' | b'-' | b'.') = self.data.get(self.at) {
                        self.at += 1;
                    }
                }
            }
            if depth == 0 {
                return;
            }
        }
    }
}
