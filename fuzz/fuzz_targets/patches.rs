//! Patches of existing objects. Input: a line with the kind, then the patch, which is sent with each of the three
//! types.
#![no_main]

use bytes::Bytes;
use windlass_fuzz::{JSON, TEST_SERVER, first_line};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (kind, patch) = first_line(data);
    let object = TEST_SERVER.object(kind);
    let name = if object.kind == "CustomResourceDefinition" { "foos.ex.io" } else { "x" };
    for content_type in
        ["application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"]
    {
        let path = format!("{}/{name}?dryRun=All", object.collection);
        TEST_SERVER.ask("PATCH", &path, content_type, JSON, Bytes::copy_from_slice(patch)).check();
    }
});
