//! The kubeconfig document: read, merged, resolved to a [`Config`](super::Config), written back. Fields that are not known here survive.
//!
//! A path in an entry is relative to the file that the entry came from. Where several files are merged, the first one
//! that names a cluster, a context or a user has it, and the first `current-context` holds.

mod document;
mod resolve;

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};

use super::{ConfigError, Place};
use crate::auth::Secret;

pub(super) use resolve::resolve;

/// A kubeconfig file, or several merged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kubeconfig {
    /// Servers.
    pub clusters: Vec<Named<Cluster>>,
    /// Which user of which server, in which namespace.
    pub contexts: Vec<Named<Context>>,
    /// Credentials.
    pub users: Vec<Named<User>>,
    /// The name of the context that is used unless another is asked for.
    pub current_context: Option<String>,
    /// Fields that are not known here.
    pub other: Unknown,
    /// The file, or the first of those that were merged.
    origin: Option<PathBuf>,
}

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
    origin: Option<PathBuf>,
}

/// A server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Fields that are not known here.
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
    /// Fields that are not known here, `exec` and `auth-provider` among them.
    pub other: Unknown,
}

/// Fields that are not known here. `Debug` shows their names only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Unknown(pub Map<String, Value>);

/// Which parts of a kubeconfig to use; `None` for what the kubeconfig itself says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The name of a context.
    pub context: Option<String>,
    /// The name of a cluster, in place of the context's.
    pub cluster: Option<String>,
    /// The name of a user, in place of the context's.
    pub user: Option<String>,
}

// === impl Kubeconfig ===

impl Kubeconfig {
    /// One cluster, one user and one context, all of one name, the context being current.
    #[must_use]
    pub fn single(name: &str, cluster: Cluster, user: User) -> Self {
        let context = Context { cluster: Some(name.to_owned()), user: Some(name.to_owned()), ..Context::default() };
        Self {
            clusters: vec![Named::new(name, cluster)],
            contexts: vec![Named::new(name, context)],
            users: vec![Named::new(name, user)],
            current_context: Some(name.to_owned()),
            ..Self::default()
        }
    }

    /// Reads a file. An empty one is a kubeconfig without entries.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let bytes =
            fs::read(path).map_err(|source| ConfigError::Read { path: path.to_owned(), named_by: None, source })?;
        document::parse(&bytes, Some(path.to_owned()))
    }

    /// Reads a document that is in no file: paths in it are relative to the working directory.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        document::parse(text.as_bytes(), None)
    }

    /// Adds the entries of `next` whose names are not taken yet; what both say, `self` says.
    #[must_use]
    pub fn merge(mut self, next: Self) -> Self {
        add_new(&mut self.clusters, next.clusters);
        add_new(&mut self.contexts, next.contexts);
        add_new(&mut self.users, next.users);
        self.current_context = self.current_context.filter(|name| !name.is_empty()).or(next.current_context);
        for (field, value) in next.other.0 {
            self.other.0.entry(field).or_insert(value);
        }
        self
    }

    /// The document as YAML, secrets included.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        document::to_yaml(self)
    }

    /// Writes the document to a file that only its owner may read. A reader sees the old file or the new one, nothing
    /// between; folders on the way are made.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), ConfigError> {
        let path = path.as_ref();
        write_atomically(path, self.to_yaml().as_bytes())
            .map_err(|source| ConfigError::Write { path: path.to_owned(), source })
    }

    fn place(&self) -> Place {
        Place::file(self.origin.clone())
    }
}

fn add_new<T>(entries: &mut Vec<Named<T>>, more: Vec<Named<T>>) {
    for entry in more {
        if !entries.iter().any(|known| known.name == entry.name) {
            entries.push(entry);
        }
    }
}

fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write as _;

    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        fs::create_dir_all(folder)?;
    }
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let temporary = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options
        .open(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The error that matters is the first one.
        let _ = fs::remove_file(&temporary);
    }
    written
}

// === impl Named, Cluster, User ===

impl<T> Named<T> {
    /// An entry that came from no file.
    #[must_use]
    pub fn new(name: impl Into<String>, entry: T) -> Self {
        Self { name: name.into(), entry, other: Unknown::default(), origin: None }
    }

    /// Where a path in the entry leads.
    fn resolve_path(&self, path: &str) -> PathBuf {
        match self.origin.as_deref().and_then(Path::parent) {
            Some(folder) => folder.join(path),
            None => PathBuf::from(path),
        }
    }
}

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

impl fmt::Debug for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests;
