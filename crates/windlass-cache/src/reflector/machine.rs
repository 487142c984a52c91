//! The reflector's decisions, as a value: a state, and what to do next for each thing that happens.
//!
//! Nothing here waits, talks or knows objects. The driver carries out one [`Effect`] at a time and feeds the outcome
//! back as the next [`Input`].

#[cfg(test)]
mod tests;

use std::time::Duration;

use windlass_api::{
    Bookmarks, Content, EventType, InitialEvents, ListMeta, ListOptions, ResourceVersion, VersionMatch, WatchOptions,
};

use crate::options::{InformerOptions, InitialSync};

/// Without a wish of the user: as many objects as one read of the server's storage should give.
const PAGE_SIZE: u32 = 500;

/// What the reflector is at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing is asked of the server, for a while.
    ///
    /// `Elapsed` → `Streaming` or `Listing`, or `Watching` if only the watch is to be opened again.
    Waiting(Next),
    /// A watch that begins with the present state was asked for; what it has sent so far is set aside.
    ///
    /// The bookmark that ends the present state → `Watching`, with this same watch. The server refuses or fails →
    /// `Listing`. The version is too old or too new → `Streaming` at the most recent one. Refused connection, too many
    /// requests, end before the bookmark → `Waiting`, then all over.
    Streaming {
        /// At which version or later; `None` for the most recent.
        from: Option<ResourceVersion>,
    },
    /// A page of a list was asked for.
    ///
    /// The last page → `Watching`. A page that is not the last → the next one. Expired after the first page → the same
    /// list without pages. Expired before, or the version is too new → `Listing` the most recent state, once. Anything
    /// else → `Waiting`, then all over.
    Listing {
        /// At which version or later; "0" for any, `None` for the most recent.
        from: Option<ResourceVersion>,
        /// Which part of the list.
        page: Page,
    },
    /// The state is known, and a watch was asked for its changes.
    ///
    /// End of the watch → `Watching` from the last version; if it was cut, by way of `Probing`. Refused
    /// connection → `Waiting`, then `Probing`. Too many requests → `Waiting`, then `Watching`. Ended at once, expired, or
    /// failed otherwise → `Waiting`, then all over.
    Watching {
        /// Whether the watch began without a version, so that its first ADDED events tell no progress.
        catching_up: bool,
    },
    /// The server is asked how far it is, before a watch goes on: it was away, and may have come back with another
    /// history, of which a watch would tell nothing.
    ///
    /// As far as before or further, or no answer → `Watching`. Not as far → `Streaming` or `Listing` the most recent
    /// state. Refused connection, too many requests → `Waiting`, then `Probing` again.
    Probing,
}

/// Where a wait leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Everything is asked for again.
    Sync,
    /// The watch is opened again, after a probe if the server was away.
    Watch,
}

/// Which part of a list is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Page {
    First,
    /// The version is the one that the first page named.
    Later(ResourceVersion),
    /// Everything at once, because the pages had expired.
    Whole,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// The wait is over; also the very first input.
    Elapsed,
    /// A page of a list is complete.
    PageEnded(ListMeta),
    /// A list failed.
    ListFailed(Failure),
    /// An event came that is not an error.
    Event {
        event_type: EventType,
        /// Of the object, or of the bookmark.
        version: ResourceVersion,
        /// Whether it is the bookmark that ends the present state.
        ends_initial: bool,
    },
    /// The watch could not be opened, or what came over it was an error or cannot be read.
    WatchFailed(Stage, Failure),
    /// The watch came to an end, or its connection broke.
    WatchClosed(Length),
    /// The server is at this version.
    Probed(ResourceVersion),
    /// The server does not say how far it is.
    ProbeFailed(Failure),
}

/// When a watch failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Opening,
    Open,
}

/// How long a watch lasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// Less than a second, without any event.
    VeryShort,
    /// Its connection broke, or it ended before its time, or not when its time was over: the server may have gone away.
    Cut,
    /// As long as was asked for.
    Normal,
}

/// Why a request failed, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// 410: the version or the continue token is too old.
    Expired,
    /// The server has not reached the version yet.
    TooLarge,
    /// 429, with the time that the server asks for.
    TooManyRequests(Option<Duration>),
    /// Nobody listens there.
    Refused,
    /// Anything else.
    Other,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// End what is under way and wait for a back-off step, at least this long.
    Wait(Option<Duration>),
    /// Ask for a page; set its objects aside. A page without a continue token begins a new list.
    List(ListOptions),
    /// Ask how far the server is, by a list of as little as possible.
    Probe(ListOptions),
    /// Open a watch. With initial events, forget what was set aside.
    Watch(WatchOptions),
    /// Hand on what was set aside as all that there is.
    Replace { version: ResourceVersion, then: Then },
    /// Set the event's object aside.
    Collect,
    /// The event's object is no longer among what was set aside.
    Discard,
    /// Hand on the event's object as a change.
    Forward,
    /// Hand on that nothing has changed up to this version.
    Advance(ResourceVersion),
    /// Go on with the watch.
    Continue,
}

/// How it goes on after a replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Then {
    /// With the same watch.
    Continue,
    /// With a new watch.
    Watch(WatchOptions),
}

/// The state, and what must outlive it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    state: State,
    asks: Asks,
    /// The version that has been handed on; `None` before the first list.
    synced: Option<ResourceVersion>,
    /// Whether the server could not serve `synced`, so that only the most recent state will do.
    unavailable: bool,
    /// Whether the server may have been away since the last watch began, and may have another history.
    was_away: bool,
    /// Whether a list of any version came in pages: the server has no watch cache, and every list should.
    paged: bool,
}

/// What is asked for, the same each time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Asks {
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    pub(crate) content: Content,
    pub(crate) page_size: Option<u32>,
    pub(crate) initial_sync: InitialSync,
}

impl From<&InformerOptions> for Asks {
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

impl Asks {
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
    /// Expects [`Input::Elapsed`].
    pub(crate) fn new(asks: Asks) -> Self {
        Self {
            state: State::Waiting(Next::Sync),
            asks,
            synced: None,
            unavailable: false,
            was_away: false,
            paged: false,
        }
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// The next state, and what to do in it. An input that cannot come in a state leads to `Waiting`.
    #[must_use]
    pub(crate) fn step(mut self, input: Input) -> (Self, Effect) {
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

    fn streaming(&mut self, from: Option<ResourceVersion>, input: Input) -> (State, Effect) {
        match input {
            Input::Event { version, ends_initial: true, .. } => {
                self.synced = Some(version.clone());
                self.unavailable = false;
                (State::Watching { catching_up: false }, Effect::Replace { version, then: Then::Continue })
            }
            Input::Event { event_type, .. } => {
                let effect = match event_type {
                    EventType::Added | EventType::Modified => Effect::Collect,
                    EventType::Deleted => Effect::Discard,
                    EventType::Bookmark | EventType::Error => Effect::Continue,
                };
                (State::Streaming { from }, effect)
            }
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

    fn page_ended(&mut self, from: Option<ResourceVersion>, page: Page, meta: ListMeta) -> (State, Effect) {
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

    fn list_failed(&mut self, from: Option<ResourceVersion>, page: &Page, failure: Failure) -> (State, Effect) {
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

    fn watching(&mut self, catching_up: bool, input: Input) -> (State, Effect) {
        match input {
            Input::Event { version, .. } if !catching_up && self.is_behind(&version) => {
                // The server's history is another one than it was: only its most recent state will do.
                self.unavailable = true;
                wait(Next::Sync, None)
            }
            Input::Event { event_type, version, .. } => {
                let catching_up = catching_up && event_type == EventType::Added;
                if !catching_up {
                    self.synced = Some(version.clone());
                }
                let is_bookmark = event_type == EventType::Bookmark;
                let effect = if is_bookmark { Effect::Advance(version) } else { Effect::Forward };
                (State::Watching { catching_up }, effect)
            }
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

    fn probing(&mut self, input: Input) -> (State, Effect) {
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

    fn sync(&mut self) -> (State, Effect) {
        self.was_away = false;
        match self.asks.initial_sync {
            InitialSync::Watch => self.stream(),
            InitialSync::List => self.list(),
        }
    }

    /// Any version from the last one on, or the most recent; never "0", which could be older than the last.
    fn stream(&mut self) -> (State, Effect) {
        let from = self.synced.clone().filter(|version| !self.unavailable && is_set(version));
        let options = WatchOptions {
            resource_version: from.as_ref().map(ToString::to_string),
            initial_events: InitialEvents::Send,
            ..self.watch_options()
        };
        (State::Streaming { from }, Effect::Watch(options))
    }

    fn list(&mut self) -> (State, Effect) {
        let from = match &self.synced {
            _ if self.unavailable => None,
            None => Some(ResourceVersion::from("0")),
            Some(version) => Some(version.clone()).filter(|version| !version.is_empty()),
        };
        let limit = self.limit(from.as_ref());
        // A limit with a version would mean exactly that version.
        let exact = limit.is_some() && from.as_ref().is_some_and(is_set);
        let options = ListOptions {
            limit,
            resource_version: from.as_ref().map(ToString::to_string),
            version_match: exact.then_some(VersionMatch::NotOlderThan),
            ..self.list_options()
        };
        (State::Listing { from, page: Page::First }, Effect::List(options))
    }

    fn watch(&mut self) -> (State, Effect) {
        if self.was_away {
            // Only the version matters; but who may watch a selection may perhaps list no other.
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

    /// A watch cache serves any version it has without pages; storage should not be read in one go.
    fn limit(&self, from: Option<&ResourceVersion>) -> Option<u32> {
        let default = (self.paged || !from.is_some_and(is_set)).then_some(PAGE_SIZE);
        self.asks.page_size.or(default)
    }

    fn is_behind(&self, version: &ResourceVersion) -> bool {
        let synced = self.synced.as_ref().and_then(ResourceVersion::as_u64);
        matches!((synced, version.as_u64()), (Some(synced), Some(version)) if version < synced)
    }

    fn list_options(&self) -> ListOptions {
        self.asks.list_options()
    }

    fn watch_options(&self) -> WatchOptions {
        WatchOptions {
            labels: self.asks.labels.clone(),
            fields: self.asks.fields.clone(),
            content: self.asks.content,
            bookmarks: Bookmarks::Allow,
            ..WatchOptions::default()
        }
    }
}

fn wait(next: Next, at_least: Option<Duration>) -> (State, Effect) {
    (State::Waiting(next), Effect::Wait(at_least))
}

/// For what cannot come: better everything again than a state that nothing leads out of.
fn start_over() -> (State, Effect) {
    wait(Next::Sync, None)
}

/// Whether a version names a state: neither "most recent" nor "any".
fn is_set(version: &ResourceVersion) -> bool {
    !matches!(version.as_str(), "" | "0")
}
