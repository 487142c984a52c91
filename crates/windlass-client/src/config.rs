//! Where the server is, and who is calling.
//!
//! [`Config::infer`] looks where Kubernetes clients look: the files of `$KUBECONFIG`, else `~/.kube/config`, else the
//! service account of the pod that the program runs in. Errors name the file, the entry in it and the field.
//!
//! Kubeconfigs are read once, when the configuration is made. The files that they name, of certificates, keys and tokens,
//! are read again while a client runs.

mod dialer;
mod error;
mod in_cluster;
mod infer;
pub mod kubeconfig;
mod live;
mod proxy;
mod tls;

use std::{path::Path, time::Duration};

use http::Uri;
use windlass_api::Clock;

pub use dialer::Dialer;
pub(crate) use dialer::Wire;
pub use error::{ConfigError, Place};
pub use kubeconfig::{Kubeconfig, KubeconfigFiles, Selection};
pub use live::LiveIdentity;
pub(crate) use proxy::ProxyProtocol;
pub use proxy::{Proxy, ProxyError, ProxyServer};
pub use tls::{CipherSuite, Identity, Pem, Protocols, TlsOptions, TlsVersion, Verification};

use crate::{
    auth::{Auth, Impersonation, PluginPolicy},
    metrics::{Audience, TransportMetrics},
    transport::{self, Closing, Connections, Transport},
    user_agent,
};

/// The namespace of those who name none.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// All that is needed to reach a server.
///
/// Clients of one configuration and of its clones share connections and what plugins hand out, where they agree on the
/// server, the way to it and TLS: clients for several users of a server are best made of clones.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The server's address; a path in it stands before the path of each request.
    pub server: Uri,
    /// The namespace of requests for namespaced objects that name none.
    pub default_namespace: String,
    /// How the caller identifies itself.
    pub auth: Auth,
    /// As whom the caller acts, if not as itself.
    pub impersonation: Option<Impersonation>,
    /// What holds when the server is https.
    pub tls: TlsOptions,
    /// Who stands between.
    pub proxy: Proxy,
    /// Who opens connections; `None` for TCP.
    pub dialer: Option<Dialer>,
    /// Whether the server may compress its answers.
    pub compression: Compression,
    /// How long opening a connection may take, TLS included.
    pub connect_timeout: Duration,
    /// What the server is told of the program; also the default owner of the fields that it writes, up to the slash.
    pub user_agent: String,
    /// Tells when credentials expire.
    pub clock: Clock,
    /// Who counts what is done to reach the server.
    pub(crate) audience: Audience,
    /// Shared by the clients of this configuration and of its clones.
    pub(crate) connections: Connections,
}

/// Whether the server may compress its answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// It may.
    #[default]
    Offered,
    /// It is not asked to: `disable-compression`.
    Off,
}

impl Config {
    /// A server without credentials, in the namespace `default`.
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
            connect_timeout: CONNECT_TIMEOUT,
            user_agent: user_agent::of_this_program(),
            clock: Clock::system(),
            audience: Audience::default(),
            connections: Connections::default(),
        }
    }

    /// What the surroundings say: `$KUBECONFIG`, else `~/.kube/config`, else the pod's service account.
    pub fn infer() -> Result<Self, ConfigError> {
        Self::infer_with(&Selection::default())
    }

    /// The same, with what `selection` says in place of what the kubeconfig says.
    pub fn infer_with(selection: &Selection) -> Result<Self, ConfigError> {
        infer::infer(&infer::Surroundings::of_the_process(), selection)
    }

    /// The current context of a kubeconfig file.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        Self::from_kubeconfig(&Kubeconfig::read(path)?, &Selection::default())
    }

    /// A context of a kubeconfig: the current one, unless `selection` names another.
    pub fn from_kubeconfig(kubeconfig: &Kubeconfig, selection: &Selection) -> Result<Self, ConfigError> {
        kubeconfig::resolve(kubeconfig, selection)
    }

    /// The service account of the pod that this program runs in.
    pub fn in_cluster() -> Result<Self, ConfigError> {
        in_cluster::load(&infer::Surroundings::of_the_process())
    }

    /// What carries requests to the server, without a client on top: credentials, proxy, TLS and connections. Other layers
    /// can be put around it before a client is made of it.
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
        transport::connect(self)
    }

    /// The same server for somebody else.
    #[must_use]
    pub fn with_auth(mut self, auth: Auth) -> Self {
        self.auth = auth;
        self
    }

    /// The same server, the caller acting as somebody else.
    #[must_use]
    pub fn with_impersonation(mut self, impersonation: Impersonation) -> Self {
        self.impersonation = Some(impersonation);
        self
    }

    /// The same, where a plugin that hands out credentials may run only if `policy` lets it.
    #[must_use]
    pub fn with_plugin_policy(mut self, policy: PluginPolicy) -> Self {
        if let Auth::Exec(plugin) = &mut self.auth {
            plugin.policy = policy;
        }
        self
    }

    /// The same server through another proxy, or through none.
    #[must_use]
    pub fn with_proxy(mut self, proxy: Proxy) -> Self {
        self.proxy = proxy;
        self
    }

    /// The same server over connections that somebody else opens.
    #[must_use]
    pub fn with_dialer(mut self, dialer: Dialer) -> Self {
        self.dialer = Some(dialer);
        self
    }

    /// The same server with other TLS options.
    #[must_use]
    pub fn with_tls(mut self, tls: TlsOptions) -> Self {
        self.tls = tls;
        self
    }

    /// The same server, with another namespace for requests that name none.
    #[must_use]
    pub fn with_default_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.default_namespace = namespace.into();
        self
    }

    /// The same server, told another name of the program.
    #[must_use]
    pub fn with_user_agent(mut self, user_agent: impl Into<String>) -> Self {
        self.user_agent = user_agent.into();
        self
    }

    /// The same, where somebody counts what is done to reach the server.
    #[must_use]
    pub fn with_metrics(mut self, metrics: impl TransportMetrics) -> Self {
        self.audience = Audience::of(metrics);
        self
    }

    /// Closes the connections of all clients of this configuration and of its clones; whatever is sent next opens new ones.
    pub fn close_connections(&self, which: Closing) {
        self.connections.close(which);
    }
}

#[cfg(test)]
mod tests;
