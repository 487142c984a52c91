//! Reads what the cache needs of an encoded object without decoding it: the metadata, and where managedFields stand.
//!
//! The scanner answers only where it is certain. Escaped keys and values, a second `metadata`, a key that occurs twice in it
//! and whatever is not well-formed as far as it looks go the careful way: [`rewrite`] and `Meta::parse`, which read the
//! object with serde. What comes after the metadata is not looked at, only searched for what would make it matter: that it
//! is damaged shows when it is decoded.

use std::{borrow::Cow, fmt, ops::Range, sync::LazyLock};

use memchr::{memchr2, memmem::Finder};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;
use windlass_api::Skipper;

use crate::interner::{OwnerIn, TraitsIn};

/// What the scanner found. Texts are those of the encoding.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Survey<'j> {
    /// The value of the top-level `kind`.
    pub(crate) kind: Option<&'j str>,
    /// `managedFields` with its key and one comma: what is left without these bytes is the object without the field.
    pub(crate) managed_fields: Option<Range<usize>>,
    pub(crate) name: &'j str,
    pub(crate) namespace: Option<&'j str>,
    pub(crate) uid: &'j str,
    pub(crate) resource_version: &'j str,
    pub(crate) generation: Option<i64>,
    pub(crate) creation_timestamp: Option<&'j str>,
    pub(crate) deletion_timestamp: Option<&'j str>,
    pub(crate) traits: TraitsIn<'j>,
}

/// A value that was looked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    At(Range<usize>),
    Nowhere,
    /// Only a full reading can tell.
    Unsure,
}

/// Looks through an object; `None` where only a full reading can tell.
pub(crate) fn survey(object: &[u8]) -> Option<Survey<'_>> {
    let mut survey = Survey::default();
    let mut metadata_seen = false;
    let mut cursor = Cursor { json: object, at: 0 };
    cursor.expect(b'{')?;
    let mut first = true;
    while let Some(member) = cursor.member(&mut first)? {
        match member.key {
            b"metadata" => {
                if std::mem::replace(&mut metadata_seen, true) {
                    return None;
                }
                cursor.metadata(&mut survey)?;
                if !matters(&object[cursor.at..], survey.kind.is_none()) {
                    return Some(survey);
                }
            }
            b"kind" => survey.kind = Some(cursor.text()?),
            _ => cursor.skip_value()?,
        }
    }
    cursor.peek().is_none().then_some(survey)
}

/// Whether what follows the metadata could say more of what is surveyed.
fn matters(rest: &[u8], is_kind_open: bool) -> bool {
    static METADATA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""metadata""#));
    static KIND: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""kind""#));
    static ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br"\u"));
    !rest.trim_ascii_end().ends_with(b"}")
        || METADATA.find(rest).is_some()
        || ESCAPE.find(rest).is_some()
        || (is_kind_open && KIND.find(rest).is_some())
}

/// Where the value stands that is reached by these keys of objects within objects.
pub(crate) fn find(object: &[u8], path: &[&str]) -> Found {
    let mut cursor = Cursor { json: object, at: 0 };
    let mut found = None;
    for key in path {
        match cursor.value_of(key) {
            None => return Found::Unsure,
            Some(None) => return Found::Nowhere,
            Some(Some(at)) => {
                cursor.at = at.start;
                found = Some(at);
            }
        }
    }
    found.map_or(Found::Unsure, Found::At)
}

/// The object without `metadata.managedFields`, and its `kind`; for the objects of which [`survey`] cannot tell.
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

/// [`find`], for the objects of which it cannot tell. Gives the text of the value.
pub(crate) fn find_carefully(object: &[u8], path: &[&str]) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let mut value: &RawValue = serde_json::from_slice(object)?;
    for key in path {
        let Ok(members) = serde_json::from_str::<Members<'_>>(value.get()) else { return Ok(None) };
        match members.0.into_iter().rfind(|(known, _)| known == key) {
            Some((_, found)) => value = found,
            None => return Ok(None),
        }
    }
    Ok(Some(value.get().as_bytes().to_vec()))
}

struct Cursor<'j> {
    json: &'j [u8],
    at: usize,
}

/// A key whose value comes next.
struct Member<'j> {
    /// Without the quotes and without escapes.
    key: &'j [u8],
    /// Where its first quote stands.
    start: usize,
    /// Where the comma before it stands, unless it is the first.
    comma: Option<usize>,
}

// === impl Cursor ===

// Each step gives `None` where the text ends early or is not what it should be.
#[expect(clippy::option_option, reason = "`Some(None)` is a certain no; `None` is for a full reading to tell")]
impl<'j> Cursor<'j> {
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

    /// Passes a string; gives what stands between its quotes, and whether there are escapes in it.
    fn string(&mut self) -> Option<(&'j [u8], bool)> {
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
    fn text(&mut self) -> Option<&'j str> {
        let (text, escaped) = self.string()?;
        if escaped { None } else { std::str::from_utf8(text).ok() }
    }

    /// Passes a string without escapes, or null.
    fn optional_text(&mut self) -> Option<Option<&'j str>> {
        if self.peek()? == b'n' { self.literal()?.eq(b"null").then_some(None) } else { self.text().map(Some) }
    }

    /// Passes a number, a truth value or null.
    fn literal(&mut self) -> Option<&'j [u8]> {
        self.peek()?;
        let rest = &self.json[self.at..];
        let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\t' | b'\r');
        let length = rest.iter().position(ends).filter(|length| *length > 0)?;
        self.at += length;
        Some(&rest[..length])
    }

    /// Passes a value of any type; brackets are counted, not matched.
    fn skip_value(&mut self) -> Option<()> {
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
    fn member(&mut self, first: &mut bool) -> Option<Option<Member<'j>>> {
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

    /// Where the value of a key of the object that comes next stands. Goes through all keys: the last one counts.
    fn value_of(&mut self, key: &str) -> Option<Option<Range<usize>>> {
        let mut found = None;
        let mut first = true;
        if self.peek()? != b'{' {
            return Some(None);
        }
        self.at += 1;
        while let Some(member) = self.member(&mut first)? {
            self.peek()?;
            let start = self.at;
            self.skip_value()?;
            if member.key == key.as_bytes() && found.replace(start..self.at).is_some() {
                return None;
            }
        }
        Some(found)
    }

    fn metadata(&mut self, survey: &mut Survey<'j>) -> Option<()> {
        if self.peek()? != b'{' {
            return None;
        }
        self.at += 1;
        let (mut first, mut seen) = (true, 0_u16);
        while let Some(member) = self.member(&mut first)? {
            let which = match member.key {
                b"name" => {
                    survey.name = self.optional_text()?.unwrap_or_default();
                    0
                }
                b"namespace" => {
                    survey.namespace = self.optional_text()?;
                    1
                }
                b"uid" => {
                    survey.uid = self.optional_text()?.unwrap_or_default();
                    2
                }
                b"resourceVersion" => {
                    survey.resource_version = self.optional_text()?.unwrap_or_default();
                    3
                }
                b"generation" => {
                    let number = std::str::from_utf8(self.literal()?).ok()?;
                    survey.generation = if number == "null" { None } else { Some(integer(number)?) };
                    4
                }
                b"creationTimestamp" => {
                    survey.creation_timestamp = self.optional_text()?;
                    5
                }
                b"deletionTimestamp" => {
                    survey.deletion_timestamp = self.optional_text()?;
                    6
                }
                b"labels" => {
                    self.labels(&mut survey.traits.labels)?;
                    7
                }
                b"ownerReferences" => {
                    let owners = &mut survey.traits.owners;
                    self.array(|cursor| cursor.owner().map(|owner| owners.push(owner)))?;
                    8
                }
                b"finalizers" => {
                    let finalizers = &mut survey.traits.finalizers;
                    self.array(|cursor| cursor.text().map(|finalizer| finalizers.push(finalizer)))?;
                    9
                }
                b"managedFields" => {
                    self.skip_value()?;
                    let end = self.at;
                    survey.managed_fields = Some(match (member.comma, self.peek()?) {
                        (None, b',') => member.start..self.at + 1,
                        (None, _) => member.start..end,
                        (Some(comma), _) => comma..end,
                    });
                    10
                }
                _ => {
                    self.skip_value()?;
                    continue;
                }
            };
            if seen & 1 << which != 0 {
                return None;
            }
            seen |= 1 << which;
        }
        Some(())
    }

    fn labels(&mut self, labels: &mut Vec<(&'j str, &'j str)>) -> Option<()> {
        if self.peek()? == b'n' {
            return (self.literal()? == b"null").then_some(());
        }
        self.expect(b'{')?;
        let mut first = true;
        while let Some(member) = self.member(&mut first)? {
            let key = std::str::from_utf8(member.key).ok()?;
            if labels.iter().any(|(known, _)| *known == key) {
                return None;
            }
            labels.push((key, self.optional_text()?.unwrap_or_default()));
        }
        Some(())
    }

    /// Passes an array, or null; `each` must pass the element it is called at.
    fn array(&mut self, mut each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
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

    fn owner(&mut self) -> Option<OwnerIn<'j>> {
        let mut owner = OwnerIn::default();
        self.expect(b'{')?;
        let (mut first, mut seen) = (true, 0_u8);
        while let Some(member) = self.member(&mut first)? {
            let (which, text) = match member.key {
                b"apiVersion" => (0, &mut owner.api_version),
                b"kind" => (1, &mut owner.kind),
                b"name" => (2, &mut owner.name),
                b"uid" => (3, &mut owner.uid),
                key @ (b"controller" | b"blockOwnerDeletion") => {
                    let value = match self.literal()? {
                        b"true" => true,
                        b"false" | b"null" => false,
                        _ => return None,
                    };
                    let is_controller = key == b"controller";
                    let (which, flag) =
                        if is_controller { (4, &mut owner.controller) } else { (5, &mut owner.block_owner_deletion) };
                    *flag = value;
                    if seen & 1 << which != 0 {
                        return None;
                    }
                    seen |= 1 << which;
                    continue;
                }
                _ => {
                    self.skip_value()?;
                    continue;
                }
            };
            *text = self.optional_text()?.unwrap_or_default();
            if seen & 1 << which != 0 {
                return None;
            }
            seen |= 1 << which;
        }
        Some(owner)
    }
}

/// A whole number as JSON writes it; no sign but minus, no leading zero.
fn integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits == "0" || digits.starts_with(|digit: char| ('1'..='9').contains(&digit));
    if is_plain { text.parse().ok() } else { None }
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
        let survey = survey(text.as_bytes())?;
        let range = survey.managed_fields.unwrap_or(0..0);
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
        assert_eq!(survey(text.as_bytes()), Some(Survey::default()));
    }

    #[test]
    fn what_only_a_full_reading_can_tell_is_rewritten() {
        for text in [
            r#"{"kind":"Pod","meta\u0064ata":{"name":"a","managedFields":[1]}}"#,
            r#"{"kind":"Pod","metadata":{"name":"a","managed\u0046ields":[1]}}"#,
            r#"{"kind":"Pod","metadata":{"name":"z"},"metadata":{"name":"a","managedFields":[1]}}"#,
            r#"{"kind":"Pod","metadata":{"managedFields":[1],"name":"a","managedFields":[1]}}"#,
        ] {
            assert_eq!(survey(text.as_bytes()), None, "{text}");
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
    fn an_object_that_is_cut_off_is_never_surveyed() {
        let text = r#"{"kind":"Pod","metadata":{"name":"a","managedFields":[{"a":[true,null,-1.5e3]}],"uid":"u"},"spec":{"x":[1,2]},"n":1}"#;
        for end in (0..text.len()).filter(|end| !text[..*end].ends_with('}') || *end < 90) {
            assert_eq!(survey(&text.as_bytes()[..end]), None, "{}", &text[..end]);
        }
        assert!(survey(text.as_bytes()).is_some());
        for odd in ["", "[]", "3", "{]", r#"{"a"}"#, r#"{"a":}"#, r#"{"a":1 2}"#, r#"{"a":1,}"#, r#"{"a":]}"#, "{\"a\\"]
        {
            assert_eq!(survey(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn a_careful_search_knows_escapes_and_that_the_last_of_two_counts() {
        let text = br#"{"spec":{"a":1},"sp\u0065c":{"b":[2],"b":3}}"#;
        let at = |path: &[&str]| find_carefully(text, path).unwrap();
        assert_eq!((at(&["spec", "b"]), at(&["spec", "a"])), (Some(b"3".to_vec()), None));
        assert!(find_carefully(b"{", &["spec"]).is_err());
    }

    #[test]
    fn a_path_leads_to_its_value_or_nowhere_or_to_a_full_reading() {
        let text = br#"{"spec":{"a":{"nodeName":"x"},"nodeName":"n1","list":[1,{"nodeName":2}]},"x":1}"#;
        let at = |path: &[&str]| match find(text, path) {
            Found::At(range) => Some(std::str::from_utf8(&text[range]).unwrap()),
            Found::Nowhere => None,
            Found::Unsure => panic!("{path:?}"),
        };
        assert_eq!(at(&["spec", "nodeName"]), Some(r#""n1""#));
        assert_eq!(at(&["spec", "list"]), Some(r#"[1,{"nodeName":2}]"#));
        assert_eq!((at(&["spec", "list", "x"]), at(&["nodeName"]), at(&["x", "y"])), (None, None, None));
        for odd in [r#"{"spec":1,"spec":2}"#, r#"{"sp\u0065c":1}"#, r#"{"spec":"#, "", "[]x"] {
            assert_eq!(
                find(odd.as_bytes(), &["spec"]),
                if odd == "[]x" { Found::Nowhere } else { Found::Unsure },
                "{odd}"
            );
        }
    }
}
