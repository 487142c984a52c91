//! Waiting until an object meets a condition.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use windlass_api::k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
//! # use windlass_client::{Client, Result, wait};
//! # async fn example(client: Client) -> Result<()> {
//! let patience = Duration::from_secs(60);
//! client.wait_for::<Pod>("web-0").within("shop").timeout(patience).until(wait::condition("Ready", "True")).await?;
//! client.wait_for::<Pod>("old-0").within("shop").timeout(patience).until(wait::is_gone()).await?;
//! client.wait_for::<Deployment>("web").within("shop").until(|found: Option<&Deployment>| {
//!     found.and_then(|web| web.status.as_ref()?.ready_replicas) == Some(3)
//! }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A condition is evaluated on states of the object, not on every change: a condition that holds only for a moment may
//! be missed. [`until`] evaluates every event of a watch.

use std::{fmt, time::Duration};

use futures::{Stream, StreamExt as _};
use serde::Serialize;
use serde_json::Value;
use windlass_api::{Object, ObjectExt as _, ObjectKey, ObjectRef, Resource, Scope};

use crate::{
    Client, Error, Resources, Result, WatchEvent,
    operation::{Operation, Verb},
};

/// A builder that waits for one object. Returned by [`Client::wait_for`].
#[must_use = "nothing is sent before `until`"]
pub struct WaitFor<K> {
    resources: Resources<K>,
    key: ObjectKey,
    /// The time limit. `None` for no limit.
    timeout: Option<Duration>,
}

impl Client {
    /// Waits until an object meets a condition, which may also be its absence.
    pub fn wait_for<K: Resource>(&self, key: impl Into<ObjectRef<K>>) -> WaitFor<K> {
        self.resources().wait_for(key)
    }
}

impl<K: Object> Resources<K> {
    /// Waits until an object meets a condition, which may also be its absence.
    pub fn wait_for(&self, key: impl Into<ObjectRef<K>>) -> WaitFor<K> {
        WaitFor { resources: self.clone(), key: key.into().key().clone(), timeout: None }
    }
}

impl<K: Object> WaitFor<K> {
    /// Sets the namespace. Overrides any namespace set before.
    pub fn within(mut self, namespace: &str) -> Self {
        self.key.namespace = Some(namespace.into()).filter(|_| !namespace.is_empty());
        self
    }

    /// Limits the waiting time. A request that was sent within this time may take longer, up to the client's own
    /// timeout.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Waits until `condition` returns `true`, and returns the object that met it. The condition is called with `None`
    /// while the object does not exist.
    ///
    /// Broken watches are restarted. If a resource version is too old, the object is listed again.
    pub async fn until(mut self, condition: impl FnMut(Option<&K>) -> bool + Send) -> Result<Option<K>> {
        let client = &self.resources.client;
        if self.key.namespace.is_none() && self.resources.resource.scope == Scope::Namespaced {
            self.key.namespace = Some(client.default_namespace().into());
        }
        let Some(limit) = self.timeout else { return self.wait(condition).await };
        match tokio::time::timeout(limit, self.wait(condition)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::TimedOut { operation: Box::new(self.operation()), limit }),
        }
    }

    async fn wait(&self, mut condition: impl FnMut(Option<&K>) -> bool + Send) -> Result<Option<K>> {
        let namespace = self.key.namespace.as_deref().unwrap_or_default();
        let only = format!("metadata.name={}", self.key.name);
        loop {
            let list = self.resources.list().within(namespace).fields(&*only).await?;
            let version = list.metadata.resource_version;
            let found = list.items.into_iter().next();
            if condition(found.as_ref()) {
                return Ok(found);
            }
            let watch = self.resources.watch().within(namespace).fields(&*only).resource_version(version.as_str());
            let mut events = watch.retrying();
            while let Some(event) = events.next().await {
                let found = match event {
                    Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => Some(object),
                    Ok(WatchEvent::Deleted(_)) => None,
                    Ok(WatchEvent::Bookmark(_)) => continue,
                    Err(error) if error.is_expired() => break,
                    Err(error) => return Err(error),
                };
                if condition(found.as_ref()) {
                    return Ok(found);
                }
            }
        }
    }

    fn operation(&self) -> Operation {
        Operation {
            verb: Verb::Watch,
            resource: self.resources.resource.group_resource().to_string(),
            subresource: None,
            namespace: self.key.namespace.as_deref().map(str::to_owned),
            name: Some((*self.key.name).to_owned()),
        }
    }
}

impl<K> fmt::Debug for WaitFor<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitFor").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Reads events up to the first that meets the condition, and returns it. Returns `None` if the stream ends before.
///
/// To wait for several events in sequence, pass the same stream again.
pub async fn until<K>(
    events: &mut (impl Stream<Item = Result<WatchEvent<K>>> + Unpin),
    mut condition: impl FnMut(&WatchEvent<K>) -> bool,
) -> Result<Option<WatchEvent<K>>> {
    while let Some(event) = events.next().await.transpose()? {
        if condition(&event) {
            return Ok(Some(event));
        }
    }
    Ok(None)
}

// === Conditions ===

/// Returns a condition that holds if the object exists.
pub fn exists<K>() -> impl Fn(Option<&K>) -> bool + Send {
    |found| found.is_some()
}

/// Returns a condition that holds if the object does not exist.
pub fn is_gone<K>() -> impl Fn(Option<&K>) -> bool + Send {
    |found| found.is_none()
}

/// Returns a condition that holds if the object with this UID does not exist. An object of the same name with another
/// UID may exist.
pub fn is_replaced<K: Object>(uid: impl Into<String>) -> impl Fn(Option<&K>) -> bool + Send {
    let uid = uid.into();
    move |found| found.is_none_or(|object| object.uid() != Some(&*uid))
}

/// Returns a condition that holds if the object's status has a condition of this type with this status, such as `True`.
/// If the condition has an observed generation, it must be the object's current generation.
pub fn condition<K: Object>(
    condition_type: impl Into<String>,
    status: impl Into<String>,
) -> impl Fn(Option<&K>) -> bool + Send {
    let (condition_type, status) = (condition_type.into(), status.into());
    move |found| {
        let Some(object) = found else { return false };
        let generation = object.metadata().generation;
        let of = |value: &Value| {
            let observed = value["observedGeneration"].as_i64();
            value["type"].as_str().is_some_and(|known| known.eq_ignore_ascii_case(&condition_type))
                && value["status"].as_str().is_some_and(|known| known.eq_ignore_ascii_case(&status))
                && observed.is_none_or(|observed| generation.is_none_or(|generation| observed >= generation))
        };
        as_json(object)["status"]["conditions"].as_array().is_some_and(|conditions| conditions.iter().any(of))
    }
}

/// Returns a condition that holds if the field at a path, such as `["status", "phase"]`, has this value.
pub fn field<K: Serialize>(path: &[&str], value: impl Into<Value>) -> impl Fn(Option<&K>) -> bool + Send {
    let path: Vec<String> = path.iter().map(|&name| name.to_owned()).collect();
    let value = value.into();
    move |found| {
        let Some(object) = found else { return false };
        let object = as_json(object);
        path.iter().try_fold(&object, |at, name| at.get(name)) == Some(&value)
    }
}

/// Encodes an object as JSON. An object that cannot be encoded has no fields.
fn as_json(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

#[cfg(test)]
mod tests;
