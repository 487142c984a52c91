//! HorizontalPodAutoscaler: scales a target so that its metrics approach their target values.
//!
//! Guarantees: when the controller scales a target, the replica count stays between the object's minimum and maximum. A
//! target with zero replicas is not scaled. Each object is reconciled once per period, regardless of the number of
//! events. Not guaranteed: that a metric is up to date, or that recommendations survive a restart.
//!
//! The metric calculations ([`replicas`]) and the scaling limits ([`behavior`]) are computed on plain values.
//! [`compute`] fetches metrics, [`target`] reads and writes scales, and this file combines them.

mod behavior;
mod compute;
mod conditions;
mod history;
pub(crate) mod metrics;
mod numbers;
mod overlap;
mod replicas;
mod requests;
mod settings;
mod target;

use std::{cmp::Ordering, sync::Arc};

use hashbrown::HashMap;
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus, MetricStatus},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_api::{LabelSelector, ObjectExt, ObjectKey, ObjectRef, Quantity};
use windlass_client::{CachedDiscovery, DeferredRestMapper};
use windlass_runtime::{
    Action, Context, Controller, Manager,
    events::{Note, Recorder},
};

use self::{
    behavior::{Limits, Rules, longest_period},
    compute::{Evaluator, Failure},
    history::{Change, History},
    metrics::{ApiMetrics, MetricSource},
    overlap::Selectors,
    replicas::{Readiness, Tolerances},
    target::Target,
};
use crate::error::ReconcileError;
pub use settings::Autoscaling;

/// The number of autoscalers reconciled at the same time.
const WORKERS: usize = 5;

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager, settings: Autoscaling) {
    let cluster = manager.cluster();
    let client = cluster.client().clone();
    let metrics = settings.metrics.clone().unwrap_or_else(|| Arc::new(ApiMetrics::new(client.clone())));
    let autoscalers = Arc::new(Autoscalers {
        recorder: cluster.recorder("horizontal-pod-autoscaler"),
        mapper: DeferredRestMapper::new(CachedDiscovery::in_memory(client)),
        settings,
        metrics,
        known: Mutex::default(),
        selectors: Selectors::default(),
    });
    manager.add(
        Controller::<HorizontalPodAutoscaler>::new()
            .named("horizontalpodautoscaling")
            .reads::<Pod>()
            .concurrency(WORKERS)
            .reconcile_keys(move |key, cx| {
                let autoscalers = Arc::clone(&autoscalers);
                async move { Box::pin(reconcile(key, cx, autoscalers)).await }
            }),
    );
}

/// The state shared by the workers.
#[derive(Debug)]
struct Autoscalers {
    recorder: Recorder,
    mapper: DeferredRestMapper,
    settings: Autoscaling,
    metrics: Arc<dyn MetricSource>,
    known: Mutex<HashMap<ObjectKey, Known>>,
    selectors: Selectors,
}

/// The state kept in memory for one autoscaler.
#[derive(Debug, Default)]
struct Known {
    history: History,
    /// The time of the next reconcile.
    due: Option<Instant>,
}

async fn reconcile(
    key: ObjectRef<HorizontalPodAutoscaler>,
    cx: Context,
    autoscalers: Arc<Autoscalers>,
) -> Result<Action, ReconcileError> {
    let Some(found) = cx.store::<HorizontalPodAutoscaler>().get(&key) else {
        autoscalers.known.lock().remove(key.key());
        autoscalers.selectors.forget(key.key());
        return Ok(Action::await_change());
    };
    let now = Instant::now();
    {
        let mut known = autoscalers.known.lock();
        // The first reconcile also waits for one period: the metrics of a new target mean little.
        let due = Some(now + autoscalers.settings.period);
        let known = known.entry(key.key().clone()).or_insert_with(|| Known { due, ..Known::default() });
        if let Some(rest) = known.due.map(|due| due.saturating_duration_since(now)).filter(|rest| !rest.is_zero()) {
            return Ok(Action::requeue_after(rest));
        }
        known.due = due;
    }
    let object = found.get()?;
    let mut sync = Sync {
        cx: &cx,
        autoscalers: &autoscalers,
        key: key.key(),
        status: object.status.clone().unwrap_or_default(),
        object: &object,
        now,
        time: cx.clock().now(),
    };
    sync.act().await?;
    // A failed write also waits for the next period; an earlier retry would not get newer metrics.
    if let Err(error) = sync.write_status().await {
        tracing::warn!(autoscaler = %key, error = error.chain(), "cannot write a status");
    }
    Ok(Action::requeue_after(autoscalers.settings.period))
}

/// One reconcile of one autoscaler.
#[derive(Debug)]
struct Sync<'s> {
    cx: &'s Context,
    autoscalers: &'s Autoscalers,
    key: &'s ObjectKey,
    object: &'s HorizontalPodAutoscaler,
    /// The status as computed so far by this reconcile.
    status: HorizontalPodAutoscalerStatus,
    now: Instant,
    time: Timestamp,
}

/// The outcome of evaluating the metrics: a new replica count.
#[derive(Debug)]
struct Decision {
    replicas: i32,
    /// The reason for the change, if the count changes.
    reason: String,
    metrics: Vec<MetricStatus>,
}

impl Sync<'_> {
    async fn act(&mut self) -> Result<(), ReconcileError> {
        let client = self.cx.live();
        let namespace = self.object.namespace().unwrap_or_default();
        let target = Target::find(client, &self.autoscalers.mapper, namespace, &self.object.spec.scale_target_ref);
        let mut target = match target.await {
            Ok(target) => target,
            Err(why) => {
                self.record(Note::warning("FailedGetScale", why.clone()));
                let message = format!("the HPA controller was unable to get the target's current scale: {why}");
                self.set("AbleToScale", false, "FailedGetScale", message);
                return Ok(());
            }
        };
        self.set(
            "AbleToScale",
            true,
            "SucceededGetScale",
            "the HPA controller was able to get the target's current scale",
        );
        let current = target.wanted();
        self.history(|history, now| history.begin(current, now));
        let Some(decision) = self.decide(&target).await? else { return Ok(()) };
        let Decision { replicas, reason, metrics } = decision;
        if replicas != current {
            if let Err(error) = target.scale_to(client, replicas).await {
                let why = crate::pod_control::server_message(&error);
                let message = format!("New size: {replicas}; reason: {reason}; error: {why}");
                self.record(Note::warning("FailedRescale", message));
                let message = format!("the HPA controller was unable to update the target scale: {why}");
                self.set("AbleToScale", false, "FailedUpdateScale", message);
                self.count(current, self.status.desired_replicas, metrics);
                return Ok(());
            }
            let message = format!("the HPA controller was able to update the target scale to {replicas}");
            self.set("AbleToScale", true, "SucceededRescale", message);
            self.record(Note::normal("SuccessfulRescale", format!("New size: {replicas}; reason: {reason}")));
            self.remember(current, replicas);
            self.status.last_scale_time = Some(Time(self.time));
        }
        self.count(current, replicas, metrics);
        Ok(())
    }

    /// Computes the new replica count. Returns `None` if the metrics do not yield one; the status then gives the
    /// reason.
    async fn decide(&mut self, target: &Target) -> Result<Option<Decision>, ReconcileError> {
        let spec = &self.object.spec;
        let (current, least, most) = (target.wanted(), spec.min_replicas.unwrap_or(1), spec.max_replicas);
        let at_once = |replicas, reason: &str| Decision { replicas, reason: reason.to_owned(), metrics: Vec::new() };
        if current == 0 {
            let message = "scaling is disabled since the replica count of the target is zero";
            self.set("ScalingActive", false, "ScalingDisabled", message);
            return Ok(Some(at_once(0, "")));
        }
        if current > most {
            return Ok(Some(at_once(most, "Current number of replicas above Spec.MaxReplicas")));
        }
        if current < least {
            return Ok(Some(at_once(least, "Current number of replicas below Spec.MinReplicas")));
        }
        let (evaluated, metrics) = self.evaluate(target).await?;
        let (wanted, metric) = match evaluated {
            Ok(evaluated) => evaluated,
            Err(why) => {
                self.count(current, self.status.desired_replicas, metrics);
                self.record(Note::warning("FailedComputeMetricsReplicas", why));
                return Ok(None);
            }
        };
        // A negative recommendation counts as zero.
        let wanted = wanted.max(0);
        let reason = match wanted.cmp(&current) {
            Ordering::Greater => format!("{metric} above target"),
            Ordering::Less => "All metrics below target".to_owned(),
            // Here an earlier recommendation decides; kube-controller-manager gives no reason in that case.
            Ordering::Equal => String::new(),
        };
        let replicas = self.limit(current, wanted, least);
        Ok(Some(Decision { replicas, reason, metrics }))
    }

    /// Returns the highest recommendation of all metrics with the name of that metric, and the status of every metric.
    async fn evaluate(
        &mut self,
        target: &Target,
    ) -> Result<(Result<(i32, String), String>, Vec<MetricStatus>), ReconcileError> {
        let (selector, pods) = match self.pods(target)? {
            Ok(found) => found,
            Err(why) => return Ok((Err(why), Vec::new())),
        };
        let specs = self.object.spec.metrics.as_deref().unwrap_or_default();
        let settings = &self.autoscalers.settings;
        let evaluator = Evaluator {
            metrics: &*self.autoscalers.metrics,
            namespace: self.object.namespace().unwrap_or_default(),
            selector: &selector,
            pods: &pods,
            readiness: Readiness { initialization: settings.initialization, delay: settings.readiness, now: self.time },
            tolerances: self.tolerances(),
            wanted: target.wanted(),
            existing: target.existing(),
        };
        let mut statuses = Vec::with_capacity(specs.len());
        let mut most: Option<(i32, String)> = None;
        let mut failures = Vec::new();
        for spec in specs {
            match evaluator.evaluate(spec).await {
                Ok(proposal) => {
                    statuses.push(proposal.status);
                    if most.as_ref().is_none_or(|(replicas, _)| *replicas == 0 || proposal.replicas > *replicas) {
                        most = Some((proposal.replicas, proposal.metric));
                    }
                }
                Err(failure) => {
                    self.record(Note::warning(failure.reason, failure.why.clone()));
                    statuses.push(MetricStatus::default());
                    failures.push(failure);
                }
            }
        }
        Ok((self.choose(most, &failures, specs.len(), target.wanted()), statuses))
    }

    /// If a metric is unavailable, the other metrics can still scale the target up, but not down.
    fn choose(
        &mut self,
        most: Option<(i32, String)>,
        failures: &[Failure],
        all: usize,
        current: i32,
    ) -> Result<(i32, String), String> {
        let first = failures.first();
        match (most, first) {
            (Some((replicas, metric)), first) if first.is_none() || replicas >= current => {
                let message = format!("the HPA was able to successfully calculate a replica count from {metric}");
                self.set("ScalingActive", true, "ValidMetricFound", message);
                Ok((replicas, metric))
            }
            (_, Some(Failure { reason, why, summary })) => {
                let message = format!("the HPA was unable to compute the replica count: {why}");
                self.set("ScalingActive", false, reason, message);
                let invalid = failures.len();
                Err(format!("invalid metrics ({invalid} invalid out of {all}), first error is: {summary}"))
            }
            // The server adds a default metric if the list is empty.
            (_, None) => Err("there are no metrics".to_owned()),
        }
    }

    /// Returns the pods of the target and its selector. Fails if the selector overlaps with that of another autoscaler.
    #[expect(clippy::type_complexity, reason = "the inner error is reported in the status, the outer one is not")]
    fn pods(&mut self, target: &Target) -> Result<Result<(LabelSelector, Vec<Arc<Pod>>), String>, ReconcileError> {
        let text = target.selector();
        if text.is_empty() {
            let why = "selector is required".to_owned();
            self.record(Note::warning("SelectorRequired", why.clone()));
            self.set("ScalingActive", false, "InvalidSelector", "the HPA target's scale is missing a selector");
            return Ok(Err(why));
        }
        let selector: LabelSelector = match text.parse() {
            Ok(selector) => selector,
            Err(error) => {
                let why = format!("couldn't convert selector into a corresponding internal selector object: {error}");
                self.record(Note::warning("InvalidSelector", why.clone()));
                self.set("ScalingActive", false, "InvalidSelector", why.clone());
                return Ok(Err(why));
            }
        };
        let mut pods = Vec::new();
        for pod in self.cx.store::<Pod>().within(self.object.namespace().unwrap_or_default()).list() {
            if selector.matches(|label| pod.meta().label(label)) {
                pods.push(pod.get()?);
            }
        }
        if let Some(all) = self.autoscalers.selectors.overlap(self.key, &selector, &pods) {
            let why = format!("pods by selector {text} are controlled by multiple HPAs: {all}");
            self.record(Note::warning("AmbiguousSelector", why.clone()));
            self.set("ScalingActive", false, "AmbiguousSelector", why.clone());
            return Ok(Err(why));
        }
        Ok(Ok((selector, pods)))
    }

    fn limit(&mut self, current: i32, wanted: i32, least: i32) -> i32 {
        let behavior = self.object.spec.behavior.as_ref().map(settings::completed);
        let limits = Limits {
            least,
            most: self.object.spec.max_replicas,
            rules: behavior.as_ref().map(|(up, down)| Rules { up, down }),
            stabilization: self.autoscalers.settings.stabilization,
        };
        let verdict = self.history(|history, now| limits.apply(history, current, wanted, now));
        self.set("AbleToScale", true, verdict.able.reason, verdict.able.message);
        let (is_limited, why) = verdict.limited;
        self.set("ScalingLimited", is_limited, why.reason, why.message);
        verdict.replicas
    }

    /// Records the change; policies limit the change within a period.
    fn remember(&self, before: i32, after: i32) {
        let Some(behavior) = &self.object.spec.behavior else { return };
        let (up, down) = settings::completed(behavior);
        let (change, rules) = if after > before { (Change::Up, up) } else { (Change::Down, down) };
        let by = after.saturating_sub(before).saturating_abs();
        self.history(|history, now| history.changed_by(change, by, longest_period(&rules), now));
    }

    fn tolerances(&self) -> Tolerances {
        let usual = self.autoscalers.settings.tolerance;
        let behavior = self.object.spec.behavior.as_ref();
        let said = |rules: Option<&k8s_openapi::api::autoscaling::v2::HPAScalingRules>| {
            let tolerance = rules.and_then(|rules| rules.tolerance.as_ref())?;
            tolerance.0.parse::<Quantity>().ok().map(|tolerance| tolerance.as_f64())
        };
        Tolerances {
            down: said(behavior.and_then(|behavior| behavior.scale_down.as_ref())).unwrap_or(usual),
            up: said(behavior.and_then(|behavior| behavior.scale_up.as_ref())).unwrap_or(usual),
        }
    }

    fn history<T>(&self, use_it: impl FnOnce(&mut History, Instant) -> T) -> T {
        let mut known = self.autoscalers.known.lock();
        use_it(&mut known.entry(self.key.clone()).or_default().history, self.now)
    }

    fn count(&mut self, current: i32, desired: i32, metrics: Vec<MetricStatus>) {
        self.status.current_replicas = Some(current);
        self.status.desired_replicas = desired;
        self.status.current_metrics = Some(metrics).filter(|metrics| !metrics.is_empty());
        // kube-controller-manager does not set this field and clears it if another client has set it.
        self.status.observed_generation = None;
    }

    fn set(&mut self, type_: &str, holds: bool, reason: &str, message: impl Into<String>) {
        let conditions = self.status.conditions.get_or_insert_default();
        conditions::set(conditions, type_, holds, reason, message.into(), self.time);
    }

    fn record(&self, note: Note) {
        self.autoscalers.recorder.record(self.object, note);
    }

    /// Writes the status if it has changed.
    async fn write_status(&self) -> Result<(), windlass_client::Error> {
        if Some(&self.status) == self.object.status.as_ref() {
            return Ok(());
        }
        let mut changed = self.object.clone();
        changed.status = Some(self.status.clone());
        let outcome = self.cx.client().update_status(&changed).await;
        if let Err(error) = &outcome {
            self.record(Note::warning("FailedUpdateStatus", crate::pod_control::server_message(error)));
        }
        outcome.map(drop)
    }
}
