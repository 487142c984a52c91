//! Waiting until something holds of an object.
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
//! What is asked is the state of the object, not what happened to it: a condition that holds only for a moment may be missed.
//! [`until`] reads the events of a watch, one by one.

use std::{fmt, time::Duration};

use futures::{Stream, StreamExt as _};
use serde::Serialize;
use serde_json::Value;
use windlass_api::{Object, ObjectExt as _, ObjectKey, ObjectRef, Resource, Scope};

use crate::{Client, Error, Operation, Resources, Result, Verb, WatchEvent};

/// Waits for one object. Made by [`Client::wait_for`].
#[must_use = "nothing is sent before `until`"]
pub struct WaitFor<K> {
    resources: Resources<K>,
    key: ObjectKey,
    /// `None`: for as long as it takes.
    timeout: Option<Duration>,
}

impl Client {
    /// Waits until something holds of an object, or of its absence.
    pub fn wait_for<K: Resource>(&self, key: impl Into<ObjectRef<K>>) -> WaitFor<K> {
        self.resources().wait_for(key)
    }
}

impl<K: Object> Resources<K> {
    /// Waits until something holds of an object, or of its absence.
    pub fn wait_for(&self, key: impl Into<ObjectRef<K>>) -> WaitFor<K> {
        WaitFor { resources: self.clone(), key: key.into().key().clone(), timeout: None }
    }
}

impl<K: Object> WaitFor<K> {
    /// In this namespace, whatever was named before.
    pub fn within(mut self, namespace: &str) -> Self {
        self.key.namespace = Some(namespace.into()).filter(|_| !namespace.is_empty());
        self
    }

    /// How long to wait. What is sent within that time may take as long as the client lets it.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Waits until `condition` holds of the object, `None` when it is not there, and gives the object of which it held.
    ///
    /// Watches that break are begun again, and versions that are too old are listed anew.
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

/// Reads events up to the first that meets the condition, which is the answer; `None` when they end before.
///
/// To wait for one thing after another, give it the same events again.
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

// === conditions ===

/// The object is there.
pub fn exists<K>() -> impl Fn(Option<&K>) -> bool + Send {
    |found| found.is_some()
}

/// The object is not there.
pub fn is_gone<K>() -> impl Fn(Option<&K>) -> bool + Send {
    |found| found.is_none()
}

/// This very object is not there; there may be another of the same name.
pub fn is_replaced<K: Object>(uid: impl Into<String>) -> impl Fn(Option<&K>) -> bool + Send {
    let uid = uid.into();
    move |found| found.is_none_or(|object| object.uid() != Some(&*uid))
}

/// The object has a condition of this type in its status with this value, `True`, and it is about the present generation,
/// where it says of which it is.
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

/// The field at a path of names, `["status", "phase"]`, has this value.
pub fn field<K: Serialize>(path: &[&str], value: impl Into<Value>) -> impl Fn(Option<&K>) -> bool + Send {
    let path: Vec<String> = path.iter().map(|&name| name.to_owned()).collect();
    let value = value.into();
    move |found| {
        let Some(object) = found else { return false };
        let object = as_json(object);
        path.iter().try_fold(&object, |at, name| at.get(name)) == Some(&value)
    }
}

/// An object that cannot be encoded has no fields.
fn as_json(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

#[cfg(test)]
mod tests;
