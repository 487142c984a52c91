//! Distribution of a service's pods over slices. Plain values, no I/O.
//!
//! A pod stays in its slice, so that a change of one pod changes one slice.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::{
        core::v1::Service,
        discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use windlass_api::{Object, ObjectExt, format_time};

use super::backend::{Backend, HEADLESS, Port, TRIGGER_TIME, is_headless, trigger_time};

/// The maximum number of endpoints per slice.
const CAPACITY: usize = 100;
/// The label with the name of a slice's service.
pub(super) const SERVICE: &str = "kubernetes.io/service-name";
/// The label with the name of the controller that manages a slice.
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`] on the slices of this controller.
pub(super) const MANAGER: &str = "endpointslice-controller.k8s.io";

/// The planned writes.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) create: Vec<EndpointSlice>,
    pub(super) update: Vec<EndpointSlice>,
    pub(super) delete: Vec<EndpointSlice>,
}

/// The desired endpoints per set of ports, by the UID of their pods.
type Wanted = BTreeMap<Vec<Port>, BTreeMap<String, Endpoint>>;

/// Plans the writes that turn the existing slices into the desired ones. `zone` returns a node's zone.
pub(super) fn plan(
    service: &Service,
    backends: &[Backend],
    existing: Vec<EndpointSlice>,
    zone: impl Fn(&str) -> Option<String>,
) -> Plan {
    let mut wanted = Wanted::new();
    for backend in backends {
        let uid = backend.pod.uid().unwrap_or_default().to_owned();
        wanted.entry(backend.ports.clone()).or_default().insert(uid, endpoint(service, backend, &zone));
    }
    let labels = labels(service);
    let known: BTreeSet<_> = existing.iter().flat_map(endpoints_of).map(uid_of).map(str::to_owned).collect();
    let known = (!existing.is_empty()).then_some(&known);
    let trigger = trigger_time(service, backends, known).map(|time| (TRIGGER_TIME.to_owned(), format_time(time)));
    let mut plan = Plan::default();
    let mut kept = Vec::new();
    for before in existing {
        let Some(group) = wanted.get_mut(&ports_of(&before)) else {
            plan.delete.push(before);
            continue;
        };
        let mut after = before.clone();
        after.endpoints =
            Some(endpoints_of(&before).iter().filter_map(|endpoint| group.remove(uid_of(endpoint))).collect());
        after.metadata.labels = Some(labels.clone());
        kept.push((before, after));
    }
    // New endpoints go to slices that change anyway, then to those with room.
    kept.sort_by_key(|(before, after)| before.endpoints == after.endpoints);
    for (_, slice) in &mut kept {
        let Some(group) = wanted.get_mut(&ports_of(slice)) else { continue };
        let endpoints = slice.endpoints.get_or_insert_default();
        while endpoints.len() < CAPACITY
            && let Some((_, endpoint)) = group.pop_first()
        {
            endpoints.push(endpoint);
        }
    }
    for (before, after) in kept {
        if endpoints_of(&after).is_empty() {
            plan.delete.push(before);
        } else if after != before {
            plan.update.push(after);
        }
    }
    for (ports, group) in wanted {
        let endpoints: Vec<_> = group.into_values().collect();
        for chunk in endpoints.chunks(CAPACITY) {
            plan.create.push(slice(service, &ports, chunk.to_vec(), &labels));
        }
    }
    if backends.is_empty() {
        keep_a_place(&mut plan, slice(service, &[], Vec::new(), &labels));
    }
    recycle(&mut plan, service);
    for slice in plan.create.iter_mut().chain(&mut plan.update) {
        match &trigger {
            Some((key, time)) => drop(slice.annotations_mut().insert(key.clone(), time.clone())),
            // The trigger time of an earlier change does not apply to this one.
            None => {
                if let Some(annotations) = &mut slice.metadata.annotations {
                    annotations.remove(TRIGGER_TIME);
                }
            }
        }
    }
    plan
}

/// Reuses surplus slices for missing ones: watchers see one update instead of a deletion and a creation, and never an
/// empty set.
fn recycle(plan: &mut Plan, service: &Service) {
    let (gone, usable): (Vec<_>, Vec<_>) =
        plan.delete.drain(..).partition(|slice| slice.is_deleting() || !slice.is_controlled_by(service));
    plan.delete = gone;
    for mut slice in usable {
        let Some(wanted) = plan.create.pop() else {
            plan.delete.push(slice);
            continue;
        };
        slice.metadata.labels = wanted.metadata.labels;
        slice.metadata.annotations = None;
        slice.endpoints = wanted.endpoints;
        slice.ports = wanted.ports;
        plan.update.push(slice);
    }
}

/// A service without endpoints has one empty slice.
fn keep_a_place(plan: &mut Plan, empty: EndpointSlice) {
    let is_empty = |slice: &EndpointSlice| {
        endpoints_of(slice).is_empty() && ports_of(slice).is_empty() && slice.metadata.labels == empty.metadata.labels
    };
    match plan.delete.iter().position(is_empty) {
        Some(index) => drop(plan.delete.remove(index)),
        None => plan.create.push(empty),
    }
}

fn slice(
    service: &Service,
    ports: &[Port],
    endpoints: Vec<Endpoint>,
    labels: &BTreeMap<String, String>,
) -> EndpointSlice {
    let port = |port: &Port| EndpointPort {
        name: Some(port.name.clone()),
        port: Some(port.number),
        protocol: Some(port.protocol.clone()),
        app_protocol: port.app_protocol.clone(),
    };
    let slice = EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(prefix(service.name())),
            namespace: service.namespace().map(str::to_owned),
            labels: Some(labels.clone()),
            ..ObjectMeta::default()
        },
        address_type: "IPv4".to_owned(),
        endpoints: Some(endpoints),
        ports: Some(ports.iter().map(port).collect()),
    };
    slice.controlled_by(service)
}

/// Returns the name prefix of a service's slices, without the dash if the name would be too long.
pub(super) fn prefix(service: &str) -> String {
    const LONGEST: usize = 253;
    if service.len() < LONGEST { format!("{service}-") } else { service.to_owned() }
}

/// Returns the service's labels and the labels that identify the slice.
fn labels(service: &Service) -> BTreeMap<String, String> {
    let is_reserved = |key: &str| [SERVICE, MANAGED_BY, HEADLESS].contains(&key);
    let own = service.labels().iter().filter(|(key, _)| !is_reserved(key));
    let mut labels: BTreeMap<_, _> = own.map(|(key, value)| (key.clone(), value.clone())).collect();
    labels.insert(SERVICE.to_owned(), service.name().to_owned());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels
}

fn endpoint(service: &Service, backend: &Backend, zone: impl Fn(&str) -> Option<String>) -> Endpoint {
    let node = backend.node();
    Endpoint {
        addresses: vec![backend.address.clone()],
        conditions: Some(EndpointConditions {
            ready: Some(backend.ready),
            serving: Some(backend.serving),
            terminating: Some(backend.pod.is_deleting()),
        }),
        hostname: backend.hostname(service),
        zone: node.as_deref().and_then(zone),
        node_name: node,
        target_ref: Some(backend.target()),
        ..Endpoint::default()
    }
}

fn endpoints_of(slice: &EndpointSlice) -> &[Endpoint] {
    slice.endpoints.as_deref().unwrap_or_default()
}

fn uid_of(endpoint: &Endpoint) -> &str {
    endpoint.target_ref.as_ref().and_then(|target| target.uid.as_deref()).unwrap_or_default()
}

/// Returns the ports of a slice in a comparable form.
pub(super) fn ports_of(slice: &EndpointSlice) -> Vec<Port> {
    let port = |port: &EndpointPort| Port {
        name: port.name.clone().unwrap_or_default(),
        protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
        number: port.port.unwrap_or_default(),
        app_protocol: port.app_protocol.clone(),
    };
    let mut ports: Vec<_> = slice.ports.iter().flatten().map(port).collect();
    ports.sort();
    ports
}

/// Returns `true` if a slice belongs to a service and is managed by this controller.
pub(super) fn is_of(slice: &impl Object, service: &str) -> bool {
    let is = |key: &str, value: &str| slice.labels().get(key).is_some_and(|label| label == value);
    is(SERVICE, service) && is(MANAGED_BY, MANAGER)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn service() -> Service {
        let mut service = Service::default();
        service.metadata.name = Some("web".to_owned());
        service.metadata.uid = Some("s".to_owned());
        service
    }

    fn backend(number: usize, port: i32) -> Backend {
        let mut pod = Pod::default();
        pod.metadata.name = Some(format!("web-{number:03}"));
        pod.metadata.uid = Some(format!("{number:03}"));
        let port = Port { name: String::new(), protocol: "TCP".to_owned(), number: port, app_protocol: None };
        let address = format!("10.1.0.{number}");
        Backend { pod: Arc::new(pod), address, ports: vec![port], ready: true, serving: true }
    }

    fn backends(count: usize) -> Vec<Backend> {
        (0..count).map(|number| backend(number, 80)).collect()
    }

    fn planned(backends: &[Backend], existing: Vec<EndpointSlice>) -> Plan {
        plan(&service(), backends, existing, |_| None)
    }

    #[test]
    fn pods_fill_slices_and_one_change_updates_one_slice() {
        let created = planned(&backends(250), Vec::new());
        let sizes: Vec<_> = created.create.iter().map(|slice| endpoints_of(slice).len()).collect();
        assert_eq!((sizes, created.update, created.delete), (vec![100, 100, 50], vec![], vec![]));
        let settled = created.create.clone();
        assert_eq!(planned(&backends(250), settled.clone()), Plan::default(), "nothing has changed");

        let mut fewer = backends(250);
        fewer[120].ready = false;
        fewer.remove(130);
        fewer.push(backend(300, 80));
        let changed = planned(&fewer, settled);
        assert!(changed.create.is_empty() && changed.delete.is_empty());
        let [slice] = changed.update.as_slice() else { panic!("one slice changes: {changed:?}") };
        assert_eq!(endpoints_of(slice).len(), 100, "the new pod takes the place of the old one");
        let ready =
            endpoints_of(slice).iter().filter(|endpoint| endpoint.conditions.as_ref().unwrap().ready == Some(true));
        assert_eq!(ready.count(), 99);
    }

    #[test]
    fn pods_with_other_ports_are_in_other_slices() {
        let mixed = [backend(0, 80), backend(1, 8080), backend(2, 80)];
        let created = planned(&mixed, Vec::new()).create;
        let sizes: Vec<_> = created.iter().map(|slice| endpoints_of(slice).len()).collect();
        assert_eq!(sizes, [2, 1]);
        let moved = planned(&[backend(0, 80), backend(1, 80), backend(2, 80)], created);
        assert_eq!((moved.create.len(), moved.update.len(), moved.delete.len()), (0, 1, 1));
    }

    #[test]
    fn service_without_pods_keeps_one_empty_slice() {
        let empty = planned(&[], Vec::new()).create;
        assert_eq!(empty.len(), 1);
        assert!(endpoints_of(&empty[0]).is_empty() && empty[0].ports.as_ref().is_some_and(Vec::is_empty));
        assert_eq!(planned(&[], empty.clone()), Plan::default());
        let filled = planned(&backends(1), empty);
        assert_eq!((filled.create.len(), filled.update.len(), filled.delete.len()), (0, 1, 0), "it is filled");
        let emptied = planned(&[], filled.update);
        assert_eq!((emptied.create.len(), emptied.update.len(), emptied.delete.len()), (0, 1, 0), "and emptied");
    }

    #[test]
    fn slice_names_its_service() {
        let mut service = service();
        service.labels_mut().insert("tier".to_owned(), "front".to_owned());
        service.labels_mut().insert(MANAGED_BY.to_owned(), "me".to_owned());
        let slices = plan(&service, &backends(1), Vec::new(), |_| None).create;
        assert!(is_of(&slices[0], "web") && !is_of(&slices[0], "other"));
        assert_eq!(slices[0].labels()["tier"], "front");
        assert!(slices[0].is_controlled_by(&service));
    }
}
