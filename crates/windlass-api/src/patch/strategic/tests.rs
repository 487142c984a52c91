use super::*;
use crate::GroupVersionKind;

fn pod() -> Schema {
    Schema::of(&GroupVersionKind::new("", "v1", "Pod")).unwrap()
}

fn diff(from: Value, to: Value) -> Value {
    strategic_diff(&from, &to, pod()).unwrap()
}

#[test]
fn list_items_are_matched_by_key() {
    let from = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}});
    let to = json!({"spec": {"containers": [{"name": "c"}, {"name": "a", "image": "2"}]}});
    assert_eq!(
        diff(from.clone(), to),
        json!({"spec": {
            "containers": [{"name": "c"}, {"image": "2", "name": "a"}, {"name": "b", "$patch": "delete"}],
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
        }})
    );
    assert_eq!(diff(from.clone(), from), json!({}));
}

#[test]
fn changed_order_is_a_difference() {
    let list = |names: [&str; 2]| json!({"spec": {"containers": names.map(|name| json!({"name": name}))}});
    assert_eq!(
        diff(list(["a", "b"]), list(["b", "a"])),
        json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}})
    );
}

#[test]
fn set_patch_lists_removed_items() {
    let with = |finalizers: &[&str]| json!({"metadata": {"finalizers": finalizers}});
    assert_eq!(
        diff(with(&["a", "b"]), with(&["b", "c"])),
        json!({"metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"],
            "$setElementOrder/finalizers": ["b", "c"]}})
    );
    assert_eq!(diff(with(&[]), with(&["a"])), json!({"metadata": {"finalizers": ["a"]}}));
}

#[test]
fn lists_without_keys_are_replaced() {
    let with = |command: &[&str]| json!({"spec": {"containers": [{"name": "a", "command": command}]}});
    let patch = diff(with(&["x", "y"]), with(&["y"]));
    assert_eq!(patch["spec"]["containers"], json!([{"name": "a", "command": ["y"]}]));
}

#[test]
fn union_patch_lists_retained_keys() {
    let with = |volume: Value| json!({"spec": {"volumes": [volume]}});
    let patch = diff(with(json!({"name": "v", "emptyDir": {}})), with(json!({"name": "v", "hostPath": {"path": "/"}})));
    assert_eq!(
        patch["spec"]["volumes"],
        json!([{"hostPath": {"path": "/"}, "emptyDir": null, "$retainKeys": ["hostPath", "name"], "name": "v"}])
    );
}

#[test]
fn three_way_patch_keeps_foreign_fields() {
    let original = json!({"metadata": {"labels": {"old": "1", "mine": "1"}},
        "spec": {"containers": [{"name": "a", "image": "1", "tty": true}, {"name": "b"}]}});
    let modified =
        json!({"metadata": {"labels": {"mine": "2"}}, "spec": {"containers": [{"name": "a", "image": "2"}]}});
    let current = json!({"metadata": {"labels": {"old": "1", "mine": "1", "theirs": "1"}}, "spec": {"nodeName": "n",
        "containers": [{"name": "a", "image": "1", "tty": true, "stdin": true}, {"name": "b"}, {"name": "sidecar"}]}});
    let patch = strategic_three_way(&original, &modified, &current, pod(), OnConflict::Fail).unwrap();
    assert_eq!(
        patch,
        json!({"metadata": {"labels": {"old": null, "mine": "2"}}, "spec": {
            "containers": [{"tty": null, "name": "a", "image": "2"}, {"name": "b", "$patch": "delete"}],
            "$setElementOrder/containers": [{"name": "a"}]}})
    );
}

#[test]
fn field_changed_by_both_conflicts_or_is_overwritten() {
    let image = |image: &str| json!({"spec": {"containers": [{"name": "a", "image": image}]}});
    let three = |on_conflict| strategic_three_way(&image("1"), &image("2"), &image("3"), pod(), on_conflict);
    let error = three(OnConflict::Fail).unwrap_err();
    assert_eq!(error.to_string(), "spec.containers.image was changed differently by another writer");
    assert_eq!(three(OnConflict::Overwrite).unwrap()["spec"]["containers"], json!([{"name": "a", "image": "2"}]));
    let same = strategic_three_way(&image("1"), &image("2"), &image("2"), pod(), OnConflict::Fail).unwrap();
    assert_eq!(same, json!({}));
}

#[test]
fn incomparable_value_is_named_in_the_error() {
    let error = |from: Value, to: Value| strategic_diff(&from, &to, pod()).unwrap_err().to_string();
    assert_eq!(
        error(json!({"odd": {"a": 1}}), json!({"odd": {"a": 2}})),
        "the kind has no field odd that can be merged"
    );
    assert_eq!(
        error(json!({"spec": {"containers": [{"image": "a"}]}}), json!({"spec": {"containers": [{"image": "b"}]}})),
        "an item of spec.containers lacks the merge key name"
    );
    assert_eq!(error(json!(1), json!({})), "a patch requires two objects");
}
