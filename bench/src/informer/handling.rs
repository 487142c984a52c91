//! The informer's handler, and its progress.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use clap::ValueEnum;
use serde::Deserialize;
use tokio::sync::Notify;
use windlass_api::Object;
use windlass_cache::{Cached, Handler, Notification};

/// The work for each object.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Work {
    /// Produces its key
    Key,
    /// Reads two fields
    View,
    /// Decodes the object
    Decode,
}

/// Counters of the handler.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) awaited: u64,
    updates: AtomicU64,
    done: Notify,
}

/// Returns a handler that processes each object and counts the updates.
pub(super) fn handler<K: Object>(work: Work, progress: Arc<Progress>) -> impl Handler<K> {
    move |notification: Notification<K>| {
        let (is_update, object) = match &notification {
            Notification::Added { object, .. } => (false, object),
            Notification::Updated { new, .. } => (true, new),
            Notification::Deleted(deleted) => (false, &deleted.object),
        };
        work.deal_with(object);
        if is_update && progress.updates.fetch_add(1, Ordering::Relaxed) + 1 == progress.awaited {
            progress.done.notify_one();
        }
    }
}

impl Progress {
    pub(super) fn new(awaited: u64) -> Self {
        Self { awaited, updates: AtomicU64::new(0), done: Notify::new() }
    }

    /// Returns the number of updates.
    pub(super) fn seen(&self) -> u64 {
        self.updates.load(Ordering::Relaxed)
    }

    /// Waits for further updates. Polls every millisecond, because there are too many updates to notify for each.
    pub(super) async fn first_after(&self, seen: u64) {
        while self.seen() == seen {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until all expected updates have arrived.
    pub(super) async fn all(&self) {
        self.done.notified().await;
    }
}

impl Work {
    fn deal_with<K: Object>(self, object: &Cached<K>) {
        #[derive(Deserialize)]
        struct View {
            status: Option<Status>,
        }
        #[derive(Deserialize)]
        struct Status {
            phase: Option<String>,
        }
        match self {
            Self::Key => {
                std::hint::black_box(object.object_ref());
            }
            Self::View => {
                let view = object.project::<View>().ok().and_then(|view| view.status).and_then(|status| status.phase);
                std::hint::black_box(view);
            }
            Self::Decode => {
                std::hint::black_box(object.get().is_ok());
            }
        }
    }
}
