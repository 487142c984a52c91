//! Schemas of custom resources: the first line is an object in JSON, the rest the schema that it is to have.
#![no_main]

use windlass_fuzz::{SUBJECT, first_line};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (object, schema) = first_line(data);
    // What is no JSON at all is the matter of other targets.
    let (Ok(object), Ok(schema)) = (serde_json::from_slice(object), serde_json::from_slice(schema)) else { return };
    SUBJECT.define(&schema, &object);
});
