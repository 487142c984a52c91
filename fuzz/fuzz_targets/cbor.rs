//! CBOR: the result does not depend on the chunks, the output is JSON, and JSON survives both directions. Input: the length of the
//! chunks in the first byte. The rest is used as a document, and as the seed of a generated document in JSON.
#![no_main]

use serde_json::Value;
use windlass_cbor::{Decoder, Floats, append_json, from_json, to_json};
use windlass_fuzz::json;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((length, mut rest)) = data.split_first() else { return };
    let length = usize::from(*length).max(1);
    let whole = to_json(rest);
    assert_eq!(decode(Decoder::document(), rest, length), whole.as_ref().ok().cloned(), "in chunks of {length}");
    let events = decode(Decoder::sequence(), rest, length);
    if let Ok(whole) = &whole {
        assert_eq!(events.as_ref(), Some(&[whole, &b"\n"[..]].concat()));
        // Nesting of more than 128 levels is only an error of serde_json.
        let parsed = serde_json::from_slice::<Value>(whole);
        assert!(parsed.is_ok() || parsed.is_err_and(|error| error.to_string().contains("recursion")));
    }
    let _ = from_json(rest);

    let mut text = String::new();
    json::write(&mut rest, 6, &mut text);
    // Objects with duplicate keys are an error in CBOR only.
    let Ok(value) = serde_json::from_str::<Value>(&text) else { return };
    let text = value.to_string();
    let mut cbor = Vec::new();
    append_json(text.as_bytes(), &mut cbor).expect("serde_json writes JSON");
    let back = decode(Decoder::document().with_floats(Floats::Kept), &cbor, length).expect("it was encoded here");
    assert_eq!(floats(serde_json::from_slice(&back).unwrap()), floats(value), "{text}");
});

fn decode(mut decoder: Decoder, document: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut json = Vec::new();
    for chunk in document.chunks(length) {
        decoder.push(chunk, &mut json).ok()?;
    }
    decoder.finish().ok().map(|()| json)
}

/// Returns a value with the integers that do not fit into 64 bits with a sign as floats.
fn floats(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_u64() && !number.is_i64() => number.as_f64().into(),
        Value::Array(items) => items.into_iter().map(floats).collect(),
        Value::Object(members) => members.into_iter().map(|(key, value)| (key, floats(value))).collect(),
        other => other,
    }
}
