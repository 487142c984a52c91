//! The files that a kubeconfig is made of, and where a change goes.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{Kubeconfig, Named, document, rewrite::rewrite};
use crate::{
    config::{ConfigError, Place, infer::Surroundings},
    file,
};

/// The files of `$KUBECONFIG`, or others in such an order: the first file that has an entry counts.
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
    /// No path twice.
    paths: Vec<PathBuf>,
}

/// One file of them, as it was found.
struct Found {
    path: PathBuf,
    /// `None` if there is no such file.
    raw: Option<Value>,
    /// What it said.
    before: Kubeconfig,
    /// What it is to say.
    after: Kubeconfig,
}

/// Holds off others who change the file, kubectl among them, for as long as it lives.
struct Lock(PathBuf);

impl KubeconfigFiles {
    /// The files that the surroundings point to: those of `$KUBECONFIG`, else `~/.kube/config`.
    #[must_use]
    pub fn infer() -> Self {
        Self::of(&Surroundings::of_the_process())
    }

    /// These files.
    pub fn new(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        let mut unique = Vec::new();
        for path in paths.into_iter().map(Into::into) {
            if !unique.contains(&path) {
                unique.push(path);
            }
        }
        Self { paths: unique }
    }

    pub(in crate::config) fn of(surroundings: &Surroundings) -> Self {
        Self::new(surroundings.kubeconfig_paths())
    }

    /// The paths, in their order.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// All files merged; those that are not there are passed over. `None` when none is.
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

    /// Reads the files, lets `change` change what they say together, and writes the files that have to change: an entry
    /// goes where it came from, a new one and the current context into the first file that is there, or else into the
    /// last one. What has not changed stays as it is and where it is, but for comments, which are lost.
    ///
    /// While this goes on a lock file, `NAME.lock` as kubectl makes it, stands beside each file. Each file is replaced
    /// as a whole; with several, a crash between them leaves some replaced.
    pub fn edit<T>(&self, change: impl FnOnce(&mut Kubeconfig) -> Result<T, ConfigError>) -> Result<T, ConfigError> {
        let Some(last) = self.paths.len().checked_sub(1) else {
            return Err(ConfigError::Nowhere { default_file: None });
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
            // What is cleared is cleared where it holds; the files after it would then speak up, and are cleared too.
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

/// Puts each entry that differs into its file, and takes out of theirs those that are gone.
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
            tracing::debug!(file = %path.display(), "no kubeconfig there");
            Ok(None)
        }
        Err(source) => Err(ConfigError::Read { path: path.to_owned(), named_by: None, source }),
    }
}

/// The file itself where the path is a link, so that the link stays.
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
            tracing::warn!(%error, lock = %self.0.display(), "the lock stays");
        }
    }
}

/// Puts a text into a file, in place of what it holds.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), ConfigError> {
    let path = canonical(path);
    file::replace(&path, text.as_bytes()).map_err(|source| ConfigError::Write { path, source })
}

#[cfg(test)]
mod tests;
