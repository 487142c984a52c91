//! The generated decoders return what windlass-protobuf returns: with the corpus, with changed fields of its objects, and
//! with damaged bytes.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    fs::File,
    io::Read,
    ops::{Deref, DerefMut},
    sync::LazyLock,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use flate2::read::GzDecoder;
use k8s_openapi::{
    Resource,
    api::core::v1::{ConfigMap, Pod, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use serde::de::DeserializeOwned;
use windlass_protobuf::{envelope_start, to_protobuf};

use super::*;
use crate::wire::{BYTES, Fields, VARINT};

/// A test of each kind.
pub(crate) trait Visitor {
    fn visit<K: Value + Resource + DeserializeOwned + PartialEq + Debug + 'static>(&mut self);
}

/// The seconds of the corpus's latest time as a varint. The types of k8s-openapi have no time on the last day of 9999, so it
/// is replaced by one of the same length.
const LATEST: [u8; 6] = [0xff, 0x82, 0xd1, 0xff, 0xaf, 0x07];
const LATE: [u8; 6] = [0xff, 0x82, 0xd1, 0xff, 0xaf, 0x05];

/// The messages of the corpus by API version and kind. Each kind has an object with all fields, and one without fields.
static CORPUS: LazyLock<BTreeMap<(String, String), Vec<Vec<u8>>>> = LazyLock::new(|| {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../windlass-protobuf/testdata/corpus.txt.gz");
    let mut text = String::new();
    GzDecoder::new(File::open(file).unwrap()).read_to_string(&mut text).unwrap();
    let mut corpus = BTreeMap::<_, Vec<_>>::new();
    for line in text.lines().skip(1) {
        let value = BASE64_STANDARD.decode(line.split('\t').nth(1).unwrap()).unwrap();
        let (version, kind, message) = envelope(&value).unwrap();
        let mut message = message.to_vec();
        while let Some(at) = message.windows(LATEST.len()).position(|bytes| bytes == LATEST) {
            message[at..at + LATE.len()].copy_from_slice(&LATE);
        }
        corpus.entry((version.to_owned(), kind.to_owned())).or_default().push(message);
    }
    corpus
});

/// Returns the messages of a kind.
fn corpus<K: Resource>() -> &'static [Vec<u8>] {
    CORPUS.get(&(K::API_VERSION.to_owned(), K::KIND.to_owned())).map(Vec::as_slice).unwrap_or_default()
}

/// Adds the envelope of a kind.
fn enveloped<K: Resource>(message: &[u8]) -> Vec<u8> {
    [&envelope_start(K::API_VERSION, K::KIND, message.len()), message].concat()
}

/// Compares both decoders; `false` if the generated one does not read the value.
fn compare<K: DeserializeOwned + PartialEq + Debug + 'static>(value: &[u8]) -> bool {
    let Some(object) = generated::<K>(value) else { return false };
    match windlass_protobuf::decode::<K>(value) {
        Ok(expected) => assert_eq!(object, expected),
        Err(error) => panic!("decoded an invalid value: {error}\n{value:?}\n{object:?}"),
    }
    true
}

/// A sequence of numbers that looks random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// A field that can be changed.
#[derive(Clone, Debug)]
enum Part {
    Number(u32, u64),
    Bytes(u32, Vec<u8>),
    Message(u32, Parts),
}

/// The fields of a message.
#[derive(Clone, Debug, Default)]
struct Parts(Vec<Part>);

impl Deref for Parts {
    type Target = Vec<Part>;

    fn deref(&self) -> &Vec<Part> {
        &self.0
    }
}

impl DerefMut for Parts {
    fn deref_mut(&mut self) -> &mut Vec<Part> {
        &mut self.0
    }
}

impl Parts {
    /// Reads a message. Texts that could be messages are taken as messages, which have the same bytes.
    fn read(message: &[u8]) -> Option<Self> {
        let (mut parts, mut rest) = (Self::default(), Fields::new(message));
        while let Some(field) = rest.next().ok()? {
            parts.push(match (field.wire, Self::read(field.content)) {
                (VARINT, _) => Part::Number(field.number, field.value),
                (BYTES, Some(inner)) if !inner.is_empty() => Part::Message(field.number, inner),
                (BYTES, _) => Part::Bytes(field.number, field.content.to_vec()),
                _ => return None,
            });
        }
        Some(parts)
    }

    fn write(&self) -> Vec<u8> {
        fn varint(out: &mut Vec<u8>, mut value: u64) {
            while value >= 0x80 {
                out.push(u8::try_from(value & 0x7F).unwrap() | 0x80);
                value >>= 7;
            }
            out.push(u8::try_from(value).unwrap());
        }
        fn bytes(out: &mut Vec<u8>, number: u32, content: &[u8]) {
            varint(out, u64::from(number) << 3 | u64::from(BYTES));
            varint(out, content.len() as u64);
            out.extend_from_slice(content);
        }
        let mut out = Vec::new();
        for part in &self.0 {
            match part {
                Part::Number(number, value) => {
                    varint(&mut out, u64::from(*number) << 3);
                    varint(&mut out, *value);
                }
                Part::Bytes(number, content) => bytes(&mut out, *number, content),
                Part::Message(number, parts) => bytes(&mut out, *number, &parts.write()),
            }
        }
        out
    }

    /// Changes a field of this message, or of one in it.
    fn change(&mut self, numbers: &mut Numbers) {
        if self.is_empty() {
            return self.push(Part::Number(u32::try_from(1 + numbers.below(50)).unwrap(), 1));
        }
        let at = numbers.below(self.len());
        if let Part::Message(_, inner) = &mut self[at]
            && numbers.below(4) > 0
        {
            return inner.change(numbers);
        }
        let other = numbers.below(self.len());
        match numbers.below(9) {
            0 | 1 => drop(self.remove(at)),
            2 => {
                let copy = self[at].clone();
                self.insert(other, copy);
            }
            3 => self.swap(at, other),
            4 => self.push(Part::Bytes(60, b"unknown".to_vec())),
            5 => self[at] = Part::Number(at_number(&self[at]), [0, 1, 2, 1 << 31, 1 << 32, u64::MAX][numbers.below(6)]),
            6 => {
                self[at] = Part::Bytes(
                    at_number(&self[at]),
                    [&b""[..], b"a", b"null", b"\xff", b"1000m"][numbers.below(5)].to_vec(),
                );
            }
            _ => match &mut self[at] {
                Part::Number(_, value) => *value = 0,
                Part::Bytes(_, content) => content.clear(),
                Part::Message(_, parts) => parts.clear(),
            },
        }
    }
}

fn at_number(part: &Part) -> u32 {
    match part {
        Part::Number(number, _) | Part::Bytes(number, _) | Part::Message(number, _) => *number,
    }
}

#[test]
fn objects_of_the_corpus_are_decoded_by_the_generated_decoders() {
    #[derive(Default)]
    struct Check {
        kinds: usize,
        decoded: usize,
        other: Vec<(&'static str, &'static str)>,
    }
    impl Visitor for Check {
        fn visit<K: Value + Resource + DeserializeOwned + PartialEq + Debug + 'static>(&mut self) {
            self.kinds += 1;
            for message in corpus::<K>() {
                let value = enveloped::<K>(message);
                if compare::<K>(&value) {
                    self.decoded += 1;
                } else if windlass_protobuf::decode::<K>(&value).is_ok() {
                    self.other.push((K::API_VERSION, K::KIND));
                }
            }
        }
    }
    let mut check = Check::default();
    groups::visit(&mut check);
    let Check { kinds, decoded, other } = check;
    // The schema has an item and a dependency that are null, which only the decoder of JSON accepts.
    assert_eq!(other, [("apiextensions.k8s.io/v1", "CustomResourceDefinition")]);
    assert!(kinds > 90 && decoded > 150, "{decoded} objects of {kinds} kinds");
}

#[test]
fn changed_fields_are_decoded_as_by_serde() {
    #[derive(Default)]
    struct Check {
        decoded: usize,
        unusual: usize,
    }
    impl Visitor for Check {
        fn visit<K: Value + Resource + DeserializeOwned + PartialEq + Debug + 'static>(&mut self) {
            for (seed, message) in (1..).zip(corpus::<K>()) {
                let Some(parts) = Parts::read(message) else { continue };
                assert_eq!(parts.write(), *message);
                let mut numbers = Numbers(seed);
                for _ in 0..CHANGES {
                    let mut changed = parts.clone();
                    for _ in 0..=numbers.below(4) {
                        changed.change(&mut numbers);
                    }
                    let is_decoded = compare::<K>(&enveloped::<K>(&changed.write()));
                    *(if is_decoded { &mut self.decoded } else { &mut self.unusual }) += 1;
                }
            }
        }
    }
    const CHANGES: usize = 25;
    let mut check = Check::default();
    groups::visit(&mut check);
    assert!(check.decoded > 1000 && check.unusual > 500, "{} decoded, {} unusual", check.decoded, check.unusual);
}

#[test]
fn damaged_bytes_are_decoded_as_by_serde() {
    fn damage<K: Value + Resource + DeserializeOwned + PartialEq + Debug + 'static>() {
        let mut decoded = 0;
        for message in corpus::<K>() {
            for end in 0..message.len() {
                compare::<K>(&enveloped::<K>(&message[..end]));
            }
            let mut changed = message.clone();
            for at in 0..changed.len() {
                for bit in [0, 3, 4, 7] {
                    changed[at] ^= 1 << bit;
                    decoded += usize::from(compare::<K>(&enveloped::<K>(&changed)));
                    changed[at] ^= 1 << bit;
                }
            }
        }
        assert!(decoded > 50, "{}: {decoded}", K::KIND);
    }
    damage::<ConfigMap>();
    damage::<Secret>();
    damage::<k8s_openapi::api::core::v1::Service>();
    damage::<k8s_openapi::api::coordination::v1::Lease>();
    damage::<k8s_openapi::api::events::v1::Event>();
    damage::<k8s_openapi::api::policy::v1::PodDisruptionBudget>();
    damage::<k8s_openapi::api::apps::v1::ControllerRevision>();
}

#[test]
fn fields_of_absent_structs_have_their_zero_values() {
    let value = enveloped::<Pod>(b"");
    let pod = generated::<Pod>(&value).unwrap();
    assert_eq!(pod, windlass_protobuf::decode(&value).unwrap());
    assert!(pod.spec.is_some_and(|spec| spec.containers.is_empty()) && pod.status.is_some());
}

#[test]
fn unusual_values_are_decoded_by_serde() {
    let with = |message: &[u8]| enveloped::<Pod>(message);
    // Two parts of the metadata, and invalid UTF-8 in the name.
    let parts = with(b"\x0a\x03\x0a\x01a\x0a\x03\x1a\x01n");
    assert!(generated::<Pod>(&parts).is_none());
    let pod: Pod = decode(&parts).unwrap();
    assert_eq!((pod.metadata.name.as_deref(), pod.metadata.namespace.as_deref()), (Some("a"), Some("n")));
    assert_eq!(decode::<Pod>(&with(b"\x0a\x03\x0a\x01\xff")).unwrap().metadata.name.as_deref(), Some("\u{fffd}"));
    let error = decode::<Pod>(&with(b"\x0a\x03\x0a\x05a")).unwrap_err().to_string();
    assert!(error.starts_with("cannot decode ObjectMeta.name at byte "), "{error}");
}

#[test]
fn other_types_and_kinds_are_decoded_by_serde() {
    let value = to_protobuf(br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}"#).unwrap();
    assert_eq!(generated::<serde_json::Value>(&value), None);
    assert_eq!(decode::<serde_json::Value>(&value).unwrap()["metadata"]["name"], "a");
    assert_eq!(generated::<ConfigMap>(&value), None);
    assert!(decode::<ConfigMap>(&value).unwrap_err().to_string().contains("invalid value: string \"Pod\""));
    assert!(decode::<Pod>(b"{}").is_err() && decode::<Pod>(b"k8s\0").is_err());
}

#[test]
fn deep_schemas_are_decoded() {
    for depth in [1, 10, 30, 60, 200] {
        let schema = (0..depth).fold(r#"{"type":"string"}"#.to_owned(), |schema, level| match level % 3 {
            0 => format!(r#"{{"not":{schema}}}"#),
            1 => format!(r#"{{"properties":{{"a":{schema}}}}}"#),
            _ => format!(r#"{{"items":{schema},"additionalProperties":{{"type":"number"}}}}"#),
        });
        let json = format!(
            r#"{{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","spec":{{"versions":[{{"name":"v1","schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#
        );
        let Ok(value) = to_protobuf(json.as_bytes()) else { continue };
        assert_eq!(compare::<CustomResourceDefinition>(&value), depth <= 10, "{depth}");
        let expected = windlass_protobuf::decode::<CustomResourceDefinition>(&value);
        assert_eq!(decode::<CustomResourceDefinition>(&value).ok(), expected.ok());
    }
}
