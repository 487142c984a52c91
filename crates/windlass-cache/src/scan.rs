//! Finds `metadata.managedFields` in an encoded object without decoding it.
//!
//! The scanner answers only where it is certain. Escaped keys, a second `metadata`, a second `managedFields` and whatever
//! is not well-formed as far as it looks go to [`rewrite`], which reads the object with serde. Neither validates: that
//! is left to the reading of the metadata, which skips through the whole object.

use std::{borrow::Cow, fmt, ops::Range};

use memchr::memchr2;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// What the scanner found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The value of the top-level `kind`, without its quotes.
    pub(crate) kind: Option<Range<usize>>,
    /// `managedFields` with its key and one comma: what is left without these bytes is the object without the field.
    pub(crate) managed_fields: Option<Range<usize>>,
}

/// Looks through an object; `None` where only a full reading can tell.
pub(crate) fn layout(object: &[u8]) -> Option<Layout> {
    let mut layout = Layout::default();
    let mut metadata_seen = false;
    let mut cursor = Cursor { json: object, at: 0 };
    cursor.object(|cursor, member| match &cursor.json[member.key.clone()] {
        b"metadata" => {
            if std::mem::replace(&mut metadata_seen, true) {
                return None;
            }
            if cursor.peek()? == b'{' { cursor.metadata(&mut layout) } else { cursor.skip_value() }
        }
        b"kind" if cursor.peek()? == b'"' => {
            layout.kind = Some(cursor.string()?);
            Some(())
        }
        _ => cursor.skip_value(),
    })?;
    Some(layout)
}

/// The object without `metadata.managedFields`, and its `kind`; for the objects of which [`layout`] cannot tell.
///
/// Of several `metadata` the last one counts and the others are dropped, as in `Meta`.
pub(crate) fn rewrite(object: &[u8]) -> Result<(Vec<u8>, Option<String>), serde_json::Error> {
    let members: Members<'_> = serde_json::from_slice(object)?;
    let metadata = members.0.iter().rposition(|(key, _)| key == "metadata");
    let kind = members.0.iter().rfind(|(key, _)| key == "kind");
    let kind = kind.and_then(|(_, value)| serde_json::from_str(value.get()).ok());
    let mut out = Writer::new(object.len());
    for (at, (key, value)) in members.0.iter().enumerate() {
        if key != "metadata" {
            out.member(key, value.get())?;
        } else if metadata == Some(at) {
            match serde_json::from_str::<Members<'_>>(value.get()) {
                Err(_) => out.member(key, value.get())?,
                Ok(inner) => {
                    let mut kept = Writer::new(value.get().len());
                    for (key, value) in inner.0.iter().filter(|(key, _)| key != "managedFields") {
                        kept.member(key, value.get())?;
                    }
                    out.member(key, &kept.finish())?;
                }
            }
        }
    }
    Ok((out.finish().into_bytes(), kind))
}

struct Cursor<'j> {
    json: &'j [u8],
    at: usize,
}

/// A key whose value comes next.
struct Member {
    /// Without the quotes.
    key: Range<usize>,
    /// Where the comma before it stands, unless it is the first.
    comma: Option<usize>,
}

// === impl Cursor ===

// Each step gives `None` where the text ends early or is not what it should be.
impl Cursor<'_> {
    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.json.get(self.at) {
            self.at += 1;
        }
        self.json.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Passes a string; gives what stands between its quotes.
    fn string(&mut self) -> Option<Range<usize>> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            self.at += memchr2(b'"', b'\\', self.json.get(self.at..)?)?;
            if self.json[self.at] == b'"' {
                self.at += 1;
                return Some(start..self.at - 1);
            }
            self.at += 2;
        }
    }

    /// Passes a value of any type; brackets are counted, not matched.
    fn skip_value(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                _ if depth > 0 => self.at += 1,
                _ => {
                    let rest = &self.json[self.at..];
                    let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\t' | b'\r');
                    self.at += rest.iter().position(ends).filter(|length| *length > 0)?;
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// Passes an object; `each` must pass the value of the member it is called with. Escaped keys end it.
    fn object(&mut self, mut each: impl FnMut(&mut Self, &Member) -> Option<()>) -> Option<()> {
        self.expect(b'{')?;
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        let mut comma = None;
        loop {
            let key = self.string()?;
            if self.json[key.clone()].contains(&b'\\') {
                return None;
            }
            self.expect(b':')?;
            each(self, &Member { key, comma })?;
            match self.peek()? {
                b',' => comma = Some(self.at),
                b'}' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
            self.at += 1;
        }
    }

    fn metadata(&mut self, layout: &mut Layout) -> Option<()> {
        self.object(|cursor, member| {
            let found = &cursor.json[member.key.clone()] == b"managedFields";
            cursor.skip_value()?;
            if found {
                if layout.managed_fields.is_some() {
                    return None;
                }
                let (key, end) = (member.key.start - 1, cursor.at);
                layout.managed_fields = Some(match (member.comma, cursor.peek()?) {
                    (None, b',') => key..cursor.at + 1,
                    (None, _) => key..end,
                    (Some(comma), _) => comma..end,
                });
            }
            Some(())
        })
    }
}

/// The members of an object in their order, duplicates included.
struct Members<'j>(Vec<(Cow<'j, str>, &'j RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    members.push((Cow::Owned(key), map.next_value::<&RawValue>()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Visit)
    }
}

struct Writer(String);

impl Writer {
    fn new(capacity: usize) -> Self {
        let mut text = String::with_capacity(capacity);
        text.push('{');
        Self(text)
    }

    fn member(&mut self, key: &str, value: &str) -> Result<(), serde_json::Error> {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&serde_json::to_string(key)?);
        self.0.push(':');
        self.0.push_str(value);
        Ok(())
    }

    fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cut(text: &str) -> Option<Value> {
        let layout = layout(text.as_bytes())?;
        let range = layout.managed_fields.unwrap_or(0..0);
        let left = [&text[..range.start], &text[range.end..]].concat();
        Some(serde_json::from_str(&left).unwrap_or_else(|error| panic!("{left}: {error}")))
    }

    #[test]
    fn managed_fields_go_wherever_they_stand() {
        let kept = json!({"kind": "Pod", "metadata": {"name": "a", "uid": "u"}, "spec": {"x": 1}});
        for text in [
            r#"{"kind":"Pod","metadata":{"name":"a","uid":"u","managedFields":[{"f:x":{"}":"]\"{"}}]},"spec":{"x":1}}"#,
            r#"{"kind":"Pod","metadata":{"managedFields":[],"name":"a","uid":"u"},"spec":{"x":1}}"#,
            r#"{"kind":"Pod","metadata":{"name":"a","managedFields":null,"uid":"u"},"spec":{"x":1}}"#,
            "{ \"spec\" : {\"x\":1}, \"kind\" : \"Pod\" ,\n \"metadata\" : { \"name\" : \"a\" , \"managedFields\" : [ ] , \"uid\" : \"u\" } } ",
            r#"{"kind":"Pod","metadata":{"name":"a","uid":"u"},"spec":{"x":1}}"#,
        ] {
            assert_eq!(cut(text).as_ref(), Some(&kept), "{text}");
        }
        assert_eq!(cut(r#"{"metadata":{"managedFields":[1]}}"#), Some(json!({"metadata": {}})));
    }

    #[test]
    fn only_the_object_s_own_managed_fields_go() {
        let text = r#"{"spec":{"template":{"metadata":{"managedFields":[1]}}},"metadata":{"annotations":{"managedFields":"x"}}}"#;
        assert_eq!(layout(text.as_bytes()), Some(Layout::default()));
    }

    #[test]
    fn what_only_a_full_reading_can_tell_is_rewritten() {
        for text in [
            r#"{"kind":"Pod","meta\u0064ata":{"name":"a","managedFields":[1]}}"#,
            r#"{"kind":"Pod","metadata":{"name":"a","managed\u0046ields":[1]}}"#,
            r#"{"kind":"Pod","metadata":{"name":"z"},"metadata":{"name":"a","managedFields":[1]}}"#,
            r#"{"kind":"Pod","metadata":{"managedFields":[1],"name":"a","managedFields":[1]}}"#,
        ] {
            assert_eq!(layout(text.as_bytes()), None, "{text}");
            let (out, kind) = rewrite(text.as_bytes()).unwrap();
            assert_eq!(
                serde_json::from_slice::<Value>(&out).unwrap(),
                json!({"kind": "Pod", "metadata": {"name": "a"}})
            );
            assert_eq!(kind.as_deref(), Some("Pod"));
        }
    }

    #[test]
    fn numbers_and_texts_survive_a_rewriting_to_the_byte() {
        let text = r#"{"metadata":{"x":1},"n":1.0000000000000000001,"t":"\u00e4/","metadata":null}"#;
        let (out, _) = rewrite(text.as_bytes()).unwrap();
        assert_eq!(out, br#"{"n":1.0000000000000000001,"t":"\u00e4/","metadata":null}"#);
    }

    #[test]
    fn the_scanner_agrees_with_serde_on_every_cut_off_text() {
        let text = r#"{"kind":"Pod","metadata":{"name":"a\\\"b","managedFields":[{"a":[true,null,-1.5e3]}],"uid":"u"},"spec":{"x":[1,2]}}"#;
        for end in 0..text.len() {
            assert_eq!(layout(&text.as_bytes()[..end]), None, "{}", &text[..end]);
        }
        assert!(layout(text.as_bytes()).is_some());
        for odd in ["", "[]", "3", "{]", r#"{"a"}"#, r#"{"a":}"#, r#"{"a":1 2}"#, r#"{"a":1,}"#, r#"{"a":]}"#, "{\"a\\"]
        {
            assert_eq!(layout(odd.as_bytes()), None, "{odd}");
        }
    }
}
