//! Schemas of custom resources. Input: a line with an object in JSON, then its schema.
#![no_main]

use windlass_fuzz::{TEST_SERVER, first_line};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (object, schema) = first_line(data);
    // Other targets test invalid JSON.
    let (Ok(object), Ok(schema)) = (serde_json::from_slice(object), serde_json::from_slice(schema)) else { return };
    TEST_SERVER.define(&schema, &object);
});
