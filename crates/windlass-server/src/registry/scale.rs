//! The scale subresource: reads and writes the replicas of all scalable kinds through one type.

use serde_json::{Map, Value, json};
use windlass_api::{FieldValidation, GroupKind, GroupResource, LabelSelector, Operator, Requirement, Status};

use super::meta;
use crate::{
    codec,
    encoded::Encoded,
    kubernetes::KubernetesVersion,
    object::requirement,
    registry::{Attributes, SubresourceKind},
};
use crate::{
    object::{Errors, Path, Tree, as_object},
    resource::{Item, ScaleRule, Shape, Target},
};

/// Returns the shape of scales.
pub(super) fn shape() -> Shape {
    Shape::BuiltIn(codec::plan("autoscaling", "v1", "Scale").expect("the type table has Scale"))
}

/// Returns the scale of an object.
pub(super) fn scale_of(target: &Target, item: &Item) -> Result<Item, Status> {
    let value = scale_value(target, &item.value())?;
    let value = shape().normalize(value, FieldValidation::Ignore)?.value;
    Ok(Item { encoded: Encoded::new(&value, shape().style()), revision: item.revision })
}

/// Returns the scale of an object, as a tree with its resourceVersion.
pub(super) fn scale_value(target: &Target, object: &Value) -> Result<Value, Status> {
    let rule = rule(target)?;
    let Some(replicas) = at(object, &rule.spec_replicas).and_then(Value::as_i64) else {
        let path = rule.spec_replicas.join(".");
        return Err(Status::internal(format!("the spec replicas field \".{path}\" does not exist")));
    };
    Ok(view(rule, object, replicas))
}

/// Like [`scale_value`], for patches: missing replicas are 0, and the patch may set them.
pub(super) fn patchable_value(target: &Target, object: &Value) -> Result<Value, Status> {
    let rule = rule(target)?;
    let replicas = at(object, &rule.spec_replicas).and_then(Value::as_i64);
    Ok(view(rule, object, replicas.unwrap_or_default()))
}

/// Returns a write of an object as admission sees it: a write of the object's scale.
pub(super) fn attributes(target: &Target, write: &Attributes) -> Result<Attributes, Status> {
    let kind = SubresourceKind { group: "autoscaling".to_owned(), version: "v1".to_owned(), kind: "Scale".to_owned() };
    let object = patchable_value(target, &write.object)?;
    let scale = Attributes::new(write.operation, target, object, write.context.clone()).with_kind(kind);
    match &write.old {
        Some(old) => Ok(scale.replacing(patchable_value(target, old)?)),
        None => Ok(scale),
    }
}

fn view(rule: &ScaleRule, object: &Value, replicas: i64) -> Value {
    let mut metadata = Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.at(&["metadata", key]) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    let mut status = Map::new();
    let current = at(object, &rule.status_replicas).and_then(Value::as_i64).unwrap_or_default();
    status.insert("replicas".to_owned(), current.into());
    if let Some(selector) = rule.selector.as_ref().and_then(|path| at(object, path)) {
        status.insert("selector".to_owned(), selector_text(selector).into());
    }
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {"replicas": replicas}, "status": status,
    })
}

/// Returns the object with the replicas of `scale`.
pub(super) fn scaled(target: &Target, object: &Value, scale: &Value) -> Result<Value, Status> {
    let rule = rule(target)?;
    let replicas = scale.int(&["spec", "replicas"]).unwrap_or_default();
    let kubernetes = target.resource.strategy.rules().kubernetes;
    let mut errors = Errors::of(kubernetes);
    let metadata = scale.at(&["metadata"]).unwrap_or(&Value::Null);
    // Since 1.37, the real server validates only managed fields, which a scale drops.
    if kubernetes < KubernetesVersion::V1_37 {
        errors.not_negative(&Path::new("metadata.generation"), metadata.int(&["generation"]));
        meta::validate_common(metadata, &mut errors);
    }
    errors.not_negative(&Path::new("spec.replicas"), Some(replicas));
    errors.check(&GroupKind::new("autoscaling", "Scale"), target.name())?;
    check_uid(target, object, scale)?;
    let mut object = object.clone();
    let mut place = &mut object;
    for key in &rule.spec_replicas {
        place = as_object(place).entry(key).or_insert(Value::Null);
    }
    *place = replicas.into();
    let version = scale.text(&["metadata", "resourceVersion"]);
    // The scale of a custom resource may omit the resourceVersion, although the resource itself may not.
    if !version.is_empty() || matches!(target.resource.shape, Shape::BuiltIn(_)) {
        crate::object::metadata_mut(&mut object).insert("resourceVersion".to_owned(), version.into());
    }
    Ok(object)
}

/// Checks the uid in the scale of a built-in kind. The uid in the scale of a custom resource is ignored.
fn check_uid(target: &Target, object: &Value, scale: &Value) -> Result<(), Status> {
    let (given, found) = (scale.text(&["metadata", "uid"]), object.text(&["metadata", "uid"]));
    if given.is_empty() || given == found || matches!(target.resource.shape, Shape::Custom(_)) {
        return Ok(());
    }
    let resource = GroupResource::new(target.resource.group.clone(), format!("{}/scale", target.resource.plural));
    let why = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {found}");
    Err(Status::conflict(&resource, target.name(), why))
}

fn rule(target: &Target) -> Result<&ScaleRule, Status> {
    target.resource.strategy.scale().ok_or_else(Status::unknown_resource)
}

fn at<'v>(object: &'v Value, path: &[String]) -> Option<&'v Value> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    object.at(&path)
}

/// Formats a selector as text. The selector belongs to a workload (`matchLabels`, `matchExpressions`) or a replication
/// controller (a map), or is already text.
fn selector_text(selector: &Value) -> String {
    if let Some(text) = selector.as_str() {
        return text.to_owned();
    }
    let is_structured = selector.at(&["matchLabels"]).is_some() || selector.at(&["matchExpressions"]).is_some();
    let labels: &[&str] = if is_structured { &["matchLabels"] } else { &[] };
    let mut requirements: Vec<Requirement> = selector
        .entries(labels)
        .map(|(key, value)| Requirement::new(key, Operator::Equals, [value.as_str().unwrap_or_default()]))
        .collect();
    requirements.extend(selector.items(&["matchExpressions"]).iter().filter_map(requirement));
    LabelSelector::new(requirements).to_string()
}
