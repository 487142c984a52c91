//! The registry's entry of a service.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use windlass::{
    Cached, PartialObject,
    k8s::discovery::v1::{Endpoint, EndpointSlice},
};

/// The pod label that is copied to the instance; traffic is usually split by it.
const VERSION: &str = "version";

/// A service with its instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The instances, sorted and without duplicates.
    pub instances: BTreeSet<Instance>,
}

/// An instance of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instance {
    /// The address, without the port.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Further information: the name of the pod, and its version.
    pub metadata: BTreeMap<String, String>,
}

impl Entry {
    /// Returns the entry of a service: the ready endpoints of its slices. `pod` finds a pod in the cache.
    pub(crate) fn of<'s>(
        slices: impl IntoIterator<Item = &'s EndpointSlice>,
        pod: impl Fn(&str) -> Option<Cached<PartialObject>>,
    ) -> Self {
        let mut entry = Self::default();
        for slice in slices {
            let ports = slice.ports.iter().flatten().filter_map(|port| u16::try_from(port.port?).ok());
            let ports: Vec<_> = ports.collect();
            for endpoint in slice.endpoints.iter().flatten().filter(|endpoint| is_ready(endpoint)) {
                let metadata = metadata(endpoint, &pod);
                for (host, port) in
                    endpoint.addresses.iter().flat_map(|host| ports.iter().map(move |port| (host, *port)))
                {
                    entry.instances.insert(Instance { host: host.clone(), port, metadata: metadata.clone() });
                }
            }
        }
        entry
    }

    /// Returns `true` if a pod is one of the instances.
    pub(crate) fn has_pod(&self, name: &str) -> bool {
        self.instances.iter().any(|instance| instance.metadata.get("pod").is_some_and(|pod| pod == name))
    }
}

/// An endpoint without the condition counts as ready.
fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
}

fn metadata(endpoint: &Endpoint, pod: impl Fn(&str) -> Option<Cached<PartialObject>>) -> BTreeMap<String, String> {
    let target = endpoint.target_ref.as_ref().filter(|target| target.kind.as_deref() == Some("Pod"));
    let Some(name) = target.and_then(|target| target.name.clone()) else { return BTreeMap::new() };
    let version = pod(&name).and_then(|pod| pod.meta().label(VERSION).map(str::to_owned));
    let version = version.map(|version| (VERSION.to_owned(), version));
    [("pod".to_owned(), name)].into_iter().chain(version).collect()
}

impl Instance {
    /// Returns the host and port, as in a URL.
    #[must_use]
    pub fn address(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// Parses an address. Returns `None` if it is invalid.
    #[must_use]
    pub fn at(address: &str, metadata: BTreeMap<String, String>) -> Option<Self> {
        let (host, port) = address.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some(Self { host: host.to_owned(), port: port.parse().ok()?, metadata })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<_> = self.instances.iter().map(Instance::address).collect();
        write!(f, "[{}]", addresses.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn ready_endpoints_are_listed_for_each_port() {
        let slice: EndpointSlice = from_value(json!({
            "addressType": "IPv4", "ports": [{"port": 80}, {"port": 443}],
            "endpoints": [
                {"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "targetRef": {"kind": "Pod", "name": "web-1"}},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
                {"addresses": ["10.0.0.3"]},
            ],
        }))
        .unwrap();
        let entry = Entry::of([&slice], |_| None);
        assert_eq!(entry.to_string(), "[10.0.0.1:80, 10.0.0.1:443, 10.0.0.3:80, 10.0.0.3:443]");
        assert!(entry.has_pod("web-1") && !entry.has_pod("web-2"));
    }

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for (host, address) in [("10.0.0.1", "10.0.0.1:80"), ("fd00::1", "[fd00::1]:80")] {
            let instance = Instance { host: host.into(), port: 80, metadata: BTreeMap::new() };
            assert_eq!(instance.address(), address);
            assert_eq!(Instance::at(address, BTreeMap::new()), Some(instance));
        }
        assert!(["", "10.0.0.1", "10.0.0.1:http"].iter().all(|text| Instance::at(text, BTreeMap::new()).is_none()));
    }
}
