//! Compares the claims of two API servers that share an etcd. `cargo xtask long etcd` runs this program with the real
//! kube-apiserver and with `windlass up --etcd`.
//!
//! Creates services through both servers at once, until no cluster IP is free. No two services may have an address or a
//! node port in common, both servers must list an IPAddress for each, and both must list the same API servers in the
//! endpoints of the service `kubernetes`. Services with requested values of the other server must be rejected.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    process::ExitCode,
    time::Duration,
};

use futures::future::join_all;
use k8s_openapi::api::{
    core::v1::{Endpoints, Service, ServicePort, ServiceSpec},
    discovery::v1::EndpointSlice,
    networking::v1::IPAddress,
};
use tokio::time::{sleep, timeout};
use windlass_client::{
    Client, Config,
    config::{Kubeconfig, Selection},
};

type Result<T = (), E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// The number of services that each server creates at a time.
const AT_ONCE: usize = 8;

/// The time in which a change of one server is visible through the other.
const PATIENCE: Duration = Duration::from_mins(1);

struct Server {
    name: String,
    client: Client,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [first, second, addresses @ ..] = &*arguments else {
        eprintln!("usage: neighbors KUBECONFIG KUBECONFIG ADDRESS…");
        return ExitCode::FAILURE;
    };
    match Box::pin(run([first, second], addresses)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("neighbors: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the comparison. `expected` are addresses that the endpoints must list.
async fn run(kubeconfigs: [&String; 2], expected: &[String]) -> Result {
    let [first, second] = kubeconfigs.map(|path| Server::of(path));
    let servers = [first?, second?];
    compare_endpoints(&servers, expected).await?;
    let created = fill(&servers).await?;
    println!("{} services have an address and a node port of their own", created.len());
    compare_addresses(&servers, &created).await?;
    reject_taken(&servers, &created).await?;
    release(&servers, created).await
}

impl Server {
    fn of(path: &str) -> Result<Self> {
        let kubeconfig = Kubeconfig::read(path)?;
        let config = Config::from_kubeconfig(&kubeconfig, &Selection::default())?;
        let name = config.server.to_string();
        Ok(Self { name, client: Client::new(config)?.without_rate_limit() })
    }

    async fn create(&self, service: &Service) -> Result<Service, String> {
        self.client.create(service).await.map_err(|error| {
            // The message of the server is in the source.
            error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
        })
    }

    /// Returns the IPAddresses of the services in the namespace `default`, with the name of each service.
    async fn addresses(&self) -> Result<BTreeMap<String, String>> {
        let list = self.client.list::<IPAddress>().await?;
        let named = list.items.into_iter().filter_map(|address| {
            let parent = address.spec.parent_ref;
            Some((address.metadata.name?, parent.name))
        });
        Ok(named.collect())
    }

    /// Returns the addresses in the Endpoints and in the EndpointSlice of the service `kubernetes`.
    async fn endpoints(&self) -> Result<[BTreeSet<String>; 2]> {
        let endpoints = self.client.get::<Endpoints>("kubernetes").within("default").await?;
        let slice = self.client.get::<EndpointSlice>("kubernetes").within("default").await?;
        let subsets = endpoints.subsets.unwrap_or_default().into_iter();
        let addresses = subsets.flat_map(|subset| subset.addresses.unwrap_or_default());
        let of_slice = slice.endpoints.unwrap_or_default().into_iter().flat_map(|endpoint| endpoint.addresses);
        Ok([addresses.map(|address| address.ip).collect(), of_slice.collect()])
    }
}

fn service(name: &str, cluster_ip: Option<String>, node_port: Option<i32>) -> Service {
    let mut service = Service::default();
    service.metadata.name = Some(name.to_owned());
    service.metadata.namespace = Some("default".to_owned());
    let port = ServicePort { port: 80, node_port, ..ServicePort::default() };
    let type_ = Some("NodePort".to_owned());
    service.spec = Some(ServiceSpec { type_, cluster_ip, ports: Some(vec![port]), ..ServiceSpec::default() });
    service
}

/// Returns the cluster IP and the node port of a service.
fn claims(service: &Service) -> Result<(String, i32)> {
    let spec = service.spec.as_ref().ok_or("the service has no spec")?;
    let ip = spec.cluster_ip.clone().ok_or("the service has no cluster IP")?;
    let port = spec.ports.as_ref().and_then(|ports| ports.first()?.node_port).ok_or("the service has no node port")?;
    Ok((ip, port))
}

/// Creates services through both servers, until each has rejected one because no address is free.
async fn fill(servers: &[Server; 2]) -> Result<Vec<Service>> {
    let mut created = Vec::new();
    let (mut ips, mut ports) = (BTreeSet::new(), BTreeSet::new());
    for round in 0.. {
        let bodies: Vec<_> = (0..2 * AT_ONCE)
            .map(|number| (&servers[number % 2], service(&format!("n-{round}-{number}"), None, None)))
            .collect();
        let results = join_all(bodies.iter().map(|(server, body)| server.create(body))).await;
        let mut rejected = BTreeSet::new();
        for ((server, _), result) in bodies.iter().zip(results) {
            match result {
                Ok(service) => {
                    let (ip, port) = claims(&service)?;
                    if !ips.insert(ip.clone()) {
                        return Err(format!("{} has given {ip} again", server.name).into());
                    }
                    if !ports.insert(port) {
                        return Err(format!("{} has given node port {port} again", server.name).into());
                    }
                    created.push(service);
                }
                Err(message) if message.contains("range is full") => drop(rejected.insert(&server.name)),
                Err(message) => return Err(format!("{}: {message}", server.name).into()),
            }
        }
        if rejected.len() == servers.len() {
            break;
        }
    }
    Ok(created)
}

/// Checks that both servers list the claims of all services.
async fn compare_addresses(servers: &[Server; 2], created: &[Service]) -> Result {
    let lists = [servers[0].addresses().await?, servers[1].addresses().await?];
    if lists[0] != lists[1] {
        return Err(format!("the IPAddresses differ: {:?} and {:?}", lists[0], lists[1]).into());
    }
    for service in created {
        let (ip, _) = claims(service)?;
        if lists[0].get(&ip) != service.metadata.name.as_ref() {
            return Err(format!("{ip} of {:?} belongs to {:?}", service.metadata.name, lists[0].get(&ip)).into());
        }
    }
    println!("both servers list {} IPAddresses", lists[0].len());
    Ok(())
}

/// Checks that each server rejects the addresses of services, whichever server has created them.
async fn reject_taken(servers: &[Server; 2], created: &[Service]) -> Result {
    for taken in created.iter().take(4 * AT_ONCE) {
        let (ip, _) = claims(taken)?;
        for server in servers {
            let same_ip = server.create(&service("again", Some(ip.clone()), None)).await;
            if !same_ip.as_ref().is_err_and(|message| message.contains("provided IP is already allocated")) {
                return Err(format!("{} gives {ip} again: {same_ip:?}", server.name).into());
            }
        }
    }
    Ok(())
}

/// Deletes each service through the server that has not created it, and checks that its claims are free again.
async fn release(servers: &[Server; 2], created: Vec<Service>) -> Result {
    let (ip, port) = claims(created.first().ok_or("no service was created")?)?;
    for (number, service) in created.iter().enumerate() {
        let name = service.metadata.name.clone().unwrap_or_default();
        servers[(number + 1) % 2].client.delete::<Service>(&*name).within("default").await?;
    }
    for server in servers {
        let freed = server.addresses().await?;
        if freed.len() != 1 {
            return Err(format!("{} still lists {freed:?}", server.name).into());
        }
    }
    // The same values again, and a port that is taken, through each server.
    for (server, other) in [(&servers[0], &servers[1]), (&servers[1], &servers[0])] {
        server.create(&service("again", Some(ip.clone()), Some(port))).await?;
        let same_port = other.create(&service("more", None, Some(port))).await;
        if !same_port.as_ref().is_err_and(|message| message.contains("provided port is already allocated")) {
            return Err(format!("{} gives node port {port} again: {same_port:?}", other.name).into());
        }
        other.client.delete::<Service>("again").within("default").await?;
    }
    println!("addresses and node ports that one server has released are free for the other");
    Ok(())
}

/// Waits until both servers list the same addresses in the endpoints, and among them the expected ones.
async fn compare_endpoints(servers: &[Server; 2], expected: &[String]) -> Result {
    let mut last = String::new();
    let listed = timeout(PATIENCE, async {
        loop {
            let [of_first, slice_of_first] = servers[0].endpoints().await?;
            let [of_second, slice_of_second] = servers[1].endpoints().await?;
            let all = [&of_first, &slice_of_first, &of_second, &slice_of_second];
            let is_complete = of_first.len() == 2 && expected.iter().all(|address| of_first.contains(address));
            if is_complete && all.iter().all(|addresses| **addresses == of_first) {
                return Ok::<_, Box<dyn Error + Send + Sync>>(of_first);
            }
            last = format!("{all:?}");
            sleep(Duration::from_millis(100)).await;
        }
    });
    let listed = listed.await.map_err(|_| format!("the endpoints of the service kubernetes are {last}"))??;
    println!("both servers list {listed:?} in the endpoints of the service kubernetes");
    Ok(())
}
