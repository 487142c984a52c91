use serde_json::json;

use super::{
    template::{MARKER, Mark},
    *,
};

/// Returns the sizes of the objects in a list.
fn sizes(kind: Kind, objects: usize) -> Vec<usize> {
    let workload = Workload::new(kind, objects);
    let size = |at| {
        let mut item = Vec::new();
        workload.item(Encoding::Json, &mut item, at, Place::First);
        item.len()
    };
    (0..objects).map(size).collect()
}

#[test]
fn each_object_is_unique_and_changes_with_each_event() {
    for kind in Kind::value_variants() {
        let workload = Workload::new(*kind, 60);
        let mut item = Vec::new();
        workload.item(Encoding::Json, &mut item, 51, Place::First);
        let item: Value = serde_json::from_slice(&item).unwrap();
        assert!(item["metadata"]["name"].as_str().unwrap().ends_with("-0000051"), "{item}");
        assert_eq!(item["metadata"]["namespace"], "namespace-01");
        let mut event = Vec::new();
        workload.event(Encoding::Json, &mut event, 51, 9);
        let event: Value = serde_json::from_slice(&event).unwrap();
        assert_eq!((&event["type"], &event["object"]["kind"]), (&json!("MODIFIED"), &json!(workload.kind)));
        assert_eq!(event["object"]["metadata"]["uid"], item["metadata"]["uid"]);
        assert_eq!(event["object"]["metadata"]["resourceVersion"], "1000000009");
        assert!(!event.to_string().contains(MARKER));
    }
}

#[test]
fn uniform_pods_are_those_of_the_table() {
    let sizes = sizes(Kind::Uniform, 200);
    let mean = sizes.iter().sum::<usize>() / sizes.len();
    let mut item = Vec::new();
    Workload::new(Kind::Uniform, 200).item(Encoding::Json, &mut item, 20, Place::First);
    let item: Value = serde_json::from_slice(&item).unwrap();
    let managed = item["metadata"]["managedFields"].to_string().len();
    assert_eq!(mean, 9_653, "{managed}");
    assert!((4_350..4_450).contains(&managed), "{managed}");
}

#[test]
fn other_objects_have_the_sizes_in_the_readme() {
    let mean = |kind| {
        let sizes = sizes(kind, 400);
        sizes.iter().sum::<usize>() / sizes.len()
    };
    assert!((12_800..13_800).contains(&mean(Kind::Varied)), "{}", mean(Kind::Varied));
    assert!((900..1_200).contains(&mean(Kind::Custom)), "{}", mean(Kind::Custom));
    for kind in [Kind::Secrets, Kind::ConfigMaps] {
        let mut sizes = sizes(kind, 400);
        sizes.sort_unstable();
        assert!(sizes[0] < 1_200 && (2_000..3_200).contains(&sizes[200]) && sizes[399] > 60_000, "{kind:?}: {sizes:?}");
    }
}

#[test]
fn nodes_differ_in_how_many_pods_they_have() {
    let workload = Workload::new(Kind::Uniform, 2_200);
    let mut pods = std::collections::BTreeMap::<String, usize>::new();
    for at in 0..2_200 {
        let mut item = Vec::new();
        workload.item(Encoding::Json, &mut item, at, Place::First);
        let item: Value = serde_json::from_slice(&item).unwrap();
        *pods.entry(item["spec"]["nodeName"].to_string()).or_default() += 1;
    }
    let (least, most) = (pods.values().min().unwrap(), pods.values().max().unwrap());
    assert!(*least < 20 && (90..150).contains(most), "{least} to {most} on {} nodes", pods.len());
}

#[test]
fn messages_are_framed_and_their_marks_filled_in() {
    let mut workload = Workload::new(Kind::Uniform, 10);
    // The length byte is equal to the marker.
    let message = [b"\x0a\x7f".to_vec(), vec![b'n'; 127], template::mark(Mark::Number).into_bytes()].concat();
    workload.messages = vec![Template::new(message.clone())];
    let filled = [&message[..129], b"0000003"].concat();

    let mut event = Vec::new();
    workload.event(Encoding::Protobuf, &mut event, 3, 1);
    let (length, frame) = event.split_first_chunk().unwrap();
    assert_eq!(u32::from_be_bytes(*length) as usize, frame.len());
    let object = [b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x88\x01".as_slice(), &filled, b"\x1a\0\"\0"].concat();
    assert_eq!(frame, [b"\x0a\x08MODIFIED\x12\xa1\x01\x0a\x9e\x01".as_slice(), &object].concat());

    let mut list = Vec::new();
    workload.list_head(Encoding::Protobuf, &mut list, 3..4);
    workload.item(Encoding::Protobuf, &mut list, 3, Place::First);
    list.extend_from_slice(Encoding::Protobuf.list_tail());
    let metadata = b"\x0a\x11\x12\x0a1000000000\x1a\x014\x20\x06";
    let inner = [metadata.as_slice(), b"\x12\x88\x01", &filled].concat();
    let length = u8::try_from(inner.len() - 128).unwrap() | 0x80;
    let head = [b"k8s\0\x0a\x0d\x0a\x02v1\x12\x07PodList\x12".as_slice(), &[length, 1]].concat();
    assert_eq!(list, [head, inner, b"\x1a\0\"\0".to_vec()].concat());
}
