//! What the entries of a kubeconfig hold.

use std::{
    collections::BTreeMap,
    fmt,
    path::{MAIN_SEPARATOR, Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};

use crate::{auth::Secret, config::Place};

/// An entry and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Named<T> {
    /// Unique among the entries of its kind.
    pub name: String,
    /// What it names.
    pub entry: T,
    /// Fields beside the two that are not known here.
    pub other: Unknown,
    /// The file that it came from; paths in the entry are relative to it.
    pub(super) origin: Option<PathBuf>,
}

/// A server. `Debug` hides what stands before an `@` in its address.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Its address.
    pub server: Option<String>,
    /// The name that its certificate must be for, where it is not that of the address.
    pub tls_server_name: Option<String>,
    /// Whether its certificate goes unchecked.
    pub insecure_skip_tls_verify: Option<bool>,
    /// A file with PEM certificates of the authorities to trust.
    pub certificate_authority: Option<String>,
    /// The same certificates in base64.
    pub certificate_authority_data: Option<String>,
    /// The proxy on the way to it: `http://`, `https://` or `socks5://`. It may hold a password.
    pub proxy_url: Option<Secret>,
    /// Whether answers are asked for uncompressed.
    pub disable_compression: Option<bool>,
    /// Fields that are not known here, `extensions` among them.
    pub other: Unknown,
}

/// Which user of which server, in which namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// The name of the cluster.
    pub cluster: Option<String>,
    /// The name of the user.
    pub user: Option<String>,
    /// The namespace of requests that name none.
    pub namespace: Option<String>,
    /// Fields that are not known here.
    pub other: Unknown,
}

/// Credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// A file with the PEM client certificate.
    pub client_certificate: Option<String>,
    /// The same certificate in base64.
    pub client_certificate_data: Option<String>,
    /// A file with the PEM key of the client certificate.
    pub client_key: Option<String>,
    /// The same key in base64.
    pub client_key_data: Option<Secret>,
    /// A bearer token.
    pub token: Option<Secret>,
    /// A file with a bearer token; it wins over [`Self::token`].
    pub token_file: Option<String>,
    /// A name for basic authentication.
    pub username: Option<String>,
    /// A password for basic authentication.
    pub password: Option<Secret>,
    /// The name of the user to act as: `as`.
    pub impersonate: Option<String>,
    /// The uid to act as: `as-uid`.
    pub impersonate_uid: Option<String>,
    /// The groups to act in: `as-groups`.
    pub impersonate_groups: Vec<String>,
    /// What else to say of the user to act as: `as-user-extra`.
    pub impersonate_extra: BTreeMap<String, Vec<String>>,
    /// A scheme that is built into clients: `oidc`.
    pub auth_provider: Option<AuthProvider>,
    /// A program that hands out credentials.
    pub exec: Option<Exec>,
    /// Fields that are not known here.
    pub other: Unknown,
}

/// A scheme that is built into clients, and what it needs to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthProvider {
    /// Which scheme.
    pub name: Option<String>,
    /// Its settings, tokens among them.
    pub config: BTreeMap<String, Secret>,
    /// Fields that are not known here.
    pub other: Unknown,
}

/// A program that hands out credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exec {
    /// A name to look up in `$PATH`, or a path.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables beside those of this process.
    pub env: Vec<EnvVar>,
    /// The version of the protocol: `client.authentication.k8s.io/v1` or `…/v1beta1`.
    pub api_version: Option<String>,
    /// What to tell people who lack the program.
    pub install_hint: Option<String>,
    /// Whether it is told of the server.
    pub provide_cluster_info: Option<bool>,
    /// Whether it may ask people: `Never`, `IfAvailable` or `Always`.
    pub interactive_mode: Option<String>,
    /// Fields that are not known here.
    pub other: Unknown,
}

/// A variable of a program's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvVar {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Secret,
}

/// Fields that are not known here. `Debug` shows their names only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Unknown(pub Map<String, Value>);

// === impl Named ===

impl<T> Named<T> {
    /// An entry that came from no file.
    #[must_use]
    pub fn new(name: impl Into<String>, entry: T) -> Self {
        Self { name: name.into(), entry, other: Unknown::default(), origin: None }
    }

    /// Where a path in the entry leads.
    pub(super) fn resolve_path(&self, path: &str) -> PathBuf {
        match self.origin.as_deref().and_then(Path::parent) {
            Some(folder) => folder.join(path),
            None => PathBuf::from(path),
        }
    }

    pub(super) fn place(&self, word: &str) -> Place {
        Place::file(self.origin.clone()).entry(format!("{word} {:?}", self.name))
    }
}

// === impl Cluster, User, Exec ===

impl Cluster {
    /// A server by its address.
    #[must_use]
    pub fn new(server: impl Into<String>) -> Self {
        Self { server: Some(server.into()), ..Self::default() }
    }

    /// The same server, its certificate issued by one of the authorities of a PEM bundle.
    #[must_use]
    pub fn trusting(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.certificate_authority_data = Some(BASE64_STANDARD.encode(pem));
        self
    }

    /// What the extension of that name holds, if there is one.
    pub(super) fn extension(&self, name: &str) -> Option<&Value> {
        let extensions = self.other.0.get("extensions")?.as_array()?;
        extensions.iter().find(|extension| extension["name"] == name)?.get("extension")
    }
}

impl User {
    /// Somebody with a bearer token.
    #[must_use]
    pub fn with_token(token: impl Into<Secret>) -> Self {
        Self { token: Some(token.into()), ..Self::default() }
    }

    /// Somebody with a client certificate, both parts in PEM.
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
    /// Whether the command is a path: relative ones start at the kubeconfig, as those of certificates do.
    pub(super) fn is_path(command: &str) -> bool {
        command.contains(MAIN_SEPARATOR)
    }
}

/// A URL without user and password.
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
