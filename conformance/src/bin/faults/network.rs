//! The network: a namespace for each process, and a bridge that connects them.
//!
//! The clients are in the namespace of this program. Only iproute2 is needed: a link that is down isolates a host, and a
//! wrong MAC address for one neighbor loses the packets to it, as a firewall would.

use std::{fmt, net::Ipv4Addr, process::Command};

use crate::Result;

/// The namespace of the bridge. It is not that of the machine, so the machine's firewall does not see the packets.
const SWITCH: &str = "windlass-switch";

/// The device of the clients, and that of each other host.
const CLIENTS: &str = "wl-clients";
const DEVICE: &str = "eth0";

/// A MAC address without a host.
const NOWHERE: &str = "02:00:00:00:00:ff";

/// A place in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Clients,
    Member(usize),
    Server(usize),
}

impl Host {
    pub(crate) fn address(self) -> Ipv4Addr {
        let last = match self {
            Self::Clients => 1,
            Self::Member(index) => 11 + index,
            Self::Server(index) => 21 + index,
        };
        Ipv4Addr::new(10, 213, 77, u8::try_from(last).unwrap_or(u8::MAX))
    }

    /// Returns the namespace; `None` for that of this program.
    pub(crate) fn namespace(self) -> Option<String> {
        match self {
            Self::Clients => None,
            Self::Member(_) | Self::Server(_) => Some(format!("windlass-{self}")),
        }
    }

    /// Returns the name of the device at the bridge.
    fn port(self) -> String {
        format!("wl-{self}")
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clients => f.write_str("clients"),
            Self::Member(index) => write!(f, "m{}", index + 1),
            Self::Server(index) => write!(f, "s{}", index + 1),
        }
    }
}

/// The namespaces and the bridge. They are removed on drop.
#[derive(Debug)]
pub(crate) struct Network {
    hosts: Vec<Host>,
}

impl Network {
    pub(crate) fn create(hosts: Vec<Host>) -> Result<Self> {
        let add = |namespace: &str| {
            let remedy = "another run may be using it; if not, remove it with `ip netns delete` and its name";
            ip(&["netns", "add", namespace]).map_err(|error| format!("{error} ({remedy})"))
        };
        // Nothing that another run has created is removed if this fails.
        add(SWITCH)?;
        let network = Self { hosts };
        ip(&["-n", SWITCH, "link", "add", "bridge", "type", "bridge"])?;
        ip(&["-n", SWITCH, "link", "set", "bridge", "up"])?;
        let to_switch = ["type", "veth", "peer", "name", "clients", "netns", SWITCH];
        ip(&[&["link", "add", CLIENTS][..], &to_switch].concat())?;
        ip(&["-n", SWITCH, "link", "set", "clients", "master", "bridge", "up"])?;
        ip(&["address", "add", &format!("{}/24", Host::Clients.address()), "dev", CLIENTS])?;
        ip(&["link", "set", CLIENTS, "up"])?;
        for host in &network.hosts {
            let Some(namespace) = host.namespace() else { continue };
            let port = host.port();
            add(&namespace)?;
            ip(&["-n", &namespace, "link", "set", "lo", "up"])?;
            let to_host = ["type", "veth", "peer", "name", DEVICE, "netns", &namespace];
            ip(&[&["-n", SWITCH, "link", "add", &port][..], &to_host].concat())?;
            ip(&["-n", SWITCH, "link", "set", &port, "master", "bridge", "up"])?;
            ip(&["-n", &namespace, "address", "add", &format!("{}/24", host.address()), "dev", DEVICE])?;
            ip(&["-n", &namespace, "link", "set", DEVICE, "up"])?;
        }
        Ok(network)
    }

    /// Takes the link of a host down.
    pub(crate) fn isolate(&self, host: Host) -> Result {
        self.known(host)?;
        ip(&["-n", SWITCH, "link", "set", &host.port(), "down"])
    }

    /// Takes the link of a host up again.
    pub(crate) fn rejoin(&self, host: Host) -> Result {
        self.known(host)?;
        ip(&["-n", SWITCH, "link", "set", &host.port(), "up"])
    }

    /// Loses all packets from one host to another one.
    pub(crate) fn cut(&self, from: Host, to: Host) -> Result {
        self.neighbor(from, &["replace", &to.address().to_string(), "lladdr", NOWHERE, "nud", "permanent"])
    }

    /// Delivers the packets from one host to another one again.
    pub(crate) fn join(&self, from: Host, to: Host) -> Result {
        self.neighbor(from, &["delete", &to.address().to_string()])
    }

    /// Returns the hosts of a list with which a host has TCP connections, in the order of the list.
    pub(crate) fn connected(&self, host: Host, others: &[Host]) -> Result<Vec<Host>> {
        self.known(host)?;
        let namespace = host.namespace().ok_or("the connections of the clients are not those of the machine")?;
        let arguments = ["netns", "exec", &namespace, "ss", "-Htn", "state", "established"];
        let output = Command::new("ip").args(arguments).output();
        let output = output.map_err(|error| format!("cannot run ss: {error}; Debian's package is iproute2"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        // The last column is the address of the peer.
        let peers: Vec<_> = text.lines().filter_map(|line| line.split_whitespace().last()?.rsplit_once(':')).collect();
        let is_peer = |other: &&Host| peers.iter().any(|(address, _)| *address == other.address().to_string());
        Ok(others.iter().filter(is_peer).copied().collect())
    }

    fn neighbor(&self, from: Host, change: &[&str]) -> Result {
        self.known(from)?;
        match from.namespace() {
            None => ip(&[&["neighbor"], change, &["dev", CLIENTS]].concat()),
            Some(namespace) => ip(&[&["-n", &namespace, "neighbor"], change, &["dev", DEVICE]].concat()),
        }
    }

    fn known(&self, host: Host) -> Result {
        let known = host == Host::Clients || self.hosts.contains(&host);
        if known { Ok(()) } else { Err(format!("the network has no host {host}").into()) }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Removes what exists: the creation may have failed. The devices disappear with their namespaces.
        for namespace in self.hosts.iter().filter_map(|host| host.namespace()) {
            let _ = ip(&["netns", "delete", &namespace]);
        }
        let _ = ip(&["link", "delete", CLIENTS]);
        let _ = ip(&["netns", "delete", SWITCH]);
    }
}

fn ip(arguments: &[&str]) -> Result {
    let output = Command::new("ip").args(arguments).output();
    let output = output.map_err(|error| format!("cannot run ip: {error}; Debian's package is iproute2"))?;
    if output.status.success() {
        return Ok(());
    }
    let (line, message) = (arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    Err(format!("`ip {line}` failed: {}; it needs root", message.trim()).into())
}
