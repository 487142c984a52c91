//! Compares the protobuf writer, which reads JSON, with an encoder of value trees.

use serde_json::{Map, Value, json};
use windlass_api::Entropy;

use super::{
    super::{
        base64,
        protobuf::try_to_protobuf,
        time::{self, Precision},
        types::{self, Kind, MessageTarget, Special, Struct, Type},
    },
    generate::Generator,
    *,
};
use crate::encoded::push_json;

const CRD: (&str, &str, &str) = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition");

// === the encoder of trees ===

/// Encodes an object of a struct as a message.
fn message(shape: &'static Struct, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for field in &shape.messages {
        match field.target {
            MessageTarget::Field(index) => {
                let declared = &shape.fields[index];
                fields(field.number, &declared.ty, value.get(declared.name).unwrap_or(&Value::Null), &mut out);
            }
            MessageTarget::Embedded { inner, .. } => bytes(field.number, &message(inner.get(), value), &mut out),
        }
    }
    out
}

/// Encodes all occurrences of a field.
fn fields(number: u32, ty: &Type, value: &Value, out: &mut Vec<u8>) {
    match (&ty.kind, value) {
        (Kind::Pointer(_) | Kind::Bytes, Value::Null) => {}
        (Kind::Pointer(inner), _) => fields(number, inner, value, out),
        (Kind::Slice(element), _) if !ty.wrapped => {
            for item in value.as_array().into_iter().flatten() {
                single(number, element, item, out);
            }
        }
        (Kind::Map { value: element, .. }, _) => {
            let mut entries: Vec<_> = value.as_object().into_iter().flatten().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            for (key, value) in entries {
                let mut entry = Vec::new();
                bytes(1, key.as_bytes(), &mut entry);
                single(2, element, value, &mut entry);
                bytes(number, &entry, out);
            }
        }
        _ => single(number, ty, value, out),
    }
}

fn single(tag: u32, ty: &Type, value: &Value, out: &mut Vec<u8>) {
    match &ty.kind {
        Kind::String => bytes(tag, text(value), out),
        Kind::Bool => number(tag, u64::from(value == &Value::Bool(true)), out),
        Kind::Int32 | Kind::Int64 | Kind::Uint8 => number(tag, integer(value), out),
        Kind::Float64 => {
            varint(u64::from(tag << 3 | 1), out);
            out.extend_from_slice(&value.as_f64().unwrap_or_default().to_le_bytes());
        }
        Kind::Bytes => bytes(tag, &base64::decode(value.as_str().unwrap_or_default()), out),
        Kind::Struct(inner) => bytes(tag, &message(inner.get(), value), out),
        Kind::Special(kind) => bytes(tag, &special(*kind, value), out),
        Kind::Pointer(inner) => single(tag, inner, value, out),
        Kind::Slice(element) => {
            let mut list = Vec::new();
            for item in value.as_array().into_iter().flatten() {
                single(1, element, item, &mut list);
            }
            bytes(tag, &list, out);
        }
        Kind::Map { .. } => {}
    }
}

fn special(special: Special, value: &Value) -> Vec<u8> {
    let schema = |value: &Value| message(types::json_schema().get(), value);
    let mut out = Vec::new();
    match special {
        Special::Quantity => bytes(1, if value.is_null() { b"0" } else { text(value) }, &mut out),
        Special::IntOrString => {
            number(1, u64::from(value.is_string()), &mut out);
            number(2, integer(value), &mut out);
            bytes(3, text(value), &mut out);
        }
        Special::Time | Special::MicroTime => {
            let precision = if special == Special::Time { Precision::Seconds } else { Precision::Micros };
            if let Some((seconds, nanos)) = time::to_unix(value.as_str().unwrap_or_default(), precision) {
                number(1, seconds.cast_unsigned(), &mut out);
                number(2, u64::from(nanos), &mut out);
            }
        }
        Special::Duration => {
            let nanos = time::parse_duration(value.as_str().unwrap_or_default());
            number(1, nanos.unwrap_or_default().cast_unsigned(), &mut out);
        }
        Special::SchemaOrBool => {
            number(1, u64::from(value.is_object() || value == &Value::Bool(true)), &mut out);
            if value.is_object() {
                bytes(2, &schema(value), &mut out);
            }
        }
        _ if value.is_null() => {}
        Special::FieldsV1 | Special::RawExtension | Special::Json => bytes(1, &encode(value), &mut out),
        Special::SchemaOrArray | Special::SchemaOrStringArray => match value {
            Value::Array(items) => {
                for item in items {
                    let item = if special == Special::SchemaOrArray { schema(item) } else { text(item).to_vec() };
                    bytes(2, &item, &mut out);
                }
            }
            _ => bytes(1, &schema(value), &mut out),
        },
    }
    out
}

fn text(value: &Value) -> &[u8] {
    value.as_str().unwrap_or_default().as_bytes()
}

fn integer(value: &Value) -> u64 {
    value.as_i64().unwrap_or_default().cast_unsigned()
}

fn number(tag: u32, value: u64, out: &mut Vec<u8>) {
    varint(u64::from(tag << 3), out);
    varint(value, out);
}

fn bytes(tag: u32, bytes: &[u8], out: &mut Vec<u8>) {
    varint(u64::from(tag << 3 | 2), out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn varint(value: u64, out: &mut Vec<u8>) {
    let mut rest = value;
    while rest >= 0x80 {
        out.push(u8::try_from(rest & 0x7F).unwrap() | 0x80);
        rest >>= 7;
    }
    out.push(u8::try_from(rest).unwrap());
}

/// Returns the expected encoding of a document.
fn expected(plan: &Plan, document: &Value) -> Option<Vec<u8>> {
    let (api_version, kind) = (document["apiVersion"].as_str()?, document["kind"].as_str()?);
    if plan.shape().messages.is_empty() {
        return None;
    }
    let (mut out, mut meta) = (b"k8s\0".to_vec(), Vec::new());
    bytes(1, api_version.as_bytes(), &mut meta);
    bytes(2, kind.as_bytes(), &mut meta);
    bytes(1, &meta, &mut out);
    bytes(2, &message(plan.shape(), document), &mut out);
    bytes(3, b"", &mut out);
    bytes(4, b"", &mut out);
    Some(out)
}

// === tests ===

/// Asserts that a document is encoded like its tree, in the form in which it is stored and in other forms.
fn check(plan: &Plan, document: &Value) {
    let expected = expected(plan, document);
    let mut stored = Vec::new();
    push_json(document, &mut stored);
    for text in [stored, encode(document), serde_json::to_vec_pretty(document).unwrap()] {
        assert!(to_protobuf(&text) == expected, "{}: {}", plan.kind, String::from_utf8_lossy(&text));
    }
}

/// Returns generated objects of every kind, with their plans: as clients may send them, and as the server stores them.
fn objects(densities: &[u64]) -> impl Iterator<Item = (&'static Plan, Value)> {
    let mut kinds: Vec<_> = types::all_kinds().collect();
    kinds.sort_unstable();
    let kinds = kinds.into_iter().enumerate().flat_map(|kind| densities.iter().map(move |density| (kind, *density)));
    kinds.flat_map(|((index, (group, version, kind)), density)| {
        let plan = plan(group, version, kind).unwrap();
        let sent = Generator::new(index as u64 * 100 + density, density).object(plan.shape());
        let decoded = plan.normalize(sent.clone(), FieldValidation::Ignore).unwrap().value;
        let mut sent = sent;
        for name in ["apiVersion", "kind"] {
            sent[name] = decoded[name].clone();
        }
        [(plan, decoded), (plan, sent)]
    })
}

#[test]
fn objects_of_every_kind_are_encoded_like_their_trees() {
    let mut count = 0;
    for (plan, object) in objects(&[10, 7, 5, 3, 1]) {
        check(plan, &object);
        count += 1;
    }
    assert!(count > 1_000, "{count} objects");
}

#[test]
fn values_of_other_types_are_encoded_like_their_trees() {
    let values = [
        json!(null),
        json!(true),
        json!(false),
        json!(-7),
        json!(1.5),
        json!(-0.0),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("true"),
        json!("7"),
        json!("a\"\u{1F600}\n"),
        json!([]),
        json!(["a", 1, null, {"type": "string"}]),
        json!({}),
        json!({"b": "2", "a": "1", "type": {}}),
    ];
    let entropy = Entropy::seeded(7);
    for (plan, object) in objects(&[8, 3]) {
        for _ in 0..4 {
            let mut changed = object.clone();
            replace_values(&mut changed, 6, &values, &entropy);
            for name in ["apiVersion", "kind"] {
                changed[name] = object[name].clone();
            }
            check(plan, &changed);
        }
    }
}

/// Replaces one of `rarity` values below an object.
fn replace_values(value: &mut Value, rarity: u64, values: &[Value], entropy: &Entropy) {
    let children: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(entries) => entries.values_mut().collect(),
        _ => return,
    };
    for child in children {
        if entropy.below(rarity) == 0 {
            let index = usize::try_from(entropy.below(values.len() as u64)).unwrap();
            *child = values[index].clone();
        } else {
            replace_values(child, rarity, values, entropy);
        }
    }
}

#[test]
fn order_and_repetition_of_keys_do_not_matter() {
    let text = |metadata: &str| {
        format!(
            r#"{{"data":{{"b":"1","a":"2","\u0061b":"3"}},"metadata":{metadata},"kind":"ConfigMap","unknown":{{"x":["\ud83d\ude00"]}},"apiVersion":"v1"}}"#
        )
    };
    let plan = of(CONFIG_MAP);
    let ordered = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c", "labels": {"x": "2"}},
        "data": {"a": "2", "ab": "3", "b": "1"}});
    let expected = expected(plan, &ordered);
    for metadata in [
        r#"{"labels":{"x":"2"},"name":"c"}"#,
        r#"{"labels":{"x":"1","x":"2"},"name":"b","name":"c"}"#,
        r#"{"labels":{"y":"1"},"name":null,"labels":{"x":"2"},"n\u0061me":"c"}"#,
    ] {
        assert_eq!(to_protobuf(text(metadata).as_bytes()), expected, "{metadata}");
    }
}

#[test]
fn untyped_values_are_encoded_like_their_trees() {
    for value in [
        r#"{"f:metadata":{"f:labels":{".":{},"k:{\"a\":1}":{}}}}"#,
        r#"{"<&>":"\u003c\u0026\u003e\/\u2028\b\f\n\r\t\u0001\\"}"#,
        "[0,-0,1.0,-1.5,1e3,1E-7,1e21,123456789012345678,1234567890123456789,18446744073709551615,12345678901234567890123]",
        " [ 1 , { \"a\" : null } ] ",
        r#""a<b""#,
        "true",
        "null",
    ] {
        let text = format!(
            r#"{{"kind":"ControllerRevision","apiVersion":"apps/v1","metadata":{{"managedFields":[{{"fieldsV1":{value}}}]}},"data":{value},"revision":1}}"#
        );
        let document = serde_json::from_str(&text).unwrap();
        let expected = expected(of(("apps", "v1", "ControllerRevision")), &document);
        assert_eq!(to_protobuf(text.as_bytes()), expected, "{value}");
    }
}

#[test]
fn schemas_are_encoded_like_their_trees() {
    let schemas = [
        json!({"type": "object", "default": {"<": 1.0}, "minimum": 0.1, "maximum": 1e100, "enum": ["a", 1.5, null],
            "properties": {"b": {"items": [{"type": "string"}, 5]}, "a": {"items": {"type": "string"}}},
            "additionalProperties": {"type": "string"}, "additionalItems": true,
            "dependencies": {"x": ["a", "b"], "y": {"type": "string"}, "z": null}}),
        json!({"additionalProperties": [], "additionalItems": false, "items": "x", "dependencies": {"x": 5}}),
    ];
    for schema in schemas {
        let versions = json!([{"name": "v1", "schema": {"openAPIV3Schema": schema}}]);
        let crd = json!({"kind": CRD.2, "apiVersion": "apiextensions.k8s.io/v1", "spec": {"versions": versions}});
        check(of(CRD), &crd);
    }
}

#[test]
fn damaged_json_fails_like_the_parser_of_trees() {
    let text = json!({"kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "a\n\u{1F600}", "labels": {"a": "b"}, "managedFields": [{"fieldsV1": {"f:a": {"\u{1}": [1.5e3, -2]}}}]},
        "spec": {"hostNetwork": true, "priority": -10, "containers": [{"name": "a", "ports": [{"containerPort": 80}, {}]}]},
        "unknown": [null, false, {"a": 0.5, "b": "\u{2028}\\"}]});
    let mut stored = Vec::new();
    push_json(&text, &mut stored);
    assert!(to_protobuf(&stored).is_some());
    let mut failures = 0;
    for at in 0..stored.len() {
        let mut damaged = vec![stored[..at].to_vec()];
        for other in *b"\"\\{}[]:,0.-e u\x01\xff" {
            damaged.push([&stored[..at], &[other], &stored[at + 1..]].concat());
            damaged.push([&stored[..at], &[other], &stored[at..]].concat());
        }
        for text in damaged {
            let tree = serde_json::from_slice::<Value>(&text);
            let kind = tree.as_ref().map(|tree| (tree["kind"].as_str(), tree["apiVersion"].as_str()));
            let written = try_to_protobuf(&text);
            match (kind, written) {
                (Ok((Some("Pod"), Some("v1"))), Ok(written)) => assert_eq!(written, expected(of(POD), &tree.unwrap())),
                (Err(_), Err(_)) => failures += 1,
                // A damaged kind may have no message, and the rest is not read then.
                (_, Ok(None)) => {}
                (_, written) => panic!("{written:?} for {}", String::from_utf8_lossy(&text)),
            }
        }
    }
    assert!(failures > 1_000, "{failures} failures");
}

#[test]
fn deep_json_fails_like_the_parser_of_trees() {
    let deep = |depth: usize| {
        let (open, close) = (r#"{"not":"#.repeat(depth), "}".repeat(depth));
        let schema = format!("{open}{{}}{close}");
        let spec = format!(r#"{{"versions":[{{"schema":{{"openAPIV3Schema":{schema}}}}}]}}"#);
        format!(r#"{{"kind":"{}","apiVersion":"apiextensions.k8s.io/v1","spec":{spec}}}"#, CRD.2)
    };
    let mut accepted = 0;
    for depth in [1, 50, 100, 110, 115, 118, 119, 120, 121, 122, 123, 125, 130, 10_000] {
        let text = deep(depth);
        let written = try_to_protobuf(text.as_bytes());
        assert_eq!(written.is_ok(), serde_json::from_str::<Value>(&text).is_ok(), "{depth}");
        accepted += usize::from(written.is_ok());
    }
    assert!((4..14).contains(&accepted), "{accepted}");
}

#[test]
fn structs_have_fields_for_the_parser() {
    for shape in types::all_structs() {
        assert!(shape.fields.len() <= 128, "{}", shape.name);
        let mut names: Vec<_> = shape.fields.iter().map(|field| field.name).collect();
        names.sort_unstable();
        assert!(names.is_sorted_by(|one, other| one < other), "{} has two fields of one name", shape.name);
    }
}

#[test]
fn lists_and_frames_contain_the_documents() {
    let item = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let head = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}});
    let list = ProtobufList::of(&encode(&head)).unwrap();
    let mut items = Vec::new();
    list.push(&encode(&item), &mut items);
    list.push(&encode(&item), &mut items);
    let (before, after) = ProtobufList::frame(&encode(&head), items.len());
    let mut whole: Map<String, Value> = head.as_object().unwrap().clone();
    whole.insert("items".into(), json!([item, item]));
    let expected_list = expected(of(("", "v1", "ConfigMapList")), &whole.into()).unwrap();
    assert_eq!([&*before, &*items, after].concat(), expected_list);

    let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"k": "v".repeat(1000)}});
    let (mut event, mut raw) = (Vec::new(), Vec::new());
    bytes(1, &expected(of(CONFIG_MAP), &object).unwrap(), &mut raw);
    bytes(1, b"ADDED", &mut event);
    bytes(2, &raw, &mut event);
    let frame = protobuf_frame("ADDED", &encode(&object)).unwrap();
    let (length, message) = frame.split_first_chunk().unwrap();
    assert_eq!((u32::from_be_bytes(*length) as usize, message), (event.len(), &*event));
}
