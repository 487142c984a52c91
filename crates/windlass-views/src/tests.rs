//! The agreement of views with the types of k8s-openapi.

#![cfg(feature = "built-in")]

use std::{borrow::Cow, cell::RefCell};

use k8s_openapi::api::core::v1::{Pod, Secret};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{Document, FromView, HasView, meta::v1::ObjectMetaView, prelude::*};

/// An accessor's type, with a value in which all fields are set.
pub(crate) trait Complete {
    fn complete() -> Value;

    /// Encodes what the accessors return.
    fn encode(&self) -> Value;
}

thread_local! {
    /// The types whose complete value is being built. A type does not contain itself.
    static OPEN: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Builds the value of a struct; null within a value of the same type.
pub(crate) fn complete(name: &'static str, fields: &[(&str, fn() -> Value)]) -> Value {
    if OPEN.with_borrow(|open| open.contains(&name)) {
        return Value::Null;
    }
    OPEN.with_borrow_mut(|open| open.push(name));
    let fields = fields.iter().map(|(field, value)| ((*field).to_owned(), value()));
    let fields: Value = fields.filter(|(_, value)| !value.is_null()).collect();
    OPEN.with_borrow_mut(Vec::pop);
    fields
}

/// Checks that the view of a value with all fields set returns the fields of its source.
pub(crate) fn check<S>()
where
    S: HasView + Serialize + DeserializeOwned,
    for<'a> S::View<'a>: Complete,
{
    let complete = <S::View<'static> as Complete>::complete();
    let source: S = serde_json::from_value(complete.clone()).unwrap_or_else(|error| panic!("{error}: {complete}"));
    let text = serde_json::to_vec(&source).unwrap();
    let document = Document::json(&text);
    let encoded = document.view::<S>().encode();
    document.check().unwrap();
    let mut expected = serde_json::to_value(&source).unwrap();
    // The types of kinds encode their API version and kind.
    remove_type_meta(&mut expected, &encoded);
    assert_eq!(encoded, expected);
    let kind: Value = serde_json::from_slice(&text).unwrap();
    let is_known = windlass_protobuf::knows(
        kind["apiVersion"].as_str().unwrap_or_default(),
        kind["kind"].as_str().unwrap_or_default(),
    );
    assert_eq!(check_protobuf::<S>(&text), is_known, "{kind}");
}

/// Checks that the view of a value in protobuf equals that of its JSON. Returns `false` if it has no such encoding. Parts are checked inside of their kinds.
fn check_protobuf<S>(text: &[u8]) -> bool
where
    S: HasView,
    for<'a> S::View<'a>: Complete,
{
    let Ok(value) = windlass_protobuf::to_protobuf(text) else { return false };
    let json = windlass_protobuf::to_json(&value).unwrap();
    let expected = Document::json(&json).view::<S>().encode();
    let document = Document::protobuf(&value);
    assert_eq!(document.view::<S>().encode(), expected);
    document.check().unwrap();
    assert_eq!(document.root().decode::<Value>().unwrap(), serde_json::from_slice::<Value>(&json).unwrap());
    true
}

fn remove_type_meta(expected: &mut Value, encoded: &Value) {
    match (expected, encoded) {
        (Value::Object(expected), Value::Object(encoded)) => {
            expected.retain(|name, _| encoded.contains_key(name) || !["apiVersion", "kind"].contains(&name.as_str()));
            for (name, value) in expected {
                remove_type_meta(value, encoded.get(name).unwrap_or(&Value::Null));
            }
        }
        (Value::Array(expected), Value::Array(encoded)) => {
            expected.iter_mut().zip(encoded).for_each(|(expected, encoded)| remove_type_meta(expected, encoded));
        }
        _ => {}
    }
}

macro_rules! complete {
    ($($type:ty: $json:tt, |$value:ident| $encoded:expr;)*) => {$(
        impl Complete for $type {
            fn complete() -> Value {
                json!($json)
            }

            fn encode(&self) -> Value {
                let $value = self;
                json!($encoded)
            }
        }
    )*};
}

complete! {
    bool: true, |value| value;
    i32: 7, |value| value;
    i64: 8_000_000_000_i64, |value| value;
    f64: 1.5, |value| value;
    Cow<'_, str>: "a \"text\"", |value| value;
    QuantityView<'_>: "100m", |value| &**value;
    ByteStringView<'_>: "YQ==", |value| value.encoded();
    Time: "2026-01-02T03:04:05Z", |value| value;
    MicroTime: "2026-01-02T03:04:05.000006Z", |value| value;
    View<'_>: {"a": [1, {"b": null}]}, |value| value.decode::<Value>();
}

impl Complete for IntOrStringView<'_> {
    fn complete() -> Value {
        json!("25%")
    }

    fn encode(&self) -> Value {
        match self {
            Self::Int(number) => json!(number),
            Self::String(text) => json!(text),
        }
    }
}

impl<T: Complete> Complete for Option<T> {
    fn complete() -> Value {
        T::complete()
    }

    fn encode(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::encode)
    }
}

impl<'a, T: Complete + FromView<'a>> Complete for List<'a, T> {
    fn complete() -> Value {
        [T::complete()].into_iter().filter(|item| !item.is_null()).collect()
    }

    fn encode(&self) -> Value {
        self.iter().map(|item| item.encode()).collect()
    }
}

impl<'a, T: Complete + FromView<'a>> Complete for Map<'a, T> {
    fn complete() -> Value {
        [("a/b".to_owned(), T::complete())].into_iter().filter(|(_, value)| !value.is_null()).collect()
    }

    fn encode(&self) -> Value {
        self.iter().map(|(key, value)| (key.into_owned(), value.encode())).collect()
    }
}

const POD: &str = r#" { "kind" : "Pod", "metadata": {"name": "a\u0062", "annotations": {"x": "\"\\\n\u00e4\ud83d\ude00", "y": null},
    "labels": {"app": "web", "t\u0069er": "front", "app": "shop"}, "finalizers": [], "uid": null},
    "spec": {"nodeName": "old"},
    "spec": {"nodeName": "n1", "containers": [{"name": "c", "ports": [{"containerPort": 80}], "nodeName": 7},
        {"name": "d", "image": null, "resources": {"limits": {"cpu": "500m", "memory": 1024}}}], "priority": -3},
    "sp\u0065cial": 1, "status": null } "#;

#[test]
fn fields_are_read_like_the_decoder_does() {
    let document = Document::json(POD.as_bytes());
    let metadata = document.root().get::<ObjectMetaView<'_>>("metadata");
    let pod: Pod = windlass_api::from_json(POD.as_bytes()).unwrap();
    assert_eq!(metadata.name().as_deref(), Some("ab"));
    assert_eq!(metadata.uid(), None);
    let annotations: Vec<_> = metadata.annotations().iter().collect();
    assert_eq!(annotations, [("x".into(), "\"\\\n\u{e4}\u{1f600}".into())]);
    assert_eq!(pod.metadata.annotations.unwrap()["x"], annotations[0].1);
    let labels = metadata.labels();
    assert_eq!((labels.get("app").as_deref(), labels.get("tier").as_deref()), (Some("shop"), Some("front")));
    assert_eq!(pod.metadata.labels.unwrap()["app"], "shop");
    assert!(labels.contains_key("tier") && !labels.contains_key("none") && metadata.finalizers().is_empty());
    let spec = document.root().get::<View<'_>>("spec");
    assert_eq!(spec.get::<Cow<'_, str>>("nodeName"), pod.spec.clone().unwrap().node_name.unwrap(), "the last member");
    assert_eq!((spec.get::<i32>("priority"), spec.get::<Option<i64>>("none")), (-3, None));
    assert!(!document.root().get::<View<'_>>("status").is_present());
    let limits = spec.get::<List<'_, View<'_>>>("containers").get(1).unwrap().get::<View<'_>>("resources");
    let limits = limits.get::<Map<'_, QuantityView<'_>>>("limits");
    assert_eq!(limits.get("cpu").unwrap().parse().unwrap(), "0.5".parse().unwrap());
    assert_eq!(&*limits.get("memory").unwrap(), "1024");
    document.check().unwrap();
}

/// Returns a value that is read without types: all members and items, with their scalars.
fn tree(view: View<'_>) -> Value {
    if view.is_object() {
        let map = view.read::<Map<'_, View<'_>>>();
        return map.iter().map(|(key, value)| (key.into_owned(), tree(value))).collect();
    }
    if view.is_list() {
        return view.read::<List<'_, View<'_>>>().iter().map(tree).collect();
    }
    view.decode().unwrap_or(Value::Null)
}

const PROTOBUF_POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","labels":{"b":"2","a":"1"},
    "creationTimestamp":"2026-01-02T03:04:05Z","generation":3,"managedFields":[{"manager":"m","fieldsV1":{"f:a":{}}}]},
    "spec":{"nodeName":"n1","volumes":[{"name":"v","emptyDir":{"sizeLimit":"1Gi"}}],"containers":[{"name":"c","image":"i",
    "ports":[{"containerPort":80}],"livenessProbe":{"httpGet":{"port":"web"}},"resources":{"limits":{"cpu":"500m"}}}],
    "priority":-3,"securityContext":{"supplementalGroups":[1,2]}},
    "status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;

/// Compares all that views return for a value in protobuf with the JSON of its conversion, if there is one.
fn compare_protobuf(value: &[u8]) -> bool {
    let document = Document::protobuf(value);
    let read = tree(document.root());
    let Ok(json) = windlass_protobuf::to_json(value) else { return false };
    let expected = Document::json(&json);
    assert_eq!(read, tree(expected.root()), "{value:?}");
    assert!(document.check().is_ok(), "{:?}", document.check());
    true
}

#[test]
fn protobuf_is_read_like_its_json() {
    let value = windlass_protobuf::to_protobuf(PROTOBUF_POD.as_bytes()).unwrap();
    assert!(compare_protobuf(&value));
    let document = Document::protobuf(&value);
    let root = document.root();
    assert_eq!(root.get::<Cow<'_, str>>("kind"), "Pod");
    assert!(matches!(root.get::<View<'_>>("spec").get::<Option<Cow<'_, str>>>("nodeName"), Some(Cow::Borrowed("n1"))));
    let volume = root.get::<View<'_>>("spec").get::<List<'_, View<'_>>>("volumes").first().unwrap();
    let limit = volume.get::<View<'_>>("emptyDir").get::<Option<QuantityView<'_>>>("sizeLimit");
    assert_eq!(&*limit.unwrap(), "1Gi", "a member of an embedded message");
    assert!(!root.get::<View<'_>>("spec").get::<View<'_>>("hostNetwork").is_present());
    document.check().unwrap();
    assert_eq!(root.get::<View<'_>>("spec").get::<u32>("priority"), 0);
    assert_eq!(
        document.check().unwrap_err().to_string().split(": ").last(),
        Some("-3 instead of an integer of 32 bits")
    );
}

#[test]
fn damaged_protobuf_is_an_error_or_equal_to_its_json() {
    let value = windlass_protobuf::to_protobuf(PROTOBUF_POD.as_bytes()).unwrap();
    for end in 0..value.len() {
        compare_protobuf(&value[..end]);
    }
    let mut compared = 0;
    for at in 0..value.len() {
        for bit in 0..8 {
            let mut changed = value.clone();
            changed[at] ^= 1 << bit;
            compared += usize::from(compare_protobuf(&changed));
        }
    }
    assert!(compared > 500, "{compared}");
}

#[test]
fn unusual_protobuf_is_read_like_its_json() {
    let with = |fields: &[u8]| {
        let mut value = windlass_protobuf::envelope_start("v1", "Pod", fields.len());
        value.extend_from_slice(fields);
        value
    };
    // A message in two parts, a map with a key twice and in another order, and an unknown field.
    let metadata = b"\x0a\x03\x0a\x01a\x0a\x03\x1a\x01n";
    let labels = b"\x0a\x18\x5a\x06\x0a\x01b\x12\x01x\x5a\x06\x0a\x01a\x12\x01y\x5a\x06\x0a\x01b\x12\x01z";
    let unknown = b"\xa8\x3e\x01";
    // Invalid UTF-8 in a name.
    let text = b"\x0a\x04\x0a\x02\xff\xe2";
    for fields in [&metadata[..], labels, unknown, text, &[&metadata[..], unknown, labels].concat()] {
        assert!(compare_protobuf(&with(fields)), "{fields:?}");
    }
    // A packed list: spec.securityContext.supplementalGroups.
    assert!(compare_protobuf(&with(b"\x12\x06\x72\x04\x22\x02\x01\x02")));
    let value = with(&[&metadata[..], labels].concat());
    let document = Document::protobuf(&value);
    let metadata = document.root().get::<ObjectMetaView<'_>>("metadata");
    assert_eq!((metadata.name().as_deref(), metadata.namespace().as_deref()), (Some("a"), Some("n")));
    assert_eq!(metadata.labels().get("b").as_deref(), Some("z"));
    let keys: Vec<_> = metadata.labels().iter().map(|(key, _)| key.into_owned()).collect();
    assert_eq!(keys, ["a", "b"]);
    for value in [&b""[..], b"k8s", b"k8s\0", b"{}"] {
        assert!(Document::protobuf(value).check().is_err());
    }
}

#[test]
fn plain_strings_are_borrowed() {
    let document = Document::json(br#"{"name": "web", "labels": {"a": "b"}, "namespace": "\u0061"}"#);
    let view = document.view::<k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta>();
    assert!(matches!(view.name(), Some(Cow::Borrowed("web"))));
    let labels: Vec<_> = view.labels().iter().collect();
    assert!(matches!(labels[..], [(Cow::Borrowed("a"), Cow::Borrowed("b"))]));
    assert!(matches!(view.namespace(), Some(Cow::Owned(namespace)) if namespace == "a"));
}

/// Reads every value of a document by its type, without a limit of depth.
fn read_all(view: View<'_>) {
    let mut open = vec![view];
    while let Some(view) = open.pop() {
        let _ = (view.read::<Option<Cow<'_, str>>>(), view.read::<bool>(), view.read::<i32>(), view.get::<f64>("a"));
        open.extend(view.read::<List<'_, View<'_>>>());
        open.extend(view.read::<Map<'_, View<'_>>>().iter().map(|(_, value)| value));
    }
}

#[test]
fn damaged_text_is_an_error_and_never_panics() {
    for end in 0..POD.len() {
        let document = Document::json(&POD.as_bytes()[..end]);
        read_all(document.root());
        let _ = (document.root().get::<View<'_>>("status"), document.view::<Pod>());
        if end < POD.trim_end().len() {
            assert!(document.check().is_err(), "{end}");
        }
    }
    for at in 0..POD.len() {
        for byte in [b'"', b'\\', b'{', b'}', b'[', b',', b':', 0xff, b'n'] {
            let mut text = POD.as_bytes().to_vec();
            text[at] = byte;
            read_all(Document::json(&text).root());
        }
    }
    for odd in ["", "7", "\"", "{\"a\"}", "{\"a\":}", "[", "{\"a\":1 2}", "nul", "{,}", "\u{feff}{}"] {
        let document = Document::json(odd.as_bytes());
        let _ = document.root().get::<Cow<'_, str>>("a");
        assert!(document.check().is_err() || odd == "nul", "{odd}");
    }
}

#[test]
fn deep_nesting_needs_no_stack() {
    let text = format!(r#"{{"a": {}"x"{}, "b": true}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let document = Document::json(text.as_bytes());
    assert!(document.root().get::<bool>("b"));
    let mut view = document.root().get::<View<'_>>("a");
    for _ in 0..100 {
        view = view.read::<List<'_, View<'_>>>().first().unwrap();
    }
    document.check().unwrap();
}

#[test]
fn wrong_type_is_an_error_with_its_path() {
    let text = br#"{"metadata": {"name": 3, "generation": 1.5, "creationTimestamp": "noon", "labels": {"a": []},
        "finalizers": {"a": 1}, "ownerReferences": [{"name": "a"}, {"name": "b", "controller": "yes"}, 7]}, "data": {"k.e": "?"}}"#;
    fn error(text: &[u8], read: impl for<'a> FnOnce(ObjectMetaView<'a>, View<'a>)) -> String {
        let document = Document::json(text);
        read(document.root().get("metadata"), document.root());
        let error = document.check().unwrap_err();
        assert!(error.to_string().starts_with(&format!("{}: ", error.field().unwrap())), "{error}");
        error.to_string()
    }
    assert_eq!(
        error(text, |metadata, _| assert_eq!(metadata.name(), None)),
        "metadata.name: a number instead of a string"
    );
    let generation = error(text, |metadata, _| assert_eq!(metadata.generation(), None));
    assert_eq!(generation, "metadata.generation: 1.5 instead of an integer of 64 bits");
    let time = error(text, |metadata, _| drop(metadata.creation_timestamp()));
    assert_eq!(time, "metadata.creationTimestamp: a string instead of a time");
    assert_eq!(
        error(text, |metadata, _| drop(metadata.labels().get("a"))),
        "metadata.labels.a: a list instead of a string"
    );
    assert_eq!(
        error(text, |metadata, _| assert!(metadata.finalizers().is_empty())),
        "metadata.finalizers: an object instead of a list"
    );
    let controller =
        error(text, |metadata, _| assert_eq!(metadata.owner_references().get(1).unwrap().controller(), None));
    assert_eq!(controller, "metadata.ownerReferences[1].controller: a string instead of a boolean");
    let item = error(text, |metadata, _| assert!(metadata.owner_references().get(2).is_some()));
    assert_eq!(item, "metadata.ownerReferences[2]: a number instead of an object");
    let data = error(text, |_, root| drop(root.get::<Map<'_, ByteStringView<'_>>>("data").get("k.e").unwrap().bytes()));
    assert!(data.starts_with("data.k.e: "), "{data}");
    let document = Document::json(text);
    document.view::<Secret>();
    assert!(document.root().decode::<Secret>().is_none());
    assert_eq!(document.check().unwrap_err().field(), None);
}

#[test]
fn many_fields_and_objects_are_found() {
    let names: Vec<String> = (0..200).map(|number| format!("field{number}")).collect();
    let members = |from: usize, to: usize| -> String {
        (from..to).map(|number| format!(r#""field{number}":{number},"#)).collect::<String>() + r#""end":-1"#
    };
    // Objects that fill the table of positions exactly, overflow it, or share it.
    for sizes in [vec![63], vec![64], vec![200], vec![30, 40, 10], vec![1; 20], vec![40, 63, 64, 5, 0]] {
        let objects: Vec<String> = sizes.iter().map(|size| format!("{{{}}}", members(0, *size))).collect();
        let text = format!("[{}]", objects.join(","));
        let document = Document::json(text.as_bytes());
        for _ in 0..2 {
            let views: Vec<View<'_>> = document.root().read::<List<'_, View<'_>>>().iter().collect();
            for name in ["field0", "field1", "field62", "field199", "end", "none"].iter().rev() {
                for (view, size) in views.iter().zip(&sizes) {
                    let number = names.iter().position(|known| known == name).filter(|number| number < size);
                    let expected = number.map(|number| i64::try_from(number).unwrap());
                    let expected = if *name == "end" { Some(-1) } else { expected };
                    assert_eq!(view.get::<Option<i64>>(name), expected, "{name} of {size} in {sizes:?}");
                }
            }
        }
        document.check().unwrap();
    }
}

#[cfg(feature = "built-in")]
mod built_in {
    use super::*;

    /// Every accessor of the objects that the server's codec is tested with.
    #[test]
    fn views_of_recorded_bodies_equal_the_decoded_objects() {
        use k8s_openapi::api::{
            apps::v1::*, batch::v1::*, core::v1::*, networking::v1::*, rbac::v1::*, storage::v1::*,
        };
        let bodies = include_str!("../../windlass-server/testdata/bodies.tsv");
        fn compare<S>(body: &str)
        where
            S: HasView + Serialize + DeserializeOwned,
            for<'a> S::View<'a>: Complete,
        {
            let source: S = windlass_api::from_json(body.as_bytes()).unwrap();
            let document = Document::json(body.as_bytes());
            let encoded = document.view::<S>().encode();
            document.check().unwrap();
            let mut expected = serde_json::to_value(&source).unwrap();
            remove_type_meta(&mut expected, &encoded);
            assert_eq!(without_empty(encoded), without_empty(expected));
            assert!(check_protobuf::<S>(body.as_bytes()), "{body}");
        }
        let mut compared = 0;
        macro_rules! compare {
            ($($kind:ident)*) => {$(
                for line in bodies.lines() {
                    let fields: Vec<&str> = line.split('\t').collect();
                    if fields[2] == stringify!($kind) && matches!(fields[1], "v1") && !fields[0].contains("events") {
                        compare::<$kind>(fields[4]);
                        compared += 1;
                    }
                }
            )*};
        }
        compare! {
            ConfigMap CronJob CSIDriver DaemonSet Deployment Endpoints Ingress Job LimitRange Namespace NetworkPolicy Node
            PersistentVolume PersistentVolumeClaim Pod ReplicaSet ResourceQuota Role RoleBinding Secret Service
            ServiceAccount StatefulSet StorageClass
        }
        assert_eq!(compared, 24);
    }

    /// Types of k8s-openapi don't encode empty lists, and required times differ in their fractions.
    fn without_empty(value: Value) -> Value {
        match value {
            Value::Object(fields) => {
                let fields = fields.into_iter().map(|(name, value)| (name, without_empty(value)));
                fields.filter(|(_, value)| *value != json!([]) && *value != json!({})).collect()
            }
            Value::Array(items) => items.into_iter().map(without_empty).collect(),
            other => other,
        }
    }

    #[test]
    fn chained_reads_need_no_test_for_absent_parts() {
        let document = Document::json(POD.as_bytes());
        let pod = document.view::<Pod>();
        assert_eq!(pod.spec().node_name().as_deref(), Some("n1"));
        let names: Vec<_> =
            pod.spec().containers().iter().map(super::super::groups::core::v1::ContainerView::name).collect();
        assert_eq!(names, ["c", "d"]);
        assert_eq!(pod.spec().containers().first().unwrap().ports().first().unwrap().container_port(), 80);
        assert!(!pod.spec().affinity().is_present() && pod.status().conditions().is_empty());
        assert_eq!((pod.status().phase(), pod.status().host_ip()), (None, None));
        assert_eq!(pod.spec().decode::<k8s_openapi::api::core::v1::PodSpec>().unwrap().containers.len(), 2);
        document.check().unwrap();
    }
}
