//! Creates of objects in JSON. Input: a line with the kind, then the body.
#![no_main]

use windlass_fuzz::{JSON, PROTOBUF, create};

libfuzzer_sys::fuzz_target!(|data: &[u8]| create(data, JSON, &format!("{PROTOBUF},{JSON}")));
