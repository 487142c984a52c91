//! Messages and JSON in forms that Go does not write, and errors with their places. The results are those of Go's
//! generated code.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use windlass_protobuf::{
    Error, MessageType, NEWEST_MINOR, is_protobuf, knows, to_json, to_json_for, to_protobuf, to_protobuf_for, type_of,
};

/// Returns a field with a length.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    assert!(number < 16 && length < 0x80, "one byte each");
    [&[number << 3 | 2, length], content].concat()
}

fn decode(kind: &str, message: &[u8]) -> Result<String, Error> {
    let json = MessageType::of("v1", kind).unwrap().decode(message, NEWEST_MINOR)?;
    Ok(String::from_utf8(json).unwrap())
}

fn decode_error(kind: &str, message: &[u8]) -> String {
    decode(kind, message).unwrap_err().to_string()
}

fn encode_error(json: &str) -> String {
    to_protobuf(json.as_bytes()).unwrap_err().to_string()
}

#[test]
fn maps_are_sorted_and_their_last_equal_key_counts() {
    let entry = |key: &[u8], value: &[u8]| field(2, &[field(1, key), field(2, value)].concat());
    let message = [entry(b"b", b"1"), entry(b"a", b"2"), entry(b"b", b"3"), entry(b"", b"4")].concat();
    assert_eq!(decode("ConfigMap", &message).unwrap(), r#"{"metadata":{},"data":{"":"4","a":"2","b":"3"}}"#);
    // The value before the key, a key without a value, and an empty entry.
    let message = [field(2, &[field(2, b"1"), field(1, b"z")].concat()), field(2, &field(1, b"y")), field(2, b"")];
    assert_eq!(decode("ConfigMap", &message.concat()).unwrap(), r#"{"metadata":{},"data":{"":"","y":"","z":"1"}}"#);
}

#[test]
fn bytes_that_are_not_utf8_are_replaced() {
    let entry = field(2, &[field(1, b"a\xFF"), field(2, b"<\xE2\x82\xC3\xA9\xFF\xE2\x80\xA8")].concat());
    let expected = r#"{"metadata":{},"data":{"a\ufffd":"\u003c\ufffd\ufffdé\ufffd\u2028"}}"#;
    assert_eq!(decode("ConfigMap", &entry).unwrap(), expected);
}

#[test]
fn repeated_messages_are_merged() {
    let name = field(1, &field(1, b"a"));
    let label = |key: &[u8]| field(1, &field(11, &[field(1, key), field(2, b"")].concat()));
    let message = [label(b"y"), name, label(b"x"), field(1, b"")].concat();
    let expected = r#"{"metadata":{"name":"a","labels":{"x":"","y":""}}}"#;
    assert_eq!(decode("ConfigMap", &message).unwrap(), expected);
    // The last scalar counts.
    let message = field(1, &[field(1, b"a"), vec![7 << 3, 1], field(1, b"b"), vec![7 << 3, 2]].concat());
    assert_eq!(decode("ConfigMap", &message).unwrap(), r#"{"metadata":{"name":"b","generation":2}}"#);
}

#[test]
fn fields_in_any_order_and_packed_lists_are_read() {
    let groups = |content: &[u8]| {
        let context = [&[4 << 3, 5, 4 << 3, 6][..], &field(4, &[7, 8, 0xFF, 1])].concat();
        field(2, &[field(14, &context), content.to_vec()].concat())
    };
    let json = decode("Pod", &groups(&field(3, b"Never"))).unwrap();
    assert!(json.contains(r#""restartPolicy":"Never""#), "{json}");
    assert!(json.contains(r#""securityContext":{"supplementalGroups":[5,6,7,8,255]}"#), "{json}");
}

#[test]
fn unknown_fields_are_skipped() {
    let unknown = [
        &[0xF8, 0x7F, 5][..],                  // a varint
        &[0xF9, 0x7F, 1, 2, 3, 4, 5, 6, 7, 8], // eight bytes
        &[0xFA, 0x7F, 2, 0xFF, 0xFF],          // bytes
        &[0xFD, 0x7F, 1, 2, 3, 4],             // four bytes
    ];
    let message = [unknown.concat(), field(1, &field(1, b"a")), unknown.concat()].concat();
    assert_eq!(decode("ConfigMap", &message).unwrap(), r#"{"metadata":{"name":"a"}}"#);
    assert_eq!(
        decode_error("ConfigMap", &[0xFB, 0x7F, 0xFC, 0x7F]),
        "cannot decode ConfigMap at byte 2: unexpected wire type 3 or 4, a group"
    );
}

#[test]
fn malformed_messages_are_errors_with_their_place() {
    for (message, expected) in [
        (&[0x0A, 5, 0x0A][..], "cannot decode ConfigMap.metadata at byte 1: a length of 5, with 1 bytes left"),
        (&[0x0A, 2, 0x0A, 1], "cannot decode ObjectMeta.name at byte 3: a length of 1, with 0 bytes left"),
        (&[0x0A, 2, 0x08, 1], "cannot decode ObjectMeta.name at byte 3: unexpected wire type 0, a varint"),
        (&[0x0A, 2, 0x3A, 0], "cannot decode ObjectMeta.generation at byte 3: unexpected wire type 2, a length"),
        (&[0x12, 2, 0x12, 1], "cannot decode ConfigMap.data at byte 3: a length of 1, with 0 bytes left"),
        (&[0x12, 2, 0x10, 1], "cannot decode ConfigMap.data at byte 3: unexpected wire type 0, a varint"),
        (&[0x80], "cannot decode ConfigMap at byte 0: the data ends in a number"),
        (&[0x00], "cannot decode ConfigMap at byte 0: a field number out of range"),
        (&[0x0F], "cannot decode ConfigMap.metadata at byte 1: unexpected wire type 6 or 7"),
        (
            &[0x20, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1],
            "cannot decode ConfigMap.immutable at byte 1: a number of more than 64 bits",
        ),
    ] {
        assert_eq!(decode_error("ConfigMap", message), expected);
    }
}

#[test]
fn special_types_are_checked() {
    // metadata.creationTimestamp of the years 10,000 and 100,000, and one with the zero time.
    let time = |seconds: &[u8]| field(1, &field(8, &[&[8][..], seconds].concat()));
    let json = decode("ConfigMap", &time(&[0x80, 0x83, 0xD1, 0xFF, 0xAF, 0x07])).unwrap();
    assert_eq!(json, r#"{"metadata":{"creationTimestamp":"10000-01-01T00:00:00Z"}}"#);
    let error = decode_error("ConfigMap", &time(&[0x80, 0xD6, 0x8B, 0xA5, 0x84, 0x5A]));
    assert!(error.ends_with("a year that is negative or has more than five digits"), "{error}");
    let zero = [0x80, 0x92, 0xB8, 0xC3, 0x98, 0xFE, 0xFF, 0xFF, 0xFF, 1];
    assert_eq!(decode("ConfigMap", &time(&zero)).unwrap(), r#"{"metadata":{}}"#);
    // A limit range with a quantity.
    let quantity = |text: &[u8]| {
        let entry = field(2, &[field(1, b"a"), field(2, &field(1, text))].concat());
        field(2, &field(1, &entry))
    };
    let json = decode("LimitRange", &quantity(b"1024Ki")).unwrap();
    assert_eq!(json, r#"{"metadata":{},"spec":{"limits":[{"type":"","max":{"a":"1Mi"}}]}}"#);
    let error = decode_error("LimitRange", &quantity(b"x"));
    assert!(error.starts_with("cannot decode Quantity.string at byte "), "{error}");
    // A service with a port.
    let port = |target: &[u8]| field(2, &field(1, &field(4, target)));
    assert!(decode("Service", &port(&[8, 1, 26, 1, b'a'])).unwrap().contains(r#""targetPort":"a""#));
    assert!(decode("Service", &port(&[16, 5])).unwrap().contains(r#""targetPort":5"#));
    assert!(decode_error("Service", &port(&[8, 2])).ends_with("the unknown type 2"));
    // JSON in bytes.
    let list = |item: &[u8]| decode("List", &field(2, &field(1, item)));
    assert_eq!(list(b" {\"a\" : 1} ").unwrap(), r#"{"metadata":{},"items":[{"a":1}]}"#);
    assert_eq!(list(b"").unwrap(), r#"{"metadata":{},"items":[null]}"#);
    let error = list(b"{\"a\"").unwrap_err().to_string();
    assert_eq!(error, "cannot decode RawExtension.raw at byte 8: not JSON: unexpected end of the data");
}

#[test]
fn envelopes_are_checked() {
    let value = to_protobuf(br#"{"apiVersion":"v1","kind":"ConfigMap"}"#).unwrap();
    assert!(is_protobuf(&value));
    let (api_version, kind) = type_of(&value).unwrap();
    assert_eq!((&*api_version, &*kind), ("v1", "ConfigMap"));
    assert_eq!(to_json(&value).unwrap(), br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{}}"#);

    assert!(!is_protobuf(b"k8s"));
    assert_eq!(to_json(b"{}"), Err(Error::Prefix));
    let unknown = |message: Vec<u8>| to_json(&[b"k8s\0".to_vec(), message].concat()).unwrap_err().to_string();
    let kind = |name: &[u8]| field(1, &[field(1, b"v1"), field(2, name)].concat());
    assert_eq!(unknown(kind(b"Cow")), "cannot convert the kind \"Cow\" of \"v1\": it has no protobuf encoding");
    assert_eq!(unknown(Vec::new()), "cannot convert the kind \"\" of \"\": it has no protobuf encoding");
    assert_eq!(unknown(kind(b"\xFF")), "cannot decode TypeMeta.kind at byte 12: invalid UTF-8");
    assert_eq!(unknown(vec![8, 1]), "cannot decode Unknown.typeMeta at byte 5: unexpected wire type 0, a varint");
    assert_eq!(
        unknown([kind(b"Pod"), field(4, b"application/json")].concat()),
        "cannot decode Unknown.contentType at byte 17: the unsupported content \"application/json\""
    );
    assert!(knows("v1", "Pod") && knows("apps/v1", "DeleteOptions") && !knows("v1", "Cow"));
}

#[test]
fn json_of_the_wrong_type_is_an_error_with_its_path() {
    for (json, expected) in [
        ("[]", "cannot convert the kind \"\" of \"\": it has no protobuf encoding"),
        (r#"{"kind":"Pod","apiVersion":1}"#, "cannot convert the kind \"Pod\" of \"\": it has no protobuf encoding"),
        (
            r#"{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{},{"image":5}]}}"#,
            "cannot encode spec.containers[1].image: expected a string, found a number",
        ),
        (
            r#"{"kind":"Pod","apiVersion":"v1","spec":{"volumes":[{"hostPath":[]}]}}"#,
            "cannot encode spec.volumes[0].hostPath: expected an object, found an array",
        ),
        (
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"a/b":true}}}"#,
            "cannot encode metadata.labels[\"a/b\"]: expected a string, found a boolean",
        ),
        (
            r#"{"kind":"Pod","apiVersion":"v1","spec":{"priority":2147483648}}"#,
            "cannot encode spec.priority: expected an integer of 32 bits, found 2147483648",
        ),
        (
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"generation":1.0}}"#,
            "cannot encode metadata.generation: expected an integer of 64 bits, found 1.0",
        ),
        (
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"creationTimestamp":"today"}}"#,
            "cannot encode metadata.creationTimestamp: expected a time such as \"2006-01-02T15:04:05Z\"",
        ),
        (r#"{"kind":"Secret","apiVersion":"v1","data":{"a":"?"}}"#, "cannot encode data[\"a\"]: expected base64"),
        (
            r#"{"kind":"Secret","apiVersion":"v1","immutable":"true"}"#,
            "cannot encode immutable: expected a boolean, found a string",
        ),
        (
            r#"{"kind":"Service","apiVersion":"v1","spec":{"ports":[{"targetPort":{}}]}}"#,
            "cannot encode spec.ports[0].targetPort: expected an integer or a string, found an object",
        ),
        (r#"{"kind":"Pod","apiVersion":"v1""#, "cannot parse JSON at byte 31: unexpected end of the data"),
    ] {
        assert_eq!(encode_error(json), expected);
    }
}

#[test]
fn fields_of_other_versions_are_omitted() {
    // Kubernetes 1.37 added `status`.
    let json = br#"{"kind":"CSINode","apiVersion":"storage.k8s.io/v1","metadata":{},"spec":{"drivers":null}}"#;
    let old = to_protobuf_for(json, 36).unwrap();
    let new = to_protobuf(json).unwrap();
    assert!(old.len() < new.len(), "{} and {}", old.len(), new.len());
    assert_eq!(to_json_for(&old, 36).unwrap(), json);
    assert_eq!(to_json_for(&new, 36).unwrap(), json);
    assert!(to_json(&old).unwrap().ends_with(br#","status":{}}"#));
}

#[test]
fn watch_events_are_converted_without_an_envelope() {
    let event = MessageType::of("v1", "WatchEvent").unwrap();
    let json = br#"{"type":"ADDED","object":{"kind":"Pod"}}"#;
    let message = event.encode(json, NEWEST_MINOR).unwrap();
    assert_eq!(event.decode(&message, NEWEST_MINOR).unwrap(), json);
    assert_eq!(event.name(), "WatchEvent");
}
