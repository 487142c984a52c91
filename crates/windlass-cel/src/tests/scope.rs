//! Composed variables, access checks, and constructed objects.

use std::sync::Arc;

use super::*;
use crate::{
    AccessCheck, AccessDecision, AccessDecisions, AccessTarget, AdmissionVariables, Composition, Inputs, ResourceTarget,
};

const ALL: AdmissionVariables = AdmissionVariables { params: true, authorizer: true, patches: true };

fn compile(source: &str, expected: Expected) -> Result<Program, String> {
    ALL.environment().compile(source, expected).map_err(|error| error.to_string())
}

fn inputs<'a>(object: &'a Json, composition: Option<&'a Composition>) -> Inputs<'a> {
    Inputs {
        values: vec![("object", object), ("oldObject", &Json::Null), ("params", &Json::Null)],
        composition,
        request: None,
        decisions: Arc::default(),
        only_cheap: false,
    }
}

fn constructed(source: &str, object: &Json) -> Result<Json, String> {
    let program = compile(source, Expected::Object)?;
    let inputs = inputs(object, None);
    let evaluated = inputs.evaluate([&program], |scope| scope.object(&program).result);
    evaluated.unwrap().map_err(|error| error.to_string())?
}

fn patch(source: &str, object: &Json) -> Result<Json, String> {
    let program = compile(source, Expected::Patch)?;
    let inputs = inputs(object, None);
    let evaluated = inputs.evaluate([&program], |scope| scope.patch(&program).result);
    evaluated.unwrap().map_err(|error| error.to_string())?
}

#[test]
fn variable_is_evaluated_once_and_only_if_used() {
    let environment = ALL.environment();
    let mut composition = Composition::default();
    composition.add("broken", "1 / object.zero", &environment).unwrap();
    composition.add("sum", "object.items.map(i, i + 1)", &environment).unwrap();
    composition.add("twice", "variables.sum + variables.sum", &environment).unwrap();
    let environment = composition.extend(&environment);
    let compile = |source| environment.compile(source, Expected::Bool).unwrap();
    let (first, second) = (compile("variables.twice == [2, 3, 2, 3]"), compile("size(variables.sum) == 2"));
    let broken = compile("variables.broken == 1");
    let object = json!({"items": [1, 2], "zero": 0});
    inputs(&object, Some(&composition))
        .evaluate([&first, &second, &broken], |scope| {
            assert_eq!(scope.condition(&first).result, Ok(true));
            assert!(scope.take_composed_cost() > 0);
            assert_eq!(scope.condition(&second).result, Ok(true));
            assert_eq!(scope.take_composed_cost(), 0);
            let why = "composited variable \"broken\" fails to evaluate: division by zero";
            assert_eq!(scope.condition(&broken).result, Err(EvaluationError::Failed(why.to_owned())));
        })
        .unwrap();
}

#[test]
fn variables_have_types() {
    let environment = ALL.environment();
    let mut composition = Composition::default();
    composition.add("number", "1", &environment).unwrap();
    assert!(composition.add("later", "variables.missing", &environment).is_err());
    let environment = composition.extend(&environment);
    let message = |source| environment.compile(source, Expected::Bool).unwrap_err().message;
    assert_eq!(message("variables.number == 'a'"), "found no matching overload for '_==_' applied to '(int, string)'");
    assert_eq!(message("variables.other == 1"), "undefined field 'other'");
    assert!(environment.compile("variables.later == 1", Expected::Bool).is_ok());
}

#[test]
fn check_stops_the_evaluation_until_it_is_decided() {
    let source = "authorizer.group('g').resource('r').namespace('n').check('get').allowed() || true";
    let program = compile(source, Expected::Bool).unwrap();
    let target = ResourceTarget::default();
    let object = Json::Null;
    let mut inputs = Inputs { request: Some(&target), ..inputs(&object, None) };
    let run = |inputs: &Inputs<'_>| {
        inputs.evaluate([&program], |scope| (scope.condition(&program).result, scope.pending())).unwrap()
    };
    let target = ResourceTarget {
        group: "g".to_owned(),
        resource: "r".to_owned(),
        namespace: "n".to_owned(),
        ..ResourceTarget::default()
    };
    let check = AccessCheck { account: None, verb: "get".to_owned(), target: AccessTarget::Resource(target) };
    let (result, pending) = run(&inputs);
    assert_eq!((result, pending.as_ref()), (Err(EvaluationError::Exhausted), Some(&check)));
    let decision = AccessDecision { allowed: true, ..AccessDecision::default() };
    inputs.decisions = Arc::new(AccessDecisions::from([(check, decision)]));
    assert_eq!(run(&inputs), (Ok(true), None));
}

#[test]
fn evaluation_that_is_not_cheap_is_stopped_on_request() {
    let program = compile("object.all(a, object.all(b, object.all(c, a + b + c > 0)))", Expected::Bool).unwrap();
    let object = json!(vec![1; 40]);
    let run = |only_cheap| {
        let inputs = Inputs { only_cheap, ..inputs(&object, None) };
        inputs.evaluate([&program], |scope| (scope.condition(&program).result, scope.was_stopped())).unwrap()
    };
    assert_eq!(run(true), (Err(EvaluationError::Exhausted), true));
    assert_eq!(run(false), (Ok(true), false));
}

#[test]
fn objects_are_constructed_as_json() {
    let object = json!({"metadata": {"name": "n", "labels": {"a": "b"}}});
    let made = constructed(
        "Object{spec: Object.spec{replicas: 3, names: [object.metadata.name], any: object.metadata, ?none: object.?none}}",
        &object,
    );
    let expected = json!({"spec": {"any": {"name": "n", "labels": {"a": "b"}}, "names": ["n"], "replicas": 3}});
    assert_eq!(made, Ok(expected));
    let wrong = constructed("Object{spec: Object.status{x: [Object.y{}]}}", &object).unwrap_err();
    assert!(
        wrong.starts_with("type mismatch: unexpected type name \"Object.status\", expected \"Object.spec\""),
        "{wrong}"
    );
    assert!(wrong.contains("\"Object.y\", expected \"Object.spec.x\""), "{wrong}");
    assert!(compile("Object.spec{}", Expected::Object).is_err());
    assert!(Environment::new().compile("Object{}", Expected::Any).is_err());
}

#[test]
fn patches_are_constructed_as_json() {
    let source = "[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('b/c~d'), value: {'k': 1}}] + (has(object.x) ? [] : \
                  [JSONPatch{op: 'move', from: '/x', path: '/y'}])";
    let expected = json!([{"op": "add", "path": "/a/b~1c~0d", "value": {"k": 1}},
        {"op": "move", "path": "/y", "from": "/x"}]);
    assert_eq!(patch(source, &json!({})), Ok(expected));
    assert!(compile("[JSONPatch{op: 1}]", Expected::Patch).is_err());
    assert!(compile("[]", Expected::Patch).is_err());
}

#[test]
fn variables_see_the_ones_before_them_and_replaced_ones_keep_their_type() {
    let environment = ALL.environment();
    let mut composition = Composition::default();
    composition.add("a", "1", &environment).unwrap();
    let before = composition.extend(&environment);
    composition.add("a", "'text'", &environment).unwrap();
    composition.add("b", "variables.a", &environment).unwrap();
    let after = composition.extend(&environment);
    assert!(before.compile("variables.a + 1 == 2", Expected::Bool).is_ok());
    assert!(before.compile("variables.b == ''", Expected::Bool).is_err());
    assert!(after.compile("variables.a + 1 == 2", Expected::Bool).is_err());
    assert!(after.compile("variables.b == ''", Expected::Bool).is_ok());
}

#[test]
fn environments_of_a_policy_share_the_types_of_its_variables() {
    let environment = ALL.environment();
    let mut composition = Composition::default();
    composition.add("first", "1", &environment).unwrap();
    let environments: Vec<_> = (0..100).map(|_| composition.extend(&environment)).collect();
    assert!(composition.shares_types() > environments.len(), "a clone of the environment has no types of its own");
}

#[test]
fn type_of_a_variable_that_is_too_deep_is_unknown() {
    let environment = ALL.environment();
    let mut composition = Composition::default();
    composition.add("v0", "[1]", &environment).unwrap();
    let mut refused = 0;
    for number in 1..6_000 {
        let source = format!("[variables.v{}]", number - 1);
        refused += usize::from(composition.add(&format!("v{number}"), &source, &environment).is_err());
    }
    assert!(refused > 0);
    // Every type is shallow enough to be dropped on the stack of a test.
    drop(composition);
}
