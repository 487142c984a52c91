//! A registry of Rust types by kind, to decode objects whose kind is known only at run time.
//!
//! A [`Scheme`] registers types by group, version and kind. It decodes objects by their `apiVersion` and `kind`, sets
//! defaults, converts between versions, and determines the preferred version of a group. There is no global registry
//! and no automatic registration: a program creates the scheme that it needs.
//!
//! ```
//! use windlass_api::{Scheme, Strictness};
//! # use windlass_api::k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
//!
//! let mut scheme = Scheme::new();
//! scheme.register::<Pod>()?;
//! scheme.register::<Deployment>()?;
//! let decoded = scheme.decode(br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}"#, Strictness::Strict)?;
//! assert_eq!(decoded.kind.to_string(), "/v1, Kind=Pod");
//! let pod: &Pod = decoded.object.downcast_ref().unwrap();
//! assert_eq!(pod.metadata.name.as_deref(), Some("p"));
//! # Ok::<_, windlass_api::SchemeError>(())
//! ```

mod any_object;
mod strict;

use std::{
    any::{TypeId, type_name},
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

use serde::Deserialize;
use thiserror::Error;

pub use any_object::AnyObject;

use crate::{ApiVersion, BoxError, GroupVersion, GroupVersionKind, Object, Resource, TypeMeta};

/// A registry of types by group, version and kind. Wrap the complete scheme in an `Arc` to share it.
#[derive(Clone, Default)]
pub struct Scheme {
    kinds: BTreeMap<GroupVersionKind, Entry>,
    /// The conversions, by source and target type.
    conversions: HashMap<(TypeId, TypeId), Conversion>,
    /// The defaulting functions by type, in the order in which they were added.
    defaults: HashMap<TypeId, Vec<Default_>>,
    /// The versions by group, the preferred version first.
    priorities: BTreeMap<Cow<'static, str>, Vec<Cow<'static, str>>>,
}

/// The treatment of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// Unknown fields are dropped. Of duplicate fields, the last one counts, if the type allows duplicates at all.
    #[default]
    Lenient,
    /// Unknown and duplicate fields are an error, which lists all of them.
    Strict,
}

/// A decoded object with its kind.
#[derive(Debug)]
pub struct DecodedObject {
    /// The group, version and kind.
    pub kind: GroupVersionKind,
    /// The object, of the type that is registered for the kind.
    pub object: Box<dyn AnyObject>,
}

/// The error of an operation of a scheme.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SchemeError {
    /// The kind is already registered with another type.
    #[error("{kind} is already registered as {registered} and cannot be registered as {refused}")]
    Taken {
        /// The kind.
        kind: GroupVersionKind,
        /// The registered type.
        registered: &'static str,
        /// The rejected type.
        refused: &'static str,
    },
    /// The kind has no version, or has the reserved version of internal types.
    #[error("{kind} has no version that can be registered")]
    Version {
        /// The kind.
        kind: GroupVersionKind,
    },
    /// The kind is not registered.
    #[error("no type is registered for {kind}")]
    UnknownKind {
        /// The kind.
        kind: GroupVersionKind,
    },
    /// The object lacks `apiVersion` or `kind`.
    #[error("the object has no {field}")]
    NoType {
        /// The missing field: `apiVersion` or `kind`.
        field: &'static str,
    },
    /// The object does not match its kind, or is not valid JSON.
    #[error("{what} cannot be decoded")]
    Decode {
        /// The kind, as far as it is known.
        what: String,
        /// The cause.
        source: serde_json::Error,
    },
    /// The object contains unknown or duplicate fields. The message is Go's.
    #[error("strict decoding error: {}", fields.join(", "))]
    Strict {
        /// The fields, each as `unknown field "spec.x"` or `duplicate field "spec.x"`.
        fields: Vec<String>,
    },
    /// No conversion is registered.
    #[error("there is no conversion from {from} to {to}")]
    NoConversion {
        /// The source type or kind.
        from: String,
        /// The target type or kind.
        to: String,
    },
    /// A conversion failed.
    #[error("converting {from} to {to}")]
    Conversion {
        /// The source type.
        from: &'static str,
        /// The target type.
        to: &'static str,
        /// The cause.
        source: BoxError,
    },
}

#[derive(Clone, Copy)]
struct Entry {
    type_id: TypeId,
    type_name: &'static str,
    decode: fn(&[u8], Strictness) -> serde_json::Result<(Box<dyn AnyObject>, Vec<String>)>,
}

#[derive(Clone)]
struct Conversion {
    from: &'static str,
    to: &'static str,
    convert: Arc<dyn Fn(&dyn AnyObject) -> Result<Box<dyn AnyObject>, BoxError> + Send + Sync>,
}

/// A function that sets the defaults of objects of one type.
type Default_ = Arc<dyn Fn(&mut dyn AnyObject) + Send + Sync>;

/// The version that Go programs use for internal types.
const INTERNAL: &str = "__internal";

type Result<T, E = SchemeError> = std::result::Result<T, E>;

// === Registration ===

impl Scheme {
    /// Creates a scheme without types.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a type for its kind. Registering a type twice is not an error.
    pub fn register<K: Resource>(&mut self) -> Result<&mut Self> {
        self.register_as::<K>(K::api_resource().gvk())
    }

    /// Registers a type for a kind. A type may have several kinds.
    pub fn register_as<K: Object>(&mut self, kind: GroupVersionKind) -> Result<&mut Self> {
        if kind.version.is_empty() || kind.version == INTERNAL {
            return Err(SchemeError::Version { kind });
        }
        let entry = Entry { type_id: TypeId::of::<K>(), type_name: type_name::<K>(), decode: strict::decode::<K> };
        let registered = *self.kinds.entry(kind.clone()).or_insert(entry);
        if registered.type_id == entry.type_id {
            return Ok(self);
        }
        Err(SchemeError::Taken { kind, registered: registered.type_name, refused: entry.type_name })
    }

    /// Reports whether a type is registered for a kind.
    #[must_use]
    pub fn recognizes(&self, kind: &GroupVersionKind) -> bool {
        self.kinds.contains_key(kind)
    }

    /// Returns all kinds, ordered by group, version and name.
    pub fn kinds(&self) -> impl Iterator<Item = &GroupVersionKind> {
        self.kinds.keys()
    }

    /// Returns the kinds of a type.
    pub fn kinds_of<K: Object>(&self) -> impl Iterator<Item = &GroupVersionKind> {
        self.kinds_of_type(TypeId::of::<K>())
    }

    fn kinds_of_type(&self, type_id: TypeId) -> impl Iterator<Item = &GroupVersionKind> {
        self.kinds.iter().filter(move |(_, entry)| entry.type_id == type_id).map(|(kind, _)| kind)
    }

    // === Versions ===

    /// Sets the order of preference of a group's versions. Other versions follow in the order of Kubernetes.
    pub fn set_version_priority(
        &mut self,
        group: impl Into<Cow<'static, str>>,
        versions: impl IntoIterator<Item = impl Into<Cow<'static, str>>>,
    ) -> &mut Self {
        self.priorities.insert(group.into(), versions.into_iter().map(Into::into).collect());
        self
    }

    /// Returns the versions of a group, the preferred one first.
    #[must_use]
    pub fn prioritized_versions(&self, group: &str) -> Vec<GroupVersion> {
        let mut versions: Vec<&str> =
            self.kinds.keys().filter(|kind| kind.group == group).map(|kind| &*kind.version).collect();
        versions.sort_by_key(|version| std::cmp::Reverse(ApiVersion::new(version)));
        versions.dedup();
        let first = self.priorities.get(group).map(Vec::as_slice).unwrap_or_default();
        let rank = |version: &&str| first.iter().position(|known| known == version).unwrap_or(first.len());
        versions.sort_by_key(rank);
        versions.into_iter().map(|version| GroupVersion::new(group.to_owned(), version.to_owned())).collect()
    }

    // === Decoding ===

    /// Decodes an object as the type that is registered for its kind.
    pub fn decode(&self, json: &[u8], strictness: Strictness) -> Result<DecodedObject> {
        let failed = |what: String| |source| SchemeError::Decode { what, source };
        let types: Types = serde_json::from_slice(json).map_err(failed("the object".to_owned()))?;
        let api_version = types.api_version.filter(|version| !version.is_empty());
        let api_version = api_version.ok_or(SchemeError::NoType { field: "apiVersion" })?;
        let kind = types.kind.filter(|kind| !kind.is_empty()).ok_or(SchemeError::NoType { field: "kind" })?;
        let kind = TypeMeta { api_version, kind }.gvk();
        let entry = self.kinds.get(&kind).ok_or_else(|| SchemeError::UnknownKind { kind: kind.clone() })?;
        let (object, fields) = (entry.decode)(json, strictness).map_err(failed(kind.to_string()))?;
        if fields.is_empty() { Ok(DecodedObject { kind, object }) } else { Err(SchemeError::Strict { fields }) }
    }

    // === Defaults ===

    /// Adds a function that sets the defaults of objects of a type.
    pub fn add_default<K: Object>(&mut self, fill: impl Fn(&mut K) + Send + Sync + 'static) -> &mut Self {
        let fill: Default_ = Arc::new(move |object| {
            if let Some(object) = object.downcast_mut() {
                fill(object);
            }
        });
        self.defaults.entry(TypeId::of::<K>()).or_default().push(fill);
        self
    }

    /// Sets the defaults of an object with all functions of its type, in the order in which they were added.
    pub fn default_object(&self, object: &mut dyn AnyObject) {
        for fill in self.defaults.get(&object.type_id_of()).into_iter().flatten() {
            fill(object);
        }
    }

    // === Conversions ===

    /// Adds a conversion from one type to another. The reverse is a separate conversion.
    pub fn add_conversion<A: Object, B: Object, E: Into<BoxError>>(
        &mut self,
        convert: impl Fn(&A) -> Result<B, E> + Send + Sync + 'static,
    ) -> &mut Self {
        let (from, to) = (type_name::<A>(), type_name::<B>());
        let convert = Arc::new(move |object: &dyn AnyObject| {
            let object = object.downcast_ref().ok_or_else(|| BoxError::from(format!("the object is no {from}")))?;
            convert(object).map(|object: B| Box::new(object) as Box<dyn AnyObject>).map_err(Into::into)
        });
        self.conversions.insert((TypeId::of::<A>(), TypeId::of::<B>()), Conversion { from, to, convert });
        self
    }

    /// Converts an object to another type, with a direct conversion or with two conversions through a third type. The
    /// latter supports a hub version to and from which all versions are converted.
    pub fn convert<A: Object, B: Object>(&self, object: &A) -> Result<B> {
        let converted = self.convert_any(object, TypeId::of::<B>(), type_name::<B>())?;
        let no = || SchemeError::NoConversion { from: type_name::<A>().to_owned(), to: type_name::<B>().to_owned() };
        converted.downcast().map(|object| *object).map_err(|_| no())
    }

    /// Converts an object to the kind of the same name in another version.
    pub fn convert_to_version(&self, object: &dyn AnyObject, version: &GroupVersion) -> Result<DecodedObject> {
        let mut kinds = self.kinds_of_type(object.type_id_of());
        let target = kinds.find_map(|kind| self.kinds.get_key_value(&version.with_kind(kind.kind.clone())));
        let Some((kind, entry)) = target else {
            return Err(SchemeError::NoConversion { from: object.name_of_type().to_owned(), to: version.to_string() });
        };
        let object = self.convert_any(object, entry.type_id, entry.type_name)?;
        Ok(DecodedObject { kind: kind.clone(), object })
    }

    fn convert_any(&self, object: &dyn AnyObject, to: TypeId, name: &'static str) -> Result<Box<dyn AnyObject>> {
        let from = object.type_id_of();
        if from == to {
            return Ok(object.clone_boxed());
        }
        if let Some(direct) = self.conversions.get(&(from, to)) {
            return direct.apply(object);
        }
        let hubs = self.conversions.iter().filter(|((start, _), _)| *start == from);
        for ((_, hub), first) in hubs {
            if let Some(second) = self.conversions.get(&(*hub, to)) {
                return second.apply(&*first.apply(object)?);
            }
        }
        Err(SchemeError::NoConversion { from: object.name_of_type().to_owned(), to: name.to_owned() })
    }
}

impl Conversion {
    fn apply(&self, object: &dyn AnyObject) -> Result<Box<dyn AnyObject>> {
        let failed = |source| SchemeError::Conversion { from: self.from, to: self.to, source };
        (self.convert)(object).map_err(failed)
    }
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheme")
            .field("kinds", &self.kinds.len())
            .field("conversions", &self.conversions.len())
            .finish_non_exhaustive()
    }
}

/// The `apiVersion` and `kind` of an object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Types {
    api_version: Option<String>,
    kind: Option<String>,
}

#[cfg(test)]
mod tests;
