//! PriorityLevelConfigurations, and the state of each level.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{self, Instant};

use super::{
    demand::Demand,
    metrics::{FlowSeries, LevelGauges, Reason},
    queues::{Decision, Place, QueueSet, Queuing, Response, Seat},
    retry_after::RetryAfter,
    work::Work,
};
use crate::object::Tree;

/// The share of its seats that one request of a level can occupy.
const MAX_SHARE: f64 = 0.15;

/// The limits of a level, as they are configured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LevelSpec {
    pub(super) name: String,
    /// Empty if the object is not stored.
    pub(super) uid: String,
    pub(super) response: Response,
    pub(super) shares: u32,
    pub(super) lendable_percent: u32,
    pub(super) borrowing_percent: Option<u32>,
}

/// The numbers of seats of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seats {
    pub(super) nominal: u32,
    /// The seats that are not lent to others.
    pub(super) lower: u32,
    /// The seats with those that can be borrowed.
    pub(super) upper: u32,
}

/// A priority level.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) name: String,
    pub(super) state: Mutex<LevelState>,
    /// The maximum number of seats of a request, or 0.
    max_seats: AtomicU32,
    retry_after: Mutex<RetryAfter>,
}

/// The state of a level that changes.
#[derive(Debug)]
pub(super) struct LevelState {
    pub(super) spec: LevelSpec,
    pub(super) queues: QueueSet,
    pub(super) seats: Seats,
    pub(super) demand: Demand,
    pub(super) target: f64,
    /// The object does not exist anymore. The level is removed when it is idle.
    pub(super) is_quiescing: bool,
    /// The level has no seats yet.
    is_new: bool,
}

impl LevelSpec {
    /// Reads a PriorityLevelConfiguration. Returns `None` if it is inconsistent.
    pub(super) fn read(object: &Value) -> Option<Self> {
        let (name, spec) = (object.text(&["metadata", "name"]), &object["spec"]);
        let number = |limits: &Value, field: &str| {
            limits[field].as_i64().map(|number| u32::try_from(number.max(0)).unwrap_or(u32::MAX))
        };
        let is_exempt = spec["type"] == "Exempt";
        let limits = &spec[if is_exempt { "exempt" } else { "limited" }];
        if is_exempt != (name == "exempt") || !limits.is_object() {
            return None;
        }
        let queuing = &limits["limitResponse"]["queuing"];
        let response = match (is_exempt, limits.text(&["limitResponse", "type"])) {
            (true, _) => Response::Exempt,
            (false, "Queue") if queuing.is_object() => Response::Queue(Queuing {
                queues: number(queuing, "queues").unwrap_or(64),
                hand: number(queuing, "handSize").unwrap_or(8),
                length: number(queuing, "queueLengthLimit").unwrap_or(50),
            }),
            (false, "Reject") if !queuing.is_object() => Response::Reject,
            _ => return None,
        };
        let default_shares = if is_exempt { 0 } else { 30 };
        Some(Self {
            name: name.to_owned(),
            uid: object.text(&["metadata", "uid"]).to_owned(),
            response,
            shares: number(limits, "nominalConcurrencyShares").unwrap_or(default_shares),
            lendable_percent: number(limits, "lendablePercent").unwrap_or_default().min(100),
            borrowing_percent: number(limits, "borrowingLimitPercent").filter(|_| !is_exempt),
        })
    }

    /// Returns the seats of the level, of all seats of the server.
    fn seats(&self, server: u32, all_shares: f64) -> Seats {
        let nominal =
            if all_shares > 0.0 { whole((f64::from(server) * f64::from(self.shares) / all_shares).ceil()) } else { 0 };
        let percent = |percent: u32| whole((f64::from(nominal) * f64::from(percent) / 100.0).round());
        let borrowed = self.borrowing_percent.map_or(server, percent);
        Seats {
            nominal,
            lower: nominal - percent(self.lendable_percent).min(nominal),
            upper: nominal.saturating_add(borrowed),
        }
    }
}

/// Converts a number of seats that is not negative.
pub(super) fn whole(seats: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let whole = seats as u32;
    whole
}

impl Level {
    pub(super) fn new(spec: LevelSpec, now: Instant) -> Self {
        Self {
            name: spec.name.clone(),
            state: Mutex::new(LevelState {
                queues: QueueSet::new(spec.response, 0, now),
                spec,
                seats: Seats::default(),
                demand: Demand::default(),
                target: 0.0,
                is_quiescing: false,
                is_new: true,
            }),
            max_seats: AtomicU32::new(0),
            retry_after: Mutex::default(),
        }
    }

    /// Changes the configuration.
    pub(super) fn configure(&self, spec: LevelSpec, now: Instant) {
        let mut state = self.state.lock();
        state.queues.configure(spec.response, now);
        state.is_quiescing = false;
        state.spec = spec;
    }

    /// Computes the seats of the level, of all seats of the server. Returns the nominal number.
    pub(super) fn divide(&self, server: u32, all_shares: f64, now: Instant) -> u32 {
        let mut state = self.state.lock();
        let seats = state.spec.seats(server, all_shares);
        state.seats = seats;
        let max = match state.spec.response {
            Response::Queue(queuing) => {
                let share = whole((f64::from(seats.nominal) * MAX_SHARE).ceil());
                share.min(seats.nominal / queuing.hand.max(1)).max(1)
            }
            Response::Exempt | Response::Reject => 0,
        };
        self.max_seats.store(max, Relaxed);
        if std::mem::take(&mut state.is_new) {
            state.queues.set_limit(seats.nominal - (seats.nominal - seats.lower) / 2, now);
        }
        seats.nominal
    }

    /// Returns the maximum number of seats for one request, at most `limit`.
    pub(super) fn max_seats(&self, limit: u32) -> u32 {
        match self.max_seats.load(Relaxed) {
            0 => limit,
            seats => seats.min(limit),
        }
    }

    /// Counts a rejection, and returns the seconds after which the client should try again.
    pub(super) fn retry_after(&self, second: u64) -> u64 {
        self.retry_after.lock().reject(second)
    }

    /// Waits for the seats of a request, for a limited time. Cancellation of the future frees the place in the queue.
    pub(super) async fn enter(
        self: &Arc<Self>,
        work: Work,
        hash: u64,
        flow: &Arc<FlowSeries>,
        limit: Duration,
    ) -> Result<OccupiedSeat, Reason> {
        let arrived = Instant::now();
        let (decision, is_exempt) = {
            let mut state = self.state.lock();
            let is_exempt = state.spec.response == Response::Exempt;
            (state.queues.start(work, hash, flow, arrived), is_exempt)
        };
        let occupied = |seat| OccupiedSeat { level: Arc::clone(self), flow: Arc::clone(flow), seat: Some(seat) };
        let result = match decision {
            Decision::Run(seat) => Ok(occupied(seat)),
            Decision::Reject(reason) => Err(reason),
            Decision::Wait(place) => {
                let mut waiting = WaitingPlace { level: self, flow, place: Some(place) };
                let seat = time::timeout(limit, waiting.seat()).await;
                // A seat can arrive after the time has passed.
                match seat.ok().or_else(|| waiting.cancel()) {
                    Some(seat) => Ok(occupied(seat)),
                    None => Err(Reason::TimeOut),
                }
            }
        };
        if !is_exempt {
            flow.waited[usize::from(result.is_ok())].observe(arrived.elapsed().as_secs_f64());
        }
        result
    }

    /// Returns the state for the metrics.
    pub(super) fn gauges(&self) -> LevelGauges {
        let state = self.state.lock();
        #[expect(clippy::cast_precision_loss, reason = "a gauge is not exact")]
        let virtual_time = state.queues.virtual_time() as f64 / 1e9;
        LevelGauges {
            nominal: state.seats.nominal,
            lower: state.seats.lower,
            upper: state.seats.upper,
            current: state.queues.limit(),
            highest: state.demand.highest,
            average: state.demand.average,
            deviation: state.demand.deviation,
            smoothed: state.demand.smoothed,
            target: state.target,
            virtual_time,
        }
    }
}

/// The place of a request that waits. Dropping it frees the place.
struct WaitingPlace<'l> {
    level: &'l Arc<Level>,
    flow: &'l Arc<FlowSeries>,
    place: Option<Place>,
}

impl WaitingPlace<'_> {
    /// Waits for the seat. A level that is dropped gives none; its requests wait until their time has passed.
    async fn seat(&mut self) -> Seat {
        if let Some(place) = &mut self.place
            && let Ok(seat) = (&mut place.seat).await
        {
            self.place = None;
            return seat;
        }
        std::future::pending().await
    }

    /// Frees the place. Returns the seat if it has arrived.
    fn cancel(&mut self) -> Option<Seat> {
        let place = self.place.take()?;
        self.level.state.lock().queues.cancel(place, Instant::now())
    }
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        if let Some(seat) = self.cancel() {
            drop(OccupiedSeat { level: Arc::clone(self.level), flow: Arc::clone(self.flow), seat: Some(seat) });
        }
    }
}

/// The seats of a request that runs. Dropping it ends the request.
#[derive(Debug)]
pub(super) struct OccupiedSeat {
    level: Arc<Level>,
    flow: Arc<FlowSeries>,
    seat: Option<Seat>,
}

impl OccupiedSeat {
    /// Returns the time at which the request began to run.
    pub(super) fn since(&self) -> Option<Instant> {
        self.seat.as_ref().map(Seat::since)
    }
}

impl Drop for OccupiedSeat {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        let lingers = self.level.state.lock().queues.finish(&seat, &self.flow, Instant::now());
        let Some(latency) = lingers else { return };
        let lingering =
            LingeringSeat { level: Arc::clone(&self.level), flow: Arc::clone(&self.flow), seat: Some(seat) };
        // Outside of a runtime there are no further requests to limit.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                time::sleep(latency).await;
                drop(lingering);
            });
        }
    }
}

/// The seats of a request that has ended, during its latency. Dropping it frees them, also if the runtime ends.
struct LingeringSeat {
    level: Arc<Level>,
    flow: Arc<FlowSeries>,
    seat: Option<Seat>,
}

impl Drop for LingeringSeat {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.take() {
            self.level.state.lock().queues.release(&seat, &self.flow, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests;
