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
    any::Any,
    fmt,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use windlass_api::{Clock, DryRun, Entropy, FieldValidation, Status};

use crate::{
    audit::AuditContext,
    encoded::Encoded,
    identity::User,
    offload::{LARGE, PART, offload_future},
    resource::{Conversions, Item, OwnRules, ResourceInfo, ResourceTable, Target, WriteContext},
    storage::{Change, CommitError, Revision, Storage, StorageError, StoredValue, last_commits::LastCommits},
    trace_context::TraceContext,
    warning::Warnings,
    watch_cache::WatchCache,
};

mod admission;
mod allocation;
mod audited;
mod continue_token;
mod create;
mod delete;
mod field_manager;
mod follow;
mod indexed;
mod list;
mod applied;
mod list_lag;
mod meta;
mod patch;
mod read;
mod scale;
mod select;
mod size;
mod subresources;
mod update;
mod watch;

#[cfg(test)]
mod tests;

use self::follow::Followed;
pub(crate) use self::{
    admission::{Admission, Attributes, HookId, Operation, Plugin, RequestContext, SubresourceKind, WebhookCalls},
    applied::AppliedWrites,
    audited::record_request,
    delete::{AdmissionState, DeleteParams},
    field_manager::type_of as merge_type,
    list::{ItemList, ListParams, ScopeSize},
    list_lag::ListLag,
    meta::set_namespace,
    patch::PatchType,
    select::{Derived, Selection},
    watch::{WatchEvent, WatchItem, WatchParams, WatchSession, type_name},
};

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
    last_commits: OnceLock<Arc<LastCommits>>,
    own_rules: OnceLock<OwnRules>,
    /// The revision up to which the changes of CustomResourceDefinitions have taken effect.
    observed_definitions: AtomicU64,
    /// The progress of the configuration of priority and fairness.
    applied: OnceLock<AppliedWrites<2>>,
    /// Background tasks. They end when they are dropped with the registry.
    tasks: Mutex<Vec<Box<dyn Any + Send>>>,
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
    /// The event of the request. Writes from within the server have none.
    pub(crate) audit: AuditContext,
    /// The user who sends the write; the default user for writes from within the server.
    pub(crate) user: Arc<User>,
    pub(crate) trace: TraceContext,
    /// The conversions of the object to other versions that are known so far.
    pub(crate) conversions: Conversions,
    pub(crate) webhooks: WebhookCalls,
    /// The options that the client set, besides the dry run, by their names in reviews.
    pub(crate) options: Option<Arc<serde_json::Value>>,
}

/// The result of a successful write.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) answer: ResponseBody,
    /// `true` if the write created an object; the response has code 201.
    pub(crate) created: bool,
}

/// The body of the response to a write.
#[derive(Clone, Debug)]
pub(crate) enum ResponseBody {
    Object(Item),
    Status(Status),
}

impl WriteParams {
    /// Returns the write's user and options for admission.
    pub(crate) fn context(&self, target: &Target) -> RequestContext {
        RequestContext {
            user: self.user.clone(),
            dry_run: self.dry_run,
            warnings: self.warnings.clone(),
            audit: self.audit.clone(),
            trace: self.trace.clone(),
            name: target.name().to_owned(),
            webhooks: self.webhooks,
            options: self.options.clone(),
        }
    }
}

impl Default for WriteParams {
    fn default() -> Self {
        Self {
            dry_run: DryRun::No,
            field_validation: FieldValidation::Warn,
            field_manager: "unknown".to_owned(),
            warnings: Warnings::default(),
            audit: AuditContext::default(),
            user: User::own(),
            trace: TraceContext::default(),
            conversions: Conversions::default(),
            webhooks: WebhookCalls::Configured,
            options: None,
        }
    }
}

// === impl Registry ===

impl Registry {
    /// Creates a registry of these resources over a storage, which may already hold objects.
    pub(crate) async fn new(
        storage: Arc<dyn Storage>,
        resources: ResourceTable,
        admission: Vec<Arc<dyn Admission>>,
        clock: Clock,
        entropy: Entropy,
    ) -> Result<Self, Status> {
        let registry = Self(Arc::new(Inner {
            watches: WatchCache::new(Arc::clone(&storage)),
            storage,
            resources: RwLock::new(Arc::new(resources)),
            admission,
            clock,
            entropy,
            list_lag: OnceLock::new(),
            last_commits: OnceLock::new(),
            own_rules: OnceLock::new(),
            observed_definitions: AtomicU64::new(0),
            applied: OnceLock::new(),
            tasks: Mutex::default(),
        }));
        for resource in registry.resources().iter() {
            if resource.strategy.rules().restores {
                let restored = registry.restore(resource).await?;
                if registry.0.storage.is_shared() {
                    let followed =
                        Followed { prefix: resource.prefix.clone(), strategy: Arc::clone(&resource.strategy) };
                    registry.keep_task(followed.start(Arc::clone(&registry.0.storage), restored));
                }
            }
        }
        Ok(registry)
    }

    /// Keeps a background task until the registry is dropped.
    pub(crate) fn keep_task(&self, task: impl Any + Send) {
        self.0.tasks.lock().push(Box::new(task));
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
        *resources = Arc::new(ResourceTable::new(resources.kubernetes(), change(&resources)));
    }

    /// Returns the user, the time and the Kubernetes version of a write.
    fn write_context<'w>(&'w self, resource: &ResourceInfo, params: &'w WriteParams) -> WriteContext<'w> {
        let kubernetes = resource.strategy.rules().kubernetes;
        WriteContext { user: &params.user, clock: self.clock(), kubernetes }
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

    /// Returns a recent state of one object in its stored version, if it exists now or existed recently. It includes the
    /// writes of this server. kube-apiserver reads the objects for admission in the same way: from its cache, and if they
    /// are missing there, from etcd.
    pub(crate) async fn peek_recent(&self, target: &Target) -> Result<Option<Item>, Status> {
        match self.recently_stored(&target.key(target.name())).await? {
            Some(value) => Item::stored(&value).map(Some),
            None if self.0.storage.is_shared() => self.peek(target).await,
            None => Ok(None),
        }
    }

    /// Returns the size of an object as of a short time ago, in bytes. Returns 0 if it is not known.
    pub(crate) async fn recent_size(&self, target: &Target) -> usize {
        let stored = self.recently_stored(&target.key(target.name())).await;
        stored.ok().flatten().map_or(0, |value| value.body.len())
    }

    /// Returns recent states of a collection's objects in their stored version. They include the writes of this server.
    pub(crate) async fn peek_all(&self, target: &Target) -> Result<Vec<Item>, Status> {
        let prefix = target.prefix();
        if self.0.storage.is_known_to_be_empty(&prefix) {
            return Ok(Vec::new());
        }
        let range = self.0.storage.range_recent(&prefix).await;
        range.map_err(|error| storage_failure(&error))?.values.iter().map(Item::stored).collect()
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
    pub(crate) async fn wait_for_delivery(&self, key: &str, revision: Revision) {
        if let Some(commits) = self.0.last_commits.get() {
            commits.record(key, revision);
        }
        self.0.watches.wait_for_delivery(key, revision).await;
        if let Some(applied) = self.0.applied.get() {
            applied.wait(key, revision).await;
        }
        if let Some(lag) = self.0.list_lag.get() {
            lag.record_write(key);
        }
    }

    /// Returns the rules of the program's own resources.
    pub(crate) fn own_rules(&self) -> &OwnRules {
        self.0.own_rules.get_or_init(OwnRules::default)
    }

    /// Sets the rules of the program's own resources, before the first one is served.
    pub(crate) fn set_own_rules(&self, rules: OwnRules) {
        // Set once, when the server starts.
        let _ = self.0.own_rules.set(rules);
    }

    /// Records that the changes of CustomResourceDefinitions up to a revision have taken effect.
    pub(crate) fn observe_definitions(&self, revision: Revision) {
        self.0.observed_definitions.fetch_max(revision.0, Ordering::AcqRel);
    }

    /// Returns the revision up to which the changes of CustomResourceDefinitions have taken effect.
    pub(crate) fn observed_definitions(&self) -> Revision {
        Revision(self.0.observed_definitions.load(Ordering::Acquire))
    }

    /// Records the commits from now on.
    pub(crate) fn record_commits(&self, commits: Arc<LastCommits>) {
        // Set once, when the server starts.
        let _ = self.0.last_commits.set(commits);
    }

    /// Sets the cache that must include a write before it is answered.
    pub(crate) fn set_applied(&self, applied: AppliedWrites<2>) {
        // Set once, when the cache starts.
        let _ = self.0.applied.set(applied);
    }

    /// Sets the delay of lists by clients.
    pub(crate) fn set_list_lag(&self, lag: ListLag) {
        // Set once, when the server starts.
        let _ = self.0.list_lag.set(lag);
    }

    /// Delays a list by a client, if a delay is set.
    pub(crate) async fn wait_for_list_lag(&self, target: &Target, params: &ListParams) {
        let Some(lag) = self.0.list_lag.get() else { return };
        let is_given = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        if !is_given(&params.continue_token) && !is_given(&params.resource_version) {
            lag.wait(&target.resource.prefix).await;
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

    /// Passes the stored objects to a strategy that keeps state. Returns their revision.
    async fn restore(&self, resource: &ResourceInfo) -> Result<Revision, Status> {
        let query = crate::storage::RangeQuery::prefix(resource.prefix.clone());
        let range = self.0.storage.range(query).await.map_err(|error| storage_failure(&error))?;
        for value in &range.values {
            resource.strategy.stored(&Item::stored(value)?.value());
        }
        Ok(range.revision)
    }

    /// Returns the stored state of one object.
    async fn stored(&self, key: &str) -> Result<Option<StoredValue>, Status> {
        let (_, value) = self.0.storage.get(key, None).await.map_err(|error| storage_failure(&error))?;
        Ok(value)
    }

    /// Returns the stored state of one object, and whether it should be written again.
    async fn stored_now(&self, key: &str) -> Result<Option<StoredValue>, Status> {
        self.0.storage.get_stored(key).await.map_err(|error| storage_failure(&error))
    }

    /// Returns a state of one object that was stored recently.
    async fn recently_stored(&self, key: &str) -> Result<Option<StoredValue>, Status> {
        self.0.storage.get_recent(key).await.map_err(|error| storage_failure(&error))
    }

    /// Returns an item in the version that the client requested.
    async fn convert_item(resource: &Arc<ResourceInfo>, item: Item) -> Result<Item, Status> {
        if resource.conversion.is_none() {
            return Ok(item);
        }
        let mut converted = Self::convert_items(resource, vec![item]).await?;
        converted.pop().ok_or_else(|| Status::internal("an object was lost in a conversion"))
    }

    /// Returns items in the version that the client requested. Many bytes are converted outside of the runtime, in parts.
    async fn convert_items(resource: &Arc<ResourceInfo>, items: Vec<Item>) -> Result<Vec<Item>, Status> {
        let Some(conversion) = &resource.conversion else { return Ok(items) };
        // A webhook converts a whole list in one request, as in kube-apiserver.
        let most = if conversion.translator.is_some() { usize::MAX } else { PART };
        let mut converted = Vec::with_capacity(items.len());
        let mut items = items.into_iter().peekable();
        while items.peek().is_some() {
            let (mut part, mut bytes) = (Vec::new(), 0);
            while bytes < most
                && let Some(item) = items.next()
            {
                bytes += item.encoded.len_hint();
                part.push(item);
            }
            let resource = Arc::clone(resource);
            let convert: BoxFuture<'static, _> = Box::pin(async move { Self::convert_all(&resource, &part).await });
            let part = if bytes >= LARGE { offload_future(convert).await? } else { convert.await };
            converted.append(&mut part?);
        }
        Ok(converted)
    }

    async fn convert_all(resource: &ResourceInfo, items: &[Item]) -> Result<Vec<Item>, Status> {
        let shown = resource.convert_stored(items.iter().map(Item::value).collect()).await?;
        let present = |(item, value): (&Item, Value)| {
            let value = resource.shape.normalize(value, FieldValidation::Ignore)?.value;
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

/// Returns the change that stores an object.
fn put(resource: &ResourceInfo, encoded: &Encoded) -> Change {
    let body = encoded.storage_bytes();
    match resource.strategy.rules().lifetime {
        Some(lifetime) => Change::PutFor(body, lifetime),
        None => Change::Put(body),
    }
}

/// Returns the status for a storage failure that the request did not cause.
pub(crate) fn storage_failure(error: &StorageError) -> Status {
    match error {
        StorageError::Compacted { .. } => Status::expired("The resourceVersion for the provided list is too old."),
        StorageError::Future { requested, current } => Status::too_large_resource_version(requested.0, current.0),
        StorageError::Lagged { .. } | StorageError::Unreadable { .. } | StorageError::Unavailable(_) => {
            tracing::warn!(error = error as &dyn std::error::Error, "the storage failed");
            Status::internal(error)
        }
        StorageError::Backend { message, .. } => {
            tracing::warn!(error = error as &dyn std::error::Error, "the storage failed");
            Status::unclassified(message)
        }
    }
}

pub(crate) fn commit_failure(error: &CommitError) -> Status {
    match error {
        CommitError::Storage(error) => storage_failure(error),
        CommitError::Conflict { .. } => Status::internal(error),
    }
}
