//! Notifications to event handlers, and the handle of a registered handler.

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

/// A change of the cache, delivered after the store reflects it.
pub enum Notification<K> {
    /// The object is new to this handler.
    Added {
        /// The object's state.
        object: Cached<K>,
        /// Reports whether the object is part of the handler's initial list.
        initial: InitialList,
    },
    /// The object changed, or is delivered again by a resync. For a resync, both states are the same.
    ///
    /// If the informer missed a deletion and a recreation, both are delivered as one update with different UIDs.
    Updated {
        /// The state of the previous notification.
        old: Cached<K>,
        /// The new state.
        new: Cached<K>,
    },
    /// The object was deleted.
    Deleted(Deleted<K>),
}

/// A deleted object.
pub struct Deleted<K> {
    /// The object's final state, or the last state that the informer received.
    pub object: Cached<K>,
    /// Specifies whether `object` is the final state.
    pub state: DeletedState,
}

/// The meaning of a deleted object's last state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletedState {
    /// The server sent the deletion with the final state.
    Final,
    /// The informer missed the deletion; the object may have changed before it was deleted.
    Unknown,
}

/// Indicates whether an object belongs to the initial list of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitialList {
    /// The object existed when the handler was added or the informer started.
    Yes,
    /// The object was created later.
    No,
}

/// Receives notifications.
///
/// # What is guaranteed
///
/// - A handler receives one notification at a time. The notifications of one object arrive in the order of its changes.
/// - When a handler runs, the store and its indices show that change or a later one.
/// - Handlers don't wait for each other: each has its own queue.
/// - After a panic, the handler continues with the next notification.
///
/// # What is not guaranteed
///
/// - The queue is unbounded unless [`HandlerOptions::bounded`] is set: a handler that is permanently slower than the
///   events fills the memory. Handlers should only compute keys and add them to a work queue.
/// - Handlers run on tokio's worker threads. On a multi-thread runtime, a handler that has been slow does not block the
///   other tasks of its thread; one that becomes slow does so once. On a current-thread runtime, all tasks wait.
/// - Notifications that are queued when the informer stops, or the handler is removed, are dropped.
pub trait Handler<K>: Send + 'static {
    /// Handles one notification.
    fn handle(&mut self, notification: Notification<K>);
}

impl<K, F: FnMut(Notification<K>) + Send + 'static> Handler<K> for F {
    fn handle(&mut self, notification: Notification<K>) {
        self(notification);
    }
}

/// The delivery options of a handler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use]
pub struct HandlerOptions {
    pub(crate) resync: Resync,
    pub(crate) buffer: Buffer,
    pub(crate) pace: Pace,
}

/// The observed speed of a handler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Pace {
    #[default]
    Unknown,
    Quick,
    Slow,
}

/// The limit of a handler's queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Buffer {
    /// Notifications queue up without limit.
    #[default]
    Unbounded,
    /// The informer waits while this many notifications are queued.
    Bounded(usize),
}

/// The resync period of a handler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Resync {
    /// The informer's period.
    #[default]
    Inherited,
    /// No resync.
    Never,
    Every(Duration),
}

/// The handle of a handler that was added to an informer. Dropping it does not remove the handler.
#[must_use = "only the registration can remove the handler or wait for it"]
pub struct Registration {
    pub(crate) has_synced: HasSynced,
    pub(crate) handle: Arc<RegistrationHandle>,
}

pub(crate) struct RegistrationHandle {
    /// Checked before each notification.
    pub(crate) removed: Arc<AtomicBool>,
    /// Closed when the handler's task has ended or will never be started.
    pub(crate) ended: watch::Receiver<()>,
    /// Removes the handler from the informer.
    pub(crate) forget: Box<dyn Fn() + Send + Sync>,
}

// === impl Notification ===

impl<K> Notification<K> {
    /// Returns the object's newest known state.
    #[must_use]
    pub fn object(&self) -> &Cached<K> {
        match self {
            Self::Added { object, .. } | Self::Deleted(Deleted { object, .. }) => object,
            Self::Updated { new, .. } => new,
        }
    }

    /// Returns the object's namespace and name.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        self.object().key()
    }

    /// Returns the object's newest known state, also of a deleted object.
    #[must_use]
    pub fn into_touched(self) -> Cached<K> {
        match self {
            Self::Added { object, .. } | Self::Deleted(Deleted { object, .. }) => object,
            Self::Updated { new, .. } => new,
        }
    }

    /// Changes the type parameter, as [`Cached::cast`] does.
    pub(crate) fn cast<T>(self) -> Notification<T> {
        match self {
            Self::Added { object, initial } => Notification::Added { object: object.cast(), initial },
            Self::Updated { old, new } => Notification::Updated { old: old.cast(), new: new.cast() },
            Self::Deleted(deleted) => Notification::Deleted(deleted.cast()),
        }
    }

    /// Returns the object's new state, or `None` if the object was deleted.
    #[must_use]
    pub fn into_applied(self) -> Option<Cached<K>> {
        match self {
            Self::Deleted(_) => None,
            Self::Added { .. } | Self::Updated { .. } => Some(self.into_touched()),
        }
    }
}

impl<K> Deleted<K> {
    /// Creates the deletion of an object whose final state the server sent.
    pub const fn final_state(object: Cached<K>) -> Self {
        Self { object, state: DeletedState::Final }
    }

    /// Creates the deletion of an object whose DELETED event was missed.
    pub const fn missed(object: Cached<K>) -> Self {
        Self { object, state: DeletedState::Unknown }
    }

    /// Changes the type parameter, as [`Cached::cast`] does.
    pub(crate) fn cast<T>(self) -> Deleted<T> {
        Deleted { object: self.object.cast(), state: self.state }
    }
}

// Implemented by hand because a derive would require the same trait of `K`.
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
    /// Delivers every object again once per `period`, as an update without a change. The minimum is 1 s.
    pub fn resync(self, period: Duration) -> Self {
        Self { resync: Resync::Every(period), ..self }
    }

    /// Disables resyncs for this handler, even if the informer has a default period.
    pub fn no_resync(self) -> Self {
        Self { resync: Resync::Never, ..self }
    }

    /// Limits the handler's queue. While `notifications` or more are queued, the informer processes no further events:
    /// its store, its other handlers and finally the server wait for this handler. The notifications of one event are
    /// never split, so a list may exceed the bound.
    pub fn bounded(self, notifications: usize) -> Self {
        Self { buffer: Buffer::Bounded(notifications.max(1)), ..self }
    }

    /// Declares the handler quick, for example because it only adds keys to a work queue. The first notification of a
    /// quick handler runs on a thread that is shared with other tasks. For other handlers, tokio moves the thread's
    /// other tasks away first, which starts many threads if there are many handlers. A handler that turns out to be
    /// slow is treated as slow.
    pub fn quick(self) -> Self {
        Self { pace: Pace::Quick, ..self }
    }
}

// === impl Registration ===

impl Registration {
    /// Returns a future that is ready once the handler has processed the initial list. It returns an error if the
    /// informer stops before.
    pub fn has_synced(&self) -> HasSynced {
        self.has_synced.clone()
    }

    /// Removes the handler: no further notification starts after this call. A running one completes. Further calls do
    /// nothing.
    pub fn remove(&self) {
        self.handle.removed.store(true, Ordering::Release);
        (self.handle.forget)();
    }

    /// Removes the handler and waits until a running notification has completed.
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
