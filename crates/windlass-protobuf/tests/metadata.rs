//! The metadata that is read in place is that of JSON.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{fs::File, io::Read};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use windlass_api::Meta;
use windlass_protobuf::{Metadata, finalizers, labels, meta, owner_references, to_json, to_protobuf};

/// Returns the values of the corpus whose kind has the metadata of an object.
fn corpus() -> Vec<Vec<u8>> {
    let mut text = String::new();
    GzDecoder::new(File::open("testdata/corpus.txt.gz").unwrap()).read_to_string(&mut text).unwrap();
    let values = text.lines().skip(1).map(|line| BASE64_STANDARD.decode(line.split('\t').nth(1).unwrap()).unwrap());
    values.collect()
}

/// Returns the seconds of a time in JSON. `None` if the last year is too late for the parser.
fn seconds(time: &Value) -> Option<i64> {
    time.as_str().and_then(|time| windlass_api::parse_time(time).ok()).map(windlass_api::jiff::Timestamp::as_second)
}

/// The first second of the year 9999.
const LATE: i64 = 253_370_764_800;

fn full() -> Vec<u8> {
    let object = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:04:06Z",
            "labels": {"app": "x", "tier": ""}, "annotations": {"a": "b", "c": "d"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "o", "controller": true},
                {"apiVersion": "v1", "kind": "Node", "name": "m", "uid": "p", "blockOwnerDeletion": true},
            ],
            "finalizers": ["f", "g"],
            "managedFields": [
                {"manager": "kubectl", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {}}},
                {"manager": "x".repeat(200)},
            ],
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
    });
    to_protobuf(object.to_string().as_bytes()).unwrap()
}

#[test]
fn metadata_of_every_kind_is_that_of_json() {
    let mut read = 0;
    for value in corpus() {
        let json: Value = serde_json::from_slice(&to_json(&value).unwrap()).unwrap();
        let Some(metadata) = Metadata::read(&value).unwrap() else { continue };
        let expected = &json["metadata"];
        assert_eq!(metadata.kind, json["kind"]);
        assert_eq!(metadata.name, expected["name"].as_str().unwrap_or_default());
        assert_eq!(metadata.namespace, expected["namespace"].as_str());
        assert_eq!(metadata.uid, expected["uid"].as_str().unwrap_or_default());
        assert_eq!(metadata.resource_version, expected["resourceVersion"].as_str().unwrap_or_default());
        assert_eq!(metadata.generation, expected["generation"].as_i64());
        assert_eq!(metadata.creation_timestamp.filter(|time| *time < LATE), seconds(&expected["creationTimestamp"]));
        assert_eq!(metadata.deletion_timestamp.filter(|time| *time < LATE), seconds(&expected["deletionTimestamp"]));
        let read_labels: serde_json::Map<_, _> = labels(metadata.labels)
            .map(|label| label.map(|(key, value)| (key.to_owned(), value.into())).unwrap())
            .collect();
        assert_eq!(Some(&read_labels).filter(|labels| !labels.is_empty()), expected["labels"].as_object());
        let names: Vec<Value> = finalizers(metadata.finalizers).map(|name| name.unwrap().into()).collect();
        assert_eq!(Some(&names).filter(|names| !names.is_empty()), expected["finalizers"].as_array());
        let owners: Vec<_> = owner_references(metadata.owner_references).map(Option::unwrap).collect();
        let expected_owners = expected["ownerReferences"].as_array();
        assert_eq!(owners.len(), expected_owners.map_or(0, Vec::len));
        for (owner, expected) in owners.iter().zip(expected_owners.into_iter().flatten()) {
            assert_eq!(owner.api_version, expected["apiVersion"]);
            assert_eq!(
                (owner.kind, owner.name),
                (expected["kind"].as_str().unwrap(), expected["name"].as_str().unwrap())
            );
            assert_eq!(owner.uid, expected["uid"]);
            assert_eq!(owner.controller, expected["controller"] == true);
            assert_eq!(owner.block_owner_deletion, expected["blockOwnerDeletion"] == true);
        }
        let mut without = json.clone();
        if let Some(metadata) = without["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        let cut = metadata.without_managed_fields(&value).map(|parts| parts.to_vec());
        assert_eq!(cut.is_some(), expected["managedFields"].is_array(), "{json}");
        let cut = cut.unwrap_or_else(|| value.clone());
        assert_eq!(serde_json::from_slice::<Value>(&to_json(&cut).unwrap()).unwrap(), without);
        read += 1;
    }
    assert!(read > 200, "{read} objects");
}

#[test]
fn managed_fields_are_removed_with_the_lengths_around_them() {
    let value = full();
    let metadata = Metadata::read(&value).unwrap().unwrap();
    let cut = metadata.without_managed_fields(&value).unwrap().to_vec();
    let mut json: Value = serde_json::from_slice(&to_json(&value).unwrap()).unwrap();
    json["metadata"].as_object_mut().unwrap().remove("managedFields");
    assert_eq!(cut, to_protobuf(json.to_string().as_bytes()).unwrap());
    assert!(Metadata::read(&cut).unwrap().unwrap().without_managed_fields(&cut).is_none());
}

#[test]
fn meta_of_a_value_or_its_start_is_that_of_json() {
    let value = full();
    let expected = Meta::parse(&to_json(&value).unwrap()).unwrap();
    assert_eq!(meta(&value).unwrap(), expected);
    let found: Vec<_> = (0..value.len()).filter_map(|length| meta(&value[..length])).collect();
    assert!(found.iter().all(|meta| *meta == expected) && found.len() > 10, "{} of {}", found.len(), value.len());
    // Two parts are merged.
    let object = b"\x0a\x03\x0a\x01a\x0a\x03\x1a\x01n";
    let two = [b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12", &[u8::try_from(object.len()).unwrap()][..], object].concat();
    assert_eq!(meta(&two).unwrap().key().to_string(), "n/a");
    let endless = b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x0b\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    assert_eq!(meta(endless), None);
}

#[test]
fn unusual_and_damaged_metadata_is_an_error_or_absent() {
    let value = full();
    let expected = Metadata::read(&value).unwrap().unwrap();
    assert_eq!((expected.name, expected.namespace, expected.generation), ("a", Some("n"), Some(3)));
    for length in 0..value.len() {
        let _ = Metadata::read(&value[..length])
            .map(|read| read.map(|read| read.without_managed_fields(&value[..length]).is_some()));
    }
    for at in 0..value.len() {
        for mask in [0x01, 0x80, 0xFF] {
            let mut value = value.clone();
            value[at] ^= mask;
            let Ok(Some(read)) = Metadata::read(&value) else { continue };
            let _ = labels(read.labels).chain(labels(read.finalizers)).count();
            let _ = owner_references(read.owner_references).count() + finalizers(read.finalizers).count();
            if let (Some(cut), Ok(json)) = (read.without_managed_fields(&value), to_json(&value)) {
                let json: Value = serde_json::from_slice(&json).unwrap();
                let cut: Value = serde_json::from_slice(&to_json(&cut.to_vec()).unwrap()).unwrap();
                assert_eq!(
                    (&cut["metadata"]["name"], &cut["spec"]),
                    (&json["metadata"]["name"], &json["spec"]),
                    "{at}"
                );
            }
        }
    }
    // A second `metadata` is merged with the first one by decoders.
    let pod = |object: &[u8]| {
        [b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12", &[u8::try_from(object.len()).unwrap()][..], object].concat()
    };
    assert!(Metadata::read(&pod(b"\x0a\x03\x0a\x01a")).unwrap().is_some());
    assert_eq!(Metadata::read(&pod(b"\x0a\x03\x0a\x01a\x0a\x03\x0a\x01b")).unwrap(), None);
    assert_eq!(Metadata::read(&pod(b"\x0a\x06\x0a\x01a\x0a\x01b")).unwrap(), None);
    assert_eq!(Metadata::read(&pod(b"\x0a\x03\x0a\x01\xff")).unwrap(), None);
}
