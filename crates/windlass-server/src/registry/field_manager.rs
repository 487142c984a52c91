//! Field ownership in the write path: the only place where the registry computes `metadata.managedFields`.
//!
//! Objects are compared in the version of the request, whose fields its managers own. The functions here accept and
//! return objects in the hub version. Scales are separate objects; their managers are those of the replicas field.

use std::{borrow::Cow, sync::Arc};

use serde_json::{Value, json};
use windlass_api::{FieldValidation, Status, format_time};

use super::{Registry, WriteParams, meta, scale};
use crate::{
    codec,
    field_manager::{self, Applier, Kind, ReplicasPaths, Set, TypeHandle, Version},
};
use crate::{
    kubernetes::KubernetesVersion,
    object::Tree,
    resource::{Conversions, ResourceInfo, Shape, Target},
};

pub(super) use crate::field_manager::{
    DetachedFields, attach, clone_without_managed_fields, detach, is_reset, keep_times,
};

/// The body of an apply request.
#[derive(Debug)]
pub(crate) struct Application {
    pub(super) patch: Value,
    /// `true` takes conflicting fields from their managers.
    pub(super) force: bool,
    /// The error of strict field validation. It is returned after the apply has been computed.
    pub(super) refusal: Option<Box<Status>>,
}

const SCALE: &str = "autoscaling/v1";

impl Registry {
    /// Computes the managedFields of an object that is about to replace `old`. `new` may contain managedFields from the
    /// client.
    pub(crate) fn track(&self, target: &Target, old: Option<&Value>, new: &mut Value, params: &WriteParams) {
        let resource = &*target.resource;
        let now = format_time(self.clock().now());
        let style = resource.shape.style();
        self.with_kind(target, old.is_none(), &params.conversions, |kind| {
            let old = old.map(|old| resource.hub_to_requested(old));
            let old = old.as_deref();
            let Cow::Owned(mut shown) = resource.hub_to_requested(new) else {
                return field_manager::update(kind, old, new, &params.field_manager, &now, style);
            };
            field_manager::update(kind, old, &mut shown, &params.field_manager, &now, style);
            detach(new);
            attach(new, detach(&mut shown), style);
        });
    }

    /// Returns a new object with its managedFields.
    pub(super) async fn tracked(&self, target: &Target, new: Value, params: &WriteParams) -> Result<Value, Status> {
        let track = |mut new: Value| {
            self.track(target, None, &mut new, params);
            new
        };
        if !target.resource.is_translated() {
            return Ok(track(new));
        }
        params.conversions.run(|| Ok(track(new.clone()))).await
    }

    /// Returns the result of an apply to `old`, with its managedFields.
    pub(super) fn applied(
        &self,
        target: &Target,
        old: Option<&Value>,
        application: &Application,
        params: &WriteParams,
    ) -> Result<Value, Status> {
        let resource = &*target.resource;
        let shown = old.map(|old| resource.hub_to_requested(old));
        let now = format_time(self.clock().now());
        let applier = Applier { manager: &params.field_manager, force: application.force, now: &now };
        let patch = &application.patch;
        let (object, managed_fields) = self.with_kind(target, true, &params.conversions, |kind| {
            let (object, managed) = field_manager::apply(kind, shown.as_deref(), patch, applier)?;
            let object = match object {
                Some(object) => Some(to_shape(&resource.shape, object, patch)?),
                None => None,
            };
            Ok::<_, Status>((
                object.unwrap_or_else(|| {
                    shown.as_deref().map_or_else(|| kind.empty.clone(), clone_without_managed_fields)
                }),
                managed,
            ))
        })?;
        if let Some(refusal) = &application.refusal {
            return Err(Status::clone(refusal));
        }
        let mut object = resource.to_hub(object);
        let (uid, name) = (object.text(&["metadata", "uid"]), target.name());
        if old.is_none() && !uid.is_empty() {
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(Status::conflict(&target.group_resource(), name, why));
        }
        meta::set_namespace(target, &mut object)?;
        meta::check_name(target, &object)?;
        params.warnings.extend(meta::deduplicate_owners(&mut object));
        resource.strategy.default(&mut object);
        attach(&mut object, managed_fields, resource.shape.style());
        Ok(object)
    }

    /// Returns the object, scaled by the result of `edit` on its scale, with its managedFields.
    pub(super) fn scaled<'a>(
        &self,
        target: &Target,
        old: &Value,
        params: &WriteParams,
        edit: impl FnOnce(&Value) -> Result<Scaling<'a>, Status>,
    ) -> Result<Value, Status> {
        let resource = &target.resource;
        let path = |api_version: &str| {
            let version = self.version_of(resource, api_version)?;
            Some(version.strategy.scale().map(|scale| scale.spec_replicas.clone()).unwrap_or_default())
        };
        let own = resource.api_version();
        let paths = ReplicasPaths { api_version: &own, path: &path };
        let managed_fields = old.at(&["metadata", "managedFields"]);
        let style = scale::shape().style();
        let mut before = scale::patchable_value(target, old)?;
        attach(&mut before, field_manager::to_scale(&paths, managed_fields), style);
        let now = format_time(self.clock().now());
        let kind = Kind {
            api_version: SCALE.to_owned(),
            kind: "Scale".to_owned(),
            ty: TypeHandle::BuiltIn(field_manager::built_in(
                KubernetesVersion::default(),
                "autoscaling",
                "v1",
                "Scale",
            )),
            reset: Set::default(),
            subresource: "scale",
            empty: empty(&scale::shape(), ""),
            is_evolving: false,
            keeps_managers: self.keeps_managers(),
            other: &|_| Ok(None),
        };
        let mut after = match edit(&before)? {
            Scaling::Given(mut after) => {
                field_manager::update(&kind, Some(&before), &mut after, &params.field_manager, &now, style);
                after
            }
            Scaling::Applied(application) => {
                let applier = Applier { manager: &params.field_manager, force: application.force, now: &now };
                let patch = &application.patch;
                let (after, managed) = field_manager::apply(&kind, Some(&before), patch, applier)?;
                let mut after = match after {
                    // The real server cannot convert a merged scale of a custom resource.
                    Some(_) if matches!(resource.shape, Shape::Custom(_)) => {
                        let why = format!("request to convert CR to an invalid group/version: {SCALE}");
                        return Err(not_converted(patch, &why));
                    }
                    Some(after) => to_shape(&scale::shape(), after, patch)?,
                    None => clone_without_managed_fields(&before),
                };
                meta::set_namespace(target, &mut after)?;
                meta::check_name(target, &after)?;
                attach(&mut after, managed, style);
                after
            }
        };
        let of_scale = detach(&mut after);
        let mut object = scale::scaled(target, &clone_without_managed_fields(old), &after)?;
        let managed_fields = field_manager::from_scale(&paths, managed_fields, of_scale.as_ref());
        attach(&mut object, managed_fields, resource.shape.style());
        Ok(object)
    }

    /// Passes the field manager's view of the target to `compute`. `whole`: an empty object may be needed.
    fn with_kind<T>(
        &self,
        target: &Target,
        whole: bool,
        conversions: &Conversions,
        compute: impl FnOnce(&Kind<'_>) -> T,
    ) -> T {
        let resource = &target.resource;
        let subresource = target.subresource.as_deref().unwrap_or_default();
        let other = |api_version: &str| {
            let Some(version) = self.version_of(resource, api_version) else { return unknown(resource, api_version) };
            let convert = |from: &Arc<ResourceInfo>, to: &Arc<ResourceInfo>| {
                let (from, to, conversions) = (Arc::clone(from), Arc::clone(to), conversions.clone());
                Box::new(move |object: Value| to.convert_from(&from, object, &conversions))
            };
            Ok(Some(Version {
                ty: type_of(&version.shape),
                reset: version.strategy.rules().resets.fields(subresource),
                is_fallible: resource.is_translated(),
                convert: convert(resource, &version),
                back: convert(&version, resource),
            }))
        };
        compute(&Kind {
            api_version: resource.api_version(),
            kind: resource.kind.clone(),
            ty: type_of(&resource.shape),
            reset: resource.strategy.rules().resets.fields(subresource),
            subresource,
            empty: if whole { empty_of(resource) } else { Value::Null },
            is_evolving: is_evolving(resource),
            keeps_managers: self.keeps_managers(),
            other: &other,
        })
    }

    /// Reports whether updates keep the managedFields that they cannot compute.
    fn keeps_managers(&self) -> bool {
        self.resources().kubernetes() >= KubernetesVersion::V1_37
    }

    /// Finds another version of a resource, served or not.
    fn version_of(&self, resource: &ResourceInfo, api_version: &str) -> Option<Arc<ResourceInfo>> {
        let resources = self.resources();
        let unserved = resource.conversion.iter().flat_map(|conversion| &*conversion.unserved);
        let mut versions = resources.all().iter().chain(unserved);
        versions.find(|other| is_version(resource, other, api_version)).cloned()
    }
}

/// The result of a change of a scale.
pub(super) enum Scaling<'a> {
    Given(Value),
    Applied(&'a Application),
}

/// Reports whether `other` is this version of `resource`. The same objects under another group do not count as a
/// version.
fn is_version(resource: &ResourceInfo, other: &ResourceInfo, api_version: &str) -> bool {
    other.prefix == resource.prefix && other.group == resource.group && other.api_version() == api_version
}

/// Returns the real server's error for a custom resource without such a version. For built-in kinds that is not an
/// error.
fn unknown(resource: &ResourceInfo, api_version: &str) -> Result<Option<Version>, Status> {
    if matches!(resource.shape, Shape::BuiltIn(_)) {
        return Ok(None);
    }
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    Err(Status::unclassified(if group.contains('/') {
        format!("unexpected GroupVersion string: {api_version}")
    } else if group == resource.group {
        format!("request to convert CR to an invalid group/version: {api_version}")
    } else {
        let own = field_manager::shown_kind(&resource.api_version(), &resource.kind);
        format!("{own} is unstructured and is not suitable for converting to {}", codec::go_quote(api_version))
    }))
}

/// Reports whether the types may have changed since managedFields were written, as those of a changed CRD may.
fn is_evolving(resource: &ResourceInfo) -> bool {
    resource.conversion.is_some() && matches!(resource.shape, Shape::Custom(_))
}

pub(crate) fn type_of(shape: &Shape) -> TypeHandle {
    match shape {
        Shape::BuiltIn(plan) => {
            TypeHandle::BuiltIn(field_manager::built_in(plan.kubernetes, &plan.group, &plan.version, &plan.kind))
        }
        Shape::Custom(shape) => TypeHandle::Custom(shape.merge_type()),
    }
}

fn empty_of(resource: &ResourceInfo) -> Value {
    match &resource.shape {
        Shape::BuiltIn(_) => empty(&resource.shape, ""),
        Shape::Custom(_) => json!({"apiVersion": resource.api_version(), "kind": resource.kind}),
    }
}

/// Returns Go's zero value of a kind.
fn empty(shape: &Shape, kind: &str) -> Value {
    match shape.normalize(json!({}), FieldValidation::Ignore) {
        Ok(decoded) => decoded.value,
        Err(_) => json!({"kind": kind}),
    }
}

/// Converts a merged object to the form of its kind.
fn to_shape(shape: &Shape, object: Value, patch: &Value) -> Result<Value, Status> {
    match shape {
        Shape::Custom(shape) => shape.arrange(object),
        Shape::BuiltIn(plan) => {
            let converted = plan.convert(&object, FieldValidation::Ignore).map_err(|why| {
                not_converted(patch, &format!("unable to convert unstructured object to {}: {why}", kind_of(patch)))
            })?;
            Ok(converted.value)
        }
    }
}

/// Returns the error for a merged object that is not a valid object of its kind.
fn not_converted(patch: &Value, why: &str) -> Status {
    let (namespace, name) = (patch.text(&["metadata", "namespace"]), patch.text(&["metadata", "name"]));
    Status::unclassified(format!(
        "failed to convert new object ({namespace}/{name}; {}) to proper version: {why}",
        kind_of(patch)
    ))
}

fn kind_of(patch: &Value) -> String {
    field_manager::shown_kind(patch.text(&["apiVersion"]), patch.text(&["kind"]))
}

/// Reports whether the text of a patch might mention managedFields.
pub(super) fn mentions_managers(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    text.contains("managedFields") || text.contains("\\u")
}

/// Reports whether a body that was decoded without managedFields asks to clear them. Go distinguishes an empty list
/// from a missing one.
pub(super) fn asks_for_reset(bytes: &[u8], format: codec::Format) -> bool {
    if !mentions_managers(bytes) {
        return false;
    }
    let tree = match format {
        codec::Format::Json => serde_json::from_slice(bytes).ok(),
        codec::Format::Yaml => codec::decode_applied(bytes).ok().map(|decoded| decoded.value),
        codec::Format::Cbor => codec::from_cbor(bytes).ok().and_then(|json| serde_json::from_slice(&json).ok()),
        codec::Format::Protobuf => None,
    };
    tree.is_some_and(|tree: Value| tree.at(&["metadata", "managedFields"]).is_some_and(is_reset))
}

/// Marks an object whose managedFields are to be cleared.
pub(super) fn mark_reset(object: &mut Value) {
    crate::object::metadata_mut(object).insert("managedFields".to_owned(), json!([{}]));
}
