//! The results of a run, as the JSON report contains them.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

use crate::{
    number::{float, whole},
    samples::{Measurements, PodSample, Sample, Scope, Series, Verb},
    workload::Limits,
};

/// The part of requests that has to be within the limit of an objective.
const OBJECTIVE: f64 = 0.99;
/// The maximum number of intervals in the course of a run.
const INTERVALS: u32 = 120;

/// The results of a run. Durations are in seconds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Results {
    /// The version of this format.
    pub format: u32,
    /// The workload.
    pub workload: String,
    /// The ID of the run, which is the value of the label `load.windlass.dev/run`.
    pub run: String,
    /// The version of the server.
    pub server: String,
    /// The start, in RFC 3339.
    pub started: String,
    /// The duration without the creation and the deletion of namespaces.
    pub seconds: f64,
    /// The run was stopped before its end.
    pub interrupted: bool,
    /// The seed of the random choices.
    pub seed: u64,
    /// The variables of the workload, such as `nodes`, `pods` and `rate`.
    pub variables: BTreeMap<String, f64>,
    /// The phases that began.
    pub phases: Vec<PhaseResult>,
    /// The latency of requests by verb, resource and scope.
    pub requests: Vec<RequestResult>,
    /// The startup of pods. `None` if none started.
    pub pod_startup: Option<PodResult>,
    /// The time from the response of a write until a watch reports it, by resource.
    pub watch: BTreeMap<String, Percentiles>,
    /// The number of watches that had to list again.
    pub relists: usize,
    /// The number of requests that were not sent because their object did not exist.
    pub skipped: usize,
    /// The service level objectives.
    pub slos: Vec<SloResult>,
    /// The limits of the objectives.
    pub limits: Limits,
    /// The course of the run.
    pub intervals: Vec<Interval>,
    /// The objects that the run could not delete, or was asked to keep.
    pub remaining: Vec<String>,
}

/// A phase.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PhaseResult {
    /// The name.
    pub name: String,
    /// The action, such as `create`.
    pub action: String,
    /// The start of the phase after that of the run.
    pub start: f64,
    /// The duration with the wait at the end.
    pub seconds: f64,
    /// The number of requests.
    pub requests: usize,
    /// The number of failed requests.
    pub failed: usize,
    /// The number of requests that were not sent because their object did not exist.
    pub skipped: usize,
    /// The number of objects that were not in the awaited state when the wait ended.
    pub pending: usize,
}

/// Requests with the same verb, resource and scope.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RequestResult {
    /// `create`, `patch`, `delete`, `get` or `list`.
    pub verb: String,
    /// The resource with its group, such as `deployments.apps`.
    pub resource: String,
    /// `resource` for requests for one object, `namespace` and `cluster` for lists.
    pub scope: String,
    /// The number of requests, including failures.
    pub count: usize,
    /// The number of failures.
    pub failed: usize,
    /// The number of failures by reason.
    pub failures: BTreeMap<String, usize>,
    /// The latency of successful requests, from their intended start.
    pub latency: Option<Percentiles>,
    /// The latency of successful requests, from the time at which they were sent.
    pub service: Option<Percentiles>,
    /// The limit of the objective.
    pub limit: f64,
    /// The part of all requests that succeeded within the limit.
    pub within: f64,
    /// 99 % of all requests succeeded within the limit.
    pub met: bool,
}

/// Percentiles of a duration.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct Percentiles {
    /// The number of values.
    pub count: usize,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The maximum.
    pub max: f64,
}

/// The startup of pods.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PodResult {
    /// From the creation until a watch reports that all containers have started. Creation times are whole seconds, so a
    /// value is up to a second too large.
    pub total: Percentiles,
    /// From the creation until the pod is scheduled.
    pub scheduled: Percentiles,
    /// From there until the last container has started.
    pub started: Percentiles,
    /// From there until a watch reports it.
    pub watched: Percentiles,
    /// From the first event of the pod until the event of its start, on the clock of this program.
    pub observed: Percentiles,
    /// The number of pods that were unschedulable at some time or have init containers. They are not counted above.
    pub excluded: usize,
}

/// An objective.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SloResult {
    /// The subject, such as `create pods (resource)`.
    pub subject: String,
    /// The limit of the 99th percentile.
    pub limit: f64,
    /// The 99th percentile. `None` if no request succeeded.
    pub p99: Option<f64>,
    /// The part within the limit; failures are not within it.
    pub within: f64,
    /// The objective is met.
    pub met: bool,
}

/// A part of the run.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Interval {
    /// The start after that of the run.
    pub start: f64,
    /// The duration.
    pub seconds: f64,
    /// The number of requests whose intended start is in the interval.
    pub requests: usize,
    /// The number of failed requests.
    pub failed: usize,
    /// The number of pods that started.
    pub pods: usize,
    /// The latency by verb.
    pub latency: BTreeMap<String, Percentiles>,
}

/// The facts about a run beside its measurements.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) workload: String,
    pub(crate) run: String,
    pub(crate) server: String,
    pub(crate) started: String,
    pub(crate) elapsed: Duration,
    pub(crate) interrupted: bool,
    pub(crate) seed: u64,
    pub(crate) variables: BTreeMap<String, f64>,
    pub(crate) limits: Limits,
    pub(crate) phases: Vec<PhaseResult>,
    pub(crate) remaining: Vec<String>,
}

impl Results {
    /// Reports whether all objectives are met.
    #[must_use]
    pub fn slos_met(&self) -> bool {
        self.slos.iter().all(|slo| slo.met)
    }

    /// Reports whether each phase reached the state that it waits for.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.interrupted && self.phases.iter().all(|phase| phase.pending == 0)
    }

    pub(crate) fn new(facts: Facts, measured: Measurements) -> Self {
        let Facts { workload, run, server, started, elapsed, interrupted, seed, variables, limits, phases, remaining } =
            facts;
        let intervals = intervals(&measured, elapsed);
        let mut requests: Vec<(Series, RequestResult)> = measured
            .series
            .iter()
            .enumerate()
            .map(|(number, series)| (series.clone(), request(&measured, number, series, limits)))
            .collect();
        requests.sort_by(|(left, _), (right, _)| left.cmp(right));
        let requests: Vec<RequestResult> = requests.into_iter().map(|(_, request)| request).collect();
        let mut slos: Vec<SloResult> = requests.iter().map(SloResult::of_request).collect();
        let pod_startup = pod_startup(&measured);
        slos.extend(pod_startup.as_ref().map(|pods| {
            let starts = measured.pods.iter().map(|pod| pod.total);
            SloResult::new("pod startup".to_owned(), limits.pod_startup, Some(pods.total.p99), starts, 0)
        }));
        let watch = measured.watch.into_iter();
        let watch = watch.filter_map(|(resource, times)| Some((resource, Percentiles::of(times)?))).collect();
        Self {
            format: 1,
            workload,
            run,
            server,
            started,
            seconds: elapsed.as_secs_f64(),
            interrupted,
            seed,
            variables,
            phases,
            requests,
            pod_startup,
            watch,
            relists: measured.relists,
            skipped: measured.skipped,
            slos,
            limits,
            intervals,
            remaining,
        }
    }
}

impl SloResult {
    fn of_request(request: &RequestResult) -> Self {
        Self {
            subject: format!("{} {} ({})", request.verb, request.resource, request.scope),
            limit: request.limit,
            p99: request.latency.map(|latency| latency.p99),
            within: request.within,
            met: request.met,
        }
    }

    fn new(subject: String, limit: f64, p99: Option<f64>, times: impl Iterator<Item = u32>, failed: usize) -> Self {
        let within = within(times, failed, limit);
        Self { subject, limit, p99, within, met: within >= OBJECTIVE }
    }
}

impl Percentiles {
    /// Returns the percentiles of durations in microseconds. `None` if there are no values.
    pub(crate) fn of(mut micros: Vec<u32>) -> Option<Self> {
        micros.sort_unstable();
        let max = to_seconds(*micros.last()?);
        // The smallest value that is not exceeded by this part of the values.
        let at = |part: f64| {
            let rank = whole((float(micros.len()) * part).ceil()).clamp(1, micros.len());
            to_seconds(micros[rank - 1])
        };
        Some(Self { count: micros.len(), p50: at(0.5), p90: at(0.9), p99: at(0.99), max })
    }
}

/// Returns the part of the requests that succeeded within a limit.
fn within(times: impl Iterator<Item = u32>, failed: usize, limit: f64) -> f64 {
    let (mut within, mut all) = (0, failed);
    for time in times {
        all += 1;
        within += usize::from(to_seconds(time) <= limit);
    }
    if all == 0 { 1.0 } else { float(within) / float(all) }
}

fn to_seconds(micros: u32) -> f64 {
    f64::from(micros) / 1e6
}

fn request(measured: &Measurements, number: usize, series: &Series, limits: Limits) -> RequestResult {
    let samples: Vec<&Sample> =
        measured.requests.iter().filter(|sample| usize::from(sample.series) == number).collect();
    let mut failures = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.failure != 0) {
        let reason = measured.reasons.get(usize::from(sample.failure)).cloned().unwrap_or_default();
        *failures.entry(reason).or_default() += 1;
    }
    let succeeded = || samples.iter().filter(|sample| sample.failure == 0);
    let latency = Percentiles::of(succeeded().map(|sample| sample.latency).collect());
    let service = Percentiles::of(succeeded().map(|sample| sample.service).collect());
    let limit = match (series.verb, series.scope) {
        (Verb::List, Scope::Namespace) => limits.list_namespace,
        (Verb::List, _) => limits.list_cluster,
        (Verb::Get, _) => limits.get,
        _ => limits.write,
    };
    let failed = failures.values().sum();
    let within = within(succeeded().map(|sample| sample.latency), failed, limit);
    RequestResult {
        verb: series.verb.name().to_owned(),
        resource: series.resource.clone(),
        scope: series.scope.name().to_owned(),
        count: samples.len(),
        failed,
        failures,
        latency,
        service,
        limit,
        within,
        met: within >= OBJECTIVE,
    }
}

fn pod_startup(measured: &Measurements) -> Option<PodResult> {
    let of = |time: fn(&PodSample) -> u32| Percentiles::of(measured.pods.iter().map(time).collect());
    Some(PodResult {
        total: of(|pod| pod.total)?,
        scheduled: of(|pod| pod.schedule)?,
        started: of(|pod| pod.start)?,
        watched: of(|pod| pod.watch)?,
        observed: of(|pod| pod.observed)?,
        excluded: measured.other_pods,
    })
}

/// Returns the course of a run, in intervals of whole seconds.
fn intervals(measured: &Measurements, elapsed: Duration) -> Vec<Interval> {
    let last = measured.requests.iter().map(|sample| sample.at).chain(measured.pods.iter().map(|pod| pod.at)).max();
    let Some(last) = last else { return Vec::new() };
    let end = last.max(u32::try_from(elapsed.as_millis()).unwrap_or(u32::MAX));
    let step = (end / 1000 / INTERVALS + 1) * 1000;
    let count = end / step + 1;
    let place = |at: u32| (at / step) as usize;
    let mut latencies: Vec<BTreeMap<&str, Vec<u32>>> = vec![BTreeMap::new(); count as usize];
    let mut intervals: Vec<Interval> = (0..count)
        .map(|number| Interval {
            start: f64::from(number) * f64::from(step) / 1000.0,
            seconds: f64::from(step) / 1000.0,
            requests: 0,
            failed: 0,
            pods: 0,
            latency: BTreeMap::new(),
        })
        .collect();
    for sample in &measured.requests {
        let interval = &mut intervals[place(sample.at)];
        interval.requests += 1;
        if sample.failure == 0 {
            let verb = measured.series[usize::from(sample.series)].verb.name();
            latencies[place(sample.at)].entry(verb).or_default().push(sample.latency);
        } else {
            interval.failed += 1;
        }
    }
    for pod in &measured.pods {
        intervals[place(pod.at)].pods += 1;
    }
    for (interval, latencies) in intervals.iter_mut().zip(latencies) {
        let percentiles = |(verb, micros): (&str, Vec<u32>)| Some((verb.to_owned(), Percentiles::of(micros)?));
        interval.latency = latencies.into_iter().filter_map(percentiles).collect();
    }
    intervals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "the values are exact")]
    fn percentiles_are_exact() {
        let latency = Percentiles::of((1..=1000).rev().map(|milli| milli * 1000).collect()).unwrap();
        assert_eq!([latency.p50, latency.p90, latency.p99, latency.max], [0.5, 0.9, 0.99, 1.0]);
        let one = Percentiles::of(vec![2_000_000]).unwrap();
        assert_eq!([one.p50, one.p99], [2.0, 2.0]);
        assert!(Percentiles::of(Vec::new()).is_none());
    }

    #[test]
    fn failures_miss_the_objective() {
        let fast = || (0..100).map(|_| 1000);
        assert!(SloResult::new(String::new(), 1.0, None, fast(), 1).met, "1 of 101");
        assert!(!SloResult::new(String::new(), 1.0, None, fast(), 2).met, "2 of 102");
        let slow = fast().chain([2_000_000, 2_000_000]);
        assert!(!SloResult::new(String::new(), 1.0, None, slow, 0).met);
    }

    #[test]
    fn intervals_cover_the_run() {
        let series = vec![Series { verb: Verb::Get, resource: "pods".into(), scope: Scope::Resource }];
        let sample = |at: u32, failure: u16| Sample { series: 0, failure, at, latency: 5000, service: 5000 };
        let requests = vec![sample(0, 0), sample(1999, 0), sample(2000, 1)];
        let measured = Measurements { series, requests, ..Measurements::default() };
        let found = intervals(&measured, Duration::from_millis(3500));
        let counts: Vec<(usize, usize)> = found.iter().map(|interval| (interval.requests, interval.failed)).collect();
        assert_eq!(counts, [(1, 0), (1, 0), (1, 1), (0, 0)]);
        assert_eq!(found[1].latency["get"].count, 1);
        let hour = intervals(&measured, Duration::from_hours(1));
        assert!(hour.len() <= 121 && (hour[0].seconds - 31.0).abs() < 1e-9, "{}", hour.len());
    }
}
