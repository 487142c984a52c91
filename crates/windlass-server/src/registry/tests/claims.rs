//! The claims of services: IPAddresses and node ports.

use std::collections::BTreeSet;

use futures::future::join_all;

use super::*;
use crate::storage::{Change, Expect, RangeQuery};

fn service(name: &str, kind: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}]}})
}

async fn addresses(fixture: &Fixture) -> Vec<String> {
    let list = fixture.list("ipaddresses", ListParams::default()).await.unwrap();
    list.items.iter().map(|item| item.value().text(&["metadata", "name"]).to_owned()).collect()
}

async fn ports(fixture: &Fixture) -> Value {
    let (_, value) = fixture.storage.get("/registry/ranges/servicenodeports", None).await.unwrap();
    value.map(|value| Item::stored(&value).unwrap().value()["data"].take()).unwrap_or_default()
}

/// Two servers over one storage, with 14 addresses. `kubernetes` has one of them.
async fn two_servers() -> [Fixture; 2] {
    let storage = Arc::new(MemoryStorage::default());
    let options = || RegistryOptions { service_cidr: "10.0.0.0/28".parse().unwrap(), ..RegistryOptions::default() };
    [Fixture::with(Arc::clone(&storage), options()).await, Fixture::with(storage, options()).await]
}

#[tokio::test]
async fn two_servers_never_claim_the_same_address_or_port() {
    let servers = two_servers().await;
    let names: Vec<String> = (0..13).map(|number| format!("s{number}")).collect();
    let creations = names.iter().enumerate().map(|(number, name)| {
        let server = &servers[number % 2];
        async move { server.create("services", service(name, "NodePort")).await.unwrap() }
    });
    let created = join_all(creations).await;
    let ips: BTreeSet<&str> = created.iter().map(|service| service.text(&["spec", "clusterIP"])).collect();
    let ports: BTreeSet<i64> =
        created.iter().filter_map(|service| service["spec"]["ports"][0].int(&["nodePort"])).collect();
    assert_eq!((ips.len(), ports.len()), (13, 13), "{ips:?} {ports:?}");
    assert!(!ips.contains("10.0.0.1"), "that of the service kubernetes");
    for server in &servers {
        let error = server.create("services", service("more", "ClusterIP")).await.unwrap_err();
        assert!(
            error.message.ends_with("failed to allocate a serviceIP for Service \"more\": range is full"),
            "{error:?}"
        );
    }
    // An address that the other server releases is free at once.
    servers[0].delete("services", &names[3], DeleteParams::default()).await.unwrap();
    let next = servers[1].create("services", service("next", "NodePort")).await.unwrap();
    assert_eq!(next["spec"]["clusterIP"], created[3]["spec"]["clusterIP"]);
}

#[tokio::test]
async fn requested_address_and_port_of_another_server_are_rejected() {
    let [first, second] = two_servers().await;
    let requesting = |name: &str, ip: &str, port: u16| {
        json!({"metadata": {"name": name},
            "spec": {"type": "NodePort", "clusterIP": ip, "ports": [{"port": 80, "nodePort": port}]}})
    };
    first.create("services", requesting("a", "10.0.0.9", 30_500)).await.unwrap();
    for (ip, port, problem) in [
        (
            "10.0.0.9",
            30_501,
            "spec.clusterIPs: Invalid value: [\"10.0.0.9\"]: failed to allocate IP 10.0.0.9: provided IP is already allocated",
        ),
        ("10.0.0.8", 30_500, "spec.ports[0].nodePort: Invalid value: 30500: provided port is already allocated"),
        ("10.0.0.15", 30_501, "failed to allocate IP 10.0.0.15: the provided network does not match the current range"),
    ] {
        let error = second.create("services", requesting("b", ip, port)).await.unwrap_err();
        assert!(error.message.contains(problem), "{}", error.message);
    }
    // The failed creations have given back what they had claimed.
    second.create("services", requesting("b", "10.0.0.8", 30_501)).await.unwrap();
    assert_eq!(addresses(&first).await, ["10.0.0.1", "10.0.0.8", "10.0.0.9"]);
}

#[tokio::test]
async fn address_of_a_service_is_that_of_kube_apiserver() {
    let fixture = Fixture::new().await;
    let created = fixture.create("services", service("a", "ClusterIP")).await.unwrap();
    let ip = created.text(&["spec", "clusterIP"]);
    let mut address = fixture.get("ipaddresses", ip).await.unwrap();
    assert_eq!(
        address["metadata"]["labels"],
        json!({"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"})
    );
    let parent = json!({"resource": "services", "namespace": "default", "name": "a"});
    assert_eq!(address["spec"], json!({"parentRef": parent}));
    let managers = address["metadata"]["managedFields"].take();
    assert_eq!((&managers[0]["manager"], &managers[1]), (&json!("kube-apiserver"), &Value::Null));
}

#[tokio::test]
async fn claims_are_released_with_their_use() {
    let fixture = Fixture::new().await;
    let balanced = json!({"metadata": {"name": "a"}, "spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.9",
        "externalTrafficPolicy": "Local", "healthCheckNodePort": 30_000, "ports": [{"port": 80, "nodePort": 30_001}]}});
    let mut created = fixture.create("services", balanced).await.unwrap();
    assert_eq!(
        (addresses(&fixture).await, ports(&fixture).await),
        (vec!["10.0.0.1".into(), "10.0.0.9".into()], json!("Aw=="))
    );
    let spec = created["spec"].as_object_mut().unwrap();
    spec.insert("type".to_owned(), "ExternalName".into());
    spec.insert("externalName".to_owned(), "example.com".into());
    for field in [
        "clusterIP",
        "clusterIPs",
        "healthCheckNodePort",
        "allocateLoadBalancerNodePorts",
        "externalTrafficPolicy",
        "internalTrafficPolicy",
    ] {
        spec.remove(field);
    }
    spec["ports"][0].as_object_mut().unwrap().remove("nodePort");
    fixture.update("services", created).await.unwrap();
    assert_eq!((addresses(&fixture).await, ports(&fixture).await), (vec!["10.0.0.1".to_owned()], json!("")));
    let mut back = fixture.get("services", "a").await.unwrap();
    back["spec"]["type"] = "NodePort".into();
    back["spec"]["ports"][0]["nodePort"] = 30_000.into();
    let back = fixture.update("services", back).await.unwrap();
    assert_eq!((addresses(&fixture).await.len(), ports(&fixture).await), (2, json!("AQ==")));
    fixture.delete("services", back.text(&["metadata", "name"]), DeleteParams::default()).await.unwrap();
    assert_eq!((addresses(&fixture).await, ports(&fixture).await), (vec!["10.0.0.1".to_owned()], json!("")));
}

#[tokio::test]
async fn dry_run_claims_nothing() {
    let fixture = Fixture::new().await;
    let before = fixture.storage.revision().await.unwrap();
    let params = WriteParams { dry_run: DryRun::All, ..WriteParams::default() };
    let target = fixture.collection("services");
    let written = fixture.registry.create(&target, Body::Value(service("a", "NodePort")), params).await.unwrap();
    let shown = value(&written);
    assert_eq!(
        (&shown["spec"]["clusterIP"], &shown["spec"]["ports"][0]["nodePort"]),
        (&json!("10.0.0.0"), &json!(32_769))
    );
    assert_eq!(fixture.storage.revision().await.unwrap(), before);
}

#[tokio::test]
async fn protocols_of_one_service_port_share_a_node_port() {
    let fixture = Fixture::new().await;
    let mut dns = service("dns", "NodePort");
    let port = |name: &str, protocol: &str, port: u16| json!({"name": name, "protocol": protocol, "port": port});
    dns["spec"]["ports"] = json!([port("a", "UDP", 53), port("b", "TCP", 53), port("c", "TCP", 54)]);
    let created = fixture.create("services", dns).await.unwrap();
    let node_port = |index: usize| created["spec"]["ports"][index]["nodePort"].clone();
    assert_eq!(node_port(0), node_port(1));
    assert_ne!(node_port(0), node_port(2));
}

#[tokio::test]
async fn claims_are_repaired_at_the_start() {
    let fixture = Fixture::new().await;
    let mut object = service("a", "NodePort");
    object["spec"]["clusterIP"] = "10.0.0.9".into();
    object["spec"]["ports"][0]["nodePort"] = 30_000.into();
    fixture.create("services", object).await.unwrap();
    // A claim without a service, and services without a claim.
    let mut leaked = fixture.get("ipaddresses", "10.0.0.9").await.unwrap();
    leaked["metadata"] = json!({"name": "10.0.0.7", "labels": leaked["metadata"]["labels"]});
    leaked["spec"]["parentRef"]["name"] = "gone".into();
    fixture.create("ipaddresses", leaked).await.unwrap();
    fixture.delete("ipaddresses", "10.0.0.9", DeleteParams::default()).await.unwrap();
    let ranges = fixture.storage.range(RangeQuery::prefix("/registry/ranges/")).await.unwrap();
    let expect = Expect::Unchanged(ranges.values[0].modified);
    fixture.storage.commit(&ranges.values[0].key, expect, Change::Delete).await.unwrap();
    assert_eq!(addresses(&fixture).await, ["10.0.0.1", "10.0.0.7"]);
    let next = Fixture::over(Arc::clone(&fixture.storage)).await;
    assert_eq!(addresses(&next).await, ["10.0.0.1", "10.0.0.9"]);
    assert_eq!(ports(&next).await, "AQ==");
    let events = next.list("events", ListParams::default()).await.unwrap();
    let mut notes: Vec<String> = events.items.iter().map(|event| event.value().text(&["message"]).to_owned()).collect();
    notes.sort();
    let leaked = "IPAddress: 10.0.0.7 for Service default/gone appears to have leaked: cleaning up";
    assert_eq!(notes, ["Cluster IP [IPv4]: 10.0.0.9 is not allocated; repairing", leaked]);
}

#[tokio::test]
async fn address_that_a_client_deletes_is_claimed_again() {
    let fixture = Fixture::new().await;
    let created = fixture.create("services", service("a", "ClusterIP")).await.unwrap();
    let ip = created.text(&["spec", "clusterIP"]);
    fixture.delete("ipaddresses", ip, DeleteParams::default()).await.unwrap();
    assert_eq!(addresses(&fixture).await, ["10.0.0.1"], "the next pass is later, as in kube-apiserver");
    tokio::time::pause();
    let repaired = async {
        while addresses(&fixture).await.len() < 2 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(5), repaired).await.unwrap();
    assert_eq!(addresses(&fixture).await, ["10.0.0.1", ip]);
}

#[tokio::test]
async fn further_ranges_are_used_once_the_first_is_full() {
    let [first, second] = two_servers().await;
    for number in 0..13 {
        first.create("services", service(&format!("s{number}"), "ClusterIP")).await.unwrap();
    }
    let range = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.9.0.0/30"]}});
    first.create("servicecidrs", range).await.unwrap();
    // The second server learns of the range when it needs one.
    for name in ["a", "b"] {
        let created = second.create("services", service(name, "ClusterIP")).await.unwrap();
        assert!(created.text(&["spec", "clusterIP"]).starts_with("10.9.0."), "{created}");
    }
    second.create("services", service("c", "ClusterIP")).await.unwrap_err();
}
