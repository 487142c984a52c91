//! A reading position in JSON text.

use memchr::{memchr2, memmem};
use windlass_api::Skipper;

/// The possible spellings of strings in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// The text has no escapes: each string has one spelling.
    Plain,
    /// The text may have escapes.
    Open,
}

pub(super) struct Cursor<'j> {
    pub(super) json: &'j [u8],
    pub(super) at: usize,
}

/// A key of an object; its value comes next.
pub(super) struct Member<'j> {
    /// The key without quotes; it has no escapes.
    pub(super) key: &'j [u8],
    /// The position of the opening quote.
    pub(super) start: usize,
    /// The position of the preceding comma, unless this is the first member.
    pub(super) comma: Option<usize>,
}

// === impl Cursor ===

// Each method returns `None` if the text ends early or has an unexpected form.
#[expect(clippy::option_option, reason = "`Some(None)` means absent; `None` means that serde has to parse the object")]
impl<'j> Cursor<'j> {
    /// Skips whitespace and returns the next byte.
    pub(super) fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.json.get(self.at) {
            self.at += 1;
        }
        self.json.get(self.at).copied()
    }

    pub(super) fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Skips a string. Returns its content and whether it contains escapes.
    pub(super) fn string(&mut self) -> Option<(&'j [u8], bool)> {
        self.expect(b'"')?;
        let (start, mut escaped) = (self.at, false);
        loop {
            self.at += memchr2(b'"', b'\\', self.json.get(self.at..)?)?;
            if self.json[self.at] == b'"' {
                self.at += 1;
                return Some((&self.json[start..self.at - 1], escaped));
            }
            escaped = true;
            self.at += 2;
        }
    }

    /// Skips a string without escapes.
    pub(super) fn text(&mut self) -> Option<&'j str> {
        let (text, escaped) = self.string()?;
        if escaped { None } else { std::str::from_utf8(text).ok() }
    }

    /// Skips a string without escapes, or null.
    pub(super) fn optional_text(&mut self) -> Option<Option<&'j str>> {
        if self.peek()? == b'n' { self.literal()?.eq(b"null").then_some(None) } else { self.text().map(Some) }
    }

    /// Skips a number, a boolean or null.
    pub(super) fn literal(&mut self) -> Option<&'j [u8]> {
        self.peek()?;
        let rest = &self.json[self.at..];
        let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\t' | b'\r');
        let length = rest.iter().position(ends).filter(|length| *length > 0)?;
        self.at += length;
        Some(&rest[..length])
    }

    /// Skips a value of any type. Counts brackets without matching their types.
    pub(super) fn skip_value(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.string().map(drop),
            b'{' | b'[' => {
                self.at += Skipper::default().advance(&self.json[self.at..])?;
                Some(())
            }
            _ => self.literal().map(drop),
        }
    }

    /// Returns the next key of an object after its opening brace; `Some(None)` after the closing brace. Fails on
    /// escaped keys.
    pub(super) fn member(&mut self, first: &mut bool) -> Option<Option<Member<'j>>> {
        let comma = match self.peek()? {
            b'}' => {
                self.at += 1;
                return Some(None);
            }
            b',' if !*first => {
                self.at += 1;
                Some(self.at - 1)
            }
            _ if *first => None,
            _ => return None,
        };
        *first = false;
        self.peek()?;
        let start = self.at;
        let (key, escaped) = self.string()?;
        self.expect(b':')?;
        if escaped { None } else { Some(Some(Member { key, start, comma })) }
    }

    /// Returns the position of a key's value in the next object. Searches until the key cannot occur again.
    pub(super) fn value_of(&mut self, key: &str, spelling: Spelling) -> Option<Option<usize>> {
        let mut found = None;
        let mut first = true;
        if self.peek()? != b'{' {
            return Some(None);
        }
        self.at += 1;
        while let Some(member) = self.member(&mut first)? {
            self.peek()?;
            if member.key == key.as_bytes() {
                if found.replace(self.at).is_some() {
                    return None;
                }
                if spelling == Spelling::Plain && !self.quotes_again(key) {
                    return Some(found);
                }
            }
            self.skip_value()?;
        }
        Some(found)
    }

    /// Reports whether the key occurs in quotes in the rest of the text.
    fn quotes_again(&self, key: &str) -> bool {
        let rest = &self.json[self.at..];
        memmem::find_iter(rest, key).any(|at| rest[..at].ends_with(b"\"") && rest[at + key.len()..].starts_with(b"\""))
    }

    /// Skips an array or null. `each` must skip the element at the current position.
    pub(super) fn array(&mut self, mut each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        if self.peek()? == b'n' {
            return (self.literal()? == b"null").then_some(());
        }
        self.expect(b'[')?;
        if self.peek()? == b']' {
            self.at += 1;
            return Some(());
        }
        loop {
            each(self)?;
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// Skips a value of any type and returns its text.
    pub(super) fn raw_value(&mut self) -> Option<&'j [u8]> {
        self.peek()?;
        let start = self.at;
        self.skip_value()?;
        Some(&self.json[start..self.at])
    }
}
