//! Discovery with a cache in memory, and optionally on disk for later processes.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_api::Clock;

use super::{Discovery, disk::Disk};
use crate::{Client, Result};

/// Cached discovery. Clones share the cache.
///
/// # Guarantees
/// - Concurrent calls share one discovery.
/// - No result is older than the time to live. After [`invalidate`](Self::invalidate), no result is older than that
///   call.
/// - Failures are not cached. Partial results (see [`Discovery::failed`]) are cached in memory. On disk, only their
///   complete parts are stored, and the next process requests the missing ones.
///
/// # Not guaranteed
/// A result may be outdated: new resources are visible after the time to live or after `invalidate`.
#[derive(Clone)]
pub struct CachedDiscovery {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    disk: Option<Disk>,
    /// The time to live of a result. `None` for no limit.
    time_to_live: Option<Duration>,
    state: Mutex<State>,
    /// Locked during discovery.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    held: Option<Held>,
    /// The number of calls of `invalidate`. A result whose discovery began before the last call is outdated.
    generation: u64,
}

struct Held {
    discovery: Arc<Discovery>,
    /// The time of discovery by this process. `None` for a result from disk.
    asked: Option<Instant>,
    /// The end of the time to live.
    until: Option<Instant>,
}

impl CachedDiscovery {
    /// Creates a cache in memory without a time to live.
    #[must_use]
    pub fn in_memory(client: Client) -> Self {
        Self::new(client, None, None)
    }

    /// Creates a cache in memory and in a folder, in files of kubectl's format; see
    /// [`cache_folder`](super::cache_folder).
    ///
    /// `clock` determines the age of files. Unreadable and invalid files are ignored, as are errors while writing
    /// files.
    #[must_use]
    pub fn on_disk(client: Client, folder: impl AsRef<Path>, time_to_live: Duration, clock: Clock) -> Self {
        let disk = Disk::new(folder.as_ref().to_owned(), time_to_live, clock);
        Self::new(client, Some(disk), Some(time_to_live))
    }

    fn new(client: Client, disk: Option<Disk>, time_to_live: Option<Duration>) -> Self {
        let (state, asking) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { shared: Arc::new(Shared { client, disk, time_to_live, state, asking }) }
    }

    /// Sets the time to live.
    #[must_use]
    pub fn with_time_to_live(self, time_to_live: Duration) -> Self {
        Self::new(self.shared.client.clone(), self.shared.disk.clone(), Some(time_to_live))
    }

    /// Returns the client that sends the requests.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// Returns the resources that the server serves, from the cache or by discovery.
    pub async fn get(&self) -> Result<Arc<Discovery>> {
        if let Some(discovery) = self.held() {
            return Ok(discovery);
        }
        let _asking = self.shared.asking.lock().await;
        // The discovery may have completed meanwhile.
        if let Some(discovery) = self.held() {
            return Ok(discovery);
        }
        let generation = self.shared.state.lock().generation;
        if generation == 0
            && let Some(disk) = &self.shared.disk
            && let Some((discovery, age)) = disk.read(&self.shared.client).await
        {
            let until = self.shared.time_to_live.map(|time| Instant::now() + time.saturating_sub(age));
            return Ok(self.hold(generation, discovery, None, until));
        }
        let asked = Instant::now();
        let discovery = self.shared.client.discovery().await?;
        if let Some(disk) = &self.shared.disk {
            disk.write(&discovery);
        }
        Ok(self.hold(generation, discovery, Some(asked), self.shared.time_to_live.map(|time| asked + time)))
    }

    /// Clears the cache, including the files on disk. The next [`get`](Self::get) sends requests.
    pub fn invalidate(&self) {
        let mut state = self.shared.state.lock();
        state.held = None;
        state.generation += 1;
    }

    /// Returns the age of the cached result. `None` if this process has no result, read it from disk, or has a partial
    /// result; in these cases a new discovery may return more.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        let state = self.shared.state.lock();
        let held = state.held.as_ref().filter(|held| held.discovery.failed.is_empty())?;
        Some(held.asked?.elapsed())
    }

    fn held(&self) -> Option<Arc<Discovery>> {
        let state = self.shared.state.lock();
        let held = state.held.as_ref()?;
        let good = held.until.is_none_or(|until| Instant::now() < until);
        good.then(|| Arc::clone(&held.discovery))
    }

    fn hold(
        &self,
        generation: u64,
        discovery: Discovery,
        asked: Option<Instant>,
        until: Option<Instant>,
    ) -> Arc<Discovery> {
        let discovery = Arc::new(discovery);
        let mut state = self.shared.state.lock();
        if state.generation == generation {
            state.held = Some(Held { discovery: Arc::clone(&discovery), asked, until });
        }
        discovery
    }
}

impl fmt::Debug for CachedDiscovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedDiscovery")
            .field("disk", &self.shared.disk)
            .field("age", &self.age())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
