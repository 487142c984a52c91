//! Tests of expressions and their values, for each library.

mod hostile;
mod scope;

use serde_json::{Value as Json, json};

use crate::{
    Dialect, Environment, EvaluationError, Expected, LIMIT_PER_CALL, Presence, Program, Rules, Schema, check_rules_in,
};

/// Evaluates a condition without variables.
fn holds(expression: &str) -> Result<bool, String> {
    let program = Environment::new().compile(expression, Expected::Bool).map_err(|error| error.to_string())?;
    program.condition(&[], LIMIT_PER_CALL).result.map_err(|error| error.to_string())
}

fn program(schema: &Json, rule: &str) -> Program {
    Program::compile(rule, schema).unwrap_or_else(|error| panic!("{rule}: {error}"))
}

/// Evaluates a rule with a value.
fn said(schema: &Json, rule: &str, value: &Json) -> Result<bool, EvaluationError> {
    program(schema, rule).condition(&[("self", Some(value))], LIMIT_PER_CALL).result
}

fn all_hold(expressions: &[&str]) {
    let wrong = expressions.iter().filter_map(|expression| match holds(expression) {
        Ok(true) => None,
        other => Some(format!("{expression}: {other:?}")),
    });
    let wrong = wrong.collect::<Vec<_>>();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn operators_and_conversions() {
    all_hold(&[
        "1 + 2 * 3 == 7 && 7 / 2 == 3 && -7 % 3 == -1 && 5u - 3u == 2u && 1.5 * 2.0 == 3.0",
        "dyn(1) == 1.0 && 2u > 1 && 1 < 1.5",
        "'a' + 'b' == 'ab' && [1] + [2, 3] == [1, 2, 3] && b'a' + b'b' == b'ab'",
        "2 in [1, 2] && 'k' in {'k': 1} && !('z' in {'k': 1})",
        "{'a': 1}.a == 1 && {'a': 1}['a'] == 1 && {1: 'x'}[1] == 'x' && [1, 2][1] == 2",
        "true ? 1 == 1 : 1 / 0 == 1",
        "false && 1 / 0 == 1 || true || 1 / 0 == 1",
        "size('äöü') == 3 && 'abc'.size() == 3 && size([1, 2]) == 2 && size({'a': 1}) == 1",
        "int('42') == 42 && int(3.9) == 3 && uint(7) == 7u && double('1.5') == 1.5 && double(2) == 2.0",
        "string(1.5) == '1.5' && string(100.0) == '100' && string(1e21) == '1e+21' && string(123456789.0) == '1.23456789e+08' && string(1e-7) == '1e-07' && string(true) == 'true'",
        "bool('true') && bytes('a') == b'a' && string(b'a') == 'a'",
        "type(1) == int && type('a') == string && type([]) == list && type(null) == null_type",
        "duration('1h30m') == duration('90m') && duration('1h').getMinutes() == 60",
        "string(duration('1.5s')) == '1.5s'",
        "timestamp('2024-01-31T10:00:00Z') + duration('24h') == timestamp('2024-02-01T10:00:00Z')",
        "timestamp('2024-01-31T10:00:00Z').getDayOfMonth() == 30",
        "timestamp('2024-01-31T23:30:00Z').getHours('+02:00') == 1",
        "timestamp('2024-01-31T23:30:00Z').getDayOfWeek() == 3",
        "dyn(1) == 1 && dyn('a') != 1",
    ]);
    assert_eq!(holds("1 / 0 == 1"), Err("division by zero".to_owned()));
    assert_eq!(holds("9223372036854775807 + 1 == 0"), Err("integer overflow".to_owned()));
    assert_eq!(holds("[1][3] == 1"), Err("index out of bounds: 3".to_owned()));
    assert_eq!(holds("{'a': 1}.b == 1"), Err("no such key: b".to_owned()));
}

#[test]
fn macros() {
    all_hold(&[
        "[1, 2, 3].all(x, x > 0) && [1, 2].exists(x, x == 2) && [1, 2, 2].exists_one(x, x == 1)",
        "[1, 2, 3].map(x, x * 2) == [2, 4, 6] && [1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
        "[1, 2, 3].filter(x, x > 1) == [2, 3] && {'a': 1, 'b': 2}.filter(k, k != 'a') == ['b']",
        "[0, 1].exists(x, 1 / x == 1)",
        "[1, 2].all(i, v, v == i + 1) && {'a': 1}.exists(k, v, k == 'a' && v == 1)",
        "[3, 4].existsOne(i, v, i == 1 && v == 4)",
        "[1, 2].transformList(i, v, i + v) == [1, 3] && [1, 2].transformList(i, v, i > 0, v) == [2]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2} && {'a': 1}.transformMapEntry(k, v, {v: k}) == {1: 'a'}",
        "optional.of(1).optMap(x, x + 1).value() == 2 && !optional.none().optMap(x, x).hasValue()",
        "optional.of(1).optFlatMap(x, optional.of(x + 2)).orValue(0) == 3",
        "['bb', 'a'].sortBy(x, size(x)) == ['a', 'bb']",
        "{?'a': optional.none()} == {} && [?optional.of(1), ?optional.none()] == [1]",
        "{'a': 1}.?b.orValue(5) == 5 && [1][?4].hasValue() == false && {'a': {'b': 1}}.?a.b.value() == 1",
        "optional.none().or(optional.of(2)).value() == 2 && optional.ofNonZeroValue('').hasValue() == false",
    ]);
}

#[test]
fn texts() {
    all_hold(&[
        "'tacocat'.charAt(3) == 'o' && 'tacocat'.indexOf('ac') == 1 && 'tacocat'.lastIndexOf('at') == 5",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'ab'.split('') == ['a', 'b']",
        "['x', 'y'].join() == 'xy' && ['x', 'y'].join('-') == 'x-y'",
        "'wello'.replace('w', 'h') == 'hello' && 'aaa'.replace('a', 'b', 2) == 'bba'",
        "'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco'",
        "' a '.trim() == 'a' && 'ÄbC'.lowerAscii() == 'Äbc' && 'abc'.upperAscii() == 'ABC'",
        "'abc'.matches('^a.c$') && 'abc 123'.find('[0-9]+') == '123' && '1 22'.findAll('[0-9]+') == ['1', '22']",
        "'%s is %d, %.2f, %x'.format([dyn('a'), 5, 1.5, 255]) == 'a is 5, 1.50, ff'",
        "'%s'.format([[dyn(1), dyn('a'), dyn({'k': true})]]) == '[1, \"a\", {\"k\":true}]' && '%e'.format([1234.5]) == '1.234500×10⁰³' && '%s'.format([{'b': 1.5, 'a': 2.0}]) == '{\"a\":2.000000, \"b\":1.500000}'",
        "strings.quote('a\"b') == '\"a\\\\\"b\"'",
        "'abc'.startsWith('ab') && 'abc'.endsWith('bc') && 'abc'.contains('b')",
    ]);
}

#[test]
fn lists_and_sets() {
    all_hold(&[
        "[1, 2].isSorted() && ![2, 1].isSorted() && [1, 2].sum() == 3 && [1, 3].max() == 3 && [3, 1].min() == 1",
        "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(5) == -1",
        "[1, 2, 3].slice(1, 3) == [2, 3] && [[1], [2]].flatten() == [1, 2] && [[[1]], [[2]]].flatten(2) == [dyn(1), dyn(2)]",
        "[2, 1].sort() == [1, 2] && [1, 1, 2].distinct() == [1, 2] && [1, 2].reverse() == [2, 1]",
        "lists.range(3) == [0, 1, 2] && [1, 2].first().value() == 1 && [1, 2].last().value() == 2",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [1, 2])",
    ]);
    assert_eq!(holds("[dyn(1)].filter(x, x > 5).min() == 1"), Err("min called on empty list".to_owned()));
}

#[test]
fn types_of_kubernetes() {
    all_hold(&[
        "quantity('1Gi').compareTo(quantity('1024Mi')) == 0 && quantity('2').add(1) == quantity('3')",
        "quantity('1').isGreaterThan(quantity('500m')) && isQuantity('1.5Gi') && !isQuantity('x')",
        "quantity('50k').asInteger() == 50000 && !quantity('500m').isInteger() && sign(quantity('-1')) == -1",
        "ip('10.0.0.1').family() == 4 && isIP('::1') && !isIP('1.2.3') && ip('127.0.0.1').isLoopback()",
        "ip.isCanonical('2001:db8::1') && !ip.isCanonical('2001:DB8::1')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').prefixLength() == 8",
        "string(cidr('10.0.0.0/8').ip()) == '10.0.0.0'",
        "url('https://a.b:80/p?x=1&x=2').getHostname() == 'a.b' && url('https://a.b:80/p').getPort() == '80'",
        "url('https://a.b/p?x=1&x=2').getQuery()['x'] == ['1', '2'] && isURL('/path') && !isURL('a b')",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('v1.2', true).minor() == 2 && !isSemver('v1.2')",
        "semver('1.0.0-alpha').isLessThan(semver('1.0.0'))",
        "!format.dns1123Label().validate('ok').hasValue() && format.named('uuid').value().validate('x').hasValue()",
    ]);
}

#[test]
fn objects_are_read_by_their_schema() {
    let schema = json!({"type": "object", "properties": {
        "replicas": {"type": "integer"}, "name": {"type": "string"}, "port": {"x-kubernetes-int-or-string": true},
        "wait": {"type": "string", "format": "duration"}, "at": {"type": "string", "format": "date-time"},
        "data": {"type": "string", "format": "byte"}, "ratio": {"type": "number"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "a.b/c-d": {"type": "string"}, "namespace": {"type": "string"}, "a__b": {"type": "string"},
        "maybe": {"type": "string", "nullable": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let value = json!({
        "replicas": 3, "name": "n", "port": "10%", "wait": "1h", "at": "2024-01-01T00:00:00Z", "data": "YQ==", "ratio": 1,
        "labels": {"x": "y"}, "set": ["a", "b"], "a.b/c-d": "e", "namespace": "ns", "a__b": "u", "maybe": null, "free": {"z": 1},
    });
    for rule in [
        "self.replicas == 3 && self.name == 'n' && self.ratio == 1.0",
        "type(self.port) == string && self.port.endsWith('%')",
        "self.wait == duration('60m') && self.at < timestamp('2025-01-01T00:00:00Z') && self.data == b'a'",
        "self.labels.x == 'y' && self.labels['x'] == 'y' && self.labels.all(k, self.labels[k] != '')",
        "self.set == ['b', 'a'] && (self.set + ['a', 'c']).size() == 3",
        "self.a__dot__b__slash__c__dash__d == 'e' && self.__namespace__ == 'ns' && self.a__underscores__b == 'u'",
        "self.namespace == 'ns' && has(self.namespace) && self.?namespace.hasValue()",
        "dyn(self)['a.b/c-d'] == 'e' && dyn(self).a__dot__b__slash__c__dash__d == 'e' && dyn(self)['namespace'] == 'ns'",
        "dyn(self).exists(k, k == 'a__underscores__b') && dyn(self).exists(k, k == '__namespace__')",
        "!has(self.maybe) && has(self.name) && !has(self.labels.q) && self.labels[?'q'].orValue('d') == 'd'",
        "self == self && self.free == self.free",
    ] {
        assert_eq!(said(&schema, rule, &value), Ok(true), "{rule}");
    }
    assert_eq!(said(&schema, "self.port > 5", &value), Err(EvaluationError::Failed("no such overload".to_owned())),);
}

#[test]
fn fields_can_be_in_backquotes_since_1_37() {
    let properties = json!({"in": {"type": "string"}, "a-b": {"type": "string"}});
    let rules =
        |rule: &str| json!({"type": "object", "properties": properties, "x-kubernetes-validations": [{"rule": rule}]});
    let problem = |dialect, rule: &str| {
        let causes = check_rules_in(dialect, &rules(rule), "schema");
        causes.first().map(|cause| cause.message.lines().next().unwrap_or_default().to_owned())
    };
    assert_eq!(problem(Dialect::V1_37, "self.`in` == 'i'"), None);
    for (dialect, rule, error) in [
        (Dialect::V1_35, "self.`in` == 'i'", "unsupported syntax: '`'"),
        (Dialect::V1_37, "self.`a-b` == 'x'", "1:5: undefined field 'a-b'"),
        (Dialect::V1_37, "self.`for` == 'x'", "1:5: undefined field 'for'"),
    ] {
        let found = problem(dialect, rule).unwrap_or_default();
        assert!(found.ends_with(error), "{rule}: {found}");
    }
    let compiled = Rules::compile_in(Dialect::V1_37, &rules("self.`in` == 'i'")).unwrap();
    assert!(compiled.validate(&json!({"in": "i"}), None).causes.is_empty());
    assert_eq!(compiled.validate(&json!({"in": "j"}), None).causes.len(), 1);
}

#[test]
fn errors_have_their_position() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}, "l": {"type": "array", "items": {"type": "string"}}}});
    for (rule, text) in [
        ("self.namespace == ''", "ERROR: <input>:1:5: undefined field 'namespace'\n | self.namespace == ''\n | ....^"),
        ("self.`a` > 1", "ERROR: <input>:1:6: unsupported syntax: '`'\n | self.`a` > 1\n | .....^"),
        ("self.b > 1", "ERROR: <input>:1:5: undefined field 'b'\n | self.b > 1\n | ....^"),
        (
            "self.a > 'x'",
            "ERROR: <input>:1:8: found no matching overload for '_>_' applied to '(int, string)'\n | self.a > 'x'\n | .......^",
        ),
        ("foo == 1", "ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo == 1\n | ^"),
        ("self.a", "cel expression must evaluate to a bool"),
        ("[1, 'a'] == []", "ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a'] == []\n | ....^"),
        ("'a'.matches('[')", "ERROR: <input>:1:13: invalid matches argument\n | 'a'.matches('[')\n | ............^"),
    ] {
        assert_eq!(Program::compile(rule, &schema).unwrap_err().to_string(), text, "{rule}");
    }
}

#[test]
fn estimates_are_those_of_the_real_server() {
    let most = |schema: Json, rule: &str| program(&schema, rule).most_cost();
    let list = json!({"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 10}});
    assert_eq!(most(json!({"type": "integer"}), "self > 1"), 2);
    assert_eq!(most(list.clone(), "self.all(x, x == 'a')"), 52);
    assert_eq!(most(list, "self.all(x, self.all(y, x == y || x.contains(y)))"), 2_752);
}

#[test]
fn expression_over_the_cost_limit_ends() {
    let list = json!({"type": "array", "items": {"type": "integer"}});
    let large = Json::from((0..3_000).collect::<Vec<_>>());
    for rule in [
        "self.all(a, self.all(b, a + b >= 0))",
        "self.map(a, self + self + self).size() > 0",
        "self.map(a, self).map(l, l.map(x, x)).flatten().size() > 0",
        "lists.range(1000000000).size() > 0",
        "self.map(a, self).map(l, l == self).size() > 0 && self.map(a, self.map(b, self)).flatten().flatten().size() > 0",
    ] {
        let outcome = program(&list, rule).condition(&[("self", Some(&large))], LIMIT_PER_CALL);
        let bounded = outcome.result == Err(EvaluationError::Exhausted) && outcome.cost > LIMIT_PER_CALL;
        assert!(bounded || outcome.result == Ok(true), "{rule}: {outcome:?}");
    }
    assert_eq!(
        program(&list, "self.all(a, self.all(b, a + b >= 0))")
            .condition(&[("self", Some(&large))], LIMIT_PER_CALL)
            .result,
        Err(EvaluationError::Exhausted)
    );
    assert!(holds(&"(".repeat(15_000)).is_err());
    assert_eq!(holds(&format!("{}true", "!".repeat(15_000))), Ok(true));
    assert!(holds(&format!("{} == 1", vec!["1"; 5_000].join(" + "))).is_err());
    assert_eq!(holds(&vec!["true"; 2_000].join(" && ")), Ok(true));
    assert_eq!(holds(&format!("{} == 1000", vec!["1"; 1_000].join(" + "))), Ok(true));
}

#[test]
fn an_old_value_may_be_missing() {
    let schema = Schema::of_value(&json!({"type": "integer"})).unwrap();
    let environment =
        Environment::new().with("self", &schema, Presence::Certain).with("oldSelf", &schema, Presence::Optional);
    let program = environment.compile("oldSelf.optMap(o, o < self).orValue(true)", Expected::Bool).unwrap();
    let said = |old: Option<Json>| {
        program.condition(&[("self", Some(&json!(3))), ("oldSelf", old.as_ref())], LIMIT_PER_CALL).result
    };
    assert_eq!((said(None), said(Some(json!(2))), said(Some(json!(4)))), (Ok(true), Ok(true), Ok(false)));
    assert!(program.uses("oldSelf") && !program.uses("other"));
}
