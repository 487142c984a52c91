//! The built-in kinds: a module for each API group, and a table of all kinds.
//!
//! A kind is a [`Kind`]: a row with its constant rules and its functions for defaults, preparation and validation. Names,
//! verbs, scopes and subresources come from the recorded discovery of a real server. [`BuiltIn`] is the [`Strategy`] of
//! all rows.
//!
//! ```text
//! core, apps, batch, …   the kinds of an API group; each exports its rows as KINDS
//!   └ workload           rules that the workloads share
//!       └ pod_spec       defaults, validation and warnings of pod specs, for pods and pod templates
//!           └ selector, quantity
//! ```
//!
//! To add a kind: write its module with a `KIND`, and add it to the `KINDS` of its group.
//!
//! A version that Kubernetes has removed is listed in `kubernetes/removed`. Its kinds have the rows of the successor. A kind
//! with other fields or rules also has a row of its own, with a [`View`].

use std::{borrow::Cow, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::Status;

use self::core::service::{AddressAllocator, allocate, release_all};
pub(crate) use self::{
    admissionregistration::{conditions, expressions},
    core::service_account::ENFORCE_MOUNTABLE_SECRETS,
    pod_spec::defaults::{add_amounts, quality_of_service},
    quantity::amount,
    scheduling::SYSTEM_CLASSES,
    selector::{label_selector, validate_count, validate_label},
};
pub use self::{
    runtime_config::{RuntimeConfig, RuntimeConfigError},
    stored::{StoredKinds, StoredResource, stored_resources},
};
use crate::{
    codec::{self, Plan},
    discovery::catalog::{CatalogResource, catalog, of_removed},
    kubernetes::{KubernetesVersion, removed::RemovedVersion},
    object::{Errors, Field},
    resource::{
        Allocation, AllocationMode, Conversion, Hub, Part, ResourceInfo, ResourceTable, Rules, ScaleRule, Shape,
        Strategy, SubresourceInfo, WriteContext,
    },
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
mod declared;
mod discovery;
mod dynamic_resources;
mod events;
pub(crate) mod flowcontrol;
mod gates;
mod networking;
mod node;
mod pod_spec;
mod policy;
mod prelude;
mod quantity;
mod rbac;
mod reviews;
mod runtime_config;
mod scheduling;
mod selector;
mod storage;
mod storage_migration;
mod stored;
mod workload;

#[cfg(test)]
mod tests;

/// The server's settings that built-in kinds depend on.
#[derive(Clone, Debug)]
pub(crate) struct KindOptions {
    pub(crate) kubernetes: KubernetesVersion,
    /// The claims of services.
    pub(crate) allocator: Arc<AddressAllocator>,
    /// The lifetime of events; `None` for the default.
    pub(crate) event_lifetime: Option<Duration>,
    /// The removed API versions to serve.
    pub(crate) removed: Vec<&'static RemovedVersion>,
}

#[cfg(test)]
impl KindOptions {
    /// Returns options for tests that store nothing.
    pub(crate) fn of(kubernetes: KubernetesVersion) -> Self {
        let allocator = AddressAllocator::new(windlass_api::Entropy::seeded(1), kubernetes);
        Self { kubernetes, allocator, event_lifetime: None, removed: Vec::new() }
    }
}

/// A row of the table of kinds: the constant rules and the functions of a kind. The functions are those of [`Strategy`];
/// [`BASE`] has the defaults.
#[derive(Debug)]
struct Kind {
    version: &'static str,
    name: &'static str,
    /// The storage prefix if it is not `/registry/PLURAL/`.
    prefix: Option<&'static str>,
    deprecation: Option<&'static str>,
    /// The conversion from the stored version; `None` for the stored version itself.
    view: Option<View>,
    rules: Rules,
    begin_deletion: fn(&mut Value, &str),
    default: fn(&mut Value),
    prepare_create: fn(&mut Value, &WriteContext<'_>),
    prepare_update: fn(&mut Value, &Value),
    prepare_status: fn(&mut Value, &Value, &WriteContext<'_>),
    prepare_part: fn(Part, &mut Value, &Value, &WriteContext<'_>),
    validate: fn(&Field<'_>, &mut Errors),
    validate_create: fn(&Field<'_>, &mut Errors),
    validate_update: fn(&Field<'_>, &Field<'_>, &mut Errors),
    /// The fields that no update may change. They are checked after `validate_update`.
    immutable: &'static [&'static str],
    validate_status: fn(&Field<'_>, &Field<'_>, &mut Errors),
    validate_part: fn(Part, &Field<'_>, &Field<'_>, &mut Errors),
    warnings: fn(&Value, Option<&Value>, &mut Vec<String>),
    fixed: fn() -> Option<Vec<Value>>,
    /// Returns the value of a field for field selectors; `None` for the text at the path in the rules.
    field: for<'v> fn(&'v Value, &str) -> Option<Cow<'v, str>>,
}

/// A version that is converted from another one on reads. On writes it is converted back before validation.
#[derive(Debug)]
struct View {
    /// The group and version of the stored objects.
    stored: (&'static str, &'static str),
    /// Converts all but the apiVersion, like `to_stored`.
    from_stored: fn(Value) -> Value,
    to_stored: fn(Value) -> Value,
}

const BASE: Kind = Kind {
    version: "v1",
    name: "",
    prefix: None,
    deprecation: None,
    view: None,
    rules: Rules::COMMON,
    begin_deletion: |_, _| {},
    default: |_| {},
    prepare_create: |_, _| {},
    prepare_update: |_, _| {},
    prepare_status: |_, _, _| {},
    prepare_part: |_, _, _, _| {},
    validate: |_, _| {},
    validate_create: |_, _| {},
    validate_update: |_, _, _| {},
    immutable: &[],
    validate_status: |_, _, _| {},
    validate_part: |_, _, _, _| {},
    warnings: |_, _, _| {},
    fixed: || None,
    field: |_, _| None,
};

/// The kinds of each API group. Discovery decides the order in which they are served.
static GROUPS: &[(&str, &[Kind])] = &[
    ("", core::KINDS),
    ("admissionregistration.k8s.io", admissionregistration::KINDS),
    ("apiextensions.k8s.io", apiextensions::KINDS),
    ("apiregistration.k8s.io", apiregistration::KINDS),
    ("apps", apps::KINDS),
    ("authentication.k8s.io", reviews::AUTHENTICATION),
    ("authorization.k8s.io", reviews::AUTHORIZATION),
    ("autoscaling", autoscaling::KINDS),
    ("batch", batch::KINDS),
    ("certificates.k8s.io", certificates::KINDS),
    ("coordination.k8s.io", coordination::KINDS),
    ("discovery.k8s.io", discovery::KINDS),
    ("events.k8s.io", events::KINDS),
    ("flowcontrol.apiserver.k8s.io", flowcontrol::KINDS),
    ("networking.k8s.io", networking::KINDS),
    ("node.k8s.io", node::KINDS),
    ("policy", policy::KINDS),
    ("rbac.authorization.k8s.io", rbac::KINDS),
    ("resource.k8s.io", dynamic_resources::KINDS),
    ("scheduling.k8s.io", scheduling::KINDS),
    ("storage.k8s.io", storage::KINDS),
    ("storagemigration.k8s.io", storage_migration::KINDS),
];

/// The strategy of a built-in kind: its row, and the state that a row cannot have.
#[derive(Debug)]
struct BuiltIn {
    kind: &'static Kind,
    /// The rules of the kind in its Kubernetes version.
    rules: Rules,
    /// The defaults that older Kubernetes versions do not have.
    newer_defaults: Option<fn(&mut Value)>,
    /// The rule of the scale subresource.
    scale: Option<ScaleRule>,
    /// The part that the kind has in the claims of services; `None` for other kinds.
    claims: Option<(ClaimPart, Arc<AddressAllocator>)>,
}

/// The part of a kind in the claims of services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimPart {
    /// Services have claims.
    Owner,
    /// IPAddresses are claims.
    Claim,
    /// ServiceCIDRs are the ranges of claims.
    Range,
}

impl ClaimPart {
    fn of(kind: &str) -> Option<Self> {
        Some(match kind {
            "Service" => Self::Owner,
            "IPAddress" => Self::Claim,
            "ServiceCIDR" => Self::Range,
            _ => return None,
        })
    }
}

/// Returns the served built-in resources, in the order of discovery. Resources without a row are not served.
pub(crate) fn built_ins(options: &KindOptions) -> ResourceTable {
    let entries = catalog(options.kubernetes).iter();
    let mut resources: Vec<_> = entries.filter_map(|entry| resource(entry, options)).map(Arc::new).collect();
    for removed in &options.removed {
        let entries = of_removed(options.kubernetes, removed);
        resources.extend(entries.iter().filter_map(|entry| removed_resource(removed, entry, options)).map(Arc::new));
    }
    ResourceTable::new(options.kubernetes, resources)
}

/// Returns the row of a resource in the table of kinds.
fn row(entry: &CatalogResource) -> Option<&'static Kind> {
    let (_, kinds) = GROUPS.iter().find(|(group, _)| *group == entry.group)?;
    kinds.iter().find(|kind| (kind.version, kind.name) == (entry.version, entry.kind))
}

fn storage_prefix(kind: &Kind, entry: &CatalogResource) -> String {
    kind.prefix.map_or_else(|| format!("/registry/{}/", entry.plural), str::to_owned)
}

fn resource(entry: &CatalogResource, options: &KindOptions) -> Option<ResourceInfo> {
    let kind = row(entry)?;
    resource_of(entry, kind, kind.view.as_ref(), options)
}

/// Returns a resource of a removed version. Without a row of its own, it has that of the successor.
fn removed_resource(removed: &RemovedVersion, entry: &CatalogResource, options: &KindOptions) -> Option<ResourceInfo> {
    let same = View { stored: (entry.group, removed.successor), from_stored: |same| same, to_stored: |same| same };
    let resource = if let Some(own) = row(entry) {
        resource_of(entry, own, own.view.as_ref(), options)?
    } else {
        let successor = CatalogResource { version: removed.successor, ..entry.clone() };
        resource_of(entry, row(&successor)?, Some(&same), options)?
    };
    let kind = removed.kinds.iter().find(|kind| kind.name == entry.kind)?;
    Some(ResourceInfo { deprecation: Some(removed.deprecation(kind)), ..resource })
}

fn resource_of(
    entry: &CatalogResource,
    kind: &'static Kind,
    view: Option<&View>,
    options: &KindOptions,
) -> Option<ResourceInfo> {
    let plan = codec::plan_of(options.kubernetes, entry.group, entry.version, entry.kind)?;
    let conversion = match view {
        None => None,
        Some(view) => Some(view.conversion(options.kubernetes, plan, kind.name)?),
    };
    let prefix = if entry.storage_hash.is_empty() { String::new() } else { storage_prefix(kind, entry) };
    let own = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<String>>();
    let subresources = entry.subresources.iter().map(|subresource| {
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
        prefix,
        shape: Shape::BuiltIn(plan),
        strategy: Arc::new(BuiltIn::new(kind, entry, options)),
        conversion,
        deprecation: kind.deprecation.map(str::to_owned),
    })
}

impl View {
    /// Returns the conversion of a version with this plan; `None` if the stored version has no plan.
    fn conversion(&self, kubernetes: KubernetesVersion, own: &'static Plan, name: &str) -> Option<Conversion> {
        let stored = codec::plan_of(kubernetes, self.stored.0, self.stored.1, name)?;
        let to = |plan: &'static Plan, convert: fn(Value) -> Value| {
            move |object: Value| {
                let mut converted = convert(object);
                if let Value::Object(object) = &mut converted {
                    object.insert("apiVersion".to_owned(), plan.api_version().into());
                }
                converted
            }
        };
        Some(Conversion {
            hub: Hub::Stored,
            stored: Shape::BuiltIn(stored),
            complete: Arc::new(|_| {}),
            from_stored: Arc::new(to(own, self.from_stored)),
            to_stored: Arc::new(to(stored, self.to_stored)),
            translator: None,
            unserved: Arc::new([]),
        })
    }
}

// === impl BuiltIn ===

impl BuiltIn {
    fn new(kind: &'static Kind, entry: &CatalogResource, options: &KindOptions) -> Self {
        let has_scale = entry.subresources.iter().any(|subresource| subresource.name == "scale");
        let mut rules = gates::rules(options.kubernetes, entry.group, entry.kind, &kind.rules);
        rules.lifetime = rules.lifetime.map(|default| options.event_lifetime.unwrap_or(default));
        Self {
            kind,
            rules,
            newer_defaults: gates::defaults(options.kubernetes, entry.group, entry.kind),
            scale: has_scale.then(ScaleRule::of_workloads),
            claims: ClaimPart::of(kind.name).map(|part| (part, Arc::clone(&options.allocator))),
        }
    }
}

impl Strategy for BuiltIn {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn scale(&self) -> Option<&ScaleRule> {
        self.scale.as_ref()
    }

    fn begin_deletion(&self, object: &mut Value, now: &str) {
        (self.kind.begin_deletion)(object, now);
    }

    fn default(&self, object: &mut Value) {
        (self.kind.default)(object);
        if let Some(default) = self.newer_defaults {
            default(object);
        }
    }

    fn prepare_create(&self, object: &mut Value, write: &WriteContext<'_>) {
        (self.kind.prepare_create)(object, write);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        (self.kind.prepare_update)(new, old);
    }

    fn prepare_status(&self, new: &mut Value, old: &Value, write: &WriteContext<'_>) {
        (self.kind.prepare_status)(new, old, write);
    }

    fn prepare_part(&self, part: Part, new: &mut Value, old: &Value, write: &WriteContext<'_>) {
        (self.kind.prepare_part)(part, new, old, write);
    }

    fn allocate<'a>(
        &'a self,
        new: &'a mut Value,
        old: Option<&'a Value>,
        mode: AllocationMode,
    ) -> Option<BoxFuture<'a, Result<Box<dyn Allocation>, Status>>> {
        let Some((ClaimPart::Owner, allocator)) = &self.claims else { return None };
        Some(Box::pin(allocate(allocator, new, old, mode)))
    }

    fn validate(&self, object: &Field<'_>, errors: &mut Errors) {
        (self.kind.validate)(object, errors);
    }

    fn validate_create(&self, object: &Field<'_>, errors: &mut Errors) {
        (self.kind.validate_create)(object, errors);
    }

    fn validate_update(&self, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
        (self.kind.validate_update)(new, old, errors);
        new.check_immutable(old, self.kind.immutable, errors);
    }

    fn validate_status(&self, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
        (self.kind.validate_status)(new, old, errors);
    }

    fn validate_part(&self, part: Part, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
        (self.kind.validate_part)(part, new, old, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        (self.kind.warnings)(new, old, &mut warnings);
        warnings.retain(|text| gates::has_warning(self.rules.kubernetes, text));
        warnings
    }

    fn fixed(&self) -> Option<Vec<Value>> {
        (self.kind.fixed)()
    }

    fn field<'v>(&self, object: &'v Value, label: &str) -> Cow<'v, str> {
        (self.kind.field)(object, label).unwrap_or_else(|| self.kind.rules.field_text(object, label))
    }

    fn has_claims(&self) -> bool {
        self.claims.is_some()
    }

    fn stored(&self, object: &Value) {
        match &self.claims {
            Some((ClaimPart::Claim, allocator)) => allocator.record_address(object),
            Some((ClaimPart::Range, allocator)) => allocator.record_range(object),
            Some((ClaimPart::Owner, _)) | None => {}
        }
    }

    fn follow(&self, previous: Option<&Value>, current: Option<&Value>) {
        match (previous, current) {
            (_, Some(current)) => self.stored(current),
            // Neither an address nor a range has anything to release.
            (Some(previous), None) => drop(self.deleted(previous)),
            (None, None) => {}
        }
    }

    fn follow_all(&self, objects: &[Value]) {
        match &self.claims {
            Some((ClaimPart::Claim, allocator)) => allocator.record_all_addresses(objects),
            Some((ClaimPart::Range, allocator)) => allocator.record_all_ranges(objects),
            Some((ClaimPart::Owner, _)) | None => {}
        }
    }

    fn deleted<'a>(&'a self, object: &'a Value) -> Option<BoxFuture<'a, ()>> {
        match &self.claims {
            Some((ClaimPart::Owner, allocator)) => return Some(Box::pin(release_all(allocator, object))),
            Some((ClaimPart::Claim, allocator)) => allocator.forget_address(object),
            Some((ClaimPart::Range, allocator)) => allocator.forget_range(object),
            None => {}
        }
        None
    }
}
