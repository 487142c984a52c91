//! API machinery of Windlass: the types of the Kubernetes API and their rules.
//!
//! This crate does no I/O and needs no async runtime. It contains the identity of kinds, the shape of objects, the
//! options of requests, and the responses of a server. [`ListWatch`] is the interface between the client and caches.
//!
//! The modules, from the entry points down. Each depends only on modules below it:
//!
//! ```text
//! scheme            decodes objects by their kind
//! list_watch        the interface between the client and caches
//! container_runtime the interface between a server and the containers of pods
//! list              lists of objects
//! apply             the bodies of server-side applies
//! managed_fields    `metadata.managedFields` for clients
//! jsonpath          JSONPath expressions and templates
//! predicates        states of built-in objects to wait for
//! semantic          equality of objects by their meaning
//! patch             JSON patch, merge patch and strategic merge patch
//! nested            access to fields by path
//! dynamic           objects of kinds that are known only at run time
//! crd               schemas of types, and CustomResourceDefinitions
//! builder           creates objects with metadata
//! object            the traits of objects and resources
//! status            the `Status` of a failed request
//! oversize          objects above a size limit
//! list_meta         the metadata of lists
//! event_type        the types of watch events
//! selector          label and field selectors
//! options           the options of requests
//! json              decodes JSON from API servers
//! skipper           finds the end of a JSON value
//! schema            the merge and comparison rules of the built-in kinds
//! rbac              rules of roles
//! openapi           the recorded schemas of the built-in kinds
//! meta              the metadata of an encoded object
//! content_hash      hashes of objects
//! difference        the differences of two JSON values
//! condition         conditions in the status of objects
//! quota             the usage that resource quotas count
//! quantity          quantities, such as `500m`
//! int_or_string     numbers or percentages
//! version           API versions and their stability
//! validation        the rules for names and labels
//! uid               UIDs of objects
//! type_meta         the API version and kind of an object
//! resource_version  resource versions and their order
//! object_ref        namespaces and names of objects
//! gvk               groups, versions, kinds and resources
//! time              times in the API's format
//! schedule          cron schedules
//! error_chain       an error with its causes as one line
//! duration          durations in Go's format
//! clock             the wall clock; tests replace it
//! cel_name          field names in CEL
//! backoff           delays between retries
//! entropy           random numbers; tests seed them
//! ```
//!
//! The built-in types come from `k8s-openapi` (the default feature of the same name). [`Object`] and [`Resource`] are
//! implemented for each of them, and for every custom type that implements k8s-openapi's two traits.

#[cfg(feature = "k8s-openapi")]
mod scheme;
mod list_watch;
mod container_runtime;
#[cfg(feature = "k8s-openapi")]
mod list;
#[cfg(feature = "k8s-openapi")]
pub mod apply;
#[cfg(feature = "k8s-openapi")]
pub mod managed_fields;
mod jsonpath;
#[cfg(feature = "k8s-openapi")]
pub mod predicates;
mod semantic;
pub mod patch;
mod nested;
#[cfg(feature = "k8s-openapi")]
mod dynamic;
#[cfg(feature = "k8s-openapi")]
pub mod crd;
#[cfg(feature = "k8s-openapi")]
mod builder;
#[cfg(feature = "k8s-openapi")]
mod object;
mod status;
mod oversize;
mod list_meta;
mod event_type;
mod selector;
mod options;
mod json;
mod skipper;
#[cfg(feature = "schema")]
pub mod schema;
pub mod rbac;
#[cfg(any(feature = "k8s-openapi", feature = "schema"))]
pub mod openapi;
mod meta;
mod content_hash;
pub mod difference;
#[cfg(feature = "k8s-openapi")]
mod condition;
pub mod quota;
mod quantity;
#[cfg(feature = "k8s-openapi")]
mod int_or_string;
mod version;
pub mod validation;
mod uid;
#[cfg(feature = "k8s-openapi")]
mod type_meta;
mod resource_version;
mod object_ref;
mod gvk;
mod time;
mod schedule;
mod error_chain;
mod duration;
mod clock;
mod cel_name;
mod backoff;
mod entropy;

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
pub use apply::ApplyConfiguration;
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

pub use container_runtime::{CommandResult, ContainerId, ContainerLog, ContainerRuntime};
pub use event_type::EventType;
pub use list_meta::{ListMeta, ShardInfo};
pub use list_watch::{BoxError, ListItem, ListWatch, ListWatchError, RawEvent};
pub use oversize::{Oversize, Place};
pub use status::{Cause, Status, StatusDetails, reason};

/// The version of k8s-openapi for whose types this crate implements its traits.
#[cfg(feature = "k8s-openapi")]
pub use k8s_openapi;

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
