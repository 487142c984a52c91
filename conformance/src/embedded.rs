//! The embedded server on a fixed port.

use std::{env, net::SocketAddr, sync::Arc};

use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};
use windlass_client::{Auth, Config, config::TlsOptions};
use windlass_etcd::{EtcdStorage, Options, testing::Etcd};
use windlass_server::{
    AdmissionConfiguration, AdmissionPlugins, AuthorizationConfiguration, KubernetesVersion, Server, ServerBuilder,
    TlsIdentity,
    storage::{MemoryStorage, Retention, Storage},
};
use windlass_storage::{CachedStorage, DiskStorage, Encoding};

const TOKEN: &str = "conformance-admin";

/// The variable that selects the storage of the embedded servers: `memory` (default), `disk` or `etcd`.
const STORAGE: &str = "WINDLASS_STORAGE";

/// The storage of an embedded server.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) storage: Arc<dyn Storage>,
    /// The etcd of the storage, which ends with it.
    _etcd: Option<Etcd>,
}

impl Stored {
    /// Creates an empty storage of the selected kind for a server of a Kubernetes version.
    pub(crate) async fn new(kubernetes: KubernetesVersion) -> Self {
        let selected = env::var(STORAGE);
        if selected.as_deref() == Ok("etcd") {
            let etcd = Etcd::start();
            let connected = EtcdStorage::connect(Options::new([etcd.endpoint()])).await.expect("etcd starts in time");
            let encoding = Encoding::shared(kubernetes);
            let cached = CachedStorage::start(Arc::new(connected), encoding, Retention::default()).await;
            return Self { storage: Arc::new(cached.expect("etcd can be read")), _etcd: Some(etcd) };
        }
        let storage: Arc<dyn Storage> = match selected.as_deref() {
            Err(_) | Ok("memory") => Arc::new(MemoryStorage::default()),
            Ok("disk") => Arc::new(
                DiskStorage::temporary(windlass_storage::Options::default()).expect("a directory can be created"),
            ),
            Ok(other) => panic!("{STORAGE} is {other:?}: expected memory, disk or etcd"),
        };
        Self { storage, _etcd: None }
    }
}

/// An embedded server that a test can stop, and start again with the same or another storage. It stops on drop.
#[derive(Debug)]
pub(crate) struct Embedded {
    address: SocketAddr,
    pub(crate) kubernetes: KubernetesVersion,
    tls: TlsIdentity,
    pub(crate) stored: Stored,
    /// `None` while it is stopped.
    serving: Option<Serving>,
}

#[derive(Debug)]
struct Serving {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Embedded {
    /// Starts a server of a Kubernetes version on a free port.
    pub(crate) async fn start_new(kubernetes: KubernetesVersion) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let tls = TlsIdentity::generate(["localhost", "127.0.0.1"]).expect("a certificate can be made");
        let mut embedded = Self { address, kubernetes, tls, stored: Stored::new(kubernetes).await, serving: None };
        embedded.serve(listener);
        embedded
    }

    /// Returns the administrator's client configuration.
    pub(crate) fn config(&self) -> Config {
        let uri = format!("https://{}", self.address).parse().expect("an address makes a URI");
        Config::new(uri).with_auth(Auth::Bearer(TOKEN.into())).with_tls(TlsOptions::trusting(self.tls.ca_pem()))
    }

    pub(crate) async fn stop(&mut self) {
        if let Some(Serving { stop, task }) = self.serving.take() {
            drop(stop);
            task.await.expect("the server does not panic");
        }
    }

    pub(crate) async fn start(&mut self) {
        let listener = TcpListener::bind(self.address).await.expect("the server's port is free");
        self.serve(listener);
    }

    fn serve(&mut self, listener: TcpListener) {
        let builder = like_upstream(Server::builder()).kubernetes(self.kubernetes).token(TOKEN);
        let server = builder.storage(Arc::clone(&self.stored.storage)).build();
        let (stop, stopped) = oneshot::channel::<()>();
        let tls = self.tls.clone();
        let task = tokio::spawn(async move {
            // A message and a drop of the sender both stop the server.
            let stopped = async { drop(stopped.await) };
            server.serve(listener, tls, stopped).await.expect("the server serves until it is stopped");
        });
        self.serving = Some(Serving { stop, task });
    }
}

/// Configures the authenticators and authorizers of the real server that need no files.
pub fn like_upstream(builder: ServerBuilder) -> ServerBuilder {
    let modes = AuthorizationConfiguration::from_modes(&["Node", "RBAC"], None).expect("the modes are supported");
    let optional = ["NodeRestriction", "OwnerReferencesPermissionEnforcement", "PodNodeSelector"];
    let plugins = AdmissionPlugins::new(&optional, &[]).expect("the plugins are supported");
    let authorizers = modes.connect(|_| Err("there is no webhook".into())).expect("no webhook is connected");
    builder
        .authorizers(authorizers)
        .admission(AdmissionConfiguration::new(plugins).expect("the plugins need no configuration"))
        .bootstrap_tokens(true)
}

/// Compacts all versions but the current one.
pub(crate) async fn compact(storage: &dyn Storage) {
    let present = storage.revision().await.expect("the storage works");
    storage.compact(present).await.expect("the storage works");
}
