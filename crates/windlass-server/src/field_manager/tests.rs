use serde_json::{Value, json};
use windlass_api::Status;

use super::{
    Applier, Kind, Set, TypeHandle, apply, built_in, compare::Changes, custom, element::Element, fields::fields_of,
    keep_times, managers::Managers, merge::merge, schema::Type, set_of, update, validate::check,
};
use crate::{encoded::Style, kubernetes::KubernetesVersion};

const THEN: &str = "2026-01-01T00:00:00Z";
const NOW: &str = "2026-01-02T00:00:00Z";

fn set(fields: Value) -> Set {
    Set::parse(&fields).unwrap()
}

fn foo() -> Type {
    foo_of(KubernetesVersion::default())
}

fn foo_of(kubernetes: KubernetesVersion) -> Type {
    custom(
        kubernetes,
        &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "size": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {"type": "object", "properties": {
                    "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": {"type": "string"}}}},
            "list": {"type": "array", "items": {"type": "string"}},
            "one": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}}}),
    )
}

fn config_map(reset: &[&str]) -> Kind<'static> {
    Kind {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        ty: TypeHandle::BuiltIn(built_in(KubernetesVersion::default(), "", "v1", "ConfigMap")),
        reset: set_of(reset),
        subresource: "",
        empty: json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}}),
        is_evolving: false,
        keeps_managers: false,
        other: &|_| Ok(None),
    }
}

fn object(data: Value) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "uid": "u"}, "data": data})
}

/// Returns the object after an update by this manager.
fn updated(old: Option<&Value>, mut new: Value, manager: &str, now: &str) -> Value {
    update(&config_map(&[]), old, &mut new, manager, now, Style::BuiltIn);
    new
}

/// Returns the object after an apply by this manager, or the error message.
fn applied(old: Option<&Value>, data: Value, manager: &str, force: bool) -> Result<Value, String> {
    let mut patch = object(data);
    patch["metadata"] = json!({"name": "a"});
    let applier = Applier { manager, force, now: NOW };
    let (new, managed) = apply(&config_map(&[]), old, &patch, applier).map_err(|status| status.message)?;
    let mut new = new.unwrap_or_else(|| super::clone_without_managed_fields(old.unwrap()));
    new["metadata"]["uid"] = "u".into();
    super::attach(&mut new, managed, Style::BuiltIn);
    Ok(new)
}

/// Returns `manager operation time fields` for each entry.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let entry = |entry: &Value| {
        let time = if entry["time"] == NOW {
            "now"
        } else if entry["time"] == THEN {
            "then"
        } else {
            "-"
        };
        format!("{} {} {time} {}", text(&entry["manager"]), text(&entry["operation"]), entry["fieldsV1"])
    };
    entries.iter().map(entry).collect()
}

#[test]
fn update_keeps_owners_it_cannot_convert_since_1_37() {
    let owners = json!([{"manager": "m", "operation": "Apply", "apiVersion": "v9", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}}}, "time": THEN}]);
    let mut old = object(json!({"a": "1"}));
    old["metadata"]["managedFields"] = owners.clone();
    for (keeps_managers, expected) in [(false, Value::Null), (true, owners)] {
        let other = &|_: &str| Err(Status::unclassified("no such version"));
        let kind = Kind { keeps_managers, other, ..config_map(&[]) };
        let mut new = object(json!({"a": "2"}));
        update(&kind, Some(&old), &mut new, "u", NOW, Style::BuiltIn);
        assert_eq!(new["metadata"]["managedFields"], expected, "{keeps_managers}");
    }
}

#[test]
fn fields_are_written_in_kube_apiservers_order() {
    let given = json!({"f:b": {}, "f:a": {".": {}, "f:x": {}}, "i:2": {}, "v:1": {}, "q:later": {},
        "k:{\"port\":80,\"a\":\"x\"}": {"f:name": {}}, "k:{\"a\":\"x\",\"port\":9}": {}});
    let expected = concat!(
        r#"{"f:a":{".":{},"f:x":{}},"f:b":{},"k:{\"a\":\"x\",\"port\":9}":{},"k:{\"a\":\"x\",\"port\":80}":{"f:name":{}},"#,
        r#""v:1":{},"i:2":{}}"#
    );
    assert_eq!(set(given).to_value().to_string(), expected);
}

#[test]
fn invalid_path_elements_are_rejected() {
    for bad in ["data", "f", "", "v:", "k:1", "i:x"] {
        assert!(Set::parse(&json!({bad: {}})).is_err(), "{bad}");
    }
    assert!(set(json!({"q:later": {}})).is_empty());
}

#[test]
fn elements_are_displayed_as_paths() {
    let shown = |text: &str| Element::parse(text).unwrap().unwrap().to_string();
    assert_eq!(shown("f:spec"), ".spec");
    assert_eq!(shown(r#"k:{"protocol":"TCP","containerPort":80}"#), r#"[containerPort=80,protocol="TCP"]"#);
    assert_eq!(shown(r#"v:"x""#), r#"[="x"]"#);
    assert_eq!(shown("i:3"), "[3]");
}

#[test]
fn set_operations_work_member_by_member() {
    let a = set(json!({"f:a": {".": {}, "f:x": {}, "f:y": {}}, "f:b": {}}));
    let b = set(json!({"f:a": {"f:x": {}}, "f:c": {}}));
    assert_eq!(a.union(&b), set(json!({"f:a": {".": {}, "f:x": {}, "f:y": {}}, "f:b": {}, "f:c": {}})));
    assert_eq!(a.intersection(&b), set(json!({"f:a": {"f:x": {}}})));
    assert_eq!(a.difference(&b), set(json!({"f:a": {".": {}, "f:y": {}}, "f:b": {}})));
    assert_eq!(a.without(&set(json!({"f:a": {}}))), set(json!({"f:b": {}})));
    assert!(b.intersects(&a.to_value()) && !b.is_within(&a.to_value()));
    assert!(!set(json!({"f:a": {"f:z": {}}})).intersects(&a.to_value()));
    assert!(set(json!({"f:a": {"f:x": {}}, "f:b": {}})).is_within(&a.to_value()));
    // A node that only leads to a member is not a member.
    assert!(!set(json!({"f:a": {}})).intersects(&b.to_value()));
}

/// Cases: before, after, and the removed, modified and added fields.
#[test]
fn comparison_reports_changed_fields() {
    let ports = |ports: Value| json!({"spec": {"ports": ports}});
    let table = [
        (
            json!({"spec": {"size": 1}}),
            json!({"spec": {"size": 2}}),
            json!({}),
            json!({"f:spec": {"f:size": {}}}),
            json!({}),
        ),
        (json!({"spec": {"size": 1}}), json!({"spec": {"size": 1.0}}), json!({}), json!({}), json!({})),
        (json!({}), json!({"spec": {"size": 1}}), json!({}), json!({}), json!({"f:spec": {".": {}, "f:size": {}}})),
        (
            json!({"spec": {"one": {"a": "x"}}}),
            json!({"spec": {"one": {"a": "y"}}}),
            json!({}),
            json!({"f:spec": {"f:one": {}}}),
            json!({}),
        ),
        (
            json!({"spec": {"list": ["a"]}}),
            json!({"spec": {"list": ["a", "b"]}}),
            json!({}),
            json!({"f:spec": {"f:list": {}}}),
            json!({}),
        ),
        (
            json!({"spec": {"tags": ["a", "b"]}}),
            json!({"spec": {"tags": ["c", "b"]}}),
            json!({"f:spec": {"f:tags": {"v:\"a\"": {}}}}),
            json!({}),
            json!({"f:spec": {"f:tags": {"v:\"c\"": {}}}}),
        ),
        (
            ports(json!([{"port": 1}, {"port": 2, "name": "x"}])),
            ports(json!([{"port": 2, "name": "y"}, {"port": 1, "protocol": "UDP"}])),
            json!({"f:spec": {"f:ports": {"k:{\"port\":1,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}}),
            json!({"f:spec": {"f:ports": {"k:{\"port\":2,\"protocol\":\"TCP\"}": {"f:name": {}}}}}),
            json!({"f:spec": {"f:ports": {"k:{\"port\":1,\"protocol\":\"UDP\"}": {".": {}, "f:port": {}, "f:protocol": {}}}}}),
        ),
        (
            json!({"spec": {"map": {}}}),
            json!({"spec": {"map": {"a": "b"}}}),
            json!({}),
            json!({}),
            json!({"f:spec": {"f:map": {"f:a": {}}}}),
        ),
        (
            json!({"spec": {"any": {"x": 1}}}),
            json!({"spec": {"any": {"x": {"y": [1]}}}}),
            json!({}),
            json!({"f:spec": {"f:any": {"f:x": {}}}}),
            json!({"f:spec": {"f:any": {"f:x": {"f:y": {}}}}}),
        ),
    ];
    for (old, new, removed, modified, added) in table {
        let changes = Changes::between(&old, &new, &foo()).unwrap();
        let expected = Changes { removed: set(removed), modified: set(modified), added: set(added) };
        assert_eq!(changes, expected, "{old} to {new}");
    }
}

#[test]
fn field_set_has_leaves_list_items_and_empty_objects() {
    let value = json!({"spec": {"size": 1, "tags": ["a"], "ports": [{"port": 1}], "one": {"a": "x"}, "list": ["x"],
        "map": {"k": "v"}, "any": {"x": {}}}});
    let expected = json!({"f:spec": {"f:size": {}, "f:tags": {"v:\"a\"": {}}, "f:one": {}, "f:list": {}, "f:map": {"f:k": {}},
        "f:ports": {"k:{\"port\":1,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}, "f:any": {"f:x": {}}}});
    assert_eq!(fields_of(&value, &foo()), set(expected));
    assert_eq!(fields_of(&json!({"spec": {"map": {}}}), &foo()), set(json!({"f:spec": {"f:map": {}}})));
}

#[test]
fn keyed_lists_keep_their_order_unless_the_patch_reorders() {
    let names = |list: &[&str]| -> Value {
        let items: Vec<Value> = list.iter().map(|name| json!({"name": name, "image": "i"})).collect();
        json!({"spec": {"containers": items}})
    };
    for (live, patch, expected) in [
        (vec!["a", "b", "c"], vec!["d", "b"], vec!["a", "d", "b", "c"]),
        (vec!["a", "b", "c"], vec!["b", "e", "a"], vec!["b", "c", "e", "a"]),
        (vec!["b", "c", "e", "a"], vec!["c", "a"], vec!["b", "c", "e", "a"]),
        (vec!["b", "c", "e", "a"], vec!["x", "c", "y", "b"], vec!["x", "c", "e", "a", "y", "b"]),
    ] {
        let merged =
            merge(&names(&live), &names(&patch), built_in(KubernetesVersion::default(), "", "v1", "Pod")).unwrap();
        let found: Vec<&str> =
            merged["spec"]["containers"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
        assert_eq!(found, expected, "{live:?} {patch:?}");
    }
}

#[test]
fn items_need_all_key_fields_before_1_34() {
    let object = json!({"spec": {"ports": [{"protocol": "UDP"}]}});
    let problem = ".spec.ports: element 0: associative list with keys has an element that omits key field \"port\" \
                   (and doesn't have default value)";
    assert_eq!(check(&object, &foo_of(KubernetesVersion::V1_33)), Err(problem.to_owned()));
    assert_eq!(check(&object, &foo_of(KubernetesVersion::V1_34)), Ok(()));
}

#[test]
fn schema_mismatches_have_kube_apiservers_messages() {
    let pod = built_in(KubernetesVersion::default(), "", "v1", "Pod");
    for (spec, expected) in [
        (json!({"nope": 1}), ".spec.nope: field not declared in schema"),
        (json!({"nodeName": 1}), ".spec.nodeName: expected string, got &value.valueUnstructured{Value:1}"),
        (
            json!({"nodeName": ["x"]}),
            r#".spec.nodeName: expected string, got &value.valueUnstructured{Value:[]interface {}{"x"}}"#,
        ),
        (
            json!({"nodeName": {"x": "y"}}),
            r#".spec.nodeName: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"x":"y"}}"#,
        ),
        (json!({"hostNetwork": "x"}), ".spec.hostNetwork: expected boolean, got &{x}"),
        (
            json!({"terminationGracePeriodSeconds": "x"}),
            ".spec.terminationGracePeriodSeconds: expected numeric (int or float), got string",
        ),
        (json!({"containers": "x"}), ".spec.containers: expected list, got &{x}"),
        (json!({"nodeSelector": ["x"]}), ".spec.nodeSelector: expected map, got &{[x]}"),
        (
            json!({"containers": [null]}),
            ".spec.containers: element 0: associative list with keys may not have a null element",
        ),
        (
            json!({"containers": [{"name": "c"}, {"name": "c"}]}),
            r#".spec.containers: duplicate entries for key [name="c"]"#,
        ),
        (
            json!({"containers": [{"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]}]}),
            r#".spec.containers[name="c"].ports: duplicate entries for key [containerPort=80,protocol="TCP"]"#,
        ),
        (
            json!({"containers": [{"name": "c", "resources": {"limits": {"cpu": {"a": 1}}}}]}),
            r#".spec.containers[name="c"].resources.limits.cpu: expected any scalar, got &{map[a:1]}"#,
        ),
        (
            json!({"containers": [{"name": "c", "image": 1, "workingDir": 2}]}),
            concat!(
                "errors:\n  .spec.containers[name=\"c\"].image: expected string, got &value.valueUnstructured{Value:1}\n",
                "  .spec.containers[name=\"c\"].workingDir: expected string, got &value.valueUnstructured{Value:2}"
            ),
        ),
    ] {
        assert_eq!(check(&json!({"spec": spec}), pod), Err(expected.to_owned()));
    }
    assert_eq!(
        check(
            &json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 1}}}], "nodeName": null}}),
            pod
        ),
        Ok(())
    );
}

#[test]
fn update_takes_ownership_of_changed_fields() {
    let a = updated(None, object(json!({"x": "1", "y": "2"})), "t", THEN);
    assert_eq!(owners(&a), [r#"t Update then {"f:data":{".":{},"f:x":{},"f:y":{}}}"#]);
    let b = updated(Some(&a), object(json!({"x": "1", "z": "2"})), "other", NOW);
    assert_eq!(
        owners(&b),
        [r#"t Update then {"f:data":{".":{},"f:x":{}}}"#, r#"other Update now {"f:data":{"f:z":{}}}"#]
    );
    let same = updated(Some(&b), object(json!({"x": "1", "z": "2"})), "third", NOW);
    assert_eq!(owners(&same), owners(&b));
    let c = updated(Some(&b), object(json!({"x": "2", "z": "2"})), "other", NOW);
    assert_eq!(owners(&c), [r#"t Update then {"f:data":{}}"#, r#"other Update now {"f:data":{"f:x":{},"f:z":{}}}"#]);
    let nothing = updated(None, json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}}), "t", NOW);
    assert_eq!(nothing["metadata"].get("managedFields"), None);
}

#[test]
fn clients_can_clear_or_replace_managed_fields() {
    let tracked = updated(None, object(json!({"a": "1"})), "t", THEN);
    let with = |managed: Value| {
        let mut new = object(json!({"a": "1"}));
        new["metadata"]["managedFields"] = managed;
        updated(Some(&tracked), new, "t", NOW)
    };
    for reset in [json!([]), json!([{}])] {
        let cleared = with(reset);
        assert!(owners(&cleared).is_empty());
        // From now on updates do not track the object, until the next apply.
        assert!(owners(&updated(Some(&cleared), object(json!({"a": "2"})), "t", NOW)).is_empty());
        let first = applied(Some(&cleared), json!({"b": "1"}), "m", false).unwrap();
        let expected =
            [r#"m Apply now {"f:data":{"f:b":{}}}"#, r#"before-first-apply Update now {"f:data":{".":{},"f:a":{}}}"#];
        assert_eq!(owners(&first), expected);
        let conflict = applied(Some(&cleared), json!({"a": "9"}), "m", false).unwrap_err();
        assert_eq!(conflict, r#"Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a"#);
    }
    let entry = |fields: Value| json!([{"manager": "z", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}]);
    assert_eq!(
        owners(&with(entry(json!({"f:data": {"f:zz": {}, "f:a": {}}})))),
        [r#"z Apply - {"f:data":{"f:a":{},"f:zz":{}}}"#]
    );
    let mut unknown_type = entry(json!({"f:data": {}}));
    unknown_type[0]["fieldsType"] = "FieldsV2".into();
    for bad in [entry(json!({"data": {}})), unknown_type, json!([{"manager": "z"}, {"manager": "y"}])] {
        assert_eq!(owners(&with(bad)), owners(&tracked));
    }
}

#[test]
fn apply_owns_its_fields_and_releases_omitted_ones() {
    let a = applied(None, json!({"a": "1", "b": "2"}), "m1", false).unwrap();
    assert_eq!(owners(&a), [r#"m1 Apply now {"f:data":{"f:a":{},"f:b":{}}}"#]);
    let shared = applied(Some(&a), json!({"a": "1"}), "m2", false).unwrap();
    assert_eq!(
        owners(&shared),
        [r#"m2 Apply - {"f:data":{"f:a":{}}}"#, r#"m1 Apply now {"f:data":{"f:a":{},"f:b":{}}}"#]
    );
    let less = applied(Some(&shared), json!({}), "m1", false).unwrap();
    assert_eq!(less["data"], json!({"a": "1"}));
    let gone = applied(Some(&less), json!({}), "m2", false).unwrap();
    assert_eq!(gone.get("data").and_then(Value::as_object).map_or(0, serde_json::Map::len), 0);
}

#[test]
fn conflicts_name_managers_and_fields() {
    let a = applied(None, json!({"a": "1", "b": "2"}), "m1", false).unwrap();
    let a = applied(Some(&a), json!({"a": "1"}), "m2", false).unwrap();
    let refused = |data: Value, manager: &str| applied(Some(&a), data, manager, false).unwrap_err();
    assert_eq!(refused(json!({"a": "2"}), "m2"), r#"Apply failed with 1 conflict: conflict with "m1": .data.a"#);
    assert_eq!(
        refused(json!({"a": "2", "b": "3"}), "m3"),
        "Apply failed with 3 conflicts: conflicts with \"m1\":\n- .data.a\n- .data.b\nconflicts with \"m2\":\n- .data.a"
    );
    let forced = applied(Some(&a), json!({"a": "2", "b": "3"}), "m3", true).unwrap();
    assert_eq!(owners(&forced), [r#"m3 Apply now {"f:data":{"f:a":{},"f:b":{}}}"#]);
    let updated = updated(Some(&a), object(json!({"a": "1", "b": "4"})), "up", NOW);
    assert_eq!(
        applied(Some(&updated), json!({"a": "1", "b": "5"}), "m1", false).unwrap_err(),
        r#"Apply failed with 1 conflict: conflict with "up" using v1: .data.b"#
    );
}

#[test]
fn kubectl_takes_over_client_side_applied_fields() {
    let last =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1", "b": "2"}});
    let mut csa = object(json!({"a": "1", "b": "2"}));
    csa["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": last.to_string()});
    let csa = updated(None, csa, "kubectl-client-side-apply", THEN);
    assert!(applied(Some(&csa), json!({"a": "5"}), "other", false).is_err());
    let taken = applied(Some(&csa), json!({"a": "5"}), "kubectl", false).unwrap();
    assert_eq!(taken["data"], json!({"a": "5", "b": "2"}));
    assert_eq!(
        taken["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"],
        "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"5\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}\n"
    );
    let changed = updated(
        Some(&taken),
        {
            let mut new = super::clone_without_managed_fields(&taken);
            new["data"]["b"] = "7".into();
            new
        },
        "oo",
        NOW,
    );
    assert_eq!(
        applied(Some(&changed), json!({"a": "5", "b": "3"}), "kubectl", false).unwrap_err(),
        r#"Apply failed with 1 conflict: conflict with "oo" using v1: .data.b"#
    );
}

#[test]
fn oldest_updaters_are_merged_above_the_limit() {
    let mut live = updated(None, object(json!({})), "t", THEN);
    let mut data = serde_json::Map::new();
    for index in 0..13 {
        data.insert(format!("k{index:02}"), "1".into());
        live = updated(
            Some(&live),
            object(Value::Object(data.clone())),
            &format!("c{index:02}"),
            &format!("2026-01-01T00:00:{index:02}Z"),
        );
    }
    let owners = owners(&live);
    assert_eq!(owners.len(), 10);
    assert!(owners[0].starts_with("ancient-changes Update - {\"f:data\":{"), "{owners:?}");
    assert!(owners[0].contains("f:k00") && owners[0].contains("f:k03") && !owners[0].contains("f:k04"), "{owners:?}");
}

#[test]
fn fields_that_a_write_resets_have_no_new_owner() {
    let kind = config_map(&["data.status"]);
    let mut new = object(json!({"status": "x", "spec": "y"}));
    update(&kind, None, &mut new, "m", NOW, Style::BuiltIn);
    assert_eq!(owners(&new), [r#"m Update now {"f:data":{".":{},"f:spec":{}}}"#]);
}

#[test]
fn changed_times_alone_are_no_change() {
    let old = updated(None, object(json!({"a": "1"})), "t", THEN);
    let mut new = old.clone();
    new["metadata"]["managedFields"][0]["time"] = NOW.into();
    let mut changed = new.clone();
    keep_times(&mut new, &old);
    assert_eq!(new, old);
    changed["data"]["a"] = "2".into();
    let before = changed.clone();
    keep_times(&mut changed, &old);
    assert_eq!(changed, before);
}

#[test]
fn type_that_became_atomic_is_owned_as_a_whole() {
    let mut owned = set(
        json!({"f:spec": {"f:one": {".": {}, "f:a": {}}, "f:list": {"v:\"x\"": {}}, "f:any": {"f:x": {"f:y": {}}}}}),
    );
    owned.reconcile(&foo());
    assert_eq!(owned, set(json!({"f:spec": {"f:one": {}, "f:list": {}, "f:any": {"f:x": {"f:y": {}}}}})));
}

#[test]
fn scale_shows_and_restores_the_owners_of_replicas() {
    let paths = super::ReplicasPaths {
        api_version: "apps/v1",
        path: &|version| (version == "apps/v1").then(|| vec!["spec".to_owned(), "replicas".to_owned()]),
    };
    let entry = |manager: &str, version: &str, fields: Value, subresource: Option<&str>| {
        let mut entry = json!({"manager": manager, "operation": "Update", "apiVersion": version, "time": THEN,
            "fieldsType": "FieldsV1", "fieldsV1": fields});
        if let Some(subresource) = subresource {
            entry["subresource"] = subresource.into();
        }
        entry
    };
    let whole = json!({"f:spec": {"f:replicas": {}, "f:paused": {}}});
    let object = json!([
        entry("t", "apps/v1", whole, None),
        entry("old", "apps/v0", json!({"f:spec": {"f:replicas": {}}}), None)
    ]);
    let scale = super::to_scale(&paths, Some(&object)).unwrap();
    assert_eq!(scale, json!([entry("t", "autoscaling/v1", json!({"f:spec": {"f:replicas": {}}}), None)]));
    let scaled = json!([entry("scaler", "autoscaling/v1", json!({"f:spec": {"f:replicas": {}}}), Some("scale"))]);
    let back = super::from_scale(&paths, Some(&object), Some(&scaled)).unwrap();
    let mut scaler = entry("scaler", "apps/v1", json!({"f:spec": {"f:replicas": {}}}), Some("scale"));
    scaler.as_object_mut().unwrap().shift_remove("time");
    assert_eq!(back, json!([scaler, entry("t", "apps/v1", json!({"f:spec": {"f:paused": {}}}), None)]));
}

#[test]
fn recorded_types_compile_and_field_sets_round_trip() {
    for (group, version, kind) in [("", "v1", "Pod"), ("apiextensions.k8s.io", "v1", "CustomResourceDefinition")] {
        assert!(!built_in(KubernetesVersion::default(), group, version, kind).is_deduced_map(), "{kind}");
    }
    let fields = json!({"f:a": {".": {}, "v:10": {}, "v:9": {}}});
    let entry = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}]);
    let written = Managers::written(Some(&entry)).into_value().unwrap();
    assert_eq!(written[0]["fieldsV1"].to_string(), r#"{"f:a":{".":{},"v:9":{},"v:10":{}}}"#);
}
