//! The network of the simulated nodes: node names, address ranges and pod addresses.

use std::{net::Ipv4Addr, sync::Arc};

use hashbrown::HashMap;

/// The number of nodes whose pods have addresses from 10.244.0.0 on, up to 10.255.255.255.
const FIRST_NODES: u16 = 12 * 256;
/// The maximum number of nodes with an address range. The pods of further nodes have addresses from 10.216.0.0 on, up to
/// 10.243.255.255.
pub(crate) const MOST_NODES: u16 = FIRST_NODES + 28 * 256;

/// The host numbers for pods in a node's range: 0 is the network, 1 the gateway, 255 the broadcast address.
const HOSTS: std::ops::RangeInclusive<u8> = 2..=254;

/// A simulated node, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Host(u16);

/// The addresses of the pods.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    by_pod: HashMap<Arc<str>, Ipv4Addr>,
    /// The used addresses of each node, and the position of the next search. A released address is reused as late as
    /// possible, because clients may still have it cached for the old pod.
    ranges: HashMap<Host, Range>,
}

#[derive(Debug)]
struct Range {
    taken: HashMap<u8, Arc<str>>,
    next: u8,
}

impl Host {
    /// Returns the first `count` nodes.
    pub(crate) fn first(count: u16) -> impl Iterator<Item = Self> {
        (0..count.min(MOST_NODES)).map(Self)
    }

    /// Returns the node of this name among the first `count`.
    pub(crate) fn named(name: &str, count: u16) -> Option<Self> {
        let number = name.strip_prefix("node-")?;
        let index =
            number.parse().ok().filter(|index: &u16| *index < count.min(MOST_NODES) && index.to_string() == number);
        index.map(Self)
    }

    /// Returns the number of the node, from 0 on.
    pub(crate) fn number(self) -> u16 {
        self.0
    }

    pub(crate) fn name(self) -> String {
        format!("node-{}", self.0)
    }

    /// Returns the address of the node itself.
    pub(crate) fn ip(self) -> Ipv4Addr {
        let [high, low] = (self.0 + 2).to_be_bytes();
        Ipv4Addr::new(172, 18 + (high >> 4), high, low)
    }

    /// Returns the address range of its pods.
    pub(crate) fn pod_cidr(self) -> String {
        format!("{}/24", self.pod_ip(0))
    }

    fn pod_ip(self, host: u8) -> Ipv4Addr {
        let (first, number) = if self.0 < FIRST_NODES { (244, self.0) } else { (216, self.0 - FIRST_NODES) };
        let [high, low] = number.to_be_bytes();
        Ipv4Addr::new(10, first + high, low, host)
    }
}

impl Addresses {
    /// Returns the address of a pod on a node, and assigns one if it has none. Returns `None` if all are taken.
    pub(crate) fn assign(&mut self, host: Host, pod: &str) -> Option<Ipv4Addr> {
        if let Some(ip) = self.by_pod.get(pod) {
            return Some(*ip);
        }
        let range = self.ranges.entry(host).or_default();
        let (from, to) = HOSTS.into_inner();
        let mut search = (range.next..=to).chain(from..range.next);
        let free = search.find(|number| !range.taken.contains_key(number))?;
        range.next = if free == to { from } else { free + 1 };
        let pod: Arc<str> = pod.into();
        range.taken.insert(free, Arc::clone(&pod));
        let ip = host.pod_ip(free);
        self.by_pod.insert(pod, ip);
        Some(ip)
    }

    /// Records a pod's address from a previous run. Ignores an address that is outside the node's range or taken.
    pub(crate) fn adopt(&mut self, host: Host, pod: &str, ip: &str) {
        let Ok(ip) = ip.parse::<Ipv4Addr>() else { return };
        let number = ip.octets()[3];
        let range = self.ranges.entry(host).or_default();
        if host.pod_ip(number) != ip || range.taken.contains_key(&number) || self.by_pod.contains_key(pod) {
            return;
        }
        let pod: Arc<str> = pod.into();
        range.taken.insert(number, Arc::clone(&pod));
        self.by_pod.insert(pod, ip);
    }

    /// Releases the address of a pod.
    pub(crate) fn release(&mut self, host: Host, pod: &str) {
        if let Some(ip) = self.by_pod.remove(pod)
            && let Some(range) = self.ranges.get_mut(&host)
        {
            range.taken.remove(&ip.octets()[3]);
        }
    }
}

impl Default for Range {
    fn default() -> Self {
        Self { taken: HashMap::new(), next: *HOSTS.start() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn nodes_have_unique_names_and_pod_ranges() {
        let hosts: Vec<_> = Host::first(u16::MAX).collect();
        assert_eq!(hosts.len(), usize::from(MOST_NODES));
        let ips: HashSet<_> = hosts.iter().map(|host| host.ip()).collect();
        let ranges: HashSet<_> = hosts.iter().map(|host| host.pod_cidr()).collect();
        assert_eq!((ips.len(), ranges.len()), (hosts.len(), hosts.len()));
        assert_eq!(hosts[0].pod_cidr(), "10.244.0.0/24");
        assert_eq!(hosts[3_071].pod_cidr(), "10.255.255.0/24");
        assert_eq!(hosts[3_072].pod_cidr(), "10.216.0.0/24");
        assert_eq!(hosts[10_239].pod_cidr(), "10.243.255.0/24");
        assert!(ips.iter().all(Ipv4Addr::is_private), "{ips:?}");
        for (name, count, found) in [
            ("node-0", 1, true),
            ("node-1", 1, false),
            ("node-01", 5, false),
            ("node-+1", 5, false),
            ("node-", 5, false),
            ("worker-0", 5, false),
        ] {
            assert_eq!(Host::named(name, count).is_some_and(|host| host.name() == name), found, "{name}");
        }
    }

    #[test]
    fn each_pod_keeps_its_own_address() {
        let (mut addresses, host) = (Addresses::default(), Host(1));
        let a = addresses.assign(host, "a").unwrap();
        assert_eq!(a.to_string(), "10.244.1.2");
        assert_eq!(addresses.assign(host, "a"), Some(a));
        assert_eq!(addresses.assign(host, "b").unwrap().to_string(), "10.244.1.3");
        addresses.release(host, "a");
        assert_eq!(addresses.assign(host, "c").unwrap().to_string(), "10.244.1.4", "not at once the one given back");
    }

    #[test]
    fn a_full_range_has_no_address_until_one_is_given_back() {
        let (mut addresses, host) = (Addresses::default(), Host(0));
        for number in HOSTS {
            assert!(addresses.assign(host, &number.to_string()).is_some());
        }
        assert_eq!(addresses.assign(host, "late"), None);
        addresses.release(host, "7");
        assert_eq!(addresses.assign(host, "late").unwrap().to_string(), "10.244.0.7");
    }

    #[test]
    fn addresses_from_before_are_kept() {
        let (mut addresses, host) = (Addresses::default(), Host(0));
        addresses.adopt(host, "old", "10.244.0.2");
        addresses.adopt(host, "stray", "10.244.9.2");
        addresses.adopt(host, "odd", "not an address");
        assert_eq!(addresses.assign(host, "new").unwrap().to_string(), "10.244.0.3");
        assert_eq!(addresses.assign(host, "old").unwrap().to_string(), "10.244.0.2");
    }
}
