use serde_json::json;

use super::{template::MARKER, *};

/// The objects of a workload, as a list has them.
fn sizes(kind: Kind, objects: usize) -> Vec<usize> {
    let workload = Workload::new(kind, objects);
    let size = |at| {
        let mut item = Vec::new();
        workload.item(&mut item, at);
        item.len()
    };
    (0..objects).map(size).collect()
}

#[test]
fn an_object_is_json_of_its_own_and_changes_with_each_event() {
    for kind in Kind::value_variants() {
        let workload = Workload::new(*kind, 60);
        let mut item = Vec::new();
        workload.item(&mut item, 51);
        let item: Value = serde_json::from_slice(&item).unwrap();
        assert!(item["metadata"]["name"].as_str().unwrap().ends_with("-0000051"), "{item}");
        assert_eq!(item["metadata"]["namespace"], "namespace-01");
        let mut event = Vec::new();
        workload.event(&mut event, 51, 9);
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
    Workload::new(Kind::Uniform, 200).item(&mut item, 20);
    let item: Value = serde_json::from_slice(&item).unwrap();
    let managed = item["metadata"]["managedFields"].to_string().len();
    assert_eq!(mean, 9_653, "{managed}");
    assert!((4_350..4_450).contains(&managed), "{managed}");
}

#[test]
fn other_objects_have_the_sizes_that_the_readme_tells() {
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
    let workload = Workload::new(Kind::Uniform, 5_500);
    let mut pods = std::collections::BTreeMap::<String, usize>::new();
    for at in 0..5_500 {
        let mut item = Vec::new();
        workload.item(&mut item, at);
        let item: Value = serde_json::from_slice(&item).unwrap();
        *pods.entry(item["spec"]["nodeName"].to_string()).or_default() += 1;
    }
    let (least, most) = (pods.values().min().unwrap(), pods.values().max().unwrap());
    assert!(*least < 20 && (90..150).contains(most), "{least} to {most} on {} nodes", pods.len());
}
