//! Heartbeats of the simulated nodes: each renews its lease every ten seconds, and reports its status every five
//! minutes, as kubelets do.
//!
//! The heartbeats of all nodes are spread over these intervals, so that a large fleet is a constant load.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    future::Future,
    time::Duration,
};

use futures::{StreamExt as _, stream};
use tokio::time::{Instant, sleep_until};
use windlass_api::Entropy;

use super::addresses::Host;

/// The interval between two renewals of a lease: a quarter of its duration.
const RENEWAL: Duration = Duration::from_secs(10);
/// The maximum random extension of [`RENEWAL`], as a fraction of it.
const JITTER: f64 = 0.04;
/// The interval between two reports of an unchanged status.
const REPORT: Duration = Duration::from_mins(5);
/// The number of nodes that send requests at the same time.
const CONCURRENCY: usize = 32;

/// One heartbeat of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heartbeat {
    pub(super) host: Host,
    /// `true` if the node also reports its status.
    pub(super) reports: bool,
}

/// The next heartbeat of each node.
#[derive(Debug)]
pub(super) struct Schedule {
    renewals: BinaryHeap<Reverse<(Instant, Host)>>,
    reports: HashMap<Host, Instant>,
    entropy: Entropy,
}

impl Schedule {
    /// Spreads the first heartbeats of these nodes over the intervals. A node whose status is not `fresh` reports it with
    /// its first heartbeat.
    pub(super) fn new(nodes: &[(Host, bool)], entropy: Entropy) -> Self {
        let now = Instant::now();
        let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX).max(1);
        let mut schedule = Self { renewals: BinaryHeap::new(), reports: HashMap::new(), entropy };
        for (at, (host, fresh)) in (0_u32..).zip(nodes) {
            schedule.renewals.push(Reverse((now + RENEWAL * at / count, *host)));
            let until_report = if *fresh { schedule.part_of(REPORT) } else { Duration::ZERO };
            schedule.reports.insert(*host, now + until_report);
        }
        schedule
    }

    /// Sends the heartbeats when they are due, forever. If requests are slow, nodes skip heartbeats.
    pub(super) async fn run<F: Future<Output = ()>>(self, send: impl Fn(Heartbeat) -> F) {
        let heartbeats = stream::unfold(self, async |mut schedule| Some((schedule.next().await?, schedule)));
        heartbeats.for_each_concurrent(CONCURRENCY, send).await;
    }

    /// Returns a random duration below this one.
    fn part_of(&self, interval: Duration) -> Duration {
        let milliseconds = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.entropy.below(milliseconds))
    }

    /// Waits for the next heartbeat. Returns `None` if there are no nodes.
    async fn next(&mut self) -> Option<Heartbeat> {
        let (due, host) = self.renewals.peek()?.0;
        sleep_until(due).await;
        self.renewals.pop();
        let now = Instant::now();
        self.renewals.push(Reverse(((due + self.entropy.jitter(RENEWAL, JITTER)).max(now), host)));
        let report = self.reports.entry(host).or_insert(now);
        let reports = *report <= now;
        if reports {
            *report = now + REPORT;
        }
        Some(Heartbeat { host, reports })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the heartbeats of a simulated time, each with the second in which it is sent.
    async fn heartbeats_in(seconds: u64, nodes: &[(Host, bool)]) -> Vec<(u64, Heartbeat)> {
        let mut schedule = Schedule::new(nodes, Entropy::seeded(1));
        let (began, mut sent) = (Instant::now(), Vec::new());
        let all = async {
            while let Some(heartbeat) = schedule.next().await {
                sent.push((began.elapsed().as_secs(), heartbeat));
            }
        };
        tokio::time::timeout(Duration::from_secs(seconds), all).await.unwrap_err();
        sent
    }

    fn most_in_one_second(sent: &[(u64, Heartbeat)]) -> usize {
        let mut seconds = HashMap::<_, usize>::new();
        for (second, _) in sent {
            *seconds.entry(second).or_default() += 1;
        }
        seconds.into_values().max().unwrap_or_default()
    }

    #[tokio::test(start_paused = true)]
    async fn leases_are_renewed_every_ten_seconds_without_bursts() {
        let nodes: Vec<_> = Host::first(1_000).map(|host| (host, true)).collect();
        let sent = heartbeats_in(600, &nodes).await;
        for (host, _) in &nodes {
            let of_host: Vec<_> = sent.iter().filter(|(_, heartbeat)| heartbeat.host == *host).collect();
            assert!((57..=61).contains(&of_host.len()), "{} heartbeats of {}", of_host.len(), host.name());
            assert!(of_host.windows(2).all(|pair| pair[1].0 - pair[0].0 <= 11), "{of_host:?}");
        }
        assert!(most_in_one_second(&sent) < 150, "{} in one second, 100 on average", most_in_one_second(&sent));
    }

    #[tokio::test(start_paused = true)]
    async fn status_is_reported_every_five_minutes_without_bursts() {
        let nodes: Vec<_> = Host::first(1_000).map(|host| (host, true)).collect();
        let mut sent = heartbeats_in(900, &nodes).await;
        sent.retain(|(_, heartbeat)| heartbeat.reports);
        for (host, _) in &nodes {
            let seconds: Vec<_> = sent.iter().filter(|(_, report)| report.host == *host).map(|(at, _)| *at).collect();
            assert!((2..=3).contains(&seconds.len()), "{seconds:?}");
            assert!(seconds.windows(2).all(|pair| (300..=311).contains(&(pair[1] - pair[0]))), "{seconds:?}");
        }
        assert!(most_in_one_second(&sent) < 18, "{} in one second, 3.3 on average", most_in_one_second(&sent));
    }

    #[tokio::test(start_paused = true)]
    async fn node_from_a_previous_run_reports_its_status_at_once() {
        let mut hosts = Host::first(2);
        let nodes = [(hosts.next().unwrap(), false), (hosts.next().unwrap(), true)];
        let first: Vec<_> = heartbeats_in(9, &nodes).await.into_iter().map(|(_, heartbeat)| heartbeat).collect();
        assert_eq!(first, nodes.map(|(host, fresh)| Heartbeat { host, reports: !fresh }));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_requests_delay_heartbeats_and_are_not_repeated() {
        let nodes: Vec<_> = Host::first(1).map(|host| (host, true)).collect();
        let (began, sent) = (Instant::now(), parking_lot::Mutex::new(Vec::new()));
        let slow = Schedule::new(&nodes, Entropy::seeded(1)).run(async |_| {
            sent.lock().push(began.elapsed().as_secs());
            tokio::time::sleep(Duration::from_secs(3)).await;
        });
        tokio::time::timeout(Duration::from_secs(35), slow).await.unwrap_err();
        assert_eq!(*sent.lock(), [0, 10, 20, 30]);
    }
}
