//! The progress of a cache that the server must apply before it responds to a write.

use std::time::Duration;

use tokio::{sync::watch, time};

use crate::storage::Revision;

/// The maximum time that a write waits. The cache follows later if the storage is slow.
const PATIENCE: Duration = Duration::from_millis(50);

/// Delays the response to a write under some prefixes until a cache of these objects includes it.
#[derive(Clone, Debug)]
pub(crate) struct AppliedWrites<const N: usize> {
    pub(crate) prefixes: [String; N],
    /// The revisions up to which the cache has applied the events of each prefix.
    pub(crate) progress: watch::Receiver<[Revision; N]>,
}

impl<const N: usize> AppliedWrites<N> {
    /// Waits until the cache includes a write.
    pub(super) async fn wait(&self, key: &str, revision: Revision) {
        let Some(index) = self.prefixes.iter().position(|prefix| key.starts_with(prefix.as_str())) else { return };
        let mut progress = self.progress.clone();
        let applied = progress.wait_for(|progress| progress[index] >= revision);
        // The cache ends with the server.
        let _ = time::timeout(PATIENCE, applied).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn write_waits_for_the_progress_of_its_prefix() {
        let (sender, progress) = watch::channel([Revision(5), Revision(1)]);
        let applied = AppliedWrites { prefixes: ["/a/".to_owned(), "/b/".to_owned()], progress };
        let start = time::Instant::now();
        applied.wait("/a/x", Revision(5)).await;
        applied.wait("/c/x", Revision(9)).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        let waiting = applied.wait("/b/x", Revision(2));
        let advance = async { sender.send_modify(|progress| progress[1] = Revision(2)) };
        tokio::join!(biased; waiting, advance);
        assert_eq!(start.elapsed(), Duration::ZERO);
        applied.wait("/b/x", Revision(3)).await;
        assert_eq!(start.elapsed(), PATIENCE);
    }
}
