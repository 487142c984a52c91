//! The clients of a round, which use a few registers at the same time.

use std::{collections::BTreeMap, time::Duration};

use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep},
};
use windlass_api::Entropy;

use crate::{
    Result,
    cluster::Endpoint,
    counter::{self, Increments},
    failover::Failover,
    operation::{LIMIT, LONG_LIMIT, Object, Operation, Outcome, Request},
};

/// The number of clients, the number of those that wait long for a response instead of changing to another server, and
/// the number of those that increment the counter.
const CLIENTS: usize = 10;
const PATIENT: usize = 5;
const INCREMENTING: usize = 2;

/// The number of registers. Each round has its own, so that their histories are short.
const REGISTERS: usize = 4;

/// The prefix of their names.
const PREFIX: &str = "register-";

/// The bounds of the pause between two operations of a client, in milliseconds.
const PAUSE: (u64, u64) = (4, 16);

/// Reports whether an object of this name is a register.
pub(crate) fn is_register(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// The running clients.
pub(crate) struct Workload {
    registers: Vec<String>,
    stop: watch::Sender<bool>,
    began: Instant,
    clients: JoinSet<Result<(Vec<Operation>, Duration)>>,
    counting: JoinSet<Result<(Increments, Duration)>>,
}

/// The operations of a round.
#[derive(Debug, Default)]
pub(crate) struct Executed {
    pub(crate) registers: Vec<String>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) increments: Increments,
    /// The longest time in which a client got no answer from the servers that it has tried, without the patient clients.
    pub(crate) longest_gap: Duration,
}

impl Workload {
    pub(crate) fn start(round: usize, endpoints: &[Endpoint], random: &Entropy) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (mut clients, mut counting) = (JoinSet::new(), JoinSet::new());
        let registers: Vec<_> = (1..=REGISTERS).map(|number| format!("{PREFIX}{round}-{number}")).collect();
        let began = Instant::now();
        for number in 0..CLIENTS {
            let writer = Writer {
                number,
                name: format!("round{round}-client{number}"),
                registers: registers.clone(),
                random: Entropy::seeded(random.next_u64()),
                servers: Failover::new(endpoints, number, if number < PATIENT { LONG_LIMIT } else { LIMIT }),
                began,
                known: BTreeMap::new(),
                writes: 0,
                operations: Vec::new(),
            };
            clients.spawn(writer.run(stopped.clone()));
        }
        for number in 0..INCREMENTING {
            let name = format!("round{round}-counting{number}");
            counting.spawn(counter::increment(name, Failover::new(endpoints, number + 1, LIMIT), stopped.clone()));
        }
        Self { registers, stop, began, clients, counting }
    }

    /// Stops all clients, reads all registers from all servers, and returns the history.
    pub(crate) async fn finish(mut self, endpoints: &[Endpoint]) -> Result<Executed> {
        self.stop.send_replace(true);
        let mut executed = Executed { registers: self.registers, ..Executed::default() };
        while let Some(client) = self.clients.join_next().await {
            let (operations, gap) = client??;
            executed.operations.extend(operations);
            executed.longest_gap = executed.longest_gap.max(gap);
        }
        while let Some(counted) = self.counting.join_next().await {
            let (increments, gap) = counted??;
            executed.increments += increments;
            executed.longest_gap = executed.longest_gap.max(gap);
        }
        for (index, endpoint) in endpoints.iter().enumerate() {
            let client = endpoint.client()?;
            for register in &executed.registers {
                let called = nanoseconds(self.began)?;
                let outcome = Request::Read.send(&client, register).await;
                if !outcome.is_answer() {
                    return Err(format!("a read of {register} after the round failed: {outcome:?}").into());
                }
                let returned = nanoseconds(self.began)?;
                let (register, request) = (register.clone(), Request::Read);
                let client = CLIENTS + index;
                executed.operations.push(Operation { client, register, request, outcome, called, returned });
            }
        }
        Ok(executed)
    }
}

/// A client that uses all registers.
struct Writer {
    number: usize,
    name: String,
    registers: Vec<String>,
    random: Entropy,
    servers: Failover,
    began: Instant,
    /// Each object as this client has seen it last.
    known: BTreeMap<String, Object>,
    writes: u64,
    operations: Vec<Operation>,
}

impl Writer {
    async fn run(mut self, stopped: watch::Receiver<bool>) -> Result<(Vec<Operation>, Duration)> {
        while !*stopped.borrow() {
            self.operate().await?;
            let pause = PAUSE.0 + self.random.below(PAUSE.1 - PAUSE.0);
            sleep(Duration::from_millis(pause)).await;
        }
        let gap = if self.number < PATIENT { Duration::ZERO } else { self.servers.longest_gap() };
        Ok((self.operations, gap))
    }

    async fn operate(&mut self) -> Result {
        let choice = self.random.below(u64::try_from(self.registers.len())?);
        let register = self.registers[usize::try_from(choice)?].clone();
        let request = self.choose(&register);
        let called = nanoseconds(self.began)?;
        let outcome = if self.random.below(4) == 0 {
            self.servers.send_anywhere(&request, &register, &self.random).await?
        } else {
            self.servers.send(&request, &register).await?
        };
        let returned = nanoseconds(self.began)?;
        match &outcome {
            Outcome::Found(object) => drop(self.known.insert(register.clone(), object.clone())),
            Outcome::Deleted | Outcome::Missing => drop(self.known.remove(&register)),
            // Sometimes the next operation expects the old object again.
            Outcome::Conflict if self.random.below(2) == 0 => drop(self.known.remove(&register)),
            _ => {}
        }
        self.operations.push(Operation { client: self.number, register, request, outcome, called, returned });
        Ok(())
    }

    fn choose(&mut self, register: &str) -> Request {
        let known = self.known.get(register).cloned();
        match (self.random.below(20), known) {
            (0..7, _) => Request::Read,
            (7..10, _) => Request::Overwrite(self.value()),
            (10, Some(known)) => Request::Delete(known),
            (11, _) => Request::Create(self.value()),
            (_, Some(known)) => Request::Put(known, self.value()),
            (number, None) if number % 2 == 0 => Request::Create(self.value()),
            (_, None) => Request::Read,
        }
    }

    /// Returns a value that no other write has.
    fn value(&mut self) -> String {
        self.writes += 1;
        format!("{}-write{}", self.name, self.writes)
    }
}

/// Returns the time since a common start.
fn nanoseconds(began: Instant) -> Result<u64> {
    Ok(u64::try_from(began.elapsed().as_nanos())?)
}
