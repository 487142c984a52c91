//! Hostile input: every value results in a value or in an error with a place, in time and memory bounded by its length.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{fs::File, io::Read};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use flate2::read::GzDecoder;
use windlass_protobuf::{Error, MessageType, NEWEST_MINOR, to_json, to_protobuf, type_of};

/// Returns the JSON and the protobuf of some objects with all types of fields.
fn samples() -> Vec<(String, Vec<u8>)> {
    let mut text = String::new();
    GzDecoder::new(File::open("testdata/corpus.txt.gz").unwrap()).read_to_string(&mut text).unwrap();
    let mut samples = Vec::new();
    let kinds = [
        ("v1", "Secret"),
        ("v1", "Service"),
        ("v1", "Event"),
        ("v1", "LimitRange"),
        ("apps/v1", "ControllerRevision"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("authentication.k8s.io/v1", "TokenReview"),
        ("v1", "APIResourceList"),
    ];
    for line in text.lines().skip(1) {
        let mut columns = line.split('\t');
        let json = columns.next().unwrap();
        let protobuf = BASE64_STANDARD.decode(columns.next().unwrap()).unwrap();
        let (version, kind) = type_of(&protobuf).unwrap();
        if kinds.contains(&(&*version, &*kind)) && protobuf.len() < 2000 {
            samples.push((json.to_owned(), protobuf));
        }
    }
    assert!(samples.len() > 12, "{} samples", samples.len());
    samples
}

/// Checks the result for a value: JSON that can be encoded again, or an error with a place in the value.
fn check_value(value: &[u8]) -> bool {
    match to_json(value) {
        Ok(json) => {
            serde_json::from_slice::<serde::de::IgnoredAny>(&json).unwrap();
            assert!(json.len() <= 64 * value.len() + 256, "{} bytes for {}", json.len(), value.len());
            to_protobuf(&json).unwrap();
            true
        }
        Err(Error::Protobuf { message, offset, problem, .. }) => {
            assert!(offset <= value.len(), "{message} at {offset} of {}: {problem}", value.len());
            assert!(!message.is_empty() && !problem.is_empty());
            false
        }
        Err(Error::Prefix | Error::UnknownKind { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

fn check_json(json: &[u8]) -> bool {
    match to_protobuf(json) {
        Ok(value) => {
            to_json(&value).unwrap();
            true
        }
        Err(Error::Syntax { offset, problem }) => {
            assert!(offset <= json.len() && !problem.is_empty());
            false
        }
        Err(Error::Value { problem, .. }) => {
            assert!(!problem.is_empty());
            false
        }
        Err(Error::UnknownKind { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn truncated_values_are_errors_or_shorter_objects() {
    let mut rejected = 0;
    let mut total = 0;
    for (json, value) in samples() {
        for length in 0..value.len() {
            rejected += usize::from(!check_value(&value[..length]));
            total += 1;
        }
        for length in 0..json.len() {
            assert!(!check_json(&json.as_bytes()[..length]), "{}", &json[..length]);
        }
    }
    // The message has a length, so only the two empty fields after it can be missing.
    assert!(rejected > total * 9 / 10, "{rejected} of {total}");
}

#[test]
fn truncated_messages_are_errors_or_shorter_objects() {
    for (json, _) in samples() {
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        let ty = MessageType::of(value["apiVersion"].as_str().unwrap(), value["kind"].as_str().unwrap()).unwrap();
        let message = ty.encode(json.as_bytes(), NEWEST_MINOR).unwrap();
        for length in 0..message.len() {
            match ty.decode(&message[..length], NEWEST_MINOR) {
                Ok(json) => assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&json).is_ok()),
                Err(Error::Protobuf { offset, .. }) => assert!(offset <= length),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn flipped_bytes_are_errors_or_other_objects() {
    let (mut accepted, mut rejected) = (0, 0);
    for (json, value) in samples() {
        for at in 0..value.len() {
            for mask in [0x01, 0x80, 0xFF] {
                let mut value = value.clone();
                value[at] ^= mask;
                if check_value(&value) { accepted += 1 } else { rejected += 1 }
            }
        }
        for at in 0..json.len() {
            for byte in [b'"', b'{', b'0', 0xFF] {
                let mut json = json.clone().into_bytes();
                json[at] = byte;
                check_json(&json);
            }
        }
    }
    assert!(accepted > 1000 && rejected > 1000, "{accepted} accepted, {rejected} rejected");
}

/// Wraps bytes into a field with a length.
fn field(number: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for mut value in [number << 3 | 2, u32::try_from(content.len()).unwrap()] {
        while value >= 0x80 {
            bytes.push((value & 0x7F) as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(u8::try_from(value).unwrap());
    }
    bytes.extend_from_slice(content);
    bytes
}

/// Returns a CustomResourceDefinition with nested schemas.
fn definition(schema: &[u8]) -> Vec<u8> {
    // spec.versions[0].schema.openAPIV3Schema
    field(2, &field(7, &field(4, &field(1, schema))))
}

fn definition_type() -> MessageType {
    MessageType::of("apiextensions.k8s.io/v1", "CustomResourceDefinition").unwrap()
}

#[test]
fn nested_messages_are_limited() {
    let nested = |depth: usize| {
        // not: {not: …}
        let schema = (0..depth).fold(Vec::new(), |schema, _| field(28, &schema));
        definition_type().decode(&definition(&schema), NEWEST_MINOR)
    };
    let json = nested(100).unwrap();
    assert_eq!(json.windows(5).filter(|window| window == b"\"not\"").count(), 100);
    assert!(nested(200).unwrap_err().to_string().ends_with("more than 128 nested messages"));
    assert!(nested(20_000).unwrap_err().to_string().ends_with("more than 128 nested messages"));

    let nested = |depth: usize| {
        let (open, close) = (r#"{"not":"#.repeat(depth), "}".repeat(depth));
        let json = format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{open}{{}}{close}}}}}]}}}}"#);
        definition_type().encode(json.as_bytes(), NEWEST_MINOR)
    };
    assert!(nested(100).is_ok());
    assert!(nested(200).unwrap_err().to_string().ends_with("more than 128 nested messages"));
}

#[test]
fn nested_json_in_bytes_does_not_overflow_the_stack() {
    let value = |raw: &str| {
        let json = format!(r#"{{"apiVersion":"apps/v1","kind":"ControllerRevision","data":{raw}}}"#);
        to_protobuf(json.as_bytes())
    };
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let encoded = value(&deep(9_000)).unwrap();
    assert!(to_json(&encoded).unwrap().len() > 18_000);
    assert!(matches!(value(&deep(20_000)), Err(Error::Syntax { .. })));
    assert!(matches!(value(&"[{\"a\":".repeat(200_000)), Err(Error::Syntax { .. })));
}

#[test]
fn nested_maps_out_of_order_take_linear_time() {
    // Each level has two properties in the wrong order, the first of which is the next level.
    let property = |key: &[u8], schema: &[u8]| field(29, &[field(1, key), field(2, schema)].concat());
    let mut schema = Vec::new();
    for _ in 0..60 {
        schema = [property(b"b", &schema), property(b"a", b"")].concat();
    }
    let json = definition_type().decode(&definition(&schema), NEWEST_MINOR).unwrap();
    assert_eq!(json.windows(3).filter(|window| window == b"\"a\"").count(), 60);
}

#[test]
fn many_small_items_take_bounded_memory() {
    // Empty pods have the longest JSON for two bytes.
    let items = field(2, b"").repeat(50_000);
    let pods = MessageType::of("v1", "PodList").unwrap().decode(&items, NEWEST_MINOR).unwrap();
    assert!(pods.len() < 64 * items.len(), "{} bytes for {}", pods.len(), items.len());
    let json = format!(r#"{{"apiVersion":"v1","kind":"PodList","items":[{}]}}"#, "{},".repeat(50_000) + "{}");
    let value = to_protobuf(json.as_bytes()).unwrap();
    assert!(value.len() < 64 * json.len(), "{} bytes for {}", value.len(), json.len());
    // Repeated fields of one message.
    let names = field(1, &field(1, b"")).repeat(50_000);
    let map = MessageType::of("v1", "ConfigMap").unwrap().decode(&names, NEWEST_MINOR).unwrap();
    assert_eq!(map, br#"{"metadata":{}}"#);
}
