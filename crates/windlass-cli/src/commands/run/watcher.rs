//! A watcher that reports that files have changed. A [`Snapshot`](super::snapshot::Snapshot) determines which.

use std::{path::Path, time::Duration};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

use super::snapshot::WATCHED;

/// The quiet period after which successive changes are reported together, for example of an editor that saves all files
/// or of `git checkout`.
const QUIET: Duration = Duration::from_millis(100);

/// Watches a project.
pub(super) struct Watcher {
    /// Watches until it is dropped.
    _watcher: RecommendedWatcher,
    woken: mpsc::Receiver<()>,
}

impl Watcher {
    pub(super) fn of(project: &Path) -> Result<Self, String> {
        // One queued notification is sufficient.
        let (wake, woken) = mpsc::channel(1);
        let failed = |error: notify::Error| format!("watching {}: {error}", project.display());
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // Read accesses are ignored: we read the files ourselves.
            if event.is_ok_and(|event| !event.kind.is_access()) {
                let _ = wake.try_send(());
            }
        })
        .map_err(failed)?;
        // Watches the folder itself: editors replace files, and a watch on a replaced file would not see changes.
        watcher.watch(project, RecursiveMode::NonRecursive).map_err(failed)?;
        for folder in WATCHED.map(|name| project.join(name)).iter().filter(|path| path.is_dir()) {
            watcher.watch(folder, RecursiveMode::Recursive).map_err(failed)?;
        }
        Ok(Self { _watcher: watcher, woken })
    }

    /// Waits until something may have changed and the quiet period has passed. Cancel-safe except during the quiet
    /// period.
    pub(super) async fn changed(&mut self) {
        if self.woken.recv().await.is_none() {
            // The watcher has been dropped.
            std::future::pending::<()>().await;
        }
        while let Ok(Some(())) = tokio::time::timeout(QUIET, self.woken.recv()).await {}
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use windlass_api::Entropy;

    use super::*;

    #[tokio::test]
    async fn watcher_reports_writes_but_not_reads() {
        let folder = std::env::temp_dir().join(format!("windlass-watcher-{}", Entropy::os().uuid()));
        fs::create_dir_all(folder.join("src/api")).unwrap();
        fs::write(folder.join("Cargo.toml"), "").unwrap();
        let mut watcher = Watcher::of(&folder).unwrap();
        fs::read(folder.join("Cargo.toml")).unwrap();
        for path in ["src/api/v1.rs", "Cargo.toml"] {
            fs::write(folder.join("other"), "new").unwrap();
            fs::rename(folder.join("other"), folder.join(path)).unwrap();
            let changed = tokio::time::timeout(Duration::from_mins(1), watcher.changed()).await;
            assert!(changed.is_ok(), "{path}");
            fs::read(folder.join(path)).unwrap();
        }
        assert!(watcher.woken.try_recv().is_err(), "only writes are reported");
        fs::remove_dir_all(folder).unwrap();
    }
}
