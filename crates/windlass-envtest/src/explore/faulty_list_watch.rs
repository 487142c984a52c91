//! The layer between the server of a run and the program's caches, which records events, and delays or drops them as
//! planned.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{
    StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use serde::Deserialize;
use tokio::time::sleep;
use windlass_api::{
    ApiResource, EventType, InitialEvents, ListItem, ListOptions, ListWatch, ListWatchError, RawEvent, Status,
    VersionMatch, WatchOptions,
};

use super::{
    plan::EventFault,
    run_state::{Incarnation, RunState},
    state::resource_name,
    timeline::EntryKind,
};

/// The time that a cache is stale.
pub(crate) const HELD: Duration = Duration::from_secs(30);

/// The list and watch source of a cache of the program under test.
pub(crate) struct FaultyListWatch {
    inner: Arc<dyn ListWatch>,
    resource: String,
    run_state: Arc<RunState>,
    incarnation: Arc<Incarnation>,
}

type Items<T> = BoxStream<'static, Result<T, ListWatchError>>;

/// The state of a stream of events.
struct Flow {
    events: Items<RawEvent>,
    cache: CacheFeed,
    over: bool,
    /// The delay of the first event.
    late: Option<Duration>,
}

/// The cache that receives the events.
struct CacheFeed {
    resource: String,
    run_state: Arc<RunState>,
    incarnation: Arc<Incarnation>,
}

/// The decoded part of an event's object.
#[derive(Deserialize)]
struct Named {
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    name: String,
    #[serde(default)]
    namespace: Option<String>,
}

impl FaultyListWatch {
    pub(crate) fn new(
        inner: Arc<dyn ListWatch>,
        resource: &ApiResource,
        run_state: Arc<RunState>,
        incarnation: Arc<Incarnation>,
    ) -> Self {
        Self { inner, resource: resource_name(resource), run_state, incarnation }
    }

    fn is_rewound(&self) -> bool {
        self.incarnation.rewind.is_some() && !self.run_state.is_ignored(&self.resource)
    }
}

impl ListWatch for FaultyListWatch {
    fn list(&self, mut options: ListOptions) -> BoxFuture<'_, Result<Items<ListItem>, ListWatchError>> {
        Box::pin(async move {
            if let Some(version) = self.incarnation.rewind.clone().filter(|_| self.is_rewound()) {
                let what = format!("lists {} as of version {version}", self.resource);
                self.run_state.log(self.incarnation.name(), EntryKind::Fault, what);
                let then = ListOptions {
                    resource_version: Some(version),
                    version_match: Some(VersionMatch::Exact),
                    ..options.clone()
                };
                if let Ok(items) = self.inner.list(then).await {
                    return Ok(items);
                }
                // The server no longer has this old version.
                options.version_match = None;
            }
            self.inner.list(options).await
        })
    }

    fn watch(&self, options: WatchOptions) -> BoxFuture<'_, Result<Items<RawEvent>, ListWatchError>> {
        Box::pin(async move {
            if self.is_rewound() && options.initial_events == InitialEvents::Send {
                // An old state can only be listed.
                return Err(Status::bad_request("the exploration requires a list").into());
            }
            let events = self.inner.watch(options).await?;
            let late = self.is_rewound().then_some(HELD);
            let (resource, run_state, incarnation) =
                (self.resource.clone(), self.run_state.clone(), self.incarnation.clone());
            let flow = Flow { events, cache: CacheFeed { resource, run_state, incarnation }, over: false, late };
            Ok(stream::unfold(flow, Flow::next).boxed())
        })
    }
}

impl fmt::Debug for FaultyListWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyListWatch").field("resource", &self.resource).finish_non_exhaustive()
    }
}

impl Flow {
    async fn next(mut self) -> Option<(Result<RawEvent, ListWatchError>, Self)> {
        if self.over {
            return None;
        }
        let event = self.events.next().await?;
        self.cache.incarnation.pass().await;
        let Ok(RawEvent { event_type: EventType::Added | EventType::Modified | EventType::Deleted, body }) = &event
        else {
            return Some((event, self));
        };
        if let Some(late) = self.late.take() {
            let _busy = self.cache.run_state.fault();
            sleep(late).await;
            self.cache.incarnation.pass().await;
        }
        if self.cache.run_state.is_ignored(&self.cache.resource) {
            return Some((event, self));
        }
        let event_type = event.as_ref().map_or(EventType::Error, |event| event.event_type);
        let fault =
            self.cache.run_state.event(&self.cache.resource, event_type, &key_of(body), &self.cache.incarnation);
        let Some(fault) = fault else { return Some((event, self)) };
        self.cache.delay_events(fault).await;
        self.cache.incarnation.pass().await;
        let event = match fault {
            EventFault::Freeze | EventFault::Lag => event,
            EventFault::Skip | EventFault::Miss | EventFault::Cut => {
                self.over = true;
                Ok(expired())
            }
        };
        Some((event, self))
    }
}

impl CacheFeed {
    /// Waits for as long as the fault keeps events from the cache.
    async fn delay_events(&self, fault: EventFault) {
        let log = |what: &str| {
            self.run_state.log(
                self.incarnation.name(),
                EntryKind::Fault,
                format!("the cache of {} {what}", self.resource),
            );
        };
        match fault {
            EventFault::Freeze | EventFault::Skip => {
                let _busy = self.run_state.fault();
                log("gets no events for 30 s");
                sleep(HELD).await;
            }
            EventFault::Lag | EventFault::Miss => {
                log("gets no events until the next step");
                let mut step = self.run_state.step.subscribe();
                let now = *step.borrow_and_update();
                let _ = step.wait_for(|step| *step > now).await;
                let _busy = self.run_state.fault();
                sleep(HELD).await;
            }
            EventFault::Cut => {}
        }
        log(match fault {
            EventFault::Freeze | EventFault::Lag => "catches up",
            EventFault::Skip | EventFault::Miss | EventFault::Cut => "loses its watch and relists",
        });
    }
}

fn key_of(body: &[u8]) -> String {
    match serde_json::from_slice::<Named>(body) {
        Ok(Named { metadata: Name { name, namespace: Some(namespace) } }) => format!("{namespace}/{name}"),
        Ok(Named { metadata: Name { name, namespace: None } }) => name,
        Err(_) => "?".to_owned(),
    }
}

/// Returns the watch error of an expired version.
fn expired() -> RawEvent {
    let status =
        serde_json::to_vec(&Status::expired("the exploration requires a list")).expect("a status is plain data");
    RawEvent { event_type: EventType::Error, body: Bytes::from(status) }
}
