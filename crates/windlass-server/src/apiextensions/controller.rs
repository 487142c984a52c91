//! What happens to definitions after they are stored: names are accepted, resources published, definitions established,
//! and the objects of deleted definitions deleted.
//!
//! One task per server follows the definitions in storage, whoever writes them. It goes by their state, not by what
//! happened: after a restart it carries on.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{
    StreamExt,
    future::BoxFuture,
    stream::{BoxStream, FuturesUnordered},
};
use serde_json::{Map, Value, json};
use tokio::task::AbortHandle;
use windlass_api::{Status, format_time};

use super::{
    custom,
    definition::{Approval, Definition, FINALIZER, Names},
};
use crate::{
    codec::go_quote,
    encoded::Encoded,
    registrations,
    registry::{
        Body, DeleteParams, GetParams, ListParams, Registry, ResourceInfo, ResourceTable, Shape, Target, Tree,
        WeakRegistry, WriteParams, as_object, metadata_mut, object_mut,
    },
    storage::{RangeQuery, Revision, Storage, StorageError, StorageEvent},
};

/// The task of a registry; dropping it stops the task.
#[derive(Debug)]
pub(crate) struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

const PREFIX: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";
/// After a write or a read of storage that failed for no reason of ours.
const RETRY: Duration = Duration::from_secs(1);

/// Publishes what is established in storage, then follows the definitions. The task ends with the handle or the registry.
pub(crate) async fn start(registry: &Registry) -> Result<Task, Status> {
    let mut controller = Controller {
        registry: registry.downgrade(),
        storage: Arc::clone(registry.storage()),
        definitions: BTreeMap::new(),
        published: BTreeMap::new(),
        cleaning: FuturesUnordered::new(),
        registered: None,
        retry: false,
    };
    let revision = controller.load(registry).await.map_err(Status::internal)?;
    Ok(Task(tokio::spawn(controller.run(revision)).abort_handle()))
}

struct Controller {
    registry: WeakRegistry,
    storage: Arc<dyn Storage>,
    /// All stored definitions, by name, in their latest known state.
    definitions: BTreeMap<String, Value>,
    /// Those whose resources are served, in the state that these were made from.
    published: BTreeMap<String, Definition>,
    /// Deletions of objects that are under way; they yield the name and uid of their definition.
    cleaning: FuturesUnordered<BoxFuture<'static, (String, String)>>,
    /// What was served when its `APIService` objects were last seen to.
    registered: Option<Arc<ResourceTable>>,
    /// Something could not be written and has to be tried again.
    retry: bool,
}

impl Controller {
    /// Reads all definitions and publishes the established ones. Nothing else is known afterwards.
    async fn load(&mut self, registry: &Registry) -> Result<Revision, StorageError> {
        let range = self.storage.range(RangeQuery::prefix(PREFIX)).await?;
        self.definitions = range.values.iter().filter_map(|value| decode(&value.body, value.modified)).collect();
        let gone =
            self.published.keys().filter(|name| !self.definitions.contains_key(*name)).cloned().collect::<Vec<_>>();
        for name in gone {
            self.unpublish(registry, &name);
        }
        for definition in self.definitions.values().map(Definition::read).collect::<Vec<_>>() {
            self.publish(registry, &definition);
        }
        Ok(range.revision)
    }

    async fn run(mut self, revision: Revision) {
        let mut cleaned = BTreeMap::<String, String>::new();
        let mut events = self.watch(revision).await;
        let names = self.definitions.keys().cloned().collect::<Vec<_>>();
        for name in names {
            self.sync(&name, &mut cleaned).await;
        }
        loop {
            self.register().await;
            let event = tokio::select! {
                event = next(&mut events) => Some(event),
                Some((name, uid)) = self.cleaning.next() => {
                    if cleaned.get(&name) == Some(&uid) {
                        cleaned.remove(&name);
                    }
                    None
                }
                () = tokio::time::sleep(RETRY), if self.retry || events.is_none() => {
                    self.retry = false;
                    None
                }
            };
            match event {
                Some(Some(Ok(event))) => self.observe(event, &mut cleaned).await,
                // The stream has ended or failed: start over from what is stored.
                Some(_) => events = None,
                None if events.is_none() => {
                    let Some(registry) = self.registry.upgrade() else { return };
                    let Ok(revision) = self.load(&registry).await else { continue };
                    drop(registry);
                    events = self.watch(revision).await;
                    self.sync_all(&mut cleaned).await;
                }
                None => self.sync_all(&mut cleaned).await,
            }
        }
    }

    /// Sees to the objects that say which versions are served, if these have changed.
    async fn register(&mut self) {
        let Some(registry) = self.registry.upgrade() else { return };
        let served = registry.resources();
        if self.registered.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, &served)) {
            return;
        }
        match registrations::sync(&registry).await {
            Ok(()) => self.registered = Some(served),
            Err(_) => self.retry = true,
        }
    }

    async fn watch(&mut self, after: Revision) -> Option<Events> {
        self.storage.watch(PREFIX, after).await.ok()
    }

    async fn observe(&mut self, event: StorageEvent, cleaned: &mut BTreeMap<String, String>) {
        let Some(registry) = self.registry.upgrade() else { return };
        let Some(name) = event.key.strip_prefix(PREFIX).map(str::to_owned) else { return };
        let state = event.current.and_then(|value| decode(&value.body, value.modified));
        let group = if let Some((name, definition)) = state {
            let group = definition.text(&["spec", "group"]).to_owned();
            self.definitions.insert(name, definition);
            group
        } else {
            let Some(gone) = self.definitions.remove(&name) else { return };
            self.unpublish(&registry, &name);
            gone.text(&["spec", "group"]).to_owned()
        };
        drop(registry);
        // Names that are given up may be what another definition of the group waits for.
        let others = self.definitions.iter().filter(|(other, definition)| {
            **other != name && definition.text(&["spec", "group"]) == group && !accepted(definition)
        });
        let others = others.map(|(name, _)| name.clone()).collect::<Vec<_>>();
        for name in std::iter::once(name).chain(others) {
            self.sync(&name, cleaned).await;
        }
    }

    async fn sync_all(&mut self, cleaned: &mut BTreeMap<String, String>) {
        for name in self.definitions.keys().cloned().collect::<Vec<_>>() {
            self.sync(&name, cleaned).await;
        }
    }

    /// Brings one definition a step further; the event of the write that this ends with leads to the next step.
    async fn sync(&mut self, name: &str, cleaned: &mut BTreeMap<String, String>) {
        let (Some(object), Some(registry)) = (self.definitions.get(name).cloned(), self.registry.upgrade()) else {
            return;
        };
        let definition = Definition::read(&object);
        if definition.terminating {
            self.publish(&registry, &definition);
            let waits = object.items(&["metadata", "finalizers"]).iter().any(|finalizer| finalizer == FINALIZER);
            if waits && cleaned.get(name) != Some(&definition.uid) {
                cleaned.insert(name.to_owned(), definition.uid.clone());
                self.clean_up(&registry, &definition);
            }
            return;
        }
        let mut new = object.clone();
        let now = format_time(registry.clock().now());
        self.accept_names(&definition, &mut new, &now);
        if let Some((holds, reason, message)) = Approval::condition(&object) {
            set_condition(&mut new, "KubernetesAPIApprovalPolicyConformant", holds, (reason, &message), &now);
        }
        if new == object {
            self.publish(&registry, &definition);
            if accepted(&object) && !definition.established {
                let (established, why) = if definition.has_sound_bundle() {
                    (true, ("InitialNamesAccepted", "the initial names have been accepted"))
                } else {
                    (false, ("InvalidCABundle", "The conversion webhook CABundle is invalid"))
                };
                set_condition(&mut new, "Established", established, why, &now);
            }
        }
        if new != object {
            let written = write_status(&registry, name, new).await;
            self.retry |= written.is_err_and(|status| !status.is_conflict() && !status.is_not_found());
        }
    }

    /// Which of the names that a definition asks for it gets, and what its status says about them.
    fn accept_names(&self, definition: &Definition, object: &mut Value, now: &str) {
        let others = self.definitions.values().map(Definition::read);
        let others = others.filter(|other| other.group == definition.group && other.name != definition.name);
        let others = others.map(|other| other.accepted).collect::<Vec<_>>();
        let is_resource = |name: &str| {
            others.iter().any(|other| {
                other.plural == name || other.singular == name || other.short_names.iter().any(|short| short == name)
            })
        };
        let is_kind = |name: &str| others.iter().any(|other| other.kind == name || other.list_kind == name);
        let (asked, mut granted) = (&definition.names, definition.accepted.clone());
        let mut conflict = None;
        let in_use = |name: &str| format!("{} is already in use", go_quote(name));
        let mut grant = |asked: &str, granted: &mut String, taken: bool, reason: &'static str| {
            if asked != granted.as_str() && taken {
                conflict = Some((reason, in_use(asked)));
            } else {
                asked.clone_into(granted);
            }
        };
        grant(&asked.plural, &mut granted.plural, is_resource(&asked.plural), "PluralConflict");
        grant(&asked.singular, &mut granted.singular, is_resource(&asked.singular), "SingularConflict");
        grant(&asked.kind, &mut granted.kind, is_kind(&asked.kind), "KindConflict");
        grant(&asked.list_kind, &mut granted.list_kind, is_kind(&asked.list_kind), "ListKindConflict");
        let new = asked.short_names.iter().filter(|short| !definition.accepted.short_names.contains(short));
        let taken = new.filter(|short| is_resource(short)).map(|short| in_use(short)).collect::<Vec<_>>();
        match &taken[..] {
            [] => granted.short_names.clone_from(&asked.short_names),
            // Conflicts of kinds are told before those of short names.
            _ if conflict.as_ref().is_some_and(|(reason, _)| reason.ends_with("KindConflict")) => {}
            [one] => conflict = Some(("ShortNamesConflict", one.clone())),
            several => conflict = Some(("ShortNamesConflict", format!("[{}]", several.join(", ")))),
        }
        granted.categories.clone_from(&asked.categories);

        let was_accepted = accepted(object);
        let status = object_mut(object, "status");
        if Names::from_status(status) != granted {
            status.insert("acceptedNames".to_owned(), granted.to_value());
        }
        match &conflict {
            None => set_condition(object, "NamesAccepted", true, ("NoConflicts", "no conflicts found"), now),
            Some((reason, message)) => set_condition(object, "NamesAccepted", false, (reason, message), now),
        }
        if !definition.established {
            let why = match conflict {
                // What keeps it from being established is told elsewhere.
                None if was_accepted && condition(object, "Established").is_some() => return,
                None => ("Installing", "the initial names have been accepted"),
                Some(_) if condition(object, "Established").is_some() => return,
                Some(_) => ("NotAccepted", "not all names are accepted"),
            };
            set_condition(object, "Established", false, why, now);
        }
    }

    /// Serves what a definition defines, if it may be served, in place of what it has defined until now.
    fn publish(&mut self, registry: &Registry, definition: &Definition) {
        let may_serve = definition.established || self.definitions.get(&definition.name).is_some_and(accepted);
        let definition = &Definition { established: true, ..definition.clone() };
        if !may_serve || self.published.get(&definition.name) == Some(definition) {
            return;
        }
        let new = custom::resources(definition, registry.entropy());
        registry.change_resources(|table| {
            let is_other = |resource: &&Arc<ResourceInfo>| !defines(definition, resource);
            table.all().iter().filter(is_other).cloned().chain(new).collect()
        });
        let before = self.published.insert(definition.name.clone(), definition.clone());
        // A watch shows objects as they were defined when it began: those of an earlier state end, and clients begin anew.
        if before.is_some_and(|before| Definition { terminating: definition.terminating, ..before } != *definition) {
            registry.drop_watches_of(&custom::prefix(definition));
        }
    }

    fn unpublish(&mut self, registry: &Registry, name: &str) {
        if let Some(definition) = self.published.remove(name) {
            let is_other = |resource: &&Arc<ResourceInfo>| !defines(&definition, resource);
            registry.change_resources(|table| table.all().iter().filter(is_other).cloned().collect());
            registry.drop_watches_of(&custom::prefix(&definition));
        }
    }

    /// Starts to delete the objects of a definition.
    fn clean_up(&self, registry: &Registry, definition: &Definition) {
        let Some(resource) = custom::stored_resource(definition, registry.entropy()) else { return };
        let cleanup = CleanUp {
            registry: registry.downgrade(),
            storage: Arc::clone(&self.storage),
            name: definition.name.clone(),
            resource,
        };
        let done = (definition.name.clone(), definition.uid.clone());
        self.cleaning.push(Box::pin(async move {
            while let Err(status) = cleanup.run().await {
                tracing::warn!(definition = cleanup.name, error = %status, "deleting custom resources failed");
                tokio::time::sleep(RETRY).await;
            }
            done
        }));
    }
}

type Events = BoxStream<'static, Result<StorageEvent, StorageError>>;

/// The next event; never, while there is no stream.
async fn next(events: &mut Option<Events>) -> Option<Result<StorageEvent, StorageError>> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

/// Whether a resource of the table is one of the definition's.
fn defines(definition: &Definition, resource: &ResourceInfo) -> bool {
    matches!(resource.shape, Shape::Custom(_))
        && resource.group == definition.group
        && resource.plural == definition.accepted.plural
}

fn decode(body: &Bytes, modified: Revision) -> Option<(String, Value)> {
    let value = Encoded::from_storage(body.clone()).ok()?.value(modified);
    Some((value.text(&["metadata", "name"]).to_owned(), value))
}

// === deleting objects ===

/// The deletion of all objects of a definition that is being deleted itself.
struct CleanUp {
    registry: WeakRegistry,
    storage: Arc<dyn Storage>,
    /// Of the definition.
    name: String,
    /// Of the objects.
    resource: Arc<ResourceInfo>,
}

impl CleanUp {
    /// Returns when nothing is left of objects and definition, or the server is gone.
    async fn run(&self) -> Result<(), Status> {
        if !self.tell_progress().await? {
            return Ok(());
        }
        loop {
            // Not held while waiting: it would keep the server alive.
            let Some(registry) = self.registry.upgrade() else { return Ok(()) };
            let all = Target::collection(&self.resource, None);
            registry.delete_collection(&all, DeleteParams::default(), ListParams::default()).await?;
            drop(registry);
            let query = RangeQuery { limit: Some(1), ..RangeQuery::prefix(self.resource.prefix.clone()) };
            let left = self.storage.range(query).await.map_err(Status::internal)?;
            if left.values.is_empty() {
                return self.remove_finalizer().await;
            }
            // Their finalizers are for others to remove.
            let events = self.storage.watch(&self.resource.prefix, left.revision).await;
            events.map_err(Status::internal)?.next().await;
        }
    }

    /// Says that objects are being deleted; false when the definition is gone.
    async fn tell_progress(&self) -> Result<bool, Status> {
        self.change(|registry, object| {
            let now = format_time(registry.clock().now());
            let why = ("InstanceDeletionInProgress", "CustomResource deletion is in progress");
            set_condition(object, "Terminating", true, why, &now);
            Some("status")
        })
        .await
    }

    async fn remove_finalizer(&self) -> Result<(), Status> {
        let change = |_: &Registry, object: &mut Value| {
            if let Some(finalizers) = metadata_mut(object).get_mut("finalizers").and_then(Value::as_array_mut) {
                finalizers.retain(|finalizer| finalizer != FINALIZER);
            }
            None
        };
        self.change(change).await.map(|_| ())
    }

    /// Changes the definition or the subresource that `change` names; again when somebody else was faster. False when
    /// the definition or the server is gone.
    async fn change(&self, change: impl Fn(&Registry, &mut Value) -> Option<&'static str>) -> Result<bool, Status> {
        loop {
            let Some(registry) = self.registry.upgrade() else { return Ok(false) };
            let Some(target) = target(&registry, &self.name) else { return Ok(false) };
            let mut object = match registry.get(&target, GetParams::default()).await {
                Ok(item) => item.value(),
                Err(status) if status.is_not_found() => return Ok(false),
                Err(status) => return Err(status),
            };
            let target = match change(&registry, &mut object) {
                Some(subresource) => target.subresource(subresource),
                None => target,
            };
            match registry.update(&target, Body::Value(object), params()).await {
                Ok(_) => return Ok(true),
                Err(status) if status.is_conflict() => {}
                Err(status) if status.is_not_found() => return Ok(false),
                Err(status) => return Err(status),
            }
        }
    }
}

// === writing ===

fn params() -> WriteParams {
    WriteParams { field_manager: "kube-apiserver".to_owned(), ..WriteParams::default() }
}

fn target(registry: &Registry, name: &str) -> Option<Target> {
    let table = registry.resources();
    let resource = table.get("apiextensions.k8s.io", "v1", "customresourcedefinitions")?;
    Some(Target::object(resource, None, name))
}

async fn write_status(registry: &Registry, name: &str, object: Value) -> Result<(), Status> {
    let Some(target) = target(registry, name) else { return Ok(()) };
    registry.update(&target.subresource("status"), Body::Value(object), params()).await.map(|_| ())
}

// === conditions ===

fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    object.items(&["status", "conditions"]).iter().find(|condition| condition["type"] == kind)
}

/// Whether all names that the definition asks for are its own.
fn accepted(object: &Value) -> bool {
    condition(object, "NamesAccepted").is_some_and(|condition| condition["status"] == "True")
}

/// Sets a condition; the time of its last transition stays when its status does.
pub(crate) fn set_condition(object: &mut Value, kind: &str, holds: bool, why: (&str, &str), now: &str) {
    let status = if holds { "True" } else { "False" };
    let before = condition(object, kind).filter(|condition| condition["status"] == status);
    let since = before.map_or(now, |condition| condition.text(&["lastTransitionTime"])).to_owned();
    let mut new = Map::new();
    for (key, value) in
        [("type", kind), ("status", status), ("lastTransitionTime", &since), ("reason", why.0), ("message", why.1)]
    {
        new.insert(key.to_owned(), value.into());
    }
    let conditions = object_mut(object, "status").entry("conditions").or_insert(Value::Null);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    match conditions.iter_mut().find(|condition| condition["type"] == kind) {
        // What else is said of it (observedGeneration) stays.
        Some(condition) => as_object(condition).extend(new),
        None => conditions.push(Value::Object(new)),
    }
}
