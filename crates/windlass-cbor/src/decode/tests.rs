use serde_json::{Value, json};

use super::*;
use crate::from_json;

/// Returns the bytes of hexadecimal digits. Spaces are ignored.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn decoded(text: &str) -> String {
    String::from_utf8(to_json(&hex(text)).unwrap()).unwrap()
}

fn problem(text: &str) -> Problem {
    match to_json(&hex(text)) {
        Err(Error::Cbor { problem, .. }) => problem,
        other => panic!("{text}: {other:?}"),
    }
}

/// Decodes chunks, taking the output after each.
fn in_chunks(mut decoder: Decoder, chunks: &[&[u8]]) -> Result<Vec<u8>, Error> {
    let mut whole = Vec::new();
    for chunk in chunks {
        let mut out = Vec::new();
        decoder.push(chunk, &mut out)?;
        whole.append(&mut out);
    }
    decoder.finish()?;
    Ok(whole)
}

#[test]
fn scalars_have_the_json_of_go() {
    for (cbor, json) in [
        ("00", "0"),
        ("1817", "23"),
        ("1b7fffffffffffffff", "9223372036854775807"),
        ("20", "-1"),
        ("3b7fffffffffffffff", "-9223372036854775808"),
        ("f4", "false"),
        ("f5", "true"),
        ("d9d9f7f6", "null"),
        ("f93c00", "1"),
        ("f93e00", "1.5"),
        ("f90001", "5.960464477539063e-8"),
        ("f98000", "-0"),
        ("fbc3b0000000000000", "-1152921504606847000"),
        ("fa47c35000", "100000"),
        ("fb3ff199999999999a", "1.1"),
        ("fb7e37e43c8800759c", "1e300"),
        ("40", "\"\""),
        ("4161", "\"a\""),
        ("62c3bc", "\"ü\""),
        ("46 0a0d0922 5c 01", r#""\n\r\t\"\\\u0001""#),
    ] {
        assert_eq!(decoded(cbor), json, "{cbor}");
    }
}

#[test]
fn maps_and_lists_have_definite_or_indefinite_lengths() {
    assert_eq!(decoded("a2 6161 01 4162 82 02 80"), r#"{"a":1,"b":[2,[]]}"#);
    assert_eq!(decoded("bf 6161 9f ff 4162 bf ff ff"), r#"{"a":[],"b":{}}"#);
    assert_eq!(decoded("5f 4161 40 42c3bc ff"), "\"aü\"");
    // A character may be cut in byte strings, not in text strings.
    assert_eq!(decoded("5f 41c3 41bc ff"), "\"ü\"");
    assert_eq!(problem("7f 61c3 61bc ff"), Problem::Utf8);
    assert_eq!(decoded("bf 7f 6161 6162 ff 01 ff"), r#"{"ab":1}"#);
}

#[test]
fn byte_strings_get_the_expected_encoding() {
    assert_eq!(decoded("d6 43 fffefd"), "\"//79\"");
    assert_eq!(decoded("d6 42 fffe"), "\"//4=\"");
    assert_eq!(decoded("d5 42 fffe"), "\"__4\"");
    assert_eq!(decoded("d7 42 fffe"), "\"fffe\"");
    // A tag applies to what it contains, until another one does, but not to text strings.
    assert_eq!(decoded("d6 83 41ff 6161 d7 41ff"), r#"["/w==","a","ff"]"#);
    assert_eq!(decoded("d6 5f 41ff 42fefd ff"), "\"//79\"");
}

#[test]
fn times_become_text() {
    assert_eq!(decoded("c0 74 323031332d30332d32315432303a30343a30305a"), "\"2013-03-21T20:04:00Z\"");
    assert_eq!(decoded("c1 1a514b67b0"), "\"2013-03-21T20:04:00Z\"");
    assert_eq!(decoded("c1 fb41d452d9ec200000"), "\"2013-03-21T20:04:00.5Z\"");
    for wrong in ["c0 01", "c1 6161", "c1 f97c00", "c1 1b7fffffffffffffff", "c0 c1 01"] {
        assert_eq!(problem(wrong), Problem::Tag, "{wrong}");
    }
}

#[test]
fn input_that_kubernetes_rejects_is_an_error() {
    for (cbor, expected) in [
        ("", Problem::Truncated),
        ("d9d9f7", Problem::Truncated),
        ("82 01", Problem::Truncated),
        ("43 6161", Problem::Truncated),
        ("01 02", Problem::Trailing),
        ("1c", Problem::Malformed),
        ("1f", Problem::Malformed),
        ("df", Problem::Malformed),
        ("ff", Problem::Break),
        ("81 ff", Problem::Break),
        ("bf 6161 ff", Problem::Break),
        ("9f d6 ff", Problem::Break),
        ("5f 6161 ff", Problem::Chunk),
        ("5f 5f 4161 ff ff", Problem::Chunk),
        ("a1 01 02", Problem::Key),
        ("a1 80 02", Problem::Key),
        ("a2 6161 01 6161 02", Problem::Duplicate),
        ("a2 6161 01 4161 02", Problem::Duplicate),
        ("bf 6161 01 5f 4161 ff 02 ff", Problem::Duplicate),
        ("62 c328", Problem::Utf8),
        ("41 ff", Problem::Utf8),
        ("1b8000000000000000", Problem::Integer),
        ("3b8000000000000000", Problem::Integer),
        ("c2 41 01", Problem::Tag),
        ("f97e00", Problem::Float),
        ("f97c00", Problem::Float),
        ("faff800000", Problem::Float),
        ("f7", Problem::Simple),
        ("f0", Problem::Simple),
        ("f8 20", Problem::Simple),
    ] {
        assert_eq!(problem(cbor), expected, "{cbor}");
    }
    let error = to_json(&hex("a2 6161 01 6161 02")).unwrap_err().to_string();
    assert_eq!(error, "cannot decode CBOR at byte 7: duplicate key in a map");
}

#[test]
fn equal_keys_of_different_maps_are_no_duplicates() {
    assert_eq!(decoded("a2 6161 a1 6161 01 6162 a1 6161 02"), r#"{"a":{"a":1},"b":{"a":2}}"#);
}

#[test]
fn nesting_and_keys_are_limited() {
    let nested = |depth: usize| [vec![0x81; depth], vec![0x01]].concat();
    assert!(to_json(&nested(MAX_DEPTH)).is_ok());
    assert_eq!(to_json(&nested(MAX_DEPTH + 1)).unwrap_err(), Error::Cbor { offset: 10_001, problem: Problem::Depth });
    let mut long = hex("a1 5a 00100001");
    long.resize(long.len() + MAX_KEY + 1, b'a');
    assert!(matches!(to_json(&long), Err(Error::Cbor { problem: Problem::Keys, .. })));
}

#[test]
fn huge_announced_lengths_need_no_memory() {
    for cbor in ["9b ffffffffffffffff 01", "bb 7fffffffffffffff 6161 01", "5b ffffffffffffffff 61"] {
        assert_eq!(problem(cbor), Problem::Truncated, "{cbor}");
    }
}

#[test]
fn document_cut_anywhere_has_the_same_json() {
    let document = hex(
        "d9d9f7 a6 4161 d6 44 fffefdfc 6162 5f 42c3bc 41c3 41bc ff 4163 9f fb3ff199999999999a 39ffff 1a00010000 ff \
         4164 f6 4165 d7 82 42 abcd 62c3bc 4166 a0",
    );
    let whole = to_json(&document).unwrap();
    let expected =
        json!({"a": "//79/A==", "b": "üü", "c": [1.1, -65536, 65536], "d": null, "e": ["abcd", "ü"], "f": {}});
    assert_eq!(serde_json::from_slice::<Value>(&whole).unwrap(), expected);
    for at in 0..=document.len() {
        let (first, second) = document.split_at(at);
        assert_eq!(in_chunks(Decoder::document(), &[first, second]).unwrap(), whole, "cut at {at}");
        if at < document.len() {
            assert!(in_chunks(Decoder::document(), &[first]).is_err(), "truncated at {at}");
        }
    }
    let bytes: Vec<&[u8]> = document.chunks(1).collect();
    assert_eq!(in_chunks(Decoder::document(), &bytes).unwrap(), whole);
}

#[test]
fn items_of_a_sequence_end_with_newlines() {
    let sequence = hex("d9d9f7 a1 4161 01 d9d9f7 80 05");
    let whole = in_chunks(Decoder::sequence(), &[&sequence]).unwrap();
    assert_eq!(String::from_utf8(whole).unwrap(), "{\"a\":1}\n[]\n5\n");
    assert_eq!(in_chunks(Decoder::sequence(), &[]).unwrap(), b"");
    assert!(in_chunks(Decoder::sequence(), &[&sequence[..3]]).is_err());
    assert!(in_chunks(Decoder::sequence(), &[&sequence[..6]]).is_err());
}

#[test]
fn floats_can_stay_floats() {
    let floats = from_json(b"[2.0,2,1e30,-0.5]").unwrap();
    let kept = in_chunks(Decoder::document().with_floats(Floats::Kept), &[&floats]).unwrap();
    assert_eq!(String::from_utf8(kept).unwrap(), "[2.0,2,1e30,-0.5]");
    assert_eq!(to_json(&floats).unwrap(), b"[2,2,1e30,-0.5]");
}
