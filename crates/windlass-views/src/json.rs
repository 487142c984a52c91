//! Positions in JSON text: the members of objects, the items of lists, and scalars.
//!
//! Only the values that are read are parsed. Others are only searched for their end, 64 bytes at a time. Each function
//! returns an error if the text that it passes is not JSON; it does not detect damage within skipped values.

use std::{borrow::Cow, cell::RefCell};

use memchr::memchr2;
use windlass_api::Skipper;

use self::memo::Memo;

mod memo;

/// The text is not JSON at this position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged {
    pub(crate) at: usize,
}

/// JSON text, and the members of the objects that were read last.
#[derive(Debug)]
pub(crate) struct Json<'a> {
    text: &'a [u8],
    memo: RefCell<Memo>,
}

/// The first byte of a value, which determines its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Null,
    Bool,
    Number,
    String,
    List,
    Object,
}

/// The content of a string, as written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawText<'a> {
    text: &'a [u8],
    /// The position of the content.
    at: usize,
    has_escapes: bool,
}

/// A member of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) key: RawText<'a>,
    /// The position of the value.
    pub(crate) value: usize,
}

/// A position in an object or list, between its elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    /// `true` before the first element.
    is_first: bool,
}

// === impl Json ===

impl<'a> Json<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, memo: RefCell::default() }
    }

    /// Returns the position of the outermost value.
    pub(crate) fn root(&self) -> usize {
        self.cursor(0).after_spaces()
    }

    /// Returns the type of the value at a position.
    pub(crate) fn type_at(&self, at: usize) -> Result<Type, Damaged> {
        Ok(match self.text.get(at) {
            Some(b'n') => Type::Null,
            Some(b't' | b'f') => Type::Bool,
            Some(b'-' | b'0'..=b'9') => Type::Number,
            Some(b'"') => Type::String,
            Some(b'[') => Type::List,
            Some(b'{') => Type::Object,
            _ => return Err(Damaged { at }),
        })
    }

    /// Returns the position of a member's value in the object at a position. Of several members with the name, the last
    /// one counts, as in decoders.
    ///
    /// The whole object is passed once, and its members are retained for further calls.
    pub(crate) fn member(&self, object: usize, name: &str) -> Result<Option<usize>, Damaged> {
        let mut memo = self.memo.borrow_mut();
        if let Some(known) = memo.find(self.text, object, name) {
            return Ok(known);
        }
        let mut record = memo.record(self.text, object);
        let (mut cursor, mut found) = (self.cursor(object), None);
        while let Some(member) = cursor.next_member()? {
            record.add(&member);
            if member.key.is(name) {
                found = Some(member.value);
            }
        }
        record.finish();
        Ok(found)
    }

    /// Returns a cursor before the first element of the object or list at a position.
    pub(crate) fn cursor(&self, at: usize) -> Cursor<'a> {
        Cursor { text: self.text, at, is_first: true }
    }

    /// Returns the string at a position.
    pub(crate) fn string(&self, at: usize) -> Result<RawText<'a>, Damaged> {
        self.cursor(at).string()
    }

    /// Returns the number, boolean or null at a position, as written.
    pub(crate) fn literal(&self, at: usize) -> Result<&'a str, Damaged> {
        let mut cursor = self.cursor(at);
        cursor.skip_literal()?;
        str::from_utf8(&self.text[at..cursor.at]).map_err(|_| Damaged { at })
    }

    /// Returns the text of the value at a position.
    pub(crate) fn raw(&self, at: usize) -> Result<&'a [u8], Damaged> {
        let mut cursor = self.cursor(at);
        cursor.skip_value()?;
        Ok(&self.text[at..cursor.at])
    }

    /// Returns the path of the value at a position, such as `spec.containers[0].name`; empty for the whole text, and
    /// incomplete if the text is damaged before the position.
    pub(crate) fn path_of(&self, position: usize) -> String {
        let mut path = String::new();
        let mut at = self.root();
        while at < position {
            let Some((step, value)) = self.step_to(at, position) else { break };
            if !path.is_empty() && !step.starts_with('[') {
                path.push('.');
            }
            path.push_str(&step);
            at = value;
        }
        path
    }

    /// Returns the last element of an object or list that begins at or before a position.
    fn step_to(&self, at: usize, position: usize) -> Option<(String, usize)> {
        let (mut cursor, mut found, mut index) = (self.cursor(at), None, 0_usize);
        match self.type_at(at).ok()? {
            Type::Object => {
                while let Ok(Some(member)) = cursor.next_member_before_value() {
                    if member.value > position {
                        break;
                    }
                    found = Some((member.key.decoded()?.into_owned(), member.value));
                    if cursor.skip_value().is_err() {
                        break;
                    }
                }
            }
            Type::List => {
                while let Ok(Some(value)) = cursor.next_item_before_value() {
                    if value > position {
                        break;
                    }
                    found = Some((format!("[{index}]"), value));
                    index += 1;
                    if cursor.skip_value().is_err() {
                        break;
                    }
                }
            }
            _ => {}
        }
        found
    }
}

// === impl Cursor ===

impl<'a> Cursor<'a> {
    /// Passes the next member of an object. Returns `None` at its end.
    pub(crate) fn next_member(&mut self) -> Result<Option<Member<'a>>, Damaged> {
        let member = self.next_member_before_value()?;
        if member.is_some() {
            self.skip_value()?;
        }
        Ok(member)
    }

    /// Returns the position after the last element.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// Passes the next item of a list and returns its position. Returns `None` at the end of the list.
    pub(crate) fn next_item(&mut self) -> Result<Option<usize>, Damaged> {
        let item = self.next_item_before_value()?;
        if item.is_some() {
            self.skip_value()?;
        }
        Ok(item)
    }

    /// Like [`Self::next_member`], but stops before the value.
    fn next_member_before_value(&mut self) -> Result<Option<Member<'a>>, Damaged> {
        if !self.next_element(b'{', b'}')? {
            return Ok(None);
        }
        let key = self.string()?;
        if self.after_spaces_byte() != Some(b':') {
            return Err(self.damaged());
        }
        self.at += 1;
        Ok(Some(Member { key, value: self.after_spaces() }))
    }

    /// Like [`Self::next_item`], but stops before the value.
    fn next_item_before_value(&mut self) -> Result<Option<usize>, Damaged> {
        Ok(self.next_element(b'[', b']')?.then(|| self.after_spaces()))
    }

    /// Passes the opening bracket, or the comma before the next element. Returns `false` at the closing bracket, before
    /// which the cursor stays.
    fn next_element(&mut self, opening: u8, closing: u8) -> Result<bool, Damaged> {
        let byte = self.after_spaces_byte();
        if std::mem::take(&mut self.is_first) {
            if byte != Some(opening) {
                return Err(self.damaged());
            }
            self.at += 1;
            return Ok(self.after_spaces_byte() != Some(closing));
        }
        match byte {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == closing => Ok(false),
            _ => Err(self.damaged()),
        }
    }

    fn skip_value(&mut self) -> Result<(), Damaged> {
        match self.after_spaces_byte() {
            Some(b'"') => self.string().map(drop),
            Some(b'{' | b'[') => {
                let rest = &self.text[self.at..];
                self.at += Skipper::default().advance(rest).ok_or(self.damaged())?;
                Ok(())
            }
            _ => self.skip_literal(),
        }
    }

    fn string(&mut self) -> Result<RawText<'a>, Damaged> {
        if self.after_spaces_byte() != Some(b'"') {
            return Err(self.damaged());
        }
        self.at += 1;
        let (start, mut has_escapes) = (self.at, false);
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let length = memchr2(b'"', b'\\', rest).ok_or(self.damaged())?;
            self.at += length + 1;
            if rest[length] == b'"' {
                return Ok(RawText { text: &self.text[start..self.at - 1], at: start, has_escapes });
            }
            has_escapes = true;
            self.at += 1;
        }
    }

    fn skip_literal(&mut self) -> Result<(), Damaged> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\t' | b'\r');
        match rest.iter().position(ends).unwrap_or(rest.len()) {
            0 => Err(self.damaged()),
            length => {
                self.at += length;
                Ok(())
            }
        }
    }

    fn after_spaces(&mut self) -> usize {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
        self.at
    }

    fn after_spaces_byte(&mut self) -> Option<u8> {
        let at = self.after_spaces();
        self.text.get(at).copied()
    }

    const fn damaged(&self) -> Damaged {
        Damaged { at: self.at }
    }
}

// === impl RawText ===

impl<'a> RawText<'a> {
    /// Returns the string. It is copied only if it contains escapes. Returns `None` if it is not valid.
    pub(crate) fn decoded(&self) -> Option<Cow<'a, str>> {
        if self.has_escapes {
            let quoted = [b"\"", self.text, b"\""].concat();
            return serde_json::from_slice::<String>(&quoted).ok().map(Cow::Owned);
        }
        str::from_utf8(self.text).ok().map(Cow::Borrowed)
    }

    /// Reports whether the string is equal to another one.
    pub(crate) fn is(&self, other: &str) -> bool {
        if self.has_escapes { self.decoded().is_some_and(|text| text == other) } else { self.text == other.as_bytes() }
    }
}
