//! The kubeconfig document: read, merged, resolved to a [`Config`](super::Config), changed and written back. Fields that
//! are not known here survive.
//!
//! A path in an entry is relative to the file that the entry came from. Where several files are merged, the first one
//! that names a cluster, a context or a user has it, and the first `current-context` holds. Programs that change a
//! kubeconfig do so through [`KubeconfigFiles`], which knows the file of each entry.

mod document;
mod edit;
mod entries;
mod files;
mod resolve;
mod rewrite;
mod view;

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{ConfigError, Place};

pub use entries::{AuthProvider, Cluster, Context, EnvVar, Exec, Named, Unknown, User};
pub use files::KubeconfigFiles;
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

/// Which parts of a kubeconfig to use, and what to use in place of what they say: what command-line flags such as
/// `--context` and `--as` are about. What is `None` is left to the kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The name of a context.
    pub context: Option<String>,
    /// The name of a cluster, in place of the context's.
    pub cluster: Option<String>,
    /// The name of a user, in place of the context's.
    pub user: Option<String>,
    /// The namespace of requests that name none.
    pub namespace: Option<String>,
    /// Fields to use in place of the cluster's. An authority given here, or none to be asked, replaces all that the
    /// cluster says of both; an address given here replaces its server name too. Paths are relative to the working
    /// directory.
    pub cluster_fields: Cluster,
    /// Fields to use in place of the user's. A certificate, a key or a token replaces what the user has, in whatever
    /// form. Paths are relative to the working directory.
    pub user_fields: User,
}

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
        document::to_yaml(&document::to_value(self))
    }

    /// Writes the document to a file, in place of what it holds. Only the owner may read a file that is made. A reader
    /// sees the old file or the new one, nothing between; folders on the way are made.
    ///
    /// To change a kubeconfig that others change too, use [`KubeconfigFiles::edit`].
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), ConfigError> {
        files::replace(path.as_ref(), &self.to_yaml())
    }

    fn place(&self) -> Place {
        Place::file(self.origin.clone())
    }
}

fn add_new<T>(entries: &mut Vec<Named<T>>, more: Vec<Named<T>>) {
    for entry in more {
        if find(entries, &entry.name).is_none() {
            entries.push(entry);
        }
    }
}

fn find<'k, T>(entries: &'k [Named<T>], name: &str) -> Option<&'k Named<T>> {
    entries.iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests;
