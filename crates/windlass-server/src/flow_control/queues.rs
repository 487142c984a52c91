//! The queues of a priority level, and the seats of its requests.
//!
//! A level has a limit of seats. Without queues, a request that finds too few free seats is rejected. With queues, it
//! waits in one of the queues of its flow. Free seats go to the queue whose next request would end first if each queue
//! had the same share of the seats (fair queuing). For that, the set keeps a virtual time: the work that each busy queue
//! could have done since the start.
//!
//! Only busy queues exist in memory, so their number is bounded by that of the requests.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};

use super::{
    dealer::Dealer,
    demand::{Demand, DemandMeter},
    metrics::{FlowSeries, Reason},
    work::{SeatTime, Work},
};

/// The configuration of the queues of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queuing {
    pub(super) queues: u32,
    pub(super) hand: u32,
    /// The maximum number of requests that wait in one queue.
    pub(super) length: u32,
}

/// The response of a level to a request for which it has no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// There is always a seat.
    Exempt,
    Reject,
    Queue(Queuing),
}

/// The queues and the occupied seats of a level.
#[derive(Debug)]
pub(super) struct QueueSet {
    response: Response,
    /// The current number of seats.
    limit: u32,
    /// The busy queues: some requests wait or run, or their seats are still occupied.
    queues: BTreeMap<u32, Queue>,
    /// The queue of the last dispatched request.
    last: u32,
    /// The number of requests that were ever dealt to a queue.
    dealt: u64,
    virtual_time: SeatTime,
    synced: Instant,
    demand: DemandMeter,
    pub(super) totals: Totals,
    next_id: u64,
}

/// The numbers of requests and seats of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) waiting: u32,
    pub(super) waiting_seats: u32,
    pub(super) executing: u32,
    pub(super) seats: u32,
    pub(super) dispatched: u64,
    pub(super) rejected: u64,
    pub(super) canceled: u64,
}

/// A busy queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    /// The work of the waiting requests.
    waiting_work: SeatTime,
    executing: u32,
    /// The occupied seats, including those of requests that have ended and still occupy seats.
    seats: u32,
    /// The virtual time at which the next request starts.
    next_start: SeatTime,
}

/// A request that waits.
#[derive(Debug)]
struct Waiting {
    id: u64,
    work: Work,
    /// The virtual time of its arrival.
    arrived: SeatTime,
    flow: Arc<FlowSeries>,
    seat: oneshot::Sender<Seat>,
}

/// The seats of a request that runs. They must be returned by [`QueueSet::finish`] and [`QueueSet::release`].
#[derive(Debug)]
pub(super) struct Seat {
    queue: Option<u32>,
    work: Work,
    since: Instant,
}

/// The place of a request that waits. It must be returned by [`QueueSet::cancel`], unless the seat arrives.
#[derive(Debug)]
pub(super) struct Place {
    queue: u32,
    id: u64,
    pub(super) seat: oneshot::Receiver<Seat>,
}

/// The decision on a new request.
#[derive(Debug)]
pub(super) enum Decision {
    Run(Seat),
    Wait(Place),
    Reject(Reason),
}

/// A busy queue, as it is listed for debugging.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct QueueSummary {
    pub(super) index: u32,
    pub(super) waiting: usize,
    pub(super) executing: u32,
    pub(super) seats: u32,
    pub(super) next_start: SeatTime,
    pub(super) initial_seats: u32,
    pub(super) all_seats: u32,
    pub(super) work: SeatTime,
}

impl QueueSet {
    pub(super) fn new(response: Response, limit: u32, now: Instant) -> Self {
        Self {
            response,
            limit,
            queues: BTreeMap::new(),
            last: 0,
            dealt: 0,
            virtual_time: 0,
            synced: now,
            demand: DemandMeter::new(now),
            totals: Totals::default(),
            next_id: 0,
        }
    }

    /// Changes the configuration. Requests that wait stay in their queues.
    pub(super) fn configure(&mut self, response: Response, now: Instant) {
        self.sync(now);
        self.response = response;
        self.dispatch(now);
    }

    /// Changes the number of seats.
    pub(super) fn set_limit(&mut self, limit: u32, now: Instant) {
        self.sync(now);
        self.limit = limit;
        self.dispatch(now);
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    pub(super) fn is_idle(&self) -> bool {
        self.totals.waiting == 0 && self.totals.executing == 0
    }

    /// Ends a period of the demand for seats.
    pub(super) fn end_period(&mut self, now: Instant, demand: &mut Demand) {
        self.demand.end_period(now, demand);
    }

    /// Returns the busy queues and the virtual time.
    pub(super) fn summaries(&self) -> impl Iterator<Item = QueueSummary> + '_ {
        self.queues.iter().map(|(index, queue)| QueueSummary {
            index: *index,
            waiting: queue.waiting.len(),
            executing: queue.executing,
            seats: queue.seats,
            next_start: queue.next_start,
            initial_seats: queue.waiting.iter().map(|waiting| waiting.work.initial).sum(),
            all_seats: queue.waiting.iter().map(|waiting| waiting.work.seats()).sum(),
            work: queue.waiting_work,
        })
    }

    pub(super) fn virtual_time(&self) -> SeatTime {
        self.virtual_time
    }

    /// Gives a request its seats, puts it into a queue, or rejects it. `hash` selects the queues of its flow.
    pub(super) fn start(&mut self, work: Work, hash: u64, flow: &Arc<FlowSeries>, now: Instant) -> Decision {
        self.sync(now);
        let Response::Queue(queuing) = self.response else {
            if !self.has_room(work.seats()) {
                return self.reject(Reason::ConcurrencyLimit, flow);
            }
            return Decision::Run(self.occupy(None, work, flow, now));
        };
        let index = self.deal(queuing, hash);
        let virtual_time = self.virtual_time;
        let queue = self.queues.entry(index).or_default();
        if self.totals.seats >= self.limit && queue.waiting.len() >= queuing.length as usize {
            return self.reject(Reason::QueueFull, flow);
        }
        if queue.waiting.is_empty() && queue.executing == 0 {
            queue.next_start = virtual_time;
        }
        flow.queue_length.observe(f64::from(u32::try_from(queue.waiting.len() + 1).unwrap_or(u32::MAX)));
        // Without other waiting requests, there is no one to be fair to.
        if self.totals.waiting == 0 && self.totals.seats < self.limit && self.has_room(work.seats()) {
            let mut work = work;
            work.limit_last(self.limit);
            return Decision::Run(self.occupy(Some(index), work, flow, now));
        }
        let id = self.next_id;
        self.next_id += 1;
        let (sender, seat) = oneshot::channel();
        let waiting = Waiting { id, work, arrived: virtual_time, flow: Arc::clone(flow), seat: sender };
        self.add_waiting(&waiting, true);
        let queue = self.queues.entry(index).or_default();
        queue.waiting_work += work.total();
        queue.waiting.push_back(waiting);
        queue.catch_up();
        self.note_demand(now);
        self.dispatch(now);
        Decision::Wait(Place { queue: index, id, seat })
    }

    fn reject(&mut self, reason: Reason, flow: &FlowSeries) -> Decision {
        self.totals.rejected += 1;
        flow.reject(reason);
        Decision::Reject(reason)
    }

    /// Returns the queue of the flow with the least waiting work.
    fn deal(&mut self, queuing: Queuing, hash: u64) -> u32 {
        let hand = Dealer::new(queuing.queues, queuing.hand).deal(hash);
        let offset = self.dealt;
        self.dealt = self.dealt.wrapping_add(1);
        let work = |queue: &u32| self.queues.get(queue).map_or(0, |queue| queue.waiting_work);
        hand.from(offset).min_by_key(work).unwrap_or_default()
    }

    /// Reports whether that many seats are free. A request that needs more than all seats can run alone.
    fn has_room(&self, seats: u32) -> bool {
        match self.response {
            Response::Exempt => true,
            _ if seats > self.limit => self.totals.executing == 0,
            _ => self.totals.seats.saturating_add(seats) <= self.limit,
        }
    }

    /// Occupies the seats of a request.
    fn occupy(&mut self, queue: Option<u32>, work: Work, flow: &FlowSeries, now: Instant) -> Seat {
        let seats = work.seats();
        self.totals.executing += 1;
        self.totals.seats += seats;
        self.totals.dispatched += 1;
        flow.dispatched.fetch_add(1, Relaxed);
        flow.executing.fetch_add(1, Relaxed);
        flow.seats.fetch_add(u64::from(seats), Relaxed);
        if let Some(index) = queue {
            self.last = index;
            let queue = self.queues.entry(index).or_default();
            queue.executing += 1;
            queue.seats += seats;
            queue.next_start += work.total();
            queue.catch_up();
        }
        self.note_demand(now);
        Seat { queue, work, since: now }
    }

    /// Gives free seats to waiting requests.
    fn dispatch(&mut self, now: Instant) {
        while self.totals.waiting > 0 && self.totals.seats < self.limit {
            let Some(index) = self.next_queue() else { return };
            let Some(queue) = self.queues.get_mut(&index) else { return };
            let Some(next) = queue.waiting.front() else { return };
            let (seats, flow) = (next.work.seats(), Arc::clone(&next.flow));
            if !self.has_room(seats) {
                flow.unaccommodated.fetch_add(1, Relaxed);
                return;
            }
            let Some(mut next) = self.queues.get_mut(&index).and_then(|queue| queue.waiting.pop_front()) else {
                return;
            };
            self.leave(index, &next);
            next.work.limit_last(self.limit);
            let seat = self.occupy(Some(index), next.work, &next.flow, now);
            if let Err(seat) = next.seat.send(seat) {
                // The request is gone. Its place is canceled under the same lock, so this cannot happen.
                self.end(&seat, &next.flow, now);
                self.free(&seat, &next.flow, now);
            }
        }
    }

    /// Returns the queue whose next request ends first in virtual time. Among equal ones, the turns rotate.
    fn next_queue(&self) -> Option<u32> {
        let after = self.queues.range(self.last.saturating_add(1)..);
        let all = after.chain(self.queues.range(..=self.last));
        let ends = all.filter_map(|(index, queue)| {
            let next = queue.waiting.front()?;
            Some((*index, queue.next_start + next.work.total()))
        });
        ends.min_by_key(|(_, end)| *end).map(|(index, _)| index)
    }

    /// Removes a request that waits, and returns its place. Returns the seat if it arrived already.
    pub(super) fn cancel(&mut self, mut place: Place, now: Instant) -> Option<Seat> {
        self.sync(now);
        let queue = self.queues.get_mut(&place.queue);
        let found = queue.and_then(|queue| {
            let at = queue.waiting.iter().position(|waiting| waiting.id == place.id)?;
            queue.waiting.remove(at)
        });
        let Some(canceled) = found else { return place.seat.try_recv().ok() };
        self.leave(place.queue, &canceled);
        self.totals.rejected += 1;
        self.totals.canceled += 1;
        canceled.flow.reject(Reason::TimeOut);
        self.forget_if_unused(place.queue);
        self.note_demand(now);
        // A wide request may have been in the way of others.
        self.dispatch(now);
        None
    }

    /// Updates the sums for a request that has left its queue.
    fn leave(&mut self, index: u32, waiting: &Waiting) {
        self.add_waiting(waiting, false);
        if let Some(queue) = self.queues.get_mut(&index) {
            queue.waiting_work -= waiting.work.total();
            queue.catch_up();
        }
    }

    fn add_waiting(&mut self, waiting: &Waiting, enters: bool) {
        let (seats, flow) = (waiting.work.seats(), &waiting.flow);
        if enters {
            self.totals.waiting += 1;
            self.totals.waiting_seats += seats;
            flow.waiting.fetch_add(1, Relaxed);
            flow.waiting_seats.fetch_add(u64::from(seats), Relaxed);
        } else {
            self.totals.waiting -= 1;
            self.totals.waiting_seats -= seats;
            flow.waiting.fetch_sub(1, Relaxed);
            flow.waiting_seats.fetch_sub(u64::from(seats), Relaxed);
        }
    }

    /// Ends a request. Returns the time for which its seats stay occupied; then they must be released.
    pub(super) fn finish(&mut self, seat: &Seat, flow: &FlowSeries, now: Instant) -> Option<Duration> {
        self.sync(now);
        self.end(seat, flow, now);
        if seat.work.latency.is_zero() || self.response == Response::Exempt {
            self.free(seat, flow, now);
            self.dispatch(now);
            return None;
        }
        Some(seat.work.latency)
    }

    /// Releases the seats of a request that has ended.
    pub(super) fn release(&mut self, seat: &Seat, flow: &FlowSeries, now: Instant) {
        self.sync(now);
        self.free(seat, flow, now);
        self.dispatch(now);
    }

    fn end(&mut self, seat: &Seat, flow: &FlowSeries, now: Instant) {
        self.totals.executing -= 1;
        flow.executing.fetch_sub(1, Relaxed);
        if let Some(queue) = seat.queue.and_then(|index| self.queues.get_mut(&index)) {
            queue.executing -= 1;
            queue.next_start += seat.work.excess(now.saturating_duration_since(seat.since));
            queue.catch_up();
        }
    }

    fn free(&mut self, seat: &Seat, flow: &FlowSeries, now: Instant) {
        let seats = seat.work.seats();
        self.totals.seats -= seats;
        flow.seats.fetch_sub(u64::from(seats), Relaxed);
        if let Some(index) = seat.queue {
            if let Some(queue) = self.queues.get_mut(&index) {
                queue.seats -= seats;
            }
            self.forget_if_unused(index);
        }
        self.note_demand(now);
    }

    fn forget_if_unused(&mut self, index: u32) {
        let is_unused = |queue: &Queue| queue.waiting.is_empty() && queue.executing == 0 && queue.seats == 0;
        if self.queues.get(&index).is_some_and(is_unused) {
            self.queues.remove(&index);
        }
    }

    fn note_demand(&mut self, now: Instant) {
        self.demand.set(now, self.totals.seats + self.totals.waiting_seats);
    }

    /// Advances the virtual time.
    fn sync(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.synced);
        self.synced = now;
        if elapsed.is_zero() || self.queues.is_empty() {
            return;
        }
        let busy = self.queues.values().filter(|queue| !queue.waiting.is_empty() || queue.executing > 0).count();
        if busy > 0 {
            let used = (self.totals.seats + self.totals.waiting_seats).min(self.limit);
            let done = SeatTime::from(used) * i128::try_from(elapsed.as_nanos()).unwrap_or(i128::from(i64::MAX));
            self.virtual_time += done / i128::try_from(busy).unwrap_or(1);
        }
    }
}

impl Queue {
    /// Ensures that the next request does not start before it arrived, in virtual time. A queue that cannot use its share
    /// would otherwise save it for later.
    fn catch_up(&mut self) {
        if let Some(next) = self.waiting.front() {
            self.next_start = self.next_start.max(next.arrived);
        }
    }
}

impl Seat {
    /// Returns the time at which the request began to run.
    pub(super) fn since(&self) -> Instant {
        self.since
    }
}

#[cfg(test)]
mod tests;
