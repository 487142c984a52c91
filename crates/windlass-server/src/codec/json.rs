//! A syntax check of JSON text that reports the same errors at the same byte as Go's encoding/json.

use super::quote::quote;

/// The maximum nesting depth. Go's limit is 10,000; this decoder recurses where Go does not, and most clients have a
/// limit of 128.
pub(crate) const MAX_DEPTH: usize = 120;

/// The `apiVersion` and `kind` of a document; missing ones are empty.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct TypeMeta {
    pub(super) api_version: String,
    pub(super) kind: String,
}

/// Checks the syntax of the whole document and reads its `apiVersion` and `kind`. The error is Go's message.
pub(super) fn interpret(data: &[u8]) -> Result<TypeMeta, String> {
    let mut scanner = Scanner { data, at: 0, open: Vec::new(), found: Ok(TypeMeta::default()) };
    scanner.document()?;
    scanner.found
}

/// Checks the syntax of the whole document. The error is Go's message.
pub(crate) fn check(data: &[u8]) -> Result<(), String> {
    Scanner { data, at: 0, open: Vec::new(), found: Ok(TypeMeta::default()) }.document()
}

struct Scanner<'a> {
    data: &'a [u8],
    at: usize,
    /// The open containers around the current byte; `true` is an object. Bounded by `MAX_DEPTH`.
    open: Vec<bool>,
    /// The type in the top-level object, or the first error about it.
    found: Result<TypeMeta, String>,
}

/// The struct that Go decodes the two fields into, as Go prints it.
const FIND_KIND: &str = concat!(
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; "#,
    r#"Kind string "json:\"kind,omitempty\"" }"#
);

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), String> {
        self.space();
        if let Some(word) = self.data.get(self.at).and_then(|byte| wrong_top_level(*byte)) {
            self.found = Err(format!("json: cannot unmarshal {word} into Go value of type {FIND_KIND}"));
        }
        self.value()?;
        self.space();
        if self.at < self.data.len() { Err(self.unexpected("after top-level value")) } else { Ok(()) }
    }

    /// Scans one value, without recursion.
    fn value(&mut self) -> Result<(), String> {
        loop {
            // At the start of a value.
            match self.peek()? {
                open @ (b'{' | b'[') => {
                    self.at += 1;
                    self.open.push(open == b'{');
                    if self.open.len() > MAX_DEPTH {
                        self.at -= 1;
                        return Err(self.unexpected("exceeded max depth"));
                    }
                    self.space();
                    match (open, self.peek()?) {
                        (b'{', b'}') | (b'[', b']') => {}
                        (b'{', _) => {
                            self.key()?;
                            continue;
                        }
                        _ => continue,
                    }
                }
                b'"' => self.string()?,
                b't' => self.literal("true")?,
                b'f' => self.literal("false")?,
                b'n' => self.literal("null")?,
                b'-' | b'0'..=b'9' => self.number()?,
                _ => return Err(self.unexpected("looking for beginning of value")),
            }
            // After a value, or before the bracket that closes an empty container.
            loop {
                let Some(&object) = self.open.last() else { return Ok(()) };
                self.space();
                match (object, self.peek()?) {
                    (true, b'}') | (false, b']') => {
                        self.at += 1;
                        self.open.pop();
                        if self.open.is_empty() {
                            return Ok(());
                        }
                    }
                    (true, b',') => {
                        self.at += 1;
                        self.space();
                        self.key()?;
                        break;
                    }
                    (false, b',') => {
                        self.at += 1;
                        self.space();
                        break;
                    }
                    (true, _) => return Err(self.unexpected("after object key:value pair")),
                    (false, _) => return Err(self.unexpected("after array element")),
                }
            }
        }
    }

    /// Scans a key, its colon, and the space before the value.
    fn key(&mut self) -> Result<(), String> {
        if self.peek()? != b'"' {
            return Err(self.unexpected("looking for beginning of object key string"));
        }
        let start = self.at;
        self.string()?;
        let key = start..self.at;
        self.space();
        if self.peek()? != b':' {
            return Err(self.unexpected("after object key"));
        }
        self.at += 1;
        self.space();
        if self.open.len() == 1 {
            self.type_meta(&self.data[key])?;
        }
        Ok(())
    }

    /// Reads the value of a top-level key without advancing.
    fn type_meta(&mut self, key: &[u8]) -> Result<(), String> {
        let Ok(found) = &mut self.found else { return Ok(()) };
        // Go decodes this struct with the standard library, which ignores case.
        let (name, slot) = match key {
            key if key.eq_ignore_ascii_case(b"\"apiVersion\"") => ("apiVersion", &mut found.api_version),
            key if key.eq_ignore_ascii_case(b"\"kind\"") => ("kind", &mut found.kind),
            _ => return Ok(()),
        };
        let word = match self.data.get(self.at) {
            Some(b'"') => {
                let start = self.at;
                let mut ahead =
                    Scanner { data: self.data, at: start, open: Vec::new(), found: Ok(TypeMeta::default()) };
                ahead.string()?;
                *slot = unquote(&self.data[start + 1..ahead.at - 1]);
                return Ok(());
            }
            Some(b'{') => "object",
            Some(b'[') => "array",
            Some(b't' | b'f') => "bool",
            Some(b'-' | b'0'..=b'9') => "number",
            _ => return Ok(()),
        };
        self.found = Err(format!("json: cannot unmarshal {word} into Go struct field .{name} of type string"));
        Ok(())
    }

    fn string(&mut self) -> Result<(), String> {
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => {
                    self.at += 1;
                    match self.peek()? {
                        b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => self.at += 1,
                        b'u' => {
                            self.at += 1;
                            for _ in 0..4 {
                                if !self.peek()?.is_ascii_hexdigit() {
                                    return Err(self.unexpected("in \\u hexadecimal character escape"));
                                }
                                self.at += 1;
                            }
                        }
                        _ => return Err(self.unexpected("in string escape code")),
                    }
                }
                ..0x20 => return Err(self.unexpected("in string literal")),
                _ => self.at += 1,
            }
        }
    }

    fn literal(&mut self, word: &'static str) -> Result<(), String> {
        self.at += 1;
        for expected in word.bytes().skip(1) {
            if self.peek()? != expected {
                return Err(self.unexpected(&format!("in literal {word} (expecting {})", quote_byte(expected))));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        if self.peek()? == b'-' {
            self.at += 1;
        }
        match self.peek()? {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits(),
            _ => return Err(self.unexpected("in numeric literal")),
        }
        if self.data.get(self.at) == Some(&b'.') {
            self.at += 1;
            if !self.peek()?.is_ascii_digit() {
                return Err(self.unexpected("after decimal point in numeric literal"));
            }
            self.digits();
        }
        if let Some(b'e' | b'E') = self.data.get(self.at) {
            self.at += 1;
            if let b'+' | b'-' = self.peek()? {
                self.at += 1;
            }
            if !self.peek()?.is_ascii_digit() {
                return Err(self.unexpected("in exponent of numeric literal"));
            }
            self.digits();
        }
        Ok(())
    }

    fn digits(&mut self) {
        while self.data.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.data.get(self.at) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Result<u8, String> {
        self.data.get(self.at).copied().ok_or_else(|| "unexpected end of JSON input".into())
    }

    fn unexpected(&self, context: &str) -> String {
        format!("invalid character {} {context}", quote_byte(self.data.get(self.at).copied().unwrap_or_default()))
    }
}

fn wrong_top_level(byte: u8) -> Option<&'static str> {
    match byte {
        b'[' => Some("array"),
        b'"' => Some("string"),
        b't' | b'f' => Some("bool"),
        b'-' | b'0'..=b'9' => Some("number"),
        _ => None,
    }
}

fn quote_byte(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".into(),
        b'"' => "'\"'".into(),
        _ => {
            let quoted = quote(&char::from(byte).to_string());
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    }
}

/// Decodes a string literal. Invalid bytes and surrogates become U+FFFD.
pub(super) fn unquote(literal: &[u8]) -> String {
    if !literal.contains(&b'\\') {
        return String::from_utf8_lossy(literal).into_owned();
    }
    let mut text = String::with_capacity(literal.len());
    let mut rest = literal;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        text.push_str(&String::from_utf8_lossy(&rest[..at]));
        let escape = rest.get(at + 1).copied().unwrap_or_default();
        rest = rest.get(at + 2..).unwrap_or_default();
        text.push(match escape {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = hex4(rest).unwrap_or(0xFFFD);
                rest = rest.get(4..).unwrap_or_default();
                match unit {
                    0xD800..=0xDBFF => match rest.strip_prefix(b"\\u").and_then(hex4) {
                        Some(low @ 0xDC00..=0xDFFF) => {
                            rest = rest.get(6..).unwrap_or_default();
                            char::from_u32(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)).unwrap_or('\u{FFFD}')
                        }
                        _ => '\u{FFFD}',
                    },
                    unit => char::from_u32(unit).unwrap_or('\u{FFFD}'),
                }
            }
            other => char::from(other),
        });
    }
    text.push_str(&String::from_utf8_lossy(rest));
    text
}

fn hex4(text: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(text.get(..4)?).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_errors_equal_those_of_go() {
        let table = [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("not json", "invalid character 'o' in literal null (expecting 'u')"),
            ("hello", "invalid character 'h' looking for beginning of value"),
            ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (r#"{"a":1 "b"}"#, "invalid character '\"' after object key:value pair"),
            (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("[01]", "invalid character '1' after array element"),
            ("[-]", "invalid character ']' in numeric literal"),
            ("[1.]", "invalid character ']' after decimal point in numeric literal"),
            ("[1e]", "invalid character ']' in exponent of numeric literal"),
            ("[tru]", "invalid character ']' in literal true (expecting 'e')"),
            ("[\"\n\"]", r"invalid character '\n' in string literal"),
            (r#"["\x"]"#, "invalid character 'x' in string escape code"),
            (r#"["\u00g"]"#, r"invalid character 'g' in \u hexadecimal character escape"),
            ("\u{e9}", "invalid character 'Ã' looking for beginning of value"),
        ];
        for (text, expected) in table {
            assert_eq!(check(text.as_bytes()), Err(expected.to_owned()), "{text}");
        }
        assert_eq!(check(br#" {"a":[1,-0.5e+3,"\ud83d\ude00",true,null,{}],"b":[]} "#), Ok(()));
    }

    #[test]
    fn depth_is_limited_without_recursion() {
        let deep = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(check(deep(MAX_DEPTH).as_bytes()), Ok(()));
        assert_eq!(check(deep(1_000_000).as_bytes()), Err("invalid character '[' exceeded max depth".into()));
    }

    #[test]
    fn type_meta_is_found_at_any_position() {
        let found = interpret(br#"{"metadata":{"kind":"no"},"KIND":"Pod","apiVersion":"apps\/v1"}"#).unwrap();
        assert_eq!((found.api_version.as_str(), found.kind.as_str()), ("apps/v1", "Pod"));
        assert_eq!(
            interpret(br#"{"kind":5}"#).unwrap_err(),
            "json: cannot unmarshal number into Go struct field .kind of type string"
        );
        assert!(
            interpret(b"[]").unwrap_err().starts_with("json: cannot unmarshal array into Go value of type struct {")
        );
        assert_eq!(interpret(b"null").unwrap(), TypeMeta::default());
    }

    #[test]
    fn escapes_and_invalid_utf8_are_decoded_like_go() {
        assert_eq!(unquote(br"a\u0041\n\ud83d\ude00\ud800x\/"), "aA\n\u{1F600}\u{FFFD}x/");
        assert_eq!(unquote(b"\xff"), "\u{FFFD}");
    }
}
