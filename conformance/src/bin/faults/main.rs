//! Three servers on three members of etcd, with a fault in each round: checks that clients continue, that no update is
//! lost or applied twice, and that watches neither skip nor repeat events. `cargo xtask long etcd --only faults` runs
//! this program, as root.
//!
//! Each member and each server has a network namespace of its own. In a round, clients use a few registers (ConfigMaps)
//! and increment a counter. Most of them change to another server after 2 s without an answer; the others wait for the
//! end of the server's own attempts. Two watches follow all objects on each server: the client of one restarts it when it
//! is silent for a second, that of the other one leaves it to the server. The faults:
//!
//! - A member is killed, and started again with its data.
//! - The leader is paused, with open connections.
//! - A server is killed, and started again.
//! - A server is stopped, and started again as another minor version of Kubernetes, as in a rolling upgrade.
//! - The network is partitioned: a process is isolated, or the packets between some of them are lost, in both directions
//!   or in one. So a member can execute writes whose responses are lost.
//! - The disk of a member is slow. strace delays each `fdatasync` and `fsync` of the process, the calls with which etcd
//!   waits for its disk. This needs no device of its own, unlike the limits of cgroups and dm-delay, and no file system
//!   in user space, and it delays nothing else, unlike pausing the process.
//! - etcd is compacted at its current revision. In all rounds, one of the servers also compacts older history.
//!
//! After each round, when the fault is healed and all servers respond again:
//!
//! - The history of the clients is linearizable, according to porcupine (`tools/linearizability`). An update whose
//!   outcome is unknown may have been executed at any time, or never.
//! - The history of etcd, which is read from all members without any code of Windlass, has each acknowledged write
//!   exactly once at its version, each rejected one never, and each unknown one at most once.
//! - Each watch has received each change of that history exactly once and in order. A server may only refuse to continue
//!   a watch if its revision is compacted.
//!
//! At the end, no value was written twice, and the counter is between the number of acknowledged increments and that of
//! the acknowledged and unknown ones.

#![allow(clippy::disallowed_methods, reason = "a tool for people: real processes, real time")]

mod network;
mod process;
mod gateway;
mod cluster;
mod fault;
mod compaction;
mod operation;
mod failover;
mod counter;
mod workload;
mod watching;
mod history;
mod follower;
mod effects;
mod report;
mod run;

use std::{error::Error, process::ExitCode};

use tokio::signal::unix::{SignalKind, signal};

use self::{fault::Fault, run::Run};

type Result<T = (), E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// The number of members of etcd, and of servers.
const MEMBERS: usize = 3;
const SERVERS: usize = 3;

/// The interval in which one of the servers compacts etcd.
const HISTORY: &str = "5s";

/// The namespace of the clients' objects.
const NAMESPACE: &str = "faults";

const USAGE: &str = "usage: faults ETCD WINDLASS CHECKER ROUNDS [SEED] [FAULT,...]";

/// The settings of a run.
#[derive(Debug)]
struct Settings {
    etcd: String,
    windlass: String,
    /// The program that checks linearizability.
    checker: String,
    /// The rounds of each fault.
    rounds: usize,
    seed: u64,
    faults: Vec<Fault>,
}

impl Settings {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut next = || arguments.next().ok_or(USAGE);
        let (etcd, windlass, checker) = (next()?, next()?, next()?);
        let rounds = next()?.parse().map_err(|_| USAGE)?;
        let seed = arguments.next().map_or(Ok(1), |text| text.parse()).map_err(|_| USAGE)?;
        let fault = |name: &str| {
            let found = Fault::ALL.into_iter().find(|fault| fault.name() == name);
            found.ok_or_else(|| format!("unknown fault {name:?}; there are {}", Fault::ALL.map(Fault::name).join(", ")))
        };
        let faults = match arguments.next() {
            Some(names) => names.split(',').map(fault).collect::<Result<_, _>>()?,
            None => Fault::ALL.into(),
        };
        Ok(Self { etcd, windlass, checker, rounds, seed, faults })
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match faults().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("faults: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn faults() -> Result {
    let settings = Settings::parse(std::env::args().skip(1))?;
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        result = Run::all_rounds(&settings) => result,
        // The processes and the network are removed.
        _ = interrupt.recv() => Err("interrupted".into()),
        _ = terminate.recv() => Err("terminated".into()),
    }
}
