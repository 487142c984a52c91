//! CEL expressions. Input: a line with an object in JSON, then an expression about it. Every expression that compiles
//! must end within its budget.
#![no_main]

use std::sync::LazyLock;

use serde_json::{Value, json};
use windlass_cel::{LIMIT_PER_CALL, Program};
use windlass_fuzz::first_line;

/// A schema with all supported types.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({"type": "object", "properties": {
        "n": {"type": "integer"}, "f": {"type": "number"}, "b": {"type": "boolean"}, "s": {"type": "string", "maxLength": 100},
        "e": {"type": "string", "enum": ["a", "b"]}, "d": {"type": "string", "format": "date-time"},
        "u": {"type": "string", "format": "duration"}, "y": {"type": "string", "format": "byte"},
        "l": {"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 100}},
        "x": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "p": {"x-kubernetes-int-or-string": true}, "r": {"x-kubernetes-preserve-unknown-fields": true}}})
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (object, source) = first_line(data);
    let Ok(source) = std::str::from_utf8(source) else { return };
    let Ok(program) = Program::compile(source, &SCHEMA) else { return };
    let object = serde_json::from_slice(object).unwrap_or_else(|_| json!({}));
    for limit in [1_000, LIMIT_PER_CALL] {
        let outcome = program.condition(&[("self", Some(&object)), ("oldSelf", Some(&object))], limit);
        assert!(outcome.cost <= limit || outcome.result.is_err(), "{source}: {outcome:?}");
    }
});
