//! The extension API server, as a part of a cluster.

#![allow(clippy::unwrap_used, clippy::panic, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::time::Duration;

use extension_server::api::{Ferry, OldFerry};
use tokio::{
    net::TcpListener,
    sync::oneshot,
    time::{self, Instant},
};
use windlass::{
    ObjectRef,
    api::{ErrorChain, ObjectExt},
    client::Client,
    k8s::core::v1::ConfigMap,
    server::{FrontProxy, ProxyIdentity, Server, TlsIdentity, User},
};

/// A generous timeout that only failing tests reach.
const PATIENCE: Duration = Duration::from_mins(1);

/// A cluster, until it is dropped.
struct Cluster {
    server: Server,
    _stop: oneshot::Sender<()>,
}

impl Cluster {
    async fn start() -> Self {
        let (identity, ca) = ProxyIdentity::generate().unwrap();
        let tls = TlsIdentity::generate::<String>([]).unwrap().with_front_proxy_ca(&ca).unwrap();
        let proxy = FrontProxy::of_names([ProxyIdentity::NAME]);
        let server = Server::builder().proxy_identity(identity).front_proxy(proxy).build();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = server.clone();
        tokio::spawn(async move { serving.serve(listener, tls, async { drop(stopped.await) }).await });
        Self { server, _stop: stop }
    }

    fn administrator(&self) -> Client {
        Client::from_service(self.server.service(), "default")
    }

    fn client_of(&self, name: &str) -> Client {
        Client::from_service(self.server.service().acting_as(User::new(name)), "default")
    }
}

async fn eventually<T, E: std::fmt::Display>(what: &str, mut attempt: impl AsyncFnMut() -> Result<T, E>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt().await {
            Ok(found) => return found,
            Err(error) => assert!(Instant::now() < deadline, "{what}: {error}"),
        }
        time::sleep(Duration::from_millis(20)).await;
    }
}

fn ferry(name: &str, from: &str, to: &str) -> Ferry {
    let mut ferry = Ferry::default();
    ferry.metadata.name = Some(name.to_owned());
    ferry.metadata.namespace = Some("default".to_owned());
    (ferry.spec.from, ferry.spec.to) = (from.to_owned(), to.to_owned());
    ferry
}

#[tokio::test]
async fn kinds_of_the_program_are_part_of_the_cluster() {
    let cluster = Cluster::start().await;
    let client = cluster.administrator();
    let (stop, stopped) = oneshot::channel::<()>();
    // The ConfigMap with the cluster's front proxy exists as soon as the cluster serves.
    let proxy = ObjectRef::<ConfigMap>::new("extension-apiserver-authentication").within("kube-system");
    eventually("the cluster publishes its front proxy", async || client.get(&proxy).await).await;
    let serving = extension_server::serve(client.clone(), async { drop(stopped.await) });
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        served = &mut serving => panic!("the program has ended: {served:?}"),
        () = check(&cluster, &client) => {}
    }
    drop(stop);
    serving.await.unwrap();
}

async fn check(cluster: &Cluster, client: &Client) {
    let mut created = eventually("ferries are served", async || client.create(&ferry("a", "Kiel", "Oslo")).await).await;
    assert_eq!(created.spec.cars, 50, "the rules set the default");
    created.spec.cars = 70;
    client.update(&created).await.unwrap();
    let same = client.create(&ferry("b", "Kiel", "Kiel")).await.unwrap_err();
    assert!(ErrorChain(&same).to_string().contains("spec.to: must differ"), "{}", ErrorChain(&same));

    let key = ObjectRef::<OldFerry>::new("a").within("default");
    let old = eventually("the older version is served", async || client.get(&key).await).await;
    assert_eq!(old.spec.route, "Kiel-Oslo");
    client.update(&old).await.unwrap();
    let again = client.get(ObjectRef::<Ferry>::new("a").within("default")).await.unwrap();
    assert_eq!(again.spec.cars, 70, "the older version keeps the cars");
    let mut old = OldFerry::default();
    old.metadata.name = Some("c".to_owned());
    old.metadata.namespace = Some("default".to_owned());
    "nowhere".clone_into(&mut old.spec.route);
    let invalid = client.create(&old).await.unwrap_err();
    assert!(ErrorChain(&invalid).to_string().contains("spec.route: must be two ports"), "{}", ErrorChain(&invalid));
    "Dover-Calais".clone_into(&mut old.spec.route);
    client.create(&old).await.unwrap();
    let found = client.get(ObjectRef::<Ferry>::new("c").within("default")).await.unwrap();
    assert_eq!((&*found.spec.from, &*found.spec.to, found.spec.cars), ("Dover", "Calais", 50));
    let ferries = client.list::<Ferry>().within("default").await.unwrap();
    assert_eq!(ferries.iter().map(ObjectExt::name).collect::<Vec<_>>(), ["a", "c"]);

    // The cluster decides what a user may do.
    let error = cluster.client_of("jane").list::<Ferry>().within("default").await.unwrap_err();
    assert!(error.is_forbidden(), "{error}");
}

#[tokio::test]
async fn program_without_a_front_proxy_says_so() {
    let server = Server::builder().build();
    let client = Client::from_service(server.service(), "default");
    let error = extension_server::serve(client, std::future::pending()).await.unwrap_err();
    let text = ErrorChain(&*error).to_string();
    assert!(text.contains("extension-apiserver-authentication"), "{text}");
}
