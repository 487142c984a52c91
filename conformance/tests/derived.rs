//! Every validation of the derive, on both servers. This test generates `cases/derived.txt` from types, with valid and
//! invalid objects. The recording has the real server's responses.

#![allow(dead_code, reason = "the types are there for their schemas")]

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::Path,
};

use k8s_openapi::{
    api::core::v1::{EnvVar, ObjectReference, PodTemplateSpec, SecretKeySelector, Volume},
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{Condition, LabelSelector, MicroTime, ObjectMeta, Time},
        util::intstr::IntOrString,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_api::crd::CustomResource;
use windlass_derive::{CustomResource, Schema};

/// What is checked, field by field.
#[derive(Clone, Debug, Serialize, Deserialize, CustomResource)]
#[resource(
    group = "derived.example.com", version = "v1", plural = "validated", crate = windlass_api, status, short_names("val"),
    categories("all"), scale(spec = ".spec.between", status = ".status.replicas", selector = ".status.selector"),
    column(name = "Between", type = "integer", path = ".spec.between", description = "A number", priority = 1),
    column(name = "Age", type = "date", path = ".metadata.creationTimestamp"), selectable(".spec.text", ".spec.either")
)]
#[schema(rule(rule = "self.metadata.name != 'forbidden'", message = "that name is taken"))]
struct Validated {
    metadata: ObjectMeta,
    spec: Spec,
    status: Option<Status>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(rename_all = "camelCase", default)]
#[schema(crate = windlass_api)]
struct Status {
    replicas: i32,
    selector: String,
    #[schema(list_type = "map", map_keys("type"))]
    conditions: Vec<Condition>,
}

/// Each field shows one thing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(rename_all = "camelCase", default)]
#[schema(
    crate = windlass_api, at_most_one_of("first", "second"),
    rule(rule = "!has(self.low) || !has(self.high) || self.low <= self.high", message = "low is above high",
         reason = "FieldValueForbidden", field_path = ".low")
)]
struct Spec {
    /// From 1 to 5.
    #[schema(minimum = 1, maximum = 5)]
    between: i32,
    #[schema(exclusive_minimum = 0, exclusive_maximum = 1)]
    within: f64,
    #[schema(multiple_of = 5)]
    fives: i64,
    byte: u8,
    #[schema(min_length = 2, max_length = 4, pattern = "^[a-z]+$")]
    text: String,
    #[schema(format = "date-time")]
    when: String,
    #[schema(format = "ipv4")]
    address: String,
    #[schema(enum("red", "blue"), default = "red", title = "Either", example = "blue")]
    either: String,
    #[schema(min_items = 1, max_items = 3)]
    few: Vec<String>,
    #[schema(unique_items, items(max_length = 3))]
    unique: Vec<String>,
    set: BTreeSet<i32>,
    #[schema(list_type = "map", map_keys("name"))]
    named: Vec<Named>,
    #[schema(list_type = "atomic")]
    triple: [i32; 3],
    #[schema(min_properties = 1, max_properties = 2, values(minimum = 0), map_type = "granular")]
    entries: BTreeMap<String, i32>,
    #[schema(nullable)]
    maybe: String,
    strict: Strict,
    #[schema(preserve_unknown_fields)]
    open: Strict,
    #[schema(schemaless)]
    anything: String,
    value: Value,
    #[schema(embedded_resource, preserve_unknown_fields)]
    embedded: Value,
    #[schema(int_or_string, pattern = "^[0-9]+%$")]
    share: String,
    #[schema(immutable, max_length = 20)]
    fixed: Option<String>,
    first: Option<bool>,
    second: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    low: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high: Option<i64>,
    pair: Option<Pair>,
    any_of: Option<AnyOf>,
    #[schema(rule(rule = "self.startsWith('a')"), max_length = 20)]
    bare: String,
    #[schema(
        max_length = 20,
        rule(
            rule = "self.size() != 3",
            message = "fallback",
            message_expression = "'not three letters: ' + self",
            reason = "FieldValueInvalid"
        )
    )]
    worded: String,
    #[schema(rule(rule = "self != 0", reason = "FieldValueRequired", message = "say how many"))]
    asked: i32,
    #[schema(rule(rule = "self != 7", reason = "FieldValueDuplicate"))]
    lucky: i32,
    #[schema(rule(
        rule = "oldSelf.hasValue() ? self >= oldSelf.value() : self < 10",
        optional_old_self,
        message = "begins below ten, and grows"
    ))]
    grows: i32,
    #[schema(max_items = 5, items(max_length = 10, rule(rule = "self != 'bad'", message = "bad item")))]
    items: Vec<String>,
    colour: Colour,
    source: Option<Source>,
    strategy: Option<Strategy>,
    beside: Option<Beside>,
    loose: Option<Loose>,
    objects: Option<LooseObjects>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[schema(crate = windlass_api)]
struct Named {
    name: String,
    #[serde(default)]
    value: i32,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[schema(crate = windlass_api)]
struct Strict {
    needed: String,
    #[serde(flatten)]
    more: More,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[schema(crate = windlass_api)]
struct More {
    also: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[schema(crate = windlass_api, exactly_one_of("left", "namespace"))]
struct Pair {
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[schema(crate = windlass_api, at_least_one_of("a", "b"))]
struct AnyOf {
    #[serde(skip_serializing_if = "Option::is_none")]
    a: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    b: Option<i32>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(rename_all = "lowercase")]
#[schema(crate = windlass_api)]
enum Colour {
    #[default]
    Red,
    Blue,
}

#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(rename_all = "camelCase")]
#[schema(crate = windlass_api)]
enum Source {
    Git { url: String },
    Image(String),
}

#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(tag = "type")]
#[schema(crate = windlass_api)]
enum Strategy {
    Recreate,
    Rolling { surge: i32 },
}

#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(tag = "kind", content = "value")]
#[schema(crate = windlass_api)]
enum Beside {
    Nothing,
    Named { name: String },
}

#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(untagged)]
#[schema(crate = windlass_api)]
enum Loose {
    Number(i32),
    Text(String),
}

#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(untagged)]
#[schema(crate = windlass_api)]
enum LooseObjects {
    A { a: i32 },
    B { b: i32 },
}

/// Parts of built-in kinds.
#[derive(Clone, Debug, Serialize, Deserialize, CustomResource)]
#[resource(group = "derived.example.com", version = "v1", plural = "embedding", crate = windlass_api, scope = "Cluster")]
struct Embedding {
    metadata: ObjectMeta,
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<PodTemplateSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<ObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<SecretKeySelector>,
    #[serde(default)]
    env: Vec<EnvVar>,
    #[serde(default)]
    volumes: Vec<Volume>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<IntOrString>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exact: Option<MicroTime>,
    #[serde(default)]
    #[schema(list_type = "map", map_keys("type"))]
    conditions: Vec<Condition>,
}

/// Schemas put together, and given by hand.
#[derive(Clone, Debug, Serialize, Deserialize, CustomResource)]
#[resource(group = "derived.example.com", version = "v1", plural = "combined", crate = windlass_api)]
struct Combined {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Combinations,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(rename_all = "camelCase", default)]
#[schema(
    crate = windlass_api, max_properties = 1, title = "Combinations", description = "One at a time.",
    external_docs(url = "https://example.com/combined", description = "More of it.")
)]
struct Combinations {
    #[schema(all_of({"minimum": 2}, {"multipleOf": 3}))]
    all: i32,
    #[schema(any_of({"maxLength": 2}, {"pattern": "^long"}))]
    any: String,
    #[schema(one_of({"minimum": 10}, {"multipleOf": 4}))]
    one: i32,
    #[schema(not = {"enum": ["no"]})]
    not: String,
    #[schema(type = "integer", maximum = 3)]
    typed: String,
    #[schema(raw = r#"{"type": "array", "maxItems": 1, "items": {"type": "boolean"}}"#)]
    whole: String,
    #[schema(as = Vec<u16>)]
    stand_in: String,
    presence: Option<Presence>,
    #[schema(
        map_type = "atomic",
        max_properties = 9,
        values(max_length = 2, rule(rule = "self != 'xx'", message = "no two of it"))
    )]
    flat: BTreeMap<String, String>,
    #[schema(list_type = "set", max_items = 9, items(max_length = 9), rule(rule = "self.all(it, it != '-')"))]
    letters: Vec<String>,
    #[schema(rule(rule = "!self.exists(key, key == 'odd')", message = "not that key"), max_properties = 9)]
    keys: BTreeMap<String, String>,
    #[schema(rule(
        rule = "self.a < self.b",
        field_path = ".b",
        message_expression = "self.a == 2 ? 'not above two' : 'not above'"
    ))]
    rising: Rising,
    whole_parts: Vec<Presence>,
}

/// Whether fields have to be there, whatever their types.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[schema(crate = windlass_api)]
struct Presence {
    #[schema(required, nullable)]
    needed: Option<i32>,
    #[schema(optional)]
    spare: String,
    #[schema(skip)]
    unseen: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(default)]
#[schema(crate = windlass_api)]
struct Rising {
    #[schema(default = 1)]
    a: i32,
    #[schema(default = 2)]
    b: i32,
}

/// Returns valid and invalid specs.
fn specs() -> Vec<Value> {
    let fields = json!({
        "between": [1, 5, 0, 6, "3", 2.5],
        "within": [0.5, 0, 1],
        "fives": [10, 7],
        "byte": [255, 256, -1],
        "text": ["ab", "abcd", "a", "abcde", "A1"],
        "when": ["2026-01-02T03:04:05Z", "yesterday"],
        "address": ["10.0.0.1", "10.0.0.256"],
        "either": ["blue", "green"],
        "few": [["a"], [], ["a", "b", "c", "d"]],
        "unique": [["a", "b"], ["a", "a"], ["long"]],
        "set": [[1, 2], [1, 1]],
        "named": [[{"name": "a"}, {"name": "b", "value": 1}], [{"name": "a"}, {"name": "a"}], [{"value": 1}]],
        "triple": [[1, 2, 3], [1, 2]],
        "entries": [{"a": 1}, {}, {"a": 1, "b": 2, "c": 3}, {"a": -1}],
        "maybe": [null, "x"],
        "strict": [{"needed": "a", "also": true}, {"needed": "a"}, {"needed": "a", "also": true, "unknown": 1}],
        "open": [{"needed": "a", "also": true, "unknown": 1}],
        "anything": [{"a": [1, null]}, 1],
        "value": ["x", [1]],
        "embedded": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"b": 1}}, {"spec": {}}],
        "share": ["10%", 10, "ten", true],
        "first": [true],
        "pair": [{"left": 1}, {"namespace": "a"}, {}, {"left": 1, "namespace": "a"}],
        "anyOf": [{"a": 1}, {"a": 1, "b": 2}, {}],
        "bare": ["ab", "ba"],
        "worded": ["ab", "abc"],
        "asked": [1, 0],
        "lucky": [6, 7],
        "grows": [9, 10],
        "items": [["good"], ["good", "bad"]],
        "colour": ["blue", "Blue"],
        "source": [{"git": {"url": "x"}}, {"image": "x"}, {}, {"git": {"url": "x"}, "image": "y"}, {"git": {}}],
        "strategy": [{"type": "Recreate"}, {"type": "Rolling", "surge": 1}, {"type": "Rolling"}, {"type": "Blue"}, {"surge": 1}],
        "beside": [{"kind": "Nothing"}, {"kind": "Named", "value": {"name": "x"}}, {"kind": "Named"}, {"kind": "Named", "value": {}}],
        "loose": [1, "x", true],
        "objects": [{"a": 1}, {"b": 1}, {}],
    });
    let fields = fields.as_object().unwrap().clone();
    let mut specs = fields
        .iter()
        .flat_map(|(name, values)| values.as_array().unwrap().iter().map(move |value| json!({name: value})))
        .collect::<Vec<_>>();
    specs.extend([json!({"first": true, "second": false}), json!({"low": 1, "high": 2}), json!({"low": 2, "high": 1})]);
    specs
}

/// Returns specs for combined schemas.
fn combinations() -> Vec<Value> {
    let fields = json!({
        "all": [6, 4, 0],
        "any": ["ab", "longer", "abc"],
        "one": [11, 8, 12, 3],
        "not": ["yes", "no"],
        "typed": [2, 4, "2"],
        "whole": [[true], [true, false], "x"],
        "standIn": [[1], [65536], "x"],
        "presence": [{"needed": 1}, {"needed": null}, {}, {"needed": 1, "spare": "x", "unseen": "y"}],
        "flat": [{"a": "x"}, {"a": "xxx"}, {"a": "xx"}],
        "letters": [["a", "b"], ["a", "a"], ["-"]],
        "keys": [{"even": "x"}, {"odd": "x"}],
        "rising": [{}, {"a": 1, "b": 2}, {"a": 2}, {"a": 3, "b": 3}],
        "wholeParts": [[{"needed": 1}], [{"needed": 1}, {"spare": "x"}]],
    });
    let fields = fields.as_object().unwrap();
    let each = |(name, values): (&String, &Value)| {
        values.as_array().unwrap().iter().map(|value| json!({name: value})).collect::<Vec<_>>()
    };
    let mut specs = fields.iter().flat_map(each).collect::<Vec<_>>();
    specs.push(json!({"all": 6, "not": "yes"}));
    specs
}

/// Returns the successive changes of an object.
fn changes() -> Vec<Value> {
    vec![
        json!({"fixed": "b"}),
        json!({"fixed": null}),
        json!({"grows": 20}),
        json!({"grows": 5}),
        json!({"either": null}),
    ]
}

fn embedded() -> Vec<Value> {
    let container = json!({"name": "a", "image": "b", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}});
    let template = |spec: Value| json!({"template": {"metadata": {"labels": {"a": "b"}, "unknown": 1}, "spec": spec}});
    vec![
        template(json!({"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]})),
        template(json!({"containers": [{"image": "b"}]})),
        template(json!({"containers": [container, container]})),
        template(json!({"containers": [{"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 80}]}]})),
        template(json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": "much"}}}]})),
        json!({"selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}}),
        json!({"selector": {"matchExpressions": [{"key": "a"}]}}),
        json!({"reference": {"kind": "Pod", "name": "a"}}),
        json!({"secret": {"name": "a", "key": "b"}}),
        json!({"secret": {"name": "a"}}),
        json!({"env": [{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
        json!({"env": [{"value": "b"}]}),
        json!({"volumes": [{"name": "v", "secret": {"secretName": "s", "defaultMode": 420}}]}),
        json!({"size": "10Gi"}),
        json!({"size": 3}),
        json!({"size": "ten"}),
        json!({"port": 80}),
        json!({"port": "http"}),
        json!({"port": false}),
        json!({"time": "2026-01-02T03:04:05Z", "exact": "2026-01-02T03:04:05.123456Z"}),
        json!({"time": "then"}),
        json!({"conditions": [{"type": "Ready", "status": "True", "reason": "A", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}),
        json!({"conditions": [{"type": "Ready", "status": "Yes", "reason": "A", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}),
    ]
}

// === the file ===

/// Returns a case with the CRD of a kind and its objects. `wrap` puts a value into an object.
fn case<K: CustomResource>(name: &str, folder: &str, objects: &[Value], changes: &[Value]) -> String {
    let resource = K::api_resource();
    let definition = serde_json::to_string(&K::definition()).unwrap();
    let mut text = format!(
        "=== {name}\nPOST /apis/apiextensions.k8s.io/v1/customresourcedefinitions\n{definition}\n< only spec\n\n"
    );
    let path = format!("/apis/{}/v1/{folder}{}", resource.group, resource.plural);
    text.push_str(&format!("GET {path}\n< until 200\n< only kind\n\n"));
    let write = |text: &mut String, method: &str, path: &str, name: Option<&str>, body: &Value| {
        let mut object = json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": {}});
        if let Some(name) = name {
            object["metadata"]["name"] = name.into();
        }
        object.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        text.push_str(&format!("{method} {path}\n{object}\n\n"));
    };
    for (index, object) in objects.iter().enumerate() {
        write(&mut text, "POST", &path, Some(&format!("{{id}}-{index}")), object);
    }
    for change in changes {
        write(&mut text, "PATCH/merge", &format!("{path}/{{id}}-0"), None, change);
    }
    text.push_str(&format!(
        "DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}.{}\n< only kind\n\n",
        resource.plural, resource.group
    ));
    text.replace("derived.example.com", "{id}.example.com")
}

fn cases() -> String {
    let in_spec = |values: Vec<Value>| values.into_iter().map(|spec| json!({"spec": spec})).collect::<Vec<_>>();
    let mut objects = in_spec(vec![json!({"fixed": "a", "grows": 3})]);
    objects.extend(in_spec(specs()));
    objects.push(json!({}));
    objects.push(json!({"metadata": {"name": "forbidden"}, "spec": {}}));
    let header = "# What the derive of definitions makes; written by tests/derived.rs.\n\n";
    [
        header.to_owned(),
        case::<Validated>("every-validation", "namespaces/{ns}/", &objects, &in_spec(changes())),
        case::<Embedding>("parts-of-built-in-kinds", "", &embedded(), &[]),
        case::<Combined>("schemas-put-together", "namespaces/{ns}/", &in_spec(combinations()), &[]),
    ]
    .concat()
}

/// `WINDLASS_GOLDEN=write` writes the cases; `cargo xtask conformance --record derived` then records the responses.
#[test]
fn cases_match_the_derived_crds() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/derived.txt");
    if env::var_os("WINDLASS_GOLDEN").is_some_and(|value| value == "write") {
        fs::write(&path, cases()).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), cases());
}

#[test]
fn each_keyword_of_the_derive_is_in_a_case() {
    let types = include_str!("derived.rs").split("/// Returns valid and invalid specs").next().unwrap();
    let attributes = types.match_indices("#[schema(").map(|(at, _)| {
        let attribute = &types[at..];
        &attribute[..attribute.find(")]\n").unwrap()]
    });
    // Texts in quotes are values.
    let said = attributes.flat_map(|attribute| attribute.split('"').step_by(2));
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let said = said.flat_map(|text| text.split(|letter: char| !is_part(letter))).collect::<BTreeSet<_>>();
    let missing = windlass_derive_model::keywords().into_iter().filter(|keyword| !said.contains(keyword));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&str>::new());
}
