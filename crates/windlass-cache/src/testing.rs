//! A fake server of one resource, controlled by a test (feature `testing`).

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::Instant};
use windlass_api::{
    ApiResource, EventType, InitialEvents, ListItem, ListMeta, ListOptions, ListWatch, ListWatchError, Meta, MetaError,
    ObjectKey, Oversize, Place, RawEvent, ResourceVersion, Status, WatchOptions,
};

use crate::{ManagedFieldsMode, cached::Cached, error::UnreadableObject, ingest::Ingest};

/// A fake server of one resource. It stores objects, counts versions, and serves lists and watches like a real server:
/// pages, watches from a version, WatchList, bookmarks, 410 for expired versions. It fails on request. Clones share one
/// server.
///
/// Selectors are not applied; [`Self::requests`] returns the received requests. More than a thousand requests without
/// any passing time indicate a loop and cause a panic.
#[derive(Clone, Default)]
pub struct FakeListWatch {
    server: Arc<Mutex<Server>>,
    open: Arc<AtomicUsize>,
}

/// A request received by a [`FakeListWatch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// A page of a list.
    List(ListOptions),
    /// A watch.
    Watch(WatchOptions),
}

/// The requests that a [`FakeListWatch`] should fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Lists.
    List,
    /// Watches, including those with initial events.
    Watch,
}

/// The support of a [`FakeListWatch`] for watches with initial events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WatchList {
    /// Initial events are supported.
    #[default]
    Supported,
    /// They are rejected, as by a server without the feature.
    Refused,
}

#[derive(Default)]
struct Server {
    version: u64,
    /// The oldest version from which a watch can start.
    oldest: u64,
    /// The number of simulated losses of the storage.
    losses: u64,
    /// Each object with the version of its last change.
    objects: BTreeMap<String, (u64, Value)>,
    history: Vec<Logged>,
    watches: Vec<OpenWatch>,
    holds_initial_end: bool,
    failures: Vec<(Verb, ListWatchError)>,
    watch_list: WatchList,
    page_size: Option<usize>,
    object_limit: Option<usize>,
    requests: Vec<Request>,
    /// The time of the last request, and the number of requests at that time.
    last: Option<(Instant, usize)>,
}

struct OpenWatch {
    events: mpsc::UnboundedSender<Result<RawEvent, ListWatchError>>,
    /// `true` until the bookmark that ends the initial events is sent.
    awaits_initial_end: bool,
}

struct Logged {
    version: u64,
    event: RawEvent,
}

/// The number of requests at one point in time that is considered a loop.
const LOOP: usize = 1_000;

// === impl FakeListWatch ===

impl FakeListWatch {
    /// Creates a server without objects, at version 1.
    #[must_use]
    pub fn new() -> Self {
        let fake = Self::default();
        fake.server.lock().version = 1;
        fake
    }

    /// Creates or updates an object and returns its version. Sets `metadata.resourceVersion`, and `metadata.uid` if it
    /// is missing.
    ///
    /// # Panics
    /// Panics if `object` has no `metadata.name`.
    pub fn apply(&self, object: &impl Serialize) -> u64 {
        let mut object = serde_json::to_value(object).expect("a test's object can be encoded");
        let key = key_of(&object);
        let mut server = self.server.lock();
        server.version += 1;
        let version = server.version;
        let known = server.objects.get(&key).map(|(_, known)| known["metadata"]["uid"].clone());
        let event_type = if known.is_some() { EventType::Modified } else { EventType::Added };
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = known.unwrap_or_else(|| json!(format!("uid-{}-{version}", server.losses)));
        }
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        server.objects.insert(key, (version, object.clone()));
        server.publish(event_type, &object);
        version
    }

    /// Deletes an object, if it exists.
    pub fn delete(&self, key: &ObjectKey) {
        let mut server = self.server.lock();
        if let Some((_, mut object)) = server.objects.remove(&key.to_string()) {
            server.version += 1;
            object["metadata"]["resourceVersion"] = json!(server.version.to_string());
            server.publish(EventType::Deleted, &object);
        }
    }

    /// Sends a bookmark to every open watch.
    pub fn bookmark(&self) {
        let mut server = self.server.lock();
        let bookmark = bookmark(server.version, false);
        server.send(&bookmark);
    }

    /// Increments the version, as changes to objects of other resources do.
    pub fn advance(&self) -> u64 {
        let mut server = self.server.lock();
        server.version += 1;
        server.version
    }

    /// Sends an arbitrary event to every open watch.
    pub fn send(&self, event_type: EventType, body: impl Into<Bytes>) {
        self.server.lock().send(&RawEvent { event_type, body: body.into() });
    }

    /// Sends an error to every open watch and ends it.
    pub fn send_error(&self, status: &Status) {
        self.send(EventType::Error, serde_json::to_vec(status).expect("a status can be encoded"));
        self.server.lock().watches.clear();
    }

    /// Ends every open watch, as a server does after the timeout.
    pub fn disconnect(&self) {
        self.server.lock().watches.clear();
    }

    /// Breaks the connection of every open watch.
    pub fn break_connections(&self) {
        self.fail_watches(|| ListWatchError::Transport("connection reset".into()));
    }

    /// Sends invalid data to every open watch, which ends it.
    pub fn send_garbage(&self) {
        self.fail_watches(|| ListWatchError::Decode("<html> is no event".into()));
    }

    fn fail_watches(&self, error: impl Fn() -> ListWatchError) {
        for watch in std::mem::take(&mut self.server.lock().watches) {
            // An error means that the watch was dropped.
            let _ = watch.events.send(Err(error()));
        }
    }

    /// Deletes the history: a watch from an older version gets a 410.
    pub fn compact(&self) {
        let mut server = self.server.lock();
        server.oldest = server.version;
        server.history.clear();
    }

    /// Deletes all objects and restarts at version 1, like a server whose storage was replaced.
    pub fn lose_everything(&self) {
        let mut server = self.server.lock();
        server.watches.clear();
        server.history.clear();
        server.objects.clear();
        (server.version, server.oldest) = (1, 0);
        server.losses += 1;
    }

    /// Fails the next request of this kind. Several errors are returned in the order of the calls.
    pub fn fail(&self, verb: Verb, error: ListWatchError) {
        self.server.lock().failures.push((verb, error));
    }

    /// Sets whether watches with initial events are supported. They are by default.
    pub fn watch_list(&self, support: WatchList) {
        self.server.lock().watch_list = support;
    }

    /// Holds back the bookmark that ends the initial events, from now on.
    pub fn hold_initial_end(&self) {
        self.server.lock().holds_initial_end = true;
    }

    /// Sends the bookmarks that were held back, and holds back no more.
    pub fn send_initial_end(&self) {
        let mut server = self.server.lock();
        server.holds_initial_end = false;
        let end = bookmark(server.version, true);
        for watch in &mut server.watches {
            if std::mem::take(&mut watch.awaits_initial_end) {
                // An error means that the watch was dropped.
                let _ = watch.events.send(Ok(end.clone()));
            }
        }
    }

    /// Limits the page size of lists, independently of the requested limit.
    pub fn page_size(&self, objects: usize) {
        self.server.lock().page_size = Some(objects.max(1));
    }

    /// Limits the size of objects from now on: larger ones are reported as too large, as by a client with such a limit.
    /// Open streams are not affected.
    pub fn object_limit(&self, bytes: usize) {
        self.server.lock().object_limit = Some(bytes);
    }

    /// Returns the current version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.server.lock().version
    }

    /// Returns the key and version of every object, sorted by key.
    #[must_use]
    pub fn objects(&self) -> Vec<(String, u64)> {
        self.server.lock().objects.iter().map(|(key, (version, _))| (key.clone(), *version)).collect()
    }

    /// Returns the requests received so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.server.lock().requests.clone()
    }

    /// Returns the number of open lists and watches.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    fn counted<T: Send + 'static>(
        &self,
        stream: impl futures::Stream<Item = T> + Send + 'static,
    ) -> BoxStream<'static, T> {
        struct Open(Arc<AtomicUsize>);
        impl Drop for Open {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.open.fetch_add(1, Ordering::Relaxed);
        let open = Open(Arc::clone(&self.open));
        stream.inspect(move |_| _ = &open).boxed()
    }
}

impl ListWatch for FakeListWatch {
    fn list(
        &self,
        options: ListOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<ListItem, ListWatchError>>, ListWatchError>> {
        let mut server = self.server.lock();
        let limit = server.object_limit;
        let stream = server.list(&options).map(|items| {
            let items = (1..).zip(items).map(move |(number, item)| match &item {
                ListItem::Object(body) => within(limit, Place::Item(number), body).map(|()| item),
                ListItem::End(_) => Ok(item),
            });
            self.counted(stream::iter(items))
        });
        async move { stream }.boxed()
    }

    fn watch(
        &self,
        options: WatchOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<RawEvent, ListWatchError>>, ListWatchError>> {
        let timeout = options.timeout;
        let mut server = self.server.lock();
        let limit = server.object_limit;
        let stream = server.watch(options).map(|receiver| {
            let events =
                stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
            let events = stream::iter(1..).zip(events).map(move |(number, event)| {
                let event: RawEvent = event?;
                within(limit, Place::Event(number, event.event_type), &event.body).map(|()| event)
            });
            match timeout {
                Some(timeout) => self.counted(events.take_until(tokio::time::sleep(timeout))),
                None => self.counted(events),
            }
        });
        async move { stream }.boxed()
    }
}

impl fmt::Debug for FakeListWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = self.server.lock();
        f.debug_struct("FakeListWatch")
            .field("version", &server.version)
            .field("objects", &server.objects.len())
            .finish_non_exhaustive()
    }
}

// === impl Server ===

impl Server {
    fn list(&mut self, options: &ListOptions) -> Result<Vec<ListItem>, ListWatchError> {
        self.note(Request::List(options.clone()));
        self.check(Verb::List)?;
        let wanted = options.resource_version.as_deref().unwrap_or_default().parse().unwrap_or(0);
        if wanted > self.version {
            return Err(Status::too_large_resource_version(wanted, self.version).into());
        }
        // The token consists of the version of the first page and the number of objects on earlier pages.
        let token = options.continue_token.as_deref().and_then(|token| token.split_once(':'));
        let (version, start) = token
            .map_or((self.version, 0), |(version, start)| (version.parse().unwrap_or(0), start.parse().unwrap_or(0)));
        if version < self.oldest || (token.is_some() && version != self.version) {
            return Err(Status::expired("The provided continue parameter is too old.").into());
        }
        let from_cache = options.resource_version.is_some() && self.page_size.is_none();
        let limit = options.limit.filter(|_| !from_cache).map_or(usize::MAX, |limit| limit as usize);
        let limit = self.page_size.filter(|_| options.limit.is_some()).unwrap_or(limit);
        let page = self.objects.values().skip(start).take(limit);
        let mut items: Vec<_> = page.map(|(_, object)| ListItem::Object(item(object))).collect();
        let end = start + items.len();
        let left = self.objects.len().saturating_sub(end);
        items.push(ListItem::End(ListMeta {
            resource_version: version.into(),
            continue_token: (left > 0).then(|| format!("{version}:{end}")),
            remaining: (left > 0).then(|| i64::try_from(left).unwrap_or(i64::MAX)),
            ..ListMeta::default()
        }));
        Ok(items)
    }

    fn watch(
        &mut self,
        options: WatchOptions,
    ) -> Result<mpsc::UnboundedReceiver<Result<RawEvent, ListWatchError>>, ListWatchError> {
        let from = options.resource_version.as_deref().unwrap_or_default().parse().unwrap_or(0);
        let initial = options.initial_events == InitialEvents::Send;
        self.note(Request::Watch(options));
        self.check(Verb::Watch)?;
        // Unbounded: a test sends a limited number of events.
        let (sender, receiver) = mpsc::unbounded_channel();
        let send = |event: RawEvent| _ = sender.send(Ok(event));
        if initial && self.watch_list == WatchList::Refused {
            let message = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            return Err(Status::failure(422, windlass_api::reason::INVALID, message).into());
        }
        if initial && from > self.version {
            return Err(Status::too_large_resource_version(from, self.version).into());
        }
        if initial || from == 0 {
            for (_, object) in self.objects.values() {
                send(RawEvent { event_type: EventType::Added, body: object.to_string().into() });
            }
            if initial && !self.holds_initial_end {
                send(bookmark(self.version, true));
            }
        } else if from < self.oldest {
            let status = Status::expired(format!("too old resource version: {from} ({})", self.oldest));
            send(RawEvent {
                event_type: EventType::Error,
                body: serde_json::to_vec(&status).unwrap_or_default().into(),
            });
            return Ok(receiver);
        } else {
            for logged in self.history.iter().filter(|logged| logged.version > from) {
                send(logged.event.clone());
            }
        }
        self.watches.push(OpenWatch { events: sender, awaits_initial_end: initial && self.holds_initial_end });
        Ok(receiver)
    }

    fn note(&mut self, request: Request) {
        let now = Instant::now();
        let before = self.last.filter(|(last, _)| *last == now).map_or(0, |(_, times)| times);
        assert!(before < LOOP, "{LOOP} requests without any time passing, the last one: {request:?}");
        self.last = Some((now, before + 1));
        self.requests.push(request);
    }

    fn check(&mut self, verb: Verb) -> Result<(), ListWatchError> {
        match self.failures.iter().position(|(failing, _)| *failing == verb) {
            Some(at) => Err(self.failures.remove(at).1),
            None => Ok(()),
        }
    }

    fn publish(&mut self, event_type: EventType, object: &Value) {
        let event = RawEvent { event_type, body: object.to_string().into() };
        self.send(&event);
        self.history.push(Logged { version: self.version, event });
    }

    fn send(&mut self, event: &RawEvent) {
        self.watches.retain(|watch| watch.events.send(Ok(event.clone())).is_ok());
    }
}

/// Returns the output of a future, or fails instead of letting the test hang. With a paused clock, the timeout of an
/// hour costs nothing.
#[cfg(test)]
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    use std::time::Duration;
    use tokio::runtime::{Handle, RuntimeFlavor};
    let patience = match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => Duration::from_hours(1),
        _ => Duration::from_secs(30),
    };
    tokio::time::timeout(patience, future).await.expect("the future becomes ready in time")
}

/// Creates a cache entry of an object, for tests.
pub fn cached<K>(resource: ApiResource, object: &impl Serialize) -> Result<Cached<K>, UnreadableObject> {
    let body = serde_json::to_vec(object).map_err(|error| UnreadableObject::Meta(MetaError::from(error)))?;
    Ingest::alone(resource, ManagedFieldsMode::Keep).read(&body)
}

/// Returns an error if the object is too large.
fn within(limit: Option<usize>, place: Place, body: &Bytes) -> Result<(), ListWatchError> {
    match limit {
        Some(limit) if body.len() > limit => {
            let (meta, size) = (Meta::parse_start(&body[..limit]), body.len() as u64);
            Err(ListWatchError::Oversize(Box::new(Oversize { place, meta, size, limit })))
        }
        _ => Ok(()),
    }
}

/// Encodes a list item. List items have no `kind` and no `apiVersion`.
fn item(object: &Value) -> Bytes {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        members.shift_remove("kind");
        members.shift_remove("apiVersion");
    }
    object.to_string().into()
}

fn bookmark(version: u64, ends_initial: bool) -> RawEvent {
    let version = ResourceVersion::from(version);
    let mut body = json!({"metadata": {"resourceVersion": version}});
    if ends_initial {
        body["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    RawEvent { event_type: EventType::Bookmark, body: body.to_string().into() }
}

fn key_of(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().expect("an object has a name");
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}
