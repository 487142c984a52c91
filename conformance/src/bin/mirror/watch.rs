//! The watches of one resource on both servers.

use std::{sync::Arc, time::Duration};

use futures::{TryStreamExt as _, future::try_join};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle, time::timeout};
use windlass_api::{ApiResource, Bookmarks, EventType, ListWatch as _, RawEvent, WatchOptions};

use crate::{
    Result, Server,
    compare::{Difference, Event, compare},
    resources::{version_of, with_source, write_event},
};

/// The timeout of the watches. It is longer than any command.
const WATCH_TIMEOUT: Duration = Duration::from_hours(12);

/// The time in which a watch reaches the version of a list. Both servers send a bookmark every minute.
const PATIENCE: Duration = Duration::from_mins(4);

/// The watches of one resource.
pub(crate) struct Watches {
    servers: [Server; 2],
    resource: ApiResource,
    watches: [Watch; 2],
}

/// The events of a resource.
pub(crate) struct Outcome {
    /// The resource, with its group.
    pub(crate) resource: String,
    /// The number of events.
    pub(crate) events: usize,
    pub(crate) differences: Vec<Difference>,
}

/// The watch of one server. It ends on drop.
struct Watch {
    events: Arc<Mutex<Vec<Event>>>,
    /// The last version of an event or a bookmark.
    reached: watch::Receiver<u64>,
    task: JoinHandle<Result>,
}

impl Watches {
    /// Starts both watches after a version.
    pub(crate) async fn start(servers: &[Server; 2], resource: ApiResource, version: u64) -> Result<Self> {
        let [first, second] = servers;
        let start = |server| Watch::start(server, &resource, version);
        let (first, second) = try_join(start(first), start(second)).await?;
        Ok(Self { servers: servers.clone(), resource, watches: [first, second] })
    }

    /// Waits until both watches have reached the current version, and compares their events up to it.
    pub(crate) async fn finish(self) -> Result<Outcome> {
        let Self { servers: [first, second], resource, watches: [of_first, of_second] } = self;
        // The lists come one after the other: each lets the caches of its server read at least the first version.
        let version = version_of(&first, &resource).await?;
        let later = version_of(&second, &resource).await?;
        if later < version {
            return Err(
                format!("{} listed {} at {later}, after {version}", second.name, resource.group_resource()).into()
            );
        }
        if resource.plural == "events" {
            write_event(&first).await?;
        }
        let until = async |server: &Server, watch: Watch| {
            let failed = |error| format!("the watch of {} on {}: {error}", resource.group_resource(), server.name);
            watch.until(version).await.map_err(failed)
        };
        let (of_first, of_second) = try_join(until(&first, of_first), until(&second, of_second)).await?;
        let servers = [&*first.name, &*second.name];
        let resource = resource.group_resource().to_string();
        let differences = compare(&resource, servers, [&of_first, &of_second]);
        Ok(Outcome { resource, events: of_first.len().max(of_second.len()), differences })
    }
}

impl Watch {
    async fn start(server: &Server, resource: &ApiResource, version: u64) -> Result<Self> {
        let options = WatchOptions {
            resource_version: Some(version.to_string()),
            bookmarks: Bookmarks::Allow,
            timeout: Some(WATCH_TIMEOUT),
            ..WatchOptions::default()
        };
        let list_watch = server.client.list_watch(resource, None);
        let failed =
            |error| format!("cannot watch {} on {}: {}", resource.group_resource(), server.name, with_source(&error));
        let mut stream = list_watch.watch(options).await.map_err(failed)?;
        let (reach, reached) = watch::channel(version);
        let events = Arc::new(Mutex::new(Vec::new()));
        let received = Arc::clone(&events);
        let task = tokio::spawn(async move {
            while let Some(event) = stream.try_next().await.map_err(|error| with_source(&error))? {
                let is_bookmark = event.event_type == EventType::Bookmark;
                let event = decode(&event)?;
                let version = event.version;
                if !is_bookmark {
                    received.lock().push(event);
                }
                reach.send_replace(version);
            }
            Err("it ended".into())
        });
        Ok(Self { events, reached, task })
    }

    /// Waits until the watch has reached a version, and returns its events up to it.
    async fn until(mut self, version: u64) -> Result<Vec<Event>> {
        let waited = timeout(PATIENCE, self.reached.wait_for(|reached| *reached >= version)).await;
        let Ok(is_open) = waited.map(|reached| reached.is_ok()) else {
            let reached = *self.reached.borrow();
            return Err(format!("it is at {reached}, and not at {version}, after {} s", PATIENCE.as_secs()).into());
        };
        // A watch that has ended may have missed events, even if it had reached the version.
        if !is_open || self.task.is_finished() {
            (&mut self.task).await??;
        }
        let mut events = std::mem::take(&mut *self.events.lock());
        events.retain(|event| event.version <= version);
        Ok(events)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn decode(event: &RawEvent) -> Result<Event> {
    let object: Value = serde_json::from_slice(&event.body)?;
    if event.event_type == EventType::Error {
        return Err(format!("it ended with {object}").into());
    }
    let version = object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
    let version = version.ok_or_else(|| format!("an event without version: {object}"))?;
    Ok(Event { version, content: json!({"type": event.event_type, "object": object}) })
}
