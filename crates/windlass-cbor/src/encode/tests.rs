use serde_json::{Value, json};

use super::*;
use crate::{Decoder, Floats, to_json};

fn encoded(json: &str) -> String {
    let mut out = Vec::new();
    append_json(json.as_bytes(), &mut out).unwrap();
    out.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn encoding_is_that_of_go_for_unstructured_objects() {
    for (json, cbor) in [
        (r#"{"a":[1,-1,24,256,65536,4294967296]}"#, "a1416186012018181901001a000100001b0000000100000000"),
        (r#"{"b":true,"c":false,"d":null}"#, "a34162f54163f44164f6"),
        (
            "[0.0,1.0,1.5,65504.0,100000.0,1.1,1e300]",
            "87f90000f93c00f93e00f97bfffa47c35000fb3ff199999999999afb7e37e43c8800759c",
        ),
        ("[9223372036854775807,-9223372036854775808]", "821b7fffffffffffffff3b7fffffffffffffff"),
        // An integer that does not fit is a float.
        ("[18446744073709551615]", "81fa5f800000"),
        (r#""ü\u00fc\ud83d\ude00\"\\\/\n""#, "4c c3bcc3bcf09f9880225c2f0a"),
        (" { } ", "a0"),
        ("[[],{},[{}]]", "8380a081a0"),
    ] {
        assert_eq!(encoded(json), cbor.replace(' ', ""), "{json}");
    }
    assert_eq!(from_json(b"{}").unwrap(), [0xd9, 0xd9, 0xf7, 0xa0]);
}

#[test]
fn long_maps_and_lists_have_definite_lengths() {
    let list: Vec<u32> = (0..300).collect();
    let map: Value = (0..30).map(|number| (number.to_string(), json!(list))).collect::<serde_json::Map<_, _>>().into();
    let cbor = from_json(map.to_string().as_bytes()).unwrap();
    assert_eq!(&cbor[3..9], [0xb8, 30, 0x41, b'0', 0x99, 1]);
    assert_eq!(serde_json::from_slice::<Value>(&to_json(&cbor).unwrap()).unwrap(), map);
}

#[test]
fn objects_survive_both_directions() {
    for json in [
        r#"{"apiVersion":"example.com/v1","items":[{"a":"\\","b":"\\\\n","c":"\u0000\u001f"}],"x":[1.5,-3,2.0,-0.0]}"#,
        r#"{"":{"":[[[]]]},"ключ":"значение","\"":"\\\""}"#,
    ] {
        let mut out = Vec::new();
        let mut decoder = Decoder::document().with_floats(Floats::Kept);
        decoder.push(&from_json(json.as_bytes()).unwrap(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), json);
    }
}

#[test]
fn text_that_is_not_json_is_an_error() {
    for text in [
        "",
        "{",
        "[",
        "[1,]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{1:2}",
        "{\"a\":1]",
        "[1}",
        "]",
        "1 2",
        "tru",
        "\"",
        "\"\\",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\ud800\"",
        "\"\\ud800x\"",
        "\"\\u+123\"",
        "+1",
        "-",
        "1e999",
        "a",
        "[,1]",
        "{,}",
    ] {
        let outcome = from_json(text.as_bytes());
        assert!(matches!(outcome, Err(Error::Json { .. })), "{text}: {outcome:?}");
    }
    assert!(from_json(b"\"\xff\"").is_err());
}

#[test]
fn parts_of_documents_have_the_same_encoding() {
    let mut parts = Vec::new();
    append_map(1, &mut parts);
    append_text("items", &mut parts);
    append_list(2, &mut parts);
    append_json(b"{}", &mut parts).unwrap();
    append_json(b"7", &mut parts).unwrap();
    let mut whole = Vec::new();
    append_json(br#"{"items":[{},7]}"#, &mut whole).unwrap();
    assert_eq!(parts, whole);
}
