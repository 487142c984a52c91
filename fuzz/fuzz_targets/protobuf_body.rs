//! Creates of objects in protobuf. Input: a line with the kind, then a message, or an envelope with a message.
#![no_main]

use windlass_fuzz::{JSON, PROTOBUF, create, first_line};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (kind, message) = first_line(data);
    if message.starts_with(b"k8s\0") {
        return create(data, PROTOBUF, PROTOBUF);
    }
    // Without a type, the path determines the kind.
    let mut body = [kind, b"\nk8s\0\x12"].concat();
    let mut length = message.len();
    while length >= 0x80 {
        body.push((length & 0x7F) as u8 | 0x80);
        length >>= 7;
    }
    body.push(length as u8);
    body.extend_from_slice(message);
    create(&body, PROTOBUF, JSON);
});
