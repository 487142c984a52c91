use serde_json::json;

use super::*;

fn pod() -> Value {
    json!({
        "metadata": {
            "labels": {"a.b/c": "d"},
            "ownerReferences": [{"kind": "Job"}, {"kind": "Other"}],
            "generation": 3,
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}],
        },
    })
}

#[test]
fn query_selects_values() {
    for (query, expected) in [
        (".", json!([pod()])),
        (".status.phase", json!(["Running"])),
        (".status.none.deeper", json!([])),
        (".metadata.labels[\"a.b/c\"]", json!(["d"])),
        (".metadata.labels.\"a.b/c\"", json!(["d"])),
        (".status.conditions.[] | select( .type == \"Ready\" ) | .status", json!(["True"])),
        (".status.conditions[] | select(.type == \"Ready\" and .status != \"True\") | .type", json!([])),
        (".metadata.ownerReferences.[].kind", json!(["Job", "Other"])),
        (".metadata.ownerReferences[-1].kind", json!(["Other"])),
        // A value that does not fit selects nothing, as in kwok.
        (".metadata.finalizers.[]", json!([])),
        (".status.phase.x", json!([])),
        (".status.phase.x?, 1", json!(null)),
        ("(.status.phase.x? // \"none\")", json!(["none"])),
        (".metadata.finalizers // [] | length", json!(null)),
        (".status.conditions | length", json!([2])),
        (".status.conditions | any(.status == \"True\")", json!([true])),
        (".status.conditions | all(.status == \"True\") | not", json!([true])),
        (".status.conditions | map(.type)", json!([["Ready", "Other"]])),
        ("[.status.conditions[].status] | any", json!([true])),
        (".metadata | has(\"labels\")", json!([true])),
        (".metadata.generation >= 3 or false", json!([true])),
        (".metadata.generation | tostring", json!(["3"])),
        (".status.phase | startswith(\"Run\")", json!([true])),
        (".status.phase | endswith(\"Run\")", json!([false])),
        ("empty", json!([])),
    ] {
        let parsed = Query::parse(query);
        if expected.is_null() {
            assert!(parsed.is_err(), "{query}: {parsed:?}");
            continue;
        }
        let pod = pod();
        let found: Vec<_> = parsed.unwrap().select(&pod).into_iter().map(Cow::into_owned).collect();
        assert_eq!(Value::Array(found), expected, "{query}");
    }
}

#[test]
fn unsupported_syntax_is_named() {
    for (query, message) in [
        ("", "the end of the query"),
        (".a as $x | $x", "'a', character 4"),
        ("..", "'.', character 1"),
        (".a[1:2]", "expected \"]\" at ':'"),
        (".a | test(\"x\")", "the function \"test\" is not supported"),
        ("select", "needs an argument"),
        ("length(1)", "has no argument"),
        ("\"a", "not closed"),
        ("\"\\(1)\"", "interpolation"),
        (".a + 1", "'+', character 4"),
        ("(.a", "expected \")\""),
        (&"(".repeat(1_000), "nested"),
        (&"1//".repeat(1_000), "nested"),
        (&".a".repeat(100), "more than 32 parts"),
    ] {
        let error = Query::parse(query).unwrap_err();
        assert!(error.contains(message), "{query}: {error}");
    }
}
