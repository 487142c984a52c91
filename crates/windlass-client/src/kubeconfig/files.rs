//! The files of a kubeconfig, and the distribution of changes among them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{Kubeconfig, Named, document, rewrite::rewrite};
use crate::{
    config_error::{ConfigError, Place},
    environment::Environment,
    file,
};

/// The files of `$KUBECONFIG`, or other files in order of precedence: of each entry, the first file that contains it
/// counts.
///
/// ```no_run
/// # fn main() -> Result<(), windlass_client::ConfigError> {
/// use windlass_client::config::KubeconfigFiles;
///
/// KubeconfigFiles::infer().edit(|kubeconfig| kubeconfig.use_context("production"))
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeconfigFiles {
    /// The paths, without duplicates.
    paths: Vec<PathBuf>,
}

/// The state of one file.
struct Found {
    path: PathBuf,
    /// The document. `None` if the file does not exist.
    raw: Option<Value>,
    /// The content before the change.
    before: Kubeconfig,
    /// The content after the change.
    after: Kubeconfig,
}

/// A lock that keeps other programs, including kubectl, from changing the file until it is dropped.
struct Lock(PathBuf);

impl KubeconfigFiles {
    /// Returns the files that the environment selects: those of `$KUBECONFIG`, else `~/.kube/config`.
    #[must_use]
    pub fn infer() -> Self {
        Self::of(&Environment::of_the_process())
    }

    /// Creates a list of files.
    pub fn new(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        let mut unique = Vec::new();
        for path in paths.into_iter().map(Into::into) {
            if !unique.contains(&path) {
                unique.push(path);
            }
        }
        Self { paths: unique }
    }

    pub(crate) fn of(environment: &Environment) -> Self {
        Self::new(environment.kubeconfig_paths())
    }

    /// Returns the paths in order.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Reads and merges all files. Missing files are skipped. Returns `None` if all are missing.
    pub fn read(&self) -> Result<Option<Kubeconfig>, ConfigError> {
        let mut merged: Option<Kubeconfig> = None;
        for path in &self.paths {
            let Some((_, next)) = read_if_there(path)? else { continue };
            merged = Some(match merged {
                Some(first) => first.merge(next),
                None => next,
            });
        }
        Ok(merged)
    }

    /// Reads the files, applies `change` to the merged kubeconfig, and writes the files that differ. A changed entry is
    /// written to its own file. New entries and the current context are written to the first existing file, or else to
    /// the last one. Unchanged content keeps its place, but comments are lost.
    ///
    /// While this runs, a lock file `NAME.lock`, as kubectl creates it, exists beside each file. Each file is replaced
    /// atomically. With several files, a crash may leave only some of them replaced.
    pub fn edit<T>(&self, change: impl FnOnce(&mut Kubeconfig) -> Result<T, ConfigError>) -> Result<T, ConfigError> {
        let Some(last) = self.paths.len().checked_sub(1) else {
            return Err(ConfigError::NotFound { default_file: None });
        };
        let paths: Vec<PathBuf> = self.paths.iter().map(|path| canonical(path)).collect();
        let _locks = paths.iter().map(|path| Lock::take(path)).collect::<Result<Vec<_>, _>>()?;

        let mut files = paths.into_iter().map(Found::read).collect::<Result<Vec<_>, _>>()?;
        let default = files.iter().position(|file| file.raw.is_some()).unwrap_or(last);
        let before = files.iter().map(|file| file.before.clone()).reduce(Kubeconfig::merge).unwrap_or_default();
        let mut after = before.clone();
        let outcome = change(&mut after)?;

        distribute(&mut files, default, &before.clusters, after.clusters, |after| &mut after.clusters);
        distribute(&mut files, default, &before.contexts, after.contexts, |after| &mut after.contexts);
        distribute(&mut files, default, &before.users, after.users, |after| &mut after.users);
        if after.current_context != before.current_context {
            let set = |file: &Found| file.after.current_context.as_deref().is_some_and(|name| !name.is_empty());
            // To clear the current context, clear it in the file that sets it and in all following files, which would
            // take effect otherwise.
            if after.current_context.as_deref().is_none_or(str::is_empty) {
                files.iter_mut().filter(|file| set(file)).for_each(|file| file.after.current_context = None);
            } else {
                files[default].after.current_context = after.current_context;
            }
        }
        if after.other != before.other {
            files[default].after.other = after.other;
        }
        for file in files {
            file.write()?;
        }
        Ok(outcome)
    }
}

/// Writes each changed entry to its file, and removes deleted entries from theirs.
fn distribute<T: Clone + PartialEq>(
    files: &mut [Found],
    default: usize,
    before: &[Named<T>],
    after: Vec<Named<T>>,
    entries: impl Fn(&mut Kubeconfig) -> &mut Vec<Named<T>>,
) {
    let home = |files: &[Found], entry: &Named<T>| {
        entry.origin.as_ref().and_then(|origin| files.iter().position(|file| file.path == *origin))
    };
    for gone in before.iter().filter(|known| !after.iter().any(|entry| entry.name == known.name)) {
        if let Some(home) = home(files, gone) {
            entries(&mut files[home].after).retain(|entry| entry.name != gone.name);
        }
    }
    for changed in after.into_iter().filter(|entry| !before.contains(entry)) {
        let home = home(files, &changed).unwrap_or(default);
        let entries = entries(&mut files[home].after);
        match entries.iter_mut().find(|entry| entry.name == changed.name) {
            Some(entry) => *entry = changed,
            None => entries.push(changed),
        }
    }
}

impl Found {
    fn read(path: PathBuf) -> Result<Self, ConfigError> {
        let (raw, before) =
            read_if_there(&path)?.map_or((None, Kubeconfig::default()), |(raw, read)| (Some(raw), read));
        Ok(Self { path, raw, after: before.clone(), before })
    }

    fn write(self) -> Result<(), ConfigError> {
        if self.after == self.before {
            return Ok(());
        }
        let mut document = self.raw.unwrap_or_default();
        rewrite(&mut document, document::to_value(&self.after));
        replace(&self.path, &document::to_yaml(&document))
    }
}

fn read_if_there(path: &Path) -> Result<Option<(Value, Kubeconfig)>, ConfigError> {
    match fs::read(path) {
        Ok(bytes) => {
            let raw = document::yaml(&bytes, &Place::file(Some(path.to_owned())))?;
            Ok(Some((raw, document::parse(&bytes, Some(path.to_owned()))?)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            tracing::debug!(file = %path.display(), "the kubeconfig does not exist");
            Ok(None)
        }
        Err(source) => Err(ConfigError::Read { path: path.to_owned(), named_by: None, source }),
    }
}

/// Resolves symbolic links, so that the link itself is retained.
fn canonical(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

impl Lock {
    fn take(path: &Path) -> Result<Self, ConfigError> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let lock = PathBuf::from(name);
        let failed = |source| ConfigError::Write { path: lock.clone(), source };
        if let Some(folder) = file::folder(path) {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        match fs::OpenOptions::new().write(true).create_new(true).open(&lock) {
            Ok(_) => Ok(Self(lock)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(ConfigError::Locked { lock }),
            Err(error) => Err(failed(error)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(%error, lock = %self.0.display(), "the lock file cannot be removed");
        }
    }
}

/// Replaces the content of a file atomically.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), ConfigError> {
    let path = canonical(path);
    file::replace(&path, text.as_bytes()).map_err(|source| ConfigError::Write { path, source })
}

#[cfg(test)]
mod tests;
