use serde_json::json;

use super::*;

fn shown(field: &str, message: &str) -> String {
    let mut cause = Cause { reason: String::new(), message: message.to_owned(), field: field.to_owned() };
    rewrite(&mut cause);
    cause.message
}

/// Returns the value in the message about an invalid value.
fn value(field: &str, value: &Value, detail: &str) -> String {
    let message = shown(field, &format!("Invalid value: {value}: {detail}"));
    let start = message.strip_prefix("Invalid value: ").unwrap();
    start.strip_suffix(&format!(": {detail}")).unwrap().to_owned()
}

#[test]
fn texts_and_numbers_have_the_form_of_json() {
    for message in [
        "Required value",
        "Forbidden: Invalid value: {}",
        "Invalid value",
        "Invalid value: 5: must be less",
        "Invalid value: true",
        r#"Invalid value: "a: b": no"#,
        r#"Unsupported value: "x": supported values: "All""#,
        "Invalid value: {no json: no",
        "Too many: 2: must have at most 1 items",
        "Invalid value: -1: must be greater than or equal to 0",
    ] {
        assert_eq!(shown("spec.maxSurge.x", message), message);
    }
    assert_eq!(value("spec.maxSurge", &json!(-1), "must be greater than or equal to 0"), "-1");
}

#[test]
fn lists_and_maps_have_their_types() {
    assert_eq!(
        shown("dryRun", r#"Unsupported value: ["a","b\""]: no"#),
        r#"Unsupported value: []string{"a", "b\""}: no"#
    );
    assert_eq!(shown("dryRun", r#"Duplicate value: ["a"]"#), r#"Duplicate value: []string{"a"}"#);
    assert_eq!(value("spec.policyTypes", &json!(["Ingress"]), "many"), r#"[]networking.PolicyType{"Ingress"}"#);
    assert_eq!(value("spec.podFailurePolicy.rules[0].onExitCodes.values", &json!([]), "none"), "[]int32{}");
    assert_eq!(value("spec.x[0].values", &json!([2, 1]), "unordered"), "[]int32{2, 1}");
    let labels = "spec.template.metadata.labels";
    assert_eq!(value(labels, &json!({"b": "1", "a": "2"}), "no"), r#"map[string]string{"a":"2", "b":"1"}"#);
    assert_eq!(value(labels, &Value::Null, "no"), "map[string]string(nil)");
}

#[test]
fn nil_depends_on_the_type_of_the_field() {
    assert_eq!(value("spec.selector", &Value::Null, "field is immutable"), r#""null""#);
    assert_eq!(value("status.storedVersions", &Value::Null, "none"), "[]string(nil)");
    assert_eq!(value("spec.request", &Value::Null, "no PEM"), "[]byte(nil)");
    assert_eq!(value("spec", &Value::Null, "either `defaultBackend` or `rules`"), "[]networking.IngressRule(nil)");
    let raw = "runtime.RawExtension{Raw:[]uint8(nil), Object:runtime.Object(nil)}";
    assert_eq!(value("data", &Value::Null, "field is immutable"), raw);
}

#[test]
fn structures_have_all_fields_in_order() {
    let empty =
        "v1.LabelSelector{MatchLabels:map[string]string(nil), MatchExpressions:[]v1.LabelSelectorRequirement(nil)}";
    assert_eq!(value("spec.selector", &json!({}), "empty"), empty);
    let selector = json!({"matchExpressions": [{"operator": "In", "key": "a", "values": ["b"]}, {"key": "c"}]});
    let requirements = r#"v1.LabelSelectorRequirement{Key:"a", Operator:"In", Values:[]string{"b"}}, v1.LabelSelectorRequirement{Key:"c", Operator:"", Values:[]string(nil)}"#;
    let expected = format!(
        "v1.LabelSelector{{MatchLabels:map[string]string(nil), \
         MatchExpressions:[]v1.LabelSelectorRequirement{{{requirements}}}}}"
    );
    assert_eq!(value("spec.podSelector", &selector, "bad"), expected);
    let rule = json!({
        "Rule": "a > 1", "Message": "", "MessageExpression": "", "Reason": null, "FieldPath": "", "OptionalOldSelf": null,
    });
    let shown_rule = r#"apiextensions.ValidationRule{Rule:"a > 1", Message:"", MessageExpression:"", Reason:(*apiextensions.FieldValueErrorReason)(nil), FieldPath:"", OptionalOldSelf:(*bool)(nil)}"#;
    assert_eq!(value("properties[spec].x-kubernetes-validations[0].rule", &rule, "no"), shown_rule);
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true}]);
    let shown_owner = r#"[]v1.OwnerReference{v1.OwnerReference{APIVersion:"v1", Kind:"Pod", Name:"p", UID:"u", Controller:(*bool)(true), BlockOwnerDeletion:(*bool)(nil)}}"#;
    assert_eq!(value("metadata.ownerReferences", &owner, "two"), shown_owner);
    assert!(value("metadata.ownerReferences", &owner[0], "Event").starts_with("v1.OwnerReference{APIVersion:\"v1\", "));
}

#[test]
fn taints_show_times_and_strategies_their_kind() {
    let taint = json!({"Key": "k", "Value": "", "Effect": "NoSchedule", "TimeAdded": null});
    let start = r#"core.Taint{Key:"k", Value:"", Effect:"NoSchedule", TimeAdded:"#;
    assert_eq!(value("metadata.taints[1]", &taint, "unique"), format!("{start}<nil>}}"));
    let mut timed = taint;
    timed["TimeAdded"] = json!("2024-02-03T04:05:06Z");
    let date = "time.Date(2024, time.February, 3, 4, 5, 6, 0, time.Local)";
    assert_eq!(value("metadata.taints[1]", &timed, "unique"), format!("{start}{date}}}"));
    let strategy = json!({"Type": "Odd", "RollingUpdate": null});
    assert!(value("spec.strategy", &strategy, "no").starts_with("apps.DeploymentStrategy{Type:\"Odd\", "));
    let daemons = r#"apps.DaemonSetUpdateStrategy{Type:"Odd", RollingUpdate:(*apps.RollingUpdateDaemonSet)(nil)}"#;
    assert_eq!(value("spec.updateStrategy", &strategy, "no"), daemons);
}

#[test]
fn times_are_those_of_go() {
    let field = "metadata.deletionTimestamp";
    assert_eq!(value(field, &json!("2001-02-03T04:05:06Z"), "immutable"), "2001-02-03 04:05:06 +0000 UTC");
    assert_eq!(value("spec.renewTime", &json!("2001-02-03T04:05:06.120000Z"), "x"), "2001-02-03 04:05:06.12 +0000 UTC");
    assert_eq!(value(field, &json!("soon"), "x"), r#""soon""#);
}

#[test]
fn special_types_are_shown_in_go_syntax() {
    assert_eq!(value("metadata.resourceVersion", &json!(0), "must be specified"), "0x0");
    let int_or_string = |value: &str| format!("intstr.IntOrString{{{value}}}");
    let field = "spec.maxUnavailable";
    assert_eq!(value(field, &json!("101%"), "much"), int_or_string(r#"Type:1, IntVal:0, StrVal:"101%""#));
    assert_eq!(
        value("spec.strategy.rollingUpdate.maxSurge", &json!(1), "x"),
        int_or_string(r#"Type:0, IntVal:1, StrVal:"""#)
    );
    assert_eq!(value("spec.request", &json!("AAEC"), "no PEM"), "[]byte{0x0, 0x1, 0x2}");
    let raw = "runtime.RawExtension{Raw:[]uint8{0x7b, 0x22, 0x61, 0x22, 0x3a, 0x31, 0x7d}, Object:runtime.Object(nil)}";
    assert_eq!(value("data", &json!({"a": 1}), "field is immutable"), raw);
}

#[test]
fn names_of_resources_have_no_quotes() {
    let field = "spec.containers[0].resources.limits[bad key!]";
    assert_eq!(value(field, &json!("bad key!"), "name part must consist of alphanumeric characters"), "bad key!");
    assert_eq!(value("spec.limits[0].type", &json!("x"), "must be a standard resource for quota"), "x");
    assert_eq!(value("data[bad key!]", &json!("bad key!"), "no"), r#""bad key!""#);
}

#[test]
fn quantities_show_their_structure() {
    let quantity = |number: &str, text: &str, format: &str| {
        format!(
            "resource.Quantity{{i:resource.int64Amount{{{number}}}, d:resource.infDecAmount{{Dec:(*inf.Dec)(nil)}}, \
             s:\"{text}\", Format:\"{format}\"}}"
        )
    };
    let of = |text: &str, detail: &str| value("spec.limits[0].min[cpu]", &json!(text), detail);
    let greater = "min value 3 is greater than max value 2";
    assert_eq!(of("3", greater), quantity("value:3, scale:0", "3", "DecimalSI"));
    assert_eq!(of("500m", greater), quantity("value:500, scale:-3", "500m", "DecimalSI"));
    assert_eq!(of("2k", greater), quantity("value:2, scale:3", "2k", "DecimalSI"));
    assert_eq!(of("3Gi", greater), quantity("value:3221225472, scale:0", "3Gi", "BinarySI"));
    assert_eq!(of("8Gi", greater), quantity("value:8589934592, scale:0", "", "BinarySI"));
    assert_eq!(of("1e3", greater), quantity("value:1, scale:3", "1e3", "DecimalExponent"));
    assert_eq!(of("0", "must be positive"), quantity("value:0, scale:0", "0", "DecimalSI"));
    assert_eq!(of("1500m", "must be an integer"), quantity("value:15, scale:-1", "", "DecimalSI"));
    assert_eq!(of("500m", "must be an integer"), quantity("value:5, scale:-1", "", "DecimalSI"));
    assert_eq!(of("1234m", "must be an integer"), quantity("value:1234, scale:-3", "1.234", "DecimalSI"));
    assert_eq!(of("1u", "must be an integer"), quantity("value:1, scale:-3", "", "DecimalSI"));
    assert_eq!(of("3", "must be less than or equal to cpu limit of 2"), r#""3""#);
    let all = value("spec.capacity", &json!({"storage": "0", "cpu": "1"}), "x");
    assert!(all.starts_with("core.ResourceList{\"cpu\":resource.Quantity{i:resource.int64Amount{value:1, "), "{all}");
}

#[test]
fn custom_objects_have_no_types() {
    let mut cause = Cause {
        reason: String::new(),
        message: r#"Duplicate value: {"b":1,"a":["x",null,{"c":true}]}"#.to_owned(),
        field: "spec.template.metadata.labels".to_owned(),
    };
    rewrite_untyped(&mut cause);
    let list = r#"[]interface {}{"x", interface {}(nil), map[string]interface {}{"c":true}}"#;
    assert_eq!(cause.message, format!(r#"Duplicate value: map[string]interface {{}}{{"a":{list}, "b":1}}"#));
    cause.message = "Invalid value: null".to_owned();
    rewrite_untyped(&mut cause);
    assert_eq!(cause.message, "Invalid value: null");
}
