//! A snapshot of the project's files that affect a run.

use std::{
    collections::BTreeMap,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    path::{Path, PathBuf},
};

/// The watched files and folders.
pub(super) const WATCHED: [&str; 4] = ["src", "config", "build.rs", "Cargo.toml"];

/// A hash of each file's content, by its path in the project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot(BTreeMap<PathBuf, u64>);

impl Snapshot {
    /// Takes a snapshot of the current files.
    pub(super) fn of(project: &Path) -> Result<Self, String> {
        let mut snapshot = Self::default();
        for name in WATCHED {
            snapshot.read(project, Path::new(name))?;
        }
        Ok(snapshot)
    }

    /// Returns the files that were added, changed or deleted since another snapshot.
    pub(super) fn since<'a>(&'a self, before: &'a Self) -> Vec<&'a Path> {
        let other = self.0.iter().filter(|(path, hash)| before.0.get(*path) != Some(hash)).map(|(path, _)| path);
        let gone = before.0.keys().filter(|path| !self.0.contains_key(*path));
        let mut paths: Vec<_> = other.chain(gone).map(PathBuf::as_path).collect();
        paths.sort();
        paths
    }

    /// Copies a folder's files from a newer snapshot, so that changes by our own commands are ignored.
    pub(super) fn adopt(&mut self, folder: &str, other: &Self) {
        self.0.retain(|path, _| !path.starts_with(folder));
        self.0.extend(
            other.0.iter().filter(|(path, _)| path.starts_with(folder)).map(|(path, hash)| (path.clone(), *hash)),
        );
    }

    fn read(&mut self, project: &Path, path: &Path) -> Result<(), String> {
        let full = project.join(path);
        let failed = |error: io::Error| format!("reading {}: {error}", full.display());
        if full.is_dir() {
            for entry in fs::read_dir(&full).map_err(failed)? {
                let name = entry.map_err(failed)?.file_name();
                if !is_passing(&name.to_string_lossy()) {
                    self.read(project, &path.join(name))?;
                }
            }
            return Ok(());
        }
        match fs::read(&full) {
            Ok(content) => {
                let mut hasher = DefaultHasher::new();
                content.hash(&mut hasher);
                self.0.insert(path.to_owned(), hasher.finish());
                Ok(())
            }
            // The file was deleted, or is being replaced, which triggers another event.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }
}

/// Reports whether a file is a temporary one of an editor or of `windlass create`.
fn is_passing(name: &str) -> bool {
    name.starts_with('.') || name.ends_with('~') || name.ends_with(".unfinished")
}

#[cfg(test)]
mod tests {
    use windlass_api::Entropy;

    use super::*;

    #[test]
    fn snapshot_shows_new_changed_and_deleted_sources() {
        let folder = std::env::temp_dir().join(format!("windlass-snapshot-{}", Entropy::os().uuid()));
        let write = |path: &str, text: &str| {
            fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
            fs::write(folder.join(path), text).unwrap();
        };
        let changes = |before: &Snapshot| {
            let now = Snapshot::of(&folder).unwrap();
            now.since(before).iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        write("src/main.rs", "1");
        write("src/api/v1.rs", "1");
        write("Cargo.toml", "1");
        let mut before = Snapshot::of(&folder).unwrap();
        assert!(changes(&before).is_empty());
        for passing in ["target/x", "README.md", "src/.main.rs.swp", "src/main.rs~", "src/main.rs.unfinished"] {
            write(passing, "2");
        }
        write("src/main.rs", "1");
        assert!(changes(&before).is_empty(), "rewriting the same content is not a change");
        write("src/main.rs", "2");
        write("config/crd/bases/x.yaml", "2");
        fs::remove_file(folder.join("src/api/v1.rs")).unwrap();
        assert_eq!(changes(&before), ["config/crd/bases/x.yaml", "src/api/v1.rs", "src/main.rs"]);
        before.adopt("config/crd", &Snapshot::of(&folder).unwrap());
        assert_eq!(changes(&before), ["src/api/v1.rs", "src/main.rs"]);
        fs::remove_dir_all(folder).unwrap();
    }
}
