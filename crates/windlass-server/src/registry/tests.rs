//! Tests of the verbs, in process, with a fixed clock and seeded randomness.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass_api::{Clock, DryRun, Entropy, EventType, Preconditions, Status, format_time, parse_time};

use super::{
    DeleteParams, GetParams, ItemList, ListParams, PatchType, Registry, ResponseBody, WatchItem, WatchParams,
    WatchSession, WriteParams, Written,
};
use crate::{
    bootstrap::{self, RegistryOptions},
    storage::{MemoryStorage, Retention, Revision, Storage},
};
use crate::{
    object::Tree,
    resource::{Body, Item, Target},
};

mod attacks;
mod claims;
mod deletion;
mod indexed;
mod kinds;
mod reading;
mod watching;
mod writing;

/// A registry in its initial state, with short helper methods.
struct Fixture {
    registry: Registry,
    storage: Arc<MemoryStorage>,
    /// The current time in seconds after the epoch.
    now: Arc<Mutex<i64>>,
}

const START: i64 = 1_800_000_000;

impl Fixture {
    async fn new() -> Self {
        Self::over(Arc::new(MemoryStorage::default())).await
    }

    async fn over(storage: Arc<MemoryStorage>) -> Self {
        Self::with(storage, RegistryOptions::default()).await
    }

    async fn with(storage: Arc<MemoryStorage>, options: RegistryOptions) -> Self {
        Self::behind(Arc::clone(&storage) as Arc<dyn Storage>, storage, options).await
    }

    /// Creates a registry over a storage that forwards to another one.
    async fn behind(front: Arc<dyn Storage>, storage: Arc<MemoryStorage>, options: RegistryOptions) -> Self {
        let now = Arc::new(Mutex::new(START));
        let clock = {
            let now = Arc::clone(&now);
            Clock::from_fn(move || jiff::Timestamp::from_second(*now.lock()).unwrap())
        };
        let (registry, _) = bootstrap::start(
            front,
            clock,
            Entropy::seeded(1),
            options,
            Arc::default(),
            &Arc::default(),
            bootstrap::Announced::at("127.0.0.1:6443"),
        )
        .await
        .unwrap();
        Self { registry, storage, now }
    }

    fn advance_clock(&self, seconds: i64) {
        *self.now.lock() += seconds;
    }

    /// Targets `pods` in the namespace `default`, or a cluster-scoped collection.
    fn collection(&self, plural: &str) -> Target {
        let resources = self.registry.resources();
        let resource = resources.all().iter().find(|resource| resource.plural == plural).unwrap();
        Target::collection(resource, resource.is_namespaced().then_some("default"))
    }

    fn object(&self, plural: &str, name: &str) -> Target {
        Target { name: Some(name.to_owned()), ..self.collection(plural) }
    }

    async fn create(&self, plural: &str, object: Value) -> Result<Value, Status> {
        let written =
            self.registry.create(&self.collection(plural), Body::Value(object), WriteParams::default()).await?;
        assert!(written.created);
        Ok(value(&written))
    }

    async fn get(&self, plural: &str, name: &str) -> Result<Value, Status> {
        Ok(self.registry.get(&self.object(plural, name), GetParams::default()).await?.value())
    }

    async fn update(&self, plural: &str, object: Value) -> Result<Value, Status> {
        let target = self.object(plural, object.text(&["metadata", "name"]));
        self.update_at(&target, object).await
    }

    async fn update_at(&self, target: &Target, object: Value) -> Result<Value, Status> {
        Ok(value(&self.registry.update(target, Body::Value(object), WriteParams::default()).await?))
    }

    async fn merge(&self, target: &Target, patch: Value) -> Result<Value, Status> {
        let body = patch.to_string().into();
        Ok(value(&self.registry.patch(target, PatchType::Merge, body, WriteParams::default()).await?))
    }

    /// Deletes an object and returns the response.
    async fn delete(&self, plural: &str, name: &str, params: DeleteParams) -> Result<ResponseBody, Status> {
        Ok(self.registry.delete(&self.object(plural, name), params).await?.answer)
    }

    async fn list(&self, plural: &str, params: ListParams) -> Result<ItemList, Status> {
        self.registry.list(&self.collection(plural), params).await
    }

    async fn watch(&self, plural: &str, params: WatchParams) -> WatchSession {
        self.registry.watch(&self.collection(plural), params).await.unwrap()
    }
}

fn value(written: &Written) -> Value {
    match &written.answer {
        ResponseBody::Object(item) => item.value(),
        ResponseBody::Status(status) => serde_json::to_value(status).unwrap(),
    }
}

fn answered(answer: &ResponseBody) -> Value {
    match answer {
        ResponseBody::Object(item) => item.value(),
        ResponseBody::Status(status) => serde_json::to_value(status).unwrap(),
    }
}

fn names(items: &[Item]) -> Vec<String> {
    items.iter().map(|item| item.encoded.meta().unwrap().name().to_string()).collect()
}

fn version(object: &Value) -> u64 {
    object.text(&["metadata", "resourceVersion"]).parse().unwrap()
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}})
}

fn deployment(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}},
    }})
}
