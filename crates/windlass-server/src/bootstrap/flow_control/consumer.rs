//! Applies the objects of priority and fairness whenever they change, and reports in the status of each FlowSchema
//! whether its level exists.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{self, Instant},
};
use windlass_api::{Status, format_time};

use super::{GROUP, LEVELS, SCHEMAS, apply_status};
use crate::{
    flow_control::{Fairness, is_usable_level},
    object::Tree,
    registry::{AppliedWrites, Registry, WeakRegistry, storage_failure},
    resource::Item,
    storage::{Delivery, EventStream, RangeQuery, Revision, Storage, StorageError, StoredValue},
};

/// The time between two divisions of the seats.
const PERIOD: Duration = Duration::from_secs(10);

/// The pause after a failure of the storage.
const PAUSE: Duration = Duration::from_secs(1);

/// The status of a schema is written at most this often per minute. Several servers may disagree about it.
const MAX_WRITES: usize = 6;
const MINUTE: Duration = Duration::from_mins(1);

/// The delay of a status that was written too often.
const WRITE_DELAY: Duration = Duration::from_secs(30);

/// The stored levels and schemas by their keys.
type Objects = [BTreeMap<Arc<str>, Value>; 2];

/// Follows the objects in the storage.
struct Follower {
    storage: Arc<dyn Storage>,
    prefixes: [String; 2],
    fairness: Arc<Fairness>,
    objects: Objects,
    progress: watch::Sender<[Revision; 2]>,
    /// Notifies the task that writes the status.
    current: watch::Sender<Arc<Objects>>,
}

/// Applies the stored objects, and starts the tasks that follow them.
pub(super) async fn start(registry: &Registry, fairness: &Arc<Fairness>) -> Result<(), Status> {
    let resources = registry.resources();
    let prefix = |plural: &str| resources.get(GROUP, "v1", plural).map(|resource| resource.prefix.clone());
    let (Some(levels), Some(schemas)) = (prefix(LEVELS), prefix(SCHEMAS)) else { return Ok(()) };
    let (progress, applied) = watch::channel([Revision(0); 2]);
    let (current, changed) = watch::channel(Arc::default());
    let mut follower = Follower {
        storage: Arc::clone(registry.storage()),
        prefixes: [levels, schemas],
        fairness: Arc::clone(fairness),
        objects: Objects::default(),
        progress,
        current,
    };
    let events = follower.read().await.map_err(|error| storage_failure(&error))?;
    registry.set_applied(AppliedWrites { prefixes: follower.prefixes.clone(), progress: applied });
    let mut tasks = JoinSet::new();
    tasks.spawn(follower.follow(events));
    tasks.spawn(report(registry.downgrade(), changed));
    let fairness = Arc::clone(fairness);
    tasks.spawn(async move {
        let mut ticks = time::interval_at(Instant::now() + PERIOD, PERIOD);
        loop {
            ticks.tick().await;
            fairness.adjust();
        }
    });
    registry.keep_task(tasks);
    Ok(())
}

impl Follower {
    /// Reads and applies all objects, and starts to watch them.
    async fn read(&mut self) -> Result<[EventStream; 2], StorageError> {
        let mut streams = Vec::new();
        let mut revisions = [Revision(0); 2];
        for (index, prefix) in self.prefixes.iter().enumerate() {
            let range = self.storage.range(RangeQuery::prefix(prefix.clone())).await?;
            let objects = range.values.iter().filter_map(|value| Some((Arc::clone(&value.key), object(value)?)));
            self.objects[index] = objects.collect();
            streams.push(self.storage.watch(prefix, range.revision).await?);
            revisions[index] = range.revision;
        }
        self.apply(revisions);
        Ok(streams.try_into().unwrap_or_else(|_| unreachable!("one stream for each prefix")))
    }

    fn apply(&self, revisions: [Revision; 2]) {
        let [levels, schemas] = &self.objects;
        self.fairness.configure(levels.values(), schemas.values());
        self.current.send_replace(Arc::new(self.objects.clone()));
        self.progress.send_replace(revisions);
    }

    /// Follows the events. Reads all objects again if they cannot be followed.
    async fn follow(mut self, mut events: [EventStream; 2]) {
        use futures::StreamExt as _;
        loop {
            let [levels, schemas] = &mut events;
            let (index, delivery) = tokio::select! {
                delivery = levels.next() => (0, delivery),
                delivery = schemas.next() => (1, delivery),
            };
            if let Some(Ok(delivery)) = delivery {
                self.put(index, delivery);
                continue;
            }
            loop {
                time::sleep(PAUSE).await;
                match self.read().await {
                    Ok(again) => {
                        events = again;
                        break;
                    }
                    Err(error) => {
                        let error = &error as &dyn std::error::Error;
                        tracing::warn!(error, "cannot read the objects of priority and fairness");
                    }
                }
            }
        }
    }

    fn put(&mut self, index: usize, delivery: Delivery) {
        let mut revisions = *self.progress.borrow();
        revisions[index] = revisions[index].max(delivery.progress());
        let Some(event) = delivery.into_event() else {
            self.progress.send_replace(revisions);
            return;
        };
        let old = match event.current.as_ref().and_then(object) {
            Some(object) => self.objects[index].insert(Arc::clone(&event.key), object),
            None => self.objects[index].remove(&event.key),
        };
        let unchanged = |field: &str| {
            let new = self.objects[index].get(&event.key);
            old.as_ref().and_then(|old| old.get(field)) == new.and_then(|new| new.get(field))
        };
        let is_same_object = old.as_ref().is_some_and(|old| {
            self.objects[index].get(&event.key).is_some_and(|new| new["metadata"]["uid"] == old["metadata"]["uid"])
        });
        match (is_same_object && unchanged("spec"), unchanged("status")) {
            (true, true) => drop(self.progress.send_replace(revisions)),
            (true, false) => {
                self.current.send_replace(Arc::new(self.objects.clone()));
                self.progress.send_replace(revisions);
            }
            (false, _) => self.apply(revisions),
        }
    }
}

/// Writes the status of the schemas whenever it is not the current one.
async fn report(registry: WeakRegistry, mut changed: watch::Receiver<Arc<Objects>>) {
    let mut writes: HashMap<String, VecDeque<Instant>> = HashMap::new();
    loop {
        let objects = Arc::clone(&changed.borrow_and_update());
        let now = Instant::now();
        writes.retain(|_, times| {
            times.retain(|time| now - *time < MINUTE);
            !times.is_empty()
        });
        let mut is_delayed = false;
        for schema in objects[1].values() {
            let Some(condition) = outdated(schema, &objects[0]) else { continue };
            let Some(registry) = registry.upgrade() else { return };
            let name = schema.text(&["metadata", "name"]);
            let times = writes.entry(name.to_owned()).or_default();
            if times.len() >= MAX_WRITES {
                is_delayed = true;
                continue;
            }
            times.push_back(now);
            let mut condition = condition;
            condition["lastTransitionTime"] = format_time(registry.clock().now()).into();
            match apply_status(&registry, name, &json!({"conditions": [condition]})).await {
                Err(error) if !error.is_not_found() => {
                    tracing::warn!(%error, schema = name, "cannot set the status of a FlowSchema");
                    is_delayed = true;
                }
                _ => {}
            }
        }
        drop(objects);
        let delay = async { if is_delayed { time::sleep(WRITE_DELAY).await } else { std::future::pending().await } };
        tokio::select! {
            changed = changed.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = delay => {}
        }
    }
}

/// Returns the condition of a schema without its time, unless its status has it.
fn outdated(schema: &Value, levels: &BTreeMap<Arc<str>, Value>) -> Option<Value> {
    let level = schema.text(&["spec", "priorityLevelConfiguration", "name"]);
    let is_level = |object: &&Value| object.text(&["metadata", "name"]) == level;
    let exists = levels.values().find(is_level).is_some_and(is_usable_level);
    let message = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?}");
    let (status, reason, rest) = if exists {
        ("False", "Found", " and it exists")
    } else {
        ("True", "NotFound", " but there is no such object")
    };
    let message = message + rest;
    let conditions = schema.at(&["status", "conditions"]).and_then(Value::as_array).into_iter().flatten();
    let current = conditions.into_iter().find(|condition| condition["type"] == "Dangling");
    let is_current = current.is_some_and(|current| {
        current["status"] == status && current["reason"] == reason && current["message"] == message.as_str()
    });
    let condition = json!({"type": "Dangling", "status": status, "reason": reason, "message": message});
    (!is_current).then_some(condition)
}

/// Returns an object, unless it is damaged.
fn object(value: &StoredValue) -> Option<Value> {
    Item::stored(value).ok().map(|item| item.value())
}
