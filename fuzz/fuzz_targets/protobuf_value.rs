//! Values in protobuf: a value that can be converted to JSON can be deserialized. Metadata and single members are read in
//! place. Input: a line with API version and kind, then a message; or a value with its envelope.
#![no_main]

use serde_json::Value;
use windlass_fuzz::first_line;
use windlass_protobuf::{Metadata, Node, Reading, envelope_start, finalizers, from_protobuf, labels, meta, owner_references, to_json};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if windlass_protobuf::is_protobuf(data) {
        return check(data);
    }
    let (kind, message) = first_line(data);
    let kind = String::from_utf8_lossy(kind);
    let (version, kind) = kind.split_once(' ').unwrap_or(("v1", "Pod"));
    check(&[&envelope_start(version, kind, message.len()), message].concat());
});

fn check(value: &[u8]) {
    let json = to_json(value);
    let read = from_protobuf::<Value>(value);
    if let Ok(json) = &json {
        // Each reader counts nested values in its own way.
        let is_too_deep = read.as_ref().is_err_and(|error| error.to_string().contains("nested"));
        let parsed = serde_json::from_slice::<Value>(json);
        assert!(read.is_ok() || is_too_deep || parsed.is_err(), "{read:?} {parsed:?}");
    }
    if let Ok(reading) = Reading::new(value) {
        visit(&reading, reading.root());
        assert_eq!(reading.json(reading.root()).ok(), json.as_ref().ok().cloned());
    }
    meta(value);
    let Ok(Some(metadata)) = Metadata::read(value) else { return };
    let _ = labels(metadata.labels).count() + finalizers(metadata.finalizers).count();
    let _ = owner_references(metadata.owner_references).count();
    let Some(cut) = metadata.without_managed_fields(value) else { return };
    // Only the removed part can be damaged.
    assert!(json.is_err() || to_json(&cut.to_vec()).is_ok());
}

/// Reads every member and element on its own. Errors are expected, since the value may be damaged.
fn visit<'r>(reading: &'r Reading<'_>, node: Node<'r>) {
    if let Node::Message(message) = node {
        for name in reading.names(message) {
            if let Ok(Some(member)) = reading.member(node, name) {
                visit(reading, member);
            }
        }
    }
    let Ok(Some(mut elements)) = reading.elements(node) else { return };
    let is_list = matches!(node, Node::List(_));
    loop {
        let next = if is_list {
            reading.next_item(&mut elements)
        } else {
            reading.next_entry(&mut elements).map(|entry| entry.map(|(_, value)| value))
        };
        let Ok(Some(value)) = next else { return };
        visit(reading, value);
    }
}
