//! The endpoints of the service `kubernetes`: the addresses of all API servers over one storage.
//!
//! As in kube-apiserver, each server keeps a value with a lifetime under `/registry/masterleases/`, whose name is the
//! server's address. Every server writes the addresses of all leases to the endpoints: its own after a start, and those
//! of others as they come and go. A server that stops removes its lease; that of a killed one expires.
//!
//! A storage that no other server uses has no leases: the endpoints are written once, at the start.

use std::{net::IpAddr, time::Duration};

use serde_json::{Value, json};
use windlass_api::Status;

use super::{create_or_ignore, own_params};
use crate::{
    encoded::{Encoded, Style},
    object::{Tree, as_object, object_mut},
    registry::{AdmissionState, DeleteParams, Registry, commit_failure, storage_failure},
    resource::{Body, Item, Target},
    storage::{Change, CommitError, Expect, RangeQuery},
};

/// The keys of the leases.
const LEASES: &str = "/registry/masterleases/";

/// The time after which the lease of a killed server expires.
const LIFETIME: Duration = Duration::from_secs(15);

/// The number of attempts of a write that conflicts with those of other servers.
const ATTEMPTS: usize = 10;

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

/// The address of an API server for its clients in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
}

/// The addresses that the endpoints should have.
struct Desired {
    addresses: Vec<String>,
    /// The ports, if they are to be corrected. The ports of several servers can differ, but all share one list.
    ports: Option<Value>,
    /// The ports of endpoints that have none yet.
    initial_ports: Value,
}

/// Sets the endpoints to the only server over the storage.
pub(super) async fn write_only(registry: &Registry, endpoint: Endpoint) -> Result<(), Status> {
    let desired = Desired {
        addresses: vec![endpoint.address.to_string()],
        ports: Some(ports(endpoint)),
        initial_ports: ports(endpoint),
    };
    write(registry, &desired).await
}

/// Renews the lease of this server, and sets the endpoints to the servers with leases.
pub(super) async fn renew(registry: &Registry, endpoint: Endpoint) -> Result<(), Status> {
    let own = endpoint.address.to_string();
    put_lease(registry, &own).await?;
    let addresses = leased(registry).await?;
    if addresses.is_empty() {
        return Err(Status::internal(
            "the endpoints of the service kubernetes stay as they are: no API server has a lease",
        ));
    }
    // The port of the only server is right. Otherwise it can be that of another server.
    let ports_of_own = (addresses == [own]).then(|| ports(endpoint));
    write(registry, &Desired { addresses, ports: ports_of_own, initial_ports: ports(endpoint) }).await
}

/// Removes the lease of this server, and its address from the endpoints.
pub(super) async fn remove(registry: &Registry, endpoint: Endpoint) -> Result<(), Status> {
    remove_lease(registry, &endpoint.address.to_string()).await?;
    let addresses = leased(registry).await?;
    write(registry, &Desired { addresses, ports: None, initial_ports: ports(endpoint) }).await
}

/// Creates or renews a lease.
async fn put_lease(registry: &Registry, address: &str) -> Result<(), Status> {
    let key = format!("{LEASES}{address}");
    let storage = registry.storage();
    let (_, mut current) = storage.get(&key, None).await.map_err(|error| storage_failure(&error))?;
    for _ in 0..ATTEMPTS {
        let previous = current.as_ref().map(Item::stored).transpose()?.map(|item| item.value());
        let generation = previous.and_then(|lease| lease.int(&["metadata", "generation"])).unwrap_or_default() + 1;
        let lease = json!({
            "kind": "Endpoints",
            "apiVersion": "v1",
            "metadata": {"generation": generation},
            "subsets": [{"addresses": [{"ip": address}]}],
        });
        let expect = current.as_ref().map_or(Expect::Absent, |current| Expect::Unchanged(current.modified));
        let change = Change::PutFor(Encoded::new(&lease, Style::BuiltIn).storage_bytes(), LIFETIME);
        match storage.commit(&key, expect, change).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Conflict { current: latest }) => current = latest,
            Err(error) => return Err(commit_failure(&error)),
        }
    }
    Err(Status::internal(format!("renewing the API server lease {address}: other writes come first each time")))
}

async fn remove_lease(registry: &Registry, address: &str) -> Result<(), Status> {
    let key = format!("{LEASES}{address}");
    let storage = registry.storage();
    let (_, mut current) = storage.get(&key, None).await.map_err(|error| storage_failure(&error))?;
    while let Some(lease) = current {
        match storage.commit(&key, Expect::Unchanged(lease.modified), Change::Delete).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Conflict { current: latest }) => current = latest,
            Err(error) => return Err(commit_failure(&error)),
        }
    }
    Ok(())
}

/// Returns the addresses with a lease, in the order of their texts, in which Kubernetes sorts them, too.
async fn leased(registry: &Registry) -> Result<Vec<String>, Status> {
    let leases = registry.storage().range(RangeQuery::prefix(LEASES)).await.map_err(|error| storage_failure(&error))?;
    let mut addresses = Vec::new();
    for lease in &leases.values {
        let lease = Item::stored(lease)?.value();
        let address = lease.pointer("/subsets/0/addresses/0/ip").and_then(Value::as_str).unwrap_or_default();
        if !address.is_empty() {
            addresses.push(address.to_owned());
        }
    }
    addresses.sort();
    Ok(addresses)
}

fn ports(endpoint: Endpoint) -> Value {
    json!([{"name": "https", "port": endpoint.port, "protocol": "TCP"}])
}

/// Writes the Endpoints and the EndpointSlice, unless they are right.
async fn write(registry: &Registry, desired: &Desired) -> Result<(), Status> {
    for _ in 0..ATTEMPTS {
        match write_once(registry, desired).await {
            // Another server has written them.
            Err(status) if status.is_conflict() || status.is_already_exists() => {}
            result => return result,
        }
    }
    Err(Status::internal("writing the endpoints of the service kubernetes: other writes come first each time"))
}

async fn write_once(registry: &Registry, desired: &Desired) -> Result<(), Status> {
    let resources = registry.resources();
    let Some(resource) = resources.get("", "v1", "endpoints") else { return Ok(()) };
    let target = Target::object(resource, Some(NAMESPACE), NAME);
    let current = registry.peek(&target).await?.map(|item| item.value());
    let old = current.clone();
    let mut endpoints = current.unwrap_or_else(|| json!({"metadata": {"name": NAME, "namespace": NAMESPACE}}));
    apply(&mut endpoints, desired);
    match old {
        None => create_or_ignore(registry, &Target::collection(resource, Some(NAMESPACE)), endpoints.clone()).await?,
        Some(old) if old != endpoints => {
            registry.update(&target, Body::Value(endpoints.clone()), own_params()).await?;
        }
        Some(_) => {}
    }
    write_slice(registry, &endpoints).await
}

/// Brings the Endpoints to the desired state. What is right stays as it is.
fn apply(endpoints: &mut Value, desired: &Desired) {
    object_mut(as_object(endpoints).entry("metadata").or_insert(Value::Null), "labels")
        .insert(SKIP_MIRROR.to_owned(), "true".into());
    let subsets = endpoints.items(&["subsets"]);
    let has_format = subsets.len() == 1;
    let listed: Vec<&str> = subsets.first().map_or_else(Vec::new, |subset| {
        subset.items(&["addresses"]).iter().map(|address| address.text(&["ip"])).collect()
    });
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    let has_addresses = has_format && sorted == desired.addresses;
    let old_ports = subsets.first().and_then(|subset| subset.at(&["ports"])).cloned();
    let ports = match &desired.ports {
        _ if !has_format => desired.initial_ports.clone(),
        Some(ports) => ports.clone(),
        None => old_ports.clone().unwrap_or_else(|| desired.initial_ports.clone()),
    };
    if has_addresses && old_ports.as_ref() == Some(&ports) {
        return;
    }
    if desired.addresses.is_empty() {
        as_object(endpoints).shift_remove("subsets");
        return;
    }
    let addresses: Vec<Value> = desired.addresses.iter().map(|address| json!({"ip": address})).collect();
    as_object(endpoints).insert("subsets".to_owned(), json!([{"addresses": addresses, "ports": ports}]));
}

/// Writes the EndpointSlice that belongs to the Endpoints.
async fn write_slice(registry: &Registry, endpoints: &Value) -> Result<(), Status> {
    let resources = registry.resources();
    let Some(resource) = resources.get("discovery.k8s.io", "v1", "endpointslices") else { return Ok(()) };
    let (collection, target) =
        (Target::collection(resource, Some(NAMESPACE)), Target::object(resource, Some(NAMESPACE), NAME));
    let slice = slice_of(endpoints);
    let Some(current) = registry.peek(&target).await?.map(|item| item.value()) else {
        return create_or_ignore(registry, &collection, slice).await;
    };
    if current["addressType"] != slice["addressType"] {
        // The type of addresses cannot be changed.
        let params = DeleteParams { admission: AdmissionState::Granted, ..DeleteParams::default() };
        match registry.delete(&target, params).await {
            Err(status) if !status.is_not_found() => return Err(status),
            _ => {}
        }
        return create_or_ignore(registry, &collection, slice).await;
    }
    let labels = |slice: &Value| slice.at(&["metadata", "labels"]).cloned();
    let is_same = |key: &str| current.items(&[key]) == slice.items(&[key]);
    if is_same("endpoints") && is_same("ports") && labels(&current) == labels(&slice) {
        return Ok(());
    }
    registry.update(&target, Body::Value(slice), own_params()).await.map(drop)
}

fn slice_of(endpoints: &Value) -> Value {
    let subset = endpoints.pointer("/subsets/0").cloned().unwrap_or_default();
    let addresses: Vec<&str> = subset.items(&["addresses"]).iter().map(|address| address.text(&["ip"])).collect();
    let is_v6 = |address: &&str| address.contains(':');
    let only_v6 = !addresses.is_empty() && addresses.iter().all(is_v6);
    let listed: Vec<Value> = addresses
        .into_iter()
        .filter(|address| is_v6(address) == only_v6)
        .map(|address| json!({"addresses": [address], "conditions": {"ready": true}}))
        .collect();
    let mut slice = json!({
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": NAME}},
        "addressType": if only_v6 { "IPv6" } else { "IPv4" },
        "endpoints": listed,
    });
    if let Some(ports) = subset.at(&["ports"]) {
        let of_slice = |port: &Value| {
            let number = port.at(&["port"]);
            json!({"name": port.text(&["name"]), "protocol": port.text(&["protocol"]), "port": number})
        };
        let ports: Vec<Value> = ports.as_array().into_iter().flatten().map(of_slice).collect();
        as_object(&mut slice).insert("ports".to_owned(), ports.into());
    }
    slice
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: fn(u16) -> Value = |port| json!([{"name": "https", "port": port, "protocol": "TCP"}]);

    fn desired(addresses: &[&str], ports: Option<u16>) -> Desired {
        Desired {
            addresses: addresses.iter().map(|&address| address.to_owned()).collect(),
            ports: ports.map(PORT),
            initial_ports: PORT(6443),
        }
    }

    fn applied(subsets: Value, desired: &Desired) -> Value {
        let mut endpoints = json!({"metadata": {"name": NAME, "labels": {SKIP_MIRROR: "true"}}, "subsets": subsets});
        apply(&mut endpoints, desired);
        endpoints["subsets"].take()
    }

    #[test]
    fn endpoints_list_the_servers_and_keep_the_ports_of_others() {
        let subsets = |addresses: &[&str], port| {
            let addresses: Vec<_> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
            json!([{"addresses": addresses, "ports": PORT(port)}])
        };
        let both = desired(&["10.1.1.1", "10.1.1.2"], None);
        assert_eq!(applied(subsets(&["10.1.1.1"], 7), &both), subsets(&["10.1.1.1", "10.1.1.2"], 7));
        let reversed = subsets(&["10.1.1.2", "10.1.1.1"], 7);
        assert_eq!(applied(reversed.clone(), &both), reversed, "any order is right");
        assert_eq!(applied(json!([]), &both), subsets(&["10.1.1.1", "10.1.1.2"], 6443), "without ports");
        assert_eq!(applied(subsets(&["10.1.1.1"], 7), &desired(&["10.1.1.1"], Some(8))), subsets(&["10.1.1.1"], 8));
        assert_eq!(applied(subsets(&["10.1.1.1"], 7), &desired(&[], None)), Value::Null);
    }

    #[test]
    fn slice_has_the_addresses_of_one_family() {
        let endpoints = |addresses: &[&str]| {
            let addresses: Vec<_> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
            json!({"subsets": [{"addresses": addresses, "ports": PORT(6443)}]})
        };
        let shown = |slice: &Value| (slice["addressType"].clone(), slice["endpoints"].as_array().unwrap().len());
        assert_eq!(shown(&slice_of(&endpoints(&["10.1.1.1", "fd00::1"]))), (json!("IPv4"), 1));
        assert_eq!(shown(&slice_of(&endpoints(&["fd00::1", "fd00::2"]))), (json!("IPv6"), 2));
        assert_eq!(slice_of(&json!({}))["endpoints"], json!([]));
    }
}
