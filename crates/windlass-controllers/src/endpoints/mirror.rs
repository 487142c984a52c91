//! The controller that mirrors user-defined Endpoints of services without a selector into EndpointSlices.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use k8s_openapi::api::{
    core::v1::{EndpointAddress, Endpoints, Service},
    discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
};
use windlass_api::{ObjectExt, ObjectKey, ObjectRef};
use windlass_cache::Cached;
use windlass_runtime::{
    Action, Context, Controller, Manager, Watch,
    events::{Note, Recorder},
};

use super::{
    backend::TRIGGER_TIME,
    packing::{MANAGED_BY, Plan, SERVICE, ports_of, prefix},
    slices::{apply, is_settled},
};
use crate::{
    error::{ReconcileError, await_newer_state},
    expectations::Expectations,
};

/// The number of Endpoints mirrored at the same time.
const WORKERS: usize = 5;
/// The maximum number of mirrored addresses per subset.
const CAPACITY: usize = 1000;
/// The value of [`MANAGED_BY`] on the slices of this controller.
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// The label that excludes Endpoints from mirroring if its value is `true`.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// The annotation of Endpoints that are used for leader election only.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The component name in events.
const COMPONENT: &str = "endpoint-slice-mirroring-controller";

/// The desired endpoints by address type and ports.
type Desired = BTreeMap<(&'static str, Vec<super::backend::Port>), Vec<Endpoint>>;

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    let expectations = Arc::new(Expectations::default());
    let recorder = manager.cluster().recorder(COMPONENT);
    manager.add(
        Controller::<Endpoints>::new()
            .named("endpointslicemirroring")
            // Endpoints have the names of their services.
            .watches_with(Watch::<Service>::all(), |service| Some(ObjectRef::from(service.key().clone())))
            .watches_with(Watch::<EndpointSlice>::all(), endpoints_of)
            .concurrency(WORKERS)
            .reconcile_keys(move |key, cx| {
                let (expectations, recorder) = (Arc::clone(&expectations), recorder.clone());
                async move { await_newer_state(reconcile(key, cx, &expectations, &recorder).await) }
            }),
    );
}

/// Stands for the UID of all Endpoints of a name in the expectations: the slices belong to the name.
const ANY: &str = "";

/// Returns the Endpoints that a slice mirrors.
fn endpoints_of(slice: &Cached<EndpointSlice>) -> Option<ObjectRef<Endpoints>> {
    let meta = slice.meta();
    if meta.label(MANAGED_BY) != Some(MANAGER) {
        return None;
    }
    let name = meta.label(SERVICE)?;
    Some(ObjectRef::new(name).within(Arc::clone(meta.namespace()?)))
}

async fn reconcile(
    key: ObjectRef<Endpoints>,
    cx: Context,
    expectations: &Expectations,
    recorder: &Recorder,
) -> Result<Action, ReconcileError> {
    let mut existing = Vec::new();
    for slice in cx.store::<EndpointSlice>().within(key.namespace().unwrap_or_default()).list() {
        if endpoints_of(&slice).as_ref() == Some(&key) {
            existing.push((*slice.get()?).clone());
        }
    }
    // Slices get generated names, so a stale cache would lead to duplicates.
    if !is_settled(expectations, key.key(), ANY, &existing) {
        return Ok(Action::requeue_after(Expectations::timeout()));
    }
    let endpoints = cx.store::<Endpoints>().get(&key).map(|endpoints| endpoints.get()).transpose()?;
    let endpoints = endpoints.filter(|endpoints| is_mirrored(endpoints) && !endpoints.is_deleting());
    let plan = match endpoints.filter(|_| has_no_selector(&cx, key.key())) {
        None => Plan { delete: existing, ..Plan::default() },
        Some(endpoints) => {
            let (desired, skipped) = desired(&endpoints);
            let plan = plan(&endpoints, desired, existing);
            if skipped > 0 && plan != Plan::default() {
                let message = format!(
                    "A max of {CAPACITY} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses were skipped"
                );
                recorder.record(&*endpoints, Note::warning("TooManyAddressesToMirror", message));
            }
            plan
        }
    };
    apply(&cx, key.key(), ANY, &plan, expectations).await?;
    Ok(Action::await_change())
}

fn is_mirrored(endpoints: &Endpoints) -> bool {
    endpoints.labels().get(SKIP).is_none_or(|skip| skip != "true") && !endpoints.annotations().contains_key(LEADER)
}

/// Reports whether the service exists and has no selector.
fn has_no_selector(cx: &Context, key: &ObjectKey) -> bool {
    let service = cx.store::<Service>().get(&ObjectRef::from(key.clone())).and_then(|service| service.get().ok());
    service.is_some_and(|service| service.spec.as_ref().is_none_or(|spec| spec.selector.is_none()))
}

/// Groups the addresses by their ports, and counts the addresses beyond the maximum.
fn desired(endpoints: &Endpoints) -> (Desired, usize) {
    /// The addresses of a port, by IP and pod. An address listed as both ready and not ready counts as not ready.
    type Addresses = BTreeMap<(String, Option<String>), Endpoint>;

    let mut by_port: BTreeMap<Option<super::backend::Port>, Addresses> = BTreeMap::new();
    for subset in endpoints.subsets.iter().flatten() {
        let ready = subset.addresses.iter().flatten().map(|address| (address, true));
        let unready = subset.not_ready_addresses.iter().flatten().map(|address| (address, false));
        let addresses: Vec<_> = ready.chain(unready).collect();
        let mut ports: Vec<_> = subset.ports.iter().flatten().map(port).map(Some).collect();
        if ports.is_empty() {
            ports.push(None);
        }
        for port in ports {
            let known = by_port.entry(port).or_default();
            for (address, ready) in &addresses {
                let uid = address.target_ref.as_ref().and_then(|target| target.uid.clone());
                let key = (address.ip.clone(), uid);
                if !*ready || !known.contains_key(&key) {
                    known.insert(key, endpoint(address, *ready));
                }
            }
        }
    }
    let mut ports_of: BTreeMap<Vec<_>, (Vec<super::backend::Port>, Vec<Endpoint>)> = BTreeMap::new();
    for (port, addresses) in by_port {
        let same: Vec<_> = addresses
            .iter()
            .map(|(key, endpoint)| (key.clone(), endpoint.conditions.as_ref().and_then(|known| known.ready)))
            .collect();
        let (ports, endpoints) = ports_of.entry(same).or_default();
        ports.extend(port);
        *endpoints = addresses.into_values().collect();
    }
    let (mut desired, mut skipped) = (Desired::new(), 0);
    for (mut ports, mut endpoints) in ports_of.into_values() {
        // Ready addresses first.
        endpoints.sort_by_key(|endpoint| endpoint.conditions.as_ref().and_then(|known| known.ready) != Some(true));
        skipped += endpoints.len().saturating_sub(CAPACITY);
        endpoints.truncate(CAPACITY);
        ports.sort();
        for endpoint in endpoints {
            let Ok(address) = endpoint.addresses[0].parse::<IpAddr>() else { continue };
            let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
            desired.entry((family, ports.clone())).or_default().push(endpoint);
        }
    }
    for endpoints in desired.values_mut() {
        endpoints.sort_by(|a, b| a.addresses.cmp(&b.addresses));
    }
    (desired, skipped)
}

fn port(port: &k8s_openapi::api::core::v1::EndpointPort) -> super::backend::Port {
    super::backend::Port {
        name: port.name.clone().unwrap_or_default(),
        protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
        number: port.port,
        app_protocol: port.app_protocol.clone(),
    }
}

fn endpoint(address: &EndpointAddress, ready: bool) -> Endpoint {
    let ip = address.ip.parse::<IpAddr>().map_or_else(|_| address.ip.clone(), |ip| ip.to_string());
    Endpoint {
        addresses: vec![ip],
        conditions: Some(EndpointConditions { ready: Some(ready), ..EndpointConditions::default() }),
        hostname: address.hostname.clone().filter(|name| !name.is_empty()),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}

/// Plans the writes that turn the existing slices into the desired ones: one for each address type and set of ports.
fn plan(endpoints: &Endpoints, mut desired: Desired, existing: Vec<EndpointSlice>) -> Plan {
    let mut plan = Plan::default();
    let mut unused = Vec::new();
    for before in existing {
        let wanted =
            desired.keys().find(|(family, ports)| *family == before.address_type && *ports == ports_of(&before));
        let Some(group) = wanted.cloned().and_then(|key| desired.remove_entry(&key)) else {
            unused.push(before);
            continue;
        };
        let after = mirrored(endpoints, group, Some(&before));
        if !is_same(&before, &after) {
            plan.update.push(after);
        }
    }
    for group in desired {
        // A surplus slice is reused for a missing one.
        match unused.iter().position(|slice| slice.address_type == group.0.0) {
            Some(index) => plan.update.push(mirrored(endpoints, group, Some(&unused.remove(index)))),
            None => plan.create.push(mirrored(endpoints, group, None)),
        }
    }
    plan.delete = unused;
    plan
}

fn is_same(before: &EndpointSlice, after: &EndpointSlice) -> bool {
    let mut sorted = before.endpoints.clone().unwrap_or_default();
    sorted.sort_by(|a, b| a.addresses.cmp(&b.addresses));
    Some(&sorted) == after.endpoints.as_ref()
        && before.labels() == after.labels()
        && before.annotations() == after.annotations()
        && before.metadata.owner_references == after.metadata.owner_references
}

fn mirrored(
    endpoints: &Endpoints,
    ((family, ports), addresses): ((&'static str, Vec<super::backend::Port>), Vec<Endpoint>),
    before: Option<&EndpointSlice>,
) -> EndpointSlice {
    let port = |port: super::backend::Port| EndpointPort {
        name: Some(port.name),
        port: Some(port.number),
        protocol: Some(port.protocol),
        app_protocol: port.app_protocol,
    };
    let mut slice = before.cloned().unwrap_or_default();
    if before.is_none() {
        slice.metadata.generate_name = Some(prefix(endpoints.name()));
        slice.metadata.namespace.clone_from(&endpoints.metadata.namespace);
    }
    slice.metadata.labels = Some(endpoints.labels().clone());
    slice.labels_mut().insert(SERVICE.to_owned(), endpoints.name().to_owned());
    slice.labels_mut().insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    let annotations =
        endpoints.annotations().iter().filter(|(key, _)| ![TRIGGER_TIME, LAST_APPLIED].contains(&&***key));
    let annotations: BTreeMap<_, _> = annotations.map(|(key, value)| (key.clone(), value.clone())).collect();
    slice.metadata.annotations = Some(annotations).filter(|annotations| !annotations.is_empty());
    slice.metadata.owner_references = None;
    family.clone_into(&mut slice.address_type);
    slice.ports = Some(ports.into_iter().map(port).collect());
    slice.endpoints = Some(addresses);
    slice.controlled_by(endpoints)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn endpoints(subsets: Value) -> Endpoints {
        let metadata = json!({"name": "web", "namespace": "n", "uid": "e", "labels": {"a": "b"},
            "annotations": {"kept": "yes", TRIGGER_TIME: "now", LAST_APPLIED: "{}"}});
        serde_json::from_value(json!({"metadata": metadata, "subsets": subsets})).unwrap()
    }

    fn planned(endpoints: &Endpoints, existing: Vec<EndpointSlice>) -> Plan {
        plan(endpoints, desired(endpoints).0, existing)
    }

    fn shown(slice: &EndpointSlice) -> (String, Vec<i32>, Vec<(String, bool)>) {
        let ports = slice.ports.iter().flatten().filter_map(|port| port.port).collect();
        let ready = |endpoint: &Endpoint| endpoint.conditions.as_ref().unwrap().ready.unwrap();
        let addresses = slice.endpoints.iter().flatten().map(|known| (known.addresses[0].clone(), ready(known)));
        (slice.address_type.clone(), ports, addresses.collect())
    }

    #[test]
    fn addresses_are_sorted_by_family_and_ports() {
        let endpoints = endpoints(json!([
            {"addresses": [{"ip": "192.0.2.2"}, {"ip": "2001:db8::1"}], "notReadyAddresses": [{"ip": "192.0.2.1"}],
             "ports": [{"port": 80}, {"port": 81, "name": "more"}]},
            {"addresses": [{"ip": "192.0.2.9"}]},
        ]));
        let created = planned(&endpoints, Vec::new()).create;
        let mut all: Vec<_> = created.iter().map(shown).collect();
        all.sort();
        assert_eq!(
            all,
            [
                ("IPv4".to_owned(), vec![], vec![("192.0.2.9".to_owned(), true)]),
                (
                    "IPv4".to_owned(),
                    vec![80, 81],
                    vec![("192.0.2.1".to_owned(), false), ("192.0.2.2".to_owned(), true)]
                ),
                ("IPv6".to_owned(), vec![80, 81], vec![("2001:db8::1".to_owned(), true)]),
            ]
        );
        let labels = json!({"a": "b", SERVICE: "web", MANAGED_BY: MANAGER});
        assert_eq!(serde_json::to_value(created[0].labels()).unwrap(), labels);
        assert_eq!(serde_json::to_value(created[0].annotations()).unwrap(), json!({"kept": "yes"}));
        assert!(created[0].is_controlled_by(&endpoints));
        assert_eq!(planned(&endpoints, created), Plan::default(), "nothing has changed");
    }

    #[test]
    fn a_slice_that_is_not_needed_becomes_one_that_is() {
        let created =
            planned(&endpoints(json!([{"addresses": [{"ip": "192.0.2.2"}], "ports": [{"port": 80}]}])), vec![]);
        let other = endpoints(json!([{"addresses": [{"ip": "192.0.2.2"}], "ports": [{"port": 81}]}]));
        let moved = planned(&other, created.create.clone());
        assert_eq!((moved.create.len(), moved.update.len(), moved.delete.len()), (0, 1, 0));
        let emptied = planned(&endpoints(json!([])), created.create);
        assert_eq!((emptied.create.len(), emptied.update.len(), emptied.delete.len()), (0, 0, 1));
    }

    #[test]
    fn addresses_beyond_the_capacity_are_skipped() {
        let addresses: Vec<_> = (0..1005).map(|n| json!({"ip": format!("10.0.{}.{}", n / 250, n % 250)})).collect();
        let (desired, skipped) = desired(&endpoints(json!([{"addresses": addresses, "ports": [{"port": 80}]}])));
        assert_eq!((desired.values().map(Vec::len).sum::<usize>(), skipped), (1000, 5));
    }

    #[test]
    fn some_endpoints_are_not_mirrored() {
        let mut known = endpoints(json!([]));
        assert!(is_mirrored(&known));
        known.labels_mut().insert(SKIP.to_owned(), "true".to_owned());
        assert!(!is_mirrored(&known));
        known.metadata.labels = None;
        known.annotations_mut().insert(LEADER.to_owned(), String::new());
        assert!(!is_mirrored(&known));
    }
}
