//! The reflector: lists and watches the objects of one resource on a server, and relists if necessary.
//!
//! [`machine`] makes the decisions; this module carries them out. Changes are pushed into a sink. The informer's sink
//! is the event queue, which slows the watch down when it is full. Errors go to the log and the error hook. A reflector
//! ends only by being dropped, which also ends its running requests.
//!
//! # What is guaranteed
//!
//! - Delivered states never go back to an older version, unless the server itself does.
//! - Every change that the server sends is delivered, or followed by a relist. An unreadable object is reported and
//!   skipped. An object that has become too large to read keeps its last readable state until it is deleted.
//! - Every attempt after the first waits, with delays that grow up to a minute. Only a watch that worked for a while is
//!   followed by the next one immediately.
//!
//! # What is not guaranteed
//!
//! - Not every state of an object is delivered: several changes between two lists appear as one.

pub(crate) mod machine;
mod sink;
mod verify;

#[cfg(test)]
mod tests;

use std::{collections::HashMap, fmt, io, pin::Pin, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, stream::BoxStream};
use indexmap::IndexMap;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout_at};
use windlass_api::{
    ApiResource, BoxError, Entropy, EventType, GroupResource, InitialEvents, ListItem, ListOptions, ListWatch,
    ListWatchError, Meta, Object, ObjectKey, Place, RawEvent, ResourceVersion, Status, WatchOptions,
};

use self::machine::{Effect, Failure, Input, Length, ListWatchParams, Machine, Stage, State, Then};
pub use self::sink::{Mirror, Sink};
use self::verify::Differences;
use crate::{
    backoff::Delays,
    cached::Cached,
    compressor::Compressor,
    decoding,
    error::{InformerError, UnreadableObject},
    event_queue::Delta,
    handler::Deleted,
    ingest::Ingest,
    memory::Memory,
    options::{Decoding, InformerOptions, Reporter, Verification},
    transform::Transform,
};

/// The annotation of the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The time by which a watch may exceed its timeout before its connection is considered dead.
const GRACE: Duration = Duration::from_secs(30);

/// The time by which a watch may end before its timeout and still count as complete; servers count whole seconds.
const EARLY: Duration = Duration::from_secs(5);

/// The interval of log messages about a watch that has not sent all initial events yet.
const PATIENCE: Duration = Duration::from_secs(10);

/// Follows the objects of one resource and pushes each change into a [`Sink`]. This is the first stage of an informer,
/// for programs that need nothing else.
///
/// It never goes back to an older version unless the server does, and ends only by being dropped. It ignores the
/// options `resync` and `queue_capacity`.
///
/// ```
/// # use std::sync::Arc;
/// # use windlass_api::{ListWatch, Resource, k8s_openapi::api::core::v1::Pod};
/// use windlass_cache::{InformerOptions, Mirror, Reflector, collections::ThreadSafeMap};
///
/// # async fn example(list_watch: Arc<dyn ListWatch>) {
/// let pods = Arc::new(ThreadSafeMap::<Pod>::new());
/// let sink = Mirror(Arc::clone(&pods));
/// let reflector = Reflector::new(list_watch, Pod::api_resource(), sink, InformerOptions::default());
/// tokio::spawn(reflector.run()); // keeps `pods` up to date
/// # }
/// ```
pub struct Reflector<K, S> {
    list_watch: Arc<dyn ListWatch>,
    ingest: Ingest<K>,
    compressor: Arc<Mutex<Compressor<K>>>,
    /// The owner of the compression of watched objects.
    compression: Compression,
    /// Decodes an object early; `None` if objects are decoded on use.
    decode: Option<fn(&Cached<K>)>,
    transform: Option<Transform>,
    resource: GroupResource,
    sink: S,
    params: ListWatchParams,
    verification: Verification,
    min_watch_timeout: Duration,
    delays: Delays,
    entropy: Entropy,
    reporter: Reporter,

    watch: Option<OpenWatch>,
    /// The objects received so far from a list or from the initial events of a watch.
    aside: IndexMap<ObjectKey, Cached<K>>,
    /// The start of the list or watch that fills `aside`.
    begun: Instant,
}

impl<K, S> fmt::Debug for Reflector<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector").field("resource", &self.resource).finish_non_exhaustive()
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Compression {
    AtOnce,
    ByOthers,
}

struct OpenWatch {
    events: BoxStream<'static, Result<RawEvent, ListWatchError>>,
    opened: Instant,
    /// Ends at the deadline of the watch. One timer for all waits, because a wait may be as short as one event.
    expiry: Pin<Box<Sleep>>,
    seen: u64,
}

/// The parsed fields of a bookmark.
#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: ResourceVersion,
    #[serde(default)]
    annotations: Option<HashMap<String, String>>,
}

// === impl Reflector ===

impl<K: Object, S: Sink<K>> Reflector<K, S> {
    /// Creates a reflector. `list_watch` must list and watch `resource`.
    pub fn new(
        list_watch: Arc<dyn ListWatch>,
        resource: impl Into<Arc<ApiResource>>,
        sink: S,
        options: InformerOptions,
    ) -> Self {
        let options = InformerOptions { content: K::CONTENT, ..options };
        let memory = Arc::new(Memory::new(resource.into(), &options));
        Self::within(memory, list_watch, sink, &options, decode_early)
    }
}

/// Decodes an object. A failure is counted, and returned to each reader.
fn decode_early<K: Object>(object: &Cached<K>) {
    drop(object.get());
}

impl<K, S: Sink<K>> Reflector<K, S> {
    /// Creates a reflector whose objects count toward an existing memory budget. `options` must have the type's
    /// content. `decode` decodes an object early.
    pub(crate) fn within(
        memory: Arc<Memory>,
        list_watch: Arc<dyn ListWatch>,
        sink: S,
        options: &InformerOptions,
        decode: fn(&Cached<K>),
    ) -> Self {
        Self {
            list_watch,
            resource: memory.resource.gvr().group_resource(),
            compressor: Arc::new(Mutex::new(Compressor::new(Arc::clone(&memory)))),
            compression: Compression::AtOnce,
            decode: (options.decoding == Decoding::Early).then_some(decode),
            ingest: Ingest::new(memory, options.managed_fields),
            transform: options.transform.clone(),
            sink,
            params: ListWatchParams::from(options),
            verification: options.verification,
            min_watch_timeout: options.min_watch_timeout,
            delays: Delays::new(options.backoff, &options.entropy),
            entropy: options.entropy.clone(),
            reporter: Reporter::new(options),
            watch: None,
            aside: IndexMap::new(),
            begun: Instant::now(),
        }
    }

    /// Leaves the compression of watched objects to the caller, so that the indices can be computed first.
    pub(crate) fn leaving_compression(self) -> (Self, Arc<Mutex<Compressor<K>>>) {
        let compressor = Arc::clone(&self.compressor);
        (Self { compression: Compression::ByOthers, ..self }, compressor)
    }

    /// Follows the server. Never returns.
    pub async fn run(mut self) {
        let mut machine = Machine::new(self.params.clone());
        let mut input = Input::Elapsed;
        loop {
            let effect;
            (machine, effect) = machine.step(input);
            input = self.carry_out(effect, machine.state()).await;
        }
    }

    async fn carry_out(&mut self, effect: Effect<K>, state: &State) -> Input<K> {
        match effect {
            Effect::Wait(at_least) => {
                self.close_watch();
                self.aside = IndexMap::new();
                let delay = self.delays.next(Instant::now());
                sleep(delay.max(at_least.unwrap_or_default())).await;
                return Input::Elapsed;
            }
            Effect::List(options) => return self.list(options).await,
            Effect::Probe(options) => return self.probe(options).await,
            Effect::Watch(options) => {
                if let Err(input) = self.open_watch(options, state).await {
                    return input;
                }
            }
            Effect::Replace { version, then } => {
                let objects: Vec<_> = std::mem::take(&mut self.aside).into_values().collect();
                self.compressor.lock().settle(&objects);
                self.reporter.metrics().listed(objects.len(), self.begun.elapsed());
                if then == Then::Continue && self.verification == Verification::Compare {
                    self.verify(&objects, &version).await;
                }
                self.sink.accept(Delta::ReplacedAll { objects, version }).await;
                if let Then::Watch(options) = then
                    && let Err(input) = self.open_watch(options, state).await
                {
                    return input;
                }
            }
            Effect::Collect(object) => self.set_aside(object),
            Effect::Discard(object) => {
                self.aside.shift_remove(object.key());
            }
            Effect::Forward(delta) => {
                if self.compression == Compression::AtOnce
                    && let Some(object) = delta.object()
                {
                    self.compressor.lock().compress(object);
                }
                self.sink.accept(delta).await;
            }
            Effect::Continue => {}
        }
        self.next_event(state).await
    }

    async fn list(&mut self, options: ListOptions) -> Input<K> {
        self.close_watch();
        if options.continue_token.is_none() {
            self.aside = IndexMap::new();
            self.begun = Instant::now();
        }
        let failed = |this: &Self, source: ListWatchError| {
            let failure = failure_of(&source);
            this.reporter.report(&InformerError::List { resource: this.resource.clone(), source });
            Input::ListFailed(failure)
        };
        let list_watch = Arc::clone(&self.list_watch);
        let mut items = match list_watch.list(options).await {
            Ok(items) => items,
            Err(error) => return failed(self, error),
        };
        while let Some(item) = items.next().await {
            match item {
                Ok(ListItem::Object(body)) => {
                    if let Some(object) = self.read(EventType::Added, &body) {
                        self.set_aside(object);
                    }
                }
                Ok(ListItem::End(meta)) => return Input::PageEnded(meta),
                Err(ListWatchError::Oversize(object)) => {
                    self.keep_known(object.meta.as_ref());
                    self.report_object(UnreadableObject::TooLarge(object));
                }
                Err(error) => return failed(self, error),
            }
        }
        failed(self, ListWatchError::Transport("the list was cut off".into()))
    }

    async fn probe(&mut self, options: ListOptions) -> Input<K> {
        self.close_watch();
        let list_watch = Arc::clone(&self.list_watch);
        let version = async {
            let mut items = list_watch.list(options).await?;
            while let Some(item) = items.next().await {
                match item {
                    Ok(ListItem::End(meta)) => return Ok(meta.resource_version),
                    // Only the version matters.
                    Ok(ListItem::Object(_)) | Err(ListWatchError::Oversize(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            Err(ListWatchError::Transport("the list was cut off".into()))
        };
        match version.await {
            Ok(version) => Input::Probed(version),
            Err(source) => {
                let failure = failure_of(&source);
                self.reporter.report(&InformerError::List { resource: self.resource.clone(), source });
                Input::ProbeFailed(failure)
            }
        }
    }

    /// Opens a watch. Returns the input that describes the failure as `Err`.
    async fn open_watch(&mut self, mut options: WatchOptions, state: &State) -> Result<(), Input<K>> {
        self.close_watch();
        if options.initial_events == InitialEvents::Send {
            self.aside = IndexMap::new();
            self.begun = Instant::now();
        }
        let timeout = self.entropy.jitter(self.min_watch_timeout, 1.0);
        options.timeout = Some(timeout);
        let opened = Instant::now();
        let list_watch = Arc::clone(&self.list_watch);
        let answer = timeout_at(opened + timeout + GRACE, list_watch.watch(options)).await;
        match answer.unwrap_or_else(|_| Err(ListWatchError::Transport("no answer came".into()))) {
            Ok(events) => {
                self.reporter.metrics().watch_opened();
                let expiry = Box::pin(sleep_until(opened + timeout + GRACE));
                self.watch = Some(OpenWatch { events, opened, expiry, seen: 0 });
                Ok(())
            }
            Err(error) => Err(self.watch_failed(Stage::Opening, error, state)),
        }
    }

    /// Returns the next event of the watch.
    async fn next_event(&mut self, state: &State) -> Input<K> {
        loop {
            let Some(watch) = &mut self.watch else {
                debug_assert!(false, "no watch is open in {state:?}");
                return Input::WatchClosed(Length::VeryShort);
            };
            let is_initial = matches!(state, State::Streaming { .. });
            // Most events have already arrived: this avoids a timer.
            let arrived = watch.events.next().now_or_never();
            let event = if let Some(event) = arrived {
                event
            } else {
                tokio::select! {
                    biased;
                    event = watch.events.next() => event,
                    () = &mut watch.expiry => None,
                    // The block creates the timer only if the branch is enabled.
                    () = async { sleep(PATIENCE).await }, if is_initial => {
                        let (resource, objects) = (&self.resource, self.aside.len());
                        tracing::warn!(%resource, objects, "still waiting for the bookmark that ends the initial events");
                        continue;
                    }
                }
            };
            let event = match event {
                None => return self.watch_closed(),
                Some(Ok(event)) => event,
                Some(Err(ListWatchError::Oversize(object))) => {
                    watch.seen += 1;
                    let input = match object.place {
                        Place::Event(_, event_type) => self.skip_oversize(event_type, object.meta.as_ref(), state),
                        Place::Item(_) => None,
                    };
                    self.report_object(UnreadableObject::TooLarge(object));
                    match input {
                        Some(input) => return input,
                        None => continue,
                    }
                }
                Some(Err(error @ ListWatchError::Transport(_))) => {
                    self.report_watch(error);
                    return match self.watch_closed() {
                        Input::WatchClosed(Length::Normal) => Input::WatchClosed(Length::Cut),
                        closed => closed,
                    };
                }
                Some(Err(error)) => return self.watch_failed(Stage::Open, error, state),
            };
            watch.seen += 1;
            self.reporter.metrics().event(event.event_type);
            let delta: fn(Cached<K>) -> Delta<K> = match event.event_type {
                EventType::Error => {
                    let error = match decoding::decode::<Status>(&event.body) {
                        Ok(status) => ListWatchError::from(status),
                        Err(failure) => ListWatchError::Decode(failure.source.into()),
                    };
                    return self.watch_failed(Stage::Open, error, state);
                }
                EventType::Bookmark => match decoding::decode::<Bookmark>(&event.body) {
                    Ok(Bookmark { metadata }) => {
                        let annotations = metadata.annotations.unwrap_or_default();
                        let version = metadata.resource_version;
                        return match annotations.get(INITIAL_EVENTS_END).map(String::as_str) {
                            Some("true") => Input::InitialEventsEnd(version),
                            _ => Input::Event(Delta::Bookmark(version)),
                        };
                    }
                    Err(failure) => {
                        let error = ListWatchError::Decode(failure.source.into());
                        return self.watch_failed(Stage::Open, error, state);
                    }
                },
                EventType::Added => Delta::Added,
                EventType::Modified => Delta::Updated,
                EventType::Deleted => |object| Delta::Deleted(Deleted::final_state(object)),
            };
            if let Some(object) = self.read(event.event_type, &event.body) {
                return Input::Event(delta(object));
            }
        }
    }

    /// Reads an object. Reports the error and returns `None` if it is unreadable or the transform fails.
    fn read(&mut self, event_type: EventType, body: &[u8]) -> Option<Cached<K>> {
        let object = self.read_transformed(event_type, body)?;
        if let Some(decode) = self.decode {
            decode(&object);
        }
        Some(object)
    }

    fn read_transformed(&mut self, event_type: EventType, body: &[u8]) -> Option<Cached<K>> {
        let object = match self.ingest.read(body) {
            Ok(object) => object,
            Err(source) => {
                self.report_object(source);
                return None;
            }
        };
        let Some(transform) = self.transform.clone() else { return Some(object) };
        match self.transformed(&transform, &object) {
            Ok(transformed) => Some(transformed),
            Err(source) => {
                self.report_object(UnreadableObject::Transform { key: object.key().clone(), source });
                // Without this, the object would stay in the cache forever.
                (event_type == EventType::Deleted).then_some(object)
            }
        }
    }

    /// Handles an event whose object is too large to be read. Returns `None` if no action is required.
    fn skip_oversize(&mut self, event_type: EventType, meta: Option<&Meta>, state: &State) -> Option<Input<K>> {
        self.reporter.metrics().event(event_type);
        match (state, event_type) {
            (_, EventType::Deleted) => {
                // Relist: a list shows which objects were deleted without sending the large one.
                self.close_watch();
                Some(Input::WatchFailed(Stage::Open, Failure::Other))
            }
            (State::Streaming { .. }, _) => {
                self.keep_known(meta);
                None
            }
            // The ADDED events of a watch without a version don't indicate progress.
            (State::Watching { catching_up: true }, EventType::Added) => None,
            // Advances the version, so that the next watch does not start with this event again.
            _ => meta.map(|meta| Input::Event(Delta::Bookmark(meta.resource_version().clone()))),
        }
    }

    /// Sets the last known state of an object aside, if there is one: the object exists, and is too large to be read.
    fn keep_known(&mut self, meta: Option<&Meta>) {
        let Some(meta) = meta else { return };
        let known = self.aside.get(meta.key()).cloned().or_else(|| self.sink.known(meta.key()));
        if let Some(known) = known.filter(|known| known.meta().uid() == meta.uid()) {
            self.aside.insert(known.key().clone(), known);
        }
    }

    fn report_object(&self, source: UnreadableObject) {
        self.reporter.report(&InformerError::Object { resource: self.resource.clone(), source });
    }

    fn transformed(&mut self, transform: &Transform, object: &Cached<K>) -> Result<Cached<K>, BoxError> {
        let transformed = self.ingest.read(&transform.apply(&object.bytes())?)?;
        if transformed.key() == object.key() && transformed.is_same_state(object) {
            Ok(transformed)
        } else {
            Err("it changed the object's name, namespace, uid or resourceVersion".into())
        }
    }

    /// Reports the differences between the initial events of a watch and a list.
    async fn verify(&mut self, streamed: &[Cached<K>], version: &ResourceVersion) {
        let options = self.params.list_options();
        match verify::compare(&self.list_watch, options, version, streamed).await {
            Ok(Differences(keys)) if keys.is_empty() => {}
            Ok(Differences(keys)) => {
                let (resource, version) = (self.resource.clone(), version.clone());
                self.reporter.report(&InformerError::Inconsistent { resource, version, keys });
            }
            Err(source) => self.reporter.report(&InformerError::List { resource: self.resource.clone(), source }),
        }
    }

    fn set_aside(&mut self, object: Cached<K>) {
        let known = self.sink.known(object.key());
        let same = known.filter(|known| known.is_same_state(&object) && !object.meta().resource_version().is_empty());
        let object = same.unwrap_or(object);
        self.compressor.lock().compress(&object);
        self.aside.insert(object.key().clone(), object);
    }

    fn watch_failed(&mut self, when: Stage, error: ListWatchError, state: &State) -> Input<K> {
        let failure = failure_of(&error);
        if matches!((state, failure), (State::Streaming { .. }, Failure::Other)) {
            // It is not an error if a server does not support initial events.
            let resource = &self.resource;
            tracing::debug!(%resource, cause = crate::error::causes(&error), "no watch with initial events; listing instead");
        } else {
            self.report_watch(error);
        }
        self.close_watch();
        Input::WatchFailed(when, failure)
    }

    fn watch_closed(&mut self) -> Input<K> {
        let length = self.watch.as_ref().map_or(Length::VeryShort, |watch| {
            let (now, deadline) = (Instant::now(), watch.expiry.deadline());
            let asked = deadline - GRACE;
            if watch.seen == 0 && watch.opened.elapsed() < Duration::from_secs(1) {
                Length::VeryShort
            } else if now + EARLY < asked || now >= deadline {
                Length::Cut
            } else {
                Length::Normal
            }
        });
        self.close_watch();
        Input::WatchClosed(length)
    }

    fn close_watch(&mut self) {
        if let Some(watch) = self.watch.take() {
            self.reporter.metrics().watch_ended(watch.seen, watch.opened.elapsed());
        }
    }

    fn report_watch(&self, source: ListWatchError) {
        self.reporter.report(&InformerError::Watch { resource: self.resource.clone(), source });
    }
}

fn failure_of(error: &ListWatchError) -> Failure {
    if error.is_expired() {
        return Failure::Expired;
    }
    if error.is_too_large_resource_version() {
        return Failure::TooLarge;
    }
    match error {
        ListWatchError::Status(status) if status.code == 429 => Failure::TooManyRequests(error.retry_after()),
        ListWatchError::Transport(_) if is_refused(error) => Failure::Refused,
        _ => Failure::Other,
    }
}

fn is_refused(error: &ListWatchError) -> bool {
    crate::error::sources(error)
        .filter_map(|error| error.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}
