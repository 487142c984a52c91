//! Kubeconfig documents: reading, merging, editing and writing. Unknown fields are preserved.
//! [`Config::from_kubeconfig`](crate::Config::from_kubeconfig) converts one to a configuration.
//!
//! A relative path in an entry is relative to the file of the entry. If several files are merged, the first file with a
//! cluster, context or user of a name takes precedence, as does the first `current-context`. Programs that change a
//! kubeconfig should use [`KubeconfigFiles`], which tracks the file of each entry.

mod document;
mod edit;
mod entries;
mod files;
mod rewrite;
mod selected;
mod view;

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::config_error::{ConfigError, Place};

pub use entries::{AuthProvider, Cluster, Context, EnvVar, Exec, Named, Unknown, User};
pub use files::KubeconfigFiles;
pub(crate) use selected::{SelectedEntries, first_set, is_set};

/// A kubeconfig from one file, or merged from several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kubeconfig {
    /// The servers.
    pub clusters: Vec<Named<Cluster>>,
    /// The contexts: combinations of a cluster, a user and a namespace.
    pub contexts: Vec<Named<Context>>,
    /// The users with their credentials.
    pub users: Vec<Named<User>>,
    /// The name of the context that is used by default.
    pub current_context: Option<String>,
    /// Unknown fields.
    pub other: Unknown,
    /// The file, or the first of the merged files.
    origin: Option<PathBuf>,
}

/// The selected parts of a kubeconfig and overrides for them, corresponding to command-line flags such as `--context`
/// and `--as`. For fields that are `None`, the kubeconfig decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The name of the context.
    pub context: Option<String>,
    /// The name of the cluster; overrides the context's.
    pub cluster: Option<String>,
    /// The name of the user; overrides the context's.
    pub user: Option<String>,
    /// The namespace of requests that name none.
    pub namespace: Option<String>,
    /// Overrides for fields of the cluster. A certificate authority, or disabled verification, replaces the cluster's
    /// settings for both. An address also replaces the cluster's server name. Paths are relative to the working
    /// directory.
    pub cluster_fields: Cluster,
    /// Overrides for fields of the user. A certificate, key or token replaces the user's, in any form. Paths are
    /// relative to the working directory.
    pub user_fields: User,
}

impl Kubeconfig {
    /// Creates a kubeconfig with one cluster, one user and one context of the same name. The context is the current
    /// one.
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

    /// Reads a file. An empty file is a kubeconfig without entries.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let bytes =
            fs::read(path).map_err(|source| ConfigError::Read { path: path.to_owned(), named_by: None, source })?;
        document::parse(&bytes, Some(path.to_owned()))
    }

    /// Parses a document that is not in a file. Paths in it are relative to the working directory.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        document::parse(text.as_bytes(), None)
    }

    /// Adds the entries of `next` whose names are not taken yet. For all other values, `self` takes precedence.
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

    /// Returns the document as YAML, including secrets.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        document::to_yaml(&document::to_value(self))
    }

    /// Replaces a file with the document. A new file is readable only by its owner. The replacement is atomic: a reader
    /// sees either the old or the new content. Missing folders are created.
    ///
    /// To change a kubeconfig that other programs also change, use [`KubeconfigFiles::edit`].
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
