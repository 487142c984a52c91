//! Golden files, and reported errors.

use std::collections::BTreeMap;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
    serde::{Deserialize, Serialize},
};
use windlass_api::{crd::CrdBuilder, rbac::Rule};
use windlass_derive::{CustomResource, Schema};

use super::*;

/// A page.
#[derive(Clone, Debug, Serialize, Deserialize, CustomResource)]
#[serde(crate = "k8s_openapi::serde")]
#[resource(
    group = "shop.example.com", version = "v1", crate = windlass_api, storage, status, short_names("web"),
    scale(spec = ".spec.replicas", status = ".status.replicas"),
    column(name = "Replicas", type = "integer", path = ".spec.replicas"), selectable(".spec.greeting")
)]
struct Website {
    metadata: ObjectMeta,
    /// As it should be.
    spec: Spec,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(crate = "k8s_openapi::serde")]
#[schema(crate = windlass_api, rule(rule = "self.greeting != 'no' || self.replicas == 0", message = "no one, no servers"))]
struct Spec {
    /// What the page says. In any language: "yes", it's so.
    #[schema(min_length = 1, pattern = "^[a-z]+$", max_length = 100)]
    greeting: String,
    #[schema(minimum = 0, maximum = 10, default = 1)]
    replicas: i32,
}

#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(crate = "k8s_openapi::serde")]
#[schema(crate = windlass_api)]
struct Status {
    replicas: i32,
    #[schema(list_type = "map", map_keys("type"))]
    conditions: Vec<Condition>,
}

mod v1beta1 {
    use super::*;

    #[derive(Clone, Debug, Serialize, Deserialize, CustomResource)]
    #[serde(crate = "k8s_openapi::serde")]
    #[resource(
        group = "shop.example.com", version = "v1beta1", crate = windlass_api, short_names("web"), deprecated
    )]
    pub(super) struct Website {
        metadata: ObjectMeta,
    }
}

const RULES: &[Rule] = &[
    Rule { groups: &["apps"], resources: &["deployments"], verbs: &["list", "get"], ..Rule::NONE },
    Rule { groups: &["apps"], resources: &["deployments"], verbs: &["watch"], ..Rule::NONE },
    Rule { groups: &[""], resources: &["events"], verbs: &["create"], namespace: Some("system"), ..Rule::NONE },
    Rule { urls: &["/metrics"], verbs: &["get"], role_name: Some("metrics-reader"), ..Rule::NONE },
];

fn manifests() -> Manifests {
    Manifests::new("website-operator")
        .definition(CrdBuilder::of::<Website>().and::<v1beta1::Website>())
        .rules(RULES)
        .webhook(Webhook::validating::<Website>().timeout_seconds(5))
        .webhook(Webhook::defaulting::<Website>().again_if_needed())
}

/// Compares a file with its golden file. `WINDLASS_GOLDEN=write` writes the golden file.
pub(crate) fn golden(file: &File) {
    let name = file.path.replace('/', "_");
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests").join(name);
    if std::env::var_os("WINDLASS_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(&path, &file.text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), file.text, "{}", file.path);
}

#[test]
fn files_match_types_at_kubebuilders_paths() {
    let files = manifests().files(Part::All).unwrap();
    let paths = files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>();
    assert_eq!(paths, ["crd/bases/shop.example.com_websites.yaml", "rbac/role.yaml", "webhook/manifests.yaml"]);
    files.iter().for_each(golden);
}

#[test]
fn manifests_of_a_project_use_its_names() {
    let project = Manifests::of_project("shop").rules(&RULES[..1]).webhook(Webhook::validating::<Website>());
    let files = project.webhook(Webhook::defaulting::<Website>()).files(Part::All).unwrap();
    assert!(files[0].text.contains("  name: shop-manager\n"), "{}", files[0].text);
    assert_eq!(files[1].text.matches("metadata:\n  name: shop\n").count(), 2, "{}", files[1].text);
    assert_eq!(files[1].text.matches("      name: shop-webhooks\n      namespace: shop-system\n").count(), 2);
}

#[test]
fn missing_parts_have_no_file() {
    assert_eq!(Manifests::new("empty").files(Part::All).unwrap(), []);
}

#[test]
fn descriptions_are_cut_or_left_out() {
    let text = |longest| manifests().longest_description(longest).files(Part::Crds).unwrap()[0].text.clone();
    assert!(!text(0).contains("description"));
    assert!(text(20).contains("description: What the page says.\n"), "{}", text(20));
}

// === Errors ===

macro_rules! kind {
    ($name:ident, { $($resource:tt)* }, $spec:ty) => {
        #[derive(Clone, Debug, Serialize, Deserialize, CustomResource)]
        #[serde(crate = "k8s_openapi::serde")]
        #[resource(group = "x.io", version = "v1", crate = windlass_api, $($resource)*)]
        struct $name {
            metadata: ObjectMeta,
            spec: $spec,
        }
    };
}

#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(crate = "k8s_openapi::serde")]
#[schema(crate = windlass_api)]
struct Wrong {
    #[schema(min_length = 1)]
    number: i32,
    #[schema(pattern = "(")]
    pattern: String,
    #[schema(default = "many")]
    replicas: i32,
    #[schema(enum("a", 1))]
    one_of: String,
    #[schema(list_type = "map", map_keys("name", "type"))]
    list: Vec<BTreeMap<String, String>>,
    #[schema(minimum = 5, default = 1)]
    few: i32,
    nested: Vec<Tree>,
}

#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(crate = "k8s_openapi::serde")]
#[schema(crate = windlass_api)]
struct Tree {
    children: Vec<Self>,
}

#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(crate = "k8s_openapi::serde")]
#[schema(crate = windlass_api)]
struct WrongRules {
    #[schema(rule(rule = "self > 'a'"))]
    number: i32,
    #[schema(items(rule(rule = "self.size( > 1")))]
    list: Vec<String>,
    #[schema(rule(rule = "self.all(a, self.all(b, a != b))"))]
    costly: Vec<String>,
}

kind!(Schemas, {}, Wrong);
kind!(Rules, {}, WrongRules);
kind!(
    Paths,
    {
        column(name = "A", type = "string", path = ".a["), selectable(".spec.none", ".spec.conditions"),
        scale(spec = ".spec.replicas", status = ".metadata.name")
    },
    Status
);

fn problems(manifests: &Manifests) -> Vec<String> {
    manifests.check().unwrap_err().0.iter().map(ToString::to_string).collect()
}

#[test]
fn schema_errors_name_type_field_and_reason() {
    let problems = problems(&Manifests::new("x").kind::<Schemas>());
    for (problem, expected) in problems.iter().zip([
        "Schemas v1: spec.few: default 1: it is less than the minimum",
        "Schemas v1: spec.list: map key \"name\" is not a field of the items",
        "Schemas v1: spec.list: map key \"type\" is not a field of the items",
        "Schemas v1: spec.nested[].children: alloc::vec::Vec<",
        "Schemas v1: spec.number: `minLength` does not apply to type integer, only to string",
        "Schemas v1: spec.one_of: enum value 1: it is not of type string",
        "Schemas v1: spec.pattern: pattern \"(\": ",
        "Schemas v1: spec.replicas: default \"many\": it is not of type integer",
    ]) {
        assert!(problem.starts_with(expected), "{problem}");
    }
    assert_eq!(problems.len(), 8, "{problems:#?}");
}

#[test]
fn rule_errors_name_type_field_and_rule() {
    let problems = problems(&Manifests::new("x").kind::<Rules>());
    for (problem, expected) in problems.iter().zip([
        ("Rules v1: spec.costly: rule \"self.all(a, self.all(b, a != b))\": ", "exceeds budget by factor of"),
        ("Rules v1: spec.list[]: rule \"self.size( > 1\": compilation failed: ERROR: <input>:1:", ""),
        (
            "Rules v1: spec.number: rule \"self > 'a'\": compilation failed: ERROR: ",
            "found no matching overload for '_>_'",
        ),
    ]) {
        assert!(!problem.contains("OptionalOldSelf"), "no JSON: {problem}");
        assert!(problem.starts_with(expected.0) && problem.contains(expected.1), "{problem}");
    }
}

#[test]
fn invalid_paths_are_reported() {
    let problems = problems(&Manifests::new("x").kind::<Paths>());
    for (problem, expected) in problems.iter().zip([
        "Paths v1: column A: path \".a[\": ",
        "Paths v1: selectable field .spec.none: the schema has no such field",
        "Paths v1: selectable field .spec.conditions: it is of type array, not string, integer or boolean",
        "Paths v1: scale .metadata.name: it must be below .status",
    ]) {
        assert!(problem.starts_with(expected), "{problem}");
    }
    assert_eq!(problems.len(), 4, "{problems:#?}");
}

#[test]
fn invalid_versions_and_webhooks_are_reported() {
    let twice = Manifests::new("x").kind::<Website>().kind::<Website>();
    assert_eq!(
        problems(&twice),
        ["websites.shop.example.com: it is defined twice: combine the versions of a kind in one definition"]
    );
    let storage = Manifests::new("shop").definition(CrdBuilder::of::<v1beta1::Website>().and::<v1beta1::Website>());
    assert_eq!(problems(&storage), ["shop: websites.shop.example.com: version v1beta1 is declared twice"]);
    let webhooks = Manifests::new("x")
        .webhook(Webhook::validating::<Website>().named("a.b").timeout_seconds(31).again_if_needed().when("", " "))
        .webhook(Webhook::validating::<Website>().named("a.b.c").at("http://x"))
        .webhook(Webhook::validating::<Website>().named("a.b.c"));
    assert_eq!(
        problems(&webhooks),
        [
            "webhook a.b: its name must contain at least two dots",
            "webhook a.b: its timeout must be 1 to 30 s",
            "webhook a.b: only webhooks that change objects can be called again",
            "webhook a.b: a condition needs a name and an expression",
            "webhook a.b.c: its URL must use https",
            "webhook a.b.c: another webhook has the same name",
        ]
    );
    assert!(webhooks.files(Part::All).is_err(), "nothing is written");
}
