//! Leader election with each server: competing managers, and leaders that are killed, paused and disconnected.

use std::{sync::mpsc as blocking, time::Duration};

use conformance::{PATIENCE, Target, on_each_target, unique};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};
use windlass_runtime::{Error, LeaderElection, Leadership, Manager, RunnableContext, Task};

use crate::process::{Order, Process};

const LEASE: Duration = Duration::from_secs(4);
const DEADLINE: Duration = Duration::from_secs(3);
const RETRY: Duration = Duration::from_secs(1);
/// Additional time for the requests of a takeover on a busy machine.
const SLACK: Duration = Duration::from_secs(1);

/// A candidate.
struct Replica {
    process: Process,
    leadership: Leadership,
}

impl Replica {
    async fn start(target: &Target, name: &str, lease: &str) -> Self {
        let election = LeaderElection::new(lease)
            .namespace("default")
            .identity(name)
            .lease_duration(LEASE)
            .renew_deadline(DEADLINE)
            .retry_period(RETRY)
            .release_on_stop();
        let (tell, told) = oneshot::channel();
        let make = |client| {
            let mut manager = Manager::builder(client).leader_election(election).build();
            manager.add(Task::new("teller", async |running: RunnableContext| {
                drop(tell.send(running.leadership().clone()));
                Ok(())
            }));
            manager
        };
        let process = Process::start(target, name, make).await;
        Self { process, leadership: told.await.expect("the manager starts") }
    }
}

async fn replicas(target: &Target, number: usize) -> Vec<Replica> {
    let lease = unique("election");
    let mut replicas = Vec::new();
    for n in 0..number {
        replicas.push(Replica::start(target, &format!("{}-{n}", target.name), &lease).await);
    }
    replicas
}

/// Waits for a leader other than `former`, and checks that there are never two.
async fn next_leader(replicas: &[Replica], former: Option<&str>) -> (usize, Duration) {
    let start = Instant::now();
    loop {
        let looked = Instant::now();
        let leading: Vec<_> = replicas.iter().filter(|replica| replica.leadership.is_leader()).collect();
        // If this thread was delayed, the first replica may have lost its lease in the meantime.
        if looked.elapsed() + DEADLINE < LEASE {
            let names: Vec<_> = leading.iter().map(|replica| &replica.process.name).collect();
            assert!(leading.len() <= 1, "{names:?} lead at once");
        }
        let new = |replica: &Replica| replica.leadership.is_leader() && Some(&*replica.process.name) != former;
        if let Some(at) = replicas.iter().position(new) {
            return (at, start.elapsed());
        }
        assert!(start.elapsed() < PATIENCE, "nobody leads");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Like `next_leader`, after a failure of the leader.
async fn failover(replicas: &[Replica], former: usize) -> usize {
    let (next, took) = next_leader(replicas, Some(&replicas[former].process.name)).await;
    assert!(took <= LEASE + RETRY + SLACK, "the takeover took {took:?}");
    next
}

async fn stop(replicas: Vec<Replica>) {
    for mut replica in replicas {
        replica.process.stop().await;
    }
}

#[tokio::test]
async fn killed_leader_is_replaced_after_its_lease_expires() {
    on_each_target(|target| async {
        let mut replicas = replicas(&target, 2).await;
        let (first, _) = next_leader(&replicas, None).await;
        replicas[first].process.order(Order::Die);
        let second = failover(&replicas, first).await;
        assert_ne!(first, second);
        assert!(replicas[first].process.end().await.is_none());
        stop(replicas).await;
        target
    })
    .await;
}

#[tokio::test]
async fn delayed_leader_does_not_lead_after_resuming() {
    on_each_target(|target| async {
        let mut replicas = replicas(&target, 3).await;
        let (first, _) = next_leader(&replicas, None).await;
        let (thaw, frozen) = blocking::channel();
        replicas[first].process.order(Order::Freeze(frozen));
        failover(&replicas, first).await;
        drop(thaw);
        let error = replicas[first].process.end().await.expect("it ends by itself").unwrap_err();
        assert!(matches!(error, Error::LeadershipLost), "{error:?}");
        stop(replicas).await;
        target
    })
    .await;
}

#[tokio::test]
async fn a_leader_that_is_cut_off_gives_up_before_another_takes_over() {
    on_each_target(|target| async {
        let mut replicas = replicas(&target, 3).await;
        let (first, _) = next_leader(&replicas, None).await;
        replicas[first].process.wire.go_down().await;
        failover(&replicas, first).await;
        let error = replicas[first].process.end().await.expect("it ends by itself").unwrap_err();
        assert!(matches!(error, Error::LeadershipLost), "{error:?}");
        stop(replicas).await;
        target
    })
    .await;
}

#[tokio::test]
async fn a_leader_that_stops_hands_over_at_once() {
    on_each_target(|target| async {
        let mut replicas = replicas(&target, 2).await;
        let (first, _) = next_leader(&replicas, None).await;
        replicas[first].process.order(Order::Stop);
        let (_, took) = next_leader(&replicas, Some(&replicas[first].process.name)).await;
        assert!(took <= RETRY + SLACK, "{took:?}");
        replicas[first].process.end().await.expect("it was not killed").expect("it ends well");
        stop(replicas).await;
        target
    })
    .await;
}
