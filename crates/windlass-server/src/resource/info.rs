//! The served resources, their subresources, and the table that finds them.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use windlass_api::{FieldValidation, GroupKind, GroupResource, Scope, Status};

use super::{Body, Conversion, CustomColumn, Strategy};
use crate::{
    codec::{Decoded, Format, Plan},
    encoded::Style,
    field_manager::Type,
    kubernetes::KubernetesVersion,
};

/// One version of a resource.
#[derive(Debug)]
pub(crate) struct ResourceInfo {
    /// The API group; empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    /// The kind of a list, such as `PodList`.
    pub(crate) list_kind: String,
    /// The plural name, such as `pods`.
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) scope: Scope,
    /// The verbs, such as `get` and `list`, in the order of discovery.
    pub(crate) verbs: Vec<String>,
    pub(crate) subresources: Vec<SubresourceInfo>,
    /// The prefix of the keys in storage, with a trailing slash. Versions and views of the same objects share it.
    pub(crate) prefix: String,
    pub(crate) shape: Shape,
    pub(crate) strategy: Arc<dyn Strategy>,
    /// The conversion from the stored version; `None` if this is the stored version.
    pub(crate) conversion: Option<Conversion>,
    /// The deprecation warning that is sent with every response.
    pub(crate) deprecation: Option<String>,
}

/// A subresource of a [`ResourceInfo`].
#[derive(Clone, Debug)]
pub(crate) struct SubresourceInfo {
    /// The name, such as `status`.
    pub(crate) name: String,
    /// The group of the subresource's kind.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) verbs: Vec<String>,
}

/// The decoder of a kind's bodies.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// A built-in kind, decoded by the table of Go types.
    BuiltIn(&'static Plan),
    /// A custom resource, decoded by its schema.
    Custom(Arc<dyn CustomShape>),
}

/// The decoder of a custom resource's bodies.
pub(crate) trait CustomShape: fmt::Debug + Send + Sync + 'static {
    /// Decodes a request body: prunes, coerces and orders it, but does not apply defaults.
    fn decode(&self, body: &[u8], format: Format, validation: FieldValidation) -> Result<Decoded, Status>;

    /// Brings a tree into the form of a decoded body.
    fn normalize(&self, value: Value, validation: FieldValidation) -> Result<Decoded, Status>;

    /// Like [`Self::normalize`], for a tree that is not a request body. Unknown fields and invalid nulls stay, so that
    /// validation finds them and they count as a change.
    fn arrange(&self, value: Value) -> Result<Value, Status>;

    /// Removes the fields that [`Self::arrange`] has left and storage does not keep.
    fn prune(&self, value: &mut Value);

    /// Returns the version in which objects are stored.
    fn storage_version(&self) -> &str;

    /// Returns the schema of this version, as written in the CustomResourceDefinition.
    fn schema(&self) -> &Value;
    /// Returns the selectable fields.
    fn selectable(&self) -> &[String];

    /// Returns the type of this version for merging.
    fn merge_type(&self) -> Arc<Type>;

    /// Returns the printer columns of the CustomResourceDefinition.
    fn columns(&self) -> &[CustomColumn];

    /// Reports whether the CustomResourceDefinition is being deleted.
    fn is_terminating(&self) -> bool {
        false
    }
}

/// All served resources, in the order of discovery.
#[derive(Debug, Default)]
pub(crate) struct ResourceTable {
    kubernetes: KubernetesVersion,
    resources: Vec<Arc<ResourceInfo>>,
    /// The aggregated discovery documents of the core group and of the other groups.
    documents: [OnceLock<TaggedBody>; 2],
    /// The same documents with the group versions of other servers, and the generation of those.
    merged: [Mutex<Option<(u64, TaggedBody)>>; 2],
}

/// A document with its entity tag.
#[derive(Clone, Debug)]
pub(crate) struct TaggedBody {
    pub(crate) body: Vec<u8>,
    /// The entity tag, with quotes.
    pub(crate) etag: String,
}

// === impl ResourceInfo ===

impl ResourceInfo {
    /// Returns the group and plural name, for messages.
    pub(crate) fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.clone(), self.plural.clone())
    }

    /// Returns the group and kind of the hub version, for messages.
    pub(crate) fn group_kind(&self) -> GroupKind {
        let group = match self.hub_shape() {
            Shape::BuiltIn(plan) => plan.group.clone(),
            Shape::Custom(_) => self.group.clone(),
        };
        GroupKind::new(group, self.kind.clone())
    }

    /// Returns the apiVersion, such as `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the subresource with this name.
    pub(crate) fn subresource(&self, name: &str) -> Option<&SubresourceInfo> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Reports whether the resource supports the verb.
    pub(crate) fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|own| own == verb)
    }

    /// Reports whether the resource is namespaced.
    pub(crate) fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }
}

// === impl Shape ===

impl Shape {
    /// Returns the Kubernetes version of the kind's types. Custom resources use only types that are equal in all versions.
    pub(crate) fn kubernetes(&self) -> KubernetesVersion {
        match self {
            Self::BuiltIn(plan) => plan.kubernetes,
            Self::Custom(_) => KubernetesVersion::default(),
        }
    }

    /// Returns the style of encoded objects.
    pub(crate) fn style(&self) -> Style {
        match self {
            Self::BuiltIn(_) => Style::BuiltIn,
            Self::Custom(_) => Style::Custom,
        }
    }

    /// Decodes a body.
    pub(crate) fn decode(&self, body: &Body, validation: FieldValidation) -> Result<Decoded, Status> {
        match body {
            Body::Encoded { bytes, format } => self.decode_bytes(bytes, *format, validation),
            Body::Value(value) => self.normalize(value.clone(), validation),
        }
    }

    /// Brings a tree into the form of a decoded body.
    pub(crate) fn normalize(&self, value: Value, validation: FieldValidation) -> Result<Decoded, Status> {
        match self {
            Self::BuiltIn(plan) => plan.normalize(value, validation).map_err(Status::internal),
            Self::Custom(shape) => shape.normalize(value, validation),
        }
    }

    /// Brings a tree into the form in which it is stored.
    pub(crate) fn normalize_stored(&self, value: Value) -> Result<Value, Status> {
        match self {
            Self::BuiltIn(plan) => plan.normalize_stored(value).map_err(Status::internal),
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
    /// Creates a table of these resources, in this order. The built-in ones are those of a Kubernetes version.
    pub(crate) fn new(kubernetes: KubernetesVersion, resources: Vec<Arc<ResourceInfo>>) -> Self {
        Self { kubernetes, resources, documents: Default::default(), merged: Default::default() }
    }

    /// Returns the Kubernetes version of the built-in resources.
    pub(crate) const fn kubernetes(&self) -> KubernetesVersion {
        self.kubernetes
    }

    /// Returns the aggregated discovery document. `make` builds it on first use.
    pub(crate) fn aggregated(&self, core: bool, make: impl FnOnce() -> TaggedBody) -> &TaggedBody {
        self.documents[usize::from(core)].get_or_init(make)
    }

    /// Returns the aggregated discovery document with the group versions of other servers, in this generation. `make`
    /// builds it if the last one was for another generation.
    pub(crate) fn merged(&self, core: bool, generation: u64, make: impl FnOnce() -> TaggedBody) -> TaggedBody {
        let mut merged = self.merged[usize::from(core)].lock();
        match &*merged {
            Some((known, body)) if *known == generation => body.clone(),
            _ => merged.insert((generation, make())).1.clone(),
        }
    }

    /// Returns the resource with this group, version and plural name.
    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ResourceInfo>> {
        // A linear search: a few hundred comparisons at most, and most of them end at the first byte.
        let is_it = |resource: &&Arc<ResourceInfo>| {
            resource.plural == plural && resource.group == group && resource.version == version
        };
        self.resources.iter().find(is_it)
    }

    /// Iterates over all resources.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ResourceInfo> {
        self.resources.iter().map(|resource| &**resource)
    }

    /// Returns all resources as shared references.
    pub(crate) fn all(&self) -> &[Arc<ResourceInfo>] {
        &self.resources
    }

    /// Reports whether a resource of this group and version is served.
    pub(crate) fn has_version(&self, group: &str, version: &str) -> bool {
        self.iter().any(|resource| resource.group == group && resource.version == version)
    }
}
