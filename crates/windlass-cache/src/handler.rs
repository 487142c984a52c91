//! What handlers are told, and the handle on a registered one.

mod callbacks;
mod events;
mod filter;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;
use windlass_api::ObjectKey;

pub use self::{callbacks::Callbacks, events::Events, filter::Filtered};
use crate::{cached::Cached, synced::HasSynced};

/// A change of the cache, told after the store shows it.
pub enum Notification<K> {
    /// An object that this handler did not know.
    Added {
        /// Its state.
        object: Cached<K>,
        /// Whether it was there before the handler could have seen it come.
        initial: InitialList,
    },
    /// An object changed, or is shown again by a resync (then both are the same state).
    ///
    /// If the informer missed a deletion and a new object of the same name, they are told as one update: the uids differ.
    Updated {
        /// What the handler was told last.
        old: Cached<K>,
        /// What it is now.
        new: Cached<K>,
    },
    /// An object is gone.
    Deleted(Deleted<K>),
}

/// An object that is gone.
pub struct Deleted<K> {
    /// Its last state, or the last one that is known.
    pub object: Cached<K>,
    /// Which of the two.
    pub state: DeletedState,
}

/// What is known of a deleted object's last state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletedState {
    /// The server told the deletion, and the last state with it.
    Final,
    /// The deletion was missed; the object may have changed any number of times before.
    Unknown,
}

/// Whether an object belongs to the initial list of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitialList {
    /// It was there when the handler was added, or the informer started.
    Yes,
    /// It came later.
    No,
}

/// Receives notifications.
///
/// # What is guaranteed
///
/// - A handler gets one notification at a time, and those of one object in the order of its changes.
/// - When it runs, the store and its indices show that change or a later one.
/// - It does not wait for other handlers, nor they for it: each has a queue of its own.
/// - A panic costs the notification at hand and nothing else.
///
/// # What is not
///
/// - Its queue has no bound unless [`HandlerOptions::bounded`] gives it one: a handler that is always slower than the
///   events fills the memory. Handlers should make keys and put them into a work queue.
/// - It runs on tokio's worker threads. On a multi-thread runtime one that was slow does not keep its thread's other tasks
///   waiting; one that suddenly becomes slow does so once. On a current-thread runtime all wait.
/// - Notifications that wait when the informer stops, or the handler is removed, are dropped.
pub trait Handler<K>: Send + 'static {
    /// Deals with one notification.
    fn handle(&mut self, notification: Notification<K>);
}

impl<K, F: FnMut(Notification<K>) + Send + 'static> Handler<K> for F {
    fn handle(&mut self, notification: Notification<K>) {
        self(notification);
    }
}

/// How a handler wants to be told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use]
pub struct HandlerOptions {
    pub(crate) resync: Resync,
    pub(crate) buffer: Buffer,
    pub(crate) pace: Pace,
}

/// How long a handler takes for a notification, as far as is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Pace {
    #[default]
    Unknown,
    Quick,
    Slow,
}

/// What becomes of notifications that a handler has no time for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Buffer {
    /// They wait, and nobody else does.
    #[default]
    Unbounded,
    /// When so many wait, the informer waits too.
    Bounded(usize),
}

/// Which resync period a handler has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Resync {
    /// The informer's.
    #[default]
    Inherited,
    /// None.
    Never,
    Every(Duration),
}

/// A handler that was added to an informer. Dropping this does not remove it.
#[must_use = "a handler can be removed, and waited for, by its registration alone"]
pub struct Registration {
    pub(crate) has_synced: HasSynced,
    pub(crate) handle: Arc<RegistrationHandle>,
}

pub(crate) struct RegistrationHandle {
    /// Looked at before each notification.
    pub(crate) removed: Arc<AtomicBool>,
    /// Closed when the handler's task has ended, or never will be started.
    pub(crate) ended: watch::Receiver<()>,
    /// Makes the informer forget the handler.
    pub(crate) forget: Box<dyn Fn() + Send + Sync>,
}

// === impl Notification ===

impl<K> Notification<K> {
    /// The object's newest known state.
    #[must_use]
    pub fn object(&self) -> &Cached<K> {
        match self {
            Self::Added { object, .. } | Self::Deleted(Deleted { object, .. }) => object,
            Self::Updated { new, .. } => new,
        }
    }

    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        self.object().key()
    }
}

impl<K> Deleted<K> {
    /// The server told the deletion.
    pub(crate) fn last_known(object: Cached<K>) -> Self {
        Self { object, state: DeletedState::Final }
    }

    /// The deletion was missed.
    pub(crate) fn missed(object: Cached<K>) -> Self {
        Self { object, state: DeletedState::Unknown }
    }
}

// By hand, because `K` need not be any of these.
impl<K> Clone for Notification<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { object, initial } => Self::Added { object: object.clone(), initial: *initial },
            Self::Updated { old, new } => Self::Updated { old: old.clone(), new: new.clone() },
            Self::Deleted(deleted) => Self::Deleted(deleted.clone()),
        }
    }
}

impl<K> fmt::Debug for Notification<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added { object, initial } => {
                f.debug_struct("Added").field("object", object).field("initial", initial).finish()
            }
            Self::Updated { old, new } => f.debug_struct("Updated").field("old", old).field("new", new).finish(),
            Self::Deleted(deleted) => deleted.fmt(f),
        }
    }
}

impl<K> Clone for Deleted<K> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), state: self.state }
    }
}

impl<K> fmt::Debug for Deleted<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deleted").field("object", &self.object).field("state", &self.state).finish()
    }
}

// === impl HandlerOptions ===

impl HandlerOptions {
    /// Shows the handler every object again, as an update without a change, once per `period`; at least 1 s.
    pub fn resync(self, period: Duration) -> Self {
        Self { resync: Resync::Every(period), ..self }
    }

    /// Never, whatever the informer's default is.
    pub fn no_resync(self) -> Self {
        Self { resync: Resync::Never, ..self }
    }

    /// While `notifications` or more wait for this handler, the informer takes no further events: its store, its other
    /// handlers and in the end the server wait for this one. What one event brings is never torn apart, so that a list
    /// may exceed the bound.
    pub fn bounded(self, notifications: usize) -> Self {
        Self { buffer: Buffer::Bounded(notifications.max(1)), ..self }
    }

    /// The handler is known to be quick, as one is that makes keys and puts them into a work queue: its first notification is dealt
    /// with where the runtime's other tasks run. That of others gets a thread to itself, and with many handlers these
    /// are many threads. One that turns out to be slow is treated as slow.
    pub fn quick(self) -> Self {
        Self { pace: Pace::Quick, ..self }
    }
}

// === impl Registration ===

impl Registration {
    /// Ready once the handler has dealt with the initial list. Fails if the informer stops before.
    pub fn has_synced(&self) -> HasSynced {
        self.has_synced.clone()
    }

    /// Removes the handler: no notification is begun after this. One that is under way goes on. Again does nothing.
    pub fn remove(&self) {
        self.handle.removed.store(true, Ordering::Release);
        (self.handle.forget)();
    }

    /// Removes the handler and waits until the notification that is under way has been dealt with.
    pub async fn shut_down(&self) {
        self.remove();
        let mut ended = self.handle.ended.clone();
        while ended.changed().await.is_ok() {}
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("has_synced", &self.has_synced.is_synced())
            .field("removed", &self.handle.removed.load(Ordering::Acquire))
            .finish()
    }
}
