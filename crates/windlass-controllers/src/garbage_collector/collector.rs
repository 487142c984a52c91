//! Processing of work items: reads objects from the server, computes the decision, and carries it out.

use std::sync::Arc;

use futures::{StreamExt, stream};
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::OwnerReference};
use parking_lot::Mutex;
use serde_json::{Value, json};
use thiserror::Error;
use windlass_api::{ApiResource, ObjectExt, ObjectKey, ObjectRef, OwnerRef, PartialObject, Patch, Scope};
use windlass_cache::Notification;
use windlass_client::Client;
use windlass_queue::WorkQueue;
use windlass_runtime::events::{Note, Recorder};

use super::{
    decision::{ForegroundStep, Standing, Verdict, decide, foreground_step, is_settled},
    graph::{DeletionStage, FOREGROUND, Graph, Job, NodeSource, NodeView, ORPHAN},
    identity::Identity,
    kinds::{Kinds, is_ignored},
};

/// The number of dependents orphaned at the same time.
const ORPHANED_AT_ONCE: usize = 8;
/// The maximum number of attempts for a conflicting write, before the work item is put off.
const ATTEMPTS: usize = 5;

/// The graph, the work queue, and the client that carries out decisions.
pub(crate) struct Collector {
    client: Client,
    /// Never locked across an await.
    graph: Mutex<Graph>,
    kinds: Mutex<Arc<Kinds>>,
    queue: WorkQueue<Job>,
    recorder: Recorder,
}

/// The outcome of a work item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done, until an event queues it again.
    Done,
    /// Queued again with back-off, because there may be no further event.
    Again,
}

/// An error of a work item. It is retried with back-off.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// The API server rejected a request or could not be reached.
    #[error(transparent)]
    Client(#[from] windlass_client::Error),
    /// The server does not serve the kind, or not yet.
    #[error("no served resource found for {0}")]
    UnknownKind(Identity),
}

type Result<T, E = Failure> = std::result::Result<T, E>;

impl Collector {
    pub(crate) fn new(client: Client, queue: WorkQueue<Job>, recorder: Recorder) -> Self {
        Self { client, graph: Mutex::default(), kinds: Mutex::default(), queue, recorder }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn queue(&self) -> &WorkQueue<Job> {
        &self.queue
    }

    /// Replaces the known kinds.
    pub(crate) fn learn(&self, kinds: &Arc<Kinds>) {
        *self.kinds.lock() = Arc::clone(kinds);
    }

    /// Returns the number of objects in the graph.
    pub(crate) fn len(&self) -> usize {
        self.graph.lock().len()
    }

    /// Updates the graph after an informer's notification about this kind.
    pub(crate) fn notified(&self, api_version: &Arc<str>, kind: &Arc<str>, change: &Notification<PartialObject>) {
        let jobs = {
            let mut graph = self.graph.lock();
            match change {
                Notification::Added { object, .. } => {
                    graph.observe(Identity::of(api_version, kind, object.meta()), object.meta())
                }
                Notification::Updated { old, new } => {
                    // The informer missed a deletion: this is a recreated object of the same name.
                    let replaced = old.meta().uid() != new.meta().uid();
                    let mut jobs = if replaced { graph.remove(&old.meta().uid().to_string()) } else { Vec::new() };
                    jobs.extend(graph.observe(Identity::of(api_version, kind, new.meta()), new.meta()));
                    jobs
                }
                Notification::Deleted(deleted) => graph.remove(&deleted.object.meta().uid().to_string()),
            }
        };
        self.add(jobs);
    }

    /// Removes a kind that is no longer served.
    pub(crate) fn forget_kind(&self, api_version: &str, kind: &str) {
        let jobs = self.graph.lock().remove_kind(api_version, kind);
        self.add(jobs);
    }

    /// Processes one work item.
    pub(crate) async fn process(&self, job: &Job) -> Result<Outcome> {
        match job {
            Job::AttemptToDelete(uid) => self.attempt_to_delete(uid).await,
            Job::Orphan(uid) => self.orphan(uid).await,
            Job::Misplaced { dependent, owner } => {
                self.tell_misplaced(dependent, owner);
                Ok(Outcome::Done)
            }
        }
    }

    /// Records an event for a reference to an owner in another namespace.
    fn tell_misplaced(&self, dependent: &str, owner: &str) {
        let Some((object, reference)) = self.graph.lock().reference(dependent, owner) else { return };
        let namespace = object.namespace.as_deref().unwrap_or_default();
        let OwnerRef { api_version, kind, name, uid, .. } = &reference;
        let message = format!(
            "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist in \
             namespace {namespace:?}"
        );
        let about = ObjectReference {
            api_version: Some(object.api_version.to_string()),
            kind: Some(object.kind.to_string()),
            namespace: object.namespace.as_deref().map(str::to_owned),
            name: Some(object.name.to_string()),
            uid: Some(object.uid.to_string()),
            ..ObjectReference::default()
        };
        self.recorder.record_about(about, Note::warning("OwnerRefInvalidNamespace", message));
    }

    async fn attempt_to_delete(&self, uid: &str) -> Result<Outcome> {
        let Some(view) = self.view(uid) else { return Ok(Outcome::Done) };
        if is_settled(&view) {
            return Ok(Outcome::Done);
        }
        let resource = self.resource(&view.identity)?;
        let Some(live) = self.live(&resource, &view.identity).await? else {
            self.found_absent(&resource, &view.identity);
            return Ok(Outcome::Done);
        };
        if view.stage == DeletionStage::DeletingDependents {
            self.foreground(&resource, &view, live).await?;
        } else if !is_ignored(&resource) {
            self.by_owners(&resource, &view, &live).await?;
        }
        // An object that was created and deleted while its informer was disconnected causes no event.
        Ok(if view.source == NodeSource::Virtual { Outcome::Again } else { Outcome::Done })
    }

    /// Decides on an object by its owners, and carries the decision out.
    async fn by_owners(&self, resource: &ApiResource, view: &NodeView, live: &PartialObject) -> Result<()> {
        let Some(owners) = self.standings(&view.identity, live).await? else { return Ok(()) };
        let key = key_of(live);
        let objects = self.client.metadata(resource);
        let outcome = match decide(&view.dependents, live.finalizers(), &owners) {
            Verdict::Keep => return Ok(()),
            Verdict::Detach(stay) => {
                tracing::debug!(object = %view.identity, "removing references to owners that are gone");
                objects.patch(key, patch(live, "ownerReferences", json!(stay))).await.map(drop)
            }
            Verdict::Delete { propagation, unblock } => {
                let mut version = live.resource_version().unwrap_or_default().to_owned();
                if let Some(references) = unblock {
                    let unblocked = objects.patch(key.clone(), patch(live, "ownerReferences", json!(references))).await;
                    match unblocked {
                        Ok(object) => object.resource_version().unwrap_or_default().clone_into(&mut version),
                        Err(error) if error.is_not_found() => return Ok(()),
                        Err(error) => return Err(error.into()),
                    }
                }
                tracing::info!(object = %view.identity, ?propagation, "deleting an object whose owners are gone");
                let deletion = objects.delete(key).uid(&*view.identity.uid).resource_version(version);
                deletion.propagation(propagation).await.map(drop)
            }
        };
        match outcome {
            Err(error) if error.is_not_found() => Ok(()),
            other => Ok(other?),
        }
    }

    /// Returns the owners of an object with their standing, or `None` if that cannot be determined, even by waiting.
    async fn standings(
        &self,
        identity: &Identity,
        live: &PartialObject,
    ) -> Result<Option<Vec<(OwnerReference, Standing)>>> {
        let mut owners = Vec::with_capacity(live.owner_references().len());
        for reference in live.owner_references() {
            let Some(standing) = self.standing(identity, reference).await? else { return Ok(None) };
            owners.push((reference.clone(), standing));
        }
        Ok(Some(owners))
    }

    async fn standing(&self, object: &Identity, reference: &OwnerReference) -> Result<Option<Standing>> {
        let owner = Identity::of_owner(&owner_ref(reference), object.namespace.clone());
        if self.graph.lock().is_absent(&owner) {
            return Ok(Some(Standing::Dangling));
        }
        let resource = self.resource(&owner)?;
        if object.namespace.is_none() && resource.scope == Scope::Namespaced {
            tracing::warn!(%object, owner = %owner, "a cluster-scoped object has a namespaced owner; it is kept");
            return Ok(None);
        }
        Ok(Some(match self.live(&resource, &owner).await? {
            None => {
                self.graph.lock().record_absent(scoped(owner, &resource));
                Standing::Dangling
            }
            Some(live) if live.is_deleting() && has_finalizer(&live, FOREGROUND) => Standing::Waiting,
            Some(_) => Standing::Solid,
        }))
    }

    /// Performs one step of the foreground deletion of an owner.
    async fn foreground(&self, resource: &ApiResource, view: &NodeView, live: PartialObject) -> Result<()> {
        match foreground_step(&view.dependents) {
            ForegroundStep::Finish => self.remove_finalizer(resource, &view.identity, live, FOREGROUND).await,
            ForegroundStep::Await(dependents) => {
                self.add(dependents.into_iter().map(Job::AttemptToDelete).collect());
                Ok(())
            }
        }
    }

    /// Removes an owner that is being deleted from all of its dependents, then removes its finalizer.
    async fn orphan(&self, uid: &str) -> Result<Outcome> {
        let Some(view) = self.view(uid) else { return Ok(Outcome::Done) };
        let resource = self.resource(&view.identity)?;
        let Some(live) = self.live(&resource, &view.identity).await? else {
            self.found_absent(&resource, &view.identity);
            return Ok(Outcome::Done);
        };
        if !(live.is_deleting() && has_finalizer(&live, ORPHAN)) {
            return Ok(Outcome::Done);
        }
        let dependents = self.graph.lock().dependents(uid);
        tracing::debug!(owner = %view.identity, dependents = dependents.len(), "orphaning");
        let detached: Vec<_> = stream::iter(dependents)
            .map(|dependent| async move { self.detach(&dependent, uid).await })
            .buffered(ORPHANED_AT_ONCE)
            .collect()
            .await;
        detached.into_iter().collect::<Result<()>>()?;
        self.remove_finalizer(&resource, &view.identity, live, ORPHAN).await?;
        Ok(Outcome::Done)
    }

    /// Removes an owner from one dependent.
    async fn detach(&self, dependent: &Identity, owner: &str) -> Result<()> {
        let resource = self.resource(dependent)?;
        let Some(live) = self.live(&resource, dependent).await? else { return Ok(()) };
        self.change(&resource, dependent, live, |live| {
            let stay: Vec<_> = live.owner_references().iter().filter(|reference| reference.uid != owner).collect();
            (stay.len() < live.owner_references().len()).then(|| patch(live, "ownerReferences", json!(stay)))
        })
        .await
    }

    async fn remove_finalizer(
        &self,
        resource: &ApiResource,
        identity: &Identity,
        live: PartialObject,
        finalizer: &str,
    ) -> Result<()> {
        self.change(resource, identity, live, |live| {
            let stay: Vec<_> = live.finalizers().iter().filter(|other| *other != finalizer).collect();
            (stay.len() < live.finalizers().len()).then(|| patch(live, "finalizers", json!(stay)))
        })
        .await
    }

    /// Patches an object, and retries on its newer state after a conflict. A missing object needs no change.
    async fn change(
        &self,
        resource: &ApiResource,
        identity: &Identity,
        mut live: PartialObject,
        change: impl Fn(&PartialObject) -> Option<Patch>,
    ) -> Result<()> {
        let objects = self.client.metadata(resource);
        for left in (0..ATTEMPTS).rev() {
            let Some(patch) = change(&live) else { return Ok(()) };
            match objects.patch(key_of(&live), patch).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) if error.is_conflict() && left > 0 => {}
                Err(error) => return Err(error.into()),
            }
            match self.live(resource, identity).await? {
                Some(newer) => live = newer,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Reads the object from the server. Returns `None` if it does not exist or has another UID.
    async fn live(&self, resource: &ApiResource, identity: &Identity) -> Result<Option<PartialObject>> {
        let namespace = identity.namespace.clone().filter(|_| resource.scope == Scope::Namespaced);
        if resource.scope == Scope::Namespaced && namespace.is_none() {
            // A namespaced object cannot exist without a namespace.
            return Ok(None);
        }
        let key = ObjectKey { namespace, name: Arc::clone(&identity.name) };
        let found = self.client.metadata(resource).get_opt(ObjectRef::from(key)).await?;
        Ok(found.filter(|object| object.uid() == Some(&*identity.uid)))
    }

    fn view(&self, uid: &str) -> Option<NodeView> {
        self.graph.lock().view(uid)
    }

    fn resource(&self, identity: &Identity) -> Result<ApiResource> {
        let kinds = Arc::clone(&self.kinds.lock());
        let found = kinds.find(&identity.api_version, &identity.kind);
        found.cloned().ok_or_else(|| Failure::UnknownKind(identity.clone()))
    }

    fn found_absent(&self, resource: &ApiResource, identity: &Identity) {
        let jobs = self.graph.lock().found_absent(&scoped(identity.clone(), resource));
        self.add(jobs);
    }

    fn add(&self, jobs: Vec<Job>) {
        for job in jobs {
            self.queue.add(job);
        }
    }
}

/// Removes the namespace from the identity of a cluster-scoped object.
fn scoped(identity: Identity, resource: &ApiResource) -> Identity {
    match resource.scope {
        Scope::Namespaced => identity,
        Scope::Cluster => identity.without_namespace(),
    }
}

fn owner_ref(reference: &OwnerReference) -> OwnerRef {
    OwnerRef {
        api_version: (&*reference.api_version).into(),
        kind: (&*reference.kind).into(),
        name: (&*reference.name).into(),
        uid: (&*reference.uid).into(),
        controller: reference.controller.unwrap_or_default(),
        block_owner_deletion: reference.block_owner_deletion.unwrap_or_default(),
    }
}

fn key_of(object: &PartialObject) -> ObjectRef<PartialObject> {
    object.object_ref()
}

fn has_finalizer(object: &PartialObject, finalizer: &str) -> bool {
    object.finalizers().iter().any(|other| other == finalizer)
}

/// Builds a patch that replaces one list of the metadata, if the object is unchanged since it was read. A merge patch,
/// because built-in and custom resources both support it.
fn patch(live: &PartialObject, field: &str, list: Value) -> Patch {
    let mut metadata = json!({"uid": live.uid(), "resourceVersion": live.resource_version()});
    metadata[field] = list;
    Patch::Merge(json!({ "metadata": metadata }))
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collector").field("objects", &self.len()).field("queue", &self.queue).finish_non_exhaustive()
    }
}
