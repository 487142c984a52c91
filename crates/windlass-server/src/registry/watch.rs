//! The `watch` verb: start, filtering of events by selectors, bookmarks, and end.
//!
//! The start parses the resource version. `WatchCache::subscribe` replays the events after it.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::time::{Instant, sleep_until};
use windlass_api::{EventType, Status};

use super::{
    Derived, Registry, Selection,
    list::{is_about, list_options, read_values},
    read::parse_uint,
    select::Facts,
    storage_failure,
};
use crate::{
    budget::HeldBytes,
    codec::{cbor_frame, protobuf_frame},
    storage::{CompactValue, RangeQuery, Revision, StorageError, StoredValue},
    watch_cache::{SharedEvent, Subscription},
};
use crate::{
    kubernetes::KubernetesVersion,
    object::{Errors, Path},
    resource::{Item, ResourceInfo, Target},
};

mod initial;

use self::initial::Initial;

/// The parameters of a watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchParams {
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    pub(crate) resource_version: Option<String>,
    /// Only `NotOlderThan` is valid, and only with `send_initial_events`.
    pub(crate) version_match: Option<String>,
    pub(crate) send_initial_events: Option<bool>,
    /// `true` if the client accepts bookmarks.
    pub(crate) bookmarks: bool,
    /// The duration of the watch. Defaults to a random time between 30 and 60 minutes.
    pub(crate) timeout: Option<Duration>,
}

/// One watch of one client. Dropping it ends the watch; it has no task.
pub(crate) struct WatchSession {
    interest: Interest,
    initial: Initial,
    /// The next events of the initial state.
    ready: VecDeque<WatchEvent>,
    /// The revision of the initial state, until the bookmark after it has been sent; `None` if there is no such
    /// bookmark.
    initial_end: Option<Revision>,
    /// The error to send before closing.
    failure: Option<Status>,
    /// An event that has been received but not yet processed.
    pending: Option<Arc<SharedEvent<Derived>>>,
    /// The subscription; `None` once the watch is closed.
    events: Option<Subscription<Derived>>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
}

/// The resource and the objects that a watcher selects.
struct Interest {
    resource: Arc<ResourceInfo>,
    selection: Selection,
    /// The watched key, or the prefix of the watched keys.
    topic: String,
}

/// An object that a watcher selects.
enum Seen {
    /// Not yet converted to the requested version.
    Stored(Item),
    Shown(Item),
}

/// An item of a watch's output.
#[derive(Debug)]
pub(crate) enum WatchItem {
    Event(WatchEvent),
    /// All events up to this revision have been sent. `initial_end` marks the end of the initial state.
    Bookmark {
        revision: Revision,
        initial_end: bool,
    },
    /// The last item of the watch.
    Error(Status),
}

/// One change, from the view of one watcher.
#[derive(Debug)]
pub(crate) struct WatchEvent {
    /// The event type: added, modified or deleted.
    pub(crate) kind: EventType,
    /// The object after the change; for a deletion, its last selected state.
    pub(crate) item: Item,
    /// The shared event; set if all watchers of the stored version receive the same frame.
    shared: Option<Arc<SharedEvent<Derived>>>,
}

const BOOKMARK_PERIOD: Duration = Duration::from_mins(1);
/// The time between the last bookmark and the end of a watch.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
const MIN_TIMEOUT: Duration = Duration::from_mins(30);

impl Registry {
    /// Watches a collection.
    pub(crate) async fn watch(&self, target: &Target, params: WatchParams) -> Result<WatchSession, Status> {
        let selection = Selection::parse(params.labels.as_deref(), params.fields.as_deref())?;
        check(&params, self.resources().kubernetes())?;
        if !target.resource.has_verb("watch") {
            let plural = &target.resource.plural;
            let mut status = Status::method_not_allowed();
            status.message = format!("watch is not supported on resources of kind {plural:?}");
            status.details.get_or_insert_default().kind.clone_from(plural);
            return Err(status);
        }
        selection.check(&target.resource)?;
        let topic = selection.topic(target);
        let version = match params.resource_version.as_deref() {
            None | Some("" | "0") => None,
            Some(text) => Some(Revision(
                parse_uint(text)
                    .map_err(|why| Status::unclassified(format!("resourceVersion: Invalid value: {text:?}: {why}")))?,
            )),
        };
        let send_initial = params.send_initial_events.unwrap_or(version.is_none());
        let timeout = params.timeout.unwrap_or_else(|| self.entropy().jitter(MIN_TIMEOUT, 1.0));
        let now = Instant::now();
        let deadline = now + timeout;
        let mut session = WatchSession {
            interest: Interest { resource: Arc::clone(&target.resource), selection, topic },
            initial: Initial::default(),
            ready: VecDeque::new(),
            initial_end: None,
            failure: None,
            pending: None,
            events: None,
            bookmarks: params.bookmarks,
            next_bookmark: next_bookmark_time(now, deadline),
            deadline,
        };
        let after = if send_initial {
            if let Some(revision) = version {
                self.wait_for(revision).await?;
            }
            let revision = session.begin(self).await?;
            // The feature WatchList, with which a bookmark marks the end of the initial state.
            if self.resources().kubernetes() < KubernetesVersion::V1_34 {
                session.initial_end = None;
            }
            revision
        } else {
            match version {
                Some(revision) => revision,
                None => self.0.storage.revision().await.map_err(|error| storage_failure(&error))?,
            }
        };
        let selected = session.interest.selection.indexed(&target.resource);
        let selected = selected.filter(|_| session.interest.topic.ends_with('/'));
        match self.0.watches.subscribe_to(&session.interest.topic, selected, after).await {
            Ok(events) => session.events = Some(events),
            Err(StorageError::Compacted { oldest }) => {
                session.failure = Some(Status::expired(format!("too old resource version: {after} ({oldest})")));
            }
            Err(error) => return Err(storage_failure(&error)),
        }
        Ok(session)
    }
}

impl WatchSession {
    /// Returns the next item; `None` after the end of the watch. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<WatchItem> {
        if let Some(failure) = self.failure.take() {
            return Some(WatchItem::Error(failure));
        }
        while self.ready.is_empty() && !self.initial.page().is_empty() {
            let values = self.initial.page();
            let count = values.len();
            // The values are removed only after they have been converted, so that the method is cancel-safe.
            match self.interest.initial_events(values).await {
                Ok(events) => self.ready = events,
                Err(status) => return Some(self.fail(status)),
            }
            self.initial.remove(count);
        }
        if let Some(event) = self.ready.pop_front() {
            return Some(WatchItem::Event(event));
        }
        if let Some(revision) = self.initial_end.take() {
            return Some(WatchItem::Bookmark { revision, initial_end: true });
        }
        loop {
            if let Some(event) = &self.pending {
                let event = self.interest.event(event).await;
                self.pending = None;
                match event {
                    Ok(None) => {}
                    Ok(Some(event)) => return Some(WatchItem::Event(event)),
                    Err(status) => return Some(self.fail(status)),
                }
            }
            let events = self.events.as_mut()?;
            self.pending = tokio::select! {
                biased;
                () = sleep_until(self.deadline) => None,
                event = events.next() => event,
                () = sleep_until(self.next_bookmark), if self.bookmarks => {
                    let revision = events.progress();
                    self.next_bookmark = next_bookmark_time(Instant::now(), self.deadline);
                    return Some(WatchItem::Bookmark { revision, initial_end: false });
                }
            };
            if self.pending.is_none() {
                self.events = None;
                return None;
            }
        }
    }

    /// Reports whether an event is available. Ignores events after the deadline.
    pub(crate) fn is_event_ready(&mut self) -> bool {
        if self.pending.is_none() && self.failure.is_none() && Instant::now() < self.deadline {
            self.pending = self.events.as_mut().and_then(Subscription::take);
        }
        self.pending.is_some()
    }

    /// Returns the watched resource.
    pub(crate) fn resource(&self) -> &Arc<ResourceInfo> {
        &self.interest.resource
    }

    /// Returns the bytes that the rest of the initial state occupies. `None` without an initial state.
    pub(crate) fn initial_bytes(&self) -> Option<HeldBytes> {
        self.initial.held()
    }

    /// Reads the initial state and returns its revision.
    async fn begin(&mut self, registry: &Registry) -> Result<Revision, Status> {
        let Interest { resource, selection, topic } = &self.interest;
        let read = async {
            if let Some(found) = registry.find_indexed(resource, topic, selection, None).await? {
                return Ok(found);
            }
            let range = registry.0.storage.range_compact(RangeQuery::prefix(topic.clone())).await?;
            Ok((range.revision, range.values))
        };
        let (revision, values) = read.await.map_err(|error: StorageError| storage_failure(&error))?;
        self.initial = Initial::new(values, !registry.0.storage.shares_values());
        self.initial_end = self.bookmarks.then_some(revision);
        Ok(revision)
    }

    fn fail(&mut self, status: Status) -> WatchItem {
        self.initial = Initial::default();
        self.ready.clear();
        self.initial_end = None;
        self.pending = None;
        self.events = None;
        WatchItem::Error(status)
    }
}

impl Interest {
    async fn initial_events(&self, values: &[CompactValue]) -> Result<VecDeque<WatchEvent>, Status> {
        let values = values.iter().filter(|value| is_about(&self.topic, &value.key)).cloned().collect();
        let shown = Registry::convert_items(&self.resource, read_values(values).await?).await?;
        let selected = self.selection.select(&self.resource, shown).await?.into_iter();
        Ok(selected.map(|(_, facts)| WatchEvent { kind: EventType::Added, item: facts.item, shared: None }).collect())
    }

    /// Returns the event from the view of this watcher, or `None` if it does not concern it.
    async fn event(&self, shared: &Arc<SharedEvent<Derived>>) -> Result<Option<WatchEvent>, Status> {
        let event = &shared.event;
        let before = self.selected(event.previous.as_ref(), &shared.derived.previous).await?;
        let after = self.selected(event.current.as_ref(), &shared.derived.current).await?;
        let (kind, seen) = match (before, after) {
            (None, Some(after)) => (EventType::Added, after),
            (Some(_), Some(after)) => (EventType::Modified, after),
            (Some(before), None) => (EventType::Deleted, before),
            (None, None) => return Ok(None),
        };
        let unfiltered = kind == unfiltered_kind(shared) && self.resource.conversion.is_none();
        let item = match seen {
            Seen::Stored(item) => Registry::convert_item(&self.resource, item).await?,
            Seen::Shown(item) => item,
        };
        let item = Item { revision: event.revision, ..item };
        Ok(Some(WatchEvent { kind, item, shared: unfiltered.then(|| Arc::clone(shared)) }))
    }

    async fn selected(
        &self,
        value: Option<&StoredValue>,
        slot: &std::sync::OnceLock<Result<Facts, Status>>,
    ) -> Result<Option<Seen>, Status> {
        let Some(value) = value else { return Ok(None) };
        let facts = slot.get_or_init(|| Item::stored(value).map(Facts::new)).as_ref().map_err(Clone::clone)?;
        if self.selection.is_empty() || self.resource.conversion.is_none() {
            let selected = self.selection.matches(&self.resource, facts);
            return Ok(selected.then(|| Seen::Stored(facts.item.clone())));
        }
        let facts = Facts::new(Registry::convert_item(&self.resource, facts.item.clone()).await?);
        Ok(self.selection.matches(&self.resource, &facts).then_some(Seen::Shown(facts.item)))
    }
}

impl std::fmt::Debug for WatchSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchSession")
            .field("topic", &self.interest.topic)
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

impl WatchEvent {
    /// Returns the event as a line of JSON. It is encoded once for all watchers that share it.
    pub(crate) fn frame(&self) -> Bytes {
        match &self.shared {
            Some(shared) => shared.derived.frame.get_or_init(|| self.render()).clone(),
            None => self.render(),
        }
    }

    /// Returns the event as a length-prefixed protobuf message, also encoded once. Returns `None` if the object has no
    /// protobuf message.
    pub(crate) fn protobuf_frame(&self) -> Option<Bytes> {
        let encode = || {
            let mut json = Vec::with_capacity(self.item.encoded.len_hint());
            self.item.render(&mut json);
            protobuf_frame(type_name(self.kind), &json).map(Bytes::from)
        };
        match &self.shared {
            Some(shared) => shared.derived.protobuf_frame.get_or_init(encode).clone(),
            None => encode(),
        }
    }

    /// Returns the event as an item of a CBOR sequence, also encoded once. Returns `None` if the object cannot be converted.
    pub(crate) fn cbor_frame(&self) -> Option<Bytes> {
        let encode = || {
            let mut json = Vec::with_capacity(self.item.encoded.len_hint());
            self.item.render(&mut json);
            cbor_frame(type_name(self.kind), &json).ok().map(Bytes::from)
        };
        match &self.shared {
            Some(shared) => shared.derived.cbor_frame.get_or_init(encode).clone(),
            None => encode(),
        }
    }

    fn render(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.item.encoded.len_hint() + 32);
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(type_name(self.kind).as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        self.item.render(&mut out);
        out.extend_from_slice(b"}\n");
        out.into()
    }
}

/// Returns the API's name of an event type.
pub(crate) fn type_name(kind: EventType) -> &'static str {
    match kind {
        EventType::Added => "ADDED",
        EventType::Modified => "MODIFIED",
        EventType::Deleted => "DELETED",
        EventType::Bookmark => "BOOKMARK",
        EventType::Error => "ERROR",
    }
}

/// Returns the event type for watchers without selectors.
fn unfiltered_kind(shared: &SharedEvent<Derived>) -> EventType {
    match (&shared.event.previous, &shared.event.current) {
        (None, _) => EventType::Added,
        (Some(_), Some(_)) => EventType::Modified,
        (Some(_), None) => EventType::Deleted,
    }
}

/// Returns the time of the next bookmark: periodically, and once shortly before the end.
fn next_bookmark_time(now: Instant, deadline: Instant) -> Instant {
    let periodic = now + BOOKMARK_PERIOD;
    match deadline.checked_sub(BOOKMARK_BEFORE_END) {
        Some(last) if last > now => periodic.min(last),
        _ => periodic,
    }
}

fn check(params: &WatchParams, kubernetes: KubernetesVersion) -> Result<(), Status> {
    let mut errors = Errors::default();
    let path = Path::new("resourceVersionMatch");
    let given = params.version_match.as_deref().unwrap_or_default();
    if params.send_initial_events.is_some() && given != "NotOlderThan" {
        errors.forbidden(&path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    }
    // In 1.33, the feature WatchList is disabled.
    if params.send_initial_events.is_some() && kubernetes < KubernetesVersion::V1_34 {
        let text = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        errors.forbidden(&Path::new("sendInitialEvents"), text);
    }
    if !given.is_empty() {
        if params.send_initial_events.is_none() {
            errors.forbidden(&path, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
        }
        if given != "NotOlderThan" {
            errors.unsupported(&path, given, &["NotOlderThan"]);
        }
    }
    errors.check(&list_options(), "")
}
