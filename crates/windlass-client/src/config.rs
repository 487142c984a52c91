//! Where the server is, and who is calling.
//!
//! [`Config::infer`] looks where Kubernetes clients look: the files of `$KUBECONFIG`, else `~/.kube/config`, else the
//! service account of the pod that the program runs in. Errors name the file, the entry in it and the field.
//!
//! Files are read once, when the configuration is made, except for token files.

mod error;
mod in_cluster;
mod infer;
pub mod kubeconfig;

use std::{path::Path, time::Duration};

use http::Uri;

pub use error::{ConfigError, Place};
pub use kubeconfig::{Kubeconfig, Selection};

use crate::auth::{Auth, Secret};

/// The namespace of those who name none.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// All that is needed to reach a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The server's address; a path in it stands before the path of each request.
    pub server: Uri,
    /// The namespace of requests for namespaced objects that name none.
    pub default_namespace: String,
    /// How the caller identifies itself.
    pub auth: Auth,
    /// What holds when the server is https.
    pub tls: TlsOptions,
    /// How long opening a connection may take, TLS included.
    pub connect_timeout: Duration,
    /// What the server is told of the program; also the default owner of the fields that it writes, up to the slash.
    pub user_agent: String,
}

/// Whom to trust, and how to be recognised.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TlsOptions {
    /// PEM certificates of the authorities to trust; `None` for those of the system.
    pub certificate_authority: Option<Vec<u8>>,
    /// Whether the server's certificate is checked.
    pub verification: Verification,
    /// The name that the server's certificate must be for, where it is not that of the address.
    pub server_name: Option<String>,
    /// The caller's own certificate.
    pub identity: Option<Identity>,
}

/// Whether the server's certificate is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verification {
    /// It must be issued by an authority that is trusted, for the server's name.
    #[default]
    Full,
    /// Whoever answers is the server. Credentials sent to it may go to anybody.
    Skip,
}

/// A client certificate.
#[derive(Clone, Debug)]
pub struct Identity {
    /// PEM: the certificate, then those that lead to its authority.
    pub certificate: Vec<u8>,
    /// PEM: the key of the first certificate.
    pub key: Secret,
}

impl Config {
    /// A server without credentials, in the namespace `default`.
    #[must_use]
    pub fn new(server: Uri) -> Self {
        Self {
            server,
            default_namespace: DEFAULT_NAMESPACE.to_owned(),
            auth: Auth::None,
            tls: TlsOptions::default(),
            connect_timeout: CONNECT_TIMEOUT,
            user_agent: default_user_agent(),
        }
    }

    /// What the surroundings say: `$KUBECONFIG`, else `~/.kube/config`, else the pod's service account.
    pub fn infer() -> Result<Self, ConfigError> {
        infer::infer(&infer::Surroundings::of_the_process())
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

    /// The same server for somebody else.
    #[must_use]
    pub fn with_auth(mut self, auth: Auth) -> Self {
        self.auth = auth;
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
}

impl TlsOptions {
    /// Trusts the authorities of a PEM bundle, and no others.
    #[must_use]
    pub fn trusting(certificate_authority: impl Into<Vec<u8>>) -> Self {
        Self { certificate_authority: Some(certificate_authority.into()), ..Self::default() }
    }

    /// Trusts whoever answers.
    #[must_use]
    pub fn unverified() -> Self {
        Self { verification: Verification::Skip, ..Self::default() }
    }

    /// The same, with a client certificate.
    #[must_use]
    pub fn with_identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// The same, for a server whose certificate has another name than its address.
    #[must_use]
    pub fn with_server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }
}

/// `windlass/0.1.0 (linux/x86_64)`
pub(crate) fn default_user_agent() -> String {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("windlass/{} ({os}/{arch})", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests;
