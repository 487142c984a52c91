//! The entries of a kubeconfig.

use std::{
    collections::BTreeMap,
    fmt,
    path::{MAIN_SEPARATOR, Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};

use crate::{config_error::Place, secret::Secret};

/// A named entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Named<T> {
    /// The name, unique among the entries of its kind.
    pub name: String,
    /// The entry.
    pub entry: T,
    /// Unknown fields beside these two.
    pub other: Unknown,
    /// The file of the entry; paths in the entry are relative to it.
    pub(crate) origin: Option<PathBuf>,
}

/// A server. `Debug` hides the user information in its address, the part before an `@`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// The address.
    pub server: Option<String>,
    /// The expected name in the server's certificate, if it differs from the address.
    pub tls_server_name: Option<String>,
    /// Disables the verification of the server's certificate.
    pub insecure_skip_tls_verify: Option<bool>,
    /// A file with the trusted certificate authorities in PEM.
    pub certificate_authority: Option<String>,
    /// The trusted certificate authorities in base64-encoded PEM.
    pub certificate_authority_data: Option<String>,
    /// The URL of the proxy: `http://`, `https://` or `socks5://`. It may contain a password.
    pub proxy_url: Option<Secret>,
    /// Disables the compression of responses.
    pub disable_compression: Option<bool>,
    /// Unknown fields, including `extensions`.
    pub other: Unknown,
}

/// A combination of a cluster, a user and a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// The name of the cluster.
    pub cluster: Option<String>,
    /// The name of the user.
    pub user: Option<String>,
    /// The namespace of requests that name none.
    pub namespace: Option<String>,
    /// Unknown fields.
    pub other: Unknown,
}

/// The credentials of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// A file with the client certificate in PEM.
    pub client_certificate: Option<String>,
    /// The client certificate in base64-encoded PEM.
    pub client_certificate_data: Option<String>,
    /// A file with the private key of the client certificate in PEM.
    pub client_key: Option<String>,
    /// The private key in base64-encoded PEM.
    pub client_key_data: Option<Secret>,
    /// A bearer token.
    pub token: Option<Secret>,
    /// A file with a bearer token. Overrides [`Self::token`].
    pub token_file: Option<String>,
    /// The user name for basic authentication.
    pub username: Option<String>,
    /// The password for basic authentication.
    pub password: Option<Secret>,
    /// The name of the user to impersonate: `as`.
    pub impersonate: Option<String>,
    /// The UID to impersonate: `as-uid`.
    pub impersonate_uid: Option<String>,
    /// The groups to impersonate: `as-groups`.
    pub impersonate_groups: Vec<String>,
    /// Additional attributes of the impersonated user: `as-user-extra`.
    pub impersonate_extra: BTreeMap<String, Vec<String>>,
    /// An authentication scheme that is built into clients: `oidc`.
    pub auth_provider: Option<AuthProvider>,
    /// A credential plugin.
    pub exec: Option<Exec>,
    /// Unknown fields.
    pub other: Unknown,
}

/// An authentication scheme that is built into clients, with its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthProvider {
    /// The name of the scheme.
    pub name: Option<String>,
    /// The settings, including tokens.
    pub config: BTreeMap<String, Secret>,
    /// Unknown fields.
    pub other: Unknown,
}

/// A credential plugin: an external program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exec {
    /// The program: a name to search in `$PATH`, or a path.
    pub command: Option<String>,
    /// The arguments.
    pub args: Vec<String>,
    /// Additional environment variables.
    pub env: Vec<EnvVar>,
    /// The version of the protocol: `client.authentication.k8s.io/v1` or `…/v1beta1`.
    pub api_version: Option<String>,
    /// The installation hint for users who lack the program.
    pub install_hint: Option<String>,
    /// Passes a description of the cluster to the program.
    pub provide_cluster_info: Option<bool>,
    /// The permission to prompt the user: `Never`, `IfAvailable` or `Always`.
    pub interactive_mode: Option<String>,
    /// Unknown fields.
    pub other: Unknown,
}

/// An environment variable of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvVar {
    /// The name.
    pub name: String,
    /// The value.
    pub value: Secret,
}

/// Unknown fields. `Debug` shows only their names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Unknown(pub Map<String, Value>);

// === impl Named ===

impl<T> Named<T> {
    /// Creates an entry that is not from a file.
    #[must_use]
    pub fn new(name: impl Into<String>, entry: T) -> Self {
        Self { name: name.into(), entry, other: Unknown::default(), origin: None }
    }

    /// Resolves a path in the entry.
    pub(crate) fn resolve_path(&self, path: &str) -> PathBuf {
        match self.origin.as_deref().and_then(Path::parent) {
            Some(folder) => folder.join(path),
            None => PathBuf::from(path),
        }
    }

    pub(crate) fn place(&self, word: &str) -> Place {
        Place::file(self.origin.clone()).entry(format!("{word} {:?}", self.name))
    }
}

// === impl Cluster, User, Exec ===

impl Cluster {
    /// Creates a server by its address.
    #[must_use]
    pub fn new(server: impl Into<String>) -> Self {
        Self { server: Some(server.into()), ..Self::default() }
    }

    /// Returns this server with the trusted certificate authorities of a PEM bundle.
    #[must_use]
    pub fn trusting(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.certificate_authority_data = Some(BASE64_STANDARD.encode(pem));
        self
    }

    /// Returns the content of the extension of this name.
    pub(crate) fn extension(&self, name: &str) -> Option<&Value> {
        let extensions = self.other.0.get("extensions")?.as_array()?;
        extensions.iter().find(|extension| extension["name"] == name)?.get("extension")
    }
}

impl User {
    /// Creates a user with a bearer token.
    #[must_use]
    pub fn with_token(token: impl Into<Secret>) -> Self {
        Self { token: Some(token.into()), ..Self::default() }
    }

    /// Creates a user with a client certificate and its key, both in PEM.
    #[must_use]
    pub fn with_certificate(certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        Self {
            client_certificate_data: Some(BASE64_STANDARD.encode(certificate)),
            client_key_data: Some(BASE64_STANDARD.encode(key).into()),
            ..Self::default()
        }
    }
}

impl Exec {
    /// Reports whether the command is a path. Relative paths are relative to the kubeconfig, like those of
    /// certificates.
    pub(crate) fn is_path(command: &str) -> bool {
        command.contains(MAIN_SEPARATOR)
    }
}

/// Returns a URL without its user information.
pub(super) fn without_user(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    match rest.rsplit_once('@') {
        Some((_, rest)) if scheme.is_empty() => rest.to_owned(),
        Some((_, rest)) => format!("{scheme}://{rest}"),
        None => url.to_owned(),
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            server,
            tls_server_name,
            insecure_skip_tls_verify,
            certificate_authority,
            certificate_authority_data,
            proxy_url,
            disable_compression,
            other,
        } = self;
        f.debug_struct("Cluster")
            .field("server", &server.as_deref().map(without_user))
            .field("tls_server_name", tls_server_name)
            .field("insecure_skip_tls_verify", insecure_skip_tls_verify)
            .field("certificate_authority", certificate_authority)
            .field("certificate_authority_data", certificate_authority_data)
            .field("proxy_url", proxy_url)
            .field("disable_compression", disable_compression)
            .field("other", other)
            .finish()
    }
}

impl fmt::Debug for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}
