//! Creates of objects in YAML. Input: a line with the kind, then the body.
#![no_main]

use windlass_fuzz::{YAML, create};

libfuzzer_sys::fuzz_target!(|data: &[u8]| create(data, YAML, YAML));
