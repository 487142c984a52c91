//! What a server serves, remembered: in memory, and on disk for the next process.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_api::Clock;

use super::{Discovery, disk::Disk};
use crate::{Client, Result};

/// Discovery that asks the server once. Clones share what they know.
///
/// # Guarantees
/// - Callers who come while the server is being asked wait for that answer: there is one question at a time.
/// - Nothing older than the time to live is given out; after [`invalidate`](Self::invalidate), nothing older than that
///   call.
/// - A failure is not remembered. A partial answer is (see [`Discovery::failed`]), but not on disk: what is missing there
///   is asked for anew by the next process.
///
/// # Not guaranteed
/// That an answer is the newest: resources that appear meanwhile are seen after the time to live, or an `invalidate`.
#[derive(Clone)]
pub struct CachedDiscovery {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    disk: Option<Disk>,
    /// How long an answer is good for; `None` for ever.
    time_to_live: Option<Duration>,
    state: Mutex<State>,
    /// Held by the one who asks.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    held: Option<Held>,
    /// Counts the calls of `invalidate`: an answer to a question from before one is out of date.
    generation: u64,
}

struct Held {
    discovery: Arc<Discovery>,
    /// When this process had it from the server; `None` from disk.
    asked: Option<Instant>,
    /// When it is out of date.
    until: Option<Instant>,
}

impl CachedDiscovery {
    /// Remembers in memory, for as long as it lives.
    #[must_use]
    pub fn in_memory(client: Client) -> Self {
        Self::new(client, None, None)
    }

    /// Remembers in a folder, too, in files as kubectl writes them: see [`cache_folder`](super::cache_folder).
    ///
    /// `clock` tells the age of files. Files that cannot be read, or make no sense, are as good as none; files that cannot
    /// be written are not missed.
    #[must_use]
    pub fn on_disk(client: Client, folder: impl AsRef<Path>, time_to_live: Duration, clock: Clock) -> Self {
        let disk = Disk::new(folder.as_ref().to_owned(), time_to_live, clock);
        Self::new(client, Some(disk), Some(time_to_live))
    }

    fn new(client: Client, disk: Option<Disk>, time_to_live: Option<Duration>) -> Self {
        let (state, asking) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { shared: Arc::new(Shared { client, disk, time_to_live, state, asking }) }
    }

    /// Asks anew after this time.
    #[must_use]
    pub fn with_time_to_live(self, time_to_live: Duration) -> Self {
        Self::new(self.shared.client.clone(), self.shared.disk.clone(), Some(time_to_live))
    }

    /// Whom it asks.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// What the server serves.
    pub async fn get(&self) -> Result<Arc<Discovery>> {
        if let Some(discovery) = self.held() {
            return Ok(discovery);
        }
        let _asking = self.shared.asking.lock().await;
        // Somebody else may have asked meanwhile.
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

    /// Forgets, on disk too: the next [`get`](Self::get) asks the server.
    pub fn invalidate(&self) {
        let mut state = self.shared.state.lock();
        state.held = None;
        state.generation += 1;
    }

    /// How long ago this process had what it knows from the server. `None` if it has not asked, or had it from disk, or
    /// if the answer was partial: asking anew may then tell more.
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
