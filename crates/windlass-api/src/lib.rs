//! API machinery of Windlass: the types of the Kubernetes API and their rules.
//!
//! This crate does no I/O and needs no async runtime. It contains the identity of kinds, the shape of objects, the
//! options of requests, and the responses of a server. [`ListWatch`] is the interface between the client and caches.
//!
//! The built-in types come from `k8s-openapi` (the default feature of the same name). [`Object`] and [`Resource`] are
//! implemented for each of them, and for every custom type that implements k8s-openapi's two traits.

mod backoff;
mod cel_name;
mod clock;
mod duration;
mod entropy;
mod error_chain;
mod schedule;
mod time;

mod gvk;
mod object_ref;
mod resource_version;
#[cfg(feature = "k8s-openapi")]
mod type_meta;
mod uid;
pub mod validation;
mod version;

#[cfg(feature = "k8s-openapi")]
mod int_or_string;
mod quantity;

#[cfg(feature = "k8s-openapi")]
mod condition;
mod content_hash;
mod meta;
#[cfg(any(feature = "k8s-openapi", feature = "schema"))]
pub mod openapi;
pub mod rbac;
#[cfg(feature = "schema")]
pub mod schema;

mod json;
mod options;
mod selector;
mod skipper;

#[cfg(feature = "k8s-openapi")]
mod object;

#[cfg(feature = "k8s-openapi")]
mod builder;
#[cfg(feature = "k8s-openapi")]
pub mod crd;
#[cfg(feature = "k8s-openapi")]
mod dynamic;
mod nested;
pub mod patch;
#[cfg(feature = "k8s-openapi")]
pub mod predicates;
mod semantic;

mod jsonpath;
#[cfg(feature = "k8s-openapi")]
pub mod managed_fields;

mod event_type;
mod list_meta;
mod oversize;
mod status;

#[cfg(feature = "k8s-openapi")]
mod list;
mod list_watch;
#[cfg(feature = "k8s-openapi")]
mod scheme;

pub use backoff::{Backoff, Delays};
pub use cel_name::{RESERVED, escape, unescape};
pub use clock::Clock;
pub use duration::{DurationError, format_duration, parse_duration};
pub use entropy::Entropy;
pub use error_chain::ErrorChain;
pub use schedule::{Schedule, ScheduleError};
pub use time::{TimeError, format_micro_time, format_time, parse_time};

pub use gvk::{
    ApiResource, GroupKind, GroupResource, GroupVersion, GroupVersionError, GroupVersionKind, GroupVersionResource,
    Scope,
};
pub use object_ref::{ObjectKey, ObjectKeyError, ObjectRef};
pub use resource_version::{ResourceVersion, ResourceVersionError};
pub use uid::Uid;
pub use version::{ApiVersion, Stability};

#[cfg(feature = "k8s-openapi")]
pub use int_or_string::{IntOrPercent, PercentError, Rounding};
pub use quantity::{Quantity, QuantityError, QuantityFormat};

#[cfg(feature = "k8s-openapi")]
pub use condition::{Changed, ConditionStatus, Conditions, NewCondition};
pub use content_hash::ContentHash;
pub use semantic::Semantic;

#[cfg(feature = "k8s-openapi")]
pub use builder::ObjectBuilder;
/// The time library whose types the API, [`Schedule`] and [`Clock`] use.
pub use jiff;

#[cfg(feature = "k8s-openapi")]
pub use dynamic::{DynamicObject, PartialObject};
#[cfg(feature = "k8s-openapi")]
pub use list::ObjectList;
pub use meta::{Labels, Meta, MetaError, OwnerRef, Traits};
pub use nested::{JsonType, Nested, NestedError};
#[cfg(feature = "k8s-openapi")]
pub use object::{KnownScope, Object, ObjectExt, Resource};
#[cfg(feature = "k8s-openapi")]
pub use scheme::{AnyObject, DecodedObject, Scheme, SchemeError, Strictness};
pub use skipper::Skipper;
#[cfg(feature = "k8s-openapi")]
pub use type_meta::TypeMeta;

pub use json::from_json;
pub use jsonpath::{JsonPath, JsonPathError, JsonPathTemplate};
pub use options::{
    Bookmarks, Content, DeleteOptions, DryRun, FieldValidation, InitialEvents, ListOptions, PatchOptions,
    Preconditions, Propagation, VersionMatch, WatchOptions, WriteOptions,
};
pub use patch::{Patch, PatchKind};
pub use selector::{FieldRequirement, FieldSelector, LabelSelector, Operator, Requirement, SelectorError};

pub use event_type::EventType;
pub use list_meta::{ListMeta, ShardInfo};
pub use list_watch::{BoxError, ListItem, ListWatch, ListWatchError, RawEvent};
pub use oversize::{Oversize, Place};
pub use status::{Cause, Status, StatusDetails, reason};

/// The version of k8s-openapi for whose types this crate implements its traits.
#[cfg(feature = "k8s-openapi")]
pub use k8s_openapi;
