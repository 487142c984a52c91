//! One reconcile of one stateful set: first the desired pods, then the surplus ones, then the outdated ones.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, RollingUpdateStatefulSetStrategy, StatefulSet},
    core::v1::{PersistentVolumeClaim, Pod, PodTemplateSpec},
};
use windlass_api::{IntOrPercent as _, ObjectExt, ObjectKey, Rounding};
use windlass_cache::Cached;
use windlass_runtime::Context;

use super::{
    Sets,
    claims::Holder,
    history_limit, identity, is_parallel, is_rolling, min_ready_seconds,
    status::{self, Between},
    writes::Writes,
};
use crate::{error::ReconcileError, pods, revisions};

/// The maximum number of pods of a parallel set processed at the same time.
const MOST_AT_ONCE: usize = 512;

/// The result of a step: continue, or wait for a later reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    GoOn,
    Stop,
}

/// The current and the update revision.
#[derive(Debug)]
struct Revisions {
    current: ControllerRevision,
    update: ControllerRevision,
    collisions: i32,
}

#[derive(Debug)]
pub(super) struct Sync<'c> {
    writes: Writes<'c>,
    set: Arc<StatefulSet>,
    /// The desired ordinals. There can be far more of them than pods.
    ordinals: Range<i32>,
    /// The existing pods of these ordinals.
    wanted: BTreeMap<i32, Arc<Pod>>,
    /// The surplus pods, highest ordinal first.
    condemned: Vec<(i32, Arc<Pod>)>,
    now: Timestamp,
    /// The number of current-revision pods deleted for the update.
    replaced: i32,
}

impl<'c> Sync<'c> {
    pub(super) fn new(
        cx: &'c Context,
        sets: &'c Sets,
        key: &'c ObjectKey,
        set: Arc<StatefulSet>,
        pods: Vec<Arc<Pod>>,
        claims: Vec<Cached<PersistentVolumeClaim>>,
        now: Timestamp,
    ) -> Self {
        let ordinals = identity::ordinals(&set);
        let (mut wanted, mut condemned) = (BTreeMap::new(), Vec::new());
        for pod in pods {
            let Some(ordinal) = identity::ordinal_in(set.name(), pod.name()) else { continue };
            if ordinals.contains(&ordinal) {
                wanted.insert(ordinal, pod);
            } else {
                condemned.push((ordinal, pod));
            }
        }
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        let writes = Writes { cx, sets, key, set: Arc::clone(&set), claims };
        Self { writes, set, ordinals, wanted, condemned, now, replaced: 0 }
    }

    /// Performs the possible steps and writes the status, even after an error.
    pub(super) async fn run(mut self, history: &[ControllerRevision]) -> Result<(), ReconcileError> {
        let revisions = self.revisions(history).await?;
        let outcome = if self.set.is_deleting() { Ok(()) } else { self.act(&revisions).await };
        let told = self.write_status(&revisions).await;
        let is_live = |revision: &ControllerRevision| {
            let name = revision.name();
            [revisions.current.name(), revisions.update.name()].contains(&name)
                || self.pods().any(|pod| identity::revision(pod) == name)
        };
        let cut = revisions::truncate(self.writes.cx.client(), history, is_live, history_limit(&self.set)).await;
        outcome.and(told).and(cut)
    }

    /// Finds, renumbers or creates the revision of the set's template.
    async fn revisions(&self, history: &[ControllerRevision]) -> Result<Revisions, ReconcileError> {
        let (cx, status) = (self.writes.cx, self.set.status.as_ref());
        let template = self.set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
        let number = revisions::next_number(history);
        let mut collisions = status.and_then(|status| status.collision_count).unwrap_or(0);
        let equal = history.iter().rev().find(|revision| revisions::holds(revision, &template));
        let update = match (equal, history.last()) {
            (Some(equal), Some(newest)) if equal.name() == newest.name() => newest.clone(),
            (Some(older), _) => revisions::renumber(cx.client(), older, number).await?,
            (None, _) => revisions::create(cx, &*self.set, &template, number, &mut collisions).await?,
        };
        let current = status.and_then(|status| status.current_revision.as_deref());
        let current = history.iter().find(|revision| Some(revision.name()) == current);
        Ok(Revisions { current: current.unwrap_or(&update).clone(), update, collisions })
    }

    async fn act(&mut self, revisions: &Revisions) -> Result<(), ReconcileError> {
        if self.keep_all(revisions).await? == Step::Stop || self.drop_all().await? == Step::Stop {
            return Ok(());
        }
        if is_rolling(&self.set) { self.update(revisions.update.name()).await } else { Ok(()) }
    }

    async fn keep_all(&self, revisions: &Revisions) -> Result<Step, ReconcileError> {
        if !is_parallel(&self.set) {
            for ordinal in self.ordinals.clone() {
                if self.keep(ordinal, revisions).await? == Step::Stop {
                    return Ok(Step::Stop);
                }
            }
            return Ok(Step::GoOn);
        }
        // Batches grow, so that an invalid template is rejected a few times, not a hundred.
        let (mut rest, mut batch) = (self.ordinals.clone(), 1);
        while !rest.is_empty() {
            for outcome in join_all(rest.by_ref().take(batch).map(|ordinal| self.keep(ordinal, revisions))).await {
                outcome?;
            }
            batch = (batch * 2).min(MOST_AT_ONCE);
        }
        Ok(Step::GoOn)
    }

    /// Ensures that a desired pod exists and is in the right state.
    async fn keep(&self, ordinal: i32, revisions: &Revisions) -> Result<Step, ReconcileError> {
        let (writes, waits) = (&self.writes, !is_parallel(&self.set));
        let Some(pod) = self.wanted.get(&ordinal) else {
            if writes.waits_for_claims(ordinal)? {
                return Ok(Step::Stop);
            }
            writes.create(&self.new_pod(ordinal, revisions), ordinal).await?;
            return Ok(if waits { Step::Stop } else { Step::GoOn });
        };
        if pods::is_finished(pod) {
            if !pod.is_deleting() {
                writes.delete(pod).await?;
            }
            return Ok(Step::Stop);
        }
        let holder = Holder { ordinal, pod: Some(pod) };
        if pods::phase(pod) == "Pending" {
            writes.complete_claims(holder).await?;
            writes.own_claims(holder).await?;
        }
        if waits && !self.is_available(pod) {
            return Ok(Step::Stop);
        }
        let conforms = identity::has_identity(&self.set, pod, ordinal)
            && identity::is_mounted(&self.set, pod, ordinal)
            && writes.are_owned(holder)?;
        if !conforms {
            writes.conform(pod, ordinal).await?;
        }
        Ok(Step::GoOn)
    }

    /// Deletes surplus pods. Unless the set is parallel, one at a time, and only while all others are healthy.
    async fn drop_all(&self) -> Result<Step, ReconcileError> {
        let waits = !is_parallel(&self.set);
        if !self.condemned.is_empty() {
            self.writes.ensure_current().await?;
        }
        for (ordinal, pod) in &self.condemned {
            let holder = Holder { ordinal: *ordinal, pod: Some(pod) };
            if !self.writes.are_owned(holder)? {
                self.writes.own_claims(holder).await?;
            }
        }
        let first_unwell = self.first_unwell();
        for (_, pod) in &self.condemned {
            let may_go = self.is_available(pod) || first_unwell == pod.uid();
            match (waits, pod.is_deleting()) {
                (true, true) => return Ok(Step::Stop),
                (false, true) => {}
                (true, false) if !may_go => return Ok(Step::Stop),
                (true, false) => {
                    self.writes.delete(pod).await?;
                    return Ok(Step::Stop);
                }
                (false, false) => self.writes.delete(pod).await?,
            }
        }
        Ok(Step::GoOn)
    }

    /// Returns the first unavailable pod by ordinal; surplus pods come last.
    fn first_unwell(&self) -> Option<&str> {
        let is_unwell = |pod: &&Arc<Pod>| !self.is_available(pod) || pod.is_deleting();
        let missing = self.wanted.len() < self.ordinals.len();
        let wanted = self.wanted.values().find(is_unwell);
        let condemned = self.condemned.iter().rev().map(|(_, pod)| pod).find(is_unwell);
        wanted.or(condemned).filter(|_| !missing).and_then(|pod| pod.uid())
    }

    /// Deletes outdated pods, highest ordinal first.
    async fn update(&mut self, revision: &str) -> Result<(), ReconcileError> {
        let outdated = self.outdated(revision);
        if outdated.is_empty() {
            return Ok(());
        }
        self.writes.ensure_current().await?;
        for pod in &outdated {
            self.writes.delete(pod).await?;
            self.replaced += 1;
        }
        Ok(())
    }

    /// Returns the outdated pods to delete now, highest ordinal first.
    fn outdated(&self, revision: &str) -> Vec<Arc<Pod>> {
        let rolling = rolling_update(&self.set);
        let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or(0);
        let most = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let most = most.map(|most| most.scaled_to(self.ordinals.len().try_into().unwrap_or(i64::MAX), Rounding::Down));
        let Range { start, end } = self.ordinals;
        let concerned = start.saturating_add(partition.max(0))..end;
        let is_unwell = |pod: &Arc<Pod>| !self.is_available(pod) || pod.is_deleting();
        let is_old = |pod: &Pod| identity::revision(pod) != revision && !pod.is_deleting();
        let Some(most) = most else {
            // One after the other: the pods with higher ordinals must be healthy.
            for ordinal in concerned.rev() {
                match self.wanted.get(&ordinal) {
                    Some(pod) if is_old(pod) => return vec![Arc::clone(pod)],
                    Some(pod) if !is_unwell(pod) => {}
                    _ => return Vec::new(),
                }
            }
            return Vec::new();
        };
        let missing = self.ordinals.len() - self.wanted.len();
        let unwell = missing + self.wanted.values().filter(|pod| is_unwell(pod)).count();
        let most = most.ok().and_then(|most| usize::try_from(most).ok()).unwrap_or(1).max(1);
        let concerned = self.wanted.iter().rev().filter(|(ordinal, _)| concerned.contains(*ordinal));
        let old = concerned.map(|(_, pod)| pod).filter(|pod| is_old(pod)).take(most.saturating_sub(unwell));
        old.map(Arc::clone).collect()
    }

    /// Builds the pod of an ordinal with its desired revision: below the partition, the current one.
    fn new_pod(&self, ordinal: i32, revisions: &Revisions) -> Pod {
        let status = self.set.status.as_ref();
        let before = match rolling_update(&self.set) {
            Some(rolling) => rolling.partition.unwrap_or(0),
            None if is_rolling(&self.set) => status.and_then(|status| status.current_replicas).unwrap_or(0),
            None => 0,
        };
        let is_old = ordinal < self.ordinals.start.saturating_add(before);
        let revision = if is_old { &revisions.current } else { &revisions.update };
        let template = revisions::template(revision).unwrap_or_else(|| self.template());
        identity::pod(&self.set, &template, revision.name(), ordinal)
    }

    fn template(&self) -> PodTemplateSpec {
        self.set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default()
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pods::phase(pod) == "Running"
            && !pod.is_deleting()
            && pods::is_available(pod, min_ready_seconds(&self.set), self.now)
    }

    fn pods(&self) -> impl Iterator<Item = &Pod> + Clone {
        self.wanted.values().chain(self.condemned.iter().map(|(_, pod)| pod)).map(|pod| &**pod)
    }

    async fn write_status(&self, revisions: &Revisions) -> Result<(), ReconcileError> {
        let Revisions { current, update, collisions } = revisions;
        let between = Between { current: current.name(), update: update.name(), collisions: *collisions };
        let status = status::compute(&self.set, between, self.pods(), self.replaced, self.now);
        if !status::is_news(&status, self.set.status.as_ref()) {
            return Ok(());
        }
        let mut changed = (*self.set).clone();
        changed.status = Some(status);
        let written = self.writes.cx.client().update_status(&changed).await?;
        self.writes.sets.versions.wrote(self.writes.key, &written);
        Ok(())
    }
}

fn rolling_update(set: &StatefulSet) -> Option<&RollingUpdateStatefulSetStrategy> {
    set.spec.as_ref()?.update_strategy.as_ref()?.rolling_update.as_ref()
}
