//! Waits for conditions on objects: driven by watches, with a timeout and a report of the last state.

use std::{fmt::Debug, future::Future, panic::Location, time::Duration};

use futures::StreamExt as _;
use serde_json::Value;
use tokio::time::{error::Elapsed, timeout};
use windlass_api::{ErrorChain, Object, ObjectRef, Resource};
use windlass_client::{Client, Error, Result};

/// The default timeout.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until conditions hold for objects, with a client.
///
/// Nothing is polled: the condition is checked after each change of the watched objects. States that lasted only for a
/// moment may be missed. With a paused clock, a wait ends as soon as nothing is left that could cause a change.
///
/// If the timeout expires, the methods panic at the caller's location. The message contains the expectation and the
/// last state of the object, without managedFields.
#[derive(Clone, Debug)]
#[must_use = "call a method such as `object` to wait"]
pub struct Expectations {
    client: Client,
    patience: Duration,
}

impl Expectations {
    /// Uses this client, which may belong to any cluster.
    pub const fn of(client: Client) -> Self {
        Self { client, patience: PATIENCE }
    }

    /// Sets the timeout, in tokio's time. Defaults to 30 s.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Waits until an object exists and the condition holds for it, and returns the object.
    #[track_caller]
    pub fn object<K: Resource>(
        self,
        key: impl Into<ObjectRef<K>>,
        condition: impl FnMut(&K) -> bool + Send,
    ) -> impl Future<Output = K> + Send {
        self.object_at(Location::caller(), key.into(), condition)
    }

    /// Waits until an object does not exist.
    #[track_caller]
    pub fn gone<K: Resource>(self, key: impl Into<ObjectRef<K>>) -> impl Future<Output = ()> + Send {
        self.gone_at(Location::caller(), key.into())
    }

    /// Waits until a condition holds for the list of all objects of a kind, in all namespaces, and returns them.
    #[track_caller]
    pub fn all<K: Resource>(self, condition: impl FnMut(&[K]) -> bool + Send) -> impl Future<Output = Vec<K>> + Send {
        self.all_at(Location::caller(), condition)
    }

    /// Watches an object until the timeout, and panics if the condition stops holding before that. The condition gets
    /// `None` while the object does not exist.
    #[track_caller]
    pub fn always<K: Resource>(
        self,
        key: impl Into<ObjectRef<K>>,
        mut condition: impl FnMut(Option<&K>) -> bool + Send,
    ) -> impl Future<Output = ()> + Send {
        let (caller, key, patience) = (Location::caller(), key.into(), self.patience);
        let what = format!("{} {}", K::api_resource().kind, key.key());
        async move {
            let broken = self.client.wait_for::<K>(key).until(|found| !condition(found));
            match timeout(patience, broken).await {
                Err(_) => {}
                Ok(Ok(found)) => {
                    fail(caller, &format!("the condition stopped holding for {what}"), &shown(found.as_ref()))
                }
                Ok(Err(error)) => fail(caller, &format!("watching {what}"), &ErrorChain(&error).to_string()),
            }
        }
    }

    pub(crate) fn object_at<K: Resource>(
        self,
        caller: &'static Location<'static>,
        key: ObjectRef<K>,
        mut condition: impl FnMut(&K) -> bool + Send,
    ) -> impl Future<Output = K> + Send {
        let what = format!("{} {}", K::api_resource().kind, key.key());
        async move {
            let mut last = None;
            let found = self.client.wait_for::<K>(key).until(|found| {
                last = found.cloned();
                found.is_some_and(&mut condition)
            });
            match within(self.patience, found).await {
                Ok(Some(object)) => object,
                outcome => fail(caller, &unmet(&what, self.patience, outcome.err().flatten()), &shown(last.as_ref())),
            }
        }
    }

    pub(crate) fn gone_at<K: Resource>(
        self,
        caller: &'static Location<'static>,
        key: ObjectRef<K>,
    ) -> impl Future<Output = ()> + Send {
        let what = format!("{} {}, which should be deleted,", K::api_resource().kind, key.key());
        async move {
            let mut last: Option<K> = None;
            let gone = self.client.wait_for::<K>(key).until(|found| {
                last = found.cloned();
                found.is_none()
            });
            if let Err(error) = within(self.patience, gone).await {
                fail(caller, &unmet(&what, self.patience, error), &shown(last.as_ref()));
            }
        }
    }

    pub(crate) async fn all_at<K: Resource>(
        self,
        caller: &'static Location<'static>,
        mut condition: impl FnMut(&[K]) -> bool + Send,
    ) -> Vec<K> {
        let mut last = Vec::new();
        let found = async {
            loop {
                let list = self.client.list::<K>().await?;
                last = list.items;
                if condition(&last) {
                    return Ok(());
                }
                // Any event is a reason to check again.
                let version = list.metadata.resource_version;
                let mut events = self.client.watch::<K>().resource_version(version.as_str()).retrying();
                match events.next().await {
                    Some(Err(error)) if !error.is_expired() => return Err(error),
                    _ => {}
                }
            }
        };
        if let Err(error) = within(self.patience, found).await {
            let states: Vec<_> = last.iter().map(|object| shown(Some(object))).collect();
            let what = format!("all {}", K::api_resource().plural);
            fail(caller, &unmet(&what, self.patience, error), &format!("[{}]", states.join(",\n")));
        }
        last
    }
}

/// Runs a future with a timeout. Returns `Err(None)` if the timeout expires.
async fn within<T>(
    patience: Duration,
    found: impl Future<Output = Result<T>>,
) -> std::result::Result<T, Option<Error>> {
    timeout(patience, found).await.map_err(|_: Elapsed| None)?.map_err(Some)
}

fn unmet(what: &str, patience: Duration, error: Option<Error>) -> String {
    match error {
        None => format!("{what} did not reach the expected state within {patience:?}"),
        Some(error) => format!("waiting for {what} has failed: {}", ErrorChain(&error)),
    }
}

/// Formats the state of an object for a panic message.
fn shown<K: Object>(object: Option<&K>) -> String {
    let Some(object) = object else { return "it does not exist".to_owned() };
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    format!("{value:#}")
}

#[allow(clippy::panic, reason = "a failed expectation fails the test at the caller's location")]
fn fail(caller: &Location<'_>, what: &str, last: &str) -> ! {
    panic!("{caller}: {what}; last seen: {last}")
}
