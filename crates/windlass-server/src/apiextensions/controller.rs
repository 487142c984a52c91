//! The CRD controller: accepts names, publishes resources, establishes CRDs, and deletes the objects of deleted CRDs.
//!
//! One task per server follows the CRDs in storage, regardless of who writes them. It acts on their state, not on
//! events, so it continues after a restart. The work for a change depends only on the affected CRDs, not on the total
//! number of CRDs.
//!
//! ```text
//! controller   the state of each CRD, and its next step
//!   └ names       the names that each CRD uses
//!   └ conditions  the conditions in the status
//!   └ instance_deletion    the deletion of the custom resources
//! ```

mod conditions;
pub(super) mod instance_deletion;
mod names;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use serde_json::Value;
use tokio::task::AbortHandle;
use windlass_api::{Status, format_time};

pub(crate) use self::conditions::begin_deletion;
use self::conditions::set_condition;
use self::{
    conditions::{accepted, condition},
    names::NameTable,
};
use super::{custom, translator::translator};
use crate::apiextensions::controller::instance_deletion::InstanceDeletion;
use crate::apiextensions::crd::{Approval, Crd, FINALIZER, Names};
use crate::{
    api_services::ApiServices,
    encoded::Encoded,
    object::{Tree, object_mut},
    registry::{Registry, ResponseBody, WeakRegistry, WriteParams},
    resource::{Body, ResourceInfo, Shape, Target},
    storage::{EventStream, RangeQuery, Revision, Storage, StorageError, StorageEvent, next_event},
};

/// The task of a registry; dropping the handle stops the task.
#[derive(Debug)]
pub(crate) struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

const PREFIX: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";
/// The pause after a failed read or write of storage.
const RETRY: Duration = Duration::from_secs(1);

/// Publishes the established CRDs in storage, then follows all CRDs. The task ends when the handle or the registry is
/// dropped.
pub(crate) async fn start(registry: &Registry) -> Result<Task, Status> {
    let mut controller = Controller {
        registry: registry.downgrade(),
        storage: Arc::clone(registry.storage()),
        definitions: BTreeMap::new(),
        names: NameTable::default(),
        published: BTreeMap::new(),
        cleaning: FuturesUnordered::new(),
        api_services: ApiServices::default(),
        retry: BTreeSet::new(),
    };
    let revision = controller.load(registry).await.map_err(Status::internal)?;
    Ok(Task(tokio::spawn(controller.run(revision)).abort_handle()))
}

struct Controller {
    registry: WeakRegistry,
    storage: Arc<dyn Storage>,
    /// All stored CRDs, by name.
    definitions: BTreeMap<String, TrackedCrd>,
    names: NameTable,
    /// The CRDs whose resources are served, in the state from which the resources were created.
    published: BTreeMap<String, Crd>,
    /// The running deletions of custom resources.
    cleaning: FuturesUnordered<BoxFuture<'static, ()>>,
    api_services: ApiServices,
    /// The CRDs whose status could not be written.
    retry: BTreeSet<String>,
}

/// A CRD in its latest known state.
struct TrackedCrd {
    object: Value,
    revision: Revision,
    /// `true` if the deletion of its custom resources has started.
    is_cleaned: bool,
}

impl Controller {
    /// Reads all CRDs and publishes the established ones. Forgets CRDs that are no longer stored.
    async fn load(&mut self, registry: &Registry) -> Result<Revision, StorageError> {
        let range = self.storage.range(RangeQuery::prefix(PREFIX)).await?;
        let mut removed: BTreeSet<String> = self.definitions.keys().cloned().collect();
        for value in &range.values {
            if let Some((name, object)) = decode(&value.body, value.modified) {
                removed.remove(&name);
                self.remember(&name, object, value.modified);
                if let Some(known) = self.definitions.get(&name) {
                    let crd = Crd::read(&known.object);
                    self.publish(registry, &crd);
                }
            }
        }
        for name in removed {
            self.forget(registry, &name);
        }
        registry.observe_definitions(range.revision);
        Ok(range.revision)
    }

    async fn run(mut self, revision: Revision) {
        let mut events = self.watch(revision).await;
        self.sync_all().await;
        loop {
            let is_registered = match self.registry.upgrade() {
                Some(registry) => self.api_services.sync(&registry).await,
                None => return,
            };
            let has_failed = !is_registered || !self.retry.is_empty() || events.is_none();
            let event = tokio::select! {
                event = next(&mut events) => event,
                Some(()) = self.cleaning.next() => continue,
                () = tokio::time::sleep(RETRY), if has_failed => {
                    for name in std::mem::take(&mut self.retry) {
                        self.sync(&name).await;
                    }
                    if events.is_some() {
                        continue;
                    }
                    None
                }
            };
            match event {
                Some(Ok(event)) => self.observe(event).await,
                // The stream has ended or failed, so the controller restarts from the stored state.
                _ if events.is_some() => events = None,
                _ => {
                    let Some(registry) = self.registry.upgrade() else { return };
                    let Ok(revision) = self.load(&registry).await else { continue };
                    drop(registry);
                    events = self.watch(revision).await;
                    self.sync_all().await;
                }
            }
        }
    }

    async fn watch(&mut self, after: Revision) -> Option<EventStream> {
        self.storage.watch(PREFIX, after).await.ok()
    }

    async fn observe(&mut self, event: StorageEvent) {
        let Some(registry) = self.registry.upgrade() else { return };
        let Some(name) = event.key.strip_prefix(PREFIX).map(str::to_owned) else { return };
        // Ignores the controller's own writes.
        if self.definitions.get(&name).is_some_and(|known| known.revision >= event.revision) {
            registry.observe_definitions(event.revision);
            return;
        }
        let state = event.current.and_then(|value| Some((decode(&value.body, value.modified)?, value.modified)));
        let freed = if let Some(((name, object), revision)) = state {
            self.remember(&name, object, revision)
        } else {
            self.forget(&registry, &name)
        };
        drop(registry);
        for name in std::iter::once(name).chain(freed) {
            self.sync(&name).await;
        }
        if let Some(registry) = self.registry.upgrade() {
            registry.observe_definitions(event.revision);
        }
    }

    /// Records the state of a CRD. Returns the CRDs that may now get a name that it has released.
    fn remember(&mut self, name: &str, object: Value, revision: Revision) -> Vec<String> {
        let uid = |object: &Value| object.text(&["metadata", "uid"]).to_owned();
        let before = self.definitions.remove(name);
        let old = before.as_ref().map(|known| names_of(&known.object)).unwrap_or_default();
        let is_cleaned = before.is_some_and(|known| known.is_cleaned && uid(&known.object) == uid(&object));
        let freed = self.names.replace(object.text(&["spec", "group"]), name, &old, &names_of(&object));
        self.definitions.insert(name.to_owned(), TrackedCrd { object, revision, is_cleaned });
        freed
    }

    /// Removes a deleted CRD and its resources. Returns the CRDs that may now get its names.
    fn forget(&mut self, registry: &Registry, name: &str) -> Vec<String> {
        let Some(removed) = self.definitions.remove(name) else { return Vec::new() };
        self.unpublish(registry, name);
        self.names.remove(removed.object.text(&["spec", "group"]), name, &names_of(&removed.object))
    }

    async fn sync_all(&mut self) {
        for name in self.definitions.keys().cloned().collect::<Vec<_>>() {
            self.sync(&name).await;
        }
    }

    /// Advances a CRD, and those that get its released names, until nothing changes.
    async fn sync(&mut self, name: &str) {
        let mut names = vec![name.to_owned()];
        while let Some(name) = names.pop() {
            while let Some(freed) = self.advance(&name).await {
                names.extend(freed);
            }
        }
    }

    /// Advances a CRD by one step. Returns the CRDs that may now get a name that it has released, or `None` if it is
    /// unchanged.
    async fn advance(&mut self, name: &str) -> Option<Vec<String>> {
        let registry = self.registry.upgrade()?;
        let known = self.definitions.get_mut(name)?;
        let crd = Crd::read(&known.object);
        if crd.terminating {
            let waits = known.object.items(&["metadata", "finalizers"]).iter().any(|finalizer| finalizer == FINALIZER);
            if waits && !known.is_cleaned {
                known.is_cleaned = true;
                self.cleaning
                    .extend(InstanceDeletion::new(&registry, &crd).map(|work| Box::pin(work.run()) as BoxFuture<_>));
            }
            self.publish(&registry, &crd);
            return None;
        }
        let (object, before) = (&known.object, known.revision);
        let mut new = object.clone();
        let now = format_time(registry.clock().now());
        accept_names(&mut self.names, &crd, &mut new, &now);
        if let Some((holds, reason, message)) = Approval::condition(object) {
            set_condition(&mut new, "KubernetesAPIApprovalPolicyConformant", holds, (reason, &message), &now);
        }
        if new == *object {
            if accepted(object) && !crd.established {
                let (established, why) = if crd.has_sound_bundle() {
                    (true, ("InitialNamesAccepted", "the initial names have been accepted"))
                } else {
                    (false, ("InvalidCABundle", "The conversion webhook CABundle is invalid"))
                };
                set_condition(&mut new, "Established", established, why, &now);
            }
            let is_unchanged = new == *object;
            self.publish(&registry, &crd);
            if is_unchanged {
                return None;
            }
        }
        match write_status(&registry, name, new).await {
            // Stops if the write changed nothing.
            Ok(Some((object, revision))) => (revision != before).then(|| self.remember(name, object, revision)),
            Ok(None) => None,
            // The watch event of the concurrent change triggers another attempt.
            Err(status) if status.is_conflict() || status.is_not_found() => None,
            Err(_) => {
                self.retry.insert(name.to_owned());
                None
            }
        }
    }

    /// Publishes the resources of a CRD if its names are accepted, and replaces its previous resources.
    fn publish(&mut self, registry: &Registry, crd: &Crd) {
        let may_serve = crd.established || self.definitions.get(&crd.name).is_some_and(|known| accepted(&known.object));
        let crd = &Crd { established: true, ..crd.clone() };
        if !may_serve || self.published.get(&crd.name) == Some(crd) {
            return;
        }
        let new = custom::resources(crd, registry.resources().kubernetes(), translator(registry, crd));
        registry.change_resources(|table| {
            let is_other = |resource: &&Arc<ResourceInfo>| !defines(crd, resource);
            table.all().iter().filter(is_other).cloned().chain(new).collect()
        });
        let before = self.published.insert(crd.name.clone(), crd.clone());
        self.api_services.replace(versions(before.as_ref()), versions(Some(crd)));
        // An open watch uses the old schema. It is closed if the CRD has changed, so that clients restart it.
        if before.is_some_and(|before| Crd { terminating: crd.terminating, ..before } != *crd) {
            registry.drop_watches_of(&custom::prefix(crd));
        }
    }

    fn unpublish(&mut self, registry: &Registry, name: &str) {
        if let Some(crd) = self.published.remove(name) {
            let is_other = |resource: &&Arc<ResourceInfo>| !defines(&crd, resource);
            registry.change_resources(|table| table.all().iter().filter(is_other).cloned().collect());
            self.api_services.replace(versions(Some(&crd)), Vec::new());
            registry.drop_watches_of(&custom::prefix(&crd));
        }
    }
}

/// Grants a CRD its requested names if they are free, and reports the result in its status.
fn accept_names(names: &mut NameTable, crd: &Crd, object: &mut Value, now: &str) {
    let (granted, conflict) = names.grant(&crd.group, &crd.name, &crd.names, &crd.accepted);
    let was_accepted = accepted(object);
    let status = object_mut(object, "status");
    if Names::from_status(status) != granted {
        status.insert("acceptedNames".to_owned(), granted.to_value());
    }
    match &conflict {
        None => set_condition(object, "NamesAccepted", true, ("NoConflicts", "no conflicts found"), now),
        Some((reason, message)) => set_condition(object, "NamesAccepted", false, (reason, message), now),
    }
    if !crd.established {
        let why = match conflict {
            // `advance` reports why the CRD is not established yet.
            None if was_accepted && condition(object, "Established").is_some() => return,
            None => ("Installing", "the initial names have been accepted"),
            Some(_) if condition(object, "Established").is_some() => return,
            Some(_) => ("NotAccepted", "not all names are accepted"),
        };
        set_condition(object, "Established", false, why, now);
    }
}

/// Returns the next event; waits forever if there is no stream.
async fn next(events: &mut Option<EventStream>) -> Option<Result<StorageEvent, StorageError>> {
    match events {
        Some(events) => next_event(events).await,
        None => std::future::pending().await,
    }
}

/// Reports whether the CRD defines a resource of the table.
fn defines(crd: &Crd, resource: &ResourceInfo) -> bool {
    matches!(resource.shape, Shape::Custom(_)) && resource.group == crd.group && resource.plural == crd.accepted.plural
}

/// Returns the groups and versions that a CRD serves.
fn versions(crd: Option<&Crd>) -> Vec<(String, String)> {
    let served = crd.into_iter().flat_map(|crd| {
        let served = crd.versions.iter().filter(|version| version.served);
        served.map(|version| (crd.group.clone(), version.name.clone()))
    });
    served.collect()
}

/// Returns the accepted names of a CRD.
fn names_of(object: &Value) -> Names {
    object.at(&["status"]).and_then(Value::as_object).map(Names::from_status).unwrap_or_default()
}

fn decode(body: &Bytes, modified: Revision) -> Option<(String, Value)> {
    let value = Encoded::from_storage(body.clone()).ok()?.value(modified);
    Some((value.text(&["metadata", "name"]).to_owned(), value))
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

/// Writes the status of a CRD. Returns the CRD as stored afterwards.
async fn write_status(registry: &Registry, name: &str, object: Value) -> Result<Option<(Value, Revision)>, Status> {
    let Some(target) = target(registry, name) else { return Ok(None) };
    let written = registry.update(&target.subresource("status"), Body::Value(object), params()).await?;
    match written.answer {
        ResponseBody::Object(item) => Ok(Some((item.value(), item.revision))),
        ResponseBody::Status(_) => Ok(None),
    }
}
