use serde_json::json;

use super::*;
use crate::codec::plan;

fn merge_patch(current: &Value, patch: &Value) -> Value {
    apply_patch(PatchType::Merge, patch.to_string().as_bytes(), current, None, FieldValidation::Warn).unwrap().value
}

fn json_patch(current: &Value, patch: &Value) -> Result<Value, Status> {
    apply_patch(PatchType::Json, patch.to_string().as_bytes(), current, None, FieldValidation::Ignore)
        .map(|patched| patched.value)
}

fn strategic(kind: (&str, &str, &str), current: &Value, patch: &Value) -> Result<Value, Status> {
    let plan = plan(kind.0, kind.1, kind.2).unwrap();
    apply_patch(PatchType::Strategic, patch.to_string().as_bytes(), current, Some(plan), FieldValidation::Warn)
        .map(|patched| patched.value)
}

const POD: (&str, &str, &str) = ("", "v1", "Pod");
const DEPLOYMENT: (&str, &str, &str) = ("apps", "v1", "Deployment");

#[test]
fn merge_patches_remove_by_null_and_replace_lists() {
    let current = json!({"a": {"b": 1, "c": [1, 2]}, "d": "x", "e": null});
    let patched = merge_patch(
        &current,
        &json!({"a": {"b": null, "c": [3]}, "d": {"f": null, "g": [{"h": null}]}, "e": {"i": 1}}),
    );
    assert_eq!(patched, json!({"a": {"c": [3]}, "d": {"g": [{}]}, "e": {"i": 1}}));
}

#[test]
fn json_patches_follow_the_rfc_and_gos_library() {
    let current = json!({"a": {"b": [1, 2, 3]}, "c/d": {"~": 1}, "n": null});
    for (operations, expected) in [
        (json!([{"op": "add", "path": "/a/b/1", "value": 9}]), json!([1, 9, 2, 3])),
        (json!([{"op": "add", "path": "/a/b/-", "value": 9}]), json!([1, 2, 3, 9])),
        (json!([{"op": "add", "path": "/a/b/-1", "value": 9}]), json!([1, 2, 3, 9])),
        (json!([{"op": "remove", "path": "/a/b/-1"}]), json!([1, 2])),
        (json!([{"op": "replace", "path": "/a/b", "value": {"x": 1}}]), json!({"x": 1})),
        (
            json!([{"op": "test", "path": "/c~1d/~0", "value": 1}, {"op": "move", "from": "/a/b/0", "path": "/a/b/2"}]),
            json!([2, 3, 1]),
        ),
        (json!([{"op": "copy", "from": "/c~1d", "path": "/a/b"}]), json!({"~": 1})),
        (
            json!([{"op": "replace", "path": "/a/missing", "value": 1}, {"op": "test", "path": "/nope", "value": null}]),
            json!([1, 2, 3]),
        ),
        (json!([{"op": "add", "path": "x/a/b/0"}]), json!([null, 1, 2, 3])),
    ] {
        let patched = json_patch(&current, &operations).unwrap();
        assert_eq!(patched["a"]["b"], expected, "{operations}");
    }
}

#[test]
fn inapplicable_json_patches_have_the_same_error() {
    let current = json!({"a": {"b": [1]}, "n": null});
    for operations in [
        json!([{"op": "test", "path": "/a/b/0", "value": 1.0}]),
        json!([{"op": "remove", "path": "/x"}]),
        json!([{"op": "add", "path": "/x/y", "value": 1}]),
        json!([{"op": "add", "path": "/n/y", "value": 1}]),
        json!([{"op": "add", "path": "/a/b/5", "value": 1}]),
        json!([{"op": "add", "path": "", "value": {}}]),
        json!([{"op": "nope", "path": "/a"}]),
        json!([{"path": "/a"}]),
    ] {
        let status = json_patch(&current, &operations).unwrap_err();
        assert_eq!((status.code, status.reason.as_deref()), (422, Some("Invalid")), "{operations}");
        assert_eq!(status.message, "the server rejected our request due to an error in our request");
        assert_eq!(serde_json::to_value(&status).unwrap()["details"], json!({}));
    }
}

#[test]
fn json_patches_are_limited() {
    let many = Value::Array(vec![json!({"op": "test", "path": "/a", "value": null}); 10_001]);
    let status = json_patch(&json!({}), &many).unwrap_err();
    assert_eq!(status.code, 413);
    assert_eq!(
        status.message,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
    // Each operation doubles the document.
    let double = |level: usize| json!({"op": "copy", "from": "/a", "path": format!("/a/x{level}")});
    let bomb = Value::Array((0..64).map(double).collect());
    assert_eq!(json_patch(&json!({"a": {"b": "0123456789"}}), &bomb).unwrap_err().code, 422);
    let deeper = |level: usize| json!({"op": "add", "path": format!("/a{}", "/a".repeat(level)), "value": {}});
    let deep = Value::Array((0..1000).map(deeper).collect());
    assert_eq!(json_patch(&json!({}), &deep).unwrap_err().code, 422);
}

#[test]
fn malformed_patches_are_rejected() {
    let refuse = |kind, body: &str, validation| {
        let plan = plan("", "v1", "ConfigMap");
        let status = apply_patch(kind, body.as_bytes(), &json!({}), plan, validation).unwrap_err();
        assert_eq!(status.code, 400);
        status.message
    };
    for (kind, body, validation, expected) in [
        (
            PatchType::Json,
            "{}",
            FieldValidation::Warn,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            PatchType::Json,
            "{}",
            FieldValidation::Ignore,
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        ),
        (
            PatchType::Json,
            r#"[{"op":5}]"#,
            FieldValidation::Warn,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
        (
            PatchType::Merge,
            "[]",
            FieldValidation::Warn,
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (PatchType::Merge, "null", FieldValidation::Warn, "Invalid JSON Patch"),
        (PatchType::Merge, "{", FieldValidation::Ignore, "Invalid JSON Patch"),
        (PatchType::Merge, "{", FieldValidation::Warn, "error decoding patch: unexpected end of JSON input"),
        (
            PatchType::Strategic,
            "[]",
            FieldValidation::Warn,
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (PatchType::Strategic, "x", FieldValidation::Ignore, "invalid character 'x' looking for beginning of value"),
    ] {
        assert_eq!(refuse(kind, body, validation), expected);
    }
    let status = apply_patch(PatchType::Strategic, b"{}", &json!({}), None, FieldValidation::Warn).unwrap_err();
    assert_eq!(status.message, "strategic merge patch format is not supported");
}

#[test]
fn strategic_patches_merge_lists_by_their_key() {
    let current =
        json!({"spec": {"containers": [{"name": "c", "image": "a", "ports": [{"containerPort": 80, "name": "w"}]}]}});
    let patched = strategic(
        POD,
        &current,
        &json!({"spec": {"containers": [
            {"name": "c2", "image": "b"},
            {"name": "c", "ports": [{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 81}]}
        ]}}),
    );
    // New items come before existing ones, unless the patch specifies an order.
    assert_eq!(
        patched.unwrap()["spec"]["containers"],
        json!([
            {"name": "c2", "image": "b"},
            {"name": "c", "image": "a", "ports": [{"containerPort": 80, "name": "w", "protocol": "UDP"}, {"containerPort": 81}]}
        ])
    );
    let patched = strategic(POD, &current, &json!({"spec": {"containers": [{"name": "c2"}]}})).unwrap();
    assert_eq!(patched["spec"]["containers"][0]["name"], "c2");
}

#[test]
fn strategic_directives_replace_delete_and_order() {
    let current = json!({"metadata": {"finalizers": ["a", "b"], "labels": {"x": "1"}}, "spec": {
        "containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
        "nodeSelector": {"k": "v"}, "securityContext": {"runAsUser": 1}, "tolerations": [{"key": "t"}]}});
    for (patch, path, expected) in [
        (
            json!({"spec": {"containers": [{"name": "b", "$patch": "delete"}]}}),
            "/spec/containers",
            json!([{"name": "a"}, {"name": "c"}]),
        ),
        (
            json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}),
            "/spec/containers",
            json!([{"name": "z"}]),
        ),
        (
            json!({"spec": {"securityContext": {"$patch": "replace", "fsGroup": 2}}}),
            "/spec/securityContext",
            json!({"fsGroup": 2}),
        ),
        (json!({"spec": {"securityContext": {"$patch": "delete"}}}), "/spec/securityContext", json!({})),
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}}),
            "/spec/containers",
            json!([{"name": "c"}, {"name": "a"}, {"name": "b"}]),
        ),
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "new"}, {"name": "a"}], "containers": [{"name": "new"}]}}),
            "/spec/containers",
            json!([{"name": "b"}, {"name": "c"}, {"name": "new"}, {"name": "a"}]),
        ),
        (json!({"metadata": {"finalizers": ["c", "a"]}}), "/metadata/finalizers", json!(["c", "a", "b"])),
        (json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}), "/metadata/finalizers", json!(["b"])),
        (
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["c", "b"], "finalizers": ["c"]}}),
            "/metadata/finalizers",
            json!(["c", "b"]),
        ),
        (json!({"metadata": {"labels": {"x": null, "y": "2"}}}), "/metadata/labels", json!({"y": "2"})),
        (
            json!({"spec": {"tolerations": [{"key": "u", "value": null}]}}),
            "/spec/tolerations",
            json!([{"key": "u", "value": null}]),
        ),
        (
            json!({"spec": {"affinity": {"podAffinity": null, "nodeAffinity": {}}}}),
            "/spec/affinity",
            json!({"nodeAffinity": {}}),
        ),
    ] {
        let patched = strategic(POD, &current, &patch).unwrap_or_else(|status| panic!("{patch}: {}", status.message));
        assert_eq!(patched.pointer(path), Some(&expected), "{patch}");
    }
}

#[test]
fn retain_keys_clears_other_union_members() {
    let current = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    assert_eq!(strategic(DEPLOYMENT, &current, &patch).unwrap()["spec"]["strategy"], json!({"type": "Recreate"}));
    let volumes = json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}});
    let patch =
        json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}});
    assert_eq!(
        strategic(POD, &volumes, &patch).unwrap()["spec"]["volumes"],
        json!([{"name": "v", "hostPath": {"path": "/x"}}])
    );
}

#[test]
fn inapplicable_strategic_patches_have_specific_errors() {
    let current = json!({"metadata": {"finalizers": ["a"]}, "spec": {"containers": [{"name": "a"}], "strategy": {}}});
    for (patch, code, message) in [
        (
            json!({"spec": {"containers": [{"image": "x"}]}}),
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (json!({"$patch": "nope"}), 500, "unknown patch type: nope in map: map[$patch:nope]"),
        (json!({"spec": {"$retainKeys": ["a"], "b": 1}}), 400, "invalid patch format of retainKeys"),
        (json!({"spec": {"$deleteFromPrimitiveListcontainers": []}}), 400, "invalid patch format of primitive list"),
        (json!({"spec": {"$setElementOrdercontainers": []}}), 400, "invalid patch format of setElementOrder list"),
        (json!({"metadata": {"finalizers": [1]}}), 500, "list element types are not identical: [[a] [1]]"),
        (json!({"metadata": {"finalizers": [["x"]]}}), 500, "list element types are not identical: [[a] [[x]]]"),
        (
            json!({"spec": {"containers": [{"$patch": "merge"}]}}),
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}}),
            500,
            "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
        ),
        (
            json!({"spec": {"strategy": {"a": 1}}}),
            500,
            "unable to find api field in struct PodSpec for the json field \"strategy\"",
        ),
    ] {
        let status = strategic(POD, &current, &patch).unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (code, message), "{patch}");
    }
}

#[test]
fn patched_built_in_object_is_validated_as_its_kind() {
    let plan = plan("", "v1", "ConfigMap").unwrap();
    let current = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"a": "1"}});
    let patch = |kind, body: &str, validation| patch_object(kind, body.as_bytes(), &current, plan, validation);

    let decoded = patch(PatchType::Merge, r#"{"data":{"b":null,"c":"<"},"bogus":1}"#, FieldValidation::Warn).unwrap();
    assert_eq!(decoded.value["data"], json!({"a": "1", "c": "<"}));
    assert_eq!(decoded.warnings, [r#"unknown field "bogus""#]);

    let status = patch(PatchType::Merge, r#"{"data":{"a":5,"b":"<"}}"#, FieldValidation::Warn).unwrap_err();
    assert_eq!(status.code, 422);
    assert_eq!(
        status.message,
        concat!(
            r#" "" is invalid: patch: Invalid value: "{\"apiVersion\":\"v1\",\"data\":{\"a\":5,\"b\":\"\\u003c\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}": "#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
        )
    );
    let status = patch(PatchType::Json, r#"[{"op":"add","path":"/bogus","value":1,"x":1}]"#, FieldValidation::Strict)
        .unwrap_err();
    assert!(
        status.message.ends_with(r#": strict decoding error: json patch unknown field "[0].x", unknown field "bogus""#),
        "{}",
        status.message
    );
    let status = patch(PatchType::Strategic, r#"{"data":{"a":5}}"#, FieldValidation::Strict).unwrap_err();
    assert_eq!(
        status.message,
        r#" "" is invalid: patch: Invalid value: "map[data:map[a:5]]": cannot convert int64 to string"#
    );
    let status = patch(PatchType::Merge, r#"{"kind":"Pod"}"#, FieldValidation::Warn).unwrap_err();
    assert!(
        status.message.ends_with(r"converting (v1.Pod) to (core.ConfigMap): unknown conversion"),
        "{}",
        status.message
    );
}
