//! The subscribers by topic, and by the value of an indexed field.

use std::{collections::HashMap, iter, sync::Arc};

use hashbrown::HashMap as FastMap;
use tokio::{task::AbortHandle, time::Instant};

use super::{
    EVENT_BYTES, SharedEvent, Subscriber, WAKE_BATCH, body_bytes,
    debounce::{Debounce, Notification},
    field::{FieldValue, IndexedField},
    key_index::KeyIndex,
    topics_of,
};
use crate::storage::{StorageEvent, mailbox::Discarded};

#[derive(Debug)]
pub(super) struct FanOut<D> {
    pub(super) topics: HashMap<Box<str>, Topic<D>>, // every topic has subscribers
    /// The indexes of resources, by the prefix of their keys.
    pub(super) indexes: HashMap<Box<str>, KeyIndex>,
    pub(super) running: bool, // if false, there are no subscribers and no indexes
    pub(super) pump: Option<AbortHandle>,
}

/// The subscribers to the same keys.
#[derive(Debug)]
pub(super) struct Topic<D> {
    /// The subscribers to all events.
    pub(super) all: Subscribers<D>,
    pub(super) by_value: Option<Box<ByValue<D>>>, // has subscribers
}

/// Subscribers to the events of objects with one value in a field.
#[derive(Debug)]
pub(super) struct ByValue<D> {
    field: IndexedField,
    values: FastMap<Arc<str>, Subscribers<D>>, // each has subscribers
    count: usize,
}

/// Subscribers that get the same events.
#[derive(Debug)]
pub(super) struct Subscribers<D> {
    list: Vec<Arc<Subscriber<D>>>,
    debounce: Debounce,
}

/// The actions that remain after dispatching events, to be done without the lock. Reused for its allocations.
#[derive(Debug)]
pub(super) struct Round<D> {
    /// Subscribers to wake as soon as the lock is released.
    pub(super) ready: Vec<Arc<Subscriber<D>>>,
    /// Subscribers to wake in batches.
    pub(super) pending: Vec<Arc<Subscriber<D>>>,
    pub(super) closed: Vec<ClosedSubscriber<D>>,
    /// The time of the next delayed notification.
    pub(super) due: Option<Instant>,
}

/// A closed subscriber with its discarded events. It must be woken, and the events dropped, outside of the lock.
pub(super) type ClosedSubscriber<D> = (Discarded<Arc<SharedEvent<D>>>, Arc<Subscriber<D>>);

/// The circumstances of a delivery.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: Instant,
    /// `true` while other subscribers are being notified.
    pub(super) is_delivering: bool,
}

impl<D> FanOut<D> {
    pub(super) fn new() -> Self {
        Self { topics: HashMap::new(), indexes: HashMap::new(), running: false, pump: None }
    }

    pub(super) fn add(&mut self, subscriber: &Arc<Subscriber<D>>) {
        let topic = self.topics.entry(subscriber.topic.clone()).or_insert_with(Topic::new);
        match &subscriber.selected {
            None => topic.all.list.push(Arc::clone(subscriber)),
            Some(selected) => {
                let by_value = topic.by_value.get_or_insert_with(|| Box::new(ByValue::new(selected.field)));
                by_value.add(subscriber, selected);
            }
        }
    }

    pub(super) fn remove(&mut self, subscriber: &Arc<Subscriber<D>>) {
        let Some(topic) = self.topics.get_mut(&subscriber.topic) else { return };
        match &subscriber.selected {
            None => topic.all.list.retain(|other| !Arc::ptr_eq(other, subscriber)),
            Some(selected) => topic.remove_selecting(subscriber, selected),
        }
        if topic.is_empty() {
            self.topics.remove(&subscriber.topic);
        }
    }

    /// Puts an event into the mailboxes of its topics, and applies it to the indexes.
    pub(super) fn put(&mut self, event: &Arc<SharedEvent<D>>, moment: Moment, round: &mut Round<D>) {
        for name in topics_of(&event.event.key) {
            if let Some(index) = self.indexes.get_mut(name)
                && !index.apply(&event.event, event.values(index.field()))
            {
                self.indexes.remove(name);
            }
            let Some(topic) = self.topics.get_mut(name) else { continue };
            topic.put(event, moment, round);
            if topic.is_empty() {
                self.topics.remove(name);
            }
        }
    }

    /// Removes and closes the subscribers to a key, and removes its indexes.
    pub(super) fn close_topics_of(&mut self, key: &str, round: &mut Round<D>) {
        for name in topics_of(key) {
            self.indexes.remove(name);
            let subscribers = self.topics.remove(name).into_iter().flat_map(Topic::into_subscribers);
            round.closed.extend(subscribers.map(close));
        }
    }

    /// Removes and closes all subscribers. They are closed under the lock, so that none of them reports a later
    /// position as its progress.
    pub(super) fn close_all(&mut self) -> Vec<ClosedSubscriber<D>> {
        self.topics.drain().flat_map(|(_, topic)| topic.into_subscribers()).map(close).collect()
    }

    /// Removes and closes the subscribers of topics with this prefix.
    pub(super) fn close_topics(&mut self, prefix: &str) -> Vec<ClosedSubscriber<D>> {
        let topics = self.topics.extract_if(|topic, _| topic.starts_with(prefix));
        topics.flat_map(|(_, topic)| topic.into_subscribers()).map(close).collect()
    }

    /// Returns the indexed field of a key's resource, if an index exists.
    pub(super) fn field_of(&self, key: &str) -> Option<IndexedField> {
        if self.indexes.is_empty() {
            return None;
        }
        topics_of(key).find_map(|name| self.indexes.get(name).map(KeyIndex::field))
    }
}

impl<D> Topic<D> {
    fn new() -> Self {
        Self { all: Subscribers::new(), by_value: None }
    }

    fn is_empty(&self) -> bool {
        self.all.list.is_empty() && self.by_value.is_none()
    }

    fn put(&mut self, event: &Arc<SharedEvent<D>>, moment: Moment, round: &mut Round<D>) {
        self.all.put(event, moment, round);
        if let Some(by_value) = &mut self.by_value {
            by_value.put(event, moment, round);
            self.by_value.take_if(|by_value| by_value.values.is_empty());
        }
    }

    fn remove_selecting(&mut self, subscriber: &Arc<Subscriber<D>>, selected: &FieldValue) {
        if let Some(by_value) = &mut self.by_value {
            by_value.remove(subscriber, selected);
            self.by_value.take_if(|by_value| by_value.values.is_empty());
        }
    }

    /// Returns the groups of subscribers.
    pub(super) fn groups_mut(&mut self) -> impl Iterator<Item = &mut Subscribers<D>> {
        let by_value = self.by_value.iter_mut().flat_map(|by_value| by_value.values.values_mut());
        iter::once(&mut self.all).chain(by_value)
    }

    /// Returns the subscribers, without those that are too many to be waited for.
    pub(super) fn few(&self) -> impl Iterator<Item = &Arc<Subscriber<D>>> {
        let all = (self.all.list.len() <= WAKE_BATCH).then_some(&self.all.list);
        let by_value = self.by_value.as_ref().filter(|by_value| by_value.count <= WAKE_BATCH);
        let selecting = by_value.into_iter().flat_map(|by_value| by_value.values.values()).map(|group| &group.list);
        all.into_iter().chain(selecting).flatten()
    }

    fn into_subscribers(self) -> impl Iterator<Item = Arc<Subscriber<D>>> {
        let by_value = self.by_value.into_iter().flat_map(|by_value| by_value.values.into_values());
        self.all.list.into_iter().chain(by_value.flat_map(|group| group.list))
    }
}

impl<D> ByValue<D> {
    fn new(field: IndexedField) -> Self {
        Self { field, values: FastMap::new(), count: 0 }
    }

    fn add(&mut self, subscriber: &Arc<Subscriber<D>>, selected: &FieldValue) {
        let group = self.values.entry(Arc::clone(&selected.value)).or_insert_with(Subscribers::new);
        group.list.push(Arc::clone(subscriber));
        self.count += 1;
    }

    fn remove(&mut self, subscriber: &Arc<Subscriber<D>>, selected: &FieldValue) {
        self.change(&selected.value, |group| group.list.retain(|other| !Arc::ptr_eq(other, subscriber)));
    }

    /// Puts an event into the mailboxes of the subscribers to its values.
    fn put(&mut self, event: &Arc<SharedEvent<D>>, moment: Moment, round: &mut Round<D>) {
        if let Some(values) = event.values(self.field).distinct() {
            for value in values {
                self.change(value, |group| group.put(event, moment, round));
            }
            return;
        }
        for group in self.values.values_mut() {
            group.put(event, moment, round);
        }
        self.values.retain(|_, group| !group.list.is_empty());
        self.count = self.values.values().map(|group| group.list.len()).sum();
    }

    /// Changes the subscribers to a value, and removes the group if none are left.
    fn change(&mut self, value: &str, change: impl FnOnce(&mut Subscribers<D>)) {
        let Some(group) = self.values.get_mut(value) else { return };
        let before = group.list.len();
        change(group);
        self.count -= before - group.list.len();
        if group.list.is_empty() {
            self.values.remove(value);
        }
    }
}

impl<D> Subscribers<D> {
    fn new() -> Self {
        Self { list: Vec::new(), debounce: Debounce::default() }
    }

    fn put(&mut self, event: &Arc<SharedEvent<D>>, moment: Moment, round: &mut Round<D>) {
        if self.list.is_empty() {
            return;
        }
        let StorageEvent { revision, current, previous, .. } = &event.event;
        let cost = body_bytes(current.as_ref()) + body_bytes(previous.as_ref()) + EVENT_BYTES;
        let is_small = self.list.len() <= WAKE_BATCH;
        let notification = self.debounce.on_event(self.list.len(), moment.now, moment.is_delivering);
        self.list.retain(|subscriber| {
            if *revision <= subscriber.after {
                return true;
            }
            let put = subscriber.mailbox.put(Arc::clone(event), cost);
            if notification == Notification::Now && put.is_ok() {
                let ready = if is_small { &mut round.ready } else { &mut round.pending };
                ready.push(Arc::clone(subscriber));
            }
            put.map_err(|backlog| round.closed.push((backlog, Arc::clone(subscriber)))).is_ok()
        });
        if let Notification::At(due) = notification {
            round.notify_at(due);
        }
    }

    /// Schedules the subscribers if their notification is due.
    pub(super) fn notify_due(&mut self, now: Instant, round: &mut Round<D>) {
        match self.debounce.on_timer(now) {
            Notification::Now => round.pending.extend(self.list.iter().cloned()),
            Notification::At(due) => round.notify_at(due),
            Notification::Nothing => {}
        }
    }
}

impl<D> Default for Round<D> {
    fn default() -> Self {
        Self { ready: Vec::new(), pending: Vec::new(), closed: Vec::new(), due: None }
    }
}

impl<D> Round<D> {
    /// Wakes one batch of subscribers.
    pub(super) fn notify_some(&mut self) {
        for subscriber in self.pending.drain(self.pending.len().saturating_sub(WAKE_BATCH)..) {
            subscriber.mailbox.wake();
        }
    }

    fn notify_at(&mut self, due: Instant) {
        self.due = Some(self.due.map_or(due, |other| other.min(due)));
    }
}

pub(super) fn wake<D>(closed: impl IntoIterator<Item = ClosedSubscriber<D>>) {
    for (backlog, subscriber) in closed {
        drop(backlog);
        subscriber.mailbox.wake();
    }
}

fn close<D>(subscriber: Arc<Subscriber<D>>) -> ClosedSubscriber<D> {
    (subscriber.mailbox.close(), subscriber)
}
