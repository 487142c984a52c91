//! Limits the rate at which nodes get the taints that evict their pods, by zone, as in kube-controller-manager.
//!
//! Many unready nodes are rarely the fault of the nodes: often their zone is cut off, or the control plane is. Then slow
//! evictions leave time for a repair. A zone is read again at most every 5 s, and only while a node waits for a taint.

use std::{collections::HashMap, time::Duration};

use hashbrown::HashSet;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_api::ObjectExt;
use windlass_cache::{Cached, Lister};

use super::DISRUPTION_PERIOD;

/// The label of a node that counts in no zone.
pub(super) const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";
/// The labels with the region and the zone of a node, and their older names.
const REGION: [&str; 2] = ["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"];
const ZONE: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];
/// The number of unready nodes up to which a zone is normal.
const FEW: usize = 2;

/// The rates at which unready nodes get taints that evict their pods, per second. Each zone has its own. A rate of 0
/// stops evictions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvictionRates {
    /// The rate in a zone with few unready nodes, and in one without ready nodes if other zones have some. Defaults to
    /// 0.1: a node in ten seconds.
    pub normal: f64,
    /// The rate in a large zone with many unready nodes. Defaults to 0.01. It is 0 in small zones.
    pub secondary: f64,
    /// The largest number of nodes in a small zone. Defaults to 50.
    pub large_zone: usize,
    /// The part of unready nodes from which a zone with more than two of them has many. Defaults to 0.55.
    pub unhealthy_zone: f64,
}

impl Default for EvictionRates {
    fn default() -> Self {
        Self { normal: 0.1, secondary: 0.01, large_zone: 50, unhealthy_zone: 0.55 }
    }
}

/// The zones of the cluster.
#[derive(Debug)]
pub(super) struct Zones {
    rates: EvictionRates,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    zones: HashMap<String, Zone>,
    /// The time when the nodes were last counted.
    counted: Option<Instant>,
}

/// A zone with its limiter, a bucket of one token.
#[derive(Debug)]
struct Zone {
    /// The time in which a token is added; `None` for never.
    period: Option<Duration>,
    /// The time of the next token.
    next: Instant,
    /// The UIDs of the unready nodes that got a token.
    admitted: HashSet<String>,
}

/// The nodes of a zone.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    ready: usize,
    unready: usize,
}

impl Zones {
    pub(super) fn new(rates: EvictionRates) -> Self {
        Self { rates, state: Mutex::default() }
    }

    /// Admits a node to the taints that evict its pods, or returns the time after which to ask again.
    pub(super) fn admit(&self, node: &Node, nodes: &Lister<Node>) -> Result<(), Duration> {
        let mut state = self.state.lock();
        let now = Instant::now();
        if state.counted.is_none_or(|counted| now.duration_since(counted) >= DISRUPTION_PERIOD) {
            let current = nodes.list();
            let counted = current.iter().filter(|node| node.meta().label(EXCLUDED).is_none());
            state.count(counted.map(|node| (zone_of(|name| node.meta().label(name)), is_ready(node))), self.rates, now);
        }
        state.admit(&zone_of_node(node), node.uid().unwrap_or_default(), self.rates, now)
    }

    /// Forgets that a node was admitted: it is ready again, or must keep its pods.
    pub(super) fn forget(&self, node: &Node) {
        let mut state = self.state.lock();
        if let Some(zone) = state.zones.get_mut(&zone_of_node(node)) {
            zone.admitted.remove(node.uid().unwrap_or_default());
        }
    }
}

impl State {
    /// Sets the rate of each zone by its nodes.
    fn count(&mut self, nodes: impl Iterator<Item = (String, bool)>, rates: EvictionRates, now: Instant) {
        let mut counts: HashMap<String, Counts> = HashMap::new();
        for (zone, is_ready) in nodes {
            let counts = counts.entry(zone).or_default();
            *(if is_ready { &mut counts.ready } else { &mut counts.unready }) += 1;
        }
        self.zones.retain(|zone, _| counts.contains_key(zone));
        for (zone, counts) in counts {
            let zone = self.zones.entry(zone).or_insert_with(|| Zone::new(rates, now));
            zone.set_period(counts.period(rates), now);
        }
        self.counted = Some(now);
    }

    fn admit(&mut self, zone: &str, uid: &str, rates: EvictionRates, now: Instant) -> Result<(), Duration> {
        // The nodes of a new zone, and a node that does not count, are not among the counted ones.
        let zone = self.zones.entry(zone.to_owned()).or_insert_with(|| Zone::new(rates, now));
        zone.admit(uid, now)
    }
}

impl Zone {
    fn new(rates: EvictionRates, now: Instant) -> Self {
        Self { period: period(rates.normal), next: now, admitted: HashSet::new() }
    }

    /// Changes the rate. A token that is due stays; otherwise the new period begins.
    fn set_period(&mut self, period: Option<Duration>, now: Instant) {
        if self.period == period {
            return;
        }
        let has_token = self.period.is_some() && self.next <= now;
        self.period = period;
        if !has_token {
            self.next = now + period.unwrap_or_default();
        }
    }

    fn admit(&mut self, uid: &str, now: Instant) -> Result<(), Duration> {
        // The node was admitted, but its taint could not be written.
        if self.admitted.contains(uid) {
            return Ok(());
        }
        let Some(period) = self.period else { return Err(DISRUPTION_PERIOD) };
        if self.next > now {
            return Err(DISRUPTION_PERIOD.min(self.next - now));
        }
        self.next = now + period;
        self.admitted.insert(uid.to_owned());
        Ok(())
    }
}

impl Counts {
    /// Returns the time between two evictions; `None` if there are none.
    #[allow(clippy::cast_precision_loss, reason = "numbers of nodes are exact in a float")]
    fn period(self, rates: EvictionRates) -> Option<Duration> {
        let all = self.ready + self.unready;
        let is_disrupted =
            self.ready > 0 && self.unready > FEW && self.unready as f64 / all as f64 >= rates.unhealthy_zone;
        match is_disrupted {
            false => period(rates.normal),
            true if all > rates.large_zone => period(rates.secondary),
            true => None,
        }
    }
}

/// Returns the time between two events at a rate; `None` if there are none.
fn period(rate: f64) -> Option<Duration> {
    if rate > 0.0 { Duration::try_from_secs_f64(1.0 / rate).ok() } else { None }
}

fn zone_of_node(node: &Node) -> String {
    zone_of(|name| node.labels().get(name).map(String::as_str))
}

fn zone_of<'l>(label: impl Fn(&str) -> Option<&'l str>) -> String {
    let value = |names: [&str; 2]| names.into_iter().find_map(&label).unwrap_or_default();
    format!("{}/{}", value(REGION), value(ZONE))
}

fn is_ready(node: &Cached<Node>) -> bool {
    let conditions = node.at::<Vec<NodeCondition>>(&["status", "conditions"]).ok().flatten().unwrap_or_default();
    conditions.iter().any(|found| found.type_ == "Ready" && found.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A cluster with zones of `(ready, unready)` nodes.
    fn count(state: &mut State, zones: &[(usize, usize)], now: Instant) {
        let nodes = zones.iter().enumerate().flat_map(|(zone, (ready, unready))| {
            let of = move |is_ready| (zone.to_string(), is_ready);
            std::iter::repeat_n(of(true), *ready).chain(std::iter::repeat_n(of(false), *unready))
        });
        state.count(nodes, EvictionRates::default(), now);
    }

    /// Returns the seconds between two evictions in the first zone.
    fn seconds(zones: &[(usize, usize)]) -> Option<u64> {
        let mut state = State::default();
        count(&mut state, zones, Instant::now());
        state.zones["0"].period.map(|period| period.as_secs())
    }

    #[test]
    fn rate_depends_on_the_state_and_the_size_of_the_zone() {
        assert_eq!(seconds(&[(10, 0)]), Some(10));
        assert_eq!(seconds(&[(0, 2), (1, 0)]), Some(10));
        assert_eq!(seconds(&[(1, 2)]), Some(10), "two unready nodes are few");
        assert_eq!(seconds(&[(1, 3)]), None, "a small zone");
        assert_eq!(seconds(&[(46, 54)]), Some(10), "below the threshold");
        assert_eq!(seconds(&[(45, 55)]), Some(100), "a large zone at the threshold");
        assert_eq!(seconds(&[(20, 30)]), None, "fifty nodes are a small zone");
        assert_eq!(seconds(&[(20, 31)]), Some(100));
        assert_eq!(seconds(&[(0, 60), (1, 0)]), Some(10), "a zone without ready nodes");
    }

    #[test]
    fn zone_admits_one_node_per_period() {
        let (mut state, now) = (State::default(), Instant::now());
        count(&mut state, &[(5, 2), (5, 1)], now);
        let mut admit = |zone, uid, at| state.admit(zone, uid, EvictionRates::default(), at);
        assert_eq!(admit("0", "a", now), Ok(()));
        assert_eq!(admit("0", "b", now), Err(DISRUPTION_PERIOD));
        assert_eq!(admit("1", "c", now), Ok(()), "each zone has its own limit");
        assert_eq!(admit("0", "b", now + 8 * SECOND), Err(2 * SECOND));
        assert_eq!(admit("0", "a", now + 8 * SECOND), Ok(()), "it was admitted before");
        assert_eq!(admit("0", "b", now + 10 * SECOND), Ok(()));
        assert_eq!(admit("0", "d", now + 11 * SECOND), Err(DISRUPTION_PERIOD), "tokens do not accumulate");
    }

    #[test]
    fn recovered_zone_waits_a_period_before_it_evicts() {
        let (mut state, now) = (State::default(), Instant::now());
        let admit = |state: &mut State, at| state.admit("0", "a", EvictionRates::default(), at);
        count(&mut state, &[(1, 3)], now);
        assert_eq!(admit(&mut state, now), Err(DISRUPTION_PERIOD));
        let later = now + 60 * SECOND;
        count(&mut state, &[(2, 2)], later);
        assert_eq!(admit(&mut state, later + 6 * SECOND), Err(4 * SECOND));
        assert_eq!(admit(&mut state, later + 10 * SECOND), Ok(()));
        count(&mut state, &[(0, 0), (1, 0)], later);
        assert_eq!(state.zones.len(), 1, "a zone ends with its nodes");
    }
}
