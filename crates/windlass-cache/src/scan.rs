//! A scanner that reads the metadata of an encoded object, and the position of managedFields, without decoding it.
//!
//! The scanner returns a result only if it is certain. Otherwise [`rewrite`] and `Meta::parse` read the object with
//! serde. This is the case for escaped keys and values, a second `metadata`, duplicate keys in the metadata, and text
//! that is recognizably not well-formed.
//!
//! The rest of the object is not parsed, only searched for keys that would affect the result. Damage in it is detected
//! when the object is decoded. Labels, owners and finalizers are parsed when their text occurs for the first time.
//! Damage within managedFields, which are removed, may go unnoticed.

mod cursor;
mod fallback;
mod traits;

use std::{ops::Range, sync::LazyLock};

use memchr::{memchr, memchr2, memmem::Finder};

use self::cursor::{Cursor, Member, Spelling};
pub(crate) use self::{
    fallback::{find_fallback, rewrite},
    traits::{EncodedTraits, Encoding, OwnerIn, RawTraits},
};

/// The result of a scan. Strings refer to the encoded text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Survey<'j> {
    /// The value of the top-level `kind`.
    pub(crate) kind: Option<&'j str>,
    /// The range of `managedFields` with its key and one comma. Without these bytes, the text is the object without the
    /// field.
    pub(crate) managed_fields: Option<Range<usize>>,
    pub(crate) name: &'j str,
    pub(crate) namespace: Option<&'j str>,
    pub(crate) uid: &'j str,
    pub(crate) resource_version: &'j str,
    pub(crate) generation: Option<i64>,
    pub(crate) creation_timestamp: Option<&'j str>,
    pub(crate) deletion_timestamp: Option<&'j str>,
    pub(crate) traits: RawTraits<'j>,
}

/// The result of a search for a value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    At(Range<usize>),
    Nowhere,
    /// The object has to be parsed with serde.
    Unsure,
}

/// Scans an object; `None` if it has to be parsed with serde.
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

/// Reports whether the text after the metadata may contain more of the scanned fields.
fn matters(rest: &[u8], is_kind_open: bool) -> bool {
    static METADATA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""metadata""#));
    static KIND: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""kind""#));
    static ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br"\u"));
    !rest.trim_ascii_end().ends_with(b"}")
        || METADATA.find(rest).is_some()
        || (memchr(b'\\', rest).is_some() && ESCAPE.find(rest).is_some())
        || (is_kind_open && KIND.find(rest).is_some())
}

/// Finds the value at a path of nested objects.
pub(crate) fn find(object: &[u8], path: &[&str]) -> Found {
    let mut cursor = Cursor { json: object, at: 0 };
    // A key has more than one spelling only if the text contains escapes.
    let spelling = if memchr(b'\\', object).is_some() { Spelling::Open } else { Spelling::Plain };
    for key in path {
        match cursor.value_of(key, spelling) {
            None => return Found::Unsure,
            Some(None) => return Found::Nowhere,
            Some(Some(start)) => cursor.at = start,
        }
    }
    let start = cursor.at;
    if path.is_empty() || cursor.skip_value().is_none() { Found::Unsure } else { Found::At(start..cursor.at) }
}

/// Returns the content of a JSON string without escapes; `None` for anything else.
pub(crate) fn plain_text(json: &[u8]) -> Option<&str> {
    let mut cursor = Cursor { json, at: 0 };
    cursor.text().filter(|text| cursor.peek().is_none() && !text.bytes().any(|byte| byte < b' '))
}

// Each method returns `None` if the text ends early or has an unexpected form.
impl<'j> Cursor<'j> {
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
                    survey.traits.labels = self.raw_value()?;
                    7
                }
                b"ownerReferences" => {
                    survey.traits.owners = self.raw_value()?;
                    8
                }
                b"finalizers" => {
                    survey.traits.finalizers = self.raw_value()?;
                    9
                }
                b"managedFields" => {
                    survey.managed_fields = Some(self.managed_fields(&member)?);
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

    /// Skips the value of managedFields. Returns the range to remove: the key, the value and one comma.
    fn managed_fields(&mut self, member: &Member<'_>) -> Option<Range<usize>> {
        match self.end_of_plain_array() {
            Some(end) => self.at = end,
            None => self.skip_value()?,
        }
        let end = self.at;
        Some(match (member.comma, self.peek()?) {
            (None, b',') => member.start..self.at + 1,
            (None, _) => member.start..end,
            (Some(comma), _) => comma..end,
        })
    }

    /// Returns the end of an array of objects if one search for a bracket finds it: the objects contain no arrays, and
    /// the text that follows can only be the next key. In JSON, a quote between a comma and a letter opens a string, so
    /// the bracket before it is not within a string. This assumes valid JSON: damage in the removed text goes
    /// unnoticed.
    fn end_of_plain_array(&mut self) -> Option<usize> {
        let start = if self.peek()? == b'[' { self.at + 1 } else { return None };
        let closing = start + memchr2(b'[', b']', &self.json[start..])?;
        if !self.json[..closing].ends_with(b"}") {
            return None;
        }
        let rest = self.json[closing..].strip_prefix(b"]")?;
        match rest.strip_prefix(b"}").unwrap_or(rest) {
            [b',', b'"', letter, ..] if letter.is_ascii_alphabetic() => Some(closing + 1),
            _ => None,
        }
    }
}

/// Parses an integer as JSON writes it: no plus sign, no leading zero.
fn integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits == "0" || digits.starts_with(|digit: char| ('1'..='9').contains(&digit));
    if is_plain { text.parse().ok() } else { None }
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
    fn managed_fields_are_removed_at_any_position() {
        let kept = json!({"kind": "Pod", "metadata": {"name": "a", "uid": "u"}, "spec": {"x": 1}});
        for text in [
            r#"{"kind":"Pod","metadata":{"name":"a","uid":"u","managedFields":[{"f:x":{"}":"]\"{"}}]},"spec":{"x":1}}"#,
            r#"{"kind":"Pod","metadata":{"name":"a","uid":"u","managedFields":[{"f:x":{}}]},"spec":{"x":1}}"#,
            r#"{"kind":"Pod","metadata":{"name":"a","managedFields":[{"f:x":{"\"}],\"y":{}}}],"uid":"u"},"spec":{"x":1}}"#,
            r#"{"kind":"Pod","metadata":{"name":"a","managedFields":[{"f:x":"}],"},{"y":"z"}],"uid":"u"},"spec":{"x":1}}"#,
            r#"{"kind":"Pod","metadata":{"name":"a","managedFields":[{"f:x":["}],","y"]}],"uid":"u"},"spec":{"x":1}}"#,
            r#"{"kind":"Pod","metadata":{"name":"a","managedFields":[{"f:x":[{}],"y":1}],"uid":"u"},"spec":{"x":1}}"#,
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
    fn ambiguous_bodies_are_rewritten() {
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
    fn full_search_handles_escapes_and_duplicate_members() {
        let text = br#"{"spec":{"a":1},"sp\u0065c":{"b":[2],"b":3}}"#;
        let at = |path: &[&str]| find_fallback(text, path).unwrap();
        assert_eq!((at(&["spec", "b"]), at(&["spec", "a"])), (Some(b"3".to_vec()), None));
        assert!(find_fallback(b"{", &["spec"]).is_err());
    }

    #[test]
    fn a_plain_text_is_a_whole_string_without_escapes() {
        assert_eq!((plain_text(br#""x""#), plain_text(br#"  "" "#)), (Some("x"), Some("")));
        for other in ["", "x", "1", "null", r#""x"#, r#""x"y"#, r#""\u0061""#, "\"\n\"", "[\"x\"]"] {
            assert_eq!(plain_text(other.as_bytes()), None, "{other}");
        }
        assert_eq!(plain_text(b"\"\xff\""), None);
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
        for text in [
            r#"{"a":"spec","spec":{"x":"nodeName","nodeName":"n1"},"status":{"spec":{"nodeName":"n2"}}}"#,
            r#"{"spec":{"nodeName":"n1","spec":"nodeName"},"text":"\u0061"}"#,
            r#"{ "a" : { "spec" : { "nodeName" : "n2" } } , "spec" : { "nodeName" : "n1" } }"#,
        ] {
            let Found::At(range) = find(text.as_bytes(), &["spec", "nodeName"]) else { panic!("{text}") };
            assert_eq!(plain_text(&text.as_bytes()[range]), Some("n1"), "{text}");
        }
        let twice = r#"{"spec":{"nodeName":"n1"},"sp\u0065c":{"nodeName":"n2"}}"#;
        assert_eq!(find(twice.as_bytes(), &["spec", "nodeName"]), Found::Unsure);
        for odd in [r#"{"spec":1,"spec":2}"#, r#"{"sp\u0065c":1}"#, r#"{"spec":"#, "", "[]x"] {
            assert_eq!(
                find(odd.as_bytes(), &["spec"]),
                if odd == "[]x" { Found::Nowhere } else { Found::Unsure },
                "{odd}"
            );
        }
    }
}
