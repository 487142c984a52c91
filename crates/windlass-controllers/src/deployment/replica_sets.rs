//! The replica sets of one deployment during one reconcile: found, created, scaled, cleaned up.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet, ReplicaSetSpec},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use windlass_api::{ObjectExt, Resource as _};
use windlass_runtime::{Context, events::Note};

use super::{
    Memory, annotation, pause_progress,
    scale::{self, ReplicaSets, Scaling, Slack, desired_replicas, spec_replicas},
    status::{self, Progress},
    template,
};
use crate::error::ReconcileError;

/// The action if no replica set has the deployment's template yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum IfMissing {
    Create,
    Leave,
}

/// A deployment and its replica sets, updated during one reconcile.
pub(super) struct Rollout<'c> {
    cx: &'c Context,
    memory: &'c Memory,
    deployment: Deployment,
    sets: ReplicaSets,
    /// The progress to report in the conditions.
    progress: Option<Progress>,
    /// `true` if the deployment's revision differs from the one on the server.
    revised: bool,
}

impl<'c> Rollout<'c> {
    pub(super) fn new(cx: &'c Context, memory: &'c Memory, deployment: Deployment, mut all: Vec<ReplicaSet>) -> Self {
        all.sort_by(|a, b| {
            let age = a.metadata.creation_timestamp.cmp(&b.metadata.creation_timestamp);
            age.then_with(|| a.name().cmp(b.name()))
        });
        let new = template::find_new(&deployment, &all).map(|set| set.name().to_owned());
        let (new, old): (Vec<_>, Vec<_>) = all.into_iter().partition(|set| Some(set.name()) == new.as_deref());
        let sets = ReplicaSets { new: new.into_iter().next(), old };
        Self { cx, memory, deployment, sets, progress: None, revised: false }
    }

    pub(super) fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    pub(super) fn sets(&self) -> &ReplicaSets {
        &self.sets
    }

    /// Records a pause or a resumption for the conditions.
    pub(super) fn record_pause(&mut self) {
        self.progress = pause_progress(&self.deployment);
    }

    /// Finds or creates the replica set of the deployment's template, and updates its annotations and the deployment's
    /// revision.
    pub(super) async fn sync_new(&mut self, missing: IfMissing) -> Result<(), ReconcileError> {
        let newest_old = self.sets.old.iter().map(|set| annotation::revision(set.annotations())).max().unwrap_or(0);
        let revision = newest_old + 1;
        match (self.sets.new.take(), missing) {
            (Some(set), _) => self.update_new(set, revision).await?,
            (None, IfMissing::Leave) => return Ok(()),
            (None, IfMissing::Create) => {
                if annotation::revision(self.deployment.annotations()) > newest_old {
                    self.look_for_newest().await?;
                }
                self.create_new(revision).await?;
            }
        }
        self.take_over_revision();
        Ok(())
    }

    /// Checks on the server for a newer replica set that the cache does not show yet. Continuing without it would use
    /// its revision twice and ignore its pods.
    async fn look_for_newest(&self) -> Result<(), ReconcileError> {
        let resource = ReplicaSet::api_resource();
        let namespace = self.deployment.namespace().unwrap_or_default();
        let live = self.cx.live().metadata(&resource).list().within(namespace).await?;
        let unseen = live.items.iter().find(|set| {
            set.is_controlled_by(&self.deployment) && !self.sets.all().any(|known| known.uid() == set.uid())
        });
        match unseen {
            Some(set) => Err(ReconcileError::StaleCache { what: format!("replica set {namespace}/{}", set.name()) }),
            None => Ok(()),
        }
    }

    async fn update_new(&mut self, mut set: ReplicaSet, revision: i64) -> Result<(), ReconcileError> {
        let limits = limits(&self.deployment);
        let min_ready = self.deployment.spec.as_ref().and_then(|spec| spec.min_ready_seconds);
        let annotations = set.annotations_mut();
        let mut changed = annotation::copy(self.deployment.annotations(), annotations);
        changed |= annotation::set_revision(annotations, revision);
        if !annotations.contains_key(annotation::DESIRED_REPLICAS) {
            for (key, value) in limits {
                changed |= annotation::set(annotations, key, &value);
            }
        }
        if let Some(spec) = &mut set.spec
            && spec.min_ready_seconds != min_ready
        {
            spec.min_ready_seconds = min_ready;
            changed = true;
        }
        if status::progressing_reason(&self.deployment).is_none() && self.progress.is_none() {
            self.progress = Some(Progress::Found(set.name().to_owned()));
        }
        if changed {
            self.ensure_current().await?;
            set = self.cx.client().update(&set).await?;
        }
        self.sets.new = Some(set);
        Ok(())
    }

    /// Checks that the deployment is the current one. Called before replica sets are created, scaled or deleted.
    async fn ensure_current(&self) -> Result<(), ReconcileError> {
        self.memory.confirmed.ensure(self.cx, &self.deployment).await
    }

    async fn create_new(&mut self, revision: i64) -> Result<(), ReconcileError> {
        self.ensure_current().await?;
        let mut set = self.replica_set(revision);
        set.spec.get_or_insert_default().replicas = Some(scale::new_replicas(&self.deployment, &self.sets));
        match self.cx.client().create(&set).await {
            Ok(created) => {
                let (key, of) = (self.deployment.object_ref(), self.deployment.uid().unwrap_or_default());
                self.memory.expectations.created(key.key(), of, created.uid().unwrap_or_default());
                if spec_replicas(&created) > 0 {
                    self.record_scaling(created.name(), 0, spec_replicas(&created));
                }
                self.progress = Some(Progress::Created(created.name().to_owned()));
                self.sets.new = Some(created);
                Ok(())
            }
            Err(error) if error.is_already_exists() => self.resolve_collision(&set, revision).await,
            // In a terminating namespace nothing can be created, and that is not an error.
            Err(error) if error.status().is_some_and(|status| status.has_cause("NamespaceTerminating")) => {
                Err(error.into())
            }
            Err(error) => {
                let why = error.status().map_or_else(|| error.to_string(), ToString::to_string);
                let message = format!("Failed to create new replica set {:?}: {why}", set.name());
                self.memory.recorder.record(&self.deployment, Note::warning("ReplicaSetCreateError", message.as_str()));
                self.progress = Some(Progress::CreateFailed(message));
                self.write_status().await?;
                Err(error.into())
            }
        }
    }

    /// Handles an existing replica set of that name. Either it is ours and the cache does not show it yet, or another
    /// template has the same hash. In the latter case, the next attempt uses another name.
    async fn resolve_collision(&mut self, wanted: &ReplicaSet, revision: i64) -> Result<(), ReconcileError> {
        let Some(live) = self.cx.live().get_opt::<ReplicaSet>(wanted.object_ref()).await? else { return Ok(()) };
        let same = template::find_new(&self.deployment, std::slice::from_ref(&live)).is_some();
        if same && live.is_controlled_by(&self.deployment) {
            return self.update_new(live, revision).await;
        }
        let status = self.deployment.status.get_or_insert_default();
        status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
        self.put_status().await?;
        Ok(())
    }

    /// Copies the newest replica set's revision to the deployment. It is written with the status, so the generation
    /// does not change.
    fn take_over_revision(&mut self) {
        let Some(new) = &self.sets.new else { return };
        let Some(revision) = new.annotations().get(annotation::REVISION) else { return };
        self.revised |= annotation::set(self.deployment.annotations_mut(), annotation::REVISION, revision);
    }

    fn record_scaling(&self, set: &str, from: i32, to: i32) {
        let direction = if from < to { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {set} from {from} to {to}");
        self.memory.recorder.record(&self.deployment, Note::normal("ScalingReplicaSet", message));
    }

    /// Builds the replica set of the deployment's template, without a replica count.
    fn replica_set(&self, revision: i64) -> ReplicaSet {
        let spec = self.deployment.spec.clone().unwrap_or_default();
        let collisions = self.deployment.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
        let hash = template::hash(&spec.template, collisions);
        let label = |labels: Option<BTreeMap<String, String>>| {
            let mut labels = labels.unwrap_or_default();
            labels.insert(template::HASH_LABEL.to_owned(), hash.clone());
            Some(labels)
        };
        let mut pods = spec.template;
        let metadata = pods.metadata.get_or_insert_default();
        metadata.labels = label(metadata.labels.take());
        let labels = metadata.labels.clone();

        let mut annotations = BTreeMap::new();
        annotation::copy(self.deployment.annotations(), &mut annotations);
        annotation::set_revision(&mut annotations, revision);
        annotations.extend(limits(&self.deployment).map(|(key, value)| (key.to_owned(), value)));

        let metadata = ObjectMeta {
            name: Some(format!("{}-{hash}", self.deployment.name())),
            namespace: self.deployment.namespace().map(str::to_owned),
            labels,
            annotations: Some(annotations),
            ..ObjectMeta::default()
        };
        let selector = LabelSelector { match_labels: label(spec.selector.match_labels), ..spec.selector };
        let spec = ReplicaSetSpec {
            min_ready_seconds: spec.min_ready_seconds,
            replicas: None,
            selector,
            template: Some(pods),
        };
        ReplicaSet { metadata, spec: Some(spec), status: None }.controlled_by(&self.deployment)
    }

    /// Scales replica sets.
    pub(super) async fn scale(&mut self, targets: &[Scaling]) -> Result<(), ReconcileError> {
        let limits = limits(&self.deployment);
        let mut scaled = Vec::new();
        let target_of = |set: &ReplicaSet| targets.iter().position(|(name, _)| name == set.name());
        let mut sets: Vec<_> = self.sets.old.iter_mut().chain(&mut self.sets.new).collect();
        // Scales in the order of the targets, which may be sorted by size.
        sets.sort_by_key(|set| target_of(set).unwrap_or(usize::MAX));
        for set in sets {
            let target = target_of(set).map(|at| targets[at].1);
            let mut changed = set.clone();
            let mut differs = false;
            if let Some(replicas) = target.filter(|replicas| *replicas != spec_replicas(set)) {
                changed.spec.get_or_insert_default().replicas = Some(replicas);
                differs = true;
            }
            // Later proportional scaling compares replica sets that have pods with these values.
            if target.is_some() || spec_replicas(set) > 0 {
                for (key, value) in &limits {
                    differs |= annotation::set(changed.annotations_mut(), key, value);
                }
            }
            if differs {
                self.memory.confirmed.ensure(self.cx, &self.deployment).await?;
                let before = spec_replicas(set);
                *set = self.cx.client().update(&changed).await?;
                scaled.extend(
                    (before != spec_replicas(set)).then(|| (set.name().to_owned(), before, spec_replicas(set))),
                );
            }
        }
        for (set, from, to) in scaled {
            self.record_scaling(&set, from, to);
        }
        Ok(())
    }

    /// Scales the replica sets to the deployment's size without advancing the rollout.
    pub(super) async fn scale_in_proportion(&mut self) -> Result<(), ReconcileError> {
        let targets = self.sizes();
        self.scale(&targets).await
    }

    fn sizes(&self) -> Vec<Scaling> {
        let desired = desired_replicas(&self.deployment);
        let active: Vec<_> = self.sets.all().filter(|set| spec_replicas(set) > 0).collect();
        let newest = self.sets.new.as_ref().or(self.sets.old.last());
        match (active.as_slice(), newest) {
            // No replica set has pods: the newest gets all of them.
            ([], Some(newest)) => vec![(newest.name().to_owned(), desired)],
            ([only], _) => vec![(only.name().to_owned(), desired)],
            _ if self.is_saturated() => self.sets.old_active().map(|set| (set.name().to_owned(), 0)).collect(),
            _ if scale::is_recreate(&self.deployment) => Vec::new(),
            _ => scale::proportional(&self.deployment, &self.sets),
        }
    }

    /// Returns `true` if the new replica set alone has the deployment's size and is available.
    fn is_saturated(&self) -> bool {
        let Some(new) = &self.sets.new else { return false };
        let desired = desired_replicas(&self.deployment);
        let sized_for = new.annotations().get(annotation::DESIRED_REPLICAS).and_then(|value| value.parse::<i32>().ok());
        spec_replicas(new) == desired && sized_for == Some(desired) && scale::available_replicas(new) == desired
    }

    /// Deletes old replica sets beyond the history limit, once the rollout is complete.
    pub(super) async fn clean_up(&mut self) -> Result<(), ReconcileError> {
        let status = status::compute(&self.deployment, &self.sets, None, self.cx.clock().now());
        if !status::is_complete(&self.deployment, &status) {
            return Ok(());
        }
        let Some(limit) = self.deployment.spec.as_ref().and_then(|spec| spec.revision_history_limit) else {
            return Ok(());
        };
        let mut idle: Vec<_> = self.sets.old.iter().filter(|set| is_idle(set)).collect();
        idle.sort_by_key(|set| annotation::revision(set.annotations()));
        let surplus = idle.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
        if surplus == 0 {
            return Ok(());
        }
        self.ensure_current().await?;
        for set in &idle[..surplus] {
            let (uid, version) = (set.uid().unwrap_or_default(), set.resource_version().unwrap_or_default());
            match self.cx.client().delete::<ReplicaSet>(set.object_ref()).uid(uid).resource_version(version).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes the status if it has changed. Returns the time of the progress deadline.
    pub(super) async fn write_status(&mut self) -> Result<Option<Timestamp>, ReconcileError> {
        let status: DeploymentStatus =
            status::compute(&self.deployment, &self.sets, self.progress.as_ref(), self.cx.clock().now());
        let deadline = status::deadline(&self.deployment, &status);
        if self.revised || Some(&status) != self.deployment.status.as_ref() {
            self.deployment.status = Some(status);
            self.put_status().await?;
            self.revised = false;
        }
        Ok(deadline)
    }

    /// Writes the current status.
    async fn put_status(&mut self) -> Result<(), ReconcileError> {
        self.deployment = self.cx.client().update_status(&self.deployment).await?;
        self.memory.versions.wrote(self.deployment.object_ref().key(), &self.deployment);
        Ok(())
    }
}

/// Returns the annotations with the deployment's size.
fn limits(deployment: &Deployment) -> [(&'static str, String); 2] {
    let desired = desired_replicas(deployment);
    let max = desired + Slack::of(deployment).surge;
    [(annotation::DESIRED_REPLICAS, desired.to_string()), (annotation::MAX_REPLICAS, max.to_string())]
}

/// Returns `true` if a replica set has no pods and wants none.
fn is_idle(set: &ReplicaSet) -> bool {
    let status = set.status.as_ref();
    spec_replicas(set) == 0
        && status.map_or(0, |status| status.replicas) == 0
        && status.and_then(|status| status.observed_generation) >= set.metadata.generation
        && !set.is_deleting()
}
