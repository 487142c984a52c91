//! The reconciled kind, and its child objects.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_api::{ObjectBuilder as _, ObjectExt as _};
use windlass_derive::Resource;

/// Settings for a `ConfigMap`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Resource)]
#[resource(group = "bench.windlass.dev", version = "v1", k8s_openapi = k8s_openapi)]
pub struct Widget {
    pub metadata: ObjectMeta,
    pub spec: Spec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Spec {
    pub settings: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    pub conditions: Vec<Condition>,
}

/// Returns the desired child.
#[must_use]
pub fn settings_of(widget: &Widget) -> ConfigMap {
    let mut child = ConfigMap::named(widget.name()).controlled_by(widget);
    child.metadata.namespace.clone_from(&widget.metadata.namespace);
    child.data = Some(widget.spec.settings.clone());
    child
}

/// Returns the object with this number.
#[must_use]
pub fn widget(at: usize) -> Widget {
    let mut widget = Widget::named(format!("widget-{at}")).in_namespace("default");
    widget.metadata.labels = Some([("app".to_owned(), format!("app-{}", at % 50))].into());
    let setting = |n: usize| (format!("setting-{n}"), format!("value {n} of widget {at}"));
    widget.spec.settings = (0..8).map(setting).collect();
    widget
}

/// Returns the CustomResourceDefinition.
#[must_use]
pub fn definition() -> Value {
    let time = json!({"type": "string", "format": "date-time"});
    let text = json!({"type": "string"});
    let number = json!({"type": "integer", "format": "int64"});
    let condition = json!({
        "type": "object",
        "required": ["type", "status", "reason", "lastTransitionTime", "message"],
        "properties": {
            "type": text, "status": text, "reason": text, "message": text, "lastTransitionTime": time,
            "observedGeneration": number,
        },
    });
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"settings": {"type": "object", "additionalProperties": text}},
            },
            "status": {
                "type": "object",
                "properties": {
                    "observedGeneration": number,
                    "conditions": {
                        "type": "array", "items": condition,
                        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                    },
                },
            },
        },
    });
    json!({
        "metadata": {"name": "widgets.bench.windlass.dev"},
        "spec": {
            "group": "bench.windlass.dev", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            }],
        },
    })
}
