//! The cluster of one run: server, controllers, gateway and observer, all in this process.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use serde_json::Value;
use tokio::{
    net::TcpListener,
    sync::{Notify, mpsc},
    task::JoinHandle,
    time::{self, Duration, Instant},
};
use windlass_api::k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use windlass_client::{Client, Kubeconfig, kubeconfig, wait};
use windlass_controllers::{BuiltIn, Controllers, PodAnswers};
use windlass_serve::{HttpServer, Protocols};
use windlass_server::{RuntimeConfig, TlsIdentity};

use crate::{
    Plan,
    error::{Error, Result},
    gateway::{Entrance, Gateway},
    history::History,
    patterns::Patterns,
    record::{Change, Injection, ObjectName, Request},
};

mod control_plane;
mod definitions;
#[cfg(test)]
pub(crate) mod fixture;
mod observer;
mod pod;

use self::{control_plane::ControlPlane, observer::Observer};
pub(crate) use self::{definitions::establish, pod::PodName};
pub(crate) use crate::injection::Command;

/// The time limit for the controllers to create their first objects.
const START: Duration = Duration::from_secs(30);

/// The namespaces of a new cluster. The controller of ServiceAccounts creates a ServiceAccount and a ConfigMap in each.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The time without changes after which the controllers have created their first objects.
const START_QUIET: Duration = Duration::from_millis(300);

/// The options of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterOptions {
    /// The built-in controllers of the cluster.
    pub(crate) controllers: Controllers,
    /// The number of simulated nodes.
    pub(crate) nodes: usize,
    /// CustomResourceDefinitions to install before the program starts.
    pub(crate) crds: Vec<Value>,
    /// The removed API versions that the server serves.
    pub(crate) runtime: RuntimeConfig,
    /// The pod that represents the program.
    pub(crate) pod: Option<PodName>,
    /// The answers for simulated pods. `None` if their kubelets are unreachable.
    pub(crate) answers: Option<PodAnswers>,
    /// The resources that the program watches once it has started, if known.
    pub(crate) watched: Option<BTreeSet<String>>,
    /// The patterns of names that the program generates.
    pub(crate) patterns: Arc<Patterns>,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            controllers: Controllers::all(),
            nodes: 0,
            crds: Vec::new(),
            runtime: RuntimeConfig::default(),
            pod: None,
            answers: None,
            watched: None,
            patterns: Arc::default(),
        }
    }
}

/// The access of a process of the program.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux has isolated programs"))]
pub(crate) struct Access {
    /// The port of the gateway at 127.0.0.1.
    pub(crate) port: u16,
    pub(crate) kubeconfig: String,
    pub(crate) token: String,
    /// The certificate authority of the gateway, as PEM.
    pub(crate) ca: String,
}

/// A running cluster and its gateway.
pub(crate) struct Cluster {
    /// `None` once it was stopped.
    control_plane: Option<ControlPlane>,
    client: Client,
    /// The address of the gateway.
    address: SocketAddr,
    /// The certificate authority of the gateway, as PEM.
    ca: String,
    /// The server of the gateway.
    http: HttpServer,
    gateway: Arc<Gateway>,
    history: Arc<History>,
    observer: Observer,
    activity: Arc<Notify>,
    serving: JoinHandle<usize>,
}

/// The state that decides when the cluster has settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a reason to wait, except for the gap")]
pub(crate) struct Activity {
    /// The time of the last change of any object except events and leases.
    pub(crate) last_change: Instant,
    /// The number of requests of running processes that have no response yet, without watches.
    pub(crate) in_flight: usize,
    /// The number of watch events that wait for a process of the program to read them. Held events are not counted.
    pub(crate) undelivered: usize,
    /// `true` if [`Cluster::release`] would deliver held events or end a rewound view.
    pub(crate) is_holding: bool,
    /// `true` if that is only a gap that ends in a later step.
    pub(crate) is_gap_beyond_step: bool,
    /// `true` while a write is delayed, a process that a fault ended is not replaced yet, or the last process has sent no
    /// request yet. A process that sends none within ten seconds does not count.
    pub(crate) is_striking: bool,
    /// `true` while the newest process has sent no request, or does not watch everything that is expected.
    pub(crate) is_starting: bool,
}

/// Everything that was observed in a run.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) changes: Vec<Change>,
    pub(crate) requests: Vec<Request>,
    pub(crate) injections: Vec<Injection>,
    /// The objects at the end.
    pub(crate) end: BTreeMap<ObjectName, Arc<Value>>,
    /// The revision at the beginning of each step.
    pub(crate) revision_of_step: Vec<u64>,
    /// The number of requests beyond the maximum. They are missing in `requests`.
    pub(crate) unrecorded_requests: usize,
}

impl Cluster {
    /// Starts a cluster with the faults of a plan. All CRDs are established when it returns.
    pub(crate) async fn start(
        options: &ClusterOptions,
        plan: &Plan,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Command>)> {
        let failed = |what: &str, error: &dyn fmt::Display| Error::Cluster(format!("{what}: {error}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(|error| failed("listening", &error))?;
        let address = listener.local_addr().map_err(|error| failed("listening", &error))?;
        let tls = TlsIdentity::generate([address.ip().to_string()]);
        let tls = tls.map_err(|error| failed("creating a certificate", &error))?;
        let mut control_plane = ControlPlane::new(address, options.runtime.clone(), options.answers.clone());
        let server = &control_plane.server;
        server.start().await.map_err(|error| failed("starting the server", &error))?;
        let activity = Arc::<Notify>::default();
        let history = Arc::new(History::new(Instant::now(), Arc::clone(&activity), Arc::clone(&options.patterns)));
        let (commands, received) = mpsc::unbounded_channel();
        let gateway = Gateway::new(server, plan, Arc::clone(&history), commands, Arc::clone(&activity));
        let gateway = Arc::new(gateway.expecting(options.watched.clone()));
        let client = control_plane.client.clone();
        let observer = Observer::start(&client, server.service(), Arc::clone(&history), Arc::clone(&gateway)).await?;
        control_plane.start_controllers(&options.controllers, options.nodes, tls.ca_pem());
        let entrance = Entrance(Arc::clone(&gateway));
        let http = HttpServer::new().protocols(Protocols::Http1).tls(tls.config()).grace_period(Duration::ZERO);
        let serving = tokio::spawn(http.clone().serve(listener, entrance, std::future::pending()));
        let (control_plane, ca) = (Some(control_plane), tls.ca_pem().to_owned());
        let cluster = Self { control_plane, client, address, ca, http, gateway, history, observer, activity, serving };
        for crd in &options.crds {
            definitions::establish(&cluster.client, crd).await?;
        }
        if let Some(pod) = &options.pod {
            pod::create(&cluster.client, pod).await?;
        }
        if options.controllers.contains(BuiltIn::ServiceAccount) {
            cluster.has_accounts().await?;
        }
        cluster.started_up().await;
        cluster.history.begin(cluster.gateway.revision().await);
        Ok((cluster, received))
    }

    /// Waits until each namespace has the objects of the controller of ServiceAccounts.
    async fn has_accounts(&self) -> Result<()> {
        let failed = |error: &dyn fmt::Display| Error::Cluster(format!("starting the controllers: {error}"));
        for namespace in NAMESPACES {
            let account = self.client.wait_for::<ServiceAccount>("default").within(namespace).timeout(START);
            account.until(wait::exists()).await.map_err(|error| failed(&error))?;
            let authorities = self.client.wait_for::<ConfigMap>("kube-root-ca.crt").within(namespace).timeout(START);
            authorities.until(wait::exists()).await.map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    /// Waits until the controllers have created their first objects.
    async fn started_up(&self) {
        let begun = Instant::now();
        while self.history.last_change().elapsed() < START_QUIET && begun.elapsed() < START {
            time::sleep_until(self.history.last_change() + START_QUIET).await;
        }
    }

    /// Returns the administrator's client. It does not use the gateway.
    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the resources that the server has, with their groups.
    pub(crate) async fn resources(&self) -> Result<BTreeSet<String>> {
        let discovery = self.client.discovery().await.map_err(|error| Error::Cluster(format!("discovery: {error}")))?;
        Ok(discovery.resources().map(|found| found.resource.group_resource().to_string()).collect())
    }

    /// Returns the access of a process of the program.
    pub(crate) fn access(&self, process: usize) -> Access {
        let token = self.gateway.admit(process);
        let kubeconfig = self.kubeconfig_with(token.clone());
        Access { port: self.address.port(), kubeconfig, token, ca: self.ca.clone() }
    }

    /// Serves the gateway at another listener, too.
    pub(crate) fn serve(&self, listener: TcpListener) -> impl Future<Output = usize> + Send + use<> {
        self.http.clone().serve(listener, Entrance(Arc::clone(&self.gateway)), std::future::pending())
    }

    /// Returns the administrator's kubeconfig, for the executables of steps. Their requests are not recorded.
    pub(crate) fn admin_kubeconfig(&self) -> String {
        self.kubeconfig_with(self.gateway.administrator_token())
    }

    fn kubeconfig_with(&self, token: String) -> String {
        let cluster = kubeconfig::Cluster::new(format!("https://{}", self.address)).trusting(&self.ca);
        Kubeconfig::single("explore", cluster, kubeconfig::User::with_token(token)).to_yaml()
    }

    /// Returns the time from which the times of all records count.
    pub(crate) fn started(&self) -> Instant {
        self.history.started()
    }

    /// Closes the gateway to a process: none of its requests is answered any more.
    pub(crate) fn close(&self, process: usize) {
        self.gateway.close(process);
    }

    /// Begins the view of an injected rewind. Called after the process was killed, and before the next one starts.
    pub(crate) fn rewind(&self) {
        self.gateway.rewind();
    }

    /// Begins a step: later changes and requests belong to it.
    pub(crate) fn begin_step(&self, step: usize) {
        self.history.begin_step(step, self.history.latest_revision());
    }

    /// Returns the state that decides when the cluster has settled.
    pub(crate) fn activity(&self) -> Activity {
        let (in_flight, undelivered) = self.gateway.counts();
        Activity {
            last_change: self.history.last_change(),
            in_flight,
            undelivered,
            is_holding: self.gateway.is_holding(),
            is_gap_beyond_step: self.gateway.is_gap_beyond_step(),
            is_striking: self.gateway.is_striking(),
            is_starting: self.gateway.is_starting(),
        }
    }

    /// Returns the resources that the program watches: those that all of its processes have watched.
    pub(crate) fn watched(&self) -> BTreeSet<String> {
        self.gateway.watched()
    }

    /// Waits until the activity may have changed since the last call. Only one task may wait.
    pub(crate) async fn changed(&self) {
        self.activity.notified().await;
    }

    /// Reports whether a fault struck in a step.
    pub(crate) fn has_fault_struck_in(&self, step: usize) -> bool {
        self.gateway.injections().have_struck_in(step)
    }

    /// Opens held gates and ends a rewound view.
    pub(crate) fn release(&self) {
        self.gateway.release();
    }

    /// Stops everything and returns the observations.
    pub(crate) async fn finish(mut self) -> Observed {
        self.observer.clone().stop().await;
        self.serving.abort();
        let entries = self.history.take();
        if let Some(control_plane) = self.control_plane.take() {
            control_plane.stop().await;
        }
        Observed {
            changes: entries.changes,
            requests: entries.requests,
            injections: self.gateway.injections().take(),
            end: entries.objects,
            revision_of_step: entries.revision_of_step,
            unrecorded_requests: entries.unrecorded_requests,
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.observer.abort();
        self.serving.abort();
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("address", &self.address)
            .field("gateway", &self.gateway)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
