//! The last step from a change to a controller's queue: keys with their priority, reported to observers.

use std::{collections::HashSet, sync::Arc, time::Duration};

use windlass_api::{ApiResource, Object, ObjectRef};
use windlass_cache::{Deleted, InitialList, Notification};
use windlass_queue::{AddOptions, DEFAULT_PRIORITY, LOW_PRIORITY, WorkQueue};

use crate::{
    observer::{Change, ReconcileEvent, Trigger},
    reporter::Reporter,
    trigger_notes::TriggerNotes,
};

/// Adds the keys of one watch to the queue of a controller.
pub(crate) struct KeySink<K> {
    pub(crate) controller: Arc<str>,
    /// The watched resource.
    pub(crate) resource: ApiResource,
    pub(crate) queue: WorkQueue<ObjectRef<K>>,
    pub(crate) reporter: Reporter,
    pub(crate) notes: TriggerNotes,
    /// The time from the first change of an object to its reconcile.
    pub(crate) debounce: Duration,
}

impl<K: Object> KeySink<K> {
    /// Adds the keys that a change has led to, each once.
    pub(crate) fn add<T: Object>(&self, notification: &Notification<T>, mut keys: Vec<ObjectRef<K>>) {
        if keys.len() > 1 {
            let mut seen = HashSet::new();
            keys.retain(|key| seen.insert(key.clone()));
        }
        let (object, change) = match notification {
            Notification::Added { object, .. } => (object, Change::Added),
            Notification::Updated { new, .. } => (new, Change::Updated),
            Notification::Deleted(Deleted { object, .. }) => (object, Change::Deleted),
        };
        let priority = priority(notification);
        for key in keys {
            self.notes.add(key.key(), change, &self.resource, object.key());
            self.reporter.observe(&ReconcileEvent::Triggered(Trigger {
                controller: &self.controller,
                resource: &self.resource,
                object: object.key(),
                change,
                key: key.key(),
            }));
            self.queue.add_with(key, AddOptions::new().priority(priority).after(self.debounce));
        }
    }
}

/// Returns the priority of a notification: objects from initial lists and resyncs get a lower priority than changed
/// objects.
fn priority<T: Object>(notification: &Notification<T>) -> i32 {
    match notification {
        Notification::Added { initial: InitialList::Yes, .. } => LOW_PRIORITY,
        Notification::Updated { old, new } if old.meta().resource_version() == new.meta().resource_version() => {
            LOW_PRIORITY
        }
        _ => DEFAULT_PRIORITY,
    }
}
