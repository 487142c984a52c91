use super::*;

const MS: Duration = Duration::from_millis(1);

/// A set with a fixed limit and its own time.
struct Fixture {
    set: QueueSet,
    now: Instant,
    flow: Arc<FlowSeries>,
}

impl Fixture {
    fn new(response: Response, limit: u32) -> Self {
        let now = Instant::now();
        Self { set: QueueSet::new(response, limit, now), now, flow: Arc::default() }
    }

    fn queues(queues: u32, hand: u32, length: u32, limit: u32) -> Self {
        Self::new(Response::Queue(Queuing { queues, hand, length }), limit)
    }

    fn start(&mut self, seats: u32, hash: u64) -> Decision {
        self.set.start(Work { initial: seats, ..Work::ONE }, hash, &self.flow, self.now)
    }

    fn run(&mut self, seats: u32, hash: u64) -> Seat {
        match self.start(seats, hash) {
            Decision::Run(seat) => seat,
            other => panic!("{other:?}"),
        }
    }

    fn wait(&mut self, seats: u32, hash: u64) -> Place {
        match self.start(seats, hash) {
            Decision::Wait(place) => place,
            other => panic!("{other:?}"),
        }
    }

    fn rejection(&mut self, seats: u32, hash: u64) -> Reason {
        match self.start(seats, hash) {
            Decision::Reject(reason) => reason,
            other => panic!("{other:?}"),
        }
    }

    fn finish(&mut self, seat: &Seat) {
        assert_eq!(self.set.finish(seat, &self.flow, self.now), None);
    }

    fn assert_unused(&self) {
        let Totals { waiting, waiting_seats, executing, seats, .. } = self.set.totals;
        assert_eq!((waiting, waiting_seats, executing, seats), (0, 0, 0, 0));
        assert_eq!(self.set.queues.len(), 0);
        assert!(!self.flow.is_busy());
    }
}

#[test]
fn level_without_queues_rejects_beyond_its_limit() {
    let mut level = Fixture::new(Response::Reject, 3);
    let (wide, narrow) = (level.run(2, 0), level.run(1, 0));
    assert_eq!(level.rejection(1, 0), Reason::ConcurrencyLimit);
    level.finish(&narrow);
    assert_eq!(level.rejection(2, 0), Reason::ConcurrencyLimit);
    let again = level.run(1, 0);
    level.finish(&again);
    level.finish(&wide);
    // A request that needs more than all seats runs alone.
    let widest = level.run(9, 0);
    assert_eq!(level.rejection(1, 0), Reason::ConcurrencyLimit);
    level.finish(&widest);
    level.assert_unused();
}

#[test]
fn exempt_level_never_rejects() {
    let mut level = Fixture::new(Response::Exempt, 0);
    let seats: Vec<Seat> = (0..100).map(|_| level.run(10, 0)).collect();
    assert_eq!(level.set.totals.seats, 1000);
    for seat in &seats {
        level.finish(seat);
    }
    level.assert_unused();
}

#[test]
fn queue_is_first_in_first_out_and_bounded() {
    let mut level = Fixture::queues(1, 1, 2, 1);
    let first = level.run(1, 0);
    let (mut second, mut third) = (level.wait(1, 0), level.wait(1, 0));
    assert_eq!(level.rejection(1, 0), Reason::QueueFull);
    assert_eq!(level.set.totals.waiting, 2);
    level.finish(&first);
    let seat = second.seat.try_recv().unwrap();
    third.seat.try_recv().unwrap_err();
    level.finish(&seat);
    let seat = third.seat.try_recv().unwrap();
    level.finish(&seat);
    level.assert_unused();
}

#[test]
fn wide_request_waits_until_enough_seats_are_free() {
    let mut level = Fixture::queues(1, 1, 10, 3);
    let seats = [level.run(1, 0), level.run(1, 0), level.run(1, 0)];
    let (mut wide, mut narrow) = (level.wait(3, 0), level.wait(1, 0));
    level.finish(&seats[0]);
    level.finish(&seats[1]);
    // The narrow request does not overtake.
    wide.seat.try_recv().unwrap_err();
    narrow.seat.try_recv().unwrap_err();
    assert_eq!(level.flow.unaccommodated.load(Relaxed), 2);
    level.finish(&seats[2]);
    let seat = wide.seat.try_recv().unwrap();
    level.finish(&seat);
    let seat = narrow.seat.try_recv().unwrap();
    level.finish(&seat);
    level.assert_unused();
}

#[test]
fn canceled_request_frees_its_place_and_those_behind_it() {
    let mut level = Fixture::queues(1, 1, 2, 2);
    let first = level.run(1, 0);
    let (wide, mut narrow) = (level.wait(2, 0), level.wait(1, 0));
    assert!(level.set.cancel(wide, level.now).is_none());
    let seat = narrow.seat.try_recv().unwrap();
    assert_eq!((level.set.totals.canceled, level.set.totals.rejected), (1, 1));
    level.finish(&first);
    level.finish(&seat);
    level.assert_unused();
}

#[test]
fn seat_of_a_request_that_is_canceled_late_is_returned() {
    let mut level = Fixture::queues(1, 1, 2, 1);
    let first = level.run(1, 0);
    let place = level.wait(1, 0);
    level.finish(&first);
    let seat = level.set.cancel(place, level.now).unwrap();
    level.finish(&seat);
    level.assert_unused();
    assert_eq!(level.set.totals.canceled, 0);
}

#[test]
fn seats_of_a_write_stay_occupied_for_its_latency() {
    let mut level = Fixture::queues(1, 1, 2, 2);
    let work = Work { initial: 1, last: 4, latency: 5 * MS };
    let Decision::Run(seat) = level.set.start(work, 0, &Arc::clone(&level.flow), level.now) else { panic!() };
    // The work does not fit into the level, so it takes longer.
    assert_eq!(level.set.totals.seats, 2);
    let mut waiting = level.wait(1, 0);
    assert_eq!(level.set.finish(&seat, &level.flow, level.now), Some(10 * MS));
    assert_eq!((level.set.totals.executing, level.set.totals.seats), (0, 2));
    waiting.seat.try_recv().unwrap_err();
    level.now += 10 * MS;
    level.set.release(&seat, &level.flow, level.now);
    let seat = waiting.seat.try_recv().unwrap();
    level.finish(&seat);
    level.assert_unused();
}

/// Runs flows that always have requests waiting, each with its own queue, and returns the time of seats that each got.
fn shares(limit: u32, flows: &[(u32, usize)], time: Duration) -> Vec<Duration> {
    let mut level = Fixture::queues(u32::try_from(flows.len()).unwrap(), 1, 1000, limit);
    let mut running: Vec<(usize, u32, Seat, Instant)> = Vec::new();
    let mut waiting: Vec<(usize, u32, Place)> = Vec::new();
    let mut got = vec![Duration::ZERO; flows.len()];
    let end = level.now + time;
    while level.now < end {
        for (flow, (seats, clients)) in flows.iter().enumerate() {
            let busy = running.iter().filter(|(other, ..)| *other == flow).count()
                + waiting.iter().filter(|(other, ..)| *other == flow).count();
            for _ in busy..*clients {
                match level.start(*seats, flow as u64) {
                    Decision::Run(seat) => running.push((flow, *seats, seat, level.now)),
                    Decision::Wait(place) => waiting.push((flow, *seats, place)),
                    Decision::Reject(reason) => panic!("{reason:?}"),
                }
            }
        }
        let mut still = Vec::new();
        for (flow, seats, mut place) in waiting.drain(..) {
            match place.seat.try_recv() {
                Ok(seat) => running.push((flow, seats, seat, level.now)),
                Err(_) => still.push((flow, seats, place)),
            }
        }
        waiting = still;
        level.now += MS;
        // Each request takes 10 ms.
        let (ended, others): (Vec<_>, Vec<_>) =
            running.drain(..).partition(|(.., since)| level.now - *since >= 10 * MS);
        running = others;
        for (flow, seats, seat, since) in ended {
            got[flow] += (level.now - since) * seats;
            level.finish(&seat);
        }
    }
    got
}

#[test]
fn flows_get_equal_shares_regardless_of_their_number_of_clients() {
    let shares = shares(4, &[(1, 40), (1, 5), (1, 200)], Duration::from_secs(20));
    let [least, most] = [shares.iter().min().unwrap(), shares.iter().max().unwrap()];
    assert!(most.as_secs_f64() / least.as_secs_f64() < 1.1, "{shares:?}");
}

#[test]
fn flows_with_wide_requests_get_equal_shares_of_seats() {
    let shares = shares(8, &[(4, 20), (1, 20)], Duration::from_secs(20));
    let ratio = shares[0].as_secs_f64() / shares[1].as_secs_f64();
    assert!((0.8..1.25).contains(&ratio), "{shares:?}");
}

#[test]
fn small_flow_is_not_delayed_by_a_large_one() {
    let shares = shares(4, &[(1, 100), (1, 1)], Duration::from_secs(10));
    // Each request of the small flow waits only for the next free seat. First in, first out would leave it 0.4 s.
    assert!(shares[1] > Duration::from_secs(4), "{shares:?}");
    assert!(shares[0] + shares[1] > Duration::from_secs(39), "{shares:?}");
}

#[test]
fn flow_takes_the_queue_of_its_hand_with_the_least_work() {
    let mut level = Fixture::queues(8, 4, 10, 1);
    let _running = level.run(1, 7);
    let _places: Vec<Place> = (0..8).map(|_| level.wait(1, 7)).collect();
    let lengths: Vec<usize> = level.set.summaries().map(|queue| queue.waiting).filter(|waiting| *waiting > 0).collect();
    assert_eq!(lengths, [2, 2, 2, 2]);
}

#[test]
fn changed_configuration_keeps_requests_that_wait() {
    let mut level = Fixture::queues(8, 1, 10, 1);
    let first = level.run(1, 7);
    let mut waiting = level.wait(1, 7);
    level.set.configure(Response::Reject, level.now);
    assert_eq!(level.rejection(1, 7), Reason::ConcurrencyLimit);
    level.set.set_limit(2, level.now);
    let seat = waiting.seat.try_recv().unwrap();
    level.finish(&first);
    level.finish(&seat);
    level.assert_unused();
}

#[test]
fn many_queues_take_no_memory_without_requests() {
    let mut level = Fixture::queues(10_000_000, 2, 50, 1);
    let seat = level.run(1, u64::MAX);
    assert_eq!(level.set.queues.len(), 1);
    level.finish(&seat);
    level.assert_unused();
}
