use serde_json::json;
use windlass_api::parse_time;

use super::*;
use crate::resource::CustomColumn;
use crate::{
    kinds::{KindOptions, built_ins},
    resource::ResourceTable,
};

/// Objects, and their cells from kube-apiserver: one JSON object per line with `resource`, `now`, `object`, `cells`
/// and, for some pods, `conditions`.
const RECORDED: &str = include_str!("tests/recorded.jsonl");

const VERSION: KubernetesVersion = KubernetesVersion::V1_36;

fn resources() -> ResourceTable {
    let options = KindOptions::of(VERSION);
    built_ins(&options)
}

fn time(value: &Value) -> Timestamp {
    parse_time(value.as_str().unwrap()).unwrap()
}

#[test]
fn cells_equal_those_of_kube_apiserver() {
    let resources = resources();
    let (mut lines, mut wrong) = (0, Vec::new());
    for line in RECORDED.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let resource = line["resource"].as_str().unwrap();
        let [group, version, plural] = resource.split('/').collect::<Vec<_>>()[..] else { panic!("{resource}") };
        let resource_info = resources.get(group, version, plural).unwrap();
        let object = line["object"].clone();
        let object =
            resource_info.conversion.as_ref().map_or(object.clone(), |conversion| (conversion.to_stored)(object));
        let cells = cells(resource_info, &object, time(&line["now"]));
        // One kind has an extra cell.
        let columns = built_in_columns(VERSION, group, version, plural).len() + usize::from(plural == "ipaddresses");
        assert_eq!(cells.len(), columns, "columns of {resource}");
        // kube-apiserver printed within a second after the recorded time.
        let later = time(&line["now"]).checked_add(jiff::SignedDuration::from_secs(1)).unwrap();
        let later = super::cells(resource_info, &object, later);
        let expected = line["cells"].as_array().unwrap();
        let right = (0..expected.len()).all(|at| cells[at] == expected[at] || later[at] == expected[at]);
        if !right {
            wrong.push(format!("{resource}: {} instead of {}", json!(cells), json!(expected)));
        }
        if plural == "pods" {
            assert_eq!(pods::conditions(&line["object"]), line.get("conditions").cloned(), "{line}");
        }
        lines += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(lines > 100, "{lines} objects");
}

#[test]
fn bookmark_table_equals_kube_apiservers() {
    let bookmark = json!({"metadata": {"resourceVersion": "5"}});
    let cells = |group, plural| Value::from(built_in_cells(VERSION, group, plural, &bookmark, Timestamp::UNIX_EPOCH));
    assert_eq!(cells("", "pods"), json!(["", "0/0", "", "0", "<unknown>", "<none>", "<none>", "<none>", "<none>"]));
    assert_eq!(cells("apps", "deployments"), json!(["", "0/0", 0, 0, "<unknown>", "", "", ""]));
    assert_eq!(cells("", "nodes")[1], json!("Unknown"));
    let columns = CustomColumn::read_all(&json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]));
    assert_eq!(custom::cells(&columns, &bookmark, Timestamp::UNIX_EPOCH), [json!(""), Value::Null]);
}

#[test]
fn custom_columns_show_the_first_value_of_matching_type() {
    let columns = CustomColumn::read_all(&json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1, "description": "the color"},
        {"name": "Tags", "type": "string", "jsonPath": ".spec.tags[*]"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
        {"name": "Started", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "F", "type": "number", "jsonPath": ".spec.f"},
        {"name": "B", "type": "boolean", "jsonPath": ".spec.b"},
        {"name": "M", "type": "string", "jsonPath": ".spec.m"},
    ]));
    let now = parse_time("2026-01-01T00:00:22Z").unwrap();
    let object = json!({
        "metadata": {"name": "f1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"size": 3, "color": "red", "tags": ["a", "b"], "f": 1.5, "b": true, "m": {"x": 1}},
        "status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]},
    });
    let cells = custom::cells(&columns, &object, now);
    assert_eq!(Value::from(cells), json!(["f1", 3, "red", "a", "True", "22s", 1.5, true, "{\"x\":1}"]));

    let object = json!({
        "metadata": {"name": "f2", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"size": "three", "f": 2.0},
    });
    let cells = custom::cells(&columns, &object, now);
    assert_eq!(Value::from(cells), json!(["f2", null, null, null, null, "22s", 2, null, null]));

    let definitions = custom::columns(&columns);
    assert_eq!((definitions[2].priority, definitions[2].description.as_str()), (1, "the color"));
    let plain = custom::columns(&[]);
    assert_eq!(plain.iter().map(|column| &*column.name).collect::<Vec<_>>(), ["Name", "Age"]);
}

#[test]
fn kinds_without_printer_show_name_and_age() {
    let object = json!({"metadata": {"name": "a", "creationTimestamp": "1970-01-01T00:00:00Z"}});
    let now = Timestamp::from_second(60).unwrap();
    assert_eq!(built_in_cells(VERSION, "example.com", "novelties", &object, now), [json!("a"), json!("60s")]);
    assert_eq!(built_in_columns(VERSION, "example.com", "v1", "novelties").len(), 2);
    // As in kube-apiserver, these have a creation time instead of an age.
    let cells = built_in_cells(VERSION, "apiextensions.k8s.io", "customresourcedefinitions", &object, now);
    assert_eq!(cells, [json!("a"), json!("1970-01-01T00:00:00Z")]);
}

#[test]
fn partial_metadata_keeps_the_order_of_the_go_struct() {
    let object = json!({"apiVersion": "e.io/v1", "kind": "A", "metadata": {"labels": {}, "name": "a"}, "spec": 1});
    assert_eq!(
        partial(object).to_string(),
        r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","labels":{}}}"#
    );
}

#[test]
fn unknown_include_object_is_rejected() {
    let status = IncludeObject::parse("Nope").unwrap_err();
    assert_eq!(
        status.message,
        "Unable to convert to Table as requested: includeObject: Invalid value: \"Nope\": \
         must be 'Metadata', 'Object', 'None', or empty"
    );
    assert_eq!(IncludeObject::parse("").unwrap(), IncludeObject::Metadata);
}

#[test]
fn description_sources_include_those_of_older_versions() {
    let sources: std::collections::HashSet<&str> = description_sources().collect();
    // The descriptions are those of the default version, which has no kinds of newer ones.
    for version in KubernetesVersion::ALL.iter().filter(|version| **version < KubernetesVersion::default()) {
        let columns = recorded(*version).values().flat_map(|columns| columns.iter());
        let missing: Vec<_> = columns.map(|column| column.source).filter(|source| !sources.contains(source)).collect();
        assert!(missing.iter().all(|source| source.is_empty()), "{version}: {missing:?}");
    }
}
