//! Priority and fairness: classifies requests by FlowSchemas, and divides the seats of the server among the priority
//! levels.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use http::HeaderValue;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::{
    allocation::{Claim, fair_fraction, seats_at},
    estimate::Estimator,
    level::{Level, LevelSpec, OccupiedSeat, whole},
    metrics::{self, FlowSeries, NamedSeries},
    queues::Response,
    schema::{Distinguisher, SchemaSpec},
};
use crate::{
    identity::User,
    request::{Query, RequestInfo},
    turns::Class,
};

/// The names of the mandatory objects, which exist even if they are not stored.
const EXEMPT: &str = "exempt";
const CATCH_ALL: &str = "catch-all";

/// The state of priority and fairness.
#[derive(Debug)]
pub(crate) struct Fairness {
    /// The seats of the server.
    seats: u32,
    configuration: RwLock<Arc<Configuration>>,
    /// The objects of the configuration. Also serializes changes.
    objects: Mutex<Objects>,
    mandatory: (Vec<LevelSpec>, Vec<SchemaSpec>),
    /// The fraction of its demand that each level gets, as the bits of a float.
    fair_fraction: AtomicU64,
}

/// The compiled configuration. It is replaced as a whole.
#[derive(Debug, Default)]
pub(super) struct Configuration {
    /// In the order of their precedence.
    schemas: Vec<Arc<Schema>>,
    pub(super) levels: BTreeMap<String, Arc<Level>>,
    nominal_seats: u32,
}

#[derive(Debug, Default)]
struct Objects {
    levels: Vec<LevelSpec>,
    schemas: Vec<SchemaSpec>,
    /// The metrics by level and schema.
    series: BTreeMap<(String, String), Arc<FlowSeries>>,
}

/// A FlowSchema with its level.
#[derive(Debug)]
pub(crate) struct Schema {
    spec: SchemaSpec,
    pub(super) level: Arc<Level>,
    series: Arc<FlowSeries>,
    /// The requests of different flows wait in different queues.
    is_sharded: bool,
    /// The hash of the only flow, if they do not.
    hash: u64,
    /// The level does not limit its requests.
    is_exempt: bool,
    /// The hash of the level's name.
    level_hash: u64,
    /// The UIDs of the schema and the level. `None` if one of them is not stored.
    uids: Option<[HeaderValue; 2]>,
}

/// A request that must be classified.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'r> {
    pub(crate) info: &'r RequestInfo,
    pub(crate) query: &'r Query,
    pub(crate) user: &'r User,
    /// The maximum time in a queue.
    pub(crate) patience: Duration,
}

/// The seats of a request that runs. Dropping it ends the request.
#[derive(Debug)]
pub(super) struct RunningRequest {
    seat: OccupiedSeat,
    schema: Arc<Schema>,
    is_watch: bool,
}

impl Fairness {
    /// Creates the state with the mandatory and suggested objects, until the stored objects are known.
    pub(super) fn new(seats: u32, levels: &[Value], schemas: &[Value]) -> Self {
        let levels: Vec<LevelSpec> = levels.iter().filter_map(LevelSpec::read).collect();
        let schemas: Vec<SchemaSpec> = schemas.iter().map(SchemaSpec::read).collect();
        let is_mandatory = |name: &str| matches!(name, EXEMPT | CATCH_ALL);
        let mandatory = (
            levels.iter().filter(|level| is_mandatory(&level.name)).cloned().collect(),
            schemas.iter().filter(|schema| is_mandatory(&schema.name)).cloned().collect(),
        );
        let fairness = Self {
            seats,
            configuration: RwLock::default(),
            objects: Mutex::default(),
            mandatory,
            fair_fraction: AtomicU64::new(0),
        };
        fairness.digest(&mut fairness.objects.lock(), levels, schemas, Instant::now());
        fairness
    }

    /// Applies the stored objects.
    pub(crate) fn configure<'o>(
        &self,
        levels: impl IntoIterator<Item = &'o Value>,
        schemas: impl IntoIterator<Item = &'o Value>,
    ) {
        let levels = levels.into_iter().filter_map(LevelSpec::read).collect();
        let schemas = schemas.into_iter().map(SchemaSpec::read).collect();
        self.digest(&mut self.objects.lock(), levels, schemas, Instant::now());
    }

    fn digest(&self, objects: &mut Objects, levels: Vec<LevelSpec>, schemas: Vec<SchemaSpec>, now: Instant) {
        objects.levels.clone_from(&levels);
        objects.schemas.clone_from(&schemas);
        let old = Arc::clone(&self.configuration.read());
        let mut new = Configuration::default();
        let is_missing = |spec: &&LevelSpec| !levels.iter().any(|level| level.name == spec.name);
        let missing: Vec<_> = self.mandatory.0.iter().filter(is_missing).cloned().collect();
        for spec in levels.into_iter().chain(missing) {
            let level = match old.levels.get(&spec.name) {
                Some(level) => {
                    level.configure(spec, now);
                    Arc::clone(level)
                }
                None => Arc::new(Level::new(spec, now)),
            };
            new.levels.insert(level.name.clone(), level);
        }
        let stored = self.compile(&mut objects.series, &new.levels, schemas);
        new.schemas = stored;
        // Requests of a removed level can still wait or run. It keeps its share of the seats until they have ended.
        for (name, level) in &old.levels {
            if !new.levels.contains_key(name) {
                let mut state = level.state.lock();
                if !state.queues.is_idle() {
                    state.is_quiescing = true;
                    new.levels.insert(name.clone(), Arc::clone(level));
                }
            }
        }
        let shares = new.levels.values().map(|level| f64::from(level.state.lock().spec.shares)).sum();
        new.nominal_seats = new.levels.values().map(|level| level.divide(self.seats, shares, now)).sum();
        let in_use: BTreeSet<*const FlowSeries> =
            new.schemas.iter().map(|schema| Arc::as_ptr(&schema.series)).collect();
        objects.series.retain(|_, series| in_use.contains(&Arc::as_ptr(series)) || series.is_busy());
        self.borrow(&new, now);
        *self.configuration.write() = Arc::new(new);
    }

    /// Returns the schemas whose levels exist, and the missing mandatory ones, in the order of their precedence.
    fn compile(
        &self,
        series: &mut BTreeMap<(String, String), Arc<FlowSeries>>,
        levels: &BTreeMap<String, Arc<Level>>,
        schemas: Vec<SchemaSpec>,
    ) -> Vec<Arc<Schema>> {
        let mut schemas: Vec<SchemaSpec> =
            schemas.into_iter().filter(|schema| levels.contains_key(&schema.level)).collect();
        schemas.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
        for mandatory in &self.mandatory.1 {
            if !schemas.iter().any(|schema| schema.name == mandatory.name) {
                let at = if mandatory.name == EXEMPT { 0 } else { schemas.len() };
                schemas.insert(at, mandatory.clone());
            }
        }
        let compiled = schemas.into_iter().filter_map(|spec| {
            let level = Arc::clone(levels.get(&spec.level)?);
            let (response, uid) = {
                let state = level.state.lock();
                (state.spec.response, state.spec.uid.clone())
            };
            let uids = [&spec.uid, &uid].map(|uid| HeaderValue::from_str(uid).ok().filter(|uid| !uid.is_empty()));
            let series = series.entry((level.name.clone(), spec.name.clone())).or_default();
            Some(Arc::new(Schema {
                is_sharded: spec.distinguisher != Distinguisher::None
                    && matches!(response, Response::Queue(queuing) if queuing.queues > 1),
                hash: hash(&spec.name, ""),
                is_exempt: response == Response::Exempt,
                level_hash: hash(&level.name, ""),
                series: Arc::clone(series),
                uids: match uids {
                    [Some(schema), Some(level)] => Some([schema, level]),
                    _ => None,
                },
                spec,
                level,
            }))
        });
        compiled.collect()
    }

    /// Divides the seats by the demand of the last period. Must be called every ten seconds.
    pub(crate) fn adjust(&self) {
        let now = Instant::now();
        let mut objects = self.objects.lock();
        let current = Arc::clone(&self.configuration.read());
        let is_over = |level: &Arc<Level>| {
            let state = level.state.lock();
            state.is_quiescing && state.queues.is_idle()
        };
        if current.levels.values().any(is_over) {
            let (levels, schemas) = (objects.levels.clone(), objects.schemas.clone());
            self.digest(&mut objects, levels, schemas, now);
        } else {
            self.borrow(&current, now);
        }
    }

    fn borrow(&self, configuration: &Configuration, now: Instant) {
        let mut limited = Vec::new();
        let mut left = i64::from(configuration.nominal_seats);
        for level in configuration.levels.values() {
            let mut state = level.state.lock();
            let state = &mut *state;
            state.queues.end_period(now, &mut state.demand);
            let (seats, highest) = (state.seats, state.demand.highest);
            if state.spec.response == Response::Exempt {
                let needed = seats.lower.max(highest);
                left -= i64::from(needed);
                state.target = state.demand.smoothed.max(f64::from(needed));
                state.queues.set_limit(needed, now);
                continue;
            }
            let lowest = seats.lower.max(seats.nominal.min(highest));
            let target = state.demand.smoothed.max(f64::from(lowest));
            state.target = target;
            limited.push((level, seats, Claim { target, lowest: lowest.into(), highest: seats.upper.into() }));
        }
        let lower: i64 = limited.iter().map(|(_, seats, _)| i64::from(seats.lower)).sum();
        let lowest: f64 = limited.iter().map(|(_, _, claim)| claim.lowest).sum();
        #[expect(clippy::cast_precision_loss, reason = "numbers of seats are small")]
        let (lower, left) = (lower as f64, left as f64);
        let mut fraction = 0.0;
        let granted: Option<Vec<f64>> = if left <= lower {
            Some(limited.iter().map(|(_, seats, _)| f64::from(seats.lower)).collect())
        } else if left <= lowest {
            let share = (left - lower) / (lowest - lower);
            let grant = |seats: u32, claim: &Claim| f64::from(seats) + (claim.lowest - f64::from(seats)) * share;
            Some(limited.iter().map(|(_, seats, claim)| grant(seats.lower, claim)).collect())
        } else {
            let claims: Vec<Claim> = limited.iter().map(|(_, _, claim)| *claim).collect();
            fair_fraction(configuration.nominal_seats.into(), &claims).map(|fair| {
                fraction = fair;
                seats_at(fair, &claims).collect()
            })
        };
        self.fair_fraction.store(fraction.to_bits(), Relaxed);
        // If the bounds allow no division, the limits stay as they are.
        for ((level, ..), seats) in limited.iter().zip(granted.unwrap_or_default()) {
            level.state.lock().queues.set_limit(whole(seats.round()), now);
        }
    }

    /// Returns the first schema that matches a request.
    fn classify(configuration: &Configuration, request: &Incoming<'_>) -> Option<Arc<Schema>> {
        let matching = configuration.schemas.iter().find(|schema| schema.spec.matches(request.user, request.info));
        // The schema `catch-all` matches every user that has a group.
        let fallback = || configuration.schemas.iter().find(|schema| schema.spec.name == CATCH_ALL);
        matching.or_else(fallback).cloned()
    }

    /// Classifies a request, and waits for its seats.
    pub(super) async fn enter(
        &self,
        request: Incoming<'_>,
        estimator: Estimator<'_>,
    ) -> (Option<Arc<Schema>>, Class, Result<Option<RunningRequest>, ()>) {
        let classified = Self::classify(&self.configuration.read(), &request);
        let Some(schema) = classified else { return (None, super::class_without_level(request.user), Ok(None)) };
        let (work, watches) = estimator.estimate(request.info, request.query, &schema.level);
        schema.series.width.observe(work.seats().into());
        if let Some(watches) = watches {
            schema.series.watches.observe(u32::try_from(watches).unwrap_or(u32::MAX).into());
        }
        let hash = schema.hash(&request);
        let class = schema.class(&request, hash);
        let seat = schema.level.enter(work, hash, &schema.series, request.patience).await;
        let is_watch = request.info.verb == "watch";
        let running = seat.map(|seat| Some(RunningRequest { seat, schema: Arc::clone(&schema), is_watch }));
        (Some(schema), class, running.map_err(drop))
    }

    pub(super) fn configuration(&self) -> Arc<Configuration> {
        Arc::clone(&self.configuration.read())
    }

    /// Returns the metrics in Prometheus' text format.
    pub(super) fn metrics(&self) -> String {
        let configuration = self.configuration();
        let levels: Vec<_> = configuration.levels.iter().map(|(name, level)| (name.as_str(), level.gauges())).collect();
        let objects = self.objects.lock();
        let flows: Vec<_> =
            objects.series.iter().map(|((level, schema), series)| NamedSeries { level, schema, series }).collect();
        metrics::text(&levels, &flows, f64::from_bits(self.fair_fraction.load(Relaxed)))
    }
}

impl Schema {
    /// Returns the hash that selects the queues of the request's flow.
    fn hash(&self, request: &Incoming<'_>) -> u64 {
        if self.is_sharded { hash(&self.spec.name, self.spec.flow(request.user, request.info)) } else { self.hash }
    }

    /// Returns the class of a request in the flow with this hash. Flows take turns even if their level has no queues.
    fn class(&self, request: &Incoming<'_>, hash: u64) -> Class {
        if self.is_exempt {
            return Class::Exempt;
        }
        let is_divided = self.is_sharded || self.spec.distinguisher == Distinguisher::None;
        let flow =
            if is_divided { hash } else { self::hash(&self.spec.name, self.spec.flow(request.user, request.info)) };
        Class::Flow { level: self.level_hash, flow }
    }

    /// Returns the UIDs of the schema and the level, unless one of them is not stored.
    pub(crate) fn uids(&self) -> Option<&[HeaderValue; 2]> {
        self.uids.as_ref()
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        if let Some(since) = self.seat.since() {
            self.schema.series.executed[usize::from(self.is_watch)].observe(since.elapsed().as_secs_f64());
        }
    }
}

/// Returns the hash of a flow of a schema.
pub(super) fn hash(schema: &str, flow: &str) -> u64 {
    let mut hash = Sha256::new();
    hash.update(schema.as_bytes());
    hash.update([0]);
    hash.update(flow.as_bytes());
    hash.finalize().first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

/// Reports whether a stored PriorityLevelConfiguration can be used.
pub(crate) fn is_usable_level(object: &Value) -> bool {
    LevelSpec::read(object).is_some()
}

#[cfg(test)]
mod tests;
