//! The ends of JSON objects and arrays, found by counting brackets. They must equal those of serde_json, for all piece
//! lengths. Input: the length of the pieces in the first byte. The rest is used as a document, and as the seed of a
//! generated document.
#![no_main]

use serde::de::IgnoredAny;
use windlass_api::Skipper;
use windlass_fuzz::json;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((length, mut rest)) = data.split_first() else { return };
    let length = usize::from(*length).max(1);
    check(rest, length);
    let mut text = String::from(if rest.first().is_some_and(|byte| byte % 2 == 0) { "[" } else { "[{},\"x\"," });
    json::write(&mut rest, 6, &mut text);
    text.push_str("] } ] \"");
    assert!(check(text.as_bytes(), length), "{text}");
});

/// Reports whether `bytes` begin with a well-formed object or array, and checks its end.
fn check(bytes: &[u8], length: usize) -> bool {
    let mut skipper = Skipper::default();
    let whole = skipper.advance(bytes);
    let mut skipper = Skipper::default();
    let mut walked = 0;
    let mut found = None;
    for piece in bytes.chunks(length) {
        if let Some(end) = skipper.advance(piece) {
            found = Some(walked + end);
            break;
        }
        walked += piece.len();
    }
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<IgnoredAny>();
    let is_value = matches!(bytes.first(), Some(b'{' | b'[')) && matches!(values.next(), Some(Ok(_)));
    if is_value {
        // Malformed input may end anywhere, and elsewhere if it is split.
        assert_eq!((whole, found), (Some(values.byte_offset()), whole), "in pieces of {length}");
    }
    is_value
}
