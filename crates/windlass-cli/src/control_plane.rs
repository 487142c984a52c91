//! A control plane in this process, for several commands: API server, controllers and simulated nodes.
//!
//! Guaranteed: as soon as the kubeconfig is written, clients can connect. Server and controllers stop together, and the
//! controllers' last writes complete. The cluster is lost when the process ends, unless it is in a directory or in etcd.

use std::{
    collections::BTreeMap,
    error::Error,
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::TcpListener,
    runtime::{self, Handle, Runtime},
    sync::watch,
    task::{JoinHandle, JoinSet},
};
use windlass_api::Entropy;
use windlass_cache::InformerOptions;
use windlass_client::{
    Client, Config, Kubeconfig,
    config::KubeconfigFiles,
    kubeconfig::{Cluster, Context, Selection, User as Credentials},
    warnings::IgnoreWarnings,
};
use windlass_controllers::{BuiltIn, Controllers, Identity, PodAnswers, TokenRequest, TokenSigner};
use windlass_runtime::{LeaderElection, Manager};
use windlass_server::{
    AdmissionConfiguration, AuditConfiguration, KubernetesVersion, PodAccounts, ProxyIdentity, RuntimeConfig, Server,
    Service, User,
};

use crate::{
    access::Access,
    certificates::CertificateFiles,
    client_authority::ClientAuthority,
    data_directory::Secrets,
    descriptions,
    encryption::Encryption,
    feature_gates::FeatureGates,
    request_limits::RequestLimits,
    storage::{Opened, Place},
    time_limits::TimeLimits,
    token_keys::TokenKeys,
};

/// The name of the cluster, user and context in the kubeconfig.
const NAME: &str = "windlass";

/// The memory budget of each cache of the controllers: this much uncompressed, and a quarter of it decoded. The server
/// in the same process has all objects anyway, and decoding an object again is cheaper than the memory.
const CACHE_BUDGET: usize = 1 << 20;

/// The lease of the leader election, that of kube-controller-manager. The role of `system:kube-controller-manager` permits
/// no other.
const LEASE: &str = "kube-controller-manager";

/// The maximum number of simulated nodes that share a runtime with the server.
const NODES_BESIDE_REQUESTS: usize = 100;

/// The components and addresses of a control plane.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) kubernetes: KubernetesVersion,
    /// The address to listen on; port 0 selects a free port.
    pub(crate) bind: SocketAddr,
    /// The address in the endpoints of the service `kubernetes`; `None` for that of the listener.
    pub(crate) advertised: Option<IpAddr>,
    pub(crate) nodes: usize,
    pub(crate) controllers: Controllers,
    /// The answers for simulated pods.
    pub(crate) answers: Option<PodAnswers>,
    /// The address of the console.
    pub(crate) console: Option<SocketAddr>,
    /// Authentication and authorization.
    pub(crate) access: Access,
    pub(crate) admission: AdmissionConfiguration,
    /// The audit log.
    pub(crate) audit: Option<AuditConfiguration>,
    /// The client certificate at extension API servers; `None` for a generated one.
    pub(crate) proxy: Option<CertificateFiles>,
    /// The serving certificate; `None` for a generated one.
    pub(crate) certificate: Option<CertificateFiles>,
    /// The flags of the program, for `/flagz`.
    pub(crate) flags: BTreeMap<String, String>,
    /// The place of the objects.
    pub(crate) place: Place,
    /// The flags for the tokens of service accounts.
    pub(crate) tokens: TokenKeys,
    pub(crate) limits: TimeLimits,
    pub(crate) requests: RequestLimits,
    pub(crate) gates: FeatureGates,
    /// The removed API versions to serve.
    pub(crate) runtime: RuntimeConfig,
    /// The encryption of the stored objects.
    pub(crate) encryption: Option<Encryption>,
    /// A hint for the user if the address is in use.
    pub(crate) hint: &'static str,
}

/// A control plane that accepts connections but does not respond yet.
#[derive(Debug)]
pub(crate) struct Bound {
    settings: Settings,
    listener: TcpListener,
    address: SocketAddr,
    console: Option<(TcpListener, SocketAddr)>,
    opened: Opened,
    /// The CA of the certificates that the controllers issue. `None` if other CAs of clients are configured.
    authority: Option<ClientAuthority>,
    /// The identity at extension API servers.
    proxy: Option<ProxyIdentity>,
}

/// A running control plane.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    server: Server,
    stop: watch::Sender<bool>,
    serving: JoinHandle<io::Result<()>>,
    managing: JoinHandle<windlass_runtime::Result<()>>,
    /// The result of the controllers, if they have ended.
    managed: Option<Result<windlass_runtime::Result<()>, tokio::task::JoinError>>,
    /// The tasks of the storage.
    _tasks: JoinSet<()>,
    /// The runtime of the controllers, if they have one.
    runtime: Option<OwnRuntime>,
}

/// The runtime of the controllers and of many nodes. Thousands of their tasks are ready at a time. In the runtime of the
/// server, each task of a request would wait for them. Dropping it ends their tasks.
#[derive(Debug)]
struct OwnRuntime {
    handle: Handle,
    /// `None` once it is dropped.
    runtime: Option<Runtime>,
}

/// The users that the controllers can act as.
#[derive(Clone, Copy, Debug)]
struct Identities {
    /// `true` if the default roles apply.
    have_roles: bool,
    /// `true` if the default permissions of nodes apply.
    have_nodes: bool,
}

/// The controllers in this process.
struct Managing {
    controllers: Controllers,
    console: Option<TcpListener>,
    /// `true` if other servers on the same storage may run controllers, too. One of them acts at a time.
    is_shared: bool,
}

impl Bound {
    pub(crate) async fn bind(mut settings: Settings) -> Result<Self, Box<dyn Error>> {
        let listener = listen(settings.bind, settings.hint).await?;
        let address = listener.local_addr()?;
        let console = match settings.console {
            Some(wanted) => {
                let listener = listen(wanted, "set another address with --console").await?;
                let address = listener.local_addr()?;
                Some((listener, address))
            }
            None => None,
        };
        let mut names = names(address.ip());
        names.extend(settings.advertised.map(|address| address.to_string()));
        let mut opened =
            settings.place.clone().open(names, settings.kubernetes, settings.encryption.as_ref(), token).await?;
        opened.secrets.issuer = settings.tokens.apply(opened.secrets.issuer)?;
        let generated = opened.secrets.proxy.take().filter(|_| !settings.access.accepts_front_proxies());
        let proxy = match (&settings.proxy, generated) {
            (Some(files), _) => {
                let (files, identity) = (files.clone(), files.proxy()?);
                let current = identity.clone();
                opened.tasks.spawn(files.follow(move |chain, key| Ok(current.replace(chain, key)?)));
                Some(identity)
            }
            (None, Some((identity, ca))) => {
                settings.access.accept_front_proxies(ca);
                Some(identity)
            }
            (None, None) => None,
        };
        if let Some(files) = &settings.certificate {
            let identity = files.serving()?;
            opened.secrets.tls = identity.clone();
            opened.tasks.spawn(files.clone().follow(move |chain, key| Ok(identity.replace(chain, key)?)));
        }
        let directory = settings.place.directory().map(Path::to_owned);
        let open = move || ClientAuthority::open(directory.as_deref()).map_err(|error| error.to_string());
        // The key of a configured CA is not known here.
        let authority =
            if settings.access.has_client_ca() { None } else { Some(tokio::task::spawn_blocking(open).await??) };
        if let Some(authority) = &authority {
            opened.secrets.tls = opened.secrets.tls.with_client_ca(authority.pem())?;
        }
        opened.secrets.tls = settings.access.identity(opened.secrets.tls)?;
        Ok(Self { settings, listener, address, console, opened, authority, proxy })
    }

    /// Adds the cluster to a kubeconfig and makes it the current context. Other entries of an existing file are kept.
    pub(crate) fn write_kubeconfig(&self, path: &Path) -> Result<PathBuf, Box<dyn Error>> {
        let Secrets { tls, token, .. } = &self.opened.secrets;
        write_kubeconfig(path, &self.url(), tls.ca_pem(), token)
    }

    /// Returns the server's URL on this machine.
    pub(crate) fn url(&self) -> String {
        format!("https://{}", reachable(self.address))
    }

    /// Returns the console's URL on this machine.
    pub(crate) fn console(&self) -> Option<String> {
        self.console.as_ref().map(|(_, address)| format!("http://{}/", reachable(*address)))
    }

    pub(crate) fn start(self) -> Result<ControlPlane, Box<dyn Error>> {
        let Self { mut settings, listener, address, console, opened, authority, proxy } = self;
        let Opened { storage, secrets, is_shared, encrypted, mut tasks } = opened;
        let Secrets { tls, issuer, token, renewal, .. } = secrets;
        tasks.spawn(renewal.run());
        // Pods require their service account only if the controller that creates it runs.
        let creates_accounts = settings.controllers.contains(BuiltIn::ServiceAccount);
        let accounts = if creates_accounts { PodAccounts::Required } else { PodAccounts::Optional };
        let server = Server::builder()
            .kubernetes(settings.kubernetes)
            .runtime_config(settings.runtime)
            .storage(storage)
            .token(token)
            .token_issuer(issuer)
            .address(address)
            .pod_accounts(accounts)
            .descriptions(descriptions::schemas);
        let server = settings.gates.apply(settings.requests.apply(settings.limits.apply(server)));
        let server = match settings.advertised {
            Some(advertised) => server.advertise_address(advertised),
            None => server,
        };
        let identities = Identities {
            have_roles: settings.access.authorizes_by_roles(),
            have_nodes: settings.access.authorizes_nodes(),
        };
        let server = server.admission(settings.admission).flags(settings.flags);
        let server = settings.access.apply(server);
        let server = match proxy {
            Some(identity) => server.proxy_identity(identity),
            None => server,
        };
        let server = match settings.audit {
            Some(audit) => server.audit(audit),
            None => server,
        };
        let server = match encrypted {
            Some(encrypted) => server.readiness_check("kms-providers", move || {
                let encrypted = Arc::clone(&encrypted);
                async move { Ok(encrypted.check_providers().await?) }
            }),
            None => server,
        };
        let server = match settings.answers {
            Some(answers) => server.containers(answers),
            None => server,
        };
        let server = server.build();
        settings.access.start(&server, &tls, &mut tasks)?;
        let (stop, stopped) = watch::channel(false);
        let ca = tls.ca_pem().to_owned();
        let serving = {
            let (server, stopped) = (server.clone(), wait(stopped.clone()));
            tokio::spawn(async move { server.serve(listener, tls, stopped).await })
        };
        let issuer = server.clone();
        let signer = TokenSigner::new(move |request| {
            let TokenRequest { namespace, account, uid, secret } = request;
            Ok(issuer.issue_legacy_token(namespace, account, uid, secret)?)
        });
        let controllers = settings.controllers.nodes(settings.nodes).root_ca(ca).token_signer(signer);
        let controllers = match &authority {
            Some(authority) => controllers.certificate_signer(authority.signer()),
            None => controllers,
        };
        let acting = server.clone();
        let controllers = controllers.identities(move |identity| Some(identities.client(&acting, identity)));
        let managing = Managing { controllers, console: console.map(|(socket, _)| socket), is_shared };
        let own = if settings.nodes > NODES_BESIDE_REQUESTS { Some(OwnRuntime::new()?) } else { None };
        let runtime = own.as_ref().map_or_else(Handle::current, |own| own.handle.clone());
        let managing = runtime.spawn(managing.run(identities.client(&server, Identity::ControllerManager), stopped));
        Ok(ControlPlane { server, stop, serving, managing, managed: None, _tasks: tasks, runtime: own })
    }
}

impl ControlPlane {
    /// Returns an administrator's client that does not use a socket.
    pub(crate) fn client(&self) -> Client {
        client(&self.server)
    }

    /// Waits until the controllers end, which is not expected. Cancel-safe.
    pub(crate) async fn ended(&mut self) {
        if self.managed.is_none() {
            self.managed = Some((&mut self.managing).await);
        }
    }

    /// Stops the server and the controllers. Returns an error if one of them failed.
    pub(crate) async fn stop(mut self) -> Result<(), Box<dyn Error>> {
        // Both stop at once: the controllers' last writes are in process and don't need the socket.
        self.stop.send_replace(true);
        self.ended().await;
        self.server.stop();
        self.serving.await??;
        drop(self.runtime);
        match self.managed {
            Some(managed) => Ok(managed??),
            None => Ok(()),
        }
    }
}

/// Listens on an address. If it is in use, the error contains the hint `hint`.
pub(crate) async fn listen(address: SocketAddr, hint: &str) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => format!("listening on {address}: the address is in use; {hint}"),
        _ => format!("listening on {address}: {error}"),
    })
}

/// Returns the client of the administrator.
fn client(server: &Server) -> Client {
    client_over(server.service())
}

fn client_over(service: Service) -> Client {
    // The server warns about the deprecated Endpoints, which the controllers write intentionally.
    Client::from_service(service, "default").with_warnings(IgnoreWarnings)
}

impl OwnRuntime {
    fn new() -> io::Result<Self> {
        let runtime = runtime::Builder::new_multi_thread().enable_all().thread_name("controllers").build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        // A task of the server's runtime drops this, and must not wait for threads.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Identities {
    /// Returns the client of a user, or that of the administrator if the user would have no permissions. In this process,
    /// users need no credentials.
    fn client(self, server: &Server, identity: Identity<'_>) -> Client {
        let is_permitted = match identity {
            Identity::Administrator => false,
            Identity::Node(_) => self.have_nodes,
            _ => self.have_roles,
        };
        if !is_permitted {
            return client(server);
        }
        let user = User::new(identity.user()).in_groups(identity.groups().iter().copied());
        client_over(server.service().acting_as(user))
    }
}

impl Managing {
    /// Reports whether this server stands for election. One without controllers would hold the lease for nothing.
    fn is_elected(&self) -> bool {
        self.is_shared && !self.controllers.is_empty()
    }

    /// Runs the selected controllers until `stopped`. On a shared storage, they stop when they cannot renew their lease, for
    /// example because etcd has no majority, and stand for election again: the server must not end.
    async fn run(mut self, client: Client, stopped: watch::Receiver<bool>) -> windlass_runtime::Result<()> {
        let is_elected = self.is_elected();
        loop {
            let mut builder = Manager::builder(client.clone()).caches(InformerOptions::default().budget(CACHE_BUDGET));
            if let Some(listener) = self.console.take() {
                builder = builder.console(listener);
            }
            if is_elected {
                let election = LeaderElection::new(LEASE).namespace("kube-system");
                builder = builder.leader_election(election.release_on_stop());
            }
            let mut manager = builder.build();
            self.controllers.add_to(&mut manager);
            match manager.run(wait(stopped.clone())).await {
                Err(windlass_runtime::Error::LeadershipLost) if is_elected && !*stopped.borrow() => {
                    tracing::warn!("the controllers have lost their lease, and stand for election again");
                }
                ended => return ended,
            }
        }
    }
}

async fn wait(mut stopped: watch::Receiver<bool>) {
    // A dropped sender also means stop.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Returns the names for the certificate: all names that a client on this machine or in the cluster may use for the
/// server.
fn names(bound: IpAddr) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), Ipv4Addr::LOCALHOST.to_string(), Ipv6Addr::LOCALHOST.to_string()];
    names.extend(["kubernetes", "kubernetes.default", "kubernetes.default.svc"].map(str::to_owned));
    if !bound.is_unspecified() && !bound.is_loopback() {
        names.push(bound.to_string());
    }
    names
}

fn token() -> String {
    let entropy = Entropy::os();
    format!("{:016x}{:016x}", entropy.next_u64(), entropy.next_u64())
}

/// Returns an address at which this machine can reach a listening socket.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn write_kubeconfig(path: &Path, url: &str, ca: &str, token: &str) -> Result<PathBuf, Box<dyn Error>> {
    KubeconfigFiles::new([path]).edit(|kubeconfig| {
        *kubeconfig.cluster_mut(NAME) = Cluster::new(url).trusting(ca);
        *kubeconfig.user_mut(NAME) = Credentials::with_token(token);
        let named = || Some(NAME.to_owned());
        *kubeconfig.context_mut(NAME) = Context { cluster: named(), user: named(), ..Context::default() };
        kubeconfig.use_context(NAME)
    })?;
    Ok(fs::canonicalize(path)?)
}

/// The timeout for a response of a server on this machine.
const ANSWER: Duration = Duration::from_secs(1);

/// Warns if the kubeconfig refers to a running control plane, which will be replaced.
pub(crate) async fn warn_if_replaced(path: &Path, own: &str) {
    if let Some(url) = answering(path, own).await {
        tracing::warn!(
            "{}: replaces the running control plane at {url}; set another file with --kubeconfig",
            path.display()
        );
    }
}

/// Returns the URL of a kubeconfig's control plane if it responds to the credentials in the file. `own` is the URL of this
/// process, which cannot be that of another one.
async fn answering(path: &Path, own: &str) -> Option<String> {
    // A file that cannot be read is reported when it is written.
    let kubeconfig = Kubeconfig::read(path).ok()?;
    let selection = Selection { context: Some(NAME.to_owned()), ..Selection::default() };
    let config = Config::from_kubeconfig(&kubeconfig, &selection).ok()?;
    let url = config.server.to_string();
    if url.trim_end_matches('/') == own {
        return None;
    }
    let client = Client::new(config).ok()?;
    tokio::time::timeout(ANSWER, client.server_version()).await.ok()?.ok()?;
    Some(url)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;

    use super::*;

    #[test]
    fn server_without_controllers_does_not_stand_for_election() {
        let is_elected = |controllers: &str, is_shared| {
            Managing { controllers: controllers.parse().unwrap(), console: None, is_shared }.is_elected()
        };
        assert_eq!([is_elected("*", true), is_elected("none", true), is_elected("*", false)], [true, false, false]);
    }

    #[test]
    fn wildcard_address_is_reached_through_loopback() {
        let reached = |address: &str| reachable(address.parse().unwrap()).to_string();
        assert_eq!(
            [reached("0.0.0.0:7000"), reached("[::]:7000"), reached("10.1.2.3:7000")],
            ["127.0.0.1:7000", "[::1]:7000", "10.1.2.3:7000"]
        );
    }

    #[tokio::test]
    async fn address_in_use_error_names_the_remedy() {
        let taken = listen((Ipv4Addr::LOCALHOST, 0).into(), "").await.unwrap();
        let address = taken.local_addr().unwrap();
        let error = listen(address, "--port names another").await.unwrap_err();
        assert_eq!(error, format!("listening on {address}: the address is in use; --port names another"));
    }

    fn settings(controllers: &str, nodes: usize) -> Settings {
        Settings {
            kubernetes: KubernetesVersion::default(),
            bind: (Ipv4Addr::LOCALHOST, 0).into(),
            advertised: None,
            nodes,
            controllers: controllers.parse().unwrap(),
            answers: None,
            console: None,
            access: Access::default(),
            proxy: None,
            certificate: None,
            flags: BTreeMap::new(),
            admission: AdmissionConfiguration::default(),
            audit: None,
            tokens: TokenKeys::default(),
            limits: TimeLimits::default(),
            requests: RequestLimits::default(),
            gates: FeatureGates::default(),
            runtime: RuntimeConfig::default(),
            place: Place::Memory { history: Duration::from_mins(5) },
            encryption: None,
            hint: "",
        }
    }

    #[tokio::test]
    async fn controllers_of_many_nodes_have_their_own_runtime_until_the_end() {
        for (nodes, has_own) in [(NODES_BESIDE_REQUESTS, false), (NODES_BESIDE_REQUESTS + 1, true)] {
            let plane = Bound::bind(settings("nodes", nodes)).await.unwrap().start().unwrap();
            assert_eq!(plane.runtime.is_some(), has_own);
            let created = tokio::time::timeout(Duration::from_mins(1), async {
                while plane.client().list::<Node>().await.unwrap().items.len() < nodes {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
            created.await.expect("all nodes are created within a minute");
            plane.stop().await.unwrap();
        }
    }

    #[tokio::test]
    async fn removed_api_versions_are_served_on_request() {
        let runtime: RuntimeConfig = "policy/v1beta1=true".parse().unwrap();
        for (runtime, is_served) in [(runtime, true), (RuntimeConfig::default(), false)] {
            let settings = Settings { runtime, ..settings("none", 0) };
            let plane = Bound::bind(settings).await.unwrap().start().unwrap();
            let discovery = plane.client().discovery().await.unwrap();
            assert_eq!(discovery.supports(&"policy/v1beta1".parse().unwrap()), is_served);
            plane.stop().await.unwrap();
        }
    }

    #[tokio::test]
    async fn kubeconfig_of_running_control_plane_is_detected() {
        let directory = std::env::temp_dir().join(format!("windlass-up-{}", Entropy::os().uuid()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("config");
        assert_eq!(answering(&path, "").await, None);
        let bound = Bound::bind(settings("none", 0)).await.unwrap();
        let url = bound.url();
        bound.write_kubeconfig(&path).unwrap();
        let plane = bound.start().unwrap();
        assert_eq!(answering(&path, &url).await, None, "its own address");
        assert_eq!(answering(&path, "").await.map(|found| found.trim_end_matches('/').to_owned()), Some(url));
        plane.stop().await.unwrap();
        assert_eq!(answering(&path, "").await, None);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn other_clusters_in_the_kubeconfig_survive() {
        let directory = std::env::temp_dir().join(format!("windlass-up-{}", Entropy::os().uuid()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("config");
        Kubeconfig::single("prod", Cluster::new("https://prod"), Credentials::with_token("x")).write(&path).unwrap();
        write_kubeconfig(&path, "https://127.0.0.1:7000", "CA", "new").unwrap();
        write_kubeconfig(&path, "https://127.0.0.1:7001", "CA", "newer").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("https://prod") && text.contains("current-context: windlass"), "{text}");
        assert!(text.contains("https://127.0.0.1:7001") && !text.contains("7000"), "{text}");
        fs::write(&path, "not: [a kubeconfig").unwrap();
        let error = write_kubeconfig(&path, "https://127.0.0.1:1", "CA", "x").unwrap_err().to_string();
        assert!(error.contains("config"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "not: [a kubeconfig", "what cannot be read is not overwritten");
        fs::remove_dir_all(directory).unwrap();
    }
}
