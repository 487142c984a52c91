//! Tells that files have changed; which, a [`Snapshot`](super::snapshot::Snapshot) knows.

use std::{path::Path, time::Duration};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

use super::snapshot::WATCHED;

/// As long as changes follow each other so closely, they are one: an editor that saves all, a `git checkout`.
const QUIET: Duration = Duration::from_millis(100);

/// Watches a project.
pub(super) struct Watcher {
    /// Watches as long as it is there.
    _watcher: RecommendedWatcher,
    woken: mpsc::Receiver<()>,
}

impl Watcher {
    pub(super) fn of(project: &Path) -> Result<Self, String> {
        // One that is waiting to be heard says all there is to say.
        let (wake, woken) = mpsc::channel(1);
        let failed = |error: notify::Error| format!("watching {}: {error}", project.display());
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // To read is not to change, and we read.
            if event.is_ok_and(|event| !event.kind.is_access()) {
                let _ = wake.try_send(());
            }
        })
        .map_err(failed)?;
        // The folder itself: files are replaced, and what is watched in their place would not be seen.
        watcher.watch(project, RecursiveMode::NonRecursive).map_err(failed)?;
        for folder in WATCHED.map(|name| project.join(name)).iter().filter(|path| path.is_dir()) {
            watcher.watch(folder, RecursiveMode::Recursive).map_err(failed)?;
        }
        Ok(Self { _watcher: watcher, woken })
    }

    /// Resolves when something may have changed, and nothing has for a moment. Cancel-safe but for that moment.
    pub(super) async fn changed(&mut self) {
        if self.woken.recv().await.is_none() {
            // Nobody watches any more.
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
    async fn a_file_that_is_written_or_replaced_is_told_and_one_that_is_read_is_not() {
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
        assert!(watcher.woken.try_recv().is_err(), "nothing but the writes is told");
        fs::remove_dir_all(folder).unwrap();
    }
}
