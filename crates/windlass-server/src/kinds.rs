//! The built-in kinds: one table of rules, and functions for rules that a table cannot express.
//!
//! A row specifies the storage prefix of a kind, its served subresources, and its deviations from most kinds. Names,
//! verbs and scopes come from the recorded discovery of a real server.

use std::sync::Arc;

use serde_json::Value;
use windlass_api::{Clock, Entropy};

pub(crate) use self::{
    core::ENFORCE_MOUNTABLE_SECRETS,
    pod_defaults::add_amounts,
    quantity::amount,
    scheduling::SYSTEM_CLASSES,
    selector::{label_selector, validate_count, validate_label},
};
use self::{
    service::ServiceCidr,
    strategy::{Allocator, BuiltIn},
};
pub(crate) use crate::kinds::admissionregistration::conditions;
use crate::{
    codec,
    discovery::catalog::{CatalogResource, catalog},
    identity::User,
    object::Errors,
    resource::{Conversion, Hub, Part, ResourceInfo, Rules, Shape, SubresourceInfo},
};

mod admissionregistration;
mod autoscaling;
mod certificates;
mod component_status;
mod core;
mod dynamic_resources;
mod endpoints;
mod event;
pub(crate) mod flowcontrol;
mod image;
mod jobs;
mod limits;
mod networking;
mod pod;
mod pod_defaults;
mod pod_parts;
mod pod_rules;
mod pod_warnings;
mod quantity;
mod rbac;
pub(crate) mod registration;
mod scheduling;
mod selector;
pub(crate) mod service;
mod storage;
mod strategy;
mod table;
mod volume_sources;
mod volumes;
mod workload;

#[cfg(test)]
mod tests;

/// The server's settings that built-in kinds depend on.
#[derive(Clone, Debug)]
pub(crate) struct KindOptions {
    /// The address range of services.
    pub(crate) service_cidr: ServiceCidr,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
}

/// A row of the table.
struct Kind {
    group: &'static str,
    version: &'static str,
    name: &'static str,
    prefix: &'static str,
    /// The served subresources, from those in the catalog.
    subresources: &'static [&'static str],
    rules: Rules,
    /// `true` if the kind has replicas to scale (`spec.replicas`) and a selector.
    scales: bool,
    default: fn(&mut Value),
    prepare_create: fn(&mut Value),
    prepare_update: fn(&mut Value, &Value),
    prepare_status: fn(&mut Value, &Value),
    prepare_part: fn(Part, &mut Value, &Value),
    /// Marks an object whose deletion begins.
    begin_deletion: fn(&mut Value, &str),
    /// The paths of fields of disabled features, which are dropped. `*` stands for each element of a list.
    off: &'static [&'static str],
    /// The location of the pod spec, as a JSON pointer.
    pods_at: Option<&'static str>,
    /// Records the user who creates the object in the object.
    sign: fn(&mut Value, &User),
    /// Records the time of a creation or of a status change, for kinds that store it; `old` is `None` for creations.
    stamp: Option<fn(&mut Value, Option<&Value>, &str)>,
    validate: fn(&Value, &mut Errors),
    validate_create: fn(&Value, &mut Errors),
    validate_update: fn(&Value, &Value, &mut Errors),
    validate_status: fn(&Value, &Value, &mut Errors),
    validate_part: fn(Part, &Value, &Value, &mut Errors),
    warnings: fn(&Value, Option<&Value>) -> Vec<String>,
    /// Returns the value of selectable fields that are not simply the text at their path.
    field: fn(&Value, &str) -> Option<String>,
    deprecation: Option<&'static str>,
    /// Creates the allocator of the addresses, ports and similar resources of the objects.
    allocator: Option<fn(&KindOptions) -> Arc<dyn Allocator>>,
    /// Returns the objects of a kind that is not stored.
    fixed: Option<fn() -> Vec<Value>>,
    /// The conversion from the stored version; `None` for the stored version itself.
    view: Option<View>,
}

/// A version that is converted from another one on reads. On writes it is converted back before validation.
struct View {
    /// The group and version of the stored objects.
    stored: (&'static str, &'static str),
    from_stored: fn(Value) -> Value,
    to_stored: fn(Value) -> Value,
}

const BASE: Kind = Kind {
    group: "",
    version: "v1",
    name: "",
    prefix: "",
    subresources: &[],
    rules: Rules::COMMON,
    scales: false,
    default: |_| {},
    prepare_create: |_| {},
    prepare_update: |_, _| {},
    prepare_status: |_, _| {},
    prepare_part: |_, _, _| {},
    begin_deletion: |_, _| {},
    off: &[],
    pods_at: None,
    sign: |_, _| {},
    stamp: None,
    validate: |_, _| {},
    validate_create: |_, _| {},
    validate_update: |_, _, _| {},
    validate_status: |_, _, _| {},
    validate_part: |_, _, _, _| {},
    warnings: |_, _| Vec::new(),
    field: |_, _| None,
    deprecation: None,
    allocator: None,
    fixed: None,
    view: None,
};

/// The tables of all kinds. A module for an API group provides the rows of that group.
static TABLES: &[&[Kind]] = &[
    table::KINDS,
    autoscaling::KINDS,
    component_status::KINDS,
    certificates::KINDS,
    dynamic_resources::KINDS,
    flowcontrol::KINDS,
    admissionregistration::KINDS,
    limits::KINDS,
    networking::KINDS,
    rbac::KINDS,
    registration::KINDS,
    scheduling::KINDS,
    storage::KINDS,
    volumes::KINDS,
];

/// Returns the served built-in resources, in the order of discovery.
pub(crate) fn built_ins(options: &KindOptions) -> Vec<Arc<ResourceInfo>> {
    catalog().iter().filter_map(|entry| resource(entry, options)).map(Arc::new).collect()
}

fn resource(entry: &CatalogResource, options: &KindOptions) -> Option<ResourceInfo> {
    let is_it = |kind: &&Kind| (kind.group, kind.version, kind.name) == (entry.group, entry.version, entry.kind);
    let kind = TABLES.iter().copied().flatten().find(is_it)?;
    let plan = codec::plan(entry.group, entry.version, entry.kind)?;
    let conversion = match &kind.view {
        None => None,
        Some(view) => Some(view.conversion(kind.name)?),
    };
    let own = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<String>>();
    let subresources = entry.subresources.iter().filter(|subresource| kind.subresources.contains(&subresource.name));
    let subresources = subresources.map(|subresource| {
        let (group, version) = subresource.other.unwrap_or((entry.group, entry.version));
        SubresourceInfo {
            name: subresource.name.to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
            kind: subresource.kind.to_owned(),
            verbs: own(&subresource.verbs),
        }
    });
    Some(ResourceInfo {
        group: entry.group.to_owned(),
        version: entry.version.to_owned(),
        kind: entry.kind.to_owned(),
        list_kind: format!("{}List", entry.kind),
        plural: entry.plural.to_owned(),
        singular: entry.singular.to_owned(),
        short_names: own(&entry.short_names),
        categories: own(&entry.categories),
        scope: entry.scope,
        verbs: own(&entry.verbs),
        subresources: subresources.collect(),
        prefix: kind.prefix.to_owned(),
        shape: Shape::BuiltIn(plan),
        strategy: Arc::new(BuiltIn::new(kind, options)),
        conversion,
        deprecation: kind.deprecation.map(str::to_owned),
    })
}

impl View {
    /// Returns the conversion; `None` if the stored version has no plan.
    fn conversion(&self, name: &str) -> Option<Conversion> {
        let stored = Shape::BuiltIn(codec::plan(self.stored.0, self.stored.1, name)?);
        Some(Conversion {
            hub: Hub::Stored,
            stored,
            complete: Arc::new(|_| {}),
            from_stored: Arc::new(self.from_stored),
            to_stored: Arc::new(self.to_stored),
            translator: None,
            unserved: Arc::new([]),
        })
    }
}
