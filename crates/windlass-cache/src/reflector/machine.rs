//! The reflector's decisions as a state machine.
//!
//! It performs no I/O, does not wait, and reads nothing but the versions of objects: it takes an object in an [`Input`]
//! and returns it in an [`Effect`]. The driver carries out one effect at a time and passes the outcome back as the next
//! input.

#[cfg(test)]
mod tests;

use std::time::Duration;

use windlass_api::{
    Bookmarks, Content, InitialEvents, ListMeta, ListOptions, ResourceVersion, VersionMatch, WatchOptions,
};

use crate::{
    cached::Cached,
    event_queue::Delta,
    options::{InformerOptions, InitialSync},
};

/// The default page size: the number of objects that one read of the server's storage should return.
const PAGE_SIZE: u32 = 500;

/// The current activity of the reflector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// Waiting for the back-off delay.
    ///
    /// `Elapsed` → `Streaming` or `Listing`, or `Watching` if only the watch has to be reopened.
    Waiting(Next),
    /// Receiving the initial events of a watch; their objects are set aside.
    ///
    /// The bookmark that ends the initial events → `Watching`, with the same watch. The server rejects the request or
    /// fails → `Listing`. The version is too old or too new → `Streaming` at the most recent one. Connection refused,
    /// too many requests, end before the bookmark → `Waiting`, then a new start.
    Streaming {
        /// The minimum version; `None` for the most recent.
        from: Option<ResourceVersion>,
    },
    /// Receiving a page of a list.
    ///
    /// The last page → `Watching`. Another page → the next one. Expired after the first page → the same list without
    /// pages. Expired before, or the version is too new → `Listing` the most recent state, once. Any other failure →
    /// `Waiting`, then a new start.
    Listing {
        /// The minimum version; "0" for any, `None` for the most recent.
        from: Option<ResourceVersion>,
        /// The requested part of the list.
        page: Page,
    },
    /// Watching for changes; the current state is known.
    ///
    /// End of the watch → `Watching` from the last version; after a cut connection, through `Probing`. Connection
    /// refused → `Waiting`, then `Probing`. Too many requests → `Waiting`, then `Watching`. Ended immediately, expired,
    /// or any other failure → `Waiting`, then a new start.
    Watching {
        /// `true` if the watch started without a version; its first ADDED events don't indicate progress then.
        catching_up: bool,
    },
    /// Requesting the server's current version before a watch is resumed. The server was unreachable and may have
    /// another history now, which a watch would not reveal.
    ///
    /// The same version or a later one, or no answer → `Watching`. An earlier version → `Streaming` or `Listing` the
    /// most recent state. Connection refused, too many requests → `Waiting`, then `Probing` again.
    Probing,
}

/// The action after a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Request the whole state again.
    Sync,
    /// Open the watch again, after a probe if the server was unreachable.
    Watch,
}

/// The requested part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Page {
    First,
    /// A later page; the version is the one from the first page.
    Later(ResourceVersion),
    /// The whole list without pages, because the pages had expired.
    Whole,
}

/// An event that the driver passes to the machine.
#[derive(Debug)]
pub(crate) enum Input<K> {
    /// The wait has ended; also the first input.
    Elapsed,
    /// A page of a list is complete.
    PageEnded(ListMeta),
    /// A list failed.
    ListFailed(Failure),
    /// A change of an object arrived, or a bookmark. The event of an object that is too large to be read counts as a
    /// bookmark.
    Event(Delta<K>),
    /// The bookmark that ends the initial events arrived.
    InitialEventsEnd(ResourceVersion),
    /// The watch could not be opened, or sent an error or invalid data.
    WatchFailed(Stage, Failure),
    /// The watch ended, or its connection broke.
    WatchClosed(Length),
    /// The server responded with its current version.
    Probed(ResourceVersion),
    /// The server did not respond with a version.
    ProbeFailed(Failure),
}

/// The stage at which a watch failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Opening,
    Open,
}

/// The duration of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// Less than a second, without any event.
    VeryShort,
    /// The connection broke, or the watch ended too early or did not end after its timeout: the server may have been
    /// unreachable.
    Cut,
    /// About the requested timeout.
    Normal,
}

/// The reason why a request failed, as far as the machine distinguishes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// 410: the version or the continue token has expired.
    Expired,
    /// The server has not reached the version yet.
    TooLarge,
    /// 429, with the server's `Retry-After`.
    TooManyRequests(Option<Duration>),
    /// The connection was refused.
    Refused,
    /// Anything else.
    Other,
}

/// The next action of the driver.
#[derive(Debug)]
pub(crate) enum Effect<K> {
    /// End the running request and wait for the next back-off delay, or this duration if it is longer.
    Wait(Option<Duration>),
    /// Request a page and set its objects aside. A page without a continue token starts a new list.
    List(ListOptions),
    /// Request the server's current version with a list that is as small as possible.
    Probe(ListOptions),
    /// Open a watch. With initial events, discard the objects set aside.
    Watch(WatchOptions),
    /// Deliver the objects set aside as the complete state.
    Replace { version: ResourceVersion, then: Then },
    /// Set the object aside.
    Collect(Cached<K>),
    /// Remove the object from those set aside.
    Discard(Cached<K>),
    /// Deliver the change or the bookmark.
    Forward(Delta<K>),
    /// Continue with the watch.
    Continue,
}

/// The next step after a replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Then {
    /// Continue with the same watch.
    Continue,
    /// Open a new watch.
    Watch(WatchOptions),
}

/// The state machine, with the data that outlives a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    state: State,
    params: ListWatchParams,
    /// The last delivered version; `None` before the first list.
    synced: Option<ResourceVersion>,
    /// `true` if the server could not serve `synced`. Then only the most recent state can be requested.
    unavailable: bool,
    /// `true` if the server may have been unreachable since the last watch started, and may have another history.
    was_away: bool,
    /// `true` if a list of any version was paged: the server has no watch cache, so every list should be paged.
    paged: bool,
}

/// The parameters of every list and watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ListWatchParams {
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    pub(crate) content: Content,
    pub(crate) page_size: Option<u32>,
    pub(crate) initial_sync: InitialSync,
}

impl From<&InformerOptions> for ListWatchParams {
    fn from(options: &InformerOptions) -> Self {
        Self {
            labels: options.labels.clone(),
            fields: options.fields.clone(),
            content: options.content,
            page_size: options.page_size,
            initial_sync: options.initial_sync,
        }
    }
}

impl ListWatchParams {
    pub(crate) fn list_options(&self) -> ListOptions {
        ListOptions {
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            content: self.content,
            ..ListOptions::default()
        }
    }
}

impl Machine {
    /// Creates a machine that expects [`Input::Elapsed`].
    pub(crate) fn new(params: ListWatchParams) -> Self {
        Self {
            state: State::Waiting(Next::Sync),
            params,
            synced: None,
            unavailable: false,
            was_away: false,
            paged: false,
        }
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Returns the next state and effect. An input that is impossible in the current state leads to `Waiting`.
    #[must_use]
    pub(crate) fn step<K>(mut self, input: Input<K>) -> (Self, Effect<K>) {
        let current = std::mem::replace(&mut self.state, State::Waiting(Next::Sync));
        let (next, effect) = match (current, input) {
            (State::Waiting(Next::Sync), Input::Elapsed) => self.sync(),
            (State::Waiting(Next::Watch), Input::Elapsed) => self.watch(),
            (State::Streaming { from }, input) => self.streaming(from, input),
            (State::Listing { from, page }, Input::PageEnded(meta)) => self.page_ended(from, page, meta),
            (State::Listing { from, page }, Input::ListFailed(failure)) => self.list_failed(from, &page, failure),
            (State::Watching { catching_up }, input) => self.watching(catching_up, input),
            (State::Probing, input) => self.probing(input),
            _ => start_over(),
        };
        self.state = next;
        (self, effect)
    }

    fn streaming<K>(&mut self, from: Option<ResourceVersion>, input: Input<K>) -> (State, Effect<K>) {
        match input {
            Input::InitialEventsEnd(version) => {
                self.synced = Some(version.clone());
                self.unavailable = false;
                (State::Watching { catching_up: false }, Effect::Replace { version, then: Then::Continue })
            }
            Input::Event(Delta::Added(object) | Delta::Updated(object)) => {
                (State::Streaming { from }, Effect::Collect(object))
            }
            Input::Event(Delta::Deleted(deleted)) => (State::Streaming { from }, Effect::Discard(deleted.object)),
            Input::Event(Delta::Bookmark(_)) => (State::Streaming { from }, Effect::Continue),
            Input::WatchFailed(_, failure) => match failure {
                Failure::Expired | Failure::TooLarge if from.is_some() => {
                    self.unavailable = true;
                    self.stream()
                }
                Failure::TooManyRequests(after) => wait(Next::Sync, after),
                Failure::Refused => wait(Next::Sync, None),
                Failure::Expired | Failure::TooLarge | Failure::Other => self.list(),
            },
            Input::WatchClosed(Length::VeryShort) => self.list(),
            Input::WatchClosed(Length::Normal | Length::Cut) => wait(Next::Sync, None),
            _ => start_over(),
        }
    }

    fn page_ended<K>(&mut self, from: Option<ResourceVersion>, page: Page, meta: ListMeta) -> (State, Effect<K>) {
        let version = match page {
            Page::Later(first) => first,
            Page::First | Page::Whole => meta.resource_version,
        };
        if let Some(token) = meta.continue_token {
            self.paged |= from.as_ref().is_some_and(|from| from.as_str() == "0");
            let limit = self.limit(from.as_ref());
            let options = ListOptions { limit, continue_token: Some(token), ..self.list_options() };
            return (State::Listing { from, page: Page::Later(version) }, Effect::List(options));
        }
        self.synced = Some(version.clone());
        self.unavailable = false;
        let (next, options) = self.watch_from();
        (next, Effect::Replace { version, then: Then::Watch(options) })
    }

    fn list_failed<K>(&mut self, from: Option<ResourceVersion>, page: &Page, failure: Failure) -> (State, Effect<K>) {
        match (failure, page) {
            (Failure::Expired, Page::Later(_)) => {
                let resource_version = from.as_ref().map(ToString::to_string);
                let options = ListOptions { resource_version, ..self.list_options() };
                (State::Listing { from, page: Page::Whole }, Effect::List(options))
            }
            (Failure::Expired | Failure::TooLarge, _) if from.is_some() => {
                self.unavailable = true;
                self.list()
            }
            (Failure::TooManyRequests(after), _) => wait(Next::Sync, after),
            _ => wait(Next::Sync, None),
        }
    }

    fn watching<K>(&mut self, catching_up: bool, input: Input<K>) -> (State, Effect<K>) {
        match input {
            Input::Event(delta) => self.event(catching_up, delta),
            Input::InitialEventsEnd(version) => self.event(catching_up, Delta::Bookmark(version)),
            Input::WatchFailed(stage, failure) => match (failure, stage) {
                (Failure::TooManyRequests(after), _) => wait(Next::Watch, after),
                (Failure::Refused, Stage::Opening) => {
                    self.was_away = true;
                    wait(Next::Watch, None)
                }
                _ => wait(Next::Sync, None),
            },
            Input::WatchClosed(Length::Normal) => self.watch(),
            Input::WatchClosed(Length::Cut) => {
                self.was_away = true;
                self.watch()
            }
            Input::WatchClosed(Length::VeryShort) => wait(Next::Sync, None),
            _ => start_over(),
        }
    }

    fn event<K>(&mut self, catching_up: bool, delta: Delta<K>) -> (State, Effect<K>) {
        let Some(version) = delta.version() else { return start_over() };
        if !catching_up && self.is_behind(version) {
            // The server has another history now: only its most recent state can be requested.
            self.unavailable = true;
            return wait(Next::Sync, None);
        }
        let catching_up = catching_up && matches!(delta, Delta::Added(_));
        if !catching_up {
            self.synced = Some(version.clone());
        }
        (State::Watching { catching_up }, Effect::Forward(delta))
    }

    fn probing<K>(&mut self, input: Input<K>) -> (State, Effect<K>) {
        match input {
            Input::Probed(version) if self.is_behind(&version) => {
                self.unavailable = true;
                self.sync()
            }
            Input::ProbeFailed(Failure::TooManyRequests(after)) => wait(Next::Watch, after),
            Input::ProbeFailed(Failure::Refused) => wait(Next::Watch, None),
            Input::Probed(_) | Input::ProbeFailed(_) => {
                self.was_away = false;
                self.watch()
            }
            _ => start_over(),
        }
    }

    fn sync<K>(&mut self) -> (State, Effect<K>) {
        self.was_away = false;
        match self.params.initial_sync {
            InitialSync::Watch => self.stream(),
            InitialSync::List => self.list(),
        }
    }

    /// Starts from the last version or a later one, or from the most recent; never from "0", which could be older than
    /// the last one.
    fn stream<K>(&mut self) -> (State, Effect<K>) {
        let from = self.synced.clone().filter(|version| !self.unavailable && is_set(version));
        let options = WatchOptions {
            resource_version: from.as_ref().map(ToString::to_string),
            initial_events: InitialEvents::Send,
            ..self.watch_options()
        };
        (State::Streaming { from }, Effect::Watch(options))
    }

    fn list<K>(&mut self) -> (State, Effect<K>) {
        let from = match &self.synced {
            _ if self.unavailable => None,
            None => Some(ResourceVersion::from("0")),
            Some(version) => Some(version.clone()).filter(|version| !version.is_empty()),
        };
        let limit = self.limit(from.as_ref());
        // A limit together with a version would request exactly that version.
        let exact = limit.is_some() && from.as_ref().is_some_and(is_set);
        let options = ListOptions {
            limit,
            resource_version: from.as_ref().map(ToString::to_string),
            version_match: exact.then_some(VersionMatch::NotOlderThan),
            ..self.list_options()
        };
        (State::Listing { from, page: Page::First }, Effect::List(options))
    }

    fn watch<K>(&mut self) -> (State, Effect<K>) {
        if self.was_away {
            // Only the version is needed; but keep the selectors, because the client may not be allowed to list
            // anything else.
            let least = ListOptions { limit: Some(1), content: Content::Metadata, ..self.list_options() };
            return (State::Probing, Effect::Probe(least));
        }
        let (state, options) = self.watch_from();
        (state, Effect::Watch(options))
    }

    fn watch_from(&self) -> (State, WatchOptions) {
        let from = self.synced.clone().filter(is_set);
        let options = WatchOptions { resource_version: from.as_ref().map(ToString::to_string), ..self.watch_options() };
        (State::Watching { catching_up: from.is_none() }, options)
    }

    /// A watch cache serves any version that it has without pages; the storage should not be read with one request.
    fn limit(&self, from: Option<&ResourceVersion>) -> Option<u32> {
        let default = (self.paged || !from.is_some_and(is_set)).then_some(PAGE_SIZE);
        self.params.page_size.or(default)
    }

    fn is_behind(&self, version: &ResourceVersion) -> bool {
        let synced = self.synced.as_ref().and_then(ResourceVersion::as_u64);
        matches!((synced, version.as_u64()), (Some(synced), Some(version)) if version < synced)
    }

    fn list_options(&self) -> ListOptions {
        self.params.list_options()
    }

    fn watch_options(&self) -> WatchOptions {
        WatchOptions {
            labels: self.params.labels.clone(),
            fields: self.params.fields.clone(),
            content: self.params.content,
            bookmarks: Bookmarks::Allow,
            ..WatchOptions::default()
        }
    }
}

fn wait<K>(next: Next, at_least: Option<Duration>) -> (State, Effect<K>) {
    (State::Waiting(next), Effect::Wait(at_least))
}

/// Handles impossible inputs: a new start is better than a state without an exit.
fn start_over<K>() -> (State, Effect<K>) {
    wait(Next::Sync, None)
}

/// Reports whether a version refers to a certain state: neither "most recent" nor "any".
fn is_set(version: &ResourceVersion) -> bool {
    !matches!(version.as_str(), "" | "0")
}
