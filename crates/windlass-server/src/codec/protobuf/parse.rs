//! A parser of JSON into the fields of the table's structs, for the writer.
//!
//! It copies no text: the values of fields are positions in the JSON. Only strings with escapes, and untyped values that
//! protobuf contains in another form, are converted while they are parsed. Fields that a struct does not have are skipped.
//! If a key is repeated, the last value counts.
//!
//! The text comes from this server. Any other text gives an error or the fields that could be read.

use serde_json::Value;

use super::super::{
    encode,
    types::{self, Kind, Special, Struct, Type},
};

/// The maximum nesting depth, as in `serde_json`.
const MAX_DEPTH: usize = 127;

/// The maximum number of digits of a number that is certainly an integer of 64 bits.
const MAX_DIGITS: usize = 18;

/// The error for a text that is not JSON.
#[derive(Debug)]
pub(in crate::codec) struct Malformed;

/// The fields of a struct without a value. The decoder has the same limit on the number of fields.
static NO_FIELDS: [Part; 128] = [Part::Absent; 128];

type Result<T> = std::result::Result<T, Malformed>;

/// A part of the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

/// A value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Part {
    /// No value, or null.
    #[default]
    Absent,
    /// A string without escapes, without its quotes.
    Text(Span),
    /// A string that had escapes: an index into `converted`.
    Converted(u32),
    /// A number, a boolean, or a container where the type has none.
    Other(Span),
    /// A struct: the index of its first field in `fields`.
    Struct(u32),
    /// A list: the index of its last element.
    List(Option<Last>),
    /// A map: the index of its last entry. `sorted` if the keys are in ascending order.
    Map { last: Option<Last>, sorted: bool },
}

/// The index of the last element of a list or a map, plus one.
type Last = std::num::NonZeroU32;

/// An element of a list, or an entry of a map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    /// The key of an entry.
    pub(super) key: Part,
    pub(super) value: Part,
    /// The element before this one. The writer begins at the end.
    previous: Option<Last>,
}

/// A parsed document.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    text: &'a str,
    /// The fields of all structs; those of one struct are adjacent and in the order of [`Struct::fields`].
    fields: Vec<Part>,
    elements: Vec<Element>,
    converted: Vec<String>,
}

/// A parser at a position in the text.
struct Parser<'a> {
    parts: Parts<'a>,
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    /// `true` after a token that [`encode`] writes in another form.
    differs: bool,
}

/// A string in the text.
enum Quoted {
    /// Without escapes, without its quotes.
    Plain(Span),
    /// With escapes, and with its quotes.
    Escaped(Span),
}

/// Returns the kind and the API version of a document. Returns `None` if one of them is missing or not a string.
pub(super) fn type_meta(json: &[u8]) -> Result<Option<(String, String)>> {
    let mut parser = Parser::new(json)?;
    let (mut kind, mut api_version) = (Part::Absent, Part::Absent);
    let mut more = parser.peek()? == b'{' && parser.begins(b'}')?;
    while more {
        let key = parser.key()?;
        match parser.parts.str(key) {
            "kind" => kind = parser.scalar()?,
            "apiVersion" => api_version = parser.scalar()?,
            _ => parser.any()?,
        }
        if let (Some(kind), Some(api_version)) = (parser.parts.string(kind), parser.parts.string(api_version)) {
            return Ok(Some((kind.to_owned(), api_version.to_owned())));
        }
        more = parser.continues(b'}')?;
    }
    Ok(None)
}

// === impl Parts ===

impl<'a> Parts<'a> {
    /// Parses a document of a struct. Returns its parts and its root.
    pub(super) fn parse(json: &'a [u8], shape: &'static Struct) -> Result<(Self, Part)> {
        let mut parser = Parser::new(json)?;
        parser.parts.fields.reserve(json.len() / 4);
        parser.parts.elements.reserve(json.len() / 64);
        let root = if parser.peek()? == b'{' { parser.fields(shape)? } else { parser.scalar()? };
        match parser.after_space() {
            Err(Malformed) if parser.at == json.len() => Ok((parser.parts, root)),
            _ => Err(Malformed),
        }
    }

    /// Returns the fields of a struct that has this number of them. They are absent if the value is not a struct.
    pub(super) fn fields(&self, value: Part, count: usize) -> &[Part] {
        match value {
            Part::Struct(first) => &self.fields[first as usize..][..count],
            _ => &NO_FIELDS[..count],
        }
    }

    /// Returns the elements of a list or a map, from the last to the first.
    pub(super) fn elements_reversed(&self, value: Part) -> impl Iterator<Item = &Element> {
        let last = match value {
            Part::List(last) | Part::Map { last, .. } => last,
            _ => None,
        };
        std::iter::successors(self.element(last), |element| self.element(element.previous))
    }

    fn element(&self, number: Option<Last>) -> Option<&Element> {
        number.map(|number| &self.elements[number.get() as usize - 1])
    }

    /// Returns the value of a string; `None` for anything else.
    pub(super) fn string(&self, value: Part) -> Option<&str> {
        match value {
            Part::Text(span) => Some(self.slice(span)),
            Part::Converted(index) => Some(&self.converted[index as usize]),
            _ => None,
        }
    }

    /// Returns the value of a string; that of anything else is empty.
    pub(super) fn str(&self, value: Part) -> &str {
        self.string(value).unwrap_or_default()
    }

    /// Returns the text of a number or a boolean; that of anything else has another form.
    pub(super) fn literal(&self, value: Part) -> &str {
        if let Part::Other(span) = value { self.slice(span) } else { "" }
    }

    /// Returns the JSON of an untyped value.
    pub(super) fn json(&self, value: Part) -> &str {
        if let Part::Other(span) = value { self.slice(span) } else { self.str(value) }
    }

    fn slice(&self, span: Span) -> &'a str {
        &self.text[span.start as usize..span.end as usize]
    }

    fn convert(&mut self, text: String) -> Part {
        self.converted.push(text);
        Part::Converted(narrow(self.converted.len() - 1))
    }
}

// === impl Parser ===

impl<'a> Parser<'a> {
    fn new(json: &'a [u8]) -> Result<Self> {
        let text = str::from_utf8(json).map_err(|_| Malformed)?;
        if json.len() > u32::MAX as usize {
            return Err(Malformed);
        }
        let parts = Parts { text, fields: Vec::new(), elements: Vec::new(), converted: Vec::new() };
        Ok(Self { parts, bytes: json, at: 0, depth: 0, differs: false })
    }

    /// Parses a value of this type.
    fn value(&mut self, ty: &Type) -> Result<Part> {
        match (&ty.kind, self.peek()?) {
            (_, b'n') => self.scalar(),
            (Kind::Pointer(inner), _) => self.value(inner),
            (Kind::Struct(inner), b'{') => self.fields(inner.get()),
            (Kind::Map { value, .. }, b'{') => self.entries(value),
            (Kind::Slice(element), b'[') => self.elements(|parser| parser.value(element)),
            (Kind::Special(special), first) => self.special(*special, first),
            _ => self.scalar(),
        }
    }

    fn special(&mut self, special: Special, first: u8) -> Result<Part> {
        match (special, first) {
            (Special::FieldsV1 | Special::RawExtension | Special::Json, _) => self.untyped(),
            (Special::SchemaOrBool | Special::SchemaOrArray | Special::SchemaOrStringArray, b'{') => self.schema(),
            (Special::SchemaOrArray, b'[') => self.elements(Self::schema),
            (Special::SchemaOrStringArray, b'[') => self.elements(Self::scalar),
            _ => self.scalar(),
        }
    }

    fn schema(&mut self) -> Result<Part> {
        if self.peek()? == b'{' { self.fields(types::json_schema().get()) } else { self.scalar() }
    }

    fn fields(&mut self, shape: &'static Struct) -> Result<Part> {
        let start = self.parts.fields.len();
        // An empty struct has two bytes in the text, and any number of fields.
        let first = u32::try_from(start).map_err(|_| Malformed)?;
        self.parts.fields.resize(start + shape.fields.len(), Part::Absent);
        let mut next = 0;
        let mut more = self.begins(b'}')?;
        while more {
            let key = self.key()?;
            if let Some(index) = shape.position(self.parts.str(key), next) {
                next = index + 1;
                let value = self.value(&shape.fields[index].ty)?;
                self.parts.fields[start + index] = value;
            } else {
                self.untyped()?;
            }
            more = self.continues(b'}')?;
        }
        Ok(Part::Struct(first))
    }

    fn elements(&mut self, mut element: impl FnMut(&mut Self) -> Result<Part>) -> Result<Part> {
        let mut last = None;
        let mut more = self.begins(b']')?;
        while more {
            let value = element(self)?;
            last = self.add(Element { key: Part::Absent, value, previous: last });
            more = self.continues(b']')?;
        }
        Ok(Part::List(last))
    }

    fn entries(&mut self, ty: &Type) -> Result<Part> {
        let (mut last, mut sorted, mut before) = (None, true, None);
        let mut more = self.begins(b'}')?;
        while more {
            let key = self.key()?;
            sorted = sorted && before.is_none_or(|before| self.parts.str(before) < self.parts.str(key));
            before = Some(key);
            let value = self.value(ty)?;
            last = self.add(Element { key, value, previous: last });
            more = self.continues(b'}')?;
        }
        Ok(Part::Map { last, sorted })
    }

    fn add(&mut self, element: Element) -> Option<Last> {
        self.parts.elements.push(element);
        Last::new(narrow(self.parts.elements.len()))
    }

    /// Parses a value that has no parts.
    fn scalar(&mut self) -> Result<Part> {
        match self.peek()? {
            b'"' => {
                let string = self.string()?;
                self.text(string)
            }
            first => {
                let start = self.at;
                self.untyped()?;
                if first == b'n' { Ok(Part::Absent) } else { Ok(Part::Other(self.since(start))) }
            }
        }
    }

    /// Parses a value without a type: its JSON in the form of [`encode`].
    fn untyped(&mut self) -> Result<Part> {
        let start = self.at;
        self.differs = false;
        self.any()?;
        let span = self.since(start);
        if !self.differs {
            return Ok(Part::Other(span));
        }
        let value: Value = serde_json::from_str(self.parts.slice(span)).map_err(|_| Malformed)?;
        let text = String::from_utf8(encode(&value)).map_err(|_| Malformed)?;
        Ok(self.parts.convert(text))
    }

    fn text(&mut self, string: Quoted) -> Result<Part> {
        match string {
            Quoted::Plain(span) => Ok(Part::Text(span)),
            Quoted::Escaped(span) => {
                let text = serde_json::from_str(self.parts.slice(span)).map_err(|_| Malformed)?;
                Ok(self.parts.convert(text))
            }
        }
    }

    /// Parses a key and the colon after it.
    fn key(&mut self) -> Result<Part> {
        if self.peek()? != b'"' {
            return Err(Malformed);
        }
        let key = self.string()?;
        self.colon()?;
        self.text(key)
    }

    fn colon(&mut self) -> Result<()> {
        if self.peek()? != b':' {
            return Err(Malformed);
        }
        self.at += 1;
        Ok(())
    }

    /// Skips a value.
    fn any(&mut self) -> Result<()> {
        match self.peek()? {
            b'"' => self.string().map(drop),
            b'{' => {
                let mut more = self.begins(b'}')?;
                while more {
                    if self.peek()? != b'"' {
                        return Err(Malformed);
                    }
                    self.string()?;
                    self.colon()?;
                    self.any()?;
                    more = self.continues(b'}')?;
                }
                Ok(())
            }
            b'[' => {
                let mut more = self.begins(b']')?;
                while more {
                    self.any()?;
                    more = self.continues(b']')?;
                }
                Ok(())
            }
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => self.number(),
        }
    }

    /// Enters an object or an array. Returns `false` if it is empty.
    fn begins(&mut self, close: u8) -> Result<bool> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Malformed);
        }
        if self.peek()? != close {
            return Ok(true);
        }
        self.at += 1;
        self.depth -= 1;
        Ok(false)
    }

    /// Reads what follows a value in an object or an array. Returns `false` at its end.
    fn continues(&mut self, close: u8) -> Result<bool> {
        let byte = self.peek()?;
        self.at += 1;
        if byte == close {
            self.depth -= 1;
        }
        if byte == b',' || byte == close { Ok(byte == b',') } else { Err(Malformed) }
    }

    fn string(&mut self) -> Result<Quoted> {
        let start = self.at + 1;
        let mut at = start;
        let mut has_escapes = false;
        loop {
            at += ordinary(&self.bytes[at..]);
            match self.bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    has_escapes = true;
                    at += match self.bytes.get(at + 1) {
                        Some(b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
                        Some(b'/' | b'u') => {
                            self.differs = true;
                            2
                        }
                        _ => return Err(Malformed),
                    };
                }
                _ => return Err(Malformed),
            }
        }
        self.at = at + 1;
        if has_escapes {
            Ok(Quoted::Escaped(self.since(start - 1)))
        } else {
            Ok(Quoted::Plain(Span { start: narrow(start), end: narrow(at) }))
        }
    }

    fn number(&mut self) -> Result<()> {
        let start = self.at;
        let is_negative = self.bytes[start] == b'-';
        self.at += usize::from(is_negative);
        let digits = self.digits()?;
        let is_zero = self.bytes[self.at - digits] == b'0';
        if is_zero && digits > 1 {
            return Err(Malformed);
        }
        self.differs |= is_negative && is_zero || digits > MAX_DIGITS;
        if self.bytes.get(self.at) == Some(&b'.') {
            self.differs = true;
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.differs = true;
            self.at += 1;
            self.at += usize::from(matches!(self.bytes.get(self.at), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(())
    }

    /// Skips digits and returns their number.
    fn digits(&mut self) -> Result<usize> {
        let count = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { Err(Malformed) } else { Ok(count) }
    }

    fn word(&mut self, word: &str) -> Result<()> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(Malformed);
        }
        self.at += word.len();
        Ok(())
    }

    /// Returns the next byte that is not a space.
    #[inline]
    fn peek(&mut self) -> Result<u8> {
        match self.bytes.get(self.at) {
            Some(byte) if *byte > b' ' => Ok(*byte),
            _ => self.after_space(),
        }
    }

    #[cold]
    fn after_space(&mut self) -> Result<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.bytes.get(self.at) {
            self.differs = true;
            self.at += 1;
        }
        self.bytes.get(self.at).copied().ok_or(Malformed)
    }

    fn since(&self, start: usize) -> Span {
        Span { start: narrow(start), end: narrow(self.at) }
    }
}

/// Converts a position in the text, or a number of things in it. The length of the text is checked.
fn narrow(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// Returns the number of bytes before the next quote, backslash or control character, or before the end.
fn ordinary(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    // The lowest set bit belongs to the first byte that is less than `limit`; bits above it may be wrong.
    let less = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & HIGH;
    let (words, rest) = bytes.as_chunks();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found =
            less(word, 0x20) | less(word ^ (ONES * u64::from(b'"')), 1) | less(word ^ (ONES * u64::from(b'\\')), 1);
        if found != 0 {
            return at * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let start = bytes.len() - rest.len();
    start + rest.iter().position(|byte| matches!(byte, 0..b' ' | b'"' | b'\\')).unwrap_or(rest.len())
}
