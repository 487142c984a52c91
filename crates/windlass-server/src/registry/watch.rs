//! Watching: where it starts, what of an event a watcher with selectors sees, bookmarks, the end.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::time::{Instant, sleep_until};
use windlass_api::{EventType, Status};

use super::{
    Derived, Errors, Item, Path, Registry, ResourceInfo, Selection, Target,
    list::{is_about, list_options},
    read::parse_uint,
    select::Facts,
    storage_failure,
};
use crate::{
    codec::{protobuf_frame, to_protobuf},
    storage::{RangeQuery, Revision, StorageError, StoredValue},
    watch_cache::{SharedEvent, Subscription},
};

/// How to watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchParams {
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    pub(crate) resource_version: Option<String>,
    /// Only `NotOlderThan`, and only with `send_initial_events`.
    pub(crate) version_match: Option<String>,
    pub(crate) send_initial_events: Option<bool>,
    /// Whether the client understands bookmarks.
    pub(crate) bookmarks: bool,
    /// When to end; none: after half an hour to an hour.
    pub(crate) timeout: Option<Duration>,
}

/// One watch of one client. Dropping it ends it; there is no task behind it.
pub(crate) struct WatchSession {
    interest: Interest,
    /// The state to begin with, in key order, as far as it has not been looked at.
    initial: std::vec::IntoIter<StoredValue>,
    /// What of it comes next.
    ready: VecDeque<WatchEvent>,
    /// The revision of that state, until the bookmark after it has been sent; none: there is no such bookmark.
    initial_end: Option<Revision>,
    /// What to say before closing.
    failure: Option<Status>,
    /// Has come, and is yet to be shown.
    pending: Option<Arc<SharedEvent<Derived>>>,
    /// None once it is closed.
    events: Option<Subscription<Derived>>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
}

/// What a watcher wants to see, and how.
struct Interest {
    resource: Arc<ResourceInfo>,
    selection: Selection,
    /// The key, or the prefix of the keys, that it is about.
    topic: String,
}

/// An object that a watcher selects.
enum Seen {
    /// Yet to be converted to what the watcher asks for.
    Stored(Item),
    Shown(Item),
}

/// What a watcher gets to see.
#[derive(Debug)]
pub(crate) enum WatchItem {
    Event(WatchEvent),
    /// Everything up to this revision has been sent. `initial_end`: and with that, the state to begin with.
    Bookmark {
        revision: Revision,
        initial_end: bool,
    },
    /// The watch ends after it.
    Error(Status),
}

/// One change, as it concerns one watcher.
#[derive(Debug)]
pub(crate) struct WatchEvent {
    /// Added, modified or deleted.
    pub(crate) kind: EventType,
    /// The object after the change; its last state that was selected, if it is deleted.
    pub(crate) item: Item,
    /// Set if all watchers of the stored version get this very frame.
    shared: Option<Arc<SharedEvent<Derived>>>,
}

/// How many objects of the state to begin with are looked at, and converted, at a time.
const INITIAL_PAGE: usize = 500;
const BOOKMARK_PERIOD: Duration = Duration::from_mins(1);
/// How long before its end a watch gets its last bookmark.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
const MIN_TIMEOUT: Duration = Duration::from_mins(30);

impl Registry {
    /// Watches a collection.
    pub(crate) async fn watch(&self, target: &Target, params: WatchParams) -> Result<WatchSession, Status> {
        let selection = Selection::parse(params.labels.as_deref(), params.fields.as_deref())?;
        check(&params)?;
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
            initial: Vec::new().into_iter(),
            ready: VecDeque::new(),
            initial_end: None,
            failure: None,
            pending: None,
            events: None,
            bookmarks: params.bookmarks,
            next_bookmark: following_bookmark(now, deadline),
            deadline,
        };
        let after = if send_initial {
            if let Some(revision) = version {
                self.wait_for(revision).await?;
            }
            session.begin(self).await?
        } else {
            match version {
                Some(revision) => revision,
                None => self.0.storage.revision().await.map_err(|error| storage_failure(&error))?,
            }
        };
        match self.0.watches.subscribe(&session.interest.topic, after).await {
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
    /// What is next; none when the watch is over. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<WatchItem> {
        if let Some(failure) = self.failure.take() {
            return Some(WatchItem::Error(failure));
        }
        while self.ready.is_empty() && !self.initial.as_slice().is_empty() {
            let values = self.initial.as_slice();
            let values = &values[..values.len().min(INITIAL_PAGE)];
            let count = values.len();
            // They are taken once they can be shown.
            match self.interest.initial_events(values).await {
                Ok(events) => self.ready = events,
                Err(status) => return Some(self.fail(status)),
            }
            self.initial.by_ref().take(count).for_each(drop);
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
                    self.next_bookmark = following_bookmark(Instant::now(), self.deadline);
                    return Some(WatchItem::Bookmark { revision, initial_end: false });
                }
            };
            if self.pending.is_none() {
                self.events = None;
                return None;
            }
        }
    }

    /// Whether an event is there already. None is looked for once the watch is to end.
    pub(crate) fn has_come(&mut self) -> bool {
        if self.pending.is_none() && self.failure.is_none() && Instant::now() < self.deadline {
            self.pending = self.events.as_mut().and_then(Subscription::take);
        }
        self.pending.is_some()
    }

    /// What is watched.
    pub(crate) fn resource(&self) -> &Arc<ResourceInfo> {
        &self.interest.resource
    }

    /// Reads the state to begin with; returns its revision.
    async fn begin(&mut self, registry: &Registry) -> Result<Revision, Status> {
        let query = RangeQuery::prefix(self.interest.topic.clone());
        let range = registry.0.storage.range(query).await.map_err(|error| storage_failure(&error))?;
        self.initial = range.values.into_iter();
        self.initial_end = self.bookmarks.then_some(range.revision);
        Ok(range.revision)
    }

    fn fail(&mut self, status: Status) -> WatchItem {
        self.initial = Vec::new().into_iter();
        self.ready.clear();
        self.initial_end = None;
        self.pending = None;
        self.events = None;
        WatchItem::Error(status)
    }
}

impl Interest {
    async fn initial_events(&self, values: &[StoredValue]) -> Result<VecDeque<WatchEvent>, Status> {
        let values = values.iter().filter(|value| is_about(&self.topic, &value.key));
        let items = values.map(Item::stored).collect::<Result<_, _>>()?;
        let shown = Registry::present_all(&self.resource, items).await?.into_iter().map(Facts::new);
        let selected = shown.filter(|facts| self.selection.matches(&self.resource, facts));
        Ok(selected.map(|facts| WatchEvent { kind: EventType::Added, item: facts.item, shared: None }).collect())
    }

    /// What of an event concerns this watcher.
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
        let natural = kind == natural_kind(shared) && self.resource.conversion.is_none();
        let item = match seen {
            Seen::Stored(item) => Registry::present(&self.resource, item).await?,
            Seen::Shown(item) => item,
        };
        let item = Item { revision: event.revision, ..item };
        Ok(Some(WatchEvent { kind, item, shared: natural.then(|| Arc::clone(shared)) }))
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
        let facts = Facts::new(Registry::present(&self.resource, facts.item.clone()).await?);
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
    /// The event as JSON with a line feed; made once for all watchers that get the same.
    pub(crate) fn frame(&self) -> Bytes {
        match &self.shared {
            Some(shared) => shared.derived.frame.get_or_init(|| self.render()).clone(),
            None => self.render(),
        }
    }

    /// The event as a message behind its length, made once as well; none if there is no message for the object.
    pub(crate) fn protobuf_frame(&self) -> Option<Bytes> {
        let encode = || {
            let object = to_protobuf(&self.item.value())?;
            Some(protobuf_frame(type_name(self.kind), &object).into())
        };
        match &self.shared {
            Some(shared) => shared.derived.protobuf_frame.get_or_init(encode).clone(),
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

/// How the API calls a kind of event.
pub(crate) fn type_name(kind: EventType) -> &'static str {
    match kind {
        EventType::Added => "ADDED",
        EventType::Modified => "MODIFIED",
        EventType::Deleted => "DELETED",
        EventType::Bookmark => "BOOKMARK",
        EventType::Error => "ERROR",
    }
}

/// What an event is to watchers without selectors.
fn natural_kind(shared: &SharedEvent<Derived>) -> EventType {
    match (&shared.event.previous, &shared.event.current) {
        (None, _) => EventType::Added,
        (Some(_), Some(_)) => EventType::Modified,
        (Some(_), None) => EventType::Deleted,
    }
}

/// Bookmarks come every so often, and once shortly before the end.
fn following_bookmark(now: Instant, deadline: Instant) -> Instant {
    let periodic = now + BOOKMARK_PERIOD;
    match deadline.checked_sub(BOOKMARK_BEFORE_END) {
        Some(last) if last > now => periodic.min(last),
        _ => periodic,
    }
}

fn check(params: &WatchParams) -> Result<(), Status> {
    let mut errors = Errors::default();
    let path = Path::new("resourceVersionMatch");
    let given = params.version_match.as_deref().unwrap_or_default();
    if params.send_initial_events.is_some() && given != "NotOlderThan" {
        errors.forbidden(&path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
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
