//! The effect of events on the snapshot and the queue.

use std::sync::Arc;

use k8s_openapi::{
    api::{core::v1::Pod, policy::v1::PodDisruptionBudget},
    jiff::Timestamp,
};
use serde::Deserialize;
use tokio::time::Instant;
use windlass_api::ObjectKey;
use windlass_cache::{Cached, DecodeError, Notification};

use super::{
    Event, Scheduler, affinity,
    profile::{Labels, Profile},
    reason::Causes,
    snapshot::Placed,
};
use crate::{consumers::consumers_of, volumes::holder_of};

/// The parts of a pod that decide what its event changes.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct View {
    spec: SpecView,
    status: StatusView,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecView {
    node_name: String,
    scheduler_name: String,
    scheduling_gates: Vec<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusView {
    phase: String,
    nominated_node_name: String,
    start_time: Option<Timestamp>,
    conditions: Vec<ConditionView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ConditionView {
    r#type: String,
    status: String,
    reason: String,
}

impl View {
    fn is_finished(&self) -> bool {
        matches!(&*self.status.phase, "Succeeded" | "Failed")
    }

    fn is_preempted(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        conditions.any(|condition| {
            condition.r#type == "DisruptionTarget"
                && condition.status == "True"
                && condition.reason == "PreemptionByScheduler"
        })
    }

    /// Reports whether the pod is assigned to the default scheduler and may be scheduled.
    fn wants_node(&self) -> bool {
        let spec = &self.spec;
        matches!(&*spec.scheduler_name, "" | "default-scheduler") && spec.scheduling_gates.is_empty()
    }
}

impl Scheduler {
    /// Applies an event.
    pub(super) fn observe(&mut self, event: Event) {
        match event {
            Event::Pod(change) => {
                let key = change.key().clone();
                let applied = change.into_applied();
                if let Err(error) = self.pod_changed(&key, applied.as_ref()) {
                    tracing::warn!(%key, %error, "the scheduler cannot decode a pod");
                }
            }
            Event::Node(change) => {
                let name = change.key().name.clone();
                match change.into_applied().map(|node| node.get_once()) {
                    None => self.core.snapshot.remove_node(&name),
                    Some(Ok(node)) => {
                        let causes = self.core.snapshot.set_node(&node);
                        self.queue.notify(Instant::now(), |rejected, _| rejected.intersects(causes));
                    }
                    Some(Err(error)) => tracing::warn!(node = &*name, %error, "the scheduler cannot decode a node"),
                }
            }
            Event::Namespace(change) => {
                let name = change.key().name.clone();
                let labels = change.into_applied().map(|namespace| sorted(namespace.meta().labels()));
                self.core.snapshot.set_namespace(&name, labels);
                self.queue.notify(Instant::now(), |rejected, _| rejected.intersects(Causes::PODS));
            }
            Event::Budget(change) => self.budget_changed(change),
            Event::Claim(claim) => {
                // The scheduler has added the index at its start.
                for pod in consumers_of(&self.writer.pods, &claim).unwrap_or_default() {
                    self.queue.activate(pod.key());
                }
            }
            Event::Volume(volume) => match volume.get().map(|volume| holder_of(&volume)) {
                Ok(Some(claim)) => self.observe(Event::Claim(claim)),
                Ok(None) => self.observe(Event::Class),
                Err(error) => tracing::warn!(volume = %volume.key(), %error, "the scheduler cannot decode a volume"),
            },
            Event::Class => {
                self.queue.notify(Instant::now(), |rejected, pod| {
                    rejected.intersects(Causes::VOLUMES) && !pod.claims.is_empty()
                });
            }
        }
    }

    fn budget_changed(&mut self, change: Notification<PodDisruptionBudget>) {
        let key = change.key().clone();
        match change.into_applied().map(|budget| budget.get_once()).transpose() {
            Ok(budget) => self.core.budgets.set(&key, budget.as_deref()),
            Err(error) => tracing::warn!(%key, %error, "the scheduler cannot decode a disruption budget"),
        }
    }

    fn pod_changed(&mut self, key: &ObjectKey, cached: Option<&Cached<Pod>>) -> Result<(), DecodeError> {
        let view = cached.map(|cached| Ok::<_, DecodeError>((cached, cached.project::<View>()?))).transpose()?;
        let Some((cached, view)) = view.filter(|(_, view)| !view.is_finished()) else {
            self.queue.remove(key);
            self.pod_gone(key);
            return Ok(());
        };
        let uid: Arc<str> = cached.meta().uid().to_string().into();
        if !view.spec.node_name.is_empty() {
            self.queue.remove(key);
            self.core.nominations.remove(key);
            self.selected.remove(key);
            return self.pod_placed(key, uid, cached, &view);
        }
        if self.queue.get(key).is_some_and(|known| known.uid != uid) {
            self.pod_gone(key);
        }
        match self.core.snapshot.pod(key) {
            // The cache does not show our binding yet.
            Some(placed) if placed.uid == uid => return Ok(()),
            Some(_) => self.pod_gone(key),
            None => {}
        }
        if !view.wants_node() || cached.meta().is_deleting() {
            self.queue.remove(key);
            self.pod_gone(key);
            return Ok(());
        }
        let profile = self.profiles.of(&*cached.get_once()?);
        self.queue.add(key, &uid, &profile);
        if !view.status.nominated_node_name.is_empty() {
            self.core.nominations.set(key, &view.status.nominated_node_name, &profile);
        }
        Ok(())
    }

    /// Records the state of a pod that has a node.
    fn pod_placed(
        &mut self,
        key: &ObjectKey,
        uid: Arc<str>,
        cached: &Cached<Pod>,
        view: &View,
    ) -> Result<(), DecodeError> {
        let (terminating, preempted) = (cached.meta().is_deleting(), view.is_preempted());
        let started = view.status.start_time;
        let known =
            self.core.snapshot.pod(key).filter(|placed| {
                placed.uid == uid && *self.core.snapshot.node(placed.slot).name == *view.spec.node_name
            });
        let is_same = known.is_some_and(|placed| {
            let generation = cached.meta().generation();
            placed.terminating == terminating
                && generation.is_some()
                && (placed.generation == generation || placed.assumed)
                && placed.profile.has_labels(cached.meta().labels())
        });
        if is_same {
            self.core.snapshot.touch(key, cached.meta().generation(), preempted, started);
            return Ok(());
        }
        let profile = self.profiles.of(&*cached.get_once()?);
        let is_known = known.is_some();
        // A pod that is replaced may leave room: on another node, or because it requests less.
        let shrunk = self.core.snapshot.pod(key).is_some_and(|placed| !Arc::ptr_eq(&placed.profile, &profile));
        if shrunk {
            self.pod_left(key);
        }
        let placed = Placed {
            uid,
            slot: 0,
            profile: Arc::clone(&profile),
            terminating,
            assumed: false,
            preempted,
            started,
            generation: cached.meta().generation(),
        };
        self.core.snapshot.place(key, &view.spec.node_name, placed);
        if !is_known || shrunk || terminating {
            self.pod_arrived(&profile);
        }
        Ok(())
    }

    /// Forgets a pod that does not exist any more, or needs no node.
    fn pod_gone(&mut self, key: &ObjectKey) {
        self.core.nominations.remove(key);
        self.selected.remove(key);
        self.pod_left(key);
    }

    /// Removes a pod from its node, and tries the pods that its departure may help.
    pub(super) fn pod_left(&mut self, key: &ObjectKey) {
        let Some(placed) = self.core.snapshot.remove(key) else { return };
        let snapshot = &self.core.snapshot;
        self.queue.notify(Instant::now(), |rejected, waiting| {
            rejected.intersects(Causes::RESOURCES | Causes::PORTS)
                || (rejected.intersects(Causes::SPREAD | Causes::PODS)
                    && affinity::concerns(waiting, &placed.profile, snapshot))
        });
    }

    /// Tries the pods that the arrival of a pod may help.
    pub(super) fn pod_arrived(&mut self, profile: &Arc<Profile>) {
        let snapshot = &self.core.snapshot;
        self.queue.notify(Instant::now(), |rejected, waiting| {
            rejected.intersects(Causes::SPREAD | Causes::PODS) && affinity::concerns(waiting, profile, snapshot)
        });
    }
}

fn sorted(labels: &[(Arc<str>, Arc<str>)]) -> Labels {
    let mut labels = labels.to_vec();
    labels.sort_unstable();
    labels
}
