//! The environment: a cluster for one test.

use std::{fmt, future::Future, net::SocketAddr, panic::Location, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::{JoinHandle, JoinSet},
};
use windlass_api::{Clock, Entropy, ObjectRef, Resource};
use windlass_client::{Client, Config, Transport};
use windlass_runtime::{Manager, ManagerBuilder};
use windlass_server::Server;

use crate::{
    Error, Expectations, Interception, Recorder, RequestMatcher,
    wire::{Interceptors, Wire},
};

/// The default namespace of objects.
pub(crate) const NAMESPACE: &str = "default";

/// A cluster for one test: see the [crate].
///
/// When dropped, it stops everything without waiting. [`Self::stop`] waits, and returns the first error.
#[must_use = "the environment stops when dropped"]
pub struct Environment {
    pub(crate) place: Place,
    transport: Transport,
    interceptors: Arc<Interceptors>,
    clock: Clock,
    pub(crate) entropy: Entropy,
    patience: Duration,
    /// Becomes `true` when the test is over.
    stopping: watch::Sender<bool>,
    /// Managers and other tasks that must end before the server does.
    running: Mutex<JoinSet<Result<(), Error>>>,
    /// The conversion webhook of the installed kinds.
    #[cfg(feature = "webhook")]
    pub(crate) converter: Mutex<Option<ConversionWebhook>>,
}

/// The location of the API server.
pub(crate) enum Place {
    Own {
        server: Server,
        socket: Option<Socket>,
    },
    /// An existing cluster.
    Existing(Box<Config>),
}

/// The address and the certificate authority of the conversion webhook.
#[cfg(feature = "webhook")]
pub(crate) struct ConversionWebhook {
    pub(crate) address: SocketAddr,
    /// The certificate authority, as base64.
    pub(crate) bundle: String,
}

/// The server on a port.
pub(crate) struct Socket {
    pub(crate) address: SocketAddr,
    /// The certificate authority of its certificate, as PEM.
    pub(crate) ca: Arc<str>,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Environment {
    pub(crate) fn new(place: Place, transport: Transport, clock: Clock, entropy: Entropy, patience: Duration) -> Self {
        let (interceptors, stopping) = (Arc::default(), watch::Sender::new(false));
        Self {
            place,
            transport,
            interceptors,
            clock,
            entropy,
            patience,
            stopping,
            running: Mutex::default(),
            #[cfg(feature = "webhook")]
            converter: Mutex::default(),
        }
    }

    /// Returns the administrator's client. [Faults](Self::on) and [recorders](Self::record) of the environment apply to
    /// its requests, and to those of all clients derived from it.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client_over(self.transport.clone())
    }

    pub(crate) fn client_over(&self, transport: Transport) -> Client {
        Self::client_of(Wire::new(transport, self.interceptors.clone()))
    }

    /// Returns the administrator's transport.
    pub(crate) fn wire(&self) -> Wire {
        Wire::new(self.transport.clone(), self.interceptors.clone())
    }

    pub(crate) fn client_of(wire: Wire) -> Client {
        Client::from_service(wire, NAMESPACE)
    }

    /// Returns a transport without faults and recorders.
    #[cfg(feature = "explore")]
    pub(crate) fn transport(&self) -> Transport {
        self.transport.clone()
    }

    /// Returns a manager with the administrator's client, and the environment's clock and randomness.
    pub fn manager(&self) -> Manager {
        self.manager_builder().build()
    }

    /// Returns a builder for such a manager.
    pub fn manager_builder(&self) -> ManagerBuilder {
        Manager::builder(self.client()).clock(self.clock.clone()).entropy(self.entropy.clone())
    }

    /// Returns a manager with another client, such as that of [`Permissions`](crate::Permissions).
    pub fn manager_of(&self, client: Client) -> Manager {
        Manager::builder(client).clock(self.clock.clone()).entropy(self.entropy.clone()).build()
    }

    /// Runs a manager until the environment is stopped. [`Self::stop`] returns its error, if any.
    ///
    /// # Panics
    /// Panics if called outside of a tokio runtime.
    pub fn run(&self, manager: Manager) {
        let stopped = self.stopped();
        self.spawn(async move { manager.run(stopped).await.map_err(|error| Error::Manager(error.into())) });
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = Result<(), Error>> + Send + 'static) {
        self.running.lock().spawn(task);
    }

    /// Resolves when the environment is stopped or dropped, for managers and other tasks that the test runs itself.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopping = self.stopping.subscribe();
        // A dropped sender means the same as `true`.
        async move { drop(stopping.wait_for(|stopping| *stopping).await) }
    }

    /// Returns the server in this process, or `None` if the environment uses an existing cluster.
    #[must_use]
    pub const fn server(&self) -> Option<&Server> {
        match &self.place {
            Place::Own { server, .. } => Some(server),
            Place::Existing(_) => None,
        }
    }

    /// Returns the wall clock of the server and the managers.
    #[must_use]
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the timeout of waits.
    pub(crate) const fn patience(&self) -> Duration {
        self.patience
    }

    // === faults and recorders ===

    /// Selects requests of the environment's clients for a fault.
    ///
    /// ```
    /// # use windlass_api::{ObjectBuilder, Status, k8s_openapi::api::core::v1::ConfigMap};
    /// # use windlass_envtest::{Environment, RequestMatcher};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?.block_on(async {
    /// let env = Environment::start().await;
    /// let fault = env.on(RequestMatcher::writes().of::<ConfigMap>()).once().fail(Status::internal("not today"));
    /// let config = ConfigMap::named("colors");
    /// assert!(env.client().create(&config).await.is_err());
    /// assert!(env.client().create(&config).await.is_ok());
    /// assert_eq!(fault.hits(), 1);
    /// # });
    /// # Ok::<_, std::io::Error>(())
    /// ```
    pub fn on(&self, requests: RequestMatcher) -> Interception {
        Interception::new(self.interceptors.rules.clone(), requests)
    }

    /// Records matching requests of the environment's clients, from now on.
    pub fn record(&self, requests: RequestMatcher) -> Recorder {
        Recorder::new(self.interceptors.logs.clone(), requests)
    }

    // === waiting ===

    /// Returns expectations with the administrator's client and the environment's timeout.
    pub fn expect(&self) -> Expectations {
        Expectations::of(self.client()).patience(self.patience)
    }

    /// Waits until an object exists and the condition holds for it, and returns the object.
    ///
    /// # Panics
    /// Panics with the last state of the object if the timeout expires.
    #[track_caller]
    pub fn eventually<K: Resource>(
        &self,
        key: impl Into<ObjectRef<K>>,
        condition: impl FnMut(&K) -> bool + Send,
    ) -> impl Future<Output = K> + Send {
        self.expect().object_at(Location::caller(), key.into(), condition)
    }

    /// Waits until an object does not exist.
    ///
    /// # Panics
    /// Panics with the last state of the object if the timeout expires.
    #[track_caller]
    pub fn eventually_gone<K: Resource>(&self, key: impl Into<ObjectRef<K>>) -> impl Future<Output = ()> + Send {
        self.expect().gone_at(Location::caller(), key.into())
    }

    /// Waits until a condition holds for the list of all objects of a kind, in all namespaces, and returns them.
    ///
    /// # Panics
    /// Panics with the last state of all objects if the timeout expires.
    #[track_caller]
    pub fn eventually_all<K: Resource>(
        &self,
        condition: impl FnMut(&[K]) -> bool + Send,
    ) -> impl Future<Output = Vec<K>> + Send {
        self.expect().all_at(Location::caller(), condition)
    }

    // === shutdown ===

    /// Stops managers and webhooks, then the server, and waits for them.
    ///
    /// # Errors
    /// Returns the first error of a manager.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.stopping.send_replace(true);
        let mut outcome = Ok(());
        let mut running = std::mem::take(self.running.get_mut());
        while let Some(ended) = running.join_next().await {
            let ended = ended.unwrap_or_else(|panicked| Err(Error::Manager(panicked.into())));
            outcome = outcome.and(ended);
        }
        if let Place::Own { server, socket } = &mut self.place {
            server.stop();
            if let Some(socket) = socket {
                socket.stop.send_replace(true);
                // Awaited, because dropping the socket would abort it.
                let _ = (&mut socket.serving).await;
            }
        }
        outcome
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        self.stopping.send_replace(true);
        if let Place::Own { server, .. } = &self.place {
            server.stop();
        }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cluster = match &self.place {
            Place::Own { socket: None, .. } => "in process".to_owned(),
            Place::Own { socket: Some(socket), .. } => socket.address.to_string(),
            Place::Existing(config) => config.server.to_string(),
        };
        f.debug_struct("Environment")
            .field("cluster", &cluster)
            .field("interceptors", &self.interceptors)
            .finish_non_exhaustive()
    }
}

impl Socket {
    pub(crate) fn new(
        address: SocketAddr,
        ca: Arc<str>,
        serve: impl FnOnce(BoxFuture<'static, ()>) -> BoxFuture<'static, ()>,
    ) -> Self {
        let (stop, mut stopping) = watch::channel(false);
        let stopped = Box::pin(async move { drop(stopping.wait_for(|stopping| *stopping).await) });
        Self { address, ca, stop, serving: tokio::spawn(serve(stopped)) }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
