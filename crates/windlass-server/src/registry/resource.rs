//! What is served: resources, their subresources, and the table that finds them.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use serde_json::Value;
use windlass_api::{FieldValidation, GroupKind, GroupResource, Scope, Status};

use super::{Body, Conversion, Strategy};
use crate::{
    codec::{Decoded, Format, Plan},
    encoded::Style,
    field_manager::Type,
    table::CustomColumn,
};

/// One resource in one version.
#[derive(Debug)]
pub(crate) struct ResourceInfo {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    /// `PodList`
    pub(crate) list_kind: String,
    /// `pods`
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) scope: Scope,
    /// `get`, `list`, … in the order of discovery.
    pub(crate) verbs: Vec<String>,
    pub(crate) subresources: Vec<SubresourceInfo>,
    /// Of its keys in storage, with a slash at the end. Versions and views of the same objects share it.
    pub(crate) prefix: String,
    pub(crate) shape: Shape,
    pub(crate) strategy: Arc<dyn Strategy>,
    /// How this version differs from the one that is stored; none when it is the one.
    pub(crate) conversion: Option<Conversion>,
    /// Sent with every answer.
    pub(crate) deprecation: Option<String>,
}

/// A subresource of a [`ResourceInfo`].
#[derive(Clone, Debug)]
pub(crate) struct SubresourceInfo {
    /// `status`
    pub(crate) name: String,
    /// Of its kind.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) verbs: Vec<String>,
}

/// How bodies of a kind are read.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// By the table of Go types.
    BuiltIn(&'static Plan),
    /// By a schema.
    Custom(Arc<dyn CustomShape>),
}

/// How bodies of a custom resource are read.
pub(crate) trait CustomShape: fmt::Debug + Send + Sync + 'static {
    /// Reads a request body: pruned, coerced, and in order, but not defaulted.
    fn decode(&self, body: &[u8], format: Format, validation: FieldValidation) -> Result<Decoded, Status>;

    /// Brings a tree into the form that decoding would give it.
    fn normalise(&self, value: Value, validation: FieldValidation) -> Result<Decoded, Status>;

    /// As [`Self::normalise`], for a tree that does not come from a body: what is unknown, and nulls that must not be there,
    /// stay, so that validation finds them and they count as a change.
    fn arrange(&self, value: Value) -> Result<Value, Status>;

    /// Drops what [`Self::arrange`] has left, which storage does not keep.
    fn prune(&self, value: &mut Value);

    /// The version that storage holds.
    fn storage_version(&self) -> &str;

    /// The schema of this version, as the definition has it.
    fn schema(&self) -> &Value;
    /// The fields that selectors may name.
    fn selectable(&self) -> &[String];

    /// What merging has to know of this version.
    fn merge_type(&self) -> Arc<Type>;

    /// The columns that the definition adds to tables.
    fn columns(&self) -> &[CustomColumn];

    /// Whether the definition is being deleted.
    fn is_terminating(&self) -> bool {
        false
    }
}

/// All resources that are served, in the order of discovery.
#[derive(Debug, Default)]
pub(crate) struct ResourceTable {
    resources: Vec<Arc<ResourceInfo>>,
    /// What aggregated discovery says of the core group, and of the others.
    documents: [OnceLock<TaggedBody>; 2],
}

/// A document, and the tag by which clients know that they have it.
#[derive(Debug)]
pub(crate) struct TaggedBody {
    pub(crate) body: Vec<u8>,
    /// Quoted.
    pub(crate) etag: String,
}

// === impl ResourceInfo ===

impl ResourceInfo {
    /// Group and plural name, for messages.
    pub(crate) fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.clone(), self.plural.clone())
    }

    /// Group and kind, for messages: those of the hub.
    pub(crate) fn group_kind(&self) -> GroupKind {
        let group = match self.hub_shape() {
            Shape::BuiltIn(plan) => plan.group.clone(),
            Shape::Custom(_) => self.group.clone(),
        };
        GroupKind::new(group, self.kind.clone())
    }

    /// `apps/v1`
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The subresource of that name.
    pub(crate) fn subresource(&self, name: &str) -> Option<&SubresourceInfo> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Whether the resource has the verb.
    pub(crate) fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|own| own == verb)
    }

    /// Whether its objects live in namespaces.
    pub(crate) fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }
}

// === impl Shape ===

impl Shape {
    /// How encodings look.
    pub(crate) fn style(&self) -> Style {
        match self {
            Self::BuiltIn(_) => Style::BuiltIn,
            Self::Custom(_) => Style::Custom,
        }
    }

    /// Reads a body.
    pub(crate) fn decode(&self, body: &Body, validation: FieldValidation) -> Result<Decoded, Status> {
        match body {
            Body::Encoded { bytes, format } => self.decode_bytes(bytes, *format, validation),
            Body::Value(value) => self.normalise(value.clone(), validation),
        }
    }

    /// Brings a tree into the form that decoding would give it.
    pub(crate) fn normalise(&self, value: Value, validation: FieldValidation) -> Result<Decoded, Status> {
        match self {
            Self::BuiltIn(plan) => plan.normalise(value, validation).map_err(Status::internal),
            Self::Custom(shape) => shape.normalise(value, validation),
        }
    }

    /// Brings a tree into the form in which it is stored.
    pub(super) fn normalise_stored(&self, value: Value) -> Result<Value, Status> {
        match self {
            Self::BuiltIn(plan) => plan.normalise_stored(value).map_err(Status::internal),
            Self::Custom(shape) => shape.arrange(value),
        }
    }

    fn decode_bytes(&self, bytes: &Bytes, format: Format, validation: FieldValidation) -> Result<Decoded, Status> {
        match self {
            Self::BuiltIn(plan) => Ok(plan.decode(bytes, format, validation)?),
            Self::Custom(shape) => shape.decode(bytes, format, validation),
        }
    }
}

// === impl ResourceTable ===

impl ResourceTable {
    /// A table of these resources, in this order.
    pub(crate) fn new(resources: Vec<Arc<ResourceInfo>>) -> Self {
        Self { resources, documents: Default::default() }
    }

    /// What aggregated discovery says of this table: made by the first who asks.
    pub(crate) fn aggregated(&self, core: bool, make: impl FnOnce() -> TaggedBody) -> &TaggedBody {
        self.documents[usize::from(core)].get_or_init(make)
    }

    /// The resource at a path.
    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ResourceInfo>> {
        // A few hundred comparisons at most, and most of them end at the first byte.
        let is_it = |resource: &&Arc<ResourceInfo>| {
            resource.plural == plural && resource.group == group && resource.version == version
        };
        self.resources.iter().find(is_it)
    }

    /// All resources.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ResourceInfo> {
        self.resources.iter().map(|resource| &**resource)
    }

    /// All resources, to be kept.
    pub(crate) fn all(&self) -> &[Arc<ResourceInfo>] {
        &self.resources
    }

    /// Whether anything of this group and version is served.
    pub(crate) fn has_version(&self, group: &str, version: &str) -> bool {
        self.iter().any(|resource| resource.group == group && resource.version == version)
    }
}
