//! Policies and their schemas accept and reject the same objects.

use std::collections::BTreeMap;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    serde::{Deserialize, Serialize},
};
use serde_json::{Value, json};
use windlass_api::crd::CrdBuilder;
use windlass_cel::{Environment, Expected, LIMIT_PER_CALL, Presence, Rules, Schema as Shape};
use windlass_derive::{CustomResource, Schema};

use super::*;
use crate::{File, Manifests, Part};

#[derive(Clone, Debug, Serialize, Deserialize, CustomResource)]
#[serde(crate = "k8s_openapi::serde")]
#[resource(group = "net.example.com", version = "v1", crate = windlass_api, status)]
#[schema(rule(rule = "self.metadata.name != 'taken'", message = "that name is taken"))]
struct Gate {
    metadata: ObjectMeta,
    spec: GateSpec,
    status: Option<GateStatus>,
}

#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(crate = "k8s_openapi::serde")]
#[schema(
    crate = windlass_api, at_most_one_of("host", "address"),
    rule(rule = "!has(self.low) || !has(self.high) || self.low <= self.high", message = "low is above high", field_path = ".low"),
    rule(rule = "!has(self.__namespace__) || self.__namespace__ != 'default'")
)]
struct GateSpec {
    host: Option<String>,
    address: Option<String>,
    low: Option<i64>,
    high: Option<i64>,
    #[schema(max_length = 20, rule(rule = "self == oldSelf", message = "it stays as it is"))]
    fixed: Option<String>,
    #[schema(rule(rule = "oldSelf.hasValue() ? self >= oldSelf.value() : self < 10", optional_old_self))]
    grows: Option<i32>,
    #[schema(max_length = 20, rule(rule = "self.size() != 3", message_expression = "'three letters: ' + self"))]
    namespace: Option<String>,
    #[schema(max_items = 5, list_type = "map", map_keys("name"))]
    ports: Option<Vec<Port>>,
    #[schema(max_properties = 5)]
    weights: Option<BTreeMap<String, Weight>>,
    #[schema(rule(rule = "self < 0.5"))]
    share: Option<f64>,
    #[schema(rule(rule = "self > timestamp('2020-01-01T00:00:00Z')"))]
    since: Option<Time>,
}

#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(crate = "k8s_openapi::serde")]
#[schema(crate = windlass_api, rule(rule = "self.number >= oldSelf.number", message = "it grows"))]
struct Port {
    #[schema(max_length = 10, rule(rule = "self != 'bad'"))]
    name: String,
    number: i32,
}

#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(crate = "k8s_openapi::serde")]
#[schema(crate = windlass_api, rule(rule = "self.number > 0 && self.number >= oldSelf.number"))]
struct Weight {
    number: i32,
}

#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(crate = "k8s_openapi::serde")]
#[schema(crate = windlass_api)]
struct GateStatus {
    #[schema(rule(rule = "self < 3"))]
    open: Option<i32>,
}

fn manifests() -> Manifests {
    Manifests::new("gate-operator").kind::<Gate>()
}

/// Returns the CEL environment of expressions about whole objects.
fn environment() -> Environment {
    let any = Shape::any();
    ["object", "oldObject"].iter().fold(Environment::new(), |all, name| all.with(name, &any, Presence::Certain))
}

/// Returns the policy's errors for an object.
fn denied(object: &Value, old: &Value) -> Vec<String> {
    let policies = manifests().policies().unwrap();
    let spec = policies[0].0.spec.clone().unwrap();
    let values = [("object", Some(object)), ("oldObject", Some(old))];
    let mut denied = Vec::new();
    for validation in spec.validations.unwrap() {
        let program = environment().compile(&validation.expression, Expected::Bool).unwrap();
        if program.condition(&values, LIMIT_PER_CALL).result != Ok(true) {
            let message = validation.message_expression.map(|message| {
                environment().compile(&message, Expected::Text).unwrap().text(&values, LIMIT_PER_CALL).result.unwrap()
            });
            denied.push(message.or(validation.message).unwrap());
        }
    }
    denied
}

/// Returns the schema's errors for an object.
fn refused(object: &Value, old: &Value) -> Vec<String> {
    let definition = serde_json::to_value(CrdBuilder::of::<Gate>().build().unwrap()).unwrap();
    let rules = Rules::compile(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]).unwrap();
    let verdict = rules.validate(object, (!old.is_null()).then_some(old));
    verdict.causes.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

#[test]
fn policy_denies_objects_that_the_schema_rejects() {
    let gate = |spec: &Value| json!({"metadata": {"name": "a"}, "spec": spec});
    let null = Value::Null;
    for (spec, old, count, message) in [
        (json!({}), &null, 0, ""),
        (json!({"host": "a"}), &null, 0, ""),
        (
            json!({"host": "a", "address": "b"}),
            &null,
            1,
            "spec: at most one of the fields in [host address] may be set",
        ),
        (json!({"low": 1, "high": 2}), &null, 0, ""),
        (json!({"low": 3, "high": 2}), &null, 1, "spec.low: low is above high"),
        (json!({"fixed": "a"}), &null, 0, ""),
        (json!({"fixed": "a"}), &gate(&json!({"fixed": "a"})), 0, ""),
        (json!({"fixed": "a"}), &gate(&json!({})), 0, ""),
        (json!({"fixed": "a"}), &gate(&json!({"fixed": "b"})), 1, "spec.fixed: it stays as it is"),
        (json!({"grows": 9}), &null, 0, ""),
        (
            json!({"grows": 10}),
            &null,
            1,
            "spec.grows: failed rule: oldSelf.hasValue() ? self >= oldSelf.value() : self < 10",
        ),
        (json!({"grows": 10}), &gate(&json!({"grows": 9})), 0, ""),
        (json!({"grows": 8}), &gate(&json!({"grows": 9})), 1, "spec.grows: failed rule: "),
        (json!({"namespace": "four"}), &null, 0, ""),
        (json!({"namespace": "abc"}), &null, 1, "spec.namespace: three letters: abc"),
        (json!({"ports": [{"name": "a", "number": 1}]}), &null, 0, ""),
        (json!({"ports": [{"name": "bad", "number": 1}]}), &null, 1, "spec.ports[].name: failed rule: self != 'bad'"),
        (
            json!({"ports": [{"name": "b", "number": 9}, {"name": "a", "number": 1}]}),
            &gate(&json!({"ports": [{"name": "a", "number": 2}]})),
            1,
            "spec.ports[]: it grows",
        ),
        (
            json!({"ports": [{"name": "b", "number": 1}, {"name": "a", "number": 2}]}),
            &gate(&json!({"ports": [{"name": "a", "number": 2}]})),
            0,
            "",
        ),
        (json!({"weights": {"a": {"number": 1}}}), &gate(&json!({"weights": {"a": {"number": 1}}})), 0, ""),
        (
            json!({"weights": {"a": {"number": 1}, "b": {"number": 5}}}),
            &gate(&json!({"weights": {"a": {"number": 2}}})),
            1,
            "spec.weights{}: failed rule",
        ),
    ] {
        let object = gate(&spec);
        let (denied, refused) = (denied(&object, old), refused(&object, old));
        assert_eq!(denied.len(), count, "{object} {denied:?}");
        assert_eq!(refused.len(), count, "{object} {refused:?}");
        assert!(denied.first().is_none_or(|said| said.starts_with(message)), "{denied:?}");
    }
    let taken = json!({"metadata": {"name": "taken"}, "spec": {}, "status": {"open": 3}});
    let said = denied(&taken, &null);
    assert_eq!(said, ["that name is taken", "status.open: failed rule: self < 3"]);
    assert_eq!(refused(&taken, &null).len(), 2);
}

#[test]
fn rules_a_policy_cannot_express_are_reported() {
    let file = manifests().files(Part::Policies).unwrap().remove(0);
    let told = file.text.lines().filter_map(|line| line.strip_prefix("# Omitted: ")).collect::<Vec<_>>();
    for (told, expected) in told.iter().zip([
        "Gate v1: spec: rule \"!has(self.__namespace__) || self.__namespace__ != 'default'\": in a policy, the field \"namespace\" cannot be written as __namespace__",
        "Gate v1: spec.share: rule \"self < 0.5\": self is a number, which",
        "Gate v1: spec.since: rule \"self > timestamp('2020-01-01T00:00:00Z')\": self is of format date-time, which",
    ]) {
        assert!(told.starts_with(expected), "{told}");
    }
    assert_eq!(told.len(), 3, "{told:?}");
    let unordered =
        json!({"type": "object", "properties": {"set": {"type": "array", "x-kubernetes-list-type": "set"}}});
    for (rule, is_alike) in [
        ("self.set.size() > 1", true),
        ("self.set == oldSelf.set", false),
        ("[1] + self.set == [1, 2]", false),
        ("self == oldSelf", false),
        ("self.other == 'self.set =='", true),
    ] {
        assert_eq!(spoken::alike(rule, &unordered).is_ok(), is_alike, "{rule}");
    }
}

#[test]
fn custom_rules_are_checked_and_enforced() {
    let policy = Policy::of::<Gate>().rule("object.spec.low != 7", "not seven").enforcement(Enforcement::Audit);
    let policies = manifests().policy(policy.clone()).policies().unwrap();
    let [(made, binding)] = policies.as_slice() else { panic!("{policies:?}") };
    assert_eq!(made.metadata.name.as_deref(), Some("gates.v1.net.example.com"));
    let validations = made.spec.clone().unwrap().validations.unwrap();
    assert_eq!(validations.last().unwrap().message.as_deref(), Some("not seven"));
    assert_eq!(binding.spec.validation_actions, ["Audit"]);
    let wrong = manifests().policy(policy.rule("object.spec.low", "a\nb").rule("true", "a\nb"));
    let problems = wrong.check().unwrap_err().0;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].to_string().starts_with("policy of gates.v1.net.example.com: rule \"object.spec.low\": "));
    assert!(problems[1].why.ends_with("its message must be a single line"));
}

#[test]
fn policies_are_written_by_choice() {
    let files = manifests().files(Part::All).unwrap();
    assert!(files.iter().all(|file| file.path != "policy/policies.yaml"));
    let File { path, text } = manifests().files(Part::Policies).unwrap().remove(0);
    crate::tests::golden(&File { path, text });
}
