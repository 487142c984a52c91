//! A model of sharding groups under faults: real members, a simulated server, and a network that loses and delays
//! requests. Clocks show different times and run at different rates. Processes crash, pause, leave and return. A seed
//! determines every run.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::Instant;
use windlass_api::{Entropy, ObjectKey, Resource, k8s_openapi::api::core::v1::ConfigMap};

use super::{
    claims::{Answer, Claim, Claims, Ticket},
    member::{Member, Notice, Step, Version, Written},
    ring::Point,
};
use crate::leader_election::Timings;

/// The simulated time in milliseconds, which the members cannot observe.
type Time = u64;

const TICK: Time = 50;
const KEYS: usize = 24;
const REPLICAS: usize = 5;
/// The time after which a client gives up a request, by its own clock.
const TIMEOUT: Duration = Duration::from_secs(5);
const LEASE: Duration = Duration::from_secs(15);
const MARGIN: Duration = Duration::from_secs(2);
/// The time limit of a reconcile that loses its key.
const PATIENCE: Duration = Duration::from_secs(3);

/// Deliberate defects. The model must detect each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sabotage {
    Nothing,
    /// The rates of the clocks differ by more than allowed.
    FastClocks,
    /// Reconciles continue without checking their permit.
    NoGuard,
    /// The server ignores preconditions.
    NoPreconditions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    /// Requests may be slow and fail.
    Rough,
    Calm,
}

/// Violations of the guarantees.
#[derive(Debug, PartialEq, Eq)]
enum Violation {
    /// Two replicas reconcile this key at the same time.
    Doubled(usize),
    /// Writes to this object were undone.
    Undone(usize),
    /// After the faults have ended, this key has no owner or several owners.
    Astray(usize),
}

struct World {
    entropy: Entropy,
    epoch: Instant,
    now: Time,
    sabotage: Sabotage,
    weather: Weather,
    points: Vec<Point>,
    server: Server,
    /// Requests on their way to the server.
    network: Vec<(Time, Request)>,
    replicas: Vec<Replica>,
    names: usize,
    late_writes: usize,
    handovers: usize,
}

#[derive(Default)]
struct Server {
    version: u64,
    leases: BTreeMap<Arc<str>, Notice>,
    objects: Vec<Object>,
}

#[derive(Clone, Copy, Default)]
struct Object {
    version: u64,
    /// A counter that every write increments.
    count: u64,
    writes: u64,
}

enum Request {
    Lease { sender: usize, call: u64, step: Step, name: Arc<str>, incarnation: String },
    Write { sender: usize, ticket: Ticket, key: usize, base: Object },
}

struct Replica {
    member: Member,
    claims: Claims,
    /// The first instant and the rate of its clock, in thousandths.
    origin: Instant,
    speed: u64,
    state: State,
    line: Line,
    calls: u64,
    /// The pending call of the member: its number, the step, the start time, and the result after its arrival.
    call: Option<(u64, Step, Instant, Option<(Time, Outcome)>)>,
    work: Vec<Work>,
    draining: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    StandsStill(Time),
    /// The process starts no more reconciles, and deletes its lease at the end.
    Leaves,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Up,
    /// Requests are lost, or arrive late.
    Cut,
    /// Requests arrive, but responses are lost.
    Deaf,
}

#[derive(Clone, Debug)]
enum Outcome {
    Written(Written),
    Listed(Option<Vec<Notice>>),
}

/// A reconcile: it reads, works and writes, several times.
struct Work {
    key: usize,
    ticket: Ticket,
    read: Option<Object>,
    rounds: u64,
    resumes: Time,
}

impl World {
    fn new(seed: u64, sabotage: Sabotage) -> Self {
        let resource = ConfigMap::api_resource();
        let point = |n| Point::of(&resource, &ObjectKey::new(format!("object-{n}")).within("shop"));
        let objects = vec![Object::default(); KEYS];
        let mut world = Self {
            entropy: Entropy::seeded(seed),
            epoch: Instant::now(),
            now: 0,
            sabotage,
            weather: Weather::Rough,
            points: (0..KEYS).map(point).collect(),
            server: Server { objects, ..Server::default() },
            network: Vec::new(),
            replicas: Vec::new(),
            names: 0,
            late_writes: 0,
            handovers: 0,
        };
        for _ in 0..3 {
            world.join(None);
        }
        world
    }

    fn below(&self, bound: u64) -> u64 {
        self.entropy.below(bound)
    }

    fn chance(&self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    fn index(&self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).unwrap()
    }

    /// Starts a process, possibly with the name of a former one.
    fn join(&mut self, name: Option<Arc<str>>) {
        self.names += 1;
        let name = name.unwrap_or_else(|| format!("painter-{}", self.names).into());
        // The clocks differ by hours. Their rates differ within the bound, which is (15 s + 2 s) / 10 s = 1.7.
        let origin = self.epoch + Duration::from_millis(self.below(7_200_000));
        let speed = match self.sabotage {
            Sabotage::FastClocks => [500, 2_000][self.index(2)],
            _ => 800 + self.below(550),
        };
        let [renew_deadline, retry_period] = [10, 2].map(Duration::from_secs);
        let timings = Timings { lease_duration: LEASE, renew_deadline, retry_period };
        let now = origin + elapsed(self.now, speed);
        let replica = Replica {
            claims: Claims::new(Arc::clone(&name)),
            member: Member::new(name, format!("life-{}", self.names), timings, MARGIN, now),
            origin,
            speed,
            state: State::Runs,
            line: Line::Up,
            calls: 0,
            call: None,
            work: Vec::new(),
            draining: None,
        };
        self.replicas.push(replica);
    }

    fn living(&self) -> usize {
        self.replicas.iter().filter(|replica| matches!(replica.state, State::Runs | State::StandsStill(_))).count()
    }

    /// Injects a fault into a random process.
    fn fault(&mut self) {
        let at = self.index(self.replicas.len());
        let (what, long) = (self.below(9), 500 + self.below(40_000));
        let (living, now) = (self.living(), self.now);
        let replica = &mut self.replicas[at];
        if !matches!(replica.state, State::Runs) {
            if living < REPLICAS {
                let name = (replica.state == State::Gone && what < 4).then(|| Arc::clone(replica.member.name()));
                self.join(name);
            }
            return;
        }
        match what {
            0 if living > 1 => replica.state = State::Gone,
            1 if living > 1 => replica.state = State::Leaves,
            2 | 3 => replica.state = State::StandsStill(now + long),
            4 => replica.line = Line::Cut,
            5 => replica.line = Line::Deaf,
            6 if living < REPLICAS => self.join(None),
            _ => replica.line = Line::Up,
        }
    }

    fn heal(&mut self) {
        self.weather = Weather::Calm;
        for replica in &mut self.replicas {
            replica.line = Line::Up;
            if matches!(replica.state, State::StandsStill(_)) {
                replica.state = State::Runs;
            }
        }
    }

    /// Returns the delay of a message, which is sometimes long.
    fn delay(&self) -> Time {
        if self.weather == Weather::Rough && self.chance(25) { self.below(30_000) } else { self.below(150) }
    }

    fn send(&mut self, sender: usize, request: Request) {
        let delay = self.delay();
        if self.replicas[sender].line == Line::Cut {
            // The message is lost, or delayed until the connection is restored.
            if self.chance(3) {
                self.network.push((self.now + self.below(30_000), request));
            }
            return;
        }
        self.network.push((self.now + delay, request));
    }

    fn tick(&mut self) -> Result<(), Violation> {
        self.now += TICK;
        let now = self.now;
        let (due, later) = std::mem::take(&mut self.network).into_iter().partition(|(at, _)| *at <= now);
        self.network = later;
        let due: Vec<(Time, Request)> = due;
        for (_, request) in due {
            self.serve(request);
        }
        if self.server.objects.iter().any(|object| object.count != object.writes) {
            let key = self.server.objects.iter().position(|object| object.count != object.writes);
            return Err(Violation::Undone(key.unwrap()));
        }
        for at in 0..self.replicas.len() {
            match self.replicas[at].state {
                State::Gone => continue,
                State::StandsStill(until) if now < until => continue,
                State::StandsStill(_) => self.replicas[at].state = State::Runs,
                State::Runs | State::Leaves => {}
            }
            // The tasks of a process run in any order.
            if self.chance(2) {
                self.take_part(at);
                self.work(at)?;
            } else {
                self.work(at)?;
                self.take_part(at);
            }
        }
        Ok(())
    }

    /// Processes a request on the server.
    fn serve(&mut self, request: Request) {
        match request {
            Request::Write { sender, ticket, key, base } => {
                let replica = &self.replicas[sender];
                let is_late = replica.claims.standing(ticket, replica.clock(self.now)).is_none();
                let object = &mut self.server.objects[key];
                if object.version == base.version || self.sabotage == Sabotage::NoPreconditions {
                    *object = Object { version: object.version + 1, count: base.count + 1, writes: object.writes + 1 };
                    self.late_writes += usize::from(is_late);
                }
            }
            Request::Lease { sender, call, step, name, incarnation } => {
                // The request fails before or after it is processed.
                let fails = (self.weather == Weather::Rough && self.chance(40)).then(|| self.chance(2));
                let outcome = match fails {
                    Some(true) => None,
                    _ => Some(self.server.carry_out(&step, &name, &incarnation)),
                };
                let outcome = match (outcome, fails) {
                    (Some(outcome), None) => outcome,
                    _ if step == Step::List => Outcome::Listed(None),
                    _ => Outcome::Written(Written::Unknown),
                };
                let (arrives, line) = (self.now + self.delay(), self.replicas[sender].line);
                if let Some((waiting, _, _, answer)) = &mut self.replicas[sender].call
                    && *waiting == call
                    && line == Line::Up
                {
                    *answer = Some((arrives, outcome));
                }
            }
        }
    }

    /// Performs the steps of `Membership`.
    fn take_part(&mut self, at: usize) {
        let world_now = self.now;
        let replica = &mut self.replicas[at];
        let now = replica.clock(world_now);
        if let Some((_, step, sent, answer)) = &replica.call {
            let (step, sent) = (step.clone(), *sent);
            let outcome = match answer {
                Some((arrives, outcome)) if *arrives <= world_now => outcome.clone(),
                _ if now < sent + TIMEOUT => return,
                _ if step == Step::List => Outcome::Listed(None),
                _ => Outcome::Written(Written::Unknown),
            };
            replica.call = None;
            match (step, outcome) {
                (Step::List, Outcome::Listed(notices)) => replica.member.listed(now, notices),
                (Step::Evict(version), Outcome::Written(written)) => {
                    replica.member.evicted(&version.name, now, &written);
                }
                (_, Outcome::Written(written)) => replica.member.written(sent, now, written),
                _ => unreachable!("each step has its own outcome"),
            }
            self.handovers += usize::from(replica.tell(now));
        }
        if replica.state == State::Leaves {
            // All work has ended. The remaining step is to delete the lease; if that fails, it expires.
            if replica.work.is_empty() {
                let name = Arc::clone(replica.member.name());
                let mine = |lease: &Notice| lease.incarnation == replica.member.incarnation();
                if self.server.leases.get(&name).is_some_and(mine) {
                    self.server.leases.remove(&name);
                }
                replica.state = State::Gone;
            }
            return;
        }
        let is_drained = replica.claims.is_drained();
        if is_drained {
            replica.draining = None;
        } else if *replica.draining.get_or_insert(now) + PATIENCE <= now {
            replica.claims.revoke_leaving();
        }
        let step = replica.member.next(now, is_drained);
        self.handovers += usize::from(replica.tell(now));
        if let Step::Wait(until) = step {
            assert!(until > now, "a wait must end in the future");
            return;
        }
        replica.calls += 1;
        replica.call = Some((replica.calls, step.clone(), now, None));
        let (call, name) = (replica.calls, Arc::clone(replica.member.name()));
        let incarnation = replica.member.incarnation().to_owned();
        self.send(at, Request::Lease { sender: at, call, step, name, incarnation });
    }

    /// Performs the steps of a controller's workers.
    fn work(&mut self, at: usize) -> Result<(), Violation> {
        let now = self.replicas[at].clock(self.now);
        let mut going = std::mem::take(&mut self.replicas[at].work);
        let mut rest = Vec::new();
        for mut work in going.drain(..) {
            let may = self.replicas[at].claims.standing(work.ticket, now).is_some();
            if !may && self.sabotage != Sabotage::NoGuard {
                self.replicas[at].claims.end(work.ticket);
                continue;
            }
            if self.now < work.resumes {
                rest.push(work);
                continue;
            }
            self.alone(at, work.key)?;
            match work.read.take() {
                None => work.read = Some(self.server.objects[work.key]),
                Some(base) => {
                    let (ticket, key) = (work.ticket, work.key);
                    self.send(at, Request::Write { sender: at, ticket, key, base });
                    work.rounds -= 1;
                }
            }
            work.resumes = self.now + self.below(1_500);
            if work.rounds == 0 {
                self.replicas[at].claims.end(work.ticket);
            } else {
                rest.push(work);
            }
        }
        while rest.len() < 3 && self.replicas[at].state == State::Runs {
            let key = self.index(KEYS);
            if rest.iter().any(|work| work.key == key) {
                break;
            }
            let Answer::Begun(ticket) = self.replicas[at].claims.begin(self.points[key], now) else { break };
            self.alone(at, key)?;
            rest.push(Work { key, ticket, read: None, rounds: 1 + self.below(4), resumes: self.now });
        }
        self.replicas[at].work = rest;
        Ok(())
    }

    /// Checks that no other replica runs a reconcile of the key that may continue. A reconcile whose permit was revoked
    /// checks it before its next step.
    fn alone(&self, at: usize, key: usize) -> Result<(), Violation> {
        let doubled = self.replicas.iter().enumerate().any(|(other, replica)| {
            let may = |work: &Work| {
                work.key == key
                    && (self.sabotage == Sabotage::NoGuard
                        || replica.claims.standing(work.ticket, replica.clock(self.now)).is_some())
            };
            other != at && replica.state != State::Gone && replica.work.iter().any(may)
        });
        if doubled { Err(Violation::Doubled(key)) } else { Ok(()) }
    }

    /// Checks that each key has exactly one running owner.
    fn settled(&self) -> Result<(), Violation> {
        for (key, point) in self.points.iter().enumerate() {
            let owns = |replica: &&Replica| {
                replica.state == State::Runs
                    && replica.claims.until().is_some_and(|until| replica.clock(self.now) < until)
                    && replica.claims.assignment().allows(*point)
            };
            if self.replicas.iter().filter(owns).count() != 1 {
                return Err(Violation::Astray(key));
            }
        }
        Ok(())
    }
}

impl Replica {
    /// Returns the time on the process's clock.
    fn clock(&self, now: Time) -> Instant {
        self.origin + elapsed(now, self.speed)
    }

    fn tell(&mut self, now: Instant) -> bool {
        let generation = self.claims.generation();
        self.claims.update(self.member.assignment(), self.member.until(), now);
        generation != self.claims.generation()
    }
}

fn elapsed(now: Time, speed: u64) -> Duration {
    Duration::from_micros(now * speed)
}

impl Server {
    fn carry_out(&mut self, step: &Step, name: &Arc<str>, incarnation: &str) -> Outcome {
        let is_as_seen = |server: &Self, seen: &Version| {
            let stored = server.leases.get(&seen.name);
            stored.is_some_and(|stored| stored.uid == seen.uid && stored.version == seen.version)
        };
        let written = match step {
            Step::List => return Outcome::Listed(Some(self.leases.values().cloned().collect())),
            Step::Wait(_) => unreachable!("nobody is asked to wait"),
            Step::Create(_) if self.leases.contains_key(name) => Written::Refused,
            Step::Create(ring) => {
                self.version += 1;
                let (uid, version) = (format!("uid-{}", self.version), self.version.to_string());
                let notice = Notice {
                    name: Arc::clone(name),
                    uid: uid.clone(),
                    version: version.clone(),
                    incarnation: incarnation.to_owned(),
                    lasts: LEASE,
                    claim: Claim::Ring(ring.clone()),
                };
                self.leases.insert(Arc::clone(name), notice);
                Written::Done(Some(Version { name: Arc::clone(name), uid, version }))
            }
            Step::Update(seen, _) | Step::Evict(seen) if !is_as_seen(self, seen) => Written::Refused,
            Step::Update(seen, ring) => {
                self.version += 1;
                let stored = Version { version: self.version.to_string(), ..seen.clone() };
                if let Some(lease) = self.leases.get_mut(&seen.name) {
                    lease.version.clone_from(&stored.version);
                    lease.claim = Claim::Ring(ring.clone());
                }
                Written::Done(Some(stored))
            }
            Step::Evict(seen) => {
                self.leases.remove(&seen.name);
                Written::Done(None)
            }
        };
        Outcome::Written(written)
    }
}

/// Runs two minutes with faults and two without.
fn run(seed: u64, sabotage: Sabotage) -> Result<World, Violation> {
    let mut world = World::new(seed, sabotage);
    while world.now < 120_000 {
        if world.chance(40) {
            world.fault();
        }
        world.tick()?;
    }
    world.heal();
    while world.now < 240_000 {
        world.tick()?;
    }
    world.settled()?;
    Ok(world)
}

/// Returns the first violation in this number of seeds.
fn violation(seeds: u64, sabotage: Sabotage) -> Option<(u64, Violation)> {
    (0..seeds).find_map(|seed| run(seed, sabotage).err().map(|violation| (seed, violation)))
}

#[test]
fn no_key_is_doubled_or_lost_under_faults() {
    let seeds = std::env::var("WINDLASS_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(60);
    let (mut late, mut handovers, mut writes) = (0, 0, 0);
    for seed in 0..seeds {
        let world = run(seed, Sabotage::Nothing).unwrap_or_else(|violation| panic!("seed {seed}: {violation:?}"));
        late += world.late_writes;
        handovers += world.handovers;
        writes += world.server.objects.iter().map(|object| object.writes).sum::<u64>();
    }
    println!("{seeds} seeds: {handovers} assignments, {writes} writes, {late} of them after the reconcile had ended");
    // Ensures that the runs are meaningful.
    assert!(handovers as u64 > seeds * 20 && writes > seeds * 500 && late > 0, "{handovers} {writes} {late}");
}

#[test]
fn clocks_beyond_the_bound_are_found_to_double_keys() {
    let found = violation(200, Sabotage::FastClocks);
    assert!(matches!(found, Some((_, Violation::Doubled(_)))), "{found:?}");
}

#[test]
fn model_detects_reconciles_without_permit_checks() {
    let found = violation(200, Sabotage::NoGuard);
    assert!(matches!(found, Some((_, Violation::Doubled(_)))), "{found:?}");
}

#[test]
fn model_detects_late_writes_without_preconditions() {
    let found = violation(200, Sabotage::NoPreconditions);
    assert!(matches!(found, Some((_, Violation::Undone(_)))), "{found:?}");
}
