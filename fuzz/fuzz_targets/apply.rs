//! Server-side apply to existing objects. Input: a line with the kind, then YAML that follows the name, or a complete
//! document.
#![no_main]

use bytes::Bytes;
use windlass_fuzz::{JSON, TEST_SERVER, first_line};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (kind, applied) = first_line(data);
    let object = TEST_SERVER.object(kind);
    let name = if object.kind == "CustomResourceDefinition" { "foos.ex.io" } else { "x" };
    let head = format!("apiVersion: {}\nkind: {}\nmetadata:\n  name: {name}\n", object.api_version, object.kind);
    for body in [[head.as_bytes(), applied].concat(), applied.to_vec()] {
        for force in ["false", "true"] {
            let path = format!("{}/{name}?dryRun=All&fieldManager=fuzz&force={force}", object.collection);
            let body = Bytes::copy_from_slice(&body);
            TEST_SERVER.ask("PATCH", &path, "application/apply-patch+yaml", JSON, body).check();
        }
    }
});
