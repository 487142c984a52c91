//! The built-in kinds: a module for each API group, and a table of all kinds.
//!
//! A kind is a [`Kind`] (names, storage prefix, subresources) and its [`Strategy`]: constant rules, defaults, preparation
//! and validation. Names, verbs and scopes come from the recorded discovery of a real server.
//!
//! ```text
//! core, apps, batch, …   the kinds of an API group; each exports its rows as KINDS
//!   └ workload           rules that the workloads share
//!       └ pod_spec       defaults, validation and warnings of pod specs, for pods and pod templates
//!           └ selector, quantity
//! ```
//!
//! To add a kind: write its module with a `KIND` and a `Strategy`, and add it to the `KINDS` of its group.

use std::sync::Arc;

use serde_json::Value;
use windlass_api::Entropy;

use self::core::service::ServiceCidr;
pub(crate) use self::{
    admissionregistration::conditions,
    core::service_account::ENFORCE_MOUNTABLE_SECRETS,
    pod_spec::defaults::add_amounts,
    quantity::amount,
    scheduling::SYSTEM_CLASSES,
    selector::{label_selector, validate_count, validate_label},
};
use crate::{
    codec,
    discovery::catalog::{CatalogResource, catalog},
    resource::{Conversion, Hub, ResourceInfo, Rules, Shape, Strategy, SubresourceInfo},
};

mod admissionregistration;
mod apiextensions;
pub(crate) mod apiregistration;
mod apps;
mod autoscaling;
mod batch;
mod certificates;
mod coordination;
pub(crate) mod core;
mod discovery;
mod dynamic_resources;
mod events;
pub(crate) mod flowcontrol;
mod networking;
mod node;
mod pod_spec;
mod policy;
mod prelude;
mod quantity;
mod rbac;
mod reviews;
mod scheduling;
mod selector;
mod storage;
mod workload;

#[cfg(test)]
mod tests;

/// The server's settings that built-in kinds depend on.
#[derive(Clone, Debug)]
pub(crate) struct KindOptions {
    /// The address range of services.
    pub(crate) service_cidr: ServiceCidr,
    pub(crate) entropy: Entropy,
}

/// A row of the table of kinds.
struct Kind {
    group: &'static str,
    version: &'static str,
    name: &'static str,
    /// The storage prefix; empty for a kind that is not stored, such as a review.
    prefix: &'static str,
    /// The served subresources, from those in the catalog.
    subresources: &'static [&'static str],
    deprecation: Option<&'static str>,
    /// Creates the rules of the kind.
    strategy: fn(&KindOptions) -> Arc<dyn Strategy>,
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

/// A kind with the common rules only.
#[derive(Debug)]
struct Plain;

const BASE: Kind = Kind {
    group: "",
    version: "v1",
    name: "",
    prefix: "",
    subresources: &[],
    deprecation: None,
    strategy: |_| Arc::new(Plain),
    view: None,
};

/// The kinds of each API group. Discovery decides the order in which they are served.
static GROUPS: &[&[Kind]] = &[
    core::KINDS,
    admissionregistration::KINDS,
    apiextensions::KINDS,
    apiregistration::KINDS,
    apps::KINDS,
    autoscaling::KINDS,
    batch::KINDS,
    certificates::KINDS,
    coordination::KINDS,
    discovery::KINDS,
    dynamic_resources::KINDS,
    events::KINDS,
    flowcontrol::KINDS,
    networking::KINDS,
    node::KINDS,
    policy::KINDS,
    rbac::KINDS,
    reviews::KINDS,
    scheduling::KINDS,
    storage::KINDS,
];

impl Strategy for Plain {
    fn rules(&self) -> &Rules {
        &Rules::COMMON
    }
}

/// Returns the served built-in resources, in the order of discovery.
pub(crate) fn built_ins(options: &KindOptions) -> Vec<Arc<ResourceInfo>> {
    catalog().iter().filter_map(|entry| resource(entry, options)).map(Arc::new).collect()
}

fn resource(entry: &CatalogResource, options: &KindOptions) -> Option<ResourceInfo> {
    let is_it = |kind: &&Kind| (kind.group, kind.version, kind.name) == (entry.group, entry.version, entry.kind);
    let kind = GROUPS.iter().copied().flatten().find(is_it)?;
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
        strategy: (kind.strategy)(options),
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
