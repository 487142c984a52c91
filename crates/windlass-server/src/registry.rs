//! The semantics of the API's verbs, for built-in kinds and custom resources alike.
//!
//! The registry is the layer between HTTP and storage. A request arrives as a [`Target`] with parameters and leaves as
//! an [`Item`], an [`ItemList`], a [`WatchSession`] or a [`Status`]. Each kind has a [`Strategy`], which is mostly a
//! row of a table ([`Rules`]).
//!
//! Guaranteed: a write is validated and admitted against the object that it replaces, before it is stored. A client
//! that has received the response to a write reads that write. An update that changes nothing is not written. Stored
//! bodies are decoded only where their content matters (field selectors, patches, updates).
//!
//! Not done here: authentication, authorization, media types and tables.

use std::{
    fmt,
    sync::{Arc, OnceLock, Weak},
};

use bytes::Bytes;
use parking_lot::RwLock;
use serde_json::Value;
use windlass_api::{Clock, DryRun, Entropy, FieldValidation, GroupResource, Status};

use crate::{
    admission::{Admission, Asked},
    apiextensions,
    authn::User,
    codec::Format,
    encoded::Encoded,
    storage::{CommitError, Revision, Storage, StorageError, StoredValue},
    warning::Warnings,
    watch_cache::WatchCache,
};

mod address;
mod causes;
mod continue_token;
mod conversion;
mod create;
mod delete;
mod field;
mod field_manager;
mod list;
mod list_lag;
mod meta;
mod names;
mod patch;
mod read;
mod resets;
mod resource;
mod scale;
mod seen;
mod select;
mod size;
mod strategy;
mod subresources;
mod tree;
mod update;
mod watch;

#[cfg(test)]
mod tests;

pub(crate) use self::{
    address::{Range, parse as parse_address},
    causes::Causes,
    conversion::{Conversion, Conversions, Hub, Translator},
    delete::DeleteParams,
    field::{Errors, Path, Shown, validate_address, validate_domain_prefixed},
    list::{ItemList, ListParams},
    list_lag::ListLag,
    meta::{settle_namespace, validate_annotations, validate_labels},
    names::{
        NameRule, address_problem, c_identifier, condition_reason, config_key, dns_label, dns_label_1035,
        dns_subdomain, dns_subdomain_with_underscores, http_path, ip_address, ip_range, label_value, path_segment,
        port_name, qualified_name, range_problem, wildcard_subdomain,
    },
    resets::Resets,
    resource::{CustomShape, ResourceInfo, ResourceTable, Shape, SubresourceInfo, TaggedBody},
    scale::requirement,
    seen::{Seen, first_by},
    select::Derived,
    strategy::{
        Deletion, Dependents, Effect, FieldRule, Generation, MetadataRule, Part, Rules, ScaleRule, StatusRule,
        Strategy, UnknownField, field_text,
    },
    tree::{
        Tree, as_object, copy_key, default_pointer, default_to, entry_mut, items_mut, metadata_mut, object_mut, same,
    },
    watch::{WatchItem, WatchParams, WatchSession, type_name},
};
pub(crate) use self::{patch::PatchType, select::Selection};

/// The registry. Clones share the same state.
#[derive(Clone)]
pub(crate) struct Registry(Arc<Inner>);

/// A weak reference to a [`Registry`].
#[derive(Clone)]
pub(crate) struct WeakRegistry(Weak<Inner>);

impl WeakRegistry {
    /// Returns the registry if it still exists.
    pub(crate) fn upgrade(&self) -> Option<Registry> {
        self.0.upgrade().map(Registry)
    }
}

struct Inner {
    storage: Arc<dyn Storage>,
    watches: WatchCache<Derived>,
    /// The served resources. The table is replaced as a whole when custom resources are added or removed.
    resources: RwLock<Arc<ResourceTable>>,
    /// The admission plugins, in call order.
    admission: Vec<Arc<dyn Admission>>,
    clock: Clock,
    entropy: Entropy,
    list_lag: OnceLock<ListLag>,
    /// The task that follows CustomResourceDefinitions. Set once it is started.
    definitions: OnceLock<apiextensions::Task>,
}

/// The resource, namespace, name and subresource that a request addresses.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) resource: Arc<ResourceInfo>,
    /// The namespace in the path; `None` for cluster-scoped resources and for requests across all namespaces.
    pub(crate) namespace: Option<String>,
    /// The name in the path; `None` for the collection.
    pub(crate) name: Option<String>,
    /// The subresource: `status`, `scale`, and so on. The resource has it.
    pub(crate) subresource: Option<String>,
}

/// An object at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) encoded: Encoded,
    /// The revision of the write that produced this state; 0 for objects that were not stored (dry runs).
    pub(crate) revision: Revision,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// The bytes that the client sent.
    Encoded { bytes: Bytes, format: Format },
    /// A value from within the server.
    Value(Value),
}

/// The parameters of a get.
#[derive(Clone, Debug, Default)]
pub(crate) struct GetParams {
    pub(crate) resource_version: Option<String>,
}

/// The parameters of a write.
#[derive(Clone, Debug)]
pub(crate) struct WriteParams {
    pub(crate) dry_run: DryRun,
    pub(crate) field_validation: FieldValidation,
    /// The field manager for managedFields: the query's `fieldManager`, or the user agent up to its slash.
    pub(crate) field_manager: String,
    /// Collects the warnings for the client, even if the write fails.
    pub(crate) warnings: Warnings,
    /// The user who sends the write; the default user for writes from within the server.
    pub(crate) user: Arc<User>,
    /// The conversions of the object to other versions that are known so far.
    pub(crate) conversions: Conversions,
}

/// The result of a successful write.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) answer: Answer,
    /// `true` if the write created an object; the response has code 201.
    pub(crate) created: bool,
    /// The texts of the `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

/// The body of the response to a write.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Object(Item),
    Status(Status),
}

impl WriteParams {
    /// Returns the write's user and options for admission.
    pub(crate) fn asked(&self, target: &Target) -> Asked {
        let name = target.name().to_owned();
        Asked { user: self.user.clone(), dry_run: self.dry_run, warnings: self.warnings.clone(), name }
    }
}

impl Default for WriteParams {
    fn default() -> Self {
        Self {
            dry_run: DryRun::No,
            field_validation: FieldValidation::Warn,
            field_manager: "unknown".to_owned(),
            warnings: Warnings::default(),
            user: Arc::default(),
            conversions: Conversions::default(),
        }
    }
}

// === impl Item ===

impl Item {
    /// Returns the object as a tree.
    pub(crate) fn value(&self) -> Value {
        self.encoded.value(self.revision)
    }

    /// Returns the object as JSON.
    #[cfg(test)]
    pub(crate) fn to_bytes(&self) -> Bytes {
        let mut out = Vec::new();
        self.render(&mut out);
        out.into()
    }

    /// Appends the object as JSON.
    pub(crate) fn render(&self, out: &mut Vec<u8>) {
        self.encoded.render(self.revision, out);
    }

    /// Appends the object in the form that it has in a list.
    pub(crate) fn render_item(&self, out: &mut Vec<u8>) {
        self.encoded.render_item(self.revision, out);
    }

    /// Returns an item of an object that is not stored.
    fn fixed(target: &Target, object: &Value) -> Self {
        Self { encoded: Encoded::new(object, target.resource.shape.style()), revision: Revision(0) }
    }

    pub(crate) fn stored(value: &StoredValue) -> Result<Self, Status> {
        let encoded = Encoded::from_storage(value.body.clone())
            .map_err(|damage| Status::internal(format!("reading {}: {damage}", value.key)))?;
        Ok(Self { encoded, revision: value.modified })
    }
}

// === impl Target ===

impl Target {
    /// Targets the collection of a resource, in one namespace or in all.
    pub(crate) fn collection(resource: &Arc<ResourceInfo>, namespace: Option<&str>) -> Self {
        let namespace = namespace.map(str::to_owned);
        Self { resource: Arc::clone(resource), namespace, name: None, subresource: None }
    }

    /// Targets one object.
    pub(crate) fn object(resource: &Arc<ResourceInfo>, namespace: Option<&str>, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..Self::collection(resource, namespace) }
    }

    /// Targets a subresource of the same object.
    #[must_use]
    pub(crate) fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// Returns the prefix of the collection's keys.
    fn prefix(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{}{namespace}/", self.resource.prefix),
            None => self.resource.prefix.clone(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    fn group_resource(&self) -> GroupResource {
        self.resource.group_resource()
    }

    /// Returns the key of the named object.
    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix())
    }
}

// === impl Registry ===

impl Registry {
    /// Creates a registry of these resources over a storage, which may already hold objects.
    pub(crate) async fn new(
        storage: Arc<dyn Storage>,
        resources: Vec<Arc<ResourceInfo>>,
        admission: Vec<Arc<dyn Admission>>,
        clock: Clock,
        entropy: Entropy,
    ) -> Result<Self, Status> {
        let registry = Self(Arc::new(Inner {
            watches: WatchCache::new(Arc::clone(&storage)),
            storage,
            resources: RwLock::new(Arc::new(ResourceTable::new(resources))),
            admission,
            clock,
            entropy,
            list_lag: OnceLock::new(),
            definitions: OnceLock::new(),
        }));
        for resource in registry.resources().iter() {
            if resource.strategy.rules().restores {
                registry.restore(resource).await?;
            }
        }
        Ok(registry)
    }

    /// Starts to serve custom resources, both stored and future ones.
    pub(crate) async fn serve_custom_resources(&self) -> Result<(), Status> {
        let task = apiextensions::start(self).await?;
        // A second task would be redundant, and is dropped here.
        let _ = self.0.definitions.set(task);
        Ok(())
    }

    /// Returns a handle that does not keep the registry alive.
    pub(crate) fn downgrade(&self) -> WeakRegistry {
        WeakRegistry(Arc::downgrade(&self.0))
    }

    /// Returns the resources that are currently served.
    pub(crate) fn resources(&self) -> Arc<ResourceTable> {
        Arc::clone(&self.0.resources.read())
    }

    /// Replaces the served resources. `change` receives the current table and must be quick, because it runs under a
    /// lock.
    pub(crate) fn change_resources(&self, change: impl FnOnce(&ResourceTable) -> Vec<Arc<ResourceInfo>>) {
        let mut resources = self.0.resources.write();
        *resources = Arc::new(ResourceTable::new(change(&resources)));
    }

    /// Returns the wall clock.
    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Returns the source of randomness.
    pub(crate) fn entropy(&self) -> &Entropy {
        &self.0.entropy
    }

    /// Returns the admission plugins.
    pub(crate) fn admission(&self) -> &[Arc<dyn Admission>] {
        &self.0.admission
    }

    /// Returns one object in its stored version, if it exists.
    pub(crate) async fn peek(&self, target: &Target) -> Result<Option<Item>, Status> {
        self.stored(&target.key(target.name())).await?.as_ref().map(Item::stored).transpose()
    }

    /// Returns the storage.
    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.0.storage
    }

    /// Closes the watches of the resources whose keys start with `prefix`.
    pub(crate) fn drop_watches_of(&self, prefix: &str) {
        self.0.watches.drop_topic(prefix);
    }

    /// Waits until all ready watches have received the event of a commit, before the write is answered. Afterwards
    /// lists of other kinds lag behind this write.
    pub(crate) async fn delivered(&self, key: &str, revision: Revision) {
        self.0.watches.delivered(key, revision).await;
        if let Some(lag) = self.0.list_lag.get() {
            lag.wrote(key);
        }
    }

    /// Sets the delay of lists by clients.
    pub(crate) fn delay_lists(&self, lag: ListLag) {
        // Set once, when the server starts.
        let _ = self.0.list_lag.set(lag);
    }

    /// Delays a list by a client, if a delay is set.
    pub(crate) async fn before_list(&self, target: &Target, params: &ListParams) {
        let Some(lag) = self.0.list_lag.get() else { return };
        let is_given = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        if !is_given(&params.continue_token) && !is_given(&params.resource_version) {
            lag.pass(&target.resource.prefix).await;
        }
    }

    /// Reports whether an object is watched.
    pub(crate) fn is_watched(&self, key: &str) -> bool {
        self.0.watches.is_watched(key)
    }

    /// Closes all watches, like a loss of all connections.
    pub(crate) fn drop_watches(&self) {
        self.0.watches.drop_all();
    }

    /// Passes the stored objects to a strategy that keeps state.
    async fn restore(&self, resource: &ResourceInfo) -> Result<(), Status> {
        let query = crate::storage::RangeQuery::prefix(resource.prefix.clone());
        let range = self.0.storage.range(query).await.map_err(|error| storage_failure(&error))?;
        for value in &range.values {
            resource.strategy.restore(&Item::stored(value)?.value());
        }
        Ok(())
    }

    /// Returns the stored state of one object.
    async fn stored(&self, key: &str) -> Result<Option<StoredValue>, Status> {
        let (_, value) = self.0.storage.get(key, None).await.map_err(|error| storage_failure(&error))?;
        Ok(value)
    }

    /// Returns an item in the version that the client requested.
    async fn present(resource: &ResourceInfo, item: Item) -> Result<Item, Status> {
        if resource.conversion.is_none() {
            return Ok(item);
        }
        let mut presented = Self::present_all(resource, vec![item]).await?;
        presented.pop().ok_or_else(|| Status::internal("an object was lost in a conversion"))
    }

    /// Returns items in the version that the client requested.
    async fn present_all(resource: &ResourceInfo, items: Vec<Item>) -> Result<Vec<Item>, Status> {
        if resource.conversion.is_none() {
            return Ok(items);
        }
        let shown = resource.show_all(items.iter().map(Item::value).collect()).await?;
        let present = |(item, value): (&Item, Value)| {
            let value = resource.shape.normalise(value, FieldValidation::Ignore)?.value;
            Ok(Item { encoded: Encoded::new(&value, resource.shape.style()), revision: item.revision })
        };
        items.iter().zip(shown).map(present).collect()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("storage", &self.0.storage).finish_non_exhaustive()
    }
}

/// Returns the status for a storage failure that the request did not cause.
fn storage_failure(error: &StorageError) -> Status {
    match error {
        StorageError::Compacted { .. } => Status::expired("The resourceVersion for the provided list is too old."),
        StorageError::Future { requested, current } => Status::too_large_resource_version(requested.0, current.0),
        StorageError::Lagged { .. } | StorageError::Unavailable(_) => {
            tracing::warn!(error = error as &dyn std::error::Error, "the storage failed");
            Status::internal(error)
        }
    }
}

fn commit_failure(error: &CommitError) -> Status {
    match error {
        CommitError::Storage(error) => storage_failure(error),
        CommitError::Conflict { .. } => Status::internal(error),
    }
}
