//! The controller of Endpoints, for clients that do not read EndpointSlices.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service};
use windlass_api::{ObjectExt, ObjectRef, format_time};
use windlass_runtime::{Action, Context, Controller, Manager, Watch};

use super::backend::{
    Backend, HEADLESS, Port, TRIGGER_TIME, backends, has_endpoints, is_headless, services_of, trigger_time,
};
use crate::{
    error::{ReconcileError, await_newer_state},
    pod_labels::by_labels,
};

/// The number of services reconciled at the same time.
const WORKERS: usize = 5;
/// The maximum number of addresses of an object. Further addresses are left out, and an annotation records that.
const CAPACITY: usize = 1000;
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// The label with the name of the controller that manages an object.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    let services = manager.cluster().informer::<Service>(&Watch::all()).store();
    manager.add(
        Controller::<Service>::new()
            .named("endpoints")
            .watches_with(by_labels(), move |pod| services_of(&services, pod))
            // Endpoints have the names of their services.
            .watches_with(Watch::<Endpoints>::all(), |endpoints| Some(ObjectRef::from(endpoints.key().clone())))
            .concurrency(WORKERS)
            .reconcile_keys(async |key: ObjectRef<Service>, cx: Context| await_newer_state(reconcile(key, cx).await)),
    );
}

async fn reconcile(key: ObjectRef<Service>, cx: Context) -> Result<Action, ReconcileError> {
    let known =
        cx.store::<Endpoints>().get(&ObjectRef::from(key.key().clone())).map(|known| known.get()).transpose()?;
    let Some(service) = cx.store::<Service>().get(&key) else {
        if let Some(known) = known.filter(|known| is_ours(known)) {
            let uid = known.uid().unwrap_or_default();
            cx.client().delete::<Endpoints>(known.object_ref()).uid(uid).await?;
        }
        return Ok(Action::await_change());
    };
    let service = service.get()?;
    if service.is_deleting() || !has_endpoints(&service) {
        return Ok(Action::await_change());
    }
    let wanted = endpoints(&service, backends(&cx, &service)?, known.as_deref());
    let Some(known) = known else {
        return match cx.client().create(&wanted).await {
            Ok(_) => Ok(Action::await_change()),
            // The cache is stale, or the namespace is being deleted.
            Err(error) if error.is_already_exists() => Ok(Action::await_change()),
            Err(error) if error.status().is_some_and(|status| status.has_cause("NamespaceTerminating")) => {
                Ok(Action::await_change())
            }
            Err(error) => Err(error.into()),
        };
    };
    let over_capacity = |endpoints: &Endpoints| endpoints.annotations().get(OVER_CAPACITY).cloned();
    let is_settled = known.subsets == wanted.subsets
        && known.metadata.labels == wanted.metadata.labels
        && over_capacity(&known) == over_capacity(&wanted);
    if !is_settled {
        let mut changed = (*known).clone();
        changed.subsets = wanted.subsets;
        changed.metadata.labels = wanted.metadata.labels;
        let annotations = changed.annotations_mut();
        annotations.retain(|key, _| key != OVER_CAPACITY && key != TRIGGER_TIME);
        annotations.extend(wanted.metadata.annotations.unwrap_or_default());
        cx.client().update(&changed).await?;
    }
    Ok(Action::await_change())
}

fn is_ours(endpoints: &Endpoints) -> bool {
    endpoints.labels().get(MANAGED_BY).is_some_and(|manager| manager == MANAGER)
}

/// Builds the Endpoints of a service, to replace the `known` ones.
fn endpoints(service: &Service, mut backends: Vec<Backend>, known: Option<&Endpoints>) -> Endpoints {
    let told = known.map(|known| {
        let addresses = known.subsets.iter().flatten().flat_map(|subset| subset.addresses.iter().flatten());
        addresses.filter_map(|address| address.target_ref.as_ref()?.uid.clone()).collect()
    });
    let trigger = trigger_time(service, &backends, told.as_ref());
    let early = service.spec.as_ref().is_some_and(|spec| spec.publish_not_ready_addresses == Some(true));
    backends.retain(|backend| early || !backend.pod.is_deleting());
    backends.sort_by(|a, b| a.address.cmp(&b.address));

    let mut endpoints = Endpoints::default();
    endpoints.metadata.name.clone_from(&service.metadata.name);
    endpoints.metadata.namespace.clone_from(&service.metadata.namespace);
    let labels = endpoints.labels_mut();
    labels.extend(service.labels().clone());
    labels.remove(HEADLESS);
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    if let Some(trigger) = trigger {
        endpoints.annotations_mut().insert(TRIGGER_TIME.to_owned(), format_time(trigger));
    }
    if backends.len() > CAPACITY {
        // Ready pods first.
        backends.sort_by_key(|backend| !backend.ready);
        backends.truncate(CAPACITY);
        endpoints.annotations_mut().insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
    }
    endpoints.subsets = Some(subsets(service, &backends)).filter(|subsets| !subsets.is_empty());
    endpoints
}

/// Groups the ports by the set of pods that have them. Pods without ports are included only if the service has no
/// ports.
fn subsets(service: &Service, backends: &[Backend]) -> Vec<EndpointSubset> {
    let asks_for_none = service.spec.as_ref().is_none_or(|spec| spec.ports.iter().flatten().next().is_none());
    // The indexes of the pods that have a port.
    let mut pods_of: BTreeMap<Option<&Port>, Vec<usize>> = BTreeMap::new();
    for (place, backend) in backends.iter().enumerate() {
        for port in &backend.ports {
            pods_of.entry(Some(port)).or_default().push(place);
        }
        if backend.ports.is_empty() && asks_for_none {
            pods_of.entry(None).or_default().push(place);
        }
    }
    let mut ports_of: BTreeMap<Vec<usize>, Vec<&Port>> = BTreeMap::new();
    for (port, pods) in pods_of {
        ports_of.entry(pods).or_default().extend(port);
    }
    let subset = |(pods, ports): (Vec<usize>, Vec<&Port>)| {
        let ports: Vec<_> = ports.into_iter().map(port).collect();
        let mut subset =
            EndpointSubset { ports: Some(ports).filter(|ports| !ports.is_empty()), ..EndpointSubset::default() };
        for backend in pods.into_iter().map(|place| &backends[place]) {
            let list = if backend.ready { &mut subset.addresses } else { &mut subset.not_ready_addresses };
            list.get_or_insert_default().push(EndpointAddress {
                ip: backend.address.clone(),
                hostname: backend.hostname(service),
                node_name: backend.node(),
                target_ref: Some(backend.target()),
            });
        }
        subset
    };
    ports_of.into_iter().map(subset).collect()
}

fn port(port: &Port) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.clone()).filter(|name| !name.is_empty()),
        port: port.number,
        protocol: Some(port.protocol.clone()),
        app_protocol: port.app_protocol.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::{Pod, ServicePort, ServiceSpec};

    use super::*;

    fn backend(address: &str, ready: bool, number: i32) -> Backend {
        let port = Port { name: String::new(), protocol: "TCP".to_owned(), number, app_protocol: None };
        let address = address.to_owned();
        Backend { pod: Arc::new(Pod::default()), address, ports: vec![port], ready, serving: ready }
    }

    #[test]
    fn ports_of_same_pods_share_a_subset_sorted_by_address() {
        let ports = Some(vec![ServicePort { port: 80, ..ServicePort::default() }]);
        let mut service = Service { spec: Some(ServiceSpec { ports, ..ServiceSpec::default() }), ..Service::default() };
        service.metadata.name = Some("web".to_owned());
        let backends =
            vec![backend("10.1.0.3", true, 80), backend("10.1.0.2", true, 80), backend("10.1.0.1", false, 80)];
        let subsets = endpoints(&service, backends, None).subsets.unwrap();
        let [subset] = subsets.as_slice() else { panic!("one: {subsets:?}") };
        let ips = |list: &Option<Vec<EndpointAddress>>| -> Vec<String> {
            list.iter().flatten().map(|address| address.ip.clone()).collect()
        };
        assert_eq!(ips(&subset.addresses), ["10.1.0.2", "10.1.0.3"]);
        assert_eq!(ips(&subset.not_ready_addresses), ["10.1.0.1"]);
        let apart = endpoints(&service, vec![backend("a", true, 80), backend("b", true, 81)], None).subsets.unwrap();
        assert_eq!(apart.len(), 2);
        assert_eq!(endpoints(&service, Vec::new(), None).subsets, None);
    }

    #[test]
    fn excess_addresses_are_dropped_and_annotated() {
        let many = (0..=CAPACITY).map(|number| backend(&format!("{number:04}"), number > 0, 80)).collect();
        let mut service = Service { spec: Some(ServiceSpec::default()), ..Service::default() };
        service.metadata.name = Some("web".to_owned());
        let endpoints = endpoints(&service, many, None);
        assert_eq!(endpoints.annotations()[OVER_CAPACITY], "truncated");
        let subset = endpoints.subsets.unwrap().remove(0);
        assert_eq!((subset.addresses.unwrap().len(), subset.not_ready_addresses), (CAPACITY, None));
    }
}
