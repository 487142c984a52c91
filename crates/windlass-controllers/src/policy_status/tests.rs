use serde_json::{Value, json};
use windlass_api::GroupVersionKind;

use super::{
    kinds::{CheckedKind, find},
    *,
};

fn checked(kind: &str) -> CheckedKind {
    let component = |properties: Value, kind: &str| {
        json!({"type": "object", "properties": properties, "x-kubernetes-group-version-kind": [
            {"group": "apps", "version": "v1", "kind": kind},
        ]})
    };
    let spec = json!({"replicas": {"type": "integer"}, "size": {"$ref": "#/components/schemas/Quantity"},
        "next": {"$ref": "#/components/schemas/Spec"}});
    let document = json!({"components": {"schemas": {
        "Deployment": component(json!({"spec": {"allOf": [{"$ref": "#/components/schemas/Spec"}]}}), "Deployment"),
        "Other": component(json!({"replicas": {"type": "string"}}), "Other"),
        "Spec": {"type": "object", "properties": spec},
        "Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    }}});
    let kind = GroupVersionKind::new("apps", "v1", kind.to_owned());
    let schema = Schema::of_value(&find(&document, &kind).unwrap()).unwrap();
    CheckedKind { kind, schema }
}

fn policy(validations: Value, variables: Value) -> ValidatingAdmissionPolicy {
    let spec = json!({"validations": validations, "variables": variables});
    serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
}

#[test]
fn unknown_field_is_reported_for_each_kind() {
    let policy = policy(
        json!([{"expression": "object.spec.replicas > 1"}, {"expression": "object.replicas > 1"},
               {"expression": "true", "messageExpression": "object.nothing"}]),
        json!([]),
    );
    let found = warnings(&policy, &[checked("Deployment"), checked("Other")], None);
    let fields: Vec<_> = found.iter().map(|warning| warning.field_ref.as_str()).collect();
    let expected =
        ["spec.validations[0].expression", "spec.validations[1].expression", "spec.validations[2].messageExpression"];
    assert_eq!(fields, expected);
    assert_eq!(
        found[0].warning,
        "apps/v1, Kind=Other: ERROR: <input>:1:7: undefined field 'spec'\n | object.spec.replicas > 1\n | ......^\n"
    );
    assert!(found[1].warning.starts_with("apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'"));
    assert!(found[1].warning.contains("\n\napps/v1, Kind=Other: ERROR: <input>:1:17: found no matching overload"));
}

#[test]
fn variables_and_recursive_types_are_checked() {
    let variables = json!([{"name": "count", "expression": "object.spec.replicas"}]);
    let valid = json!([{"expression": "variables.count > 1 && object.spec.size != null && object.spec.next.any == 1"}]);
    assert_eq!(warnings(&policy(valid, variables.clone()), &[checked("Deployment")], None), []);
    let invalid = json!([{"expression": "variables.count == 'x'"}]);
    assert_eq!(warnings(&policy(invalid, variables), &[checked("Deployment")], None).len(), 1);
}
