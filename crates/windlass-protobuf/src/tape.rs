//! A JSON document as a flat list of nodes that point into the text.

use std::borrow::Cow;

use crate::{Error, wire::narrow};

/// The deepest nesting of a document, as in Go. The parser does not recurse.
const MAX_DEPTH: usize = 10_000;

/// A parsed document. The root is the first node.
#[derive(Debug)]
pub(crate) struct Tape<'a> {
    text: &'a str,
    nodes: Vec<Node>,
}

/// The position of a node.
pub(crate) type Index = u32;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    start: u32,
    end: u32,
    /// The position of the node after this one and its children.
    next: Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    True,
    False,
    Number,
    /// A string without escapes. The text of the node is that between the quotes.
    Plain,
    /// A string with escapes.
    Escaped,
    Array,
    /// The children are a string and a value in turn.
    Object,
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
    /// The arrays and objects around the current position.
    open: Vec<Index>,
}

type Result<T> = std::result::Result<T, Error>;

/// Checks that a text is a JSON value.
pub(crate) fn check(text: &str) -> Result<()> {
    Tape::parse(text.as_bytes()).map(drop)
}

// === impl Kind ===

impl Kind {
    /// Returns the name of the type, for errors.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::True | Self::False => "a boolean",
            Self::Number => "a number",
            Self::Plain | Self::Escaped => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

// === impl Tape ===

impl<'a> Tape<'a> {
    pub(crate) fn parse(json: &'a [u8]) -> Result<Self> {
        if json.len() > u32::MAX as usize {
            return Err(Error::TooLong { length: json.len() });
        }
        let text = std::str::from_utf8(json)
            .map_err(|error| Error::Syntax { offset: error.valid_up_to(), problem: "invalid UTF-8" })?;
        let mut parser =
            Parser { text, bytes: json, at: 0, nodes: Vec::with_capacity(json.len() / 12 + 8), open: Vec::new() };
        parser.document()?;
        Ok(Self { text, nodes: parser.nodes })
    }

    pub(crate) fn node(&self, index: Index) -> Node {
        self.nodes[index as usize]
    }

    /// Returns the text of a value; that of a string is without its quotes.
    pub(crate) fn text(&self, node: Node) -> &'a str {
        &self.text[node.start as usize..node.end as usize]
    }

    /// Returns the text of a string without escapes.
    pub(crate) fn string(&self, node: Node) -> Cow<'a, str> {
        let text = self.text(node);
        if node.kind == Kind::Escaped { Cow::Owned(unescape(text)) } else { Cow::Borrowed(text) }
    }

    /// Returns the text of a value as it is in the document.
    pub(crate) fn raw(&self, node: Node) -> &'a str {
        match node.kind {
            Kind::Plain | Kind::Escaped => &self.text[node.start as usize - 1..=node.end as usize],
            _ => self.text(node),
        }
    }

    /// Returns the elements of an array.
    pub(crate) fn items(&self, array: Index) -> impl Iterator<Item = Index> {
        let end = self.node(array).next;
        let mut next = array + 1;
        std::iter::from_fn(move || {
            let at = next;
            (at < end).then(|| {
                next = self.node(at).next;
                at
            })
        })
    }

    /// Returns the keys and values of an object.
    pub(crate) fn entries(&self, object: Index) -> impl Iterator<Item = (Node, Index)> {
        let end = self.node(object).next;
        let mut next = object + 1;
        std::iter::from_fn(move || {
            let at = next;
            (at < end).then(|| {
                next = self.node(at + 1).next;
                (self.node(at), at + 1)
            })
        })
    }
}

// === impl Parser ===

impl Parser<'_> {
    fn document(&mut self) -> Result<()> {
        loop {
            self.space();
            if !self.value()? && self.after_value()? {
                return Ok(());
            }
        }
    }

    /// Reads a scalar or the start of a container. Returns `true` if a value of that container follows.
    fn value(&mut self) -> Result<bool> {
        let start = self.at;
        let kind = match self.bytes.get(start) {
            Some(b'"') => {
                self.string()?;
                return Ok(false);
            }
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'-' | b'0'..=b'9') => {
                self.number()?;
                self.push(Kind::Number, start, self.at);
                return Ok(false);
            }
            Some(b't') => return self.literal("true", Kind::True),
            Some(b'f') => return self.literal("false", Kind::False),
            Some(b'n') => return self.literal("null", Kind::Null),
            _ => return Err(self.error("expected a value")),
        };
        if self.open.len() == MAX_DEPTH {
            return Err(self.error("the value is nested too deeply"));
        }
        self.open.push(narrow(self.nodes.len()));
        self.push(kind, start, start);
        self.at += 1;
        self.space();
        match (kind, self.bytes.get(self.at)) {
            // `after_value` closes it.
            (Kind::Object, Some(b'}')) | (Kind::Array, Some(b']')) => Ok(false),
            (Kind::Object, _) => self.key().map(|()| true),
            _ => Ok(true),
        }
    }

    /// Reads what follows a value. Returns `true` at the end of the document.
    fn after_value(&mut self) -> Result<bool> {
        loop {
            self.space();
            let Some(container) = self.open.last() else {
                return if self.at == self.bytes.len() { Ok(true) } else { Err(self.error("expected the end")) };
            };
            let kind = self.nodes[*container as usize].kind;
            match (kind, self.bytes.get(self.at)) {
                (Kind::Object, Some(b'}')) | (Kind::Array, Some(b']')) => {
                    let next = narrow(self.nodes.len());
                    let node = &mut self.nodes[*container as usize];
                    self.at += 1;
                    node.end = narrow(self.at);
                    node.next = next;
                    self.open.pop();
                }
                (_, Some(b',')) => {
                    self.at += 1;
                    if kind == Kind::Object {
                        self.space();
                        self.key()?;
                    }
                    return Ok(false);
                }
                (Kind::Object, _) => return Err(self.error("expected a comma or the end of the object")),
                _ => return Err(self.error("expected a comma or the end of the array")),
            }
        }
    }

    /// Reads a key and the colon after it.
    fn key(&mut self) -> Result<()> {
        if self.bytes.get(self.at) != Some(&b'"') {
            return Err(self.error("expected a key"));
        }
        self.string()?;
        self.space();
        if self.bytes.get(self.at) != Some(&b':') {
            return Err(self.error("expected a colon"));
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<()> {
        let start = self.at + 1;
        let mut at = start;
        let mut kind = Kind::Plain;
        loop {
            at += ordinary(&self.bytes[at..]);
            match self.bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    kind = Kind::Escaped;
                    at += match self.bytes.get(at + 1) {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
                        Some(b'u') if hex(self.bytes, at + 2).is_some() => 6,
                        _ => return Err(Error::Syntax { offset: at, problem: "an invalid escape" }),
                    };
                }
                Some(0..b' ') => return Err(Error::Syntax { offset: at, problem: "a control character in a string" }),
                _ => return Err(Error::Syntax { offset: self.bytes.len(), problem: "expected the end of a string" }),
            }
        }
        self.push(kind, start, at);
        self.at = at + 1;
        Ok(())
    }

    fn number(&mut self) -> Result<()> {
        if self.bytes[self.at] == b'-' {
            self.at += 1;
        }
        if self.bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<()> {
        let count = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { Err(self.error("expected a digit")) } else { Ok(()) }
    }

    fn literal(&mut self, word: &str, kind: Kind) -> Result<bool> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(self.error("expected a value"));
        }
        self.push(kind, self.at, self.at + word.len());
        self.at += word.len();
        Ok(false)
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    fn push(&mut self, kind: Kind, start: usize, end: usize) {
        let next = narrow(self.nodes.len() + 1);
        self.nodes.push(Node { kind, start: narrow(start), end: narrow(end), next });
    }

    fn error(&self, problem: &'static str) -> Error {
        let problem = if self.at >= self.text.len() { "unexpected end of the data" } else { problem };
        Error::Syntax { offset: self.at, problem }
    }
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

// === escapes ===

/// Returns the number of four hexadecimal digits.
fn hex(bytes: &[u8], at: usize) -> Option<u32> {
    let digits: &[u8; 4] = bytes.get(at..)?.first_chunk()?;
    digits.iter().try_fold(0, |number, digit| Some(number << 4 | char::from(*digit).to_digit(16)?))
}

/// Returns the value of a valid string. Unpaired surrogates become U+FFFD, as in Go.
fn unescape(text: &str) -> String {
    let mut value = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        value.push_str(&rest[..at]);
        let bytes = rest.as_bytes();
        let mut length = 2;
        value.push(match bytes[at + 1] {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                length = 6;
                let unit = hex(bytes, at + 2).unwrap_or_default();
                let low = if bytes[at + 6..].starts_with(b"\\u") { hex(bytes, at + 8) } else { None };
                match (unit, low) {
                    (0xD800..0xDC00, Some(low @ 0xDC00..0xE000)) => {
                        length = 12;
                        char::from_u32(0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00)).unwrap_or('\u{FFFD}')
                    }
                    _ => char::from_u32(unit).unwrap_or('\u{FFFD}'),
                }
            }
            byte => char::from(byte),
        });
        rest = &rest[at + length..];
    }
    value.push_str(rest);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_valid_as_in_serde_json() {
        for text in [
            "null",
            " true ",
            "-0.5e+3",
            "0",
            "[]",
            "{}",
            "[1, [2], {}]",
            r#"{"a":{"b":[]},"c":"d"}"#,
            r#""\u00e9\n""#,
            "",
            " ",
            "nul",
            "01",
            "1.",
            "1e",
            "-",
            "[1",
            "[1,]",
            "[1 2]",
            "{",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            "{a:1}",
            r#""a"#,
            "\"\t\"",
            r#""\x""#,
            r#""\u12g4""#,
            "[]]",
            "1 2",
            "}",
            "]",
            "[}",
            r#"{"a":1]"#,
            "\u{feff}1",
            "+1",
            ".5",
            "\"\\",
        ] {
            let valid = serde_json::from_str::<serde_json::Value>(text).is_ok();
            assert_eq!(check(text).is_ok(), valid, "{text}");
        }
        assert_eq!(
            check("[1 2]").unwrap_err().to_string(),
            "cannot parse JSON at byte 3: expected a comma or the end of the array"
        );
        assert!(matches!(Tape::parse(b"\"a\xff\""), Err(Error::Syntax { offset: 2, problem: "invalid UTF-8" })));
    }

    #[test]
    fn escapes_are_decoded_as_in_go() {
        for (text, expected) in [
            (r#""a\"\\\/\b\f\n\r\t""#, "a\"\\/\u{8}\u{c}\n\r\t"),
            (r#""\u0041\u00e9\ud83d\ude00x""#, "Aé😀x"),
            (r#""\ud83d""#, "\u{FFFD}"),
            (r#""\ud83dx\ude00""#, "\u{FFFD}x\u{FFFD}"),
            (r#""\ud83d\u0041""#, "\u{FFFD}A"),
        ] {
            let tape = Tape::parse(text.as_bytes()).unwrap();
            assert_eq!(tape.string(tape.node(0)), expected, "{text}");
        }
    }

    #[test]
    fn ordinary_bytes_are_counted_at_every_position() {
        for special in 0..=255u8 {
            for at in 0..20 {
                let mut bytes = "aé!#[]".repeat(5).into_bytes();
                bytes[at] = special;
                let expected =
                    bytes.iter().position(|byte| matches!(byte, 0..0x20 | 0x22 | 0x5C)).unwrap_or(bytes.len());
                assert_eq!(ordinary(&bytes), expected, "{special} at {at}");
            }
        }
        assert_eq!(ordinary(b""), 0);
    }

    #[test]
    fn children_are_iterated() {
        let tape = Tape::parse(br#"{"a":[1,[2,3],"x"],"b":{}}"#).unwrap();
        let entries: Vec<_> =
            tape.entries(0).map(|(key, value)| (tape.text(key), tape.raw(tape.node(value)))).collect();
        assert_eq!(entries, [("a", r#"[1,[2,3],"x"]"#), ("b", "{}")]);
        let items: Vec<_> = tape.items(2).map(|item| tape.raw(tape.node(item))).collect();
        assert_eq!(items, ["1", "[2,3]", "\"x\""]);
    }

    #[test]
    fn deep_documents_are_rejected_without_recursion() {
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(check(&deep(MAX_DEPTH)).is_ok());
        assert!(check(&deep(MAX_DEPTH + 1)).is_err());
        assert!(check(&"[".repeat(1_000_000)).is_err());
    }
}
