//! Tests of the derives: schemas, CRDs and rules of types.

#![allow(dead_code, reason = "the types are there for their schemas")]
#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::{
    CrdBuilder, CustomResource, Schema,
    api::{
        crd::{CrdError, GeneratedObjects, schema_of},
        k8s_openapi::apimachinery::pkg::{
            api::resource::Quantity,
            apis::meta::v1::{Condition, ObjectMeta, Time},
            util::intstr::IntOrString,
        },
        rbac::Rule,
    },
    k8s::core::v1::{LocalObjectReference, PodTemplateSpec},
};

fn of<T: Schema>() -> Value {
    serde_json::to_value(schema_of::<T>()).unwrap()
}

/// Returns the schema of one property.
fn property<T: Schema>(name: &str) -> Value {
    of::<T>()["properties"][name].clone()
}

// === structs ===

/// What is
/// asked for.
///
/// And more.
#[derive(Serialize, Deserialize, Schema)]
#[serde(rename_all = "camelCase")]
struct Plain {
    /// How many.
    min_replicas: i32,
    #[serde(default)]
    filled_in: bool,
    #[serde(rename = "other-name", skip_serializing_if = "Option::is_none")]
    left_out: Option<String>,
    null: Option<i64>,
    #[serde(skip)]
    unseen: u8,
    #[schema(skip)]
    hidden: u8,
    r#type: String,
    #[schema(default = {"a": [1, -2]})]
    with_default: BTreeMap<String, Vec<i32>>,
    #[schema(optional)]
    optional: String,
    #[schema(required)]
    required: Option<String>,
}

#[test]
fn names_and_presence_follow_serde() {
    assert_eq!(
        of::<Plain>(),
        json!({
            "type": "object",
            "description": "What is\nasked for.\n\nAnd more.",
            "required": ["minReplicas", "required", "type"],
            "properties": {
                "minReplicas": {"type": "integer", "format": "int32", "description": "How many."},
                "filledIn": {"type": "boolean"},
                "other-name": {"type": "string"},
                "null": {"type": "integer", "format": "int64", "nullable": true},
                "type": {"type": "string"},
                "withDefault": {
                    "type": "object",
                    "additionalProperties": {"type": "array", "items": {"type": "integer", "format": "int32"}},
                    "default": {"a": [1, -2]},
                },
                "optional": {"type": "string"},
                "required": {"type": "string", "nullable": true},
            },
        })
    );
}

#[derive(Serialize, Deserialize, Schema)]
struct Values {
    byte: u8,
    float: f64,
    set: BTreeSet<String>,
    map: HashMap<String, u32>,
    boxed: Box<[i64; 3]>,
    any: Value,
    object: serde_json::Map<String, Value>,
    quantity: Quantity,
    ours: windlass::api::Quantity,
    port: IntOrString,
    time: Time,
    conditions: Vec<Condition>,
    secret: LocalObjectReference,
}

#[test]
fn types_of_the_library_and_of_built_in_kinds_have_schemas() {
    let value = property::<Values>;
    assert_eq!(value("byte"), json!({"type": "integer", "format": "int32", "minimum": 0.0, "maximum": 255.0}));
    assert_eq!(value("float"), json!({"type": "number", "format": "double"}));
    assert_eq!(value("set"), json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}));
    assert_eq!(value("map")["additionalProperties"]["maximum"], 4_294_967_295.0);
    assert_eq!((&value("boxed")["minItems"], &value("boxed")["maxItems"]), (&json!(3), &json!(3)));
    assert_eq!(value("any"), json!({"x-kubernetes-preserve-unknown-fields": true}));
    assert_eq!(value("object"), json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    assert_eq!(value("quantity")["x-kubernetes-int-or-string"], true);
    assert_eq!(value("quantity"), value("ours"));
    assert_eq!(
        value("port"),
        json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
    );
    assert_eq!(value("time"), json!({"type": "string", "format": "date-time"}));
    assert_eq!(value("conditions")["items"]["properties"]["reason"]["minLength"], 1);
    assert_eq!(value("secret")["x-kubernetes-map-type"], "atomic");
}

#[derive(Serialize, Deserialize, Schema)]
struct Common {
    owner: String,
    #[serde(default)]
    team: String,
}

#[derive(Serialize, Deserialize, Schema)]
struct Flat {
    #[serde(flatten)]
    common: Common,
    own: bool,
}

#[derive(Serialize, Deserialize, Schema)]
struct Open {
    own: bool,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// A name.
#[derive(Serialize, Deserialize, Schema)]
#[schema(max_length = 63)]
struct Name(#[schema(min_length = 1)] String);

#[derive(Serialize, Deserialize, Schema)]
#[serde(transparent)]
struct Transparent {
    inner: Name,
}

#[derive(Serialize, Deserialize, Schema, Clone)]
#[serde(into = "String", from = "String")]
struct Proxy(u8, u8);

impl From<Proxy> for String {
    fn from(proxy: Proxy) -> Self {
        format!("{}/{}", proxy.0, proxy.1)
    }
}

impl From<String> for Proxy {
    fn from(_: String) -> Self {
        Self(0, 0)
    }
}

#[derive(Serialize, Deserialize, Schema)]
struct Page<T> {
    items: Vec<T>,
}

#[test]
fn struct_schema_matches_serde_output() {
    assert_eq!(of::<Flat>()["required"], json!(["own", "owner"]));
    assert_eq!(of::<Flat>()["properties"]["team"], json!({"type": "string"}));
    assert_eq!(of::<Open>()["x-kubernetes-preserve-unknown-fields"], true);
    let name = json!({"type": "string", "minLength": 1, "maxLength": 63, "description": "A name."});
    assert_eq!((of::<Name>(), of::<Transparent>()), (name.clone(), name.clone()));
    assert_eq!(of::<Proxy>(), json!({"type": "string"}));
    assert_eq!(property::<Page<Name>>("items"), json!({"type": "array", "items": name}));
}

#[derive(Serialize, Deserialize, Schema)]
struct Tree {
    children: Vec<Self>,
}

#[derive(Serialize, Deserialize, Schema)]
struct Pruned {
    #[schema(schemaless)]
    child: Option<Box<Self>>,
}

#[test]
fn recursive_type_is_an_error_or_unstructured() {
    let children = property::<Tree>("children");
    assert!(children["items"]["$ref"].as_str().unwrap().contains("Tree contains itself"), "{children}");
    assert_eq!(
        of::<Pruned>(),
        json!({
            "type": "object", "properties": {"child": {"x-kubernetes-preserve-unknown-fields": true}},
        })
    );
}

// === enums ===

#[derive(Serialize, Deserialize, Schema)]
#[serde(rename_all = "lowercase")]
enum Color {
    Red,
    #[serde(rename = "BLUE")]
    Blue,
    #[serde(skip)]
    Unknown,
}

#[derive(Serialize, Deserialize, Schema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Source {
    /// From a repository.
    GitRepository {
        git_url: String,
    },
    Image(Name),
}

#[derive(Serialize, Deserialize, Schema)]
#[serde(tag = "type")]
enum Strategy {
    Recreate,
    Rolling { surge: i32, unavailable: Option<i32> },
}

#[derive(Serialize, Deserialize, Schema)]
#[serde(tag = "kind", content = "value")]
enum Beside {
    None,
    Named { name: String },
}

#[derive(Serialize, Deserialize, Schema)]
#[serde(untagged)]
enum Loose {
    Number(i32),
    Text(String),
}

#[derive(Serialize, Deserialize, Schema)]
#[serde(untagged)]
enum LooseObject {
    A { a: i32 },
    B { b: i32 },
}

#[derive(Serialize, Deserialize, Schema)]
#[serde(untagged)]
enum TooLoose {
    Flag(bool),
    Text(String),
}

#[test]
fn enum_schema_matches_serde_output() {
    assert_eq!(of::<Color>(), json!({"type": "string", "enum": ["red", "BLUE"]}));
    assert_eq!(
        of::<Source>(),
        json!({
            "type": "object",
            "properties": {
                "gitRepository": {
                    "type": "object", "description": "From a repository.", "required": ["gitUrl"],
                    "properties": {"gitUrl": {"type": "string"}},
                },
                "image": {"type": "string", "minLength": 1, "maxLength": 63, "description": "A name."},
            },
            "oneOf": [{"required": ["gitRepository"]}, {"required": ["image"]}],
        })
    );
    let integer = json!({"type": "integer", "format": "int32"});
    assert_eq!(
        of::<Strategy>(),
        json!({
            "type": "object",
            "required": ["type"],
            "properties": {
                "type": {"type": "string", "enum": ["Recreate", "Rolling"]},
                "surge": integer,
                "unavailable": {"type": "integer", "format": "int32", "nullable": true},
            },
            "oneOf": [
                {"properties": {"type": {"enum": ["Recreate"]}}, "required": ["type"]},
                {"properties": {"type": {"enum": ["Rolling"]}}, "required": ["type", "surge"]},
            ],
        })
    );
    assert_eq!(
        of::<Beside>()["oneOf"],
        json!([
            {"properties": {"kind": {"enum": ["None"]}}, "required": ["kind"]},
            {"properties": {"kind": {"enum": ["Named"]}, "value": {"required": ["name"]}}, "required": ["kind", "value"]},
        ])
    );
    assert_eq!(of::<Loose>()["x-kubernetes-int-or-string"], true);
    assert_eq!(
        of::<LooseObject>(),
        json!({
            "type": "object", "properties": {"a": integer, "b": integer}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        })
    );
    assert!(of::<TooLoose>()["$ref"].as_str().unwrap().contains("different types"));
}

// === attributes ===

#[derive(Serialize, Deserialize, Schema)]
#[schema(
    at_most_one_of("a", "b"), exactly_one_of("a", "namespace"), at_least_one_of("a", "b"),
    rule(rule = "self.a <= self.b", message = "a first", message_expression = "'a is ' + string(self.a)",
         reason = "FieldValueForbidden", field_path = ".a", optional_old_self),
    min_properties = 1, max_properties = 3, title = "All", external_docs(url = "https://example.com", description = "More"),
    map_type = "atomic", crate = windlass::api
)]
struct Marked {
    #[schema(minimum = -1, maximum = 10.5, multiple_of = 0.5, nullable)]
    a: Option<f64>,
    #[schema(exclusive_minimum = 0, exclusive_maximum = 9, enum(1, 2))]
    b: Option<i32>,
    #[schema(
        min_length = 1,
        max_length = 5,
        pattern = "^[a-z]+$",
        format = "hostname",
        example = "abc",
        description = "Said."
    )]
    namespace: Option<String>,
    #[schema(min_items = 1, max_items = 3, list_type = "map", map_keys("name"))]
    list: Vec<Common>,
    #[schema(unique_items, items(max_length = 3, items(minimum = 1)))]
    nested: Vec<Vec<i32>>,
    #[schema(values(pattern = "x"), map_type = "granular")]
    map: BTreeMap<String, String>,
    #[schema(preserve_unknown_fields)]
    open: Common,
    #[schema(embedded_resource, preserve_unknown_fields)]
    template: Value,
    #[schema(int_or_string, pattern = "^[0-9]+%$")]
    percent: std::time::Duration,
    #[schema(type = "string", format = "duration")]
    duration: std::time::Duration,
    #[schema(as = Vec<i32>)]
    other: std::ops::Range<i32>,
    #[schema(immutable)]
    fixed: String,
    #[serde(with = "by_hand")]
    #[schema(as = String)]
    by_hand: u8,
}

mod by_hand {
    use serde::{Deserialize as _, de::Error as _};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(super) fn serialize<S: serde::Serializer>(value: &u8, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[test]
fn attributes_set_their_schema_fields() {
    let marked = of::<Marked>();
    let has = |fields: &str| format!("[{fields}].filter(x,x==true).size()");
    assert_eq!(
        marked["x-kubernetes-validations"],
        json!([
            {
                "rule": format!("{} <= 1", has("has(self.a),has(self.b)")),
                "message": "at most one of the fields in [a b] may be set",
            },
            {
                "rule": format!("{} == 1", has("has(self.a),has(self.__namespace__)")),
                "message": "exactly one of the fields in [a namespace] must be set",
            },
            {
                "rule": format!("{} >= 1", has("has(self.a),has(self.b)")),
                "message": "at least one of the fields in [a b] must be set",
            },
            {
                "rule": "self.a <= self.b", "message": "a first", "messageExpression": "'a is ' + string(self.a)",
                "reason": "FieldValueForbidden", "fieldPath": ".a", "optionalOldSelf": true,
            },
        ])
    );
    assert_eq!((&marked["minProperties"], &marked["maxProperties"]), (&json!(1), &json!(3)));
    assert_eq!(marked["externalDocs"], json!({"url": "https://example.com", "description": "More"}));
    assert_eq!((&marked["title"], &marked["x-kubernetes-map-type"]), (&json!("All"), &json!("atomic")));
    for (name, expected) in [
        (
            "a",
            json!({"type": "number", "format": "double", "minimum": -1.0, "maximum": 10.5, "multipleOf": 0.5, "nullable": true}),
        ),
        (
            "b",
            json!({
                "type": "integer", "format": "int32", "minimum": 0.0, "exclusiveMinimum": true, "maximum": 9.0,
                "exclusiveMaximum": true, "enum": [1, 2], "nullable": true,
            }),
        ),
        (
            "namespace",
            json!({
                "type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[a-z]+$", "format": "hostname", "example": "abc",
                "description": "Said.", "nullable": true,
            }),
        ),
        (
            "nested",
            json!({
                "type": "array", "x-kubernetes-list-type": "set",
                "items": {"type": "array", "maxLength": 3, "items": {"type": "integer", "format": "int32", "minimum": 1.0}},
            }),
        ),
        (
            "map",
            json!({
                "type": "object", "x-kubernetes-map-type": "granular", "additionalProperties": {"type": "string", "pattern": "x"},
            }),
        ),
        (
            "template",
            json!({
                "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
            }),
        ),
        (
            "percent",
            json!({
                "anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true, "pattern": "^[0-9]+%$",
            }),
        ),
        ("duration", json!({"type": "string", "format": "duration"})),
        ("other", json!({"type": "array", "items": {"type": "integer", "format": "int32"}})),
        (
            "fixed",
            json!({
                "type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "field is immutable"}],
            }),
        ),
        ("by_hand", json!({"type": "string"})),
    ] {
        assert_eq!(marked["properties"][name], expected, "{name}");
    }
    let list = &marked["properties"]["list"];
    assert_eq!(
        (&list["x-kubernetes-list-map-keys"], &list["minItems"], &list["maxItems"]),
        (&json!(["name"]), &json!(1), &json!(3))
    );
    assert_eq!(marked["properties"]["open"]["x-kubernetes-preserve-unknown-fields"], true);
}

// === definitions ===

mod v1 {
    use super::*;

    /// A site.
    #[derive(Clone, Debug, Serialize, Deserialize, CustomResource)]
    #[resource(
        group = "example.com", version = "v1", singular = "website", short_names("web"), categories("all"), storage, status,
        scale(spec = ".spec.replicas", status = ".status.replicas", selector = ".status.selector"),
        column(name = "Replicas", type = "integer", path = ".spec.replicas", format = "int32", description = "How many", priority = 1),
        selectable(".spec.color"), labels("team" = "shop"), annotations("a/b" = "c")
    )]
    #[schema(rule(rule = "self.metadata.name.size() < 20"))]
    pub(super) struct Site {
        metadata: ObjectMeta,
        /// As it should be.
        spec: Spec,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<Status>,
    }

    #[derive(Clone, Debug, Serialize, Deserialize, Schema)]
    struct Spec {
        replicas: i32,
        color: String,
        template: PodTemplateSpec,
    }

    #[derive(Clone, Debug, Serialize, Deserialize, Schema)]
    struct Status {
        replicas: i32,
        selector: String,
    }
}

mod v1beta1 {
    use super::*;

    #[derive(Clone, Debug, Serialize, Deserialize, CustomResource)]
    #[resource(
        group = "example.com",
        version = "v1beta1",
        short_names("web"),
        singular = "website",
        categories("all"),
        served = false,
        deprecated = "use v1"
    )]
    pub(super) struct Site {
        metadata: ObjectMeta,
    }

    #[derive(Clone, Debug, Serialize, Deserialize, CustomResource)]
    #[resource(group = "example.com", version = "v2", plural = "sites", kind = "Site")]
    pub(super) struct Odd {
        metadata: ObjectMeta,
    }
}

#[test]
fn versions_become_a_definition() {
    let definition = CrdBuilder::of::<v1::Site>().and::<v1beta1::Site>().build().unwrap();
    let definition = serde_json::to_value(definition).unwrap();
    assert_eq!(
        definition["metadata"],
        json!({
            "name": "sites.example.com", "labels": {"team": "shop"}, "annotations": {"a/b": "c"},
        })
    );
    let spec = &definition["spec"];
    assert_eq!((&spec["group"], &spec["scope"]), (&json!("example.com"), &json!("Namespaced")));
    assert_eq!(
        spec["names"],
        json!({
            "kind": "Site", "listKind": "SiteList", "plural": "sites", "singular": "website", "shortNames": ["web"],
            "categories": ["all"],
        })
    );
    let mut first = spec["versions"][0].clone();
    let schema = first["schema"]["openAPIV3Schema"].take();
    assert_eq!(schema["required"], json!(["spec"]));
    assert_eq!(schema["description"], "A site.");
    assert_eq!(schema["properties"].as_object().unwrap().keys().collect::<Vec<_>>(), ["spec", "status"]);
    assert_eq!(schema["x-kubernetes-validations"][0]["rule"], "self.metadata.name.size() < 20");
    assert_eq!(
        first,
        json!({
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": null},
            "subresources": {
                "status": {},
                "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector",
                },
            },
            "additionalPrinterColumns": [{
                "name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "format": "int32", "description": "How many",
                "priority": 1,
            }],
            "selectableFields": [{"jsonPath": ".spec.color"}],
        })
    );
    assert_eq!(
        spec["versions"][1],
        json!({
            "name": "v1beta1", "served": false, "storage": false, "deprecated": true, "deprecationWarning": "use v1",
            "schema": {"openAPIV3Schema": {"type": "object"}},
        })
    );
}

#[test]
fn one_version_alone_is_the_stored_one() {
    assert!(v1beta1::Site::definition().spec.versions[0].storage);
    assert!(!v1beta1::Site::declared().spec.versions[0].storage);
}

#[test]
fn incompatible_versions_are_errors() {
    let name = "sites.example.com".to_owned();
    let storage = CrdBuilder::of::<v1beta1::Site>().and::<v1beta1::Odd>().build();
    assert!(matches!(storage, Err(CrdError::Differ { what: "names", .. })), "{storage:?}");
    let twice = CrdBuilder::of::<v1::Site>().and::<v1::Site>().build();
    assert_eq!(twice.unwrap_err(), CrdError::Twice { name, version: "v1".to_owned() });
}

#[test]
fn generated_objects_are_valid_and_reproducible() {
    let objects = || GeneratedObjects::<v1::Site>::seeded(7).take(50).collect::<Vec<_>>();
    assert_eq!(objects(), objects());
    assert_ne!(objects(), GeneratedObjects::<v1::Site>::seeded(8).take(50).collect::<Vec<_>>());
    for object in objects() {
        let site: Result<v1::Site, _> = serde_json::from_value(object.clone());
        assert!(site.is_ok(), "{}: {object:#}", site.unwrap_err());
    }
    let with_status = objects().iter().filter(|object| object.get("status").is_some()).count();
    assert!((1..50).contains(&with_status), "what may be left out is there, and is not");
}

// === rules ===

mod controller {
    #[windlass::rbac(groups = "apps", resources = "deployments, deployments/status", verbs = "get,list")]
    #[windlass::rbac(urls = "/metrics", verbs = "get", role_name = "reader")]
    #[allow(clippy::unused_async)]
    pub(super) async fn reconcile() -> u8 {
        7
    }

    #[windlass::rbac(groups = ",batch", resources = "pods", resource_names = "a", verbs = "*", namespace = "shop", constant = OF_JOBS)]
    pub(super) struct Jobs {
        pub(super) one: u8,
    }
}

#[tokio::test]
async fn rules_are_placed_at_their_fields() {
    assert_eq!((controller::reconcile().await, controller::Jobs { one: 1 }.one), (7, 1));
    assert_eq!(
        controller::RULES,
        [
            Rule {
                groups: &["apps"],
                resources: &["deployments", "deployments/status"],
                verbs: &["get", "list"],
                ..Rule::NONE
            },
            Rule { urls: &["/metrics"], verbs: &["get"], role_name: Some("reader"), ..Rule::NONE },
        ]
    );
    assert_eq!(
        controller::OF_JOBS,
        [Rule {
            groups: &["", "batch"],
            resources: &["pods"],
            resource_names: &["a"],
            verbs: &["*"],
            namespace: Some("shop"),
            ..Rule::NONE
        }]
    );
}
