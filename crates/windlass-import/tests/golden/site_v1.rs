//! Site in version v1 of shop.example.com.

#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, rustdoc::all, reason = "generated from a CRD")]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass::api::k8s_openapi::ByteString;
use windlass::api::k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use windlass::api::k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use windlass::api::Quantity;
use windlass::{CustomResource, Schema};

/// A site.
///
/// With "quotes", back\slashes and <tags>.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, CustomResource)]
#[resource(
    group = "shop.example.com",
    version = "v1",
    singular = "webSite",
    list_kind = "SiteCollection",
    scope = "Cluster",
    short_names("st", "sts2"),
    categories("all", "web"),
    storage,
    status,
    scale(spec = ".spec.replicas", status = ".status.replicas", selector = ".status.selector"),
    column(name = "Class", type = "string", path = ".spec.class"),
    column(name = "Ready", type = "string", path = r#".status.conditions[?(@.type=="Ready")].status"#, format = "password", description = "whether it answers", priority = 1),
    selectable(".spec.class"),
    labels("team" = "web"),
    annotations("shop.example.com/owner" = "somebody")
)]
#[schema(rule(rule = "self.metadata.name != 'none'", message = "not none"))]
pub struct Site {
    /// Standard object metadata.
    #[schema(raw = r#"{"type":"object","properties":{"name":{"type":"string","maxLength":40}}}"#, optional)]
    pub metadata: ObjectMeta,
    /// As it should be.
    pub spec: SiteSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<SiteStatus>,
}

// .spec
/// As it should be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "camelCase")]
#[schema(
    min_properties = 1,
    max_properties = 99,
    map_type = "atomic",
    rule(rule = "self.replicas <= 5 || has(self.type)", message_expression = r#"'at most ' + string(5) + ' of no "type"'"#, reason = "FieldValueForbidden", field_path = ".replicas"),
    rule(rule = "oldSelf.hasValue() || self.replicas > 0", message = "new ones have replicas", optional_old_self)
)]
pub struct SiteSpec {
    #[schema(default = "small", required)]
    pub class: SiteSpecClass,
    #[schema(nullable, required)]
    #[serde(rename = "null-able")]
    pub null_able: Option<String>,
    #[schema(nullable)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maybe: Option<String>,
    #[schema(default = "full", required)]
    pub filled: String,
    /// How many.
    #[schema(description = "How many.\n\n    code()\n", minimum = 0, exclusive_maximum = 10, example = 3)]
    pub replicas: i32,
    #[schema(min_length = 1, max_length = 63, pattern = r#"^[a-z]\.\d"$"#)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    #[schema(type = "integer")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_: Option<i64>,
    #[schema(type = "integer", format = "uint16", enum(1, 2, 5000000000i64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crate_: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foo_bar: Option<bool>,
    #[serde(rename = "foo_bar", skip_serializing_if = "Option::is_none")]
    pub foo_bar_2: Option<bool>,
    #[schema(type = "number", multiple_of = 0.5)]
    #[serde(rename = "foo-bar", skip_serializing_if = "Option::is_none")]
    pub foo_bar_3: Option<f64>,
    #[schema(exclusive_minimum = -1.5)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    #[schema(default = 5000000000i64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<ByteString>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    #[schema(
        format = "ipv4",
        title = "Where",
        external_docs(url = "https://example.com", description = "more")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<IntOrString>,
    #[schema(raw = r#"{"x-kubernetes-int-or-string":true}"#)]
    #[serde(rename = "odd-port", skip_serializing_if = "Option::is_none")]
    pub odd_port: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
    /// Its names.
    #[schema(
        min_items = 1,
        max_items = 9,
        list_type = "set",
        items(max_length = 253, description = "One name.")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    #[schema(list_type = "atomic", items(type = "integer", minimum = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numbers: Option<Vec<i64>>,
    #[schema(list_type = "map", map_keys("name", "protocol"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<SiteSpecPorts>>,
    #[schema(values(description = "An amount."))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<BTreeMap<String, IntOrString>>,
    #[schema(items(items(nullable)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Vec<Vec<Option<String>>>>,
    /// The same as a port's target, with words of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<BTreeMap<String, SiteSpecPortsTarget>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anything: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Map<String, Value>>,
    #[schema(embedded_resource)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Map<String, Value>>,
    #[schema(type = "object")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nothing: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixed: Option<SiteSpecMixed>,
    #[schema(default = {"a": "x", "list": [1, null, true]})]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<SiteSpecChoice>,
    /// It requires what it does not name.
    #[schema(raw = r#"{"type":"object","required":["hidden"],"additionalProperties":true}"#)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsaid: Option<Map<String, Value>>,
}

// .spec.class
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub enum SiteSpecClass {
    #[serde(rename = "small")]
    Small,
    #[serde(rename = "big-one")]
    BigOne,
    #[serde(rename = "2")]
    Value2,
    #[serde(rename = "")]
    Empty,
    #[serde(rename = "!=")]
    NotEqual,
    #[serde(rename = "*")]
    Star,
    #[serde(rename = "self")]
    Self_,
}

// .spec.ports[]
/// One port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Schema)]
pub struct SiteSpecPorts {
    pub name: String,
    #[schema(default = "TCP")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<SiteSpecPortsProtocol>,
    /// Behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<SiteSpecPortsTarget>,
}

// .spec.ports[].protocol
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub enum SiteSpecPortsProtocol {
    #[serde(rename = "TCP")]
    Tcp,
    #[serde(rename = "UDP")]
    Udp,
}

// .spec.ports[].target
/// Behind it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Schema)]
pub struct SiteSpecPortsTarget {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

// .spec.mixed
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Schema)]
pub struct SiteSpecMixed {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<String>,
    /// Fields that the schema does not declare.
    #[serde(flatten)]
    pub other_2: Map<String, Value>,
}

// .spec.choice
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Schema)]
#[schema(
    all_of({"properties": {"a": {"maxLength": 9}}}),
    any_of({"properties": {"b": {"minimum": 1}}}, {"required": ["a"]}),
    one_of({"required": ["a"]}, {"required": ["b"]}),
    not = {"properties": {"a": {"enum": ["never"]}}}
)]
pub struct SiteSpecChoice {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<i32>,
}

// .status
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Schema)]
pub struct SiteStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
}
