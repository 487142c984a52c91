//! The configuration of a client: the server's address, credentials and TLS.
//!
//! [`Config::infer`] searches the same locations as other Kubernetes clients: the files of `$KUBECONFIG`, else
//! `~/.kube/config`, else the service account of the pod that runs the program. Errors name the file, the entry and the
//! field.
//!
//! Kubeconfigs are read once, when the configuration is created. The certificate, key and token files that they refer
//! to are read again while a client runs.

mod in_cluster;
mod infer;
mod resolve;

use std::{path::Path, time::Duration};

use http::Uri;
use windlass_api::Clock;

use crate::{
    auth::{Auth, Impersonation, PluginPolicy},
    credentials::{Authenticated, SharedCredentials},
    environment::Environment,
    metrics::{MetricsRecorder, TransportMetrics},
    transport::{self, CONNECT_TIMEOUT, Closing, ConnectionKey, Connections, Transport},
    user_agent,
};
pub use crate::{
    config_error::{ConfigError, Place},
    connection_options::{
        CipherSuite, Dialer, Identity, LiveIdentity, Pem, Protocols, Proxy, ProxyError, ProxyServer, TlsOptions,
        TlsVersion, Verification,
    },
    kubeconfig::{Kubeconfig, KubeconfigFiles, Selection},
};

/// The default namespace if none is configured.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// The configuration of a client.
///
/// Clients of a configuration and its clones share connections if their server, proxy, dialer and TLS options are
/// equal. They also share the credentials of plugins. To create clients for several users of one server, clone the
/// configuration.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The server's address. A path in it is prepended to the path of each request.
    pub server: Uri,
    /// The namespace of requests for namespaced objects that name none.
    pub default_namespace: String,
    /// The credentials.
    pub auth: Auth,
    /// The user to impersonate, if any.
    pub impersonation: Option<Impersonation>,
    /// The TLS options for an `https` server.
    pub tls: TlsOptions,
    /// The proxy.
    pub proxy: Proxy,
    /// The function that opens connections; `None` for TCP.
    pub dialer: Option<Dialer>,
    /// The compression of responses.
    pub compression: Compression,
    /// The encoding of requests and responses. Defaults to protobuf for built-in kinds.
    pub content_type: ContentType,
    /// The time limit for opening a connection, including TLS.
    pub connect_timeout: Duration,
    /// The `User-Agent` header. The server uses its part before the first slash as the default field manager.
    pub user_agent: String,
    /// The clock that determines whether credentials have expired.
    pub clock: Clock,
    /// The recorder of connection metrics.
    recorder: MetricsRecorder,
    /// The connections, shared by the clients of this configuration and its clones.
    connections: Connections,
    /// The renewable credentials, shared in the same way.
    credentials: SharedCredentials,
}

/// Compression of responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// The server may compress responses with gzip. Requires the feature `gzip`; without it, the same as [`Self::Off`].
    #[default]
    Offered,
    /// Responses are not compressed: `disable-compression`.
    Off,
}

/// The encoding of objects in requests and responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContentType {
    /// JSON.
    Json,
    /// Protobuf (`application/vnd.kubernetes.protobuf`) for the built-in kinds, JSON for custom resources. The default of
    /// a [`Config`].
    ///
    /// Servers answer in JSON if they have no protobuf. If a server rejects the encoding of a request (406 or 415), the
    /// request is sent again in JSON, and so are later requests for its resource.
    ///
    /// Metadata of any kind is requested in protobuf. Patches and deletions are sent in JSON. Dynamic objects are sent and
    /// requested in JSON: they keep fields that are newer than this library, which protobuf has no names for. Raw requests
    /// are not changed.
    #[default]
    Protobuf,
    /// CBOR (`application/cbor`) for all kinds, as in client-go with the feature gates `ClientsAllowCBOR` and
    /// `ClientsPreferCBOR`. kube-apiserver has it behind the feature gate `CBORServingAndStorage`.
    ///
    /// Gets, lists, watches, metadata, and the bodies of creates, updates and applies are CBOR; other patches and deletions
    /// are sent in JSON. Fallbacks are those of [`Protobuf`](Self::Protobuf).
    ///
    /// Responses are converted to JSON while they arrive, so caches contain JSON.
    Cbor,
    /// Protobuf for the built-in kinds and for metadata, CBOR for custom resources.
    ProtobufAndCbor,
}

impl Config {
    /// Creates a configuration for a server, without credentials and with the namespace `default`.
    #[must_use]
    pub fn new(server: Uri) -> Self {
        Self {
            server,
            default_namespace: DEFAULT_NAMESPACE.to_owned(),
            auth: Auth::None,
            impersonation: None,
            tls: TlsOptions::default(),
            proxy: Proxy::default(),
            dialer: None,
            compression: Compression::default(),
            content_type: ContentType::default(),
            connect_timeout: CONNECT_TIMEOUT,
            user_agent: user_agent::of_this_program(),
            clock: Clock::system(),
            recorder: MetricsRecorder::default(),
            connections: Connections::default(),
            credentials: SharedCredentials::default(),
        }
    }

    /// Infers the configuration from the environment: `$KUBECONFIG`, else `~/.kube/config`, else the pod's service
    /// account.
    pub fn infer() -> Result<Self, ConfigError> {
        Self::infer_with(&Selection::default())
    }

    /// Like [`Self::infer`]. The values in `selection` override those of the kubeconfig.
    pub fn infer_with(selection: &Selection) -> Result<Self, ConfigError> {
        infer::infer(&Environment::of_the_process(), selection)
    }

    /// Creates a configuration from the current context of a kubeconfig file.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        Self::from_kubeconfig(&Kubeconfig::read(path)?, &Selection::default())
    }

    /// Creates a configuration from a context of a kubeconfig: the one named in `selection`, or else the current one.
    pub fn from_kubeconfig(kubeconfig: &Kubeconfig, selection: &Selection) -> Result<Self, ConfigError> {
        resolve::resolve(kubeconfig, selection)
    }

    /// Creates a configuration from the service account of the pod that runs this program.
    pub fn in_cluster() -> Result<Self, ConfigError> {
        in_cluster::load(&Environment::of_the_process())
    }

    /// Returns the transport to the server as a service, with credentials, proxy, TLS and connections. Other `tower`
    /// layers can be added before creating a client from it.
    ///
    /// ```no_run
    /// # fn example() -> Result<(), windlass_client::ConfigError> {
    /// use tower::ServiceExt as _;
    /// use windlass_client::{Body, Client, Config};
    ///
    /// let config = Config::infer()?;
    /// let traced = config.connect()?.map_request(|request: http::Request<Body>| {
    ///     println!("{} {}", request.method(), request.uri());
    ///     request
    /// });
    /// let client = Client::from_service(traced, config.default_namespace);
    /// # drop(client);
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect(&self) -> Result<Transport, ConfigError> {
        let credentials = self.credentials.get(&self.auth, &self.clock, &self.recorder)?;
        let key = ConnectionKey {
            server: self.server.clone(),
            tls: self.tls.clone(),
            proxy: self.proxy.clone(),
            dialer: self.dialer.clone(),
            timeout: self.connect_timeout,
            plugin_identity: credentials.live_identity().cloned(),
        };
        let server = transport::connect(key, &self.connections, &self.recorder)?;
        Ok(transport::erase(Authenticated::new(server, credentials, self.impersonation.as_ref())?))
    }

    /// Returns this configuration with other credentials.
    #[must_use]
    pub fn with_auth(mut self, auth: Auth) -> Self {
        self.auth = auth;
        self
    }

    /// Returns this configuration with impersonation.
    #[must_use]
    pub fn with_impersonation(mut self, impersonation: Impersonation) -> Self {
        self.impersonation = Some(impersonation);
        self
    }

    /// Returns this configuration with a policy that decides which credential plugins may run.
    #[must_use]
    pub fn with_plugin_policy(mut self, policy: PluginPolicy) -> Self {
        if let Auth::Exec(plugin) = &mut self.auth {
            plugin.policy = policy;
        }
        self
    }

    /// Returns this configuration with another proxy, or none.
    #[must_use]
    pub fn with_proxy(mut self, proxy: Proxy) -> Self {
        self.proxy = proxy;
        self
    }

    /// Returns this configuration with a custom function for opening connections.
    #[must_use]
    pub fn with_dialer(mut self, dialer: Dialer) -> Self {
        self.dialer = Some(dialer);
        self
    }

    /// Returns this configuration with other TLS options.
    #[must_use]
    pub fn with_tls(mut self, tls: TlsOptions) -> Self {
        self.tls = tls;
        self
    }

    /// Returns this configuration with another namespace for requests that name none.
    #[must_use]
    pub fn with_default_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.default_namespace = namespace.into();
        self
    }

    /// Returns this configuration with another `User-Agent` header.
    #[must_use]
    pub fn with_user_agent(mut self, user_agent: impl Into<String>) -> Self {
        self.user_agent = user_agent.into();
        self
    }

    /// Returns this configuration with another encoding of objects. Defaults to [`ContentType::Protobuf`].
    #[must_use]
    pub fn with_content_type(mut self, content_type: ContentType) -> Self {
        self.content_type = content_type;
        self
    }

    /// Returns this configuration with a recorder of connection metrics.
    #[must_use]
    pub fn with_metrics(mut self, metrics: impl TransportMetrics) -> Self {
        self.recorder = MetricsRecorder::new(metrics);
        self
    }

    /// Closes the connections of all clients of this configuration and its clones. Later requests open new connections.
    pub fn close_connections(&self, which: Closing) {
        self.connections.close(which);
    }
}

#[cfg(test)]
mod tests;
