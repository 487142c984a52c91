//! Labels, owners and finalizers: as text and parsed.

use windlass_api::{OwnerRef, Traits};

use super::cursor::Cursor;

/// The tags of the fields of `ObjectMeta` in protobuf.
const LABEL: u8 = 0x5A;
const OWNER: u8 = 0x6A;
const FINALIZER: u8 = 0x72;

/// The unparsed texts of `labels`, `ownerReferences` and `finalizers`; empty if absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RawTraits<'j> {
    pub(crate) labels: &'j [u8],
    pub(crate) owners: &'j [u8],
    pub(crate) finalizers: &'j [u8],
    pub(crate) encoding: Encoding,
}

/// The encoding of traits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Encoding {
    #[default]
    Json,
    Protobuf,
}

/// A copy of [`RawTraits`], in one piece.
#[derive(Debug)]
pub(crate) struct EncodedTraits {
    encoding: Encoding,
    /// The ends of the labels and of the owners. Finalizers follow.
    labels: usize,
    owners: usize,
    bytes: Box<[u8]>,
}

/// A parsed [`RawTraits`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TraitsIn<'j> {
    pub(crate) labels: Vec<(&'j str, &'j str)>,
    pub(crate) owners: Vec<OwnerIn<'j>>,
    pub(crate) finalizers: Vec<&'j str>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnerIn<'j> {
    pub(crate) api_version: &'j str,
    pub(crate) kind: &'j str,
    pub(crate) name: &'j str,
    pub(crate) uid: &'j str,
    pub(crate) controller: bool,
    pub(crate) block_owner_deletion: bool,
}

/// The part of a text that has not been compared yet.
struct Rest<'j>(&'j [u8]);

// === impl RawTraits ===

impl<'j> RawTraits<'j> {
    /// Parses the texts; `None` if they have to be parsed with serde.
    pub(crate) fn read(&self) -> Option<TraitsIn<'j>> {
        if self.encoding == Encoding::Protobuf {
            return self.read_protobuf();
        }
        let mut read = TraitsIn::default();
        whole(self.labels, |cursor| cursor.labels(&mut read.labels))?;
        whole(self.owners, |cursor| cursor.array(|cursor| cursor.owner().map(|owner| read.owners.push(owner))))?;
        whole(self.finalizers, |cursor| {
            cursor.array(|cursor| cursor.text().map(|finalizer| read.finalizers.push(finalizer)))
        })?;
        Some(read)
    }

    fn read_protobuf(&self) -> Option<TraitsIn<'j>> {
        let labels: Vec<_> = windlass_protobuf::labels(self.labels).collect::<Option<_>>()?;
        // Of equal keys, the last one counts.
        if !labels.is_sorted_by(|(one, _), (other, _)| one < other) {
            return None;
        }
        let owner = |owner: Option<windlass_protobuf::OwnerReference<'j>>| {
            owner.map(|owner| OwnerIn {
                api_version: owner.api_version,
                kind: owner.kind,
                name: owner.name,
                uid: owner.uid,
                controller: owner.controller,
                block_owner_deletion: owner.block_owner_deletion,
            })
        };
        Some(TraitsIn {
            labels,
            owners: windlass_protobuf::owner_references(self.owners).map(owner).collect::<Option<_>>()?,
            finalizers: windlass_protobuf::finalizers(self.finalizers).collect::<Option<_>>()?,
        })
    }

    pub(crate) fn to_encoded(self) -> EncodedTraits {
        let Self { labels, owners, finalizers, encoding } = self;
        EncodedTraits {
            encoding,
            labels: labels.len(),
            owners: labels.len() + owners.len(),
            bytes: [labels, owners, finalizers].concat().into(),
        }
    }

    /// Reports whether the texts are the known traits in Go's encoding. `false` is not conclusive.
    pub(crate) fn matches_encoding(&self, known: &Traits) -> bool {
        if self.encoding == Encoding::Protobuf {
            return self.is_protobuf_of(known);
        }
        let labels = Rest(self.labels).list(["{", "}"], &known.labels, |rest, (key, value)| {
            rest.eat("\"") && rest.eat(key) && rest.eat("\":\"") && rest.eat(value) && rest.eat("\"")
        });
        labels
            && Rest(self.owners).list(["[", "]"], &known.owner_references, Rest::owner)
            && Rest(self.finalizers).list(["[", "]"], &known.finalizers, |rest, finalizer| {
                rest.eat("\"") && rest.eat(finalizer) && rest.eat("\"")
            })
    }
}

impl RawTraits<'_> {
    /// Compares with the usual encoding of protobuf. Texts of more than 127 bytes and owners that are explicitly not
    /// controllers are parsed instead.
    fn is_protobuf_of(&self, known: &Traits) -> bool {
        Rest(self.labels).repeated(&known.labels, |rest, (key, value)| {
            rest.message(LABEL, |label| label.field(0x0A, key) && label.field(0x12, value))
        }) && Rest(self.owners).repeated(&known.owner_references, |rest, owner| {
            rest.message(OWNER, |rest| {
                rest.field(0x0A, &owner.kind)
                    && rest.field(0x1A, &owner.name)
                    && rest.field(0x22, &owner.uid)
                    && rest.field(0x2A, &owner.api_version)
                    && (!owner.controller || rest.bytes([0x30, 1]))
                    && (!owner.block_owner_deletion || rest.bytes([0x38, 1]))
            })
        }) && Rest(self.finalizers).repeated(&known.finalizers, |rest, finalizer| rest.field(FINALIZER, finalizer))
    }
}

// === impl EncodedTraits ===

impl EncodedTraits {
    pub(crate) fn is(&self, raw: &RawTraits<'_>) -> bool {
        self.encoding == raw.encoding
            && self.bytes[..self.labels] == *raw.labels
            && self.bytes[self.labels..self.owners] == *raw.owners
            && self.bytes[self.owners..] == *raw.finalizers
    }
}

/// Reads a text that consists of exactly one value, unless it is absent or null.
fn whole<'j>(text: &'j [u8], read: impl FnOnce(&mut Cursor<'j>) -> Option<()>) -> Option<()> {
    if text.is_empty() || text == b"null" {
        return Some(());
    }
    let mut cursor = Cursor { json: text, at: 0 };
    read(&mut cursor)?;
    (cursor.at == text.len()).then_some(())
}

// === impl TraitsIn ===

impl TraitsIn<'_> {
    pub(crate) fn are(&self, known: &Traits) -> bool {
        let same_labels = || {
            let mut pairs = self.labels.iter().zip(&known.labels);
            pairs.all(|((key, value), (known_key, known_value))| *key == &**known_key && *value == &**known_value)
        };
        let same_owners = || {
            self.owners.iter().zip(&known.owner_references).all(|(owner, known)| {
                owner.uid == &*known.uid
                    && owner.name == &*known.name
                    && owner.kind == &*known.kind
                    && owner.api_version == &*known.api_version
                    && (owner.controller, owner.block_owner_deletion) == (known.controller, known.block_owner_deletion)
            })
        };
        let same_finalizers =
            || self.finalizers.iter().zip(&known.finalizers).all(|(finalizer, known)| *finalizer == &**known);
        self.labels.len() == known.labels.len()
            && self.owners.len() == known.owner_references.len()
            && self.finalizers.len() == known.finalizers.len()
            && same_labels()
            && same_owners()
            && same_finalizers()
    }
}

// === impl Rest ===

impl Rest<'_> {
    fn eat(&mut self, text: &str) -> bool {
        self.0.strip_prefix(text.as_bytes()).map(|rest| self.0 = rest).is_some()
    }

    /// Reports whether the text consists of exactly these items. No items means no list.
    fn list<T>(mut self, [open, close]: [&str; 2], items: &[T], each: impl Fn(&mut Self, &T) -> bool) -> bool {
        if items.is_empty() {
            return self.0.is_empty();
        }
        self.eat(open)
            && items.iter().enumerate().all(|(at, item)| (at == 0 || self.eat(",")) && each(&mut self, item))
            && self.eat(close)
            && self.0.is_empty()
    }

    /// Reports whether the encoded list consists of exactly these items.
    fn repeated<T>(mut self, items: &[T], each: impl Fn(&mut Self, &T) -> bool) -> bool {
        items.iter().all(|item| each(&mut self, item)) && self.0.is_empty()
    }

    fn bytes<const N: usize>(&mut self, bytes: [u8; N]) -> bool {
        self.0.strip_prefix(&bytes).map(|rest| self.0 = rest).is_some()
    }

    /// Reports whether a short text follows, with its tag.
    fn field(&mut self, tag: u8, text: &str) -> bool {
        u8::try_from(text.len()).is_ok_and(|length| length < 0x80 && self.bytes([tag, length])) && self.eat(text)
    }

    /// Reports whether a short message follows, with its tag, and consists of exactly these fields.
    fn message(&mut self, tag: u8, fields: impl FnOnce(&mut Self) -> bool) -> bool {
        let Some((&[found, length @ ..0x80], rest)) = self.0.split_first_chunk() else { return false };
        let Some((content, rest)) = rest.split_at_checked(length.into()) else { return false };
        self.0 = rest;
        let mut content = Rest(content);
        found == tag && fields(&mut content) && content.0.is_empty()
    }

    fn owner(&mut self, owner: &OwnerRef) -> bool {
        let texts = [
            ("{\"apiVersion\":\"", &owner.api_version),
            ("\",\"kind\":\"", &owner.kind),
            ("\",\"name\":\"", &owner.name),
            ("\",\"uid\":\"", &owner.uid),
        ];
        texts.iter().all(|(before, text)| self.eat(before) && self.eat(text))
            && self.eat("\"")
            && (!owner.controller || self.eat(",\"controller\":true"))
            && (!owner.block_owner_deletion || self.eat(",\"blockOwnerDeletion\":true"))
            && self.eat("}")
    }
}

// === impl Cursor ===

impl<'j> Cursor<'j> {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn known() -> Traits {
        let owner = OwnerRef {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: "r".into(),
            uid: "u".into(),
            controller: true,
            block_owner_deletion: false,
        };
        Traits {
            labels: [("app", "x"), ("tier", "")].map(|(key, value)| (Arc::from(key), Arc::from(value))).into(),
            owner_references: [owner].into(),
            finalizers: [Arc::from("f"), Arc::from("g")].into(),
        }
    }

    fn raw(texts: [&'static str; 3]) -> RawTraits<'static> {
        let [labels, owners, finalizers] = texts.map(str::as_bytes);
        RawTraits { labels, owners, finalizers, ..RawTraits::default() }
    }

    const GO: [&str; 3] = [
        r#"{"app":"x","tier":""}"#,
        r#"[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"u","controller":true}]"#,
        r#"["f","g"]"#,
    ];

    #[test]
    fn metadata_in_gos_format_is_found_without_decoding() {
        assert!(raw(GO).matches_encoding(&known()));
        assert!(raw(["", "", ""]).matches_encoding(&Traits::default()));
        assert!(raw(GO).read().unwrap().are(&known()));
    }

    #[test]
    fn encoded_traits_are_only_those_that_were_copied() {
        let encoded = raw(GO).to_encoded();
        assert!(encoded.is(&raw(GO)));
        let [labels, owners, finalizers] = GO;
        let moved = [&labels[..labels.len() - 1], owners, finalizers];
        for other in [["", owners, finalizers], [labels, "", finalizers], [labels, owners, ""], moved] {
            assert!(!encoded.is(&raw(other)), "{other:?}");
        }
        assert!(!encoded.is(&RawTraits { encoding: Encoding::Protobuf, ..raw(GO) }));
        // The same bytes with other boundaries.
        assert!(!raw(["ab", "c", ""]).to_encoded().is(&raw(["a", "bc", ""])));
    }

    /// Calls `check` with the traits of an object in protobuf.
    fn with_protobuf(metadata: &str, check: impl FnOnce(RawTraits<'_>)) {
        let json = format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{metadata}}}"#);
        let value = windlass_protobuf::to_protobuf(json.as_bytes()).unwrap();
        let metadata = windlass_protobuf::Metadata::read(&value).unwrap().unwrap();
        check(RawTraits {
            labels: metadata.labels,
            owners: metadata.owner_references,
            finalizers: metadata.finalizers,
            encoding: Encoding::Protobuf,
        });
    }

    #[test]
    fn metadata_in_protobuf_is_found_without_decoding() {
        let [labels, owners, finalizers] = GO;
        let metadata = format!(r#"{{"labels":{labels},"ownerReferences":{owners},"finalizers":{finalizers}}}"#);
        with_protobuf(&metadata, |raw| {
            assert!(raw.matches_encoding(&known()) && raw.read().unwrap().are(&known()));
            assert!(!raw.matches_encoding(&Traits::default()));
            for changed in [
                Traits { labels: known().labels[..1].into(), ..known() },
                Traits { owner_references: Box::default(), ..known() },
                Traits { finalizers: known().finalizers[1..].into(), ..known() },
            ] {
                assert!(!raw.matches_encoding(&changed), "{changed:?}");
            }
            for cut in 1..raw.labels.len() {
                assert!(!RawTraits { labels: &raw.labels[..cut], ..raw }.matches_encoding(&known()));
            }
        });
        with_protobuf("{}", |raw| assert!(raw.matches_encoding(&Traits::default())));
    }

    #[test]
    fn unusual_traits_in_protobuf_are_read() {
        let long = "x".repeat(200);
        let owners = r#"[{"apiVersion":"","kind":"","name":"","uid":"","controller":false}]"#;
        with_protobuf(&format!(r#"{{"labels":{{"a":"{long}"}},"ownerReferences":{owners}}}"#), |raw| {
            let read = raw.read().unwrap();
            let labels = [(Arc::from("a"), Arc::from(&*long))].into();
            let known = Traits { labels, owner_references: [OwnerRef::default()].into(), ..Traits::default() };
            assert!(read.are(&known) && !raw.matches_encoding(&known));
        });
    }

    #[test]
    fn no_other_text_spells_them() {
        for (at, other) in [
            (0, r#"{"app":"x"}"#),
            (0, r#"{"app":"x","tier":"","more":"y"}"#),
            (0, r#"{"app":"x","tier":"y"}"#),
            (0, r#"{"app": "x","tier":""}"#),
            (0, r#"{"app":"x","tier":""} "#),
            (0, ""),
            (1, "[]"),
            (1, r#"[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"u"}]"#),
            (
                1,
                r#"[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"u","controller":true,"blockOwnerDeletion":true}]"#,
            ),
            (2, r#"["g","f"]"#),
            (2, r#"["f"]"#),
        ] {
            let mut texts = GO;
            texts[at] = other;
            assert!(!raw(texts).matches_encoding(&known()), "{other}");
        }
        assert!(!raw(GO).matches_encoding(&Traits::default()));
    }

    #[test]
    fn spaces_nulls_and_another_order_are_read_all_the_same() {
        let texts = [
            r#" { "tier" : null , "app" : "x" }"#,
            r#"[{"controller":true,"uid":"u","name":"r","kind":"ReplicaSet","apiVersion":"apps/v1","blockOwnerDeletion":null}]"#,
            r#"[ "f" , "g" ]"#,
        ];
        let read = raw(texts).read().unwrap();
        assert_eq!(read.labels, [("tier", ""), ("app", "x")]);
        assert_eq!((read.owners.len(), read.owners[0].uid, &read.finalizers[..]), (1, "u", &["f", "g"][..]));
        assert_eq!(raw(["null", "null", "null"]).read(), Some(TraitsIn::default()));
        for odd in [r#"{"a":"\u0061"}"#, r#"{"a":"1","a":"2"}"#, r#"{"a":1}"#, "[]", r#"{"a":"b"}x"#, "{"] {
            assert_eq!(raw([odd, "", ""]).read(), None, "{odd}");
        }
    }
}
