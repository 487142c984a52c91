//! The view that webhooks and policies have of a write: its objects in a version, and the attributes of the request.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_api::{DryRun, FieldValidation, Status};

use crate::{
    codec,
    object::{Tree, metadata_mut},
    registry::{Attributes, Operation, SubresourceKind},
    resource::{ResourceInfo, Shape},
};

/// A view of a write, in the version of the resource that a rule names.
#[derive(Clone, Debug)]
pub(super) struct Invocation {
    pub(super) resource: Arc<ResourceInfo>,
}

impl Invocation {
    /// Returns an object of a write in this version. Null if there is no such object.
    pub(super) async fn object(&self, write: &Attributes, hub: &Value) -> Result<Value, Status> {
        if hub.is_null() {
            return Ok(Value::Null);
        }
        if let Some(part) = &write.subresource_kind {
            return Ok(part.with_type_meta(hub));
        }
        let ResourceInfo { group, version, kind, .. } = &*self.resource;
        let object = self.resource.hub_to_requested(&self.resource.convert_to_own_hub(hub.clone()).await?).into_owned();
        Ok(set_type_meta(object, group, version, kind))
    }

    /// Replaces the object of a write by a changed one in this version. Returns `true` if it differs from `before`.
    pub(super) async fn replace(
        &self,
        write: &mut Attributes,
        changed: Value,
        before: &Value,
        validation: FieldValidation,
    ) -> Result<bool, Status> {
        if let Some(part) = &write.subresource_kind {
            let object = part.shape()?.normalize(changed, validation)?.value;
            let changed = part.with_type_meta(&object) != *before;
            write.object = object;
            return Ok(changed);
        }
        let resource = &self.resource;
        let managed_fields = write.object.at(&["metadata", "managedFields"]).cloned();
        let decoded = resource.shape.normalize(changed, validation)?;
        let mut object = resource.to_hub(decoded.value);
        resource.strategy.default(&mut object);
        let mut object = write.resource.convert_to_own_hub(object).await?;
        if let Some(managed_fields) = managed_fields {
            metadata_mut(&mut object).insert("managedFields".to_owned(), managed_fields);
        }
        let changed = self.object(write, &object).await? != *before;
        write.object = object;
        Ok(changed)
    }

    /// Returns the attributes of the request, without the objects.
    pub(super) fn request(&self, write: &Attributes) -> Value {
        let (mut kind, resource) = self.resource.to_review_value();
        let (mut request_kind, request_resource) = write.resource.to_review_value();
        if let Some(part) = &write.subresource_kind {
            kind = part.to_review_value();
            request_kind = part.to_review_value();
        }
        let mut request = json!({
            "kind": kind, "resource": resource, "requestKind": request_kind, "requestResource": request_resource,
            "operation": write.operation.name(), "userInfo": user_info(write),
            "dryRun": write.is_dry_run(), "options": options(write),
        });
        let subresource = write.subresource.as_deref().unwrap_or_default();
        let texts = [
            ("name", &*write.name),
            ("namespace", write.review_namespace()),
            ("subResource", subresource),
            ("requestSubResource", subresource),
        ];
        for (field, text) in texts {
            if !text.is_empty() {
                request[field] = text.into();
            }
        }
        request
    }
}

/// Returns the user of a write as reviews name it.
pub(super) fn user_info(write: &Attributes) -> Value {
    let user = &write.context.user;
    let mut user_info = json!({});
    for (field, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            user_info[field] = text.as_str().into();
        }
    }
    if !user.groups.is_empty() {
        user_info["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        user_info["extra"] = json!(user.extra);
    }
    user_info
}

/// Returns the options of a write as reviews name them.
pub(super) fn options(write: &Attributes) -> Value {
    let of_kind = |kind: &str| json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    let mut options = match write.operation {
        Operation::Create => of_kind("CreateOptions"),
        Operation::Update => of_kind("UpdateOptions"),
        Operation::Delete => of_kind("DeleteOptions"),
        Operation::Connect => Value::Null,
    };
    if write.is_dry_run() {
        options["dryRun"] = json!(["All"]);
    }
    let given = write.context.options.as_deref().and_then(Value::as_object);
    for (name, value) in given.into_iter().flatten() {
        options[name] = value.clone();
    }
    options
}

impl Operation {
    /// Returns the name of the operation in rules and reviews.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

impl Attributes {
    /// Returns the namespace for the review. A namespace object is reported as being in itself.
    pub(super) fn review_namespace(&self) -> &str {
        if self.is_namespace() { &self.name } else { &self.namespace }
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.context.dry_run == DryRun::All
    }
}

impl SubresourceKind {
    /// Returns the kind as reviews name it.
    pub(super) fn to_review_value(&self) -> Value {
        json!({"group": self.group, "version": self.version, "kind": self.kind})
    }

    /// Returns an object of this kind as webhooks see it.
    pub(super) fn with_type_meta(&self, object: &Value) -> Value {
        set_type_meta(object.clone(), &self.group, &self.version, &self.kind)
    }

    pub(super) fn shape(&self) -> Result<Shape, Status> {
        let plan = codec::plan(&self.group, &self.version, &self.kind);
        Ok(Shape::BuiltIn(plan.ok_or_else(Status::unknown_resource)?))
    }
}

/// Returns the object with its kind and API version set.
pub(super) fn set_type_meta(mut object: Value, group: &str, version: &str, kind: &str) -> Value {
    if let Some(fields) = object.as_object_mut() {
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        fields.insert("apiVersion".to_owned(), api_version.into());
        fields.insert("kind".to_owned(), kind.into());
    }
    object
}

impl ResourceInfo {
    /// Returns the kind and the resource as reviews name them.
    pub(super) fn to_review_value(&self) -> (Value, Value) {
        let Self { group, version, kind, plural, .. } = self;
        let kind = json!({"group": group, "version": version, "kind": kind});
        (kind, json!({"group": group, "version": version, "resource": plural}))
    }
}
