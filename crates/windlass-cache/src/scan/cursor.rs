//! A reading position in JSON text.

use memchr::{memchr2, memmem};
use windlass_api::Skipper;

/// Whether each string of a text is written as itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// There are no escapes.
    Plain,
    /// There may be.
    Open,
}

pub(super) struct Cursor<'j> {
    pub(super) json: &'j [u8],
    pub(super) at: usize,
}

/// A key whose value comes next.
pub(super) struct Member<'j> {
    /// Without the quotes and without escapes.
    pub(super) key: &'j [u8],
    /// Where its first quote stands.
    pub(super) start: usize,
    /// Where the comma before it stands, unless it is the first.
    pub(super) comma: Option<usize>,
}

// === impl Cursor ===

// Each step gives `None` where the text ends early or is not what it should be.
#[expect(clippy::option_option, reason = "`Some(None)` is a certain no; `None` is for a full reading to tell")]
impl<'j> Cursor<'j> {
    /// The next byte that is no space.
    pub(super) fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.json.get(self.at) {
            self.at += 1;
        }
        self.json.get(self.at).copied()
    }

    pub(super) fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Passes a string; gives what stands between its quotes, and whether there are escapes in it.
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

    /// Passes a string without escapes.
    pub(super) fn text(&mut self) -> Option<&'j str> {
        let (text, escaped) = self.string()?;
        if escaped { None } else { std::str::from_utf8(text).ok() }
    }

    /// Passes a string without escapes, or null.
    pub(super) fn optional_text(&mut self) -> Option<Option<&'j str>> {
        if self.peek()? == b'n' { self.literal()?.eq(b"null").then_some(None) } else { self.text().map(Some) }
    }

    /// Passes a number, a truth value or null.
    pub(super) fn literal(&mut self) -> Option<&'j [u8]> {
        self.peek()?;
        let rest = &self.json[self.at..];
        let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\t' | b'\r');
        let length = rest.iter().position(ends).filter(|length| *length > 0)?;
        self.at += length;
        Some(&rest[..length])
    }

    /// Passes a value of any type; brackets are counted, not matched.
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

    /// The next key of the object whose opening brace was passed; `Some(None)` past its closing brace. Escaped keys end it.
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

    /// Where the value of a key of the object that comes next begins. Goes on until the key cannot come a second time.
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

    /// Whether this stands between quotes anywhere in what is left.
    fn quotes_again(&self, key: &str) -> bool {
        let rest = &self.json[self.at..];
        memmem::find_iter(rest, key).any(|at| rest[..at].ends_with(b"\"") && rest[at + key.len()..].starts_with(b"\""))
    }

    /// Passes an array, or null; `each` must pass the element it is called at.
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

    /// Passes a value of any type; gives its text.
    pub(super) fn raw_value(&mut self) -> Option<&'j [u8]> {
        self.peek()?;
        let start = self.at;
        self.skip_value()?;
        Some(&self.json[start..self.at])
    }
}
