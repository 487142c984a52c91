//! The addresses of a service's pods, in Endpoints and EndpointSlices.

use k8s_openapi::{
    api::{
        core::v1::{Container, ContainerPort, Endpoints, Pod, PodSpec, Service, ServicePort, ServiceSpec},
        discovery::v1::EndpointSlice,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use windlass_api::ObjectExt;
use windlass_client::Client;
use windlass_controllers::{BuiltIn, Controllers, Pace};

use super::{NODES, Observed, namespace};
use conformance::{Target, eventually, on_each_target};

#[tokio::test]
async fn endpoints_follow_the_pods_of_a_service() {
    on_each_target(|target| async {
        follow(&target).await;
        target
    })
    .await;
}

async fn follow(target: &Target) {
    let ns = namespace(target, "behind").await;
    let client = &target.client;
    let parts = [
        BuiltIn::EndpointSlice,
        BuiltIn::Endpoints,
        BuiltIn::GarbageCollector,
        BuiltIn::ServiceAccount,
        BuiltIn::Nodes,
    ];
    let controllers = Controllers::of(parts).nodes(NODES).pace(Pace::immediate());
    let (observed, ()) = Observed::start(client, &controllers, |_| ()).await;

    client.create(&service(&ns)).await.unwrap();
    eventually("an empty slice", || async { (slices(client, &ns).await == [Vec::<String>::new()]).then_some(()) })
        .await;
    for name in ["one", "two"] {
        client.create(&pod(&ns, name)).await.unwrap();
    }
    let both = eventually("both pods have addresses", || async {
        let pods = client.list::<Pod>().within(&ns).await.unwrap();
        let mut ips: Vec<_> = pods.iter().filter_map(|pod| pod.status.as_ref()?.pod_ip.clone()).collect();
        ips.sort();
        (ips.len() == 2).then_some(ips)
    })
    .await;
    eventually("both are in the slice", || async { (slices(client, &ns).await == [both.clone()]).then_some(()) }).await;
    eventually("and in the older kind", || async { (older(client, &ns).await == Some(both.clone())).then_some(()) })
        .await;
    let slice = client.list::<EndpointSlice>().within(&ns).await.unwrap().items.remove(0);
    assert_eq!(slice.ports.as_ref().unwrap()[0].port, Some(8080), "by the name of the container's port");
    assert!(slice.name().starts_with("web-"), "{}", slice.name());

    client.delete::<Pod>("one").within(&ns).await.unwrap();
    eventually("one is left", || async {
        let left = slices(client, &ns).await;
        (left.iter().map(Vec::len).collect::<Vec<_>>() == [1]).then_some(())
    })
    .await;
    client.delete::<Service>("web").within(&ns).await.unwrap();
    eventually("nothing is left", || async {
        (slices(client, &ns).await.is_empty() && older(client, &ns).await.is_none()).then_some(())
    })
    .await;
    observed.stop().await;
}

fn service(ns: &str) -> Service {
    let port =
        ServicePort { port: 80, target_port: Some(IntOrString::String("http".to_owned())), ..ServicePort::default() };
    let spec = ServiceSpec {
        selector: Some([("app".to_owned(), "web".to_owned())].into()),
        ports: Some(vec![port]),
        ..ServiceSpec::default()
    };
    let mut service = Service { spec: Some(spec), ..Service::default() };
    service.metadata.name = Some("web".to_owned());
    service.metadata.namespace = Some(ns.to_owned());
    service
}

fn pod(ns: &str, name: &str) -> Pod {
    let port = ContainerPort { name: Some("http".to_owned()), container_port: 8080, ..ContainerPort::default() };
    let container = Container {
        name: "c".to_owned(),
        image: Some("i".to_owned()),
        ports: Some(vec![port]),
        ..Container::default()
    };
    let spec = PodSpec { containers: vec![container], ..PodSpec::default() };
    let mut pod = Pod { spec: Some(spec), ..Pod::default() };
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.namespace = Some(ns.to_owned());
    pod.labels_mut().insert("app".to_owned(), "web".to_owned());
    pod
}

/// Returns the addresses in each slice, in order.
async fn slices(client: &Client, ns: &str) -> Vec<Vec<String>> {
    let slices = client.list::<EndpointSlice>().within(ns).await.unwrap();
    let addresses = |slice: &EndpointSlice| {
        let mut addresses: Vec<_> =
            slice.endpoints.iter().flatten().flat_map(|endpoint| endpoint.addresses.clone()).collect();
        addresses.sort();
        addresses
    };
    slices.iter().map(addresses).collect()
}

/// Returns the addresses in the Endpoints object, if it exists.
async fn older(client: &Client, ns: &str) -> Option<Vec<String>> {
    let endpoints = client.get_opt::<Endpoints>("web").within(ns).await.unwrap()?;
    let subsets = endpoints.subsets.into_iter().flatten();
    Some(subsets.flat_map(|subset| subset.addresses.unwrap_or_default()).map(|address| address.ip).collect())
}
