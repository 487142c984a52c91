//! Each generated value must be accepted by the server, whose validation is that of kube-apiserver.

use serde_json::{Value, json};

use super::*;
use crate::{exploration::simulated::ended_with, steps::Step};

const SITE: &str = "sites.example.dev/default/a";

/// Returns a scenario that applies a site with a spec. Its fields have these schemas.
fn scenario(properties: &Value, spec: &Value) -> Scenario {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
    scenario_of(&schema, spec)
}

fn scenario_of(schema: &Value, spec: &Value) -> Scenario {
    let names = json!({"kind": "Site", "listKind": "SiteList", "plural": "sites", "singular": "site"});
    let versions = json!([{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema}}]);
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.example.dev"},
        "spec": {"group": "example.dev", "scope": "Namespaced", "names": names, "versions": versions}});
    let mut scenario = Scenario::new(["operator"]).step(Step::apply("create", &site(spec).to_string()).unwrap());
    scenario.crds.push(crd);
    scenario
}

fn site(spec: &Value) -> Value {
    json!({"apiVersion": "example.dev/v1", "kind": "Site", "metadata": {"name": "a"}, "spec": spec})
}

/// Returns the mutations of a scenario at whose end the site has this spec.
async fn chosen(scenario: &Scenario, live: &Value) -> Mutations {
    let clean = ended_with([(SITE.parse().unwrap(), site(live))]);
    choose(scenario, &clean).await.unwrap()
}

/// Returns the changes of a spec, all of which the server must accept.
async fn changes(properties: Value, spec: Value) -> Vec<String> {
    let mutations = chosen(&scenario(&properties, &spec), &spec).await;
    assert!(mutations.rejected.is_empty(), "{:?}", mutations.rejected);
    assert!(mutations.planned.skipped.is_empty(), "{:?}", mutations.planned.skipped);
    texts(&mutations)
}

/// Returns the texts of the mutations within `spec`, sorted.
fn texts(mutations: &Mutations) -> Vec<String> {
    let suffix = format!("@{SITE}");
    let text = |plan: &Plan| plan.to_string().replace(&suffix, "").replace("(spec/", "(");
    let mut texts: Vec<_> = mutations.planned.plans.iter().map(text).filter(|text| text != "remove(spec)").collect();
    texts.sort();
    texts
}

#[tokio::test]
async fn booleans_and_enumerations_have_all_other_values() {
    let properties = json!({"on": {"type": "boolean"}, "mode": {"type": "string", "enum": ["a", "b", "c"]},
        "new": {"type": "boolean"}, "level": {"type": "integer", "enum": [1, 5]}});
    assert_eq!(
        changes(properties, json!({"on": true, "mode": "b", "level": 1})).await,
        [
            "remove(level)",
            "remove(mode)",
            "remove(on)",
            "set(level,5)",
            r#"set(mode,"a")"#,
            r#"set(mode,"c")"#,
            "set(new,false)",
            "set(new,true)",
            "set(on,false)"
        ]
    );
}

#[tokio::test]
async fn integers_stay_within_their_bounds() {
    let properties = json!({
        "free": {"type": "integer"}, "port": {"type": "integer", "minimum": 1, "maximum": 65535, "format": "int32"},
        "even": {"type": "integer", "minimum": 2, "exclusiveMinimum": true, "maximum": 8, "multipleOf": 2},
        "huge": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 2_147_483_647},
        "ratio": {"type": "number", "minimum": 0, "maximum": 1}, "new": {"type": "integer", "minimum": 7}});
    let spec = json!({"free": 0, "port": 80, "even": 4, "huge": 2_147_483_647, "ratio": 0.5});
    let changes = changes(properties, spec).await;
    let of = |name: &str| {
        let prefix = format!("set({name},");
        let values =
            changes.iter().filter_map(|text| text.strip_prefix(&prefix)?.strip_suffix(')')).collect::<Vec<_>>();
        values.join(" ")
    };
    assert_eq!(of("free"), "-1 1");
    assert_eq!(of("port"), "1 65535 79 81");
    assert_eq!(of("even"), "6 8");
    assert_eq!(of("huge"), "0 2147483646");
    assert_eq!(of("ratio"), "0.25");
    assert_eq!(of("new"), "7 8");
}

#[tokio::test]
async fn strings_match_formats_patterns_and_lengths() {
    let quantity = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let properties = json!({
        "size": {"anyOf": either, "pattern": quantity, "x-kubernetes-int-or-string": true},
        "limit": {"anyOf": either, "pattern": quantity, "x-kubernetes-int-or-string": true},
        "port": {"x-kubernetes-int-or-string": true, "anyOf": either},
        "image": {"type": "string"}, "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
        "since": {"type": "string", "format": "date-time"}, "timeout": {"type": "string", "format": "duration"},
        "key": {"type": "string", "minLength": 5, "maxLength": 5}, "address": {"type": "string", "format": "ipv4"}});
    let spec = json!({"size": "1Gi", "port": 80, "image": "nginx:1.25", "name": "a", "timeout": "30s"});
    let changes = changes(properties, spec).await;
    for expected in [
        r#"set(size,"2Gi")"#,
        r#"set(limit,"1")"#,
        "set(port,81)",
        r#"set(image,"nginx:1.26")"#,
        r#"set(name,"b")"#,
        r#"set(since,"2020-01-02T03:04:05Z")"#,
        r#"set(timeout,"31s")"#,
        r#"set(key,"bbbbb")"#,
        r#"set(address,"192.0.2.1")"#,
        r#"set(image,"")"#,
    ] {
        assert!(changes.iter().any(|text| text == expected), "{expected}: {changes:#?}");
    }
}

#[tokio::test]
async fn lists_get_more_fewer_and_reordered_items() {
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "minItems": 1,
        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}}});
    let properties = json!({
        "names": {"type": "array", "items": {"type": "string"}}, "keyed": keyed, "new": keyed,
        "set": {"type": "array", "x-kubernetes-list-type": "set", "maxItems": 1, "items": {"type": "string", "enum": ["a", "b"]}}});
    let spec = json!({"names": ["a", "x1"], "keyed": [{"name": "a", "n": 1}], "set": ["a"]});
    let changes = changes(properties, spec).await;
    for expected in [
        "reverse(names)",
        "remove(names/1)",
        r#"append(names,"a")"#,
        r#"set(names/0,"a-a")"#,
        "set(keyed/0/n,2)",
        "remove(keyed/0/n)",
        "remove(keyed)",
        r#"set(set/0,"b")"#,
        "remove(set/0)",
        r#"set(new,[{"name":"a"}])"#,
    ] {
        assert!(changes.iter().any(|text| text == expected), "{expected}: {changes:#?}");
    }
    let appended = |text: &&String| text.starts_with("append(keyed,") && !text.contains(r#""name":"a""#);
    assert!(changes.iter().any(|text| appended(&text)), "{changes:#?}");
    assert!(!changes.iter().any(|text| text.starts_with("append(set") || text == "remove(keyed/0)"), "{changes:#?}");
}

#[tokio::test]
async fn objects_and_maps_get_fields_and_entries() {
    let size = json!({"type": "object", "required": ["cpu"], "properties": {"cpu": {"type": "integer"}, "memory": {"type": "string"},
        "deep": {"type": "object", "properties": {"x": {"type": "object", "properties": {"y": {"type": "integer"}}}}}}});
    let properties = json!({
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "size": size, "nested": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
        "either": {"type": "object", "properties": {"p": {"type": "integer"}, "q": {"type": "integer"}},
            "oneOf": [{"required": ["p"]}, {"required": ["q"]}]},
        "template": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let spec = json!({"labels": {"app": "x"}, "nested": {"a": 1}, "free": {"any": 1, "list": ["a"]}});
    let changes = changes(properties, spec).await;
    for expected in [
        "remove(labels/app)",
        r#"set(labels/app,"x-a")"#,
        r#"set(labels/windlass,"a")"#,
        r#"set(size,{"cpu":1})"#,
        "set(nested/b,1)",
        "set(nested/a,2)",
        r#"set(either,{"p":1})"#,
        "set(free/any,2)",
        "remove(free/any)",
        "remove(free/list/0)",
    ] {
        assert!(changes.iter().any(|text| text == expected), "{expected}: {changes:#?}");
    }
    assert!(
        changes.iter().any(|text| text.starts_with("set(size,{") && text.contains(r#""memory":"a""#)),
        "{changes:#?}"
    );
    assert!(
        changes.iter().any(|text| text.starts_with("set(template,{") && text.contains("ConfigMap")),
        "{changes:#?}"
    );
    assert!(!changes.iter().any(|text| text.contains(r#""y""#)), "new objects are nested once: {changes:#?}");
}

#[tokio::test]
async fn values_that_rules_forbid_are_rejected() {
    let properties = json!({"n": {"type": "integer"}, "name": {"type": "string",
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "it is immutable"}]}});
    let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object",
        "properties": properties, "x-kubernetes-validations": [{"rule": "self.n >= 1", "message": "n is too small"}]}}});
    let spec = json!({"n": 1, "name": "x"});
    let mutations = chosen(&scenario_of(&schema, &spec), &spec).await;
    assert_eq!(texts(&mutations), ["remove(name)", "set(n,2)"]);
    let rejected = |text: &str| mutations.rejected.get(&format!("{text}@{SITE}")).cloned().unwrap_or_default();
    assert!(rejected("set(spec/n,0)").contains("n is too small"), "{:?}", mutations.rejected);
    assert!(rejected(r#"set(spec/name,"")"#).contains("it is immutable"), "{:?}", mutations.rejected);
}

#[tokio::test]
async fn fields_with_defaults_are_changed_but_not_removed() {
    let properties =
        json!({"n": {"type": "integer", "default": 3}, "by": {"type": "string"}, "mode": {"type": "string"}});
    let scenario = scenario(&properties, &json!({"mode": "a", "n": 3}));
    // The program has added a field and changed another one.
    let live = json!({"n": 3, "by": "program", "mode": "changed"});
    let mutations = chosen(&scenario, &live).await;
    assert_eq!(texts(&mutations), ["set(n,0)", "set(n,2)", "set(n,4)"]);
    let skipped: Vec<_> = mutations.planned.skipped.into_iter().collect();
    assert_eq!(
        skipped,
        [
            ("changes that the server does not store".to_owned(), 1),
            ("fields that the program or an executable step has changed".to_owned(), 2)
        ]
    );
    let without = scenario_of(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}),
        &json!({}),
    );
    let mutations = chosen(&without, &json!({"n": 3})).await;
    assert!(texts(&mutations).contains(&"set(n,4)".to_owned()), "{:?}", texts(&mutations));
}

#[tokio::test]
async fn only_existing_custom_resources_are_changed() {
    let scenario = scenario(&json!({"n": {"type": "integer"}}), &json!({"n": 1}));
    let other = "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}";
    let scenario = scenario.step(Step::apply("other", other).unwrap());
    let gone = choose(&scenario, &ended_with([])).await.unwrap_err();
    assert!(matches!(gone, Error::NothingToMutate), "{gone}");
    let plans = chosen(&scenario, &json!({"n": 1})).await.planned.plans;
    assert!(!plans.is_empty() && plans.iter().all(|plan| plan.to_string().ends_with(SITE)), "{plans:?}");
}
